/* SPDX-License-Identifier: Apache-2.0
 * Takes away what a recorder may stand on and allocates after that: argv[1] = close-range (every
 * descriptor), environment (clears it, allocates, then execs), exec-fails; or counts what it was
 * given: descriptors. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void* volatile sink;

static void allocate(void) {
  for (int i = 0; i < 1000; ++i) sink = malloc(1009);
}

int main(int argc, char** argv) {
  const char* which = argc > 1 ? argv[1] : "";
  if (strcmp(which, "close-range") == 0) {
    if (syscall(SYS_close_range, 0u, ~0u, 0u) != 0) return 77;
    allocate();
    return 0;
  }
  if (strcmp(which, "environment") == 0) {
    char* nothing[] = {NULL};
    char* image[] = {argv[0], (char*)"again", NULL};
    allocate();
    execve(argv[0], image, nothing);
    return 3;
  }
  if (strcmp(which, "again") == 0) {
    allocate(); /* nobody watches */
    return 0;
  }
  if (strcmp(which, "descriptors") == 0) {
    int open_ones = 0;
    allocate();
    for (int fd = 0; fd < 1000; ++fd) open_ones += fcntl(fd, F_GETFD) != -1;
    printf("open %d\n", open_ones);
    return 0;
  }
  if (strcmp(which, "exec-fails") == 0) {
    char* nothing[] = {NULL};
    execve("/no/such/program", nothing, nothing);
    allocate();
    return 0;
  }
  return 9;
}
