// SPDX-License-Identifier: Apache-2.0
// Memory of the recorder itself: straight from the kernel, never from malloc. Zone a.
#ifndef OPMETER_PROFILER_RECORDER_OS_H_
#define OPMETER_PROFILER_RECORDER_OS_H_

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace opmeter::recorder {

/// Zeroed pages, touched only when used; null when the kernel refuses.
inline void* map_pages(size_t bytes) {
  // The raw call: a program may define its own mmap.
  const long at = syscall(SYS_mmap, nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);
  return at == -1 ? nullptr : reinterpret_cast<void*>(at);
}

/// The whole of an open file, shared; null when the kernel refuses.
inline void* map_file(int fd, size_t bytes) {
  const long at = syscall(SYS_mmap, nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0L);
  return at == -1 ? nullptr : reinterpret_cast<void*>(at);
}

inline void unmap(void* at, size_t bytes) { syscall(SYS_munmap, at, bytes); }

/// What is written there from now on stays in this process and is read by nobody.
inline void replace_by_private_pages(void* at, size_t bytes) {
  syscall(SYS_mmap, at, bytes, PROT_READ | PROT_WRITE,
          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0L);
}

/// Keeps the caller's errno over work of ours.
class KeepErrno {
 public:
  KeepErrno() : saved_(errno) {}
  ~KeepErrno() { errno = saved_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  int saved_;
};

}  // namespace opmeter::recorder

#endif  // OPMETER_PROFILER_RECORDER_OS_H_
