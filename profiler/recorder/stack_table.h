// SPDX-License-Identifier: Apache-2.0
// All call stacks of the process, each once: what a stack id stands for. Lock-free; entries are
// only ever added. Zone a.
#ifndef OPMETER_PROFILER_RECORDER_STACK_TABLE_H_
#define OPMETER_PROFILER_RECORDER_STACK_TABLE_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "profiler/recorder/recorder.h"

namespace opmeter::recorder {

struct StackNode {
  StackNode* next;
  uint64_t hash;
  uint32_t id;
  uint32_t epoch;
  uint32_t count;
  bool cut;
  /// Its definition is in a ring; a second one is harmless, none is not.
  std::atomic<bool> defined;

  /// `count` of them follow the node.
  void** frames() { return reinterpret_cast<void**>(this + 1); }
};
static_assert(sizeof(StackNode) % alignof(void*) == 0);

/// The hash of a stack is a sum over its frames, so that they can be added in any order and side by
/// side.
class StackHash {
 public:
  void add(uint32_t place, uint64_t pc) { sum_ += pc * multiplier(place); }
  uint64_t finish(uint32_t count, uint32_t epoch, bool cut) const {
    uint64_t h = sum_ ^ (uint64_t{epoch} << 33 | uint64_t{count} << 1 | (cut ? 1 : 0));
    h = (h ^ h >> 32) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
  }

 private:
  /// Odd and without a pattern: call paths differ by the same few distances in many places, so that
  /// multipliers in any arithmetic relation would map thousands of stacks to one sum.
  static constexpr std::array<uint64_t, 64> kMultipliers = [] {
    std::array<uint64_t, 64> m{};
    uint64_t state = 0;
    for (uint64_t& x : m) {
      state += 0x9E3779B97F4A7C15u;
      uint64_t z = state;
      z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
      z = (z ^ z >> 27) * 0x94D049BB133111EBu;
      x = (z ^ z >> 31) | 1;
    }
    return m;
  }();
  static uint64_t multiplier(uint32_t place) {
    return place < 64 ? kMultipliers[place]
                      : kMultipliers[place & 63] * (uint64_t{place >> 6} * 0xD6E8FEB86659FD93u | 1);
  }
  uint64_t sum_ = 0;
};

/// False when memory is refused.
bool stack_table_start();
/// Empty again, in a forked child; the nodes before are left to their fate.
void stack_table_restart();

/// The stack with these frames, defined in the ring of `t` if it is new. Null when memory is
/// refused.
StackNode* intern_stack(ThreadState* t, void* const* frames, uint32_t count, uint32_t epoch,
                        bool cut, uint64_t hash);

void define_stack(ThreadState* t, StackNode* node);

/// The id of a stack that intern_stack gave; defines it once more if its definition found no room.
inline uint32_t stack_id(ThreadState* t, StackNode* node) {
  if (!node->defined.load(std::memory_order_acquire)) [[unlikely]]
    define_stack(t, node);
  return node->id;
}

}  // namespace opmeter::recorder

#endif  // OPMETER_PROFILER_RECORDER_STACK_TABLE_H_
