// SPDX-License-Identifier: Apache-2.0
// What makes a trace small: both sides of the file keep the same model of one thread's events and
// the file carries only what the model did not expect. Programs call in loops (the next stack
// follows from the last), a call site asks for the same size again, allocators give the block that
// was freed last, and a freed address is one that was given out: its place among the live blocks is
// shorter than the address. The model starts anew with each block, so a lost block costs no other.
//
// Nothing here depends on how events are stored. Encoder and decoder must make the same calls in
// the same order.
#ifndef OPMETER_PROFILER_TRACE_PREDICTION_H_
#define OPMETER_PROFILER_TRACE_PREDICTION_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "profiler/trace/kinds.h"

namespace opmeter::trace {

/// What was last seen with a call stack.
struct StackFacts {
  uint64_t bytes = 0;
  uint32_t next_stack = 0;  ///< that allocated next on this thread
  uint32_t ref = 0;
  uint16_t api = 0;
};

/// A table by id, made for small dense ids: grows to the largest id seen, up to a size where ids
/// begin to share entries.
template <typename T, uint32_t kMost>
class DenseTable {
 public:
  T& operator[](uint32_t id) {
    const uint32_t at = id & (kMost - 1);
    if (at >= entries_.size()) {
      entries_.resize(std::bit_ceil(at + 1) < 64 ? 64 : std::bit_ceil(at + 1));
    }
    return entries_[at];
  }
  void restart() { entries_.clear(); }

 private:
  static_assert(std::has_single_bit(kMost));
  std::vector<T> entries_;
};

/// The blocks that one thread allocated and that are live, each in a numbered slot, linked in the
/// order of allocation.
class LiveSlots {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kMost = 1u << 16;

  struct Slot {
    uint64_t address = 0;  ///< 0 = free
    uint64_t bytes = 0;
    uint32_t before = kNone, after = kNone;
  };

  /// The slot, or kNone when all are in use.
  uint32_t insert(uint64_t address, uint64_t bytes) {
    uint32_t at;
    if (!free_.empty()) {
      at = free_.back();
      free_.pop_back();
    } else if (slots_.size() < kMost) {
      at = static_cast<uint32_t>(slots_.size());
      slots_.emplace_back();
    } else {
      return kNone;
    }
    slots_[at] = {address, bytes, newest_, kNone};
    if (newest_ != kNone) slots_[newest_].after = at;
    newest_ = at;
    return at;
  }

  void remove(uint32_t at) {
    const Slot& s = slots_[at];
    if (s.before != kNone) slots_[s.before].after = s.after;
    if (s.after != kNone) slots_[s.after].before = s.before;
    if (newest_ == at) newest_ = s.before;
    // Lists are often freed in the order of their making, or in the reverse.
    after_last_freed_ = s.after;
    before_last_freed_ = s.before;
    slots_[at].address = 0;
    free_.push_back(at);
  }

  bool holds(uint32_t at) const { return at < slots_.size() && slots_[at].address != 0; }
  const Slot& slot(uint32_t at) const { return slots_[at]; }
  uint32_t newest() const { return newest_; }
  uint32_t after_last_freed() const { return after_last_freed_; }
  uint32_t before_last_freed() const { return before_last_freed_; }
  uint32_t size() const { return static_cast<uint32_t>(slots_.size()); }

  void restart() {
    slots_.clear();
    free_.clear();
    newest_ = after_last_freed_ = before_last_freed_ = kNone;
  }

 private:
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  uint32_t newest_ = kNone, after_last_freed_ = kNone, before_last_freed_ = kNone;
};

/// Guesses where an allocator puts the next block: where it freed one of that size last, behind the
/// block before, or at the last address freed.
class AddressGuess {
 public:
  uint64_t freed_of_this_size(uint64_t bytes) const {
    const uint32_t c = size_class(bytes);
    return depth_.empty() || depth_[c] == 0 ? 0 : freed_[c][(depth_[c] - 1) & (kDepth - 1)];
  }
  uint64_t behind_the_last() const { return last_ + chunk_bytes(last_bytes_); }
  uint64_t last_freed() const { return last_freed_; }

  void took_freed_of_this_size(uint64_t bytes) { --depth_[size_class(bytes)]; }
  void allocated(uint64_t address, uint64_t bytes) {
    last_ = address;
    last_bytes_ = bytes;
  }
  void freed(uint64_t address, uint64_t bytes) {
    if (depth_.empty()) {
      depth_.resize(kClasses);
      freed_.resize(kClasses);
    }
    last_freed_ = address;
    const uint32_t c = size_class(bytes);
    freed_[c][depth_[c] & (kDepth - 1)] = address;
    // A ring: beyond its depth the oldest are forgotten, and counting back below them yields what
    // overwrote them, a poor guess but the same one on both sides.
    ++depth_[c];
  }
  void restart() {
    std::fill(depth_.begin(), depth_.end(), uint32_t{0});
    last_ = last_bytes_ = last_freed_ = 0;
  }

