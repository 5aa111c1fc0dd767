// SPDX-License-Identifier: Apache-2.0
// mmap, munmap, mremap, brk and sbrk as the program calls them: domain map, only when asked for.
// What an allocator maps inside a call of the malloc family is that call's own affair; the C
// library's internal mappings do not pass here. Nothing here waits for anything, because an
// allocator may call under its own lock. Zone a.
#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "profiler/preload/hooks.h"

namespace opmeter::preload {
namespace {

bool wanted(const void* frame) { return recorder::recording_maps() && outermost(frame); }

uint64_t number(const void* address) { return reinterpret_cast<uint64_t>(address); }

void note_map(const void* frame, AllocApi api, const void* address, uint64_t bytes) {
  const recorder::Recording window(frame);
  if (window.thread() == nullptr) return;
  const uint64_t at = address == MAP_FAILED ? 0 : number(address);
  recorder::record_map_alloc(window.thread(), frame, api, at, bytes);
}

void note_unmap(const void* frame, AllocApi api, uint64_t before, uint64_t address,
                uint64_t bytes) {
  const recorder::Recording window(frame);
  if (window.thread() == nullptr) return;
  recorder::record_map_free(window.thread(), api, before, address, bytes);
}

/// The program break moved from `from` to `to`.
void note_break(const void* frame, uint64_t before, uint64_t from, uint64_t to) {
  if (to > from) {
    note_map(frame, AllocApi::kSbrk, reinterpret_cast<const void*>(from), to - from);
  } else if (to < from) {
    note_unmap(frame, AllocApi::kSbrk, before, to, from - to);
  }
}

void* real_mmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  const RealFunctions* next = real();
  if (next != nullptr && next->mmap != nullptr) {
    return next->mmap(at, bytes, protection, flags, fd, offset);
  }
  // Before the next definition is known: its whole work is this.
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, bytes, protection, flags, fd, offset));
}

void* hooked_mmap(const void* frame, void* at, size_t bytes, int protection, int flags, int fd,
                  off_t offset) {
  void* mapped = real_mmap(at, bytes, protection, flags, fd, offset);
  if (wanted(frame)) note_map(frame, AllocApi::kMmap, mapped, bytes);
  return mapped;
}

}  // namespace
}  // namespace opmeter::preload

using namespace opmeter::preload;  // NOLINT: the hooks below must be global

OPM_HOOK void* mmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  return hooked_mmap(OPM_FRAME, at, bytes, protection, flags, fd, offset);
}

OPM_HOOK void* mmap64(void* at, size_t bytes, int protection, int flags, int fd, off64_t offset) {
  return hooked_mmap(OPM_FRAME, at, bytes, protection, flags, fd, offset);
}

OPM_HOOK int munmap(void* at, size_t bytes) {
  const RealFunctions* next = real();
  const uint64_t before = opmeter::recorder::ticks_after_loads();
  const int result = next != nullptr && next->munmap != nullptr
                         ? next->munmap(at, bytes)
                         : static_cast<int>(syscall(SYS_munmap, at, bytes));
  if (result == 0 && wanted(OPM_FRAME))
    note_unmap(OPM_FRAME, AllocApi::kMunmap, before, number(at), bytes);
  return result;
}

OPM_HOOK void* mremap(void* old_at, size_t old_bytes, size_t bytes, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  void* wish = (flags & MREMAP_FIXED) != 0 ? va_arg(rest, void*) : nullptr;
  va_end(rest);
  const RealFunctions* next = real();
  const uint64_t before = opmeter::recorder::ticks_after_loads();
  void* mapped =
      next != nullptr && next->mremap != nullptr
          ? next->mremap(old_at, old_bytes, bytes, flags, wish)
          : reinterpret_cast<void*>(syscall(SYS_mremap, old_at, old_bytes, bytes, flags, wish));
  if (!wanted(OPM_FRAME)) return mapped;
  // Size 0 makes a second mapping of shared pages; DONTUNMAP leaves the old range mapped.
  const bool leaves_old = old_bytes == 0 || (flags & MREMAP_DONTUNMAP) != 0;
  if (mapped != MAP_FAILED && !leaves_old) {
    note_unmap(OPM_FRAME, AllocApi::kMremap, before, number(old_at), old_bytes);
  }
  note_map(OPM_FRAME, AllocApi::kMremap, mapped, bytes);
  return mapped;
}

OPM_HOOK void* sbrk(intptr_t increment) {
  const RealFunctions* next = real();
  if (next == nullptr || next->sbrk == nullptr) {
    errno = ENOMEM;  // the C library keeps the break in a variable of its own: no way around it
    return reinterpret_cast<void*>(-1);
  }
  const uint64_t before = opmeter::recorder::ticks_after_loads();
  void* old_break = next->sbrk(increment);
  if (increment == 0 || !wanted(OPM_FRAME)) return old_break;
  if (old_break == reinterpret_cast<void*>(-1)) {
    if (increment > 0) {
      note_map(OPM_FRAME, AllocApi::kSbrk, MAP_FAILED, static_cast<uint64_t>(increment));
    }
    return old_break;
  }
  const uint64_t from = number(old_break);
  note_break(OPM_FRAME, before, from, from + static_cast<uint64_t>(increment));
  return old_break;
}

OPM_HOOK int brk(void* address) {
  const RealFunctions* next = real();
  if (next == nullptr || next->brk == nullptr || next->sbrk == nullptr) {
    errno = ENOMEM;
    return -1;
  }
  const bool noted = wanted(OPM_FRAME);
  const uint64_t before = opmeter::recorder::ticks_after_loads();
  const uint64_t from = noted ? number(next->sbrk(0)) : 0;
  const int result = next->brk(address);
  if (!noted) return result;
  if (result == 0) {
    note_break(OPM_FRAME, before, from, number(address));
  } else if (number(address) > from) {
    note_map(OPM_FRAME, AllocApi::kSbrk, MAP_FAILED, number(address) - from);
  }
  return result;
}
