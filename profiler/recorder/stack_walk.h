// SPDX-License-Identifier: Apache-2.0
// Walks the calling thread's stack by unwind rules and notes every memory word that decided where
// the walk went. When the registers at the start and those words are the same again, the walk would
// be the same again: that is what makes a cached stack exact. Zone a; x86-64 (elsewhere the walk
// says "ask libunwind").
#ifndef OPMETER_PROFILER_RECORDER_STACK_WALK_H_
#define OPMETER_PROFILER_RECORDER_STACK_WALK_H_

#include <cstdint>

namespace opmeter::recorder {

/// A word of memory that the walk read: a return address, a saved frame pointer, ... in the order
/// of reading. The address of each is determined by the registers at the start and the words before
/// it.
struct WalkWord {
  uint64_t address;
  uint64_t value;
};

/// The registers of the frame that called a hook.
struct WalkStart {
  uint64_t pc;   ///< return address of the hook
  uint64_t rsp;  ///< after its return
  uint64_t rbp;
};

/// From __builtin_frame_address(0) in the hook.
inline WalkStart walk_start(const void* hook_frame) {
  const auto* frame = static_cast<const uint64_t*>(hook_frame);
  return {frame[1], reinterpret_cast<uint64_t>(frame + 2), frame[0]};
}

struct Walk {
  uint32_t frames = 0;    ///< return addresses written
  uint32_t words = 0;     ///< words noted; more than the room = `words_overflow`
  bool cut = false;       ///< the buffer of frames was full
  bool complete = false;  ///< false: rules did not reach; ask libunwind
  bool words_overflow = false;
};

/// Fills `frames` (innermost = start.pc) and `words`.
Walk walk_stack(const WalkStart& start, void** frames, uint32_t max_frames, WalkWord* words,
                uint32_t max_words);

}  // namespace opmeter::recorder

#endif  // OPMETER_PROFILER_RECORDER_STACK_WALK_H_
