// SPDX-License-Identifier: Apache-2.0
// Over 500 lines because the one pass over the events is one place: a handler for each kind,
// sharing the threads' state.
#include "profiler/analyze/collector.h"

#include <algorithm>

#include "opmeter/opmeter.h"
#include "profiler/analyze/facts.h"

namespace opmeter::analyze {

using trace::Event;
using trace::EventKind;

namespace {

constexpr uint32_t kHeapSpace = 0;
constexpr size_t kSmallIds = 1 << 16;
constexpr size_t kMostGrowthEntries = 10'000;
constexpr size_t kMostOpenSpans = 1 << 20;
constexpr size_t kMostNesting = 1 << 16;  // damaged input must not eat the memory

/// Pools and the heap share one table of live blocks.
uint32_t pool_space(uint32_t pool) { return pool + 1 == 0 ? pool : pool + 1; }

size_t index(Domain domain) { return static_cast<size_t>(domain); }

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

Collector::Collector(const trace::Definitions& definitions, const SizeBins& bins,
                     std::optional<uint64_t> warmup)
    : definitions_(definitions), bins_(bins), warmup_(warmup) {
  outside_slot_ = slot_of(kOutsideOp, kNoGraph);
  for (const auto& [id, pool] : definitions.pools) {
    if (id >= kSmallIds) break;
    if (id >= pools_.size()) pools_.resize(id + 1);
    pools_[id] = {domain_of(pool.domain), pool.name == "naive"};
  }
  sampling_ = Sampling(fact<uint64_t>(definitions, "sample_bytes").value_or(0));
  only_runs_ = fact(definitions, "scope") == "runs";
}

// --- who is who
// -----------------------------------------------------------------------------------

ThreadState& Collector::find_thread(uint32_t id) {
  ThreadState* found = nullptr;
  if (id < kSmallIds) {
    if (id >= small_ids_.size()) small_ids_.resize(id + 1, nullptr);
    found = small_ids_[id];
  } else if (const auto large = large_ids_.find(id); large != large_ids_.end()) {
    found = large->second;
  }
  if (found == nullptr) {
    found = threads_.emplace_back(std::make_unique<ThreadState>()).get();
    found->ledger = &ledger_.threads.emplace_back();
    found->ledger->id = id;
    (id < kSmallIds ? small_ids_[id] : large_ids_[id]) = found;
  }
  last_thread_id_ = id;
  last_thread_ = found;
  return *found;
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
  KnownSlot& known = known_slots_[op % known_slots_.size()];
  if (known.key == key && known.slot != UINT32_MAX) return known.slot;
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
  known = {key, found->second};
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

Collector::PoolTraits Collector::pool_traits(uint32_t pool) const {
  if (pool < pools_.size()) return pools_[pool];
  const auto found = definitions_.pools.find(pool);
  if (found == definitions_.pools.end()) return {};
  return {domain_of(found->second.domain), found->second.name == "naive"};
}

[[gnu::always_inline]] inline const Place& Collector::place_of(ThreadState& t) {
  if (t.place_epoch != epoch_) find_place(t);
  if (t.place.inferred) ++ledger_.inferred_context;
  return t.place;
}

[[gnu::noinline]] void Collector::find_place(ThreadState& t) {
  Place place = locate(t);
  if (place.run != nullptr) {
    place.period = place.run->record.epoch;
    place.serial = place.run->serial;
    place.charges = &place.run->of(ledger_.slots[place.slot].local);
    place.tallies = &t.ledger->in_epoch(place.run->graph, place.run->record.epoch);
  } else {
    Slot& slot = ledger_.slots[place.slot];
    place.period = any_run_ ? kOutsidePeriod : kLoadPeriod;
    place.charges = any_run_ ? &slot.outside : &slot.load;
    place.tallies = &t.ledger->idle;
  }
  t.place = place;
  t.place_epoch = epoch_;
  last_slot_ = place.slot;
}

/// The thread's own run; else the run it was lent; else the only open run, inferred; else outside.
Place Collector::locate(ThreadState& t) {
  Place place;
  if (t.run != nullptr) {
    place.run = t.run;
    place.slot = innermost_slot(*t.run);
    return place;
  }
  const auto in_graph = [&](uint32_t slot) {
    const uint32_t graph = place.run != nullptr ? place.run->graph : kNoGraph;
    const Slot& known = ledger_.slots[slot];
    return known.graph == graph ? slot : slot_of(known.op, graph);
  };
  if (!t.loans.empty()) {
    const Loan& loan = t.loans.back();
    place.run = lent_run(t);
    if (place.run != nullptr || (loan.serial == 0 && !loan.stale)) {
      place.slot = in_graph(t.frames.size() > loan.base ? t.frames.back().slot : loan.slot);
      return place;
    }
  }
  place.run = open_runs_.size() == 1 ? open_runs_.front() : nullptr;
  place.inferred = place.run != nullptr;
  if (!t.frames.empty()) {
    place.slot = in_graph(t.frames.back().slot);
  } else {
    place.slot = place.run != nullptr ? innermost_slot(*place.run) : outside_slot_;
  }
  return place;
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
  const auto number = static_cast<uint32_t>(ledger.runs.size() + 1);
  const bool hint_changes = number > 1 && ledger.runs.back().hint != hint;
  if (hint_changes || (warmup_ && number == *warmup_ + 1)) ledger.epoch_begin = number;
  run->id = id;
  run->serial = ++serial_;
  run->graph = graph;
  run->number = number;
  run->thread = &t;
  run->record = {};
  run->record.begin_ns = now;
  run->record.end_ns = now;
  run->record.epoch = std::max(epoch_of(number), ledger.epoch_begin);
  run->record.hint = hint;
  run->record.exact = exact;
  run->gap_since_ns = now;
  run->fault_readings = 0;
  ledger.runs.push_back(run->record);
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
  if (run.fault_readings >= 2 && run.last_faults >= run.first_faults) {
    run.record.minor_faults = run.last_faults - run.first_faults;
  }
  DomainCounts total{};
  GraphLedger& graph = ledger_.graphs[run.graph];
  for (const uint32_t local : run.touched) {
    Slot& slot = ledger_.slots[graph.slots[local]];
    Charges& charges = run.by_slot[local];
    for (size_t d = 0; d < kDomains; ++d) {
      if (charges.counts[d] != Counts{}) {
        slot.in_runs[d].add(run.number, run.record.epoch, charges.counts[d]);
      }
      total[d] += charges.counts[d];
      slot.largest[d] = std::max(slot.largest[d], charges.largest[d]);
      run.record.largest[d] = std::max(run.record.largest[d], charges.largest[d]);
    }
    if (charges.call_ns != 0) slot.call_ns.add(run.number, charges.call_ns);
    run.record.call_ns += charges.call_ns;
    charges = {};
    run.is_touched[local] = 0;
  }
  run.record.heap_calls = total[index(Domain::kHeap)].calls;
  graph.runs[run.number - 1] = run.record;
  for (size_t d = 0; d < kDomains; ++d) {
    if (total[d] != Counts{}) graph.in_runs[d].add(run.number, run.record.epoch, total[d]);
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
  const uint64_t faults = t.faults - std::min(t.faults, frame.faults_begin);
  if (t.frames.size() > base) {
    t.frames.back().children_ns += inclusive;
    if (frame.has_faults) t.frames.back().children_faults += faults;
  }
  if (t.run != nullptr && t.frames.size() == base) t.run->gap_since_ns = now;
  // Latency is that of the run's thread: what helpers do for an op runs beside it.
  if (!frame.exact || (t.run == nullptr && lent_run(t) != nullptr)) return;
  const uint32_t number = t.run != nullptr ? t.run->number : 0;
  Slot& slot = ledger_.slots[frame.slot];
  const uint32_t graph = t.run != nullptr ? t.run->graph : kNoGraph;
  if (slot.graph != graph) return;
  slot.add_span(number, inclusive - std::min(inclusive, frame.children_ns), inclusive);
  if (frame.has_kernel) slot.kernel.add(number, frame.kernel_ns);
  if (frame.has_faults) slot.faults.add(number, faults - std::min(faults, frame.children_faults));
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
  mapped_.clear();
  spans_.clear();
  ledger_.live_bytes = {};
  timeline_.add(now, 0);
}

// --- counting
// -------------------------------------------------------------------------------------

[[gnu::always_inline]] inline void Collector::grow_live(Domain domain, uint64_t bytes) {
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

[[gnu::always_inline]] inline void Collector::shrink_live(Domain domain, uint64_t bytes) {
  uint64_t& live = ledger_.live_bytes[index(domain)];
  live -= std::min(live, bytes);
  if (domain == Domain::kHeap) timeline_.add(now_ns_, live);
}

[[gnu::always_inline]] inline void Collector::insert_block(Domain domain, const LiveBlock& block) {
  if (const auto replaced = live_.insert(block)) {
    ++ledger_.reused_addresses;
    shrink_live(domain, replaced->bytes * replaced->weight);
  }
  grow_live(domain, block.bytes * block.weight);
}

/// One allocation that succeeded: event.bytes from event.stack, which stands for `weight` ones.
[[gnu::always_inline]] inline void Collector::allocation(ThreadState& t, const Place& place,
                                                         Domain domain, const Event& event,
                                                         uint32_t weight) {
  const uint64_t bytes = event.bytes;
  const size_t d = index(domain);
  Charges& charges = *place.charges;
  Counts& counts = charges.counts[d];
  counts.calls += weight;
  counts.bytes += weight * bytes;
  charges.largest[d] = std::max(charges.largest[d], bytes);
  Tally& tally = (*place.tallies)[d];
  tally.calls += weight;
  tally.bytes += weight * bytes;
  const uint32_t cell = ledger_.cells.add(place.slot, event.stack, bins_.bin(bytes), domain,
                                          place.period, weight, bytes);
  if (domain == Domain::kHeap && bytes > ledger_.largest_bytes) {
    ledger_.largest_bytes = bytes;
    ledger_.largest_slot = place.slot;
    ledger_.largest_stack = event.stack;
  }
  if (event.flags != 0 || t.forbid_depth > 0) rare_facts(t, place, domain, event, weight, cell);
}

void Collector::rare_facts(ThreadState& t, const Place& place, Domain domain, const Event& event,
                           uint32_t weight, uint32_t cell_index) {
  const size_t d = index(domain);
  Cell& cell = ledger_.cells.cell(cell_index);
  if ((event.flags & trace::kBacking) != 0) {
    const uint64_t bytes = weight * event.bytes;
    place.charges->counts[d].backing_calls += weight;
    place.charges->counts[d].backing_bytes += bytes;
    const PoolTraits pool = pool_traits(event.ref);
    (pool.keeps_nothing ? cell.miss_calls : cell.growth_calls) += weight;
    if (any_run_) {
      Ledger::Growth& growth = ledger_.growth[index(pool.domain)];
      growth.calls += weight;
      growth.sum += bytes;
      if (growth.bytes.size() < kMostGrowthEntries) growth.bytes.push_back(event.bytes);
      if (pool.domain == Domain::kWorkspace) {
        ledger_.slots[place.slot].workspace_growth_bytes += bytes;
      }
    }
  }
  if (domain != Domain::kHeap) return;
  if ((event.flags & trace::kTimed) != 0) {
    cell.call_ns += uint64_t{weight} * event.duration;
    time_call(place, event, weight);
  }
  if (t.forbid_depth > 0) {
    ledger_.forbidden_calls += weight;
    ledger_.forbidden_by_stack[event.stack] += weight;
  }
}

/// A heap call, of whatever outcome, that tells how long it took.
[[gnu::always_inline]] inline void Collector::time_call(const Place& place, const Event& event,
                                                        uint64_t weight) {
  if ((event.flags & trace::kTimed) == 0) return;
  ledger_.timed = true;
  place.charges->call_ns += weight * event.duration;
}

void Collector::failure(const Place& place, Domain domain) {
  ++place.charges->counts[index(domain)].failed;
}

[[gnu::always_inline]] inline void Collector::release(const Place& place, Domain domain,
                                                      uint64_t weight) {
  place.charges->counts[index(domain)].frees += weight;
}

[[gnu::always_inline]] inline void Collector::free_block(const Place& place, Domain domain,
                                                         const LiveBlock& block) {
  if (domain == Domain::kHeap && place.serial != 0 && block.run == place.serial) {
    ledger_.temporary_calls += block.weight;
  }
  shrink_live(domain, block.bytes * block.weight);
}

[[gnu::always_inline]] inline void Collector::heap_alloc(ThreadState& t, const Event& event) {
  const Place& place = place_of(t);
  if (event.address == 0) {
    time_call(place, event, 1);
    return failure(place, Domain::kHeap);
  }
  const uint32_t weight = sampling_.draw(event.bytes);
  allocation(t, place, Domain::kHeap, event, weight);
  insert_block(Domain::kHeap, {event.address, event.bytes, kHeapSpace, place.serial, weight});
}

[[gnu::always_inline]] inline void Collector::heap_free(ThreadState& t, const Event& event) {
  if (event.address == 0) return;
  const Place& place = place_of(t);
  const auto block = live_.take(event.address, kHeapSpace);
  const uint64_t weight = block ? block->weight : unknown_free_weight();
  release(place, Domain::kHeap, weight);
  time_call(place, event, weight);
  if (block) {
    free_block(place, Domain::kHeap, *block);
  } else {
    count_unknown_free();
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
    shrink_live(Domain::kHeap, replaced->bytes * replaced->weight);
  }
}

void Collector::realloc_end(ThreadState& t, const Event& event) {
  const Place& place = place_of(t);
  if (event.address == 0) {
    time_call(place, event, 1);
    failure(place, Domain::kHeap);
    return give_up_realloc(t);
  }
  const uint32_t weight = sampling_.draw(event.bytes);
  std::optional<LiveBlock> old;
  if (t.pending) {
    old = t.pending->old;
    const uint64_t live_max = t.pending->live_max;
    t.pending.reset();
    std::erase(reallocating_, &t);
    if (event.address != event.old_address && event.old_address != 0) {
      // Both blocks existed at some moment between the stamps; take the worst one.
      uint64_t& peak = ledger_.peak_bytes[index(Domain::kHeap)];
      peak = std::max(peak, live_max + event.bytes * weight);
    }
  } else if (event.old_address != 0) {
    old = live_.take(event.old_address, kHeapSpace);
  }
  allocation(t, place, Domain::kHeap, event, weight);
  const LiveBlock block{event.address, event.bytes, kHeapSpace, place.serial, weight};
  if (event.old_address != 0) {
    release(place, Domain::kHeap, old ? old->weight : unknown_free_weight());
    if (!old) count_unknown_free();
  }
  // In place the two never coexist; after a move they did, so the new one is added first.
  const bool moved = event.address != event.old_address;
  if (old && !moved) free_block(place, Domain::kHeap, *old);
  insert_block(Domain::kHeap, block);
  if (old && moved) free_block(place, Domain::kHeap, *old);
}

void Collector::pool_alloc(ThreadState& t, const Event& event) {
  const Place& place = place_of(t);
  const Domain domain = pool_traits(event.ref).domain;
  if (event.address == 0) return failure(place, domain);
  allocation(t, place, domain, event, 1);
  insert_block(domain, {event.address, event.bytes, pool_space(event.ref), place.serial});
}

void Collector::pool_free(ThreadState& t, const Event& event) {
  if (event.address == 0) return;
  const Place& place = place_of(t);
  const Domain domain = pool_traits(event.ref).domain;
  release(place, domain, 1);
  if (const auto block = live_.take(event.address, pool_space(event.ref))) {
    free_block(place, domain, *block);
  }
}

void Collector::map_alloc(ThreadState& t, const Event& event) {
  const Place& place = place_of(t);
  if (event.address == 0) return failure(place, Domain::kMap);
  allocation(t, place, Domain::kMap, event, 1);
  grow_live(Domain::kMap, mapped_.map(event.address, event.bytes));
}

void Collector::map_free(ThreadState& t, const Event& event) {
  release(place_of(t), Domain::kMap, 1);
  shrink_live(Domain::kMap, mapped_.unmap(event.address, event.bytes));
}

// --- other facts
// ----------------------------------------------------------------------------------

void Collector::read_faults(ThreadState& t, const Event& event) {
  t.faults = std::max(t.faults, event.address);
  const size_t base = t.run != nullptr ? t.run_base : 0;
  if (t.frames.size() > base && !t.frames.back().has_faults) {
    t.frames.back().has_faults = true;
    t.frames.back().faults_begin = t.faults;
  }
  if (t.run == nullptr) return;
  if (t.run->fault_readings++ == 0) t.run->first_faults = event.bytes;
  t.run->last_faults = event.bytes;
}

void Collector::span_start(ThreadState& t, const Event& event, uint64_t now) {
  if (spans_.size() >= kMostOpenSpans) return;
  spans_[event.address] = {slot_of(event.ref, graph_of(t)), t.run != nullptr ? t.run->number : 0,
                           now, event.bytes != 0};
}

void Collector::span_end(const Event& event, uint64_t now) {
  const auto found = spans_.find(event.address);
  if (found == spans_.end()) return;
  const Span& span = found->second;
  if (span.on_stream) ledger_.slots[span.slot].device.add(span.run, now - span.begin_ns);
  spans_.erase(found);
}

// --- the pass
// -------------------------------------------------------------------------------------

/// Brings what the event will need into the cache. It may guess wrong, never harm. Inlined by
/// force: gcc takes a function of prefetches for one without effects and leaves out calls of it.
[[gnu::always_inline]] inline void Collector::prefetch(const Event& event) const {
  switch (event.kind) {
    case EventKind::kAlloc:
    case EventKind::kReallocEnd:
      live_.prefetch(event.address, kHeapSpace);
      ledger_.cells.prefetch(last_slot_, event.stack, bins_.bin(event.bytes), Domain::kHeap);
      return;
    case EventKind::kFree:
      live_.prefetch(event.address, kHeapSpace);
      return;
    case EventKind::kReallocBegin:
      live_.prefetch(event.old_address, kHeapSpace);
      return;
    case EventKind::kPoolAlloc:
    case EventKind::kPoolFree:
      live_.prefetch(event.address, pool_space(event.ref));
      return;
    default:
      return;
  }
}

void Collector::add(std::span<const Event> events) {
  if (events.empty()) return;
  // Enough to cover the latency of memory, few enough for the processor's line buffers.
  constexpr size_t kAhead = 16;
  if (ledger_.events == 0) ledger_.first_ns = events.front().time_ns;
  ledger_.events += events.size();
  const size_t n = events.size();
  for (size_t i = 0; i < std::min(kAhead, n); ++i) prefetch(events[i]);
  for (size_t i = 0; i < n; ++i) {
    if (i + kAhead < n) prefetch(events[i + kAhead]);
    const Event& event = events[i];
    ThreadState& t = thread(event.thread);
    // Times never go back, whatever a damaged file says: differences rely on it.
    now_ns_ = std::max(now_ns_, event.time_ns);
    if (t.run != nullptr) ++t.run->record.events;
    if (event.kind == EventKind::kAlloc) {
      heap_alloc(t, event);
    } else if (event.kind == EventKind::kFree) {
      heap_free(t, event);
    } else {
      handle(t, event);
    }
  }
  ledger_.last_ns = now_ns_;
}

/// Everything but what most events are.
[[gnu::noinline]] void Collector::handle(ThreadState& t, const Event& event) {
  const uint64_t now = now_ns_;
  switch (event.kind) {
    case EventKind::kReallocBegin:
      return realloc_begin(t, event);
    case EventKind::kReallocEnd:
      return realloc_end(t, event);
    case EventKind::kPoolAlloc:
      return pool_alloc(t, event);
    case EventKind::kPoolFree:
      return pool_free(t, event);
    case EventKind::kMapAlloc:
      return map_alloc(t, event);
    case EventKind::kMapFree:
      return map_free(t, event);
    case EventKind::kFaults:
      return read_faults(t, event);
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
    case EventKind::kSpanStart:
      return span_start(t, event, now);
    case EventKind::kSpanEnd:
      return span_end(event, now);
    case EventKind::kForbidBegin:
      ++t.forbid_depth;
      return;
    case EventKind::kForbidEnd:
      if (t.forbid_depth > 0) --t.forbid_depth;
      return;
    default:
      change_context(t, event, now);
      ++epoch_;
      return;
  }
}

void Collector::change_context(ThreadState& t, const Event& event, uint64_t now) {
  switch (event.kind) {
    case EventKind::kOpPush:
      return push_op(t, event.ref, now, true);
    case EventKind::kOpPop:
      return pop_op(t, now);
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
    case EventKind::kThreadExit:
      return drop_scopes(t, now);
    case EventKind::kLost:
      if (event.bytes == 0) ++ledger_.gaps;
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
    default:
      return;  // of a newer writer
  }
}

Ledger Collector::finish() {
  for (const auto& t : threads_) drop_scopes(*t, now_ns_);
  ledger_.cells.settle();
  for (ThreadLedger& thread : ledger_.threads) {
    for (ThreadLedger::InRuns& runs : thread.graphs) runs.settle();
  }
  ledger_.timeline = timeline_.points();
  return std::move(ledger_);
}

}  // namespace opmeter::analyze
