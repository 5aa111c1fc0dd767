// SPDX-License-Identifier: Apache-2.0
// trace -> Report: one pass over the events, then phases, sums and symbols. The report's meanings
// are those of interfaces.md (runs, phases, domains, counting); its sums agree whatever the view
// (invariants.h).
#ifndef OPMETER_PROFILER_ANALYZE_ANALYZE_H_
#define OPMETER_PROFILER_ANALYZE_ANALYZE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "opmeter/result.h"
#include "profiler/trace/event.h"
#include "profiler/trace/reader.h"
#include "reports/info.h"
#include "reports/model.h"

namespace opmeter::analyze {

struct AnalyzeOptions {
  std::vector<uint64_t> bins;  ///< edges of size bins (parse_size_bins); empty: powers of two
  size_t top = 20;             ///< stacks kept per ranking (bytes, first run, steady) without `all`
  bool all = false;            ///< every stack, everywhere: the report's sums hold
  std::optional<uint64_t>
      warmup;             ///< so many runs of each graph, the first included, are no steady state
  bool symbolize = true;  ///< false: frames are module+offset
  std::vector<std::string> debug_dirs = {"/usr/lib/debug"};
  std::string trace_path;  ///< for Report::context
  /// Called now and then with how many of the trace's events are done; may be empty.
  std::function<void(uint64_t done, uint64_t of)> progress;
};

/// Analyses a whole trace. Damage is no error: Report::quality tells it. Error kInput when the
/// trace holds no readable event and is damaged.
Result<reports::Report> analyze(const trace::TraceReader& reader,
                                const AnalyzeOptions& options = {});

/// The same over any source of events in order of time: next(event) fills it or returns false.
/// `definitions` must hold everything the events name.
reports::Report analyze_events(const trace::Definitions& definitions,
                               const trace::TraceQuality& quality,
                               const std::function<bool(trace::Event&)>& next,
                               const AnalyzeOptions& options = {});

/// Facts about a trace file, without analysing it (`opmeter info`).
reports::TraceInfo describe(const trace::TraceReader& reader, const std::string& path);

}  // namespace opmeter::analyze

#endif  // OPMETER_PROFILER_ANALYZE_ANALYZE_H_
