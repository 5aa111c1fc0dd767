/* SPDX-License-Identifier: Apache-2.0
 * Allocates after the kernel was told to refuse system calls: argv[1] = strict (all but read, write
 * and exit kill), eperm (many fail that a recorder might use), kill (those kill). */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void* volatile sink;

static void allocate(int count, size_t size) {
  for (int i = 0; i < count; ++i) free(sink = malloc(size));
}

static void* in_thread(void* unused) {
  (void)unused;
  allocate(500, 1013);
  return NULL;
}

static int refuse(unsigned how) {
  static const int calls[] = {SYS_nanosleep, SYS_clock_nanosleep, SYS_sched_yield, SYS_openat,
                              SYS_readlink,  SYS_readlinkat,      SYS_getcwd,      SYS_memfd_create,
                              SYS_socket,    SYS_getpid,          SYS_tgkill,      SYS_newfstatat};
  enum { kCalls = sizeof calls / sizeof calls[0] };
  struct sock_filter program[kCalls + 3];
  program[0] =
      (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (unsigned i = 0; i < kCalls; ++i) {
    program[1 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i],
                                                  (unsigned char)(kCalls - i), 0);
  }
  program[kCalls + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  program[kCalls + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, how);
  struct sock_fprog filter = {kCalls + 3, program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

int main(int argc, char** argv) {
  const char* which = argc > 1 ? argv[1] : "";
  allocate(10, 1009); /* the allocator has its memory now */
  if (strcmp(which, "strict") == 0) {
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) return 77;
    allocate(990, 1009);
    syscall(SYS_exit, 0);
  }
  const unsigned eperm = SECCOMP_RET_ERRNO | EPERM;
  if (refuse(strcmp(which, "kill") == 0 ? SECCOMP_RET_KILL_PROCESS : eperm) != 0) return 77;
  allocate(990, 1009);
  pthread_t thread;
  if (pthread_create(&thread, NULL, in_thread, NULL) != 0) return 3;
  pthread_join(thread, NULL);
  return 0;
}
