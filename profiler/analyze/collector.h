// SPDX-License-Identifier: Apache-2.0
// The one pass over the events of a trace: follows contexts and live blocks, charges every
// allocation to its op and run, and adds up a Ledger. Phases are not known here; fold.h turns the
// Ledger into a Report. The counting rules are those of interfaces.md, section 1 ("Counting").
#ifndef OPMETER_PROFILER_ANALYZE_COLLECTOR_H_
#define OPMETER_PROFILER_ANALYZE_COLLECTOR_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "profiler/analyze/context.h"
#include "profiler/analyze/ledger.h"
#include "profiler/analyze/live_blocks.h"
#include "profiler/analyze/mapped_ranges.h"
#include "profiler/analyze/sampling.h"
#include "profiler/analyze/sizes.h"
#include "profiler/analyze/timeline.h"
#include "profiler/trace/event.h"

namespace opmeter::analyze {

/// Feed it the events in order of time, then take the ledger. Definitions must outlive it. Damaged
/// input (unknown ids, unbalanced scopes, impossible addresses) gives numbers, never undefined
/// behaviour.
class Collector {
 public:
  /// `warmup` as in AnalyzeOptions.
  Collector(const trace::Definitions& definitions, const SizeBins& bins,
            std::optional<uint64_t> warmup = std::nullopt);

  /// The next events: in batches, because what an event needs is brought into the cache while the
  /// ones before it are counted.
  void add(std::span<const trace::Event> events);
  /// Ends what is still open and hands the ledger over. Call once.
  Ledger finish();

 private:
  struct PoolTraits {
    Domain domain = Domain::kWorkspace;
    bool keeps_nothing = false;  ///< every request is an allocation of its own
  };

  ThreadState& thread(uint32_t id) {
    return id == last_thread_id_ && last_thread_ != nullptr ? *last_thread_ : find_thread(id);
  }
  ThreadState& find_thread(uint32_t id);
  uint32_t graph_index(uint32_t id);
  uint32_t slot_of(uint32_t op, uint32_t graph);
  OpenRun* open_run(uint64_t id);
  OpenRun* lent_run(const ThreadState& t) const;
  uint32_t graph_of(const ThreadState& t) const;
  const Place& place_of(ThreadState& t);
  void find_place(ThreadState& t);
  Place locate(ThreadState& t);
  uint32_t innermost_slot(const OpenRun& run) const;
  PoolTraits pool_traits(uint32_t pool) const;

  void begin_run(ThreadState& t, uint64_t id, uint32_t graph_id, uint16_t hint, uint64_t now,
                 bool exact);
  void end_run(OpenRun& run, uint64_t now, bool seen);
  void push_op(ThreadState& t, uint32_t op, uint64_t now, bool exact);
  void pop_op(ThreadState& t, uint64_t now);
  void attach(ThreadState& t, uint64_t run_id, uint32_t op);
  void drop_scopes(ThreadState& t, uint64_t now);
  void resync(ThreadState& t, const trace::Event& event);
  void replace_process(uint64_t now);

  void handle(ThreadState& t, const trace::Event& event);
  void change_context(ThreadState& t, const trace::Event& event, uint64_t now);
  void prefetch(const trace::Event& event) const;
  void allocation(ThreadState& t, const Place& place, Domain domain, const trace::Event& event,
                  uint32_t weight);
  void rare_facts(ThreadState& t, const Place& place, Domain domain, const trace::Event& event,
                  uint32_t weight, uint32_t cell);
  void failure(const Place& place, Domain domain);
  void release(const Place& place, Domain domain, uint64_t weight);
  /// A release of a block that the trace does not know: of a sample, none of those that it stands
  /// for; else itself.
  uint64_t unknown_free_weight() const { return sampling_.on() ? 0 : 1; }
  void count_unknown_free() {
    if (!sampling_.on() && !only_runs_) ++ledger_.freed_unknown;
  }
  void time_call(const Place& place, const trace::Event& event, uint64_t weight);
  void grow_live(Domain domain, uint64_t bytes);
  void shrink_live(Domain domain, uint64_t bytes);
  void insert_block(Domain domain, const LiveBlock& block);
  void read_faults(ThreadState& t, const trace::Event& event);
  void heap_alloc(ThreadState& t, const trace::Event& event);
  void heap_free(ThreadState& t, const trace::Event& event);
  void free_block(const Place& place, Domain domain, const LiveBlock& block);
  void realloc_begin(ThreadState& t, const trace::Event& event);
  void realloc_end(ThreadState& t, const trace::Event& event);
  void give_up_realloc(ThreadState& t);
  void pool_alloc(ThreadState& t, const trace::Event& event);
  void pool_free(ThreadState& t, const trace::Event& event);
  void map_alloc(ThreadState& t, const trace::Event& event);
  void map_free(ThreadState& t, const trace::Event& event);
  void span_start(ThreadState& t, const trace::Event& event, uint64_t now);
  void span_end(const trace::Event& event, uint64_t now);

  const trace::Definitions& definitions_;
  const SizeBins& bins_;
  std::optional<uint64_t> warmup_;
  Ledger ledger_;
  LiveBlocks live_;
  MappedRanges mapped_;
  Timeline timeline_;
  Sampling sampling_;
  bool only_runs_ = false;  ///< what happened outside runs was not recorded

  std::vector<std::unique_ptr<ThreadState>> threads_;
  std::vector<ThreadState*> small_ids_;  // by thread id
  std::unordered_map<uint32_t, ThreadState*> large_ids_;
  std::unordered_map<uint32_t, uint32_t> graph_ids_;
  std::unordered_map<uint64_t, uint32_t> slot_ids_;  // (graph index, op)
  std::vector<std::unique_ptr<OpenRun>> run_objects_;
  std::vector<OpenRun*> free_runs_;
  std::vector<OpenRun*> open_runs_;
  std::vector<ThreadState*> reallocating_;
  std::vector<PoolTraits> pools_;  // by pool id, small ids
  ThreadState* last_thread_ = nullptr;
  uint32_t last_thread_id_ = 0;
  uint32_t last_slot_ = 0;  // that something was charged to: a guess at the next one
  uint64_t epoch_ = 1;      // counts changes of any thread's context: places are right within one
  struct KnownSlot {
    uint64_t key = 0;
    uint32_t slot = UINT32_MAX;  ///< none known
  };
  std::array<KnownSlot, 256> known_slots_;  // of slot_ids_, by low bits of the op
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
