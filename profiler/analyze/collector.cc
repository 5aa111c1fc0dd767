// SPDX-License-Identifier: Apache-2.0
// Over 500 lines because the one pass over the events is one place: a handler for each kind, sharing the threads' state.
#include "profiler/analyze/collector.h"

#include <algorithm>

#include "opmeter/opmeter.h"

namespace opmeter::analyze {

using trace::Event;
using trace::EventKind;

namespace {

constexpr uint32_t kHeapSpace = 0;
constexpr size_t kSmallIds = 1 << 16;
constexpr size_t kMostGrowthEntries = 10'000;
constexpr size_t kMostNesting = 1 << 16;  // damaged input must not eat the memory

/// Pools and the heap share one table of live blocks.
uint32_t pool_space(uint32_t pool) { return pool + 1 == 0 ? pool : pool + 1; }

size_t index(Domain domain) { return static_cast<size_t>(domain); }
size_t index(Idle idle) { return static_cast<size_t>(idle); }

Domain domain_of(int32_t opm_domain) {
  switch (opm_domain) {
    case OPM_DOMAIN_TENSOR:
      return Domain::kTensor;
    case OPM_DOMAIN_DEVICE:
      return Domain::kDevice;
    default:
      return Domain::kWorkspace;
  }
}

}  // namespace

Collector::Collector(const trace::Definitions& definitions, const SizeBins& bins)
    : definitions_(definitions), bins_(bins) {
  outside_slot_ = slot_of(kOutsideOp, kNoGraph);
  for (const auto& [id, pool] : definitions.pools) {
    if (id >= kSmallIds) break;
    if (id >= pool_domains_.size()) pool_domains_.resize(id + 1, Domain::kWorkspace);
    pool_domains_[id] = domain_of(pool.domain);
  }
}

// --- who is who
// -----------------------------------------------------------------------------------

ThreadState& Collector::thread(uint32_t id) {
  if (id < small_ids_.size() && small_ids_[id] != nullptr) return *small_ids_[id];
  if (id >= kSmallIds) {
    const auto found = large_ids_.find(id);
    if (found != large_ids_.end()) return *found->second;
  }
  threads_.push_back(std::make_unique<ThreadState>());
  ThreadState* created = threads_.back().get();
  ledger_.threads.push_back({});
  created->ledger = &ledger_.threads.back();
  created->ledger->id = id;
  if (id < kSmallIds) {
    if (id >= small_ids_.size()) small_ids_.resize(id + 1, nullptr);
    small_ids_[id] = created;
  } else {
    large_ids_[id] = created;
  }
  return *created;
}

uint32_t Collector::graph_index(uint32_t id) {
  const auto [found, added] =
      graph_ids_.try_emplace(id, static_cast<uint32_t>(ledger_.graphs.size()));
  if (added) {
    const uint32_t graph = found->second;
    ledger_.graphs.emplace_back().id = id;
    ledger_.graphs.back().executor_slot = slot_of(kExecutorOp, graph);
  }
  return found->second;
}

uint32_t Collector::slot_of(uint32_t op, uint32_t graph) {
  if (op == kExecutorOp && graph == kNoGraph) op = kOutsideOp;
  if (op == kOutsideOp && graph != kNoGraph) op = kExecutorOp;
  const uint64_t key = uint64_t{graph} << 32 | op;
  const auto [found, added] =
      slot_ids_.try_emplace(key, static_cast<uint32_t>(ledger_.slots.size()));
  if (added) {
    Slot& slot = ledger_.slots.emplace_back();
    slot.op = op;
    slot.graph = graph;
    if (graph != kNoGraph) {
      std::vector<uint32_t>& slots = ledger_.graphs[graph].slots;
      slot.local = static_cast<uint32_t>(slots.size());
      slots.push_back(found->second);
    }
  }
  return found->second;
}

OpenRun* Collector::open_run(uint64_t id) {
  if (id == 0) return nullptr;
  for (OpenRun* run : open_runs_) {
    if (run->id == id) return run;
  }
  return nullptr;
}

OpenRun* Collector::lent_run(const ThreadState& t) const {
  if (t.loans.empty()) return nullptr;
  const Loan& loan = t.loans.back();
  return loan.run != nullptr && loan.run->serial == loan.serial ? loan.run : nullptr;
}

uint32_t Collector::graph_of(const ThreadState& t) const {
  if (t.run != nullptr) return t.run->graph;
  const OpenRun* lent = lent_run(t);
  return lent != nullptr ? lent->graph : kNoGraph;
}

uint32_t Collector::innermost_slot(const OpenRun& run) const {
  const ThreadState& owner = *run.thread;
  return owner.frames.size() > owner.run_base ? owner.frames.back().slot
                                              : ledger_.graphs[run.graph].executor_slot;
}

Domain Collector::pool_domain(uint32_t pool) const {
  if (pool < pool_domains_.size()) return pool_domains_[pool];
  const auto found = definitions_.pools.find(pool);
  return found == definitions_.pools.end() ? Domain::kWorkspace : domain_of(found->second.domain);
}

/// The thread's own run; else the run it was lent; else the only open run, inferred; else outside.
Collector::Place Collector::locate(ThreadState& t) {
  if (t.run != nullptr) return {t.run, innermost_slot(*t.run)};
  if (!t.loans.empty()) {
    const Loan& loan = t.loans.back();
    OpenRun* run = lent_run(t);
    const bool current = run != nullptr || (loan.serial == 0 && !loan.stale);
    if (current) {
      uint32_t slot = t.frames.size() > loan.base ? t.frames.back().slot : loan.slot;
      const uint32_t graph = run != nullptr ? run->graph : kNoGraph;
      if (ledger_.slots[slot].graph != graph) slot = slot_of(ledger_.slots[slot].op, graph);
      return {run, slot};
    }
  }
  OpenRun* only = open_runs_.size() == 1 ? open_runs_.front() : nullptr;
  if (only != nullptr) ++ledger_.inferred_context;
  if (!t.frames.empty()) {
    uint32_t slot = t.frames.back().slot;
    const uint32_t graph = only != nullptr ? only->graph : kNoGraph;
    if (ledger_.slots[slot].graph != graph) slot = slot_of(ledger_.slots[slot].op, graph);
    return {only, slot};
  }
  if (only != nullptr) return {only, innermost_slot(*only)};
  return {nullptr, outside_slot_};
}

// --- scopes
// ---------------------------------------------------------------------------------------

void Collector::begin_run(ThreadState& t, uint64_t id, uint32_t graph_id, uint16_t hint,
                          uint64_t now, bool exact) {
  if (t.run != nullptr) end_run(*t.run, now, false);
  any_run_ = true;
  t.ledger->began_run = true;
  const uint32_t graph = graph_index(graph_id);
  if (free_runs_.empty()) {
    run_objects_.push_back(std::make_unique<OpenRun>());
    free_runs_.push_back(run_objects_.back().get());
  }
  OpenRun* run = free_runs_.back();
  free_runs_.pop_back();
  GraphLedger& ledger = ledger_.graphs[graph];
  ledger.runs.push_back({});
  run->id = id;
  run->serial = ++serial_;
  run->graph = graph;
  run->number = static_cast<uint32_t>(ledger.runs.size());
  run->thread = &t;
  run->record = {};
  run->record.begin_ns = now;
  run->record.end_ns = now;
  run->record.hint = hint;
  run->record.exact = exact;
  run->gap_since_ns = now;
  run->total = {};
  ledger_.runs_in_order.emplace_back(graph, run->number);
  open_runs_.push_back(run);
  t.run = run;
  t.run_base = t.frames.size();
}

void Collector::end_run(OpenRun& run, uint64_t now, bool seen) {
  ThreadState& t = *run.thread;
  if (t.frames.size() > t.run_base) run.record.exact = false;
  while (t.frames.size() > t.run_base) pop_op(t, now);
  run.record.end_ns = now;
  run.record.ended = seen;
  run.record.gap_ns += now - run.gap_since_ns;
  run.record.live_end_bytes = ledger_.live_bytes[index(Domain::kHeap)];
  run.record.heap_calls = run.total[index(Domain::kHeap)].calls;
  GraphLedger& graph = ledger_.graphs[run.graph];
  graph.runs[run.number - 1] = run.record;
  graph.in_runs.add(run.number, run.total);
  for (const uint32_t local : run.touched) {
    Slot& slot = ledger_.slots[graph.slots[local]];
    for (size_t d = 0; d < kDomains; ++d) {
      if (run.by_slot[local][d] != Counts{}) {
        slot.in_runs[d].add(run.number, run.by_slot[local][d]);
      }
    }
    run.by_slot[local] = {};
    run.is_touched[local] = 0;
  }
  run.touched.clear();
  run.serial = 0;
  run.id = 0;
  t.run = nullptr;
  t.run_base = 0;
  std::erase(open_runs_, &run);
  free_runs_.push_back(&run);
}

void Collector::push_op(ThreadState& t, uint32_t op, uint64_t now, bool exact) {
  if (t.frames.size() >= kMostNesting) return;
  if (t.run != nullptr && t.frames.size() == t.run_base) {
    t.run->record.gap_ns += now - t.run->gap_since_ns;
  }
  OpFrame frame;
  frame.slot = slot_of(op, graph_of(t));
  frame.begin_ns = now;
  frame.exact = exact;
  t.frames.push_back(frame);
}

void Collector::pop_op(ThreadState& t, uint64_t now) {
  // A pop without a push in this run must not close an op that encloses the run.
  const size_t base = t.run != nullptr ? t.run_base : 0;
  if (t.frames.size() <= base) return;
  OpFrame frame = t.frames.back();
  t.frames.pop_back();
  if (frame.in_kernel) {
    frame.kernel_ns += now - frame.kernel_begin_ns;
  }
  const uint64_t inclusive = now - frame.begin_ns;
  if (t.frames.size() > base) t.frames.back().children_ns += inclusive;
  if (t.run != nullptr && t.frames.size() == base) t.run->gap_since_ns = now;
  // Latency is that of the run's thread: what helpers do for an op runs beside it.
  if (!frame.exact || (t.run == nullptr && lent_run(t) != nullptr)) return;
  const uint32_t number = t.run != nullptr ? t.run->number : 0;
  Slot& slot = ledger_.slots[frame.slot];
  const uint32_t graph = t.run != nullptr ? t.run->graph : kNoGraph;
  if (slot.graph != graph) return;
  slot.add_span(number, inclusive - std::min(inclusive, frame.children_ns), inclusive);
  if (frame.has_kernel) slot.kernel.add(number, frame.kernel_ns);
}

void Collector::attach(ThreadState& t, uint64_t run_id, uint32_t op) {
  if (t.loans.size() >= kMostNesting) return;
  Loan loan;
  loan.run = open_run(run_id);
  loan.serial = loan.run != nullptr ? loan.run->serial : 0;
  loan.stale = run_id != 0 && loan.run == nullptr;
  const uint32_t graph = loan.run != nullptr ? loan.run->graph : kNoGraph;
  loan.slot = slot_of(op == 0 ? kExecutorOp : op, graph);
  loan.base = t.frames.size();
  t.loans.push_back(loan);
  t.ledger->attached = true;
}

/// The thread ended, or its scopes are unknown from now on.
void Collector::drop_scopes(ThreadState& t, uint64_t now) {
  if (t.run != nullptr) end_run(*t.run, now, false);
  t.frames.clear();
  t.loans.clear();
  t.forbid_depth = 0;
  give_up_realloc(t);
}

/// After lost events: the recorder tells the thread's context anew. A run that is still open stays
/// open, but its times are no longer exact.
void Collector::resync(ThreadState& t, const Event& event) {
  const uint64_t now = event.time_ns;
  OpenRun* named = open_run(event.run);
  if (t.run != nullptr && t.run != named) end_run(*t.run, now, false);
  for (OpFrame& frame : t.frames) frame.exact = false;
  if (t.run != nullptr) {
    t.run->record.exact = false;
    while (t.frames.size() > t.run_base) t.frames.pop_back();
    t.run->gap_since_ns = now;
  } else {
    t.frames.clear();
    t.loans.clear();
    if (named != nullptr) {
      attach(t, event.run, event.ref);
      return;
    }
    if (event.run != 0) {
      // Its begin was lost: the op tells the graph.
      const auto op = definitions_.ops.find(event.ref);
      begin_run(t, event.run, op == definitions_.ops.end() ? 0 : op->second.graph, 0, now, false);
    }
  }
  for (uint16_t depth = 0; depth < event.api; ++depth) push_op(t, event.ref, now, false);
}

void Collector::replace_process(uint64_t now) {
  for (const auto& t : threads_) drop_scopes(*t, now);
  live_.clear();
  spans_.clear();
  ledger_.live_bytes = {};
  timeline_.add(now, 0);
}

// --- counting
// -------------------------------------------------------------------------------------

void Collector::grow_live(Domain domain, uint64_t bytes) {
  uint64_t& live = ledger_.live_bytes[index(domain)];
  live += bytes;
  if (live > ledger_.peak_bytes[index(domain)]) ledger_.peak_bytes[index(domain)] = live;
  if (domain == Domain::kHeap) {
    timeline_.add(now_ns_, live);
    for (ThreadState* other : reallocating_) {
      other->pending->live_max = std::max(other->pending->live_max, live);
    }
  }
}

void Collector::shrink_live(Domain domain, uint64_t bytes) {
  uint64_t& live = ledger_.live_bytes[index(domain)];
  live -= std::min(live, bytes);
  if (domain == Domain::kHeap) timeline_.add(now_ns_, live);
}

void Collector::insert_block(Domain domain, const LiveBlock& block) {
  if (const auto replaced = live_.insert(block)) {
    ++ledger_.reused_addresses;
    shrink_live(domain, replaced->bytes);
  }
  grow_live(domain, block.bytes);
}

Counts& Collector::idle_counts(const Place& place, Domain domain) {
  return ledger_.slots[place.slot]
      .idle[index(any_run_ ? Idle::kOutside : Idle::kLoad)][index(domain)];
}

/// One allocation that succeeded: event.bytes from event.stack.
void Collector::allocation(ThreadState& t, const Place& place, Domain domain, const Event& event) {
  const uint64_t bytes = event.bytes;
  const size_t d = index(domain);
  const bool backing = (event.flags & trace::kBacking) != 0;
  Slot& slot = ledger_.slots[place.slot];
  const auto count = [&](Counts& counts) {
    ++counts.calls;
    counts.bytes += bytes;
    if (backing) {
      ++counts.backing_calls;
      counts.backing_bytes += bytes;
    }
  };
  Cell& cell = ledger_.cells.at(place.slot, event.stack, bins_.bin(bytes), domain);
  if (place.run != nullptr) {
    OpenRun& run = *place.run;
    count(run.total[d]);
    count(run.of(slot.local)[d]);
    cell.add_in_run(run.number, bytes);
    run.record.largest[d] = std::max(run.record.largest[d], bytes);
    t.ledger->add_in_run(run.graph, run.number, domain, bytes);
  } else {
    const size_t idle = index(any_run_ ? Idle::kOutside : Idle::kLoad);
    count(ledger_.idle[idle][d]);
    count(slot.idle[idle][d]);
    ++cell.idle[idle].calls;
    cell.idle[idle].bytes += bytes;
  }
  t.ledger->add(domain, bytes);
  slot.largest[d] = std::max(slot.largest[d], bytes);
  if (domain == Domain::kHeap) {
    if (bytes > ledger_.largest_bytes) {
      ledger_.largest_bytes = bytes;
      ledger_.largest_slot = place.slot;
      ledger_.largest_stack = event.stack;
    }
    if (t.forbid_depth > 0) {
      ++ledger_.forbidden_calls;
      ++ledger_.forbidden_by_stack[event.stack];
    }
  }
  if (backing) {
    ++cell.growth_calls;
    if (any_run_) {
      const Domain pool = pool_domain(event.ref);
      Ledger::Growth& growth = ledger_.growth[index(pool)];
      ++growth.calls;
      growth.sum += bytes;
      if (growth.bytes.size() < kMostGrowthEntries) growth.bytes.push_back(bytes);
      if (pool == Domain::kWorkspace) slot.workspace_growth_bytes += bytes;
    }
  }
}

void Collector::failure(const Place& place, Domain domain) {
  const size_t d = index(domain);
  if (place.run != nullptr) {
    ++place.run->total[d].failed;
    ++place.run->of(ledger_.slots[place.slot].local)[d].failed;
    return;
  }
  ++ledger_.idle[index(any_run_ ? Idle::kOutside : Idle::kLoad)][d].failed;
  ++idle_counts(place, domain).failed;
}

void Collector::release(const Place& place, Domain domain) {
  const size_t d = index(domain);
  if (place.run != nullptr) {
    ++place.run->total[d].frees;
    ++place.run->of(ledger_.slots[place.slot].local)[d].frees;
    return;
  }
  ++ledger_.idle[index(any_run_ ? Idle::kOutside : Idle::kLoad)][d].frees;
  ++idle_counts(place, domain).frees;
}

void Collector::free_block(const Place& place, Domain domain, const LiveBlock& block) {
  if (domain == Domain::kHeap && place.run != nullptr && block.run == place.run->serial) {
    ++ledger_.temporary_calls;
  }
  shrink_live(domain, block.bytes);
}

void Collector::heap_alloc(ThreadState& t, const Event& event) {
  const Place place = locate(t);
  if (event.address == 0) return failure(place, Domain::kHeap);
  allocation(t, place, Domain::kHeap, event);
  insert_block(Domain::kHeap, {event.address, event.bytes, kHeapSpace,
                               place.run != nullptr ? place.run->serial : 0});
}

void Collector::heap_free(ThreadState& t, const Event& event) {
  if (event.address == 0) return;
  const Place place = locate(t);
  release(place, Domain::kHeap);
  if (const auto block = live_.take(event.address, kHeapSpace)) {
    free_block(place, Domain::kHeap, *block);
  } else {
    ++ledger_.freed_unknown;
  }
}

/// From here on another thread may be given the old address, so the block leaves the table now; its
/// bytes stay live until the second stamp.
void Collector::realloc_begin(ThreadState& t, const Event& event) {
  give_up_realloc(t);
  PendingRealloc pending;
  if (event.old_address != 0) pending.old = live_.take(event.old_address, kHeapSpace);
  pending.live_max = ledger_.live_bytes[index(Domain::kHeap)];
  t.pending = pending;
  reallocating_.push_back(&t);
}

/// The second stamp never came (lost events, exit): the old block is as it was.
void Collector::give_up_realloc(ThreadState& t) {
  if (!t.pending) return;
  const PendingRealloc pending = *t.pending;
  t.pending.reset();
  std::erase(reallocating_, &t);
  if (!pending.old) return;
  if (const auto replaced = live_.insert(*pending.old)) {
    shrink_live(Domain::kHeap, replaced->bytes);
  }
}

void Collector::realloc_end(ThreadState& t, const Event& event) {
  const Place place = locate(t);
  if (event.address == 0) {
    failure(place, Domain::kHeap);
    return give_up_realloc(t);
  }
  std::optional<LiveBlock> old;
  if (t.pending) {
    old = t.pending->old;
    const uint64_t live_max = t.pending->live_max;
    t.pending.reset();
    std::erase(reallocating_, &t);
    if (event.address != event.old_address && event.old_address != 0) {
      // Both blocks existed at some moment between the stamps; take the worst one.
      uint64_t& peak = ledger_.peak_bytes[index(Domain::kHeap)];
      peak = std::max(peak, live_max + event.bytes);
    }
  } else if (event.old_address != 0) {
    old = live_.take(event.old_address, kHeapSpace);
  }
  allocation(t, place, Domain::kHeap, event);
  const LiveBlock block{event.address, event.bytes, kHeapSpace,
                        place.run != nullptr ? place.run->serial : 0};
  if (event.old_address != 0) {
    release(place, Domain::kHeap);
    if (!old) ++ledger_.freed_unknown;
  }
  // In place the two never coexist; after a move they did, so the new one is added first.
  const bool moved = event.address != event.old_address;
  if (old && !moved) free_block(place, Domain::kHeap, *old);
  insert_block(Domain::kHeap, block);
  if (old && moved) free_block(place, Domain::kHeap, *old);
}

void Collector::pool_alloc(ThreadState& t, const Event& event) {
  const Place place = locate(t);
  const Domain domain = pool_domain(event.ref);
  if (event.address == 0) return failure(place, domain);
  allocation(t, place, domain, event);
  insert_block(domain, {event.address, event.bytes, pool_space(event.ref),
                        place.run != nullptr ? place.run->serial : 0});
}

void Collector::pool_free(ThreadState& t, const Event& event) {
  if (event.address == 0) return;
  const Place place = locate(t);
  const Domain domain = pool_domain(event.ref);
  release(place, domain);
  if (const auto block = live_.take(event.address, pool_space(event.ref))) {
    free_block(place, domain, *block);
  }
}

// --- the pass
// -------------------------------------------------------------------------------------

void Collector::add(const Event& event) {
  ThreadState& t = thread(event.thread);
  // Times never go back, whatever a damaged file says: differences below rely on it.
  const uint64_t now = now_ns_ = std::max(now_ns_, event.time_ns);
  if (ledger_.events++ == 0) ledger_.first_ns = now;
  ledger_.last_ns = now;
  if (t.run != nullptr) ++t.run->record.events;

  switch (event.kind) {
    case EventKind::kAlloc:
      return heap_alloc(t, event);
    case EventKind::kFree:
      return heap_free(t, event);
    case EventKind::kReallocBegin:
      return realloc_begin(t, event);
    case EventKind::kReallocEnd:
      return realloc_end(t, event);
    case EventKind::kPoolAlloc:
      return pool_alloc(t, event);
    case EventKind::kPoolFree:
      return pool_free(t, event);
    case EventKind::kOpPush:
      return push_op(t, event.ref, now, true);
    case EventKind::kOpPop:
      return pop_op(t, now);
    case EventKind::kKernelBegin:
      if (!t.frames.empty() && !t.frames.back().in_kernel) {
        OpFrame& frame = t.frames.back();
        frame.in_kernel = frame.has_kernel = true;
        frame.kernel_begin_ns = now;
      }
      return;
    case EventKind::kKernelEnd:
      if (!t.frames.empty() && t.frames.back().in_kernel) {
        OpFrame& frame = t.frames.back();
        frame.in_kernel = false;
        frame.kernel_ns += now - frame.kernel_begin_ns;
      }
      return;
    case EventKind::kRunBegin:
      return begin_run(t, event.run, event.ref, event.api, now, true);
    case EventKind::kRunEnd:
      if (t.run != nullptr) end_run(*t.run, now, true);
      return;
    case EventKind::kContextAttach:
      return attach(t, event.run, event.ref);
    case EventKind::kContextDetach:
      if (!t.loans.empty()) t.loans.pop_back();
      return;
    case EventKind::kSpanStart: {
      const Place place{t.run, 0};
      const uint32_t graph = graph_of(t);
      spans_[event.address] = {slot_of(event.ref, graph),
                               place.run != nullptr ? place.run->number : 0, now, event.bytes != 0};
      return;
    }
    case EventKind::kSpanEnd: {
      const auto span = spans_.find(event.address);
      if (span == spans_.end()) return;
      const Span& s = span->second;
      if (s.on_stream) ledger_.slots[s.slot].device.add(s.run, now - s.begin_ns);
      spans_.erase(span);
      return;
    }
    case EventKind::kForbidBegin:
      ++t.forbid_depth;
      return;
    case EventKind::kForbidEnd:
      if (t.forbid_depth > 0) --t.forbid_depth;
      return;
    case EventKind::kThreadExit:
      return drop_scopes(t, now);
    case EventKind::kLost:
      ledger_.lost_events += event.bytes;
      if (t.run != nullptr) t.run->record.exact = false;
      return give_up_realloc(t);
    case EventKind::kResync: {
      Event resynced = event;
      resynced.time_ns = now;
      return resync(t, resynced);
    }
    case EventKind::kExec:
      return replace_process(now);
    case EventKind::kFaults:
    case EventKind::kMapAlloc:
    case EventKind::kMapFree:
      return;
  }
}

Ledger Collector::finish() {
  for (const auto& t : threads_) drop_scopes(*t, now_ns_);
  for (Cell& cell : ledger_.cells.cells()) cell.settle();
  for (ThreadLedger& thread : ledger_.threads) {
    for (ThreadLedger::InRuns& runs : thread.graphs) runs.settle();
  }
  ledger_.timeline = timeline_.points();
  return std::move(ledger_);
}

}  // namespace opmeter::analyze
