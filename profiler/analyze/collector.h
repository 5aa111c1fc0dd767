// SPDX-License-Identifier: Apache-2.0
// The one pass over the events of a trace: follows contexts and live blocks, charges every
// allocation to its op and run, and adds up a Ledger. Phases are not known here; fold.h turns the
// Ledger into a Report. The counting rules are those of interfaces.md, section 1 ("Counting").
#ifndef OPMETER_PROFILER_ANALYZE_COLLECTOR_H_
#define OPMETER_PROFILER_ANALYZE_COLLECTOR_H_

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "profiler/analyze/context.h"
#include "profiler/analyze/ledger.h"
#include "profiler/analyze/live_blocks.h"
#include "profiler/analyze/sizes.h"
#include "profiler/analyze/timeline.h"
#include "profiler/trace/event.h"

namespace opmeter::analyze {

/// Feed it the events in order of time, then take the ledger. Definitions must outlive it. Damaged
/// input (unknown ids, unbalanced scopes, impossible addresses) gives numbers, never undefined
/// behaviour.
class Collector {
 public:
  Collector(const trace::Definitions& definitions, const SizeBins& bins);

  void add(const trace::Event& event);
  /// Ends what is still open and hands the ledger over. Call once.
  Ledger finish();

 private:
  /// Whom an event is charged to. run null = outside runs.
  struct Place {
    OpenRun* run = nullptr;
    uint32_t slot = 0;
  };

  ThreadState& thread(uint32_t id);
  uint32_t graph_index(uint32_t id);
  uint32_t slot_of(uint32_t op, uint32_t graph);
  OpenRun* open_run(uint64_t id);
  OpenRun* lent_run(const ThreadState& t) const;
  uint32_t graph_of(const ThreadState& t) const;
  Place locate(ThreadState& t);
  uint32_t innermost_slot(const OpenRun& run) const;
  Domain pool_domain(uint32_t pool) const;

  void begin_run(ThreadState& t, uint64_t id, uint32_t graph_id, uint16_t hint, uint64_t now,
                 bool exact);
  void end_run(OpenRun& run, uint64_t now, bool seen);
  void push_op(ThreadState& t, uint32_t op, uint64_t now, bool exact);
  void pop_op(ThreadState& t, uint64_t now);
  void attach(ThreadState& t, uint64_t run_id, uint32_t op);
  void drop_scopes(ThreadState& t, uint64_t now);
  void resync(ThreadState& t, const trace::Event& event);
  void replace_process(uint64_t now);

  void allocation(ThreadState& t, const Place& place, Domain domain, const trace::Event& event);
  void failure(const Place& place, Domain domain);
  void release(const Place& place, Domain domain);
  Counts& idle_counts(const Place& place, Domain domain);
  void grow_live(Domain domain, uint64_t bytes);
  void shrink_live(Domain domain, uint64_t bytes);
  void insert_block(Domain domain, const LiveBlock& block);
  void heap_alloc(ThreadState& t, const trace::Event& event);
  void heap_free(ThreadState& t, const trace::Event& event);
  void free_block(const Place& place, Domain domain, const LiveBlock& block);
  void realloc_begin(ThreadState& t, const trace::Event& event);
  void realloc_end(ThreadState& t, const trace::Event& event);
  void give_up_realloc(ThreadState& t);
  void pool_alloc(ThreadState& t, const trace::Event& event);
  void pool_free(ThreadState& t, const trace::Event& event);

  const trace::Definitions& definitions_;
  const SizeBins& bins_;
  Ledger ledger_;
  LiveBlocks live_;
  Timeline timeline_;

  std::vector<std::unique_ptr<ThreadState>> threads_;
  std::vector<ThreadState*> small_ids_;  // by thread id
  std::unordered_map<uint32_t, ThreadState*> large_ids_;
  std::unordered_map<uint32_t, uint32_t> graph_ids_;
  std::unordered_map<uint64_t, uint32_t> slot_ids_;  // (graph index, op)
  std::vector<std::unique_ptr<OpenRun>> run_objects_;
  std::vector<OpenRun*> free_runs_;
  std::vector<OpenRun*> open_runs_;
  std::vector<ThreadState*> reallocating_;
  std::vector<Domain> pool_domains_;  // by pool id, small ids
  uint32_t outside_slot_ = 0;
  uint32_t serial_ = 0;
  bool any_run_ = false;
  uint64_t now_ns_ = 0;

  struct Span {
    uint32_t slot = 0;
    uint32_t run = 0;
    uint64_t begin_ns = 0;
    bool on_stream = false;
  };
  std::unordered_map<uint64_t, Span> spans_;
};

}  // namespace opmeter::analyze

#endif  // OPMETER_PROFILER_ANALYZE_COLLECTOR_H_
