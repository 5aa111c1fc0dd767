// SPDX-License-Identifier: Apache-2.0
// Where does warm-up end? A pure function over the runs of one graph. Runtimes differ (none, one or
// two runs of extra allocations; caches that settle later), so it is found, not assumed; and when
// the runs never settle, that is said.
#ifndef OPMETER_PROFILER_ANALYZE_WARMUP_H_
#define OPMETER_PROFILER_ANALYZE_WARMUP_H_

#include <cstdint>
#include <span>

namespace opmeter::analyze {

/// One run as the detection sees it.
struct WarmupSample {
  uint64_t latency_ns = 0;
  uint64_t alloc_calls = 0;
};

struct WarmupEnd {
  uint64_t warmup_runs = 0;   ///< that many of the given runs are warm-up, the rest is steady
  bool never_steady = false;  ///< the rest still shows a trend
};

/// Give the runs in order, without the first run. The rule:
///  1. Allocations: the later half of the runs shows the final level [min, max] of calls per run;
///     warm-up ends after the last run of the earlier half that lies outside it.
///  2. Latency (from 40 remaining runs on): medians of blocks of 10 runs; leading blocks above the
///     later half's largest block median by more than 5 % are warm-up too.
///  3. never_steady: the rest's block medians, or its calls per run, have a trend that Mann-Kendall
///     finds significant at 1 % and that moves the level by more than 5 %.
/// With few runs only rule 1 speaks: one run after the first is steady.
WarmupEnd detect_warmup(std::span<const WarmupSample> runs);

}  // namespace opmeter::analyze

#endif  // OPMETER_PROFILER_ANALYZE_WARMUP_H_
