// SPDX-License-Identifier: Apache-2.0
// All replaceable forms of operator new and delete: over allocators whose operator new does not
// call malloc, a hook on malloc alone would miss them. Each hook records once and calls the next
// definition, whose own malloc is part of it. Declared by mangled name: the library links no
// libstdc++. Zone a.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "profiler/preload/hooks.h"

namespace opmeter::preload {
namespace {

/// A function found on its first call.
template <typename F>
class Next {
 public:
  explicit constexpr Next(const char* mangled) : mangled_(mangled) {}
  F get() {
    void* known = function_.load(std::memory_order_acquire);
    if (known == nullptr) {
      known = find_cxx_function(mangled_);
      add_allocator_code(known);
      function_.store(known, std::memory_order_release);
    }
    F function;
    std::memcpy(&function, &known, sizeof function);
    return function;
  }

 private:
  const char* mangled_;
  std::atomic<void*> function_{nullptr};
};

/// The process has no C++ library of its own that we could find: serve from malloc, and never
/// return null from a throwing new.
void* new_without_library(size_t size, size_t alignment, bool nothrow) {
  void* block = alignment == 0 ? malloc(size == 0 ? 1 : size) : aligned_alloc(alignment, size);
  if (block == nullptr && !nothrow) {
    constexpr char kMessage[] =
        "opmeter: operator new failed and no C++ library was found to throw bad_alloc\n";
    (void)!write(2, kMessage, sizeof kMessage - 1);
    abort();
  }
  return block;
}

template <typename Call>
void* hooked_new(const void* frame, AllocApi api, size_t size, bool throws, Call call) {
  if (!outermost(frame)) return call();
  recorder::CallTime time;
  void* block =
      throws ? guarded(Inside(frame, size), time, call) : guarded(Inside(frame), time, call);
  note_alloc(frame, api, block, size, time);
  return block;
}

template <typename Call>
void hooked_delete(const void* frame, AllocApi api, void* block, Call call) {
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

// A hook: mangled name, parameter list, arguments, and what stands in when the process has no
// definition.
#define OPM_NEW(mangled, api, params, args, alignment, throws)                      \
  OPM_HOOK void* mangled params {                                                   \
    using Function = void*(*)params;                                                \
    static constinit Next<Function> next(#mangled);                                 \
    return hooked_new(OPM_FRAME, AllocApi::api, size, throws, [&]() -> void* {      \
      const Function function = next.get();                                         \
      return function != nullptr ? function args                                    \
                                 : new_without_library(size, alignment, !(throws)); \
    });                                                                             \
  }

#define OPM_DELETE(mangled, api, params, args)           \
  OPM_HOOK void mangled params {                         \
    using Function = void(*) params;                     \
    static constinit Next<Function> next(#mangled);      \
    hooked_delete(OPM_FRAME, AllocApi::api, block, [&] { \
      const Function function = next.get();              \
      if (function != nullptr) return function args;     \
      free(block);                                       \
    });                                                  \
  }

// size_t is m (unsigned long) in the Itanium mangling of LP64.
OPM_NEW(_Znwm, kNew, (size_t size), (size), 0, true)
OPM_NEW(_Znam, kNewArray, (size_t size), (size), 0, true)
OPM_NEW(_ZnwmRKSt9nothrow_t, kNew, (size_t size, const void* tag), (size, tag), 0, false)
OPM_NEW(_ZnamRKSt9nothrow_t, kNewArray, (size_t size, const void* tag), (size, tag), 0, false)
OPM_NEW(_ZnwmSt11align_val_t, kNew, (size_t size, size_t alignment), (size, alignment), alignment,
        true)
OPM_NEW(_ZnamSt11align_val_t, kNewArray, (size_t size, size_t alignment), (size, alignment),
        alignment, true)
OPM_NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, kNew, (size_t size, size_t alignment, const void* tag),
        (size, alignment, tag), alignment, false)
OPM_NEW(_ZnamSt11align_val_tRKSt9nothrow_t, kNewArray,
        (size_t size, size_t alignment, const void* tag), (size, alignment, tag), alignment, false)

OPM_DELETE(_ZdlPv, kDelete, (void* block), (block))
OPM_DELETE(_ZdaPv, kDeleteArray, (void* block), (block))
OPM_DELETE(_ZdlPvm, kDelete, (void* block, size_t size), (block, size))
OPM_DELETE(_ZdaPvm, kDeleteArray, (void* block, size_t size), (block, size))
OPM_DELETE(_ZdlPvRKSt9nothrow_t, kDelete, (void* block, const void* tag), (block, tag))
OPM_DELETE(_ZdaPvRKSt9nothrow_t, kDeleteArray, (void* block, const void* tag), (block, tag))
OPM_DELETE(_ZdlPvSt11align_val_t, kDelete, (void* block, size_t alignment), (block, alignment))
OPM_DELETE(_ZdaPvSt11align_val_t, kDeleteArray, (void* block, size_t alignment), (block, alignment))
OPM_DELETE(_ZdlPvmSt11align_val_t, kDelete, (void* block, size_t size, size_t alignment),
           (block, size, alignment))
OPM_DELETE(_ZdaPvmSt11align_val_t, kDeleteArray, (void* block, size_t size, size_t alignment),
           (block, size, alignment))
OPM_DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, kDelete,
           (void* block, size_t alignment, const void* tag), (block, alignment, tag))
OPM_DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, kDeleteArray,
           (void* block, size_t alignment, const void* tag), (block, alignment, tag))
