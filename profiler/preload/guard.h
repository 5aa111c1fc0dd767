// SPDX-License-Identifier: Apache-2.0
// Counts each allocation once: while a real function runs on this thread, what the allocator calls
// of the family is part of it. What somebody else calls meanwhile, a signal handler or a
// new_handler, is the program's and counts. The guard is a stack address, so one left behind by an
// exception (operator new throws through our frame, which has no clean-up code: the library links
// no libstdc++) is recognised as stale. Zone a.
#ifndef OPMETER_PROFILER_PRELOAD_GUARD_H_
#define OPMETER_PROFILER_PRELOAD_GUARD_H_

#include <cstdint>

namespace opmeter::preload {

struct InsideTls {
  uintptr_t frame;            ///< frame of the hook whose real call is running; 0 = none
  uintptr_t throwing_caller;  ///< not 0: that hook is a throwing operator new, called from here
  uint64_t failing_size;      ///< its size: stale means that it threw
};
extern constinit thread_local InsideTls t_inside;

/// Around a real call. `frame` is the hook's __builtin_frame_address(0).
class Inside {
 public:
  explicit Inside(const void* frame) : outer_(t_inside) {
    t_inside.frame = reinterpret_cast<uintptr_t>(frame);
    t_inside.throwing_caller = 0;
  }
  /// Of a throwing operator new.
  Inside(const void* frame, uint64_t size) : outer_(t_inside) {
    t_inside = {reinterpret_cast<uintptr_t>(frame), static_cast<const uintptr_t*>(frame)[1], size};
  }
  ~Inside() { t_inside = outer_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  InsideTls outer_;  ///< not empty in a signal handler only
};

/// Whose code lies at an address: allocators, the C and C++ runtime and this library belong to a
/// real call, everything else is the program.
/// Around a real call when nothing is running that it could be inside of.
class OutermostInside {
 public:
  explicit OutermostInside(const void* frame) {
    t_inside.frame = reinterpret_cast<uintptr_t>(frame);
  }
  /// Of a throwing operator new.
  OutermostInside(const void* frame, uint64_t size) {
    t_inside = {reinterpret_cast<uintptr_t>(frame), static_cast<const uintptr_t*>(frame)[1], size};
  }
  ~OutermostInside() { t_inside.frame = t_inside.throwing_caller = 0; }
  OutermostInside(const OutermostInside&) = delete;
  OutermostInside& operator=(const OutermostInside&) = delete;
};

void allocator_code_start();
void add_allocator_code(const void* function);
bool is_allocator_code(uintptr_t pc);

}  // namespace opmeter::preload

#endif  // OPMETER_PROFILER_PRELOAD_GUARD_H_
