// SPDX-License-Identifier: Apache-2.0
// Allocations by cell: op, stack, size bin and domain at once, which is the finest question that a
// report answers. Every allocation of a trace lands here, so what changes with each of them stands
// in the hash table itself, two entries to a cache line; what changes once a run stands apart.
#ifndef OPMETER_PROFILER_ANALYZE_CELLS_H_
#define OPMETER_PROFILER_ANALYZE_CELLS_H_

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "profiler/analyze/huge_pages.h"
#include "profiler/analyze/run_series.h"
#include "reports/model.h"

namespace opmeter::analyze {

/// When something happened, as far as one slot can tell: the epoch of the run (run_series.h), or
/// one of these. Outside runs the phase is known at once.
enum Period : uint32_t {
  kNoPeriod = 0,
  kLoadPeriod = UINT32_MAX - 1,  ///< before the first run
  kOutsidePeriod = UINT32_MAX,   ///< after it, but in no run
};

struct Tally {
  uint64_t calls = 0, bytes = 0;
  friend bool operator==(const Tally&, const Tally&) = default;
  Tally& operator+=(const Tally& more) {
    calls += more.calls;
    bytes += more.bytes;
    return *this;
  }
};

/// A tally by period, of which the current one is still being added to.
struct PeriodTally {
  Tally load, outside;
  RunSeries<Tally> in_runs;

  void add(uint32_t period, const Tally& tally) {
    if (period == kLoadPeriod) {
      load += tally;
    } else if (period == kOutsidePeriod) {
      outside += tally;
    } else if (period != kNoPeriod) {
      in_runs.add(period, tally);
    }
  }
};

/// Allocations of one size bin from one stack in one op.
struct Cell {
  uint32_t slot = 0;
  uint32_t stack = 0;
  uint16_t bin = 0;
  reports::Domain domain{};
  PeriodTally tally;
  uint64_t growth_calls = 0;  ///< backing a request of a pool that keeps what it gets
  uint64_t miss_calls = 0;    ///< backing a request of a pool that keeps nothing
  uint64_t call_ns = 0;       ///< spent in these calls, where they were timed
};

/// Cells by (slot, stack, bin, domain), in order of their first allocation.
class CellTable {
 public:
  CellTable() { reset(kFirstBits); }

  /// Counts `calls` allocations of `bytes` each; returns which cell they are in.
  [[gnu::always_inline]] uint32_t add(uint32_t slot, uint32_t stack, uint16_t bin,
                                      reports::Domain domain, uint32_t period, uint32_t calls,
                                      uint64_t bytes) {
    Entry& entry = at(slot, stack, bin, domain);
    if (entry.period != period || entry.calls > UINT32_MAX - calls) {
      settle(entry);
      entry.period = period;
    }
    entry.calls += calls;
    entry.bytes += calls * bytes;
    return entry.cell;
  }

  /// For what is rarer than counting. Its tally lacks the current period until settle().
  Cell& cell(uint32_t index) { return cells_[index]; }

  /// Brings the line of a cell that will be asked for soon. A hint: any arguments are right.
  [[gnu::always_inline]] void prefetch(uint32_t slot, uint32_t stack, uint16_t bin,
                                       reports::Domain domain) const {
    __builtin_prefetch(&entries_[hash(slot, stack, bin, domain) >> shift_], 1);
  }

  /// Moves what the current periods have into the cells.
  void settle() {
    for (Entry& entry : entries_) {
      if (entry.cell != kFree) settle(entry);
    }
  }

  const std::deque<Cell>& cells() const { return cells_; }

 private:
  static constexpr int kFirstBits = 12;
  static constexpr uint32_t kFree = UINT32_MAX;

  struct alignas(32) Entry {
    uint32_t slot = 0;
    uint32_t stack = 0;
    uint16_t bin = 0;
    reports::Domain domain{};
    uint32_t cell = kFree;
    uint32_t period = kNoPeriod;
    uint32_t calls = 0;  ///< of the period
    uint64_t bytes = 0;
  };
  static_assert(sizeof(Entry) == 32);
  using Entries = std::vector<Entry, HugePages<Entry>>;

  static uint64_t hash(uint32_t slot, uint32_t stack, uint16_t bin, reports::Domain domain) {
    const uint64_t place = uint64_t{slot} << 32 | stack;
    const uint64_t kind = uint64_t{bin} << 3 | static_cast<uint64_t>(domain);
    // The high bits of the product are well mixed although the numbers are small and dense.
    return (place ^ kind * 0xff51afd7ed558ccdULL) * 0x9e3779b97f4a7c15ULL;
  }

  [[gnu::always_inline]] Entry& at(uint32_t slot, uint32_t stack, uint16_t bin,
                                   reports::Domain domain) {
    Entry* entry = &entries_[hash(slot, stack, bin, domain) >> shift_];
    while (entry->stack != stack || entry->slot != slot || entry->bin != bin ||
           entry->domain != domain) {
      if (entry->cell == kFree) return create(*entry, slot, stack, bin, domain);
      entry = entry == entries_.data() + mask_ ? entries_.data() : entry + 1;
    }
    return entry->cell == kFree ? create(*entry, slot, stack, bin, domain) : *entry;
  }

  [[gnu::noinline]] Entry& create(Entry& free, uint32_t slot, uint32_t stack, uint16_t bin,
                                  reports::Domain domain) {
    if ((cells_.size() + 1) * 2 > entries_.size()) {
      grow();
      return at(slot, stack, bin, domain);
    }
    Cell& cell = cells_.emplace_back();
    cell.slot = slot;
    cell.stack = stack;
    cell.bin = bin;
    cell.domain = domain;
    free = {.slot = slot,
            .stack = stack,
            .bin = bin,
            .domain = domain,
            .cell = static_cast<uint32_t>(cells_.size() - 1)};
    return free;
  }

  [[gnu::noinline]] void settle(Entry& entry) {
    if (entry.calls != 0) cells_[entry.cell].tally.add(entry.period, {entry.calls, entry.bytes});
    entry.calls = 0;
    entry.bytes = 0;
  }

  void reset(int bits) {
    entries_.assign(size_t{1} << bits, Entry{});
    mask_ = entries_.size() - 1;
    shift_ = 64 - bits;
  }

  [[gnu::noinline]] void grow() {
    Entries old;
    old.swap(entries_);
    reset(64 - shift_ + 1);
    for (const Entry& entry : old) {
      if (entry.cell == kFree) continue;
      size_t i = hash(entry.slot, entry.stack, entry.bin, entry.domain) >> shift_;
      while (entries_[i].cell != kFree) i = (i + 1) & mask_;
      entries_[i] = entry;
    }
  }

  Entries entries_;
  std::deque<Cell> cells_;
  size_t mask_ = 0;
  int shift_ = 0;
};

}  // namespace opmeter::analyze

#endif  // OPMETER_PROFILER_ANALYZE_CELLS_H_