 private:
  static constexpr uint32_t kClasses = 1024, kDepth = 8;
  /// As glibc's malloc rounds; near enough for the others.
  static uint64_t chunk_bytes(uint64_t bytes) {
    const uint64_t chunk = (bytes + 8 + 15) & ~uint64_t{15};
    return chunk < 32 ? 32 : chunk;
  }
  static uint32_t size_class(uint64_t bytes) {
    return static_cast<uint32_t>(chunk_bytes(bytes) >> 4) & (kClasses - 1);
  }
  std::vector<uint32_t> depth_;
  std::vector<std::array<uint64_t, kDepth>> freed_;
  uint64_t last_ = 0, last_bytes_ = 0, last_freed_ = 0;
};

/// One kind of memory: heap and pool blocks have addresses in common, so each has its own.
struct MemoryModel {
  LiveSlots live;
  AddressGuess guess;
  uint32_t free_stack = 0, free_ref = 0;  ///< of the last release
  uint16_t free_api = 0;

  void restart() {
    live.restart();
    guess.restart();
    free_stack = free_ref = 0;
    free_api = 0;
  }
};

/// The model of one thread.
struct ThreadModel {
  DenseTable<StackFacts, 8192> facts;
  uint32_t last_stack = 0;
  MemoryModel heap, pool;
  uint64_t address_high = 0;  ///< bits 28.. of the last address written in full
  DenseTable<uint32_t, 1024> next_op;
  uint32_t last_op = 0;
  uint64_t faults[2] = {0, 0};
  // Between kReallocBegin and kReallocEnd.
  uint64_t pending_old = 0, pending_bytes = 0;
  uint32_t pending_slot = LiveSlots::kNone;

  uint32_t expected_stack() { return facts[last_stack].next_stack; }
  void saw_stack(uint32_t stack) {
    facts[last_stack].next_stack = stack;
    last_stack = stack;
  }
  uint32_t expected_op() { return next_op[last_op]; }
  void saw_op(uint32_t op) {
    next_op[last_op] = op;
    last_op = op;
  }
  void restart() {
    facts.restart();
    heap.restart();
    pool.restart();
    next_op.restart();
    last_stack = last_op = 0;
    address_high = 0;
    faults[0] = faults[1] = 0;
    pending_old = pending_bytes = 0;
    pending_slot = LiveSlots::kNone;
  }
};

/// How an allocation's address is written (bits 4-6 of its mode byte).
enum class AddressMode : uint8_t {
  kFreedOfThisSize = 0,
  kBehindTheLast = 1,
  kLastFreed = 2,
  kInPlace = 3,  ///< of a realloc: the old address
  kPlanes =
      4,  ///< bits 4-27 in three columns; bits 28.. as in the last address in full, bits 0-3 zero
  kFull = 5,  ///< a varint
};
/// Bits 0-3 of an allocation's mode byte: the field is written because the model was wrong.
enum AllocMode : uint8_t { kNewStack = 1, kNewBytes = 2, kNewApi = 4, kNewRef = 8 };
inline constexpr unsigned kAddressModeShift = 4;
/// Bit 7, of a realloc's end: the old address is not the one its begin named.
inline constexpr uint8_t kOtherOldAddress = 128;

/// How a release names its block (bits 0-2 of its mode byte).
enum class VictimMode : uint8_t {
  kNewest = 0,
  kAfterLastFreed = 1,
  kBeforeLastFreed = 2,
  kSlot = 3,  ///< by number
  kPlanes = 4,
  kFull = 5,
};
/// The other bits of a release's mode byte.
enum FreeMode : uint8_t { kFreeNewApi = 8, kFreeNewRef = 16, kFreeNewStack = 32 };

/// Bit 0 of an op's mode byte.
inline constexpr uint8_t kNewOp = 1;

/// Heap and pool events need no better time than this many ns: their ticks are written without the
/// low bits. Spans keep all.
inline constexpr double kCoarseNs = 16.0;
constexpr bool is_coarse(EventKind kind) {
  return (kind >= EventKind::kAlloc && kind <= EventKind::kPoolFree) ||
         kind == EventKind::kMapAlloc || kind == EventKind::kMapFree;
}

}  // namespace opmeter::trace

#endif  // OPMETER_PROFILER_TRACE_PREDICTION_H_
