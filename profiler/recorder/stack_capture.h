// SPDX-License-Identifier: Apache-2.0
// Call stacks of the calling thread as ids. Equal stacks (same return addresses under the same set
// of loaded modules) have the same id in the whole process; a new one is defined in the ring before
// its id is used. Zone a.
#ifndef OPMETER_PROFILER_RECORDER_STACK_CAPTURE_H_
#define OPMETER_PROFILER_RECORDER_STACK_CAPTURE_H_

#include <cstdint>

#include "profiler/recorder/recorder.h"

namespace opmeter::recorder {

/// Prepares the unwinder and the table. False when memory is refused: stacks are then all 0.
bool stacks_start();

/// In a forked child that records: ids start anew in its session. No ThreadState of the parent may
/// be used after it.
void stacks_restart();

/// True while this thread runs libunwind for us.
bool inside_unwinder();

/// The stack of the program that called the hook with this frame; 0 = none (also for a null frame).
/// Exact: a known layout is used only where a walk would do the same (stack_layouts.h); else the
/// stack is walked by unwind rules; where those do not reach (code without unwind information),
/// libunwind walks.
uint32_t capture_stack(ThreadState* t, const void* hook_frame);

/// Rules cached for unloaded code must not be used again.
void stacks_flush();

}  // namespace opmeter::recorder

#endif  // OPMETER_PROFILER_RECORDER_STACK_CAPTURE_H_
