// SPDX-License-Identifier: Apache-2.0
// Ledger -> Report: decides the phase of every run, then adds up what belongs together. Pure: no
// files, no clock. Frames of stacks are filled in afterwards (stacks.h).
#ifndef OPMETER_PROFILER_ANALYZE_FOLD_H_
#define OPMETER_PROFILER_ANALYZE_FOLD_H_

#include <deque>
#include <vector>

#include "profiler/analyze/analyze.h"
#include "profiler/analyze/ledger.h"
#include "profiler/analyze/sizes.h"
#include "reports/model.h"

namespace opmeter::analyze {

/// The phase of each run of a graph, and how it was found.
struct RunPhases {
  std::vector<reports::Phase> phases;  ///< run n at [n - 1]
  bool detected = false;               ///< some run's phase was found by detect_warmup
  bool never_steady = false;
};

/// Run 1 is first. Then in this order: runs that did not end are warm-up; `warmup` given by the
/// user; OPM_PHASE_* hints; the rest is detected. A phase ends with an epoch (run_series.h): a
/// detected warm-up of more than 255 runs is prolonged by up to an eighth.
RunPhases decide_phases(const std::deque<RunRecord>& runs, std::optional<uint64_t> warmup);

reports::Report fold(const Ledger& ledger, const trace::Definitions& definitions,
                     const trace::TraceQuality& quality, const SizeBins& bins,
                     const AnalyzeOptions& options);

}  // namespace opmeter::analyze

#endif  // OPMETER_PROFILER_ANALYZE_FOLD_H_
