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

/// The thread when this call is to be recorded plainly (see recorder.h); else null.
inline recorder::ThreadState* plain_thread() {
  if (t_inside.frame != 0 || recorder::watching()) return nullptr;
  return recorder::plain_thread();
}

inline void note_alloc(const void* frame, AllocApi api, const void* block, uint64_t bytes,
                       recorder::CallTime time = {}) {
  if (recorder::watching()) recorder::watch_alloc(frame, api, block, bytes);
  const recorder::Recording window(frame);
  if (window.thread() != nullptr) {
    recorder::record_alloc(window.thread(), frame, api, block, bytes, time);
  }
}

inline void note_free(const void* frame, AllocApi api, const void* block,
                      recorder::CallTime time = {}) {
  if (recorder::watching()) recorder::watch_free(block);
  const recorder::Recording window(frame);
  if (window.thread() != nullptr) recorder::record_free(window.thread(), frame, api, block, time);
}

/// The real call of an allocating hook, timed when that was asked for. Returns what it returns.
template <typename Guard, typename Call>
auto guarded(const Guard&, recorder::CallTime& time, Call call) {
  if (!recorder::timing_calls()) return call();
  time.begin = recorder::ticks_now();
  const auto result = call();
  time.end = recorder::ticks_now();
  return result;
}

/// A release: recorded before the real call, or, when calls are timed, after it at the time of its
/// begin.
template <typename Call>
void release(const void* frame, AllocApi api, const void* block, Call call) {
  if (!recorder::timing_calls()) {
    note_free(frame, api, block);
    const Inside inside(frame);
    call();
    return;
  }
  recorder::CallTime time;
  time.begin = recorder::ticks_after_loads();
  {
    const Inside inside(frame);
    call();
  }
  time.end = recorder::ticks_now();
  note_free(frame, api, block, time);
}

}  // namespace opmeter::preload

#endif  // OPMETER_PROFILER_PRELOAD_HOOKS_H_
