// SPDX-License-Identifier: Apache-2.0
// What the events add up to, before phases are known: counts per run, per op and per cell (op,
// stack, size bin, domain). Memory grows with the distinct cells and with the changes of their
// values from run to run, not with the events; only op spans keep one raw sample each, because
// percentiles come from raw samples.
#ifndef OPMETER_PROFILER_ANALYZE_LEDGER_H_
#define OPMETER_PROFILER_ANALYZE_LEDGER_H_

#include <array>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

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

/// Outside runs the phase is known at once: 0 = load, 1 = outside.
enum class Idle : uint8_t { kLoad = 0, kOutside = 1 };

struct Tally {
  uint64_t calls = 0, bytes = 0;
  friend bool operator==(const Tally&, const Tally&) = default;
};

/// One op inside the runs of one graph, or (graph = kNoGraph) outside runs.
struct Slot {
  uint32_t op = kOutsideOp;
  uint32_t graph = kNoGraph;  ///< index
  uint32_t local = 0;         ///< index among the slots of the graph
  std::array<DomainCounts, 2> idle{};
  std::array<RunSeries<Counts>, kDomains> in_runs;
  std::array<uint64_t, kDomains> largest{};
  uint64_t workspace_growth_bytes = 0;
  RunSamples self, inclusive, kernel, device;

  /// One execution of the op. `inclusive` stays empty until it differs from `self`.
  void add_span(uint32_t run, uint64_t self_ns, uint64_t inclusive_ns) {
    if (inclusive.empty() && self_ns != inclusive_ns) inclusive = self;
    self.add(run, self_ns);
    if (self_ns != inclusive_ns || !inclusive.empty()) inclusive.add(run, inclusive_ns);
  }
  const RunSamples& inclusive_samples() const { return inclusive.empty() ? self : inclusive; }
};

/// Allocations of one size bin from one stack in one op.
struct Cell {
  uint32_t slot = 0;
  uint32_t stack = 0;
  uint16_t bin = 0;
  Domain domain{};
  uint32_t run = 0;  ///< the run that `current` belongs to
  Tally current;
  std::array<Tally, 2> idle{};
  uint64_t growth_calls = 0;  ///< backing a request of a pool
  RunSeries<Tally> in_runs;

  void add_in_run(uint32_t number, uint64_t bytes) {
    if (run != number) settle(number);
    ++current.calls;
    current.bytes += bytes;
  }
  void settle(uint32_t next_run = 0) {
    if (run != 0) in_runs.add(run, current);
    run = next_run;
    current = {};
  }
};

/// Cells by (slot, stack, bin, domain): open addressing over indices.
class CellTable {
 public:
  CellTable() : index_(kFirstCapacity, 0) {}

  Cell& at(uint32_t slot, uint32_t stack, uint16_t bin, Domain domain) {
    const size_t mask = index_.size() - 1;
    size_t i = hash(slot, stack, bin, domain) & mask;
    for (; index_[i] != 0; i = (i + 1) & mask) {
      Cell& cell = cells_[index_[i] - 1];
      if (cell.stack == stack && cell.slot == slot && cell.bin == bin && cell.domain == domain) {
        return cell;
      }
    }
    cells_.push_back({});
    Cell& cell = cells_.back();
    cell.slot = slot;
    cell.stack = stack;
    cell.bin = bin;
    cell.domain = domain;
    index_[i] = static_cast<uint32_t>(cells_.size());
    if (cells_.size() * 2 > index_.size()) grow();
    return cell;
  }

  std::deque<Cell>& cells() { return cells_; }
  const std::deque<Cell>& cells() const { return cells_; }

 private:
  static constexpr size_t kFirstCapacity = 4096;

  static size_t hash(uint32_t slot, uint32_t stack, uint16_t bin, Domain domain) {
    uint64_t key = (uint64_t{slot} << 32 | stack) * 0x9e3779b97f4a7c15ULL;
    key ^= (uint64_t{bin} << 3 | static_cast<uint64_t>(domain)) * 0xff51afd7ed558ccdULL;
    return static_cast<size_t>(key ^ (key >> 29));
  }

  void grow() {
    index_.assign(index_.size() * 2, 0);
    const size_t mask = index_.size() - 1;
    for (size_t n = 0; n < cells_.size(); ++n) {
      const Cell& cell = cells_[n];
      size_t i = hash(cell.slot, cell.stack, cell.bin, cell.domain) & mask;
      while (index_[i] != 0) i = (i + 1) & mask;
      index_[i] = static_cast<uint32_t>(n + 1);
    }
  }

  std::vector<uint32_t> index_;  // 1 + index of the cell, 0 = free
  std::deque<Cell> cells_;
};

/// What stays of a run.
struct RunRecord {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  uint64_t gap_ns = 0;  ///< outside top-level op spans
  uint64_t live_end_bytes = 0;
  uint64_t heap_calls = 0;
  std::array<uint64_t, kDomains> largest{};
  uint64_t events = 0;  ///< of the run's own thread
  uint16_t hint = 0;    ///< OPM_PHASE_*
  bool ended = false;   ///< its end was seen
  bool exact = true;    ///< no event of its thread was lost
  uint64_t latency_ns() const { return end_ns - begin_ns; }
  bool measured() const { return ended && exact; }
};

/// One graph, that is one model as loaded once.
struct GraphLedger {
  uint32_t id = 0;
  std::vector<uint32_t> slots;  ///< by Slot::local
  std::vector<RunRecord> runs;  ///< run number n at [n - 1]
  RunSeries<DomainCounts> in_runs;
  uint32_t executor_slot = 0;
};

/// What one thread allocated.
struct ThreadLedger {
  using Tallies = std::array<Tally, kDomains>;
  /// In the runs of one graph.
  struct InRuns {
    uint32_t run = 0;  ///< the run that `current` belongs to
    Tallies current{};
    RunSeries<Tallies> series;
    void settle(uint32_t next_run = 0) {
      if (run != 0) series.add(run, current);
      run = next_run;
      current = {};
    }
  };

  uint32_t id = 0;
  bool began_run = false;
  bool attached = false;
  Tallies total{};
  std::deque<InRuns> graphs;  ///< by graph index

  void add(Domain domain, uint64_t bytes) {
    Tally& tally = total[static_cast<size_t>(domain)];
    ++tally.calls;
    tally.bytes += bytes;
  }
  void add_in_run(uint32_t graph, uint32_t number, Domain domain, uint64_t bytes) {
    if (graph >= graphs.size()) graphs.resize(graph + 1);
    InRuns& runs = graphs[graph];
    if (runs.run != number) runs.settle(number);
    Tally& tally = runs.current[static_cast<size_t>(domain)];
    ++tally.calls;
    tally.bytes += bytes;
  }
};

/// Everything that the events of a trace add up to.
struct Ledger {
  std::deque<Slot> slots;
  std::deque<GraphLedger> graphs;
  CellTable cells;
  std::array<DomainCounts, 2> idle{};
  std::deque<ThreadLedger> threads;
  std::vector<std::pair<uint32_t, uint32_t>> runs_in_order;  ///< (graph index, run number)

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
