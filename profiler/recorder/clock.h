// SPDX-License-Identifier: Apache-2.0
// The recorder's clock: the cheapest monotonic counter that agrees between cores. Zone a.
#ifndef OPMETER_PROFILER_RECORDER_CLOCK_H_
#define OPMETER_PROFILER_RECORDER_CLOCK_H_

#include <time.h>

#include <cstdint>

namespace opmeter::recorder {

inline uint64_t clock_ns(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

/// Ticks of the invariant time stamp counter (x86-64), the generic timer (AArch64), else
/// CLOCK_MONOTONIC ns. The drain takes ClockSync readings, so the unit need not be known here.
inline uint64_t ticks_now() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t value;
  asm volatile("mrs %0, cntvct_el0" : "=r"(value));
  return value;
#else
  return clock_ns(CLOCK_MONOTONIC);
#endif
}

/// A stamp for "before what follows, after all that came before": the counter alone may be read
/// while the processor still waits for the block's address from another core, and a release would
/// seem to precede the allocation.
inline uint64_t ticks_after_loads() {
#if defined(__x86_64__)
  __builtin_ia32_lfence();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
  return ticks_now();
}

}  // namespace opmeter::recorder

#endif  // OPMETER_PROFILER_RECORDER_CLOCK_H_
