// SPDX-License-Identifier: Apache-2.0
// The malloc family of the C library. A free is recorded before the real call and an allocation
// after it, so that no other thread can be seen using an address too early. Zone a.
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>

#include "profiler/preload/hooks.h"
#include "profiler/preload/loader_blocks.h"

namespace opmeter::preload {

constinit thread_local InsideTls t_inside{};

namespace {

/// A signal handler on its alternate stack: addresses there say nothing about the depth of calls.
bool on_alternate_stack() {
  const recorder::KeepErrno keep;
  stack_t now{};
  return syscall(SYS_sigaltstack, nullptr, &now) == 0 && (now.ss_flags & SS_ONSTACK) != 0;
}

/// The throwing operator new that the guard remembers is no longer running: this call is not deeper
/// than its frame, or that frame has been overwritten.
bool has_thrown(const void* frame, const InsideTls& tls) {
  if (tls.throwing_caller == 0) return false;
  if (reinterpret_cast<const uintptr_t*>(tls.frame)[1] != tls.throwing_caller) return true;
  return reinterpret_cast<uintptr_t>(frame) >= tls.frame && !on_alternate_stack();
}

}  // namespace

bool is_programs_own(const void* frame) {
  InsideTls& tls = t_inside;
  if (has_thrown(frame, tls)) {
    const uint64_t size = tls.failing_size;
    tls = {};
    note_alloc(nullptr, AllocApi::kNew, nullptr, size);
    return true;
  }
  return !is_allocator_code(static_cast<const uintptr_t*>(frame)[1]);
}

namespace {

constexpr size_t kBootstrapAlignment = 16;

size_t saturating_product(size_t a, size_t b) {
  size_t product;
  return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

/// realloc and reallocarray once their size is known; `call` is the real one.
template <typename Call>
void* hooked_realloc(const void* frame, AllocApi api, void* old_block, size_t size, Call call) {
  if (!outermost(frame)) return call();
  if (old_block == nullptr) {
    recorder::CallTime time;
    void* block = guarded(Inside(frame), time, call);
    note_alloc(frame, api, block, size, time);
    return block;
  }
  if (size == 0) {  // a release with glibc; other allocators may answer with a block of no bytes
    void* block = nullptr;
    release(frame, api, old_block, [&] { block = call(); });
    if (block != nullptr) note_alloc(frame, api, block, 0);
    return block;
  }
  const recorder::WatchedRealloc watched(old_block);
  const uint64_t before = recorder::ticks_after_loads();
  void* block;
  {
    const Inside inside(frame);
    block = call();
  }
  watched.done(frame, api, block, size);
  const recorder::Recording window(frame);
  if (window.thread() != nullptr) {
    recorder::record_realloc(window.thread(), frame, api, before, old_block, block, size);
  }
  return block;
}

void* bootstrap_realloc(void* old_block, size_t size) {
  void* block =
      real() != nullptr ? real()->malloc(size) : bootstrap_alloc(size, kBootstrapAlignment);
  // The old size is unknown; what follows it in the bootstrap buffer is readable up to the buffer's
  // end.
  if (block != nullptr && old_block != nullptr) {
    const auto* from = static_cast<const char*>(old_block);
    size_t readable = 0;
    while (readable < size && is_bootstrap(from + readable)) ++readable;
    std::memcpy(block, from, readable);
  }
  return block;
}

/// memalign, aligned_alloc, valloc and pvalloc differ in the real call only.
template <typename Call>
void* hooked_alloc(const void* frame, AllocApi api, uint64_t size, Call call) {
  if (recorder::ThreadState* t = plain_thread(); t != nullptr) [[likely]] {
    void* block;
    {
      const OutermostInside inside(frame);
      block = call();
    }
    recorder::record_plain_alloc(t, frame, api, block, size);
    return block;
  }
  if (!outermost(frame)) return call();
  recorder::CallTime time;
  void* block = guarded(Inside(frame), time, call);
  note_alloc(frame, api, block, size, time);
  return block;
}

template <typename Call>
void hooked_free(const void* frame, AllocApi api, void* block, Call call) {
  if (block == nullptr || is_bootstrap(block)) return;
  if (recorder::ThreadState* t = plain_thread(); t != nullptr) [[likely]] {
    recorder::record_plain_free(t, api, block);
    const OutermostInside inside(frame);
    call();
    return;
  }
  if (!outermost(frame)) return call();
  release(frame, api, block, call);
}

}  // namespace
}  // namespace opmeter::preload

using namespace opmeter::preload;  // NOLINT: the hooks below must be global

OPM_HOOK void* malloc(size_t size) {
  const RealFunctions* next = real();
  if (next == nullptr) return bootstrap_alloc(size, kBootstrapAlignment);
  return hooked_alloc(OPM_FRAME, AllocApi::kMalloc, size, [&] { return next->malloc(size); });
}

OPM_HOOK void* calloc(size_t count, size_t size) {
  const RealFunctions* next = real();
  const size_t bytes = saturating_product(count, size);
  if (next == nullptr) return bootstrap_alloc(bytes, kBootstrapAlignment);
  return hooked_alloc(OPM_FRAME, AllocApi::kCalloc,
                      size_without_us(bytes, size, __builtin_return_address(0)),
                      [&] { return next->calloc(count, size); });
}

OPM_HOOK void* realloc(void* block, size_t size) {
  const RealFunctions* next = real();
  if (next == nullptr || is_bootstrap(block)) return bootstrap_realloc(block, size);
  return hooked_realloc(OPM_FRAME, AllocApi::kRealloc, block, size,
                        [&] { return next->realloc(block, size); });
}

OPM_HOOK void* reallocarray(void* block, size_t count, size_t size) {
  const RealFunctions* next = real();
  const size_t bytes = saturating_product(count, size);
  if (next == nullptr || is_bootstrap(block)) return bootstrap_realloc(block, bytes);
  return hooked_realloc(OPM_FRAME, AllocApi::kReallocarray, block, bytes, [&]() -> void* {
    if (next->reallocarray != nullptr) return next->reallocarray(block, count, size);
    if (bytes == SIZE_MAX) {
      errno = ENOMEM;
      return nullptr;
    }
    return next->realloc(block, bytes);
  });
}

OPM_HOOK void free(void* block) {
  const RealFunctions* next = real();
  if (next == nullptr) return;
  hooked_free(OPM_FRAME, AllocApi::kFree, block, [&] { next->free(block); });
}

OPM_HOOK void free_sized(void* block, size_t size) {
  const RealFunctions* next = real();
  if (next == nullptr) return;
  hooked_free(OPM_FRAME, AllocApi::kFreeSized, block, [&] {
    if (next->free_sized != nullptr) return next->free_sized(block, size);
    next->free(block);
  });
}

OPM_HOOK void free_aligned_sized(void* block, size_t alignment, size_t size) {
  const RealFunctions* next = real();
  if (next == nullptr) return;
  hooked_free(OPM_FRAME, AllocApi::kFreeAlignedSized, block, [&] {
    if (next->free_aligned_sized != nullptr)
      return next->free_aligned_sized(block, alignment, size);
    next->free(block);
  });
}

OPM_HOOK int posix_memalign(void** out, size_t alignment, size_t size) {
  const RealFunctions* next = real();
  if (next == nullptr) {
    *out = bootstrap_alloc(size, alignment);
    return *out == nullptr ? ENOMEM : 0;
  }
  const void* frame = OPM_FRAME;
  if (!outermost(frame)) return next->posix_memalign(out, alignment, size);
  opmeter::recorder::CallTime time;
  const int error =
      guarded(Inside(frame), time, [&] { return next->posix_memalign(out, alignment, size); });
  note_alloc(frame, AllocApi::kPosixMemalign, error == 0 ? *out : nullptr, size, time);
  return error;
}

OPM_HOOK void* aligned_alloc(size_t alignment, size_t size) {
  const RealFunctions* next = real();
  if (next == nullptr) return bootstrap_alloc(size, alignment);
  return hooked_alloc(OPM_FRAME, AllocApi::kAlignedAlloc, size,
                      [&] { return next->aligned_alloc(alignment, size); });
}

OPM_HOOK void* memalign(size_t alignment, size_t size) {
  const RealFunctions* next = real();
  if (next == nullptr) return bootstrap_alloc(size, alignment);
  return hooked_alloc(OPM_FRAME, AllocApi::kMemalign, size,
                      [&] { return next->memalign(alignment, size); });
}

OPM_HOOK void* valloc(size_t size) {
  const RealFunctions* next = real();
  if (next == nullptr) return bootstrap_alloc(size, static_cast<size_t>(sysconf(_SC_PAGESIZE)));
  return hooked_alloc(OPM_FRAME, AllocApi::kValloc, size, [&] { return next->valloc(size); });
}

OPM_HOOK void* pvalloc(size_t size) {
  const RealFunctions* next = real();
  if (next == nullptr) return bootstrap_alloc(size, static_cast<size_t>(sysconf(_SC_PAGESIZE)));
  return hooked_alloc(OPM_FRAME, AllocApi::kPvalloc, size, [&] { return next->pvalloc(size); });
}
