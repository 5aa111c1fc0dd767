// SPDX-License-Identifier: Apache-2.0
#include "profiler/preload/real.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstring>

namespace opmeter::preload {

constinit RealFunctions g_real{};
constinit std::atomic<bool> g_real_known{false};
alignas(64) constinit uint8_t g_bootstrap[kBootstrapBytes] = {};

namespace {

constinit std::atomic<bool> g_looking_up{false};
constinit std::atomic<size_t> g_bootstrap_used{0};

template <typename F>
void look_up(F& function, const char* name) {
  void* symbol = dlsym(RTLD_NEXT, name);
  std::memcpy(&function, &symbol, sizeof function);
}

}  // namespace

const RealFunctions* look_up_real() {
  if (g_looking_up.exchange(true)) {
    return g_real_known.load(std::memory_order_acquire) ? &g_real : nullptr;
  }
  look_up(g_real.malloc, "malloc");
  look_up(g_real.calloc, "calloc");
  look_up(g_real.realloc, "realloc");
  look_up(g_real.free, "free");
  look_up(g_real.posix_memalign, "posix_memalign");
  look_up(g_real.aligned_alloc, "aligned_alloc");
  look_up(g_real.memalign, "memalign");
  look_up(g_real.valloc, "valloc");
  look_up(g_real.pvalloc, "pvalloc");
  look_up(g_real.reallocarray, "reallocarray");
  look_up(g_real.dlclose, "dlclose");
  look_up(g_real.mmap, "mmap");
  look_up(g_real.munmap, "munmap");
  look_up(g_real.mremap, "mremap");
  look_up(g_real.brk, "brk");
  look_up(g_real.sbrk, "sbrk");
  look_up(g_real.prctl, "prctl");
  look_up(g_real.execve, "execve");
  look_up(g_real.execv, "execv");
  look_up(g_real.execvp, "execvp");
  look_up(g_real.execvpe, "execvpe");
  look_up(g_real.fexecve, "fexecve");
  // These two fail on most C libraries of today; dlerror() gives the message's memory back at once.
  look_up(g_real.free_sized, "free_sized");
  look_up(g_real.free_aligned_sized, "free_aligned_sized");
  (void)dlerror();
  g_real_known.store(true, std::memory_order_release);
  return &g_real;
}

void* bootstrap_alloc(size_t bytes, size_t alignment) {
  const size_t need = bytes + alignment;
  if (need < bytes) return nullptr;
  const size_t at = g_bootstrap_used.fetch_add(need, std::memory_order_relaxed);
  if (at > sizeof g_bootstrap || need > sizeof g_bootstrap - at) return nullptr;
  const auto address = reinterpret_cast<uintptr_t>(g_bootstrap + at);
  return reinterpret_cast<void*>((address + alignment - 1) / alignment * alignment);
}

void* find_cxx_function(const char* mangled) {
  if (void* next = dlsym(RTLD_NEXT, mangled)) return next;
  (void)dlerror();
  void* library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) library = dlopen("libc++.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) {
    (void)dlerror();
    return nullptr;
  }
  return dlsym(library, mangled);
}

}  // namespace opmeter::preload
