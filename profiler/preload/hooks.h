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

void record_thrown(uint64_t size);

/// True when this call is the program's own and is to be recorded; false inside another hook's real
/// call.
inline bool outermost(const void* frame) {
  if (!recorder::recording() && !recorder::watching()) return false;
  InsideTls& tls = t_inside;
  if (tls.frame == 0) return true;
  if (reinterpret_cast<uintptr_t>(frame) < tls.frame) return false;
  tls.frame = 0;  // that hook's frame is gone: an exception passed through it
  if (tls.may_throw) {
    tls.may_throw = false;
    record_thrown(tls.failing_size);
  }
  return true;
}

inline void note_alloc(const void* frame, AllocApi api, const void* block, uint64_t bytes) {
  if (recorder::watching()) recorder::watch_alloc(frame, api, block, bytes);
  const recorder::Recording window;
  if (window.thread() != nullptr) recorder::record_alloc(window.thread(), frame, api, block, bytes);
}

inline void note_free(const void* frame, AllocApi api, const void* block) {
  if (recorder::watching()) recorder::watch_free(block);
  const recorder::Recording window;
  if (window.thread() != nullptr) recorder::record_free(window.thread(), frame, api, block);
}

}  // namespace opmeter::preload

#endif  // OPMETER_PROFILER_PRELOAD_HOOKS_H_
