/* SPDX-License-Identifier: Apache-2.0
 * Makes 1000 allocations of 1009 bytes and ends as argv[1] says: nothing of them may be lost. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void* volatile sink;

static void allocate(void) {
  for (int i = 0; i < 1000; ++i) sink = malloc(1009);
}

static void* in_thread(void* unused) {
  (void)unused;
  allocate();
  return NULL;
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "return";
  if (strcmp(how, "thread") == 0) {
    pthread_t thread;
    pthread_create(&thread, NULL, in_thread, NULL);
    pthread_join(thread, NULL);
    return 0;
  }
  if (strcmp(how, "close-all") == 0) {
    for (int fd = 0; fd < 1024; ++fd) close(fd);
    allocate();
    return 0;
  }
  if (strcmp(how, "exec") == 0) {
    allocate();
    execl(argv[0], argv[0], "return", (char*)NULL);
    return 9;
  }
  if (strcmp(how, "fork") == 0) {
    pid_t child = fork();
    int status = 0;
    if (child == 0) {
      allocate(); /* not this recording's business */
      _exit(0);
    }
    allocate();
    waitpid(child, &status, 0);
    return status;
  }
  allocate();
  if (strcmp(how, "exit7") == 0) exit(7);
  if (strcmp(how, "_exit") == 0) _exit(8);
  if (strcmp(how, "quick_exit") == 0) quick_exit(9);
  if (strcmp(how, "abort") == 0) abort();
  if (strcmp(how, "kill") == 0) raise(SIGKILL);
  if (strcmp(how, "segv") == 0) {
    volatile uintptr_t nowhere = 8;
    *(volatile int*)nowhere = 1;
  }
  return 0;
}
