// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/analyze.h"

#include <algorithm>

#include "profiler/analyze/collector.h"
#include "profiler/analyze/fold.h"
#include "profiler/analyze/ops.h"
#include "profiler/analyze/stacks.h"

namespace opmeter::analyze {
namespace {

reports::Report report_of(Collector& collector, const trace::Definitions& definitions,
                          const trace::TraceQuality& quality, const SizeBins& bins,
                          const AnalyzeOptions& options) {
  reports::Report report = fold(collector.finish(), definitions, quality, bins, options);
  resolve_stacks(definitions, options, report);
  return report;
}

}  // namespace

Result<reports::Report> analyze(const trace::TraceReader& reader, const AnalyzeOptions& options) {
  const trace::TraceQuality& quality = reader.quality();
  if (quality.events == 0 && (quality.damaged_blocks > 0 || !quality.complete)) {
    const std::string name = options.trace_path.empty() ? "the trace" : options.trace_path;
    return input_error(name + ": holds no readable event" +
                       (quality.note.empty() ? "" : " (" + quality.note + ")"));
  }
  const SizeBins bins(options.bins);
  Collector collector(reader.definitions(), bins, options.warmup);
  trace::EventStream events = reader.events();
  // Threads that take turns give batches of few events: they are joined, because the collector
  // needs some to look ahead.
  constexpr size_t kFew = 64, kMany = 512;
  std::vector<trace::Event> joined;
  uint64_t done = 0;
  for (auto batch = events.next_batch(); !batch.empty(); batch = events.next_batch()) {
    done += batch.size();
    if (batch.size() < kFew) {
      joined.insert(joined.end(), batch.begin(), batch.end());
      if (joined.size() < kMany) continue;
      batch = joined;
    } else {
      collector.add(joined);
      joined.clear();
    }
    collector.add(batch);
    if (batch.data() == joined.data()) joined.clear();
    if (options.progress) options.progress(done, quality.events);
  }
  collector.add(joined);
  return report_of(collector, reader.definitions(), quality, bins, options);
}

reports::Report analyze_events(const trace::Definitions& definitions,
                               const trace::TraceQuality& quality,
                               const std::function<bool(trace::Event&)>& next,
                               const AnalyzeOptions& options) {
  const SizeBins bins(options.bins);
  Collector collector(definitions, bins, options.warmup);
  std::vector<trace::Event> batch;
  bool more = true;
  while (more) {
    batch.clear();
    while (batch.size() < 1000 && (more = next(batch.emplace_back()))) {
    }
    if (!more) batch.pop_back();
    collector.add(batch);
  }
  return report_of(collector, definitions, quality, bins, options);
}

reports::TraceInfo describe(const trace::TraceReader& reader, const std::string& path) {
  const trace::Definitions& definitions = reader.definitions();
  const trace::TraceQuality& quality = reader.quality();
  reports::TraceInfo info;
  info.path = path;
  info.version_major = reader.version_major();
  info.version_minor = reader.version_minor();
  info.file_bytes = quality.file_bytes;
  info.events = quality.events;
  if (!definitions.clocks.empty()) {
    const auto earlier = [](const auto& a, const auto& b) {
      return a.monotonic_ns < b.monotonic_ns;
    };
    const auto [first, last] =
        std::minmax_element(definitions.clocks.begin(), definitions.clocks.end(), earlier);
    info.duration_ns = last->monotonic_ns - first->monotonic_ns;
  }
  info.started_at = started_at(definitions);
  info.command = definitions.command;
  info.info = definitions.info;
  for (const auto& [id, thread] : definitions.threads) {
    info.threads.push_back({id, thread.tid, thread.name});
  }
  for (const auto& [id, module] : definitions.modules) {
    info.modules.push_back({module.path, module.build_id, module.last_epoch != UINT32_MAX});
  }
  info.stacks = definitions.stacks.size();
  for (const auto& [id, stack] : definitions.stacks) info.cut_stacks += stack.cut ? 1 : 0;
  info.graphs = definitions.graphs.size();
  info.ops = definitions.ops.size();
  info.pools = definitions.pools.size();
  info.marks = definitions.marks.size();
  info.lost_events = quality.lost_events;
  info.damaged_blocks = quality.damaged_blocks;
  info.complete = quality.complete;
  info.note = quality.note;
  if (quality.overhead_samples > 0) {
    info.overhead_per_event_ns = static_cast<double>(quality.overhead_ticks) /
                                 static_cast<double>(quality.overhead_samples) *
                                 quality.ns_per_tick;
  }
  return info;
}

}  // namespace opmeter::analyze
