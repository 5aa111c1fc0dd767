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

/// The caller's stack without the preload library's own innermost frames. 0 = none. Exact: every
/// call walks (libunwind, whose per-thread cache of unwind rules is flushed when a module goes),
/// then looks the frames up.
uint32_t capture_stack(ThreadState* t);

/// Rules cached for unloaded code must not be used again.
void stacks_flush();

}  // namespace opmeter::recorder

#endif  // OPMETER_PROFILER_RECORDER_STACK_CAPTURE_H_
