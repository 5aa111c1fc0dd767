// SPDX-License-Identifier: Apache-2.0
// Whose work a thread does at a moment: its open ops, its run, the run another thread lent it. The
// collector keeps one of these per thread while the events stream by.
#ifndef OPMETER_PROFILER_ANALYZE_CONTEXT_H_
#define OPMETER_PROFILER_ANALYZE_CONTEXT_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "profiler/analyze/ledger.h"
#include "profiler/analyze/live_blocks.h"

namespace opmeter::analyze {

struct ThreadState;

/// A run between its begin and its end. The objects are reused, so whoever keeps a pointer compares
/// the serial.
struct OpenRun {
  uint64_t id = 0;      ///< the trace's
  uint32_t serial = 0;  ///< ours, from 1; 0 = not open
  uint32_t graph = 0;   ///< index
  uint32_t number = 0;  ///< from 1 within the graph
  ThreadState* thread = nullptr;
  RunRecord record;
  uint64_t gap_since_ns = 0;      ///< when the last top-level op span ended
  std::deque<Charges> by_slot;    ///< by Slot::local; a deque: places keep pointers into it
  std::vector<uint32_t> touched;  ///< locals with charges
  std::vector<uint8_t> is_touched;
  uint32_t fault_readings = 0;  ///< of the process: right after its begin, right before its end
  uint64_t first_faults = 0, last_faults = 0;

  Charges& of(uint32_t local) {
    if (local >= by_slot.size()) {
      by_slot.resize(local + 1);
      is_touched.resize(local + 1);
    }
    if (is_touched[local] == 0) {
      is_touched[local] = 1;
      touched.push_back(local);
    }
    return by_slot[local];
  }
};

/// One pushed op.
struct OpFrame {
  uint32_t slot = 0;
  uint64_t begin_ns = 0;
  uint64_t children_ns = 0;
  uint64_t kernel_begin_ns = 0;
  uint64_t kernel_ns = 0;
  bool in_kernel = false;
  bool has_kernel = false;
  bool exact = true;  ///< its begin was seen
  bool has_faults = false;
  uint64_t faults_begin = 0;
  uint64_t children_faults = 0;
};

/// A context that another thread lent.
struct Loan {
  OpenRun* run = nullptr;
  uint32_t serial = 0;  ///< of the run when it was lent, 0 = a token taken outside runs
  bool stale = false;   ///< the token's run was not open
  uint32_t slot = 0;
  size_t base = 0;  ///< frames below belong to the thread's own work
};

/// A realloc between its two stamps.
struct PendingRealloc {
  std::optional<LiveBlock> old;
  uint64_t live_max = 0;  ///< highest live bytes meanwhile
};

/// Whom the heap events of a thread are charged to, until some thread's context changes.
struct Place {
  OpenRun* run = nullptr;  ///< null = outside runs
  uint32_t slot = 0;
  uint32_t period = kNoPeriod;
  uint32_t serial = 0;  ///< of the run
  bool inferred = false;
  Charges* charges = nullptr;
  ThreadLedger::Tallies* tallies = nullptr;
};

struct ThreadState {
  ThreadLedger* ledger = nullptr;
  Place place;
  uint64_t place_epoch = 0;  ///< Collector::epoch_ when `place` was right
  std::vector<OpFrame> frames;
  OpenRun* run = nullptr;  ///< begun by this thread
  size_t run_base = 0;     ///< frames below were pushed before the run began
  std::vector<Loan> loans;
  uint32_t forbid_depth = 0;
  std::optional<PendingRealloc> pending;
  uint64_t faults = 0;  ///< its minor faults at the last reading
};

}  // namespace opmeter::analyze

#endif  // OPMETER_PROFILER_ANALYZE_CONTEXT_H_
