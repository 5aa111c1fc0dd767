// SPDX-License-Identifier: Apache-2.0
// Turns the events of one thread into the columns of an event block. Runs in the process that
// drains the recorder, at the pace of the program under test: some ten nanoseconds an event.
#ifndef OPMETER_PROFILER_TRACE_EVENT_ENCODER_H_
#define OPMETER_PROFILER_TRACE_EVENT_ENCODER_H_

#include <array>
#include <cstdint>
#include <vector>

#include "profiler/trace/event.h"
#include "profiler/trace/format.h"
#include "profiler/trace/prediction.h"

namespace opmeter::trace {

/// Bytes that grow; room is made ahead, so that writing needs no check.
class ColumnBuffer {
 public:
  /// Room for `bytes` more.
  void reserve(size_t bytes) {
    if (static_cast<size_t>(end_ - cursor_) < bytes) grow(bytes);
  }
  void byte(uint8_t b) { *cursor_++ = b; }
  void varint(uint64_t v) {
    while (v >= 0x80) {
      *cursor_++ = static_cast<uint8_t>(v | 0x80);
      v >>= 7;
    }
    *cursor_++ = static_cast<uint8_t>(v);
  }
  const uint8_t* data() const { return bytes_.data(); }
  size_t size() const { return static_cast<size_t>(cursor_ - bytes_.data()); }
  size_t capacity() const { return bytes_.size(); }
  void clear() { cursor_ = bytes_.data(); }
  /// Gives the memory back too.
  void release() {
    bytes_ = {};
    cursor_ = end_ = nullptr;
  }

 private:
  void grow(size_t bytes);
  std::vector<uint8_t> bytes_;
  uint8_t* cursor_ = nullptr;
  uint8_t* end_ = nullptr;
};

/// Finds the live slot of an address: open addressing over slot numbers, grown with their number.
class SlotIndex {
 public:
  /// kNone when the address is in no slot.
  uint32_t find(const LiveSlots& live, uint64_t address) const {
    if (table_.empty()) return LiveSlots::kNone;
    const size_t mask = table_.size() - 1;
    for (size_t at = place(address);; at = (at + 1) & mask) {
      const uint32_t slot = table_[at];
      if (slot == LiveSlots::kNone || live.slot(slot).address == address) return slot;
    }
  }
  void insert(const LiveSlots& live, uint32_t slot);
  /// Before the slot is emptied.
  void remove(const LiveSlots& live, uint32_t slot);
  void restart();

 private:
  size_t place(uint64_t address) const { return ((address >> 4) * 0x9E3779B97F4A7C15u) >> shift_; }
  std::vector<uint32_t> table_;
  unsigned shift_ = 64;
  size_t used_ = 0;
};

/// One thread's events on their way into a block.
class EventEncoder {
 public:
  explicit EventEncoder(uint32_t thread) { head_.thread = thread; }

  /// Heap and pool events drop this many low bits of ticks, from the next block on; at most 8.
  void set_tick_shift(unsigned shift) { wanted_shift_ = shift; }
  void add(const Event& event);
  uint64_t count() const { return head_.count; }
  bool full() const { return head_.count == kMaxBlockEvents || other().size() > kLongColumn; }
  /// Bytes held by the columns.
  size_t bytes() const;

  const EventBlockHead& head() const { return head_; }
  const ColumnBuffer& column(Column c) const { return columns_[static_cast<size_t>(c)]; }
  /// After the block was written: empty again, memory kept unless `release`.
  void restart(bool release = false);

 private:
  static constexpr size_t kLongColumn = 3u << 20;
  static constexpr size_t kRoomAhead = 256;  // events that all columns have room for
  struct Memory {
    MemoryModel* model;
    SlotIndex* index;
  };

  ColumnBuffer& at(Column c) { return columns_[static_cast<size_t>(c)]; }
  const ColumnBuffer& other() const { return column(Column::kOther); }
  void make_room();
  void begin_block(const Event& event);
  void put_time(const Event& event);
  void put_stack(uint32_t stack);
  void put_bytes(uint64_t bytes);
  bool put_planes(uint64_t address);
  void put_address(uint64_t address, uint8_t mode, const Memory& memory, uint64_t bytes,
                   uint64_t old_address);
  uint32_t put_victim(uint64_t address, uint8_t mode, const Memory& memory);
  uint8_t put_site(const Event& event);
  void insert(const Memory& memory, uint64_t address, uint64_t bytes);
  void remove(const Memory& memory, uint32_t slot);
  void put_alloc(const Event& event, const Memory& memory);
  void put_free(const Event& event, const Memory& memory);
  void put_realloc_begin(const Event& event);
  void put_realloc_end(const Event& event);
  void put_other(const Event& event);
  void follow_context(const Event& event);

  EventBlockHead head_;
  std::array<ColumnBuffer, kColumns> columns_;
  size_t room_ = 0;  ///< events that fit without another make_room
  ThreadModel model_;
  SlotIndex heap_index_, pool_index_;
  uint64_t last_ticks_ = 0;
  unsigned shift_ = 0, wanted_shift_ = 0;
  // The thread's context: what it works for, its own run or a lent one.
  struct Context {
    uint64_t run = 0;
    std::vector<uint32_t> ops;
  };
  std::vector<Context> contexts_ = std::vector<Context>(1);
};

}  // namespace opmeter::trace

#endif  // OPMETER_PROFILER_TRACE_EVENT_ENCODER_H_
