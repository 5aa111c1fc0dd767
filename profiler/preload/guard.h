// SPDX-License-Identifier: Apache-2.0
// Counts each allocation once: while a real function runs on this thread, what it calls of the
// family is part of it. The guard is a stack address, so one left behind by an exception (operator
// new throws through our frame, which has no clean-up code: the library links no libstdc++) is
// recognised as stale by the next call at the same depth or above.
#ifndef OPMETER_PROFILER_PRELOAD_GUARD_H_
#define OPMETER_PROFILER_PRELOAD_GUARD_H_

#include <cstdint>

namespace opmeter::preload {

struct InsideTls {
  uintptr_t frame;        ///< frame of the hook whose real call is running; 0 = none
  uint64_t failing_size;  ///< that hook is a throwing operator new of this size: stale means that
                          ///< it threw
  bool may_throw;
};
extern constinit thread_local InsideTls t_inside;

/// Around a real call. `frame` is the hook's __builtin_frame_address(0).
class Inside {
 public:
  explicit Inside(const void* frame) { t_inside.frame = reinterpret_cast<uintptr_t>(frame); }
  ~Inside() { t_inside.frame = 0; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

}  // namespace opmeter::preload

#endif  // OPMETER_PROFILER_PRELOAD_GUARD_H_
