// SPDX-License-Identifier: Apache-2.0
// Turns an event block back into events: the mirror of event_encoder.h. Takes any bytes: what does
// not decode ends the block, never the program.
#ifndef OPMETER_PROFILER_TRACE_EVENT_DECODER_H_
#define OPMETER_PROFILER_TRACE_EVENT_DECODER_H_

#include <array>
#include <cstdint>
#include <vector>

#include "profiler/trace/event.h"
#include "profiler/trace/format.h"
#include "profiler/trace/prediction.h"

struct ZSTD_DCtx_s;

namespace opmeter::trace {

/// Reads the head; false when it is cut or claims the impossible. `columns_at` = where the columns
/// begin in the payload.
bool read_event_block_head(const uint8_t* payload, size_t size, EventBlockHead& head,
                           size_t& columns_at);

/// A column being read; past its end it fails and gives zeros.
class ColumnReader {
 public:
  void set(const uint8_t* begin, size_t size) {
    cursor_ = begin;
    end_ = begin + size;
  }
  uint8_t byte(bool& failed) {
    if (cursor_ == end_) [[unlikely]] {
      failed = true;
      return 0;
    }
    return *cursor_++;
  }
  uint64_t varint(bool& failed) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const uint8_t b = byte(failed);
      value |= static_cast<uint64_t>(b & 0x7f) << shift;
      if ((b & 0x80) == 0) return value;
    }
    failed = true;
    return 0;
  }

 private:
  const uint8_t* cursor_ = nullptr;
  const uint8_t* end_ = nullptr;
};

/// The events of one block at a time. Memory is kept from block to block.
class EventDecoder {
 public:
  /// Starts a block; false when its columns cannot be had. The payload need not outlive the call.
  bool open(const uint8_t* payload, size_t size, ZSTD_DCtx_s* zstd);
  const EventBlockHead& head() const { return head_; }
  /// The next events of the block, at most `most`; 0 at its end or where it stops making sense.
  /// time_ns is left to the caller; duration is in ticks.
  size_t decode(Event* out, size_t most);
  /// Events that the head promised and decode did not give.
  uint64_t left() const { return left_; }
  /// Gives up what is left of the block.
  void skip() { left_ = 0; }

 private:
  ColumnReader& at(Column c) { return columns_[static_cast<size_t>(c)]; }
  uint8_t byte(Column c) { return at(c).byte(failed_); }
  uint64_t varint(Column c) { return at(c).varint(failed_); }
  void take_time(Event& event);
  uint32_t take_stack();
  uint64_t take_bytes();
  uint64_t take_planes();
  uint64_t take_full();
  uint64_t take_address(uint8_t mode, MemoryModel& memory, uint64_t bytes, uint64_t old_address);
  uint32_t take_victim(uint8_t mode, const MemoryModel& memory, uint64_t& address);
  void take_site(Event& event, uint8_t mode);
  static void remove(MemoryModel& memory, uint32_t slot);
  void take_alloc(Event& event, MemoryModel& memory);
  void take_free(Event& event, MemoryModel& memory);
  void take_realloc_begin(Event& event);
  void take_realloc_end(Event& event);
  void take_other(Event& event, uint8_t fields);
  void take(Event& event);

  EventBlockHead head_;
  std::array<ColumnReader, kColumns> columns_;
  std::vector<uint8_t> bytes_;
  ThreadModel model_;
  uint64_t left_ = 0;
  uint64_t coarse_ = 0;  ///< ticks >> shift of the last event
  uint64_t ticks_ = 0;
  unsigned shift_ = 0;
  bool failed_ = false;
};

}  // namespace opmeter::trace

#endif  // OPMETER_PROFILER_TRACE_EVENT_DECODER_H_
