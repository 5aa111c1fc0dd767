// SPDX-License-Identifier: Apache-2.0
// What the events add up to, before phases are known: counts per run, per op and per cell (op,
// stack, size bin, domain). Memory grows with the distinct cells, and with the logarithm of the
// runs where their values change, not with the events; only runs and op spans keep raw samples,
// because percentiles come from those: some hundred bytes a run, two or three a span.
#ifndef OPMETER_PROFILER_ANALYZE_LEDGER_H_
#define OPMETER_PROFILER_ANALYZE_LEDGER_H_

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "profiler/analyze/cells.h"
#include "profiler/analyze/run_samples.h"
#include "profiler/analyze/run_series.h"
#include "reports/model.h"

namespace opmeter::analyze {

using reports::Counts;
using reports::Domain;
using reports::DomainCounts;
using reports::kDomains;

/// Op ids of the trace, and what is no op of the trace.
inline constexpr uint32_t kUnnamedOp = 0;
inline constexpr uint32_t kExecutorOp = UINT32_MAX - 1;
inline constexpr uint32_t kOutsideOp = UINT32_MAX;
/// Index of "no graph": outside runs.
inline constexpr uint32_t kNoGraph = UINT32_MAX;

/// What one slot is charged with in one period.
struct Charges {
  DomainCounts counts{};
  std::array<uint64_t, kDomains> largest{};
  uint64_t call_ns = 0;  ///< in heap calls, where they were timed
};

/// One op inside the runs of one graph, or (graph = kNoGraph) outside runs.
struct Slot {
  uint32_t op = kOutsideOp;
  uint32_t graph = kNoGraph;  ///< index
  uint32_t local = 0;         ///< index among the slots of the graph
  Charges load, outside;
  std::array<CountSeries, kDomains> in_runs;
  std::array<uint64_t, kDomains> largest{};  ///< in runs
  uint64_t workspace_growth_bytes = 0;
  RunSamples self, inclusive, kernel, device;
  RunSamples faults;   ///< minor faults of each execution, where they were recorded
  RunSamples call_ns;  ///< per run, where calls were timed

  /// One execution of the op. `inclusive` stays empty until it differs from `self`.
  void add_span(uint32_t run, uint64_t self_ns, uint64_t inclusive_ns) {
    if (inclusive.empty() && self_ns != inclusive_ns) inclusive = self;
    self.add(run, self_ns);
    if (self_ns != inclusive_ns || !inclusive.empty()) inclusive.add(run, inclusive_ns);
  }
  const RunSamples& inclusive_samples() const { return inclusive.empty() ? self : inclusive; }
};

/// What stays of a run.
struct RunRecord {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  uint64_t gap_ns = 0;  ///< outside top-level op spans
  uint64_t live_end_bytes = 0;
  uint64_t heap_calls = 0;
  std::array<uint64_t, kDomains> largest{};
  uint64_t events = 0;                   ///< of the run's own thread
  uint64_t call_ns = 0;                  ///< in heap calls of every thread that worked for it
  std::optional<uint64_t> minor_faults;  ///< of the process
  uint32_t epoch = 0;                    ///< the first run of its epoch (run_series.h)
  uint16_t hint = 0;                     ///< OPM_PHASE_*
  bool ended = false;                    ///< its end was seen
  bool exact = true;                     ///< no event of its thread was lost
  uint64_t latency_ns() const { return end_ns - begin_ns; }
  bool measured() const { return ended && exact; }
};

/// One graph, that is one model as loaded once.
struct GraphLedger {
  uint32_t id = 0;
  std::vector<uint32_t> slots;  ///< by Slot::local
  std::deque<RunRecord> runs;   ///< run number n at [n - 1]
  uint32_t epoch_begin = 1;     ///< a run that must not share an epoch with those before
  std::array<CountSeries, kDomains> in_runs;
  uint32_t executor_slot = 0;
};

/// What one thread allocated.
struct ThreadLedger {
  using Tallies = std::array<Tally, kDomains>;
  /// In the runs of one graph.
  struct InRuns {
    uint32_t epoch = 0;  ///< that `current` belongs to
    Tallies current{};
    RunSeries<Tallies> series;
    void settle(uint32_t next_epoch = 0) {
      if (epoch != 0) series.add(epoch, current);
      epoch = next_epoch;
      current = {};
    }
  };

  uint32_t id = 0;
  bool began_run = false;
  bool attached = false;
  Tallies idle{};             ///< outside runs
  std::deque<InRuns> graphs;  ///< by graph index

  Tallies& in_epoch(uint32_t graph, uint32_t epoch) {
    if (graph >= graphs.size()) graphs.resize(graph + 1);
    InRuns& runs = graphs[graph];
    if (runs.epoch != epoch) runs.settle(epoch);
    return runs.current;
  }
};

/// Everything that the events of a trace add up to.
struct Ledger {
  std::deque<Slot> slots;
  std::deque<GraphLedger> graphs;
  CellTable cells;
  std::deque<ThreadLedger> threads;
  std::deque<std::pair<uint32_t, uint32_t>> runs_in_order;  ///< (graph index, run number)

  std::array<uint64_t, kDomains> live_bytes{};
  std::array<uint64_t, kDomains> peak_bytes{};
  uint64_t largest_bytes = 0;  ///< heap
  uint32_t largest_slot = 0, largest_stack = 0;
  uint64_t temporary_calls = 0;
  uint64_t freed_unknown = 0;
  uint64_t reused_addresses = 0;
  uint64_t forbidden_calls = 0;
  std::unordered_map<uint32_t, uint64_t> forbidden_by_stack;
  uint64_t inferred_context = 0;
  uint64_t lost_events = 0;
  uint64_t gaps = 0;   ///< places where an unknown number of a thread's events is missing
  bool timed = false;  ///< some heap call tells how long it took
  uint64_t events = 0;
  uint64_t first_ns = 0, last_ns = 0;

  struct Growth {
    std::vector<uint64_t> bytes;  ///< the first ones in order
    uint64_t calls = 0, sum = 0;
  };
  std::array<Growth, kDomains> growth;  ///< by the pool's domain
  std::vector<reports::TimelinePoint> timeline;
};

}  // namespace opmeter::analyze

#endif  // OPMETER_PROFILER_ANALYZE_LEDGER_H_
