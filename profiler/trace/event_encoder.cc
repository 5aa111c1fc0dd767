// SPDX-License-Identifier: Apache-2.0
#include "profiler/trace/event_encoder.h"

#include <algorithm>

#include "profiler/trace/codec.h"

namespace opmeter::trace {

void ColumnBuffer::grow(size_t bytes) {
  const size_t used = size();
  bytes_.resize(std::max<size_t>(used + bytes, bytes_.size() * 2));
  cursor_ = bytes_.data() + used;
  end_ = bytes_.data() + bytes_.size();
}

void SlotIndex::insert(const LiveSlots& live, uint32_t slot) {
  if ((used_ + 1) * 2 > table_.size()) {
    const std::vector<uint32_t> old = std::move(table_);
    const size_t size = std::max<size_t>(256, old.size() * 2);
    table_.assign(size, LiveSlots::kNone);
    shift_ = static_cast<unsigned>(64 - std::countr_zero(size));
    used_ = 0;
    for (const uint32_t s : old) {
      if (s != LiveSlots::kNone) insert(live, s);
    }
  }
  const size_t mask = table_.size() - 1;
  size_t at = place(live.slot(slot).address);
  while (table_[at] != LiveSlots::kNone) at = (at + 1) & mask;
  table_[at] = slot;
  ++used_;
}

void SlotIndex::remove(const LiveSlots& live, uint32_t slot) {
  const size_t mask = table_.size() - 1;
  size_t hole = place(live.slot(slot).address);
  while (table_[hole] != slot) {
    if (table_[hole] == LiveSlots::kNone) return;  // it was never indexed
    hole = (hole + 1) & mask;
  }
  --used_;
  // What stands behind may move up to where it belongs.
  for (size_t next = (hole + 1) & mask; table_[next] != LiveSlots::kNone;
       next = (next + 1) & mask) {
    const size_t home = place(live.slot(table_[next]).address);
    if (((next - home) & mask) >= ((next - hole) & mask)) {
      table_[hole] = table_[next];
      hole = next;
    }
  }
  table_[hole] = LiveSlots::kNone;
}

void SlotIndex::restart() {
  std::fill(table_.begin(), table_.end(), LiveSlots::kNone);
  used_ = 0;
}

size_t EventEncoder::bytes() const {
  size_t sum = 0;
  for (const ColumnBuffer& c : columns_) sum += c.capacity();
  return sum;
}

void EventEncoder::make_room() {
  for (ColumnBuffer& c : columns_) c.reserve(kRoomAhead);
  for (const Column c : {Column::kTimeLong, Column::kStackLong, Column::kBytesLong,
                         Column::kAddressLong, Column::kDuration}) {
    at(c).reserve(kRoomAhead * kMaxVarintBytes);
  }
  at(Column::kOther).reserve(kRoomAhead * 8 * kMaxVarintBytes);  // every field of an event
  room_ = kRoomAhead;
}

void EventEncoder::restart(bool release) {
  head_.first_event += head_.count;
  if (head_.count != 0) ++head_.index;
  head_.count = 0;
  for (ColumnBuffer& c : columns_) release ? c.release() : c.clear();
  room_ = 0;
}

void EventEncoder::begin_block(const Event& event) {
  model_.restart();
  heap_index_.restart();
  pool_index_.restart();
  shift_ = wanted_shift_;
  head_.tick_shift = shift_;
  head_.base_ticks = event.ticks;
  last_ticks_ = event.ticks;
  const Context& context = contexts_.back();
  head_.run = context.run;
  head_.depth = context.ops.size();
  head_.op = context.ops.empty() ? 0 : context.ops.back();
}

void EventEncoder::put_time(const Event& event) {
  const uint64_t delta = (event.ticks >> shift_) - (last_ticks_ >> shift_);
  if (delta < 255) [[likely]] {
    at(Column::kTime).byte(static_cast<uint8_t>(delta));
  } else {
    at(Column::kTime).byte(255);
    at(Column::kTimeLong).varint(zigzag(static_cast<int64_t>(delta)));
  }
  if (!is_coarse(event.kind) && shift_ != 0) {
    at(Column::kTimeLow).byte(static_cast<uint8_t>(event.ticks & ((1u << shift_) - 1)));
  }
  last_ticks_ = event.ticks;
  if (event.flags & kTimed) at(Column::kDuration).varint(event.duration);
}

void EventEncoder::put_stack(uint32_t stack) {
  at(Column::kStack0).byte(static_cast<uint8_t>(stack));
  const uint32_t high = stack >> 8;
  at(Column::kStack1).byte(static_cast<uint8_t>(std::min(high, 255u)));
  if (high >= 255) at(Column::kStackLong).varint(high);
}

void EventEncoder::put_bytes(uint64_t bytes) {
  at(Column::kBytes0).byte(static_cast<uint8_t>(bytes));
  const uint64_t high = bytes >> 8;
  at(Column::kBytes1).byte(static_cast<uint8_t>(std::min<uint64_t>(high, 255)));
  if (high >= 255) at(Column::kBytesLong).varint(high);
}

/// True when the address went into the three byte columns, false when into the long one.
bool EventEncoder::put_planes(uint64_t address) {
  if ((address & 15) == 0 && address >> 28 == model_.address_high) {
    at(Column::kAddress0).byte(static_cast<uint8_t>(address >> 4));
    at(Column::kAddress1).byte(static_cast<uint8_t>(address >> 12));
    at(Column::kAddress2).byte(static_cast<uint8_t>(address >> 20));
    return true;
  }
  at(Column::kAddressLong).varint(address);
  model_.address_high = address >> 28;
  return false;
}

/// Writes the mode byte too.
void EventEncoder::put_address(uint64_t address, uint8_t mode, const Memory& memory, uint64_t bytes,
                               uint64_t old_address) {
  AddressGuess& guess = memory.model->guess;
  AddressMode how;
  if (address != 0 && address == guess.freed_of_this_size(bytes)) {
    how = AddressMode::kFreedOfThisSize;
    guess.took_freed_of_this_size(bytes);
  } else if (address == guess.behind_the_last()) {
    how = AddressMode::kBehindTheLast;
  } else if (address == guess.last_freed()) {
    how = AddressMode::kLastFreed;
  } else if (old_address != 0 && address == old_address) {
    how = AddressMode::kInPlace;
  } else {
    how = put_planes(address) ? AddressMode::kPlanes : AddressMode::kFull;
  }
  at(Column::kMode)
      .byte(static_cast<uint8_t>(mode | static_cast<unsigned>(how) << kAddressModeShift));
  if (address != 0) guess.allocated(address, bytes);
}

void EventEncoder::insert(const Memory& memory, uint64_t address, uint64_t bytes) {
  if (address == 0) return;
  const uint32_t slot = memory.model->live.insert(address, bytes);
  if (slot != LiveSlots::kNone) memory.index->insert(memory.model->live, slot);
}

void EventEncoder::remove(const Memory& memory, uint32_t slot) {
  const LiveSlots::Slot& s = memory.model->live.slot(slot);
  memory.model->guess.freed(s.address, s.bytes);
  memory.index->remove(memory.model->live, slot);
  memory.model->live.remove(slot);
}

/// Names a live block; writes the mode byte too. Returns its slot.
uint32_t EventEncoder::put_victim(uint64_t address, uint8_t mode, const Memory& memory) {
  const LiveSlots& live = memory.model->live;
  const uint32_t slot = address == 0 ? LiveSlots::kNone : memory.index->find(live, address);
  VictimMode how;
  if (slot == LiveSlots::kNone) {
    how = put_planes(address) ? VictimMode::kPlanes : VictimMode::kFull;
  } else if (slot == live.newest()) {
    how = VictimMode::kNewest;
  } else if (slot == live.after_last_freed()) {
    how = VictimMode::kAfterLastFreed;
  } else if (slot == live.before_last_freed()) {
    how = VictimMode::kBeforeLastFreed;
  } else {
    how = VictimMode::kSlot;
    at(Column::kVictim0).byte(static_cast<uint8_t>(slot));
    at(Column::kVictim1).byte(static_cast<uint8_t>(slot >> 8));
  }
  at(Column::kMode).byte(static_cast<uint8_t>(mode | static_cast<unsigned>(how)));
  return slot;
}

/// Stack, api and ref of an allocation, as far as the model was wrong; returns which.
uint8_t EventEncoder::put_site(const Event& event) {
  uint8_t mode = 0;
  if (event.stack != model_.expected_stack()) {
    mode |= kNewStack;
    put_stack(event.stack);
  }
  model_.saw_stack(event.stack);
  StackFacts& facts = model_.facts[event.stack];
  if (event.api != facts.api) {
    mode |= kNewApi;
    at(Column::kOther).varint(event.api);
    facts.api = event.api;
  }
  if (event.ref != facts.ref) {
    mode |= kNewRef;
    at(Column::kOther).varint(event.ref);
    facts.ref = event.ref;
  }
  return mode;
}

void EventEncoder::put_alloc(const Event& event, const Memory& memory) {
  uint8_t mode = put_site(event);
  StackFacts& facts = model_.facts[event.stack];
  if (event.bytes != facts.bytes) {
    mode |= kNewBytes;
    put_bytes(event.bytes);
    facts.bytes = event.bytes;
  }
  put_address(event.address, mode, memory, event.bytes, 0);
  insert(memory, event.address, event.bytes);
}

void EventEncoder::put_free(const Event& event, const Memory& memory) {
  MemoryModel& model = *memory.model;
  uint8_t mode = 0;
  if (event.api != model.free_api) {
    mode |= kFreeNewApi;
    at(Column::kOther).varint(model.free_api = event.api);
  }
  if (event.ref != model.free_ref) {
    mode |= kFreeNewRef;
    at(Column::kOther).varint(model.free_ref = event.ref);
  }
  if (event.stack != model.free_stack) {
    mode |= kFreeNewStack;
    put_stack(model.free_stack = event.stack);
  }
  const uint32_t slot = put_victim(event.address, mode, memory);
  if (slot != LiveSlots::kNone) remove(memory, slot);
}

void EventEncoder::put_realloc_begin(const Event& event) {
  model_.pending_slot = put_victim(event.old_address, 0, {&model_.heap, &heap_index_});
  model_.pending_old = event.old_address;
  model_.pending_bytes = event.bytes;
  put_bytes(event.bytes);
}

void EventEncoder::put_realloc_end(const Event& event) {
  uint8_t mode = put_site(event);
  if (event.bytes != model_.pending_bytes) {
    mode |= kNewBytes;
    put_bytes(event.bytes);
  }
  if (event.old_address != model_.pending_old) {
    mode |= kOtherOldAddress;
    at(Column::kOther).varint(event.old_address);
  }
  const Memory memory{&model_.heap, &heap_index_};
  put_address(event.address, mode, memory, event.bytes, event.old_address);
  if (event.address == 0) return;
  const uint32_t slot = model_.pending_slot;
  model_.pending_slot = LiveSlots::kNone;
  if (model_.heap.live.holds(slot) && model_.heap.live.slot(slot).address == event.old_address) {
    remove(memory, slot);
  }
  insert(memory, event.address, event.bytes);
}

void EventEncoder::put_other(const Event& event) {
  ColumnBuffer& out = at(Column::kOther);
  const uint8_t fields = event_fields(event.kind);
  if (event.kind == EventKind::kFaults) {
    out.varint(zigzag(wrapping_delta(event.address, model_.faults[0])));
    out.varint(zigzag(wrapping_delta(event.bytes, model_.faults[1])));
    model_.faults[0] = event.address;
    model_.faults[1] = event.bytes;
    return;
  }
  if (fields & kFieldAddress) out.varint(event.address);
  if (fields & kFieldOldAddress) out.varint(event.old_address);
  if (fields & kFieldBytes) out.varint(event.bytes);
  if (fields & kFieldStack) out.varint(event.stack);
  if (fields & kFieldRef) out.varint(event.ref);
  if (fields & kFieldApi) out.varint(event.api);
  if (fields & kFieldRun) out.varint(event.run);
}

void EventEncoder::follow_context(const Event& event) {
  constexpr size_t kMostOps = 4096, kMostContexts = 256;
  Context& top = contexts_.back();
  switch (event.kind) {
    case EventKind::kOpPush:
      if (top.ops.size() < kMostOps) top.ops.push_back(event.ref);
      break;
    case EventKind::kOpPop:
      if (!top.ops.empty()) top.ops.pop_back();
      break;
    case EventKind::kRunBegin:
      contexts_.front() = {event.run, {}};
      break;
    case EventKind::kRunEnd:
      contexts_.front() = {};
      break;
    case EventKind::kContextAttach:
      if (contexts_.size() < kMostContexts) {
        contexts_.push_back({event.run, {}});
        if (event.ref != 0) contexts_.back().ops.push_back(event.ref);
      }
      break;
    case EventKind::kContextDetach:
      if (contexts_.size() > 1) contexts_.pop_back();
      break;
    case EventKind::kExec:
    case EventKind::kThreadExit:
      contexts_.assign(1, {});
      break;
    case EventKind::kResync:
      top.run = event.run;
      top.ops.assign(std::min<size_t>(event.api, kMostOps), event.ref);
      break;
    default:
      break;
  }
}

void EventEncoder::add(const Event& event) {
  if (event_fields(event.kind) == 255) return;  // a file must not hold what no reader knows
  if (head_.count == 0) begin_block(event);
  if (room_ == 0) make_room();
  --room_;
  ++head_.count;
  at(Column::kKind)
      .byte(static_cast<uint8_t>(static_cast<unsigned>(event.kind) | unsigned{event.flags} << 5));
  put_time(event);
  switch (event.kind) {
    case EventKind::kAlloc:
      return put_alloc(event, {&model_.heap, &heap_index_});
    case EventKind::kFree:
      return put_free(event, {&model_.heap, &heap_index_});
    case EventKind::kReallocBegin:
      return put_realloc_begin(event);
    case EventKind::kReallocEnd:
      return put_realloc_end(event);
    case EventKind::kPoolAlloc:
      return put_alloc(event, {&model_.pool, &pool_index_});
    case EventKind::kPoolFree:
      return put_free(event, {&model_.pool, &pool_index_});
    case EventKind::kOpPush: {
      const bool expected = event.ref == model_.expected_op();
      at(Column::kMode).byte(expected ? 0 : kNewOp);
      if (!expected) at(Column::kOther).varint(event.ref);
      model_.saw_op(event.ref);
      return follow_context(event);
    }
    default:
      put_other(event);
      return follow_context(event);
  }
}

}  // namespace opmeter::trace
