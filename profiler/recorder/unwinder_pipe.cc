// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/unwinder_pipe.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "profiler/recorder/os.h"

namespace opmeter::recorder {
namespace {

/// Below the usual limit of 1024 descriptors; a higher number would make the kernel's table of them
/// large for nothing.
constexpr long kFirstNumber = 1000;

struct End {
  int fd = -1;
  dev_t device = 0;
  ino_t inode = 0;
};
constinit End g_ends[2]{};

bool is_safe(const End& end) {
  struct stat now;
  return end.fd < 0 || fstat(end.fd, &now) != 0 ||
         (now.st_dev == end.device && now.st_ino == end.inode);
}

}  // namespace

int open_unwinder_pipe(int ends[2], int flags) {
  int low[2];
  if (syscall(SYS_pipe2, low, flags) != 0) return -1;
  for (int i = 0; i < 2; ++i) {
    ends[i] = static_cast<int>(syscall(SYS_fcntl, low[i], F_DUPFD_CLOEXEC, kFirstNumber));
    syscall(SYS_close, low[i]);
    struct stat st;
    g_ends[i] = {};
    if (ends[i] >= 0 && fstat(ends[i], &st) == 0) g_ends[i] = {ends[i], st.st_dev, st.st_ino};
  }
  return ends[0] >= 0 && ends[1] >= 0 ? 0 : -1;
}

bool unwinder_pipe_is_safe() { return is_safe(g_ends[0]) && is_safe(g_ends[1]); }

}  // namespace opmeter::recorder
