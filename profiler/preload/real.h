// SPDX-License-Identifier: Apache-2.0
// The next definitions of every hooked function, found once by dlsym(RTLD_NEXT). Zone a.
#ifndef OPMETER_PROFILER_PRELOAD_REAL_H_
#define OPMETER_PROFILER_PRELOAD_REAL_H_

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace opmeter::preload {

struct RealFunctions {
  void* (*malloc)(size_t);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  void (*free)(void*);
  int (*posix_memalign)(void**, size_t, size_t);
  void* (*aligned_alloc)(size_t, size_t);
  void* (*memalign)(size_t, size_t);
  void* (*valloc)(size_t);
  void* (*pvalloc)(size_t);
  // May be null: not in every C library.
  void* (*reallocarray)(void*, size_t, size_t);
  void (*free_sized)(void*, size_t);
  void (*free_aligned_sized)(void*, size_t, size_t);
  int (*dlclose)(void*);
  void* (*mmap)(void*, size_t, int, int, int, off_t);
  int (*munmap)(void*, size_t);
  void* (*mremap)(void*, size_t, size_t, int, ...);
  int (*brk)(void*);
  void* (*sbrk)(intptr_t);
  int (*prctl)(int, ...);
  int (*execve)(const char*, char* const*, char* const*);
  int (*execv)(const char*, char* const*);
  int (*execvp)(const char*, char* const*);
  int (*execvpe)(const char*, char* const*, char* const*);
  int (*fexecve)(int, char* const*, char* const*);
};

extern constinit RealFunctions g_real;
extern constinit std::atomic<bool> g_real_known;
const RealFunctions* look_up_real();

/// The functions, looked up by the first caller. Null while that look-up itself is running on some
/// thread: then only bootstrap_alloc can serve (dlsym may allocate).
inline const RealFunctions* real() {
  if (g_real_known.load(std::memory_order_acquire)) [[likely]]
    return &g_real;
  return look_up_real();
}

/// Memory for the time before real() is there: never given back.
void* bootstrap_alloc(size_t bytes, size_t alignment);
inline constexpr size_t kBootstrapBytes = 32 * 1024;
extern constinit uint8_t g_bootstrap[kBootstrapBytes];
/// True for a block of bootstrap_alloc: it must never reach a real free.
inline bool is_bootstrap(const void* block) {
  return reinterpret_cast<uintptr_t>(block) - reinterpret_cast<uintptr_t>(g_bootstrap) <
         kBootstrapBytes;
}

/// The definition of a C++ allocation function after ours: the next in the global scope, else
/// libstdc++'s where it was loaded privately (a Python extension brings it). Null when the process
/// has none.
void* find_cxx_function(const char* mangled);

}  // namespace opmeter::preload

#endif  // OPMETER_PROFILER_PRELOAD_REAL_H_
