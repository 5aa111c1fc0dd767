// SPDX-License-Identifier: Apache-2.0
#include "profiler/trace/event_decoder.h"

#include <zstd.h>

#include <cstring>

#include "profiler/trace/codec.h"

namespace opmeter::trace {

bool read_event_block_head(const uint8_t* payload, size_t size, EventBlockHead& head,
                           size_t& columns_at) {
  ByteCursor in(payload, size);
  for (uint64_t* field : {&head.thread, &head.index, &head.first_event, &head.count,
                          &head.base_ticks, &head.tick_shift, &head.run, &head.op, &head.depth}) {
    *field = in.varint();
  }
  columns_at = size - in.remaining();
  return !in.failed() && head.thread <= UINT32_MAX && head.op <= UINT32_MAX &&
         head.count <= kMaxBlockEvents && head.tick_shift <= 8;
}

bool EventDecoder::open(const uint8_t* payload, size_t size, ZSTD_DCtx_s* zstd) {
  left_ = 0;
  failed_ = false;
  size_t columns_at = 0;
  if (!read_event_block_head(payload, size, head_, columns_at)) return false;
  ByteCursor in(payload + columns_at, size - columns_at);
  struct Extent {
    uint64_t id, raw, stored;
  };
  std::array<Extent, kColumns> extents;
  const uint64_t columns = in.varint();
  if (in.failed() || columns > kColumns) return false;
  uint64_t raw = 0, stored = 0;
  for (uint64_t i = 0; i < columns; ++i) {
    Extent& e = extents[i];
    e = {in.varint(), in.varint(), in.varint()};
    if (in.failed() || e.id >= kColumns || e.raw > kMaxBlockBytes || e.stored > e.raw) return false;
    raw += e.raw;
    stored += e.stored;
  }
  if (stored != in.remaining()) return false;
  bytes_.resize(raw);
  const uint8_t* from = payload + (size - in.remaining());
  uint8_t* to = bytes_.data();
  for (ColumnReader& column : columns_) column.set(nullptr, 0);
  for (uint64_t i = 0; i < columns; ++i) {
    const Extent& e = extents[i];
    if (e.stored == e.raw) {
      if (e.raw != 0) std::memcpy(to, from, e.raw);
    } else {
      const size_t n = ZSTD_decompressDCtx(zstd, to, e.raw, from, e.stored);
      if (ZSTD_isError(n) != 0 || n != e.raw) return false;
    }
    columns_[e.id].set(to, e.raw);
    to += e.raw;
    from += e.stored;
  }
  model_.restart();
  shift_ = static_cast<unsigned>(head_.tick_shift);
  ticks_ = head_.base_ticks;
  coarse_ = ticks_ >> shift_;
  left_ = head_.count;
  return true;
}

void EventDecoder::take_time(Event& event) {
  const uint8_t step = byte(Column::kTime);
  const uint64_t delta =
      step == 255 ? static_cast<uint64_t>(unzigzag(varint(Column::kTimeLong))) : step;
  coarse_ += delta;
  if (shift_ == 0) {
    ticks_ = coarse_;
  } else if (!is_coarse(event.kind)) {
    ticks_ = coarse_ << shift_ | (byte(Column::kTimeLow) & ((1u << shift_) - 1));
  } else if (delta != 0) {
    ticks_ = coarse_ << shift_;  // otherwise no earlier than the event before
  }
  event.ticks = ticks_;
  if (event.flags & kTimed) event.duration = static_cast<uint32_t>(varint(Column::kDuration));
}

uint32_t EventDecoder::take_stack() {
  const uint32_t low = byte(Column::kStack0);
  uint64_t high = byte(Column::kStack1);
  if (high == 255) high = varint(Column::kStackLong);
  return static_cast<uint32_t>(high << 8 | low);
}

uint64_t EventDecoder::take_bytes() {
  const uint64_t low = byte(Column::kBytes0);
  uint64_t high = byte(Column::kBytes1);
  if (high == 255) high = varint(Column::kBytesLong);
  return high << 8 | low;
}

uint64_t EventDecoder::take_planes() {
  const uint64_t a0 = byte(Column::kAddress0), a1 = byte(Column::kAddress1),
                 a2 = byte(Column::kAddress2);
  return model_.address_high << 28 | a2 << 20 | a1 << 12 | a0 << 4;
}

uint64_t EventDecoder::take_full() {
  const uint64_t address = varint(Column::kAddressLong);
  model_.address_high = address >> 28;
  return address;
}

uint64_t EventDecoder::take_address(uint8_t mode, MemoryModel& memory, uint64_t bytes,
                                    uint64_t old_address) {
  uint64_t address = 0;
  switch (static_cast<AddressMode>(mode >> kAddressModeShift & 7)) {
    case AddressMode::kFreedOfThisSize:
      address = memory.guess.freed_of_this_size(bytes);
      if (address == 0) {
        failed_ = true;
        return 0;
      }
      memory.guess.took_freed_of_this_size(bytes);
      break;
    case AddressMode::kBehindTheLast:
      address = memory.guess.behind_the_last();
      break;
    case AddressMode::kLastFreed:
      address = memory.guess.last_freed();
      break;
    case AddressMode::kInPlace:
      address = old_address;
      break;
    case AddressMode::kPlanes:
      address = take_planes();
      break;
    case AddressMode::kFull:
      address = take_full();
      break;
    default:
      failed_ = true;
      return 0;
  }
  if (address != 0) memory.guess.allocated(address, bytes);
  return address;
}

uint32_t EventDecoder::take_victim(uint8_t mode, const MemoryModel& memory, uint64_t& address) {
  uint32_t slot = LiveSlots::kNone;
  switch (static_cast<VictimMode>(mode & 7)) {
    case VictimMode::kNewest:
      slot = memory.live.newest();
      break;
    case VictimMode::kAfterLastFreed:
      slot = memory.live.after_last_freed();
      break;
    case VictimMode::kBeforeLastFreed:
      slot = memory.live.before_last_freed();
      break;
    case VictimMode::kSlot: {
      const uint32_t low = byte(Column::kVictim0);
      slot = low | static_cast<uint32_t>(byte(Column::kVictim1)) << 8;
      break;
    }
    case VictimMode::kPlanes:
      address = take_planes();
      return LiveSlots::kNone;
    case VictimMode::kFull:
      address = take_full();
      return LiveSlots::kNone;
    default:
      failed_ = true;
      return LiveSlots::kNone;
  }
  if (!memory.live.holds(slot)) {
    failed_ = true;
    return LiveSlots::kNone;
  }
  address = memory.live.slot(slot).address;
  return slot;
}

void EventDecoder::take_site(Event& event, uint8_t mode) {
  event.stack = mode & kNewStack ? take_stack() : model_.expected_stack();
  model_.saw_stack(event.stack);
  StackFacts& facts = model_.facts[event.stack];
  if (mode & kNewApi) facts.api = static_cast<uint16_t>(varint(Column::kOther));
  if (mode & kNewRef) facts.ref = static_cast<uint32_t>(varint(Column::kOther));
  event.api = facts.api;
  event.ref = facts.ref;
}

void EventDecoder::remove(MemoryModel& memory, uint32_t slot) {
  const LiveSlots::Slot& s = memory.live.slot(slot);
  memory.guess.freed(s.address, s.bytes);
  memory.live.remove(slot);
}

void EventDecoder::take_alloc(Event& event, MemoryModel& memory) {
  const uint8_t mode = byte(Column::kMode);
  take_site(event, mode);
  StackFacts& facts = model_.facts[event.stack];
  if (mode & kNewBytes) facts.bytes = take_bytes();
  event.bytes = facts.bytes;
  event.address = take_address(mode, memory, event.bytes, 0);
  if (event.address != 0) memory.live.insert(event.address, event.bytes);
}

void EventDecoder::take_free(Event& event, MemoryModel& memory) {
  const uint8_t mode = byte(Column::kMode);
  if (mode & kFreeNewApi) memory.free_api = static_cast<uint16_t>(varint(Column::kOther));
  if (mode & kFreeNewRef) memory.free_ref = static_cast<uint32_t>(varint(Column::kOther));
  if (mode & kFreeNewStack) memory.free_stack = take_stack();
  event.api = memory.free_api;
  event.ref = memory.free_ref;
  event.stack = memory.free_stack;
  const uint32_t slot = take_victim(mode, memory, event.address);
  if (slot != LiveSlots::kNone) remove(memory, slot);
}

void EventDecoder::take_realloc_begin(Event& event) {
  const uint8_t mode = byte(Column::kMode);
  model_.pending_slot = take_victim(mode, model_.heap, event.old_address);
  model_.pending_old = event.old_address;
  event.bytes = model_.pending_bytes = take_bytes();
}

void EventDecoder::take_realloc_end(Event& event) {
  const uint8_t mode = byte(Column::kMode);
  take_site(event, mode);
  event.bytes = mode & kNewBytes ? take_bytes() : model_.pending_bytes;
  event.old_address = mode & kOtherOldAddress ? varint(Column::kOther) : model_.pending_old;
  event.address = take_address(mode, model_.heap, event.bytes, event.old_address);
  if (event.address == 0) return;
  const uint32_t slot = model_.pending_slot;
  model_.pending_slot = LiveSlots::kNone;
  if (model_.heap.live.holds(slot) && model_.heap.live.slot(slot).address == event.old_address) {
    remove(model_.heap, slot);
  }
  model_.heap.live.insert(event.address, event.bytes);
}

void EventDecoder::take_other(Event& event, uint8_t fields) {
  if (event.kind == EventKind::kFaults) {
    event.address = model_.faults[0] += static_cast<uint64_t>(unzigzag(varint(Column::kOther)));
    event.bytes = model_.faults[1] += static_cast<uint64_t>(unzigzag(varint(Column::kOther)));
    return;
  }
  if (fields & kFieldAddress) event.address = varint(Column::kOther);
  if (fields & kFieldOldAddress) event.old_address = varint(Column::kOther);
  if (fields & kFieldBytes) event.bytes = varint(Column::kOther);
  if (fields & kFieldStack) event.stack = static_cast<uint32_t>(varint(Column::kOther));
  if (fields & kFieldRef) event.ref = static_cast<uint32_t>(varint(Column::kOther));
  if (fields & kFieldApi) event.api = static_cast<uint16_t>(varint(Column::kOther));
  if (fields & kFieldRun) event.run = varint(Column::kOther);
}

void EventDecoder::take(Event& event) {
  const uint8_t head = byte(Column::kKind);
  event = Event{};
  event.thread = static_cast<uint32_t>(head_.thread);
  event.kind = static_cast<EventKind>(head & 31);
  event.flags = static_cast<uint8_t>(head >> 5);
  const uint8_t fields = event_fields(event.kind);
  if (fields == 255) {
    failed_ = true;
    return;
  }
  take_time(event);
  switch (event.kind) {
    case EventKind::kAlloc:
      return take_alloc(event, model_.heap);
    case EventKind::kFree:
      return take_free(event, model_.heap);
    case EventKind::kReallocBegin:
      return take_realloc_begin(event);
    case EventKind::kReallocEnd:
      return take_realloc_end(event);
    case EventKind::kPoolAlloc:
      return take_alloc(event, model_.pool);
    case EventKind::kPoolFree:
      return take_free(event, model_.pool);
    case EventKind::kOpPush:
      event.ref = byte(Column::kMode) & kNewOp ? static_cast<uint32_t>(varint(Column::kOther))
                                               : model_.expected_op();
      return model_.saw_op(event.ref);
    default:
      return take_other(event, fields);
  }
}

size_t EventDecoder::decode(Event* out, size_t most) {
  size_t n = 0;
  while (n < most && left_ != 0 && !failed_) {
    take(out[n]);
    if (failed_) break;
    ++n;
    --left_;
  }
  return n;
}

}  // namespace opmeter::trace
