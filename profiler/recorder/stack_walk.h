// SPDX-License-Identifier: Apache-2.0
// Walks the calling thread's stack by unwind rules and notes every memory word that decided where
// the walk went: what a later walk of the same stack has to look at again (stack_layouts.h). Zone
// a; x86-64 (elsewhere the walk says "ask libunwind").
#ifndef OPMETER_PROFILER_RECORDER_STACK_WALK_H_
#define OPMETER_PROFILER_RECORDER_STACK_WALK_H_

#include <cstdint>

namespace opmeter::recorder {

/// A word of memory that the walk read, in the order of reading. The address of each is determined
/// by the registers at the start and the words before it.
struct WalkWord {
  enum Kind : uint8_t {
    kReturn,  ///< the return address of the next frame
    kSaved,   ///< a caller's rbp; `used` when the walk went where it points
    kFixed,   ///< anything else that decided where the walk went
  };
  uint64_t address;
  uint64_t value;
  int32_t
      from;  ///< kSaved that lies where an earlier saved rbp points: its place in the log, or -1
  Kind kind;
  bool used;
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

/// Where a walk notes what it read; more words than room = `overflow`.
struct WalkLog {
  WalkWord* words = nullptr;
  uint32_t room = 0;
  uint32_t used = 0;
  uint64_t* rules = nullptr;  ///< the packed rule of each frame; as much room as frames
  bool overflow = false;
  bool start_rbp_used = false;  ///< the walk went where rbp pointed at its start
  bool signal_frames = false;
};

struct Walk {
  uint32_t frames = 0;    ///< return addresses written
  bool cut = false;       ///< the buffer of frames was full
  bool complete = false;  ///< false: rules did not reach; ask libunwind
};

/// Fills `frames` (innermost = start.pc) and, unless null, the log.
Walk walk_stack(const WalkStart& start, void** frames, uint32_t max_frames, WalkLog* log);

}  // namespace opmeter::recorder

#endif  // OPMETER_PROFILER_RECORDER_STACK_WALK_H_
