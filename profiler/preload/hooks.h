// SPDX-License-Identifier: Apache-2.0
// Shared by the C and the C++ hooks: when to record, and how.
#ifndef OPMETER_PROFILER_PRELOAD_HOOKS_H_
#define OPMETER_PROFILER_PRELOAD_HOOKS_H_

#include <cstdint>

#include "profiler/preload/guard.h"
#include "profiler/preload/real.h"
#include "profiler/recorder/recorder.h"
#include "profiler/recorder/watch.h"

#define OPM_HOOK extern "C" __attribute__((visibility("default")))
#define OPM_FRAME __builtin_frame_address(0)

namespace opmeter::preload {

using recorder::AllocApi;

/// The slow part of outermost(): a real call is running on this thread, or an exception ended it.
bool is_programs_own(const void* frame);

/// True when this call is the program's own and is to be recorded; false for what an allocator
/// calls inside another hook's real call.
inline bool outermost(const void* frame) {
  if (!recorder::recording() && !recorder::watching()) return false;
  return t_inside.frame == 0 || is_programs_own(frame);
}

inline void note_alloc(const void* frame, AllocApi api, const void* block, uint64_t bytes) {
  if (recorder::watching()) recorder::watch_alloc(frame, api, block, bytes);
  const recorder::Recording window(frame);
  if (window.thread() != nullptr) recorder::record_alloc(window.thread(), frame, api, block, bytes);
}

inline void note_free(const void* frame, AllocApi api, const void* block) {
  if (recorder::watching()) recorder::watch_free(block);
  const recorder::Recording window(frame);
  if (window.thread() != nullptr) recorder::record_free(window.thread(), frame, api, block);
}

}  // namespace opmeter::preload

#endif  // OPMETER_PROFILER_PRELOAD_HOOKS_H_
