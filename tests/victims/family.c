/* SPDX-License-Identifier: Apache-2.0
 * A program and its children: argv[1] says how they come to be. Each allocates 1000 blocks of a
 * size of its own: 1009 the program, 1013 a child, 1019 a grandchild, 1021 an exec'ed image. */
#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;
static void* volatile sink;

static void allocate(size_t size) {
  for (int i = 0; i < 1000; ++i) sink = malloc(size);
}

static int wait_for(pid_t child) {
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return 90;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 91;
}

static atomic_int stop;

static void* allocate_for_ever(void* unused) {
  (void)unused;
  unsigned size = 1;
  while (!atomic_load(&stop)) free(sink = malloc(1 + (size = size * 69069 + 1) % 4096));
  return NULL;
}

static int count_module(struct dl_phdr_info* info, size_t size, void* count) {
  (void)info;
  (void)size;
  ++*(int*)count;
  return 0;
}

/* Is nearly always inside the loader's list, under its lock. */
static void* iterate_for_ever(void* unused) {
  (void)unused;
  int count = 0;
  while (!atomic_load(&stop)) dl_iterate_phdr(count_module, &count);
  return NULL;
}

/* Children of a process with many busy threads allocate and end: none may hang. */
static int storm(int children) {
  enum { kThreads = 8 };
  pthread_t threads[kThreads];
  alarm(60); /* the watchdog */
  for (int i = 0; i < kThreads; ++i) {
    pthread_create(&threads[i], NULL, i % 4 == 3 ? iterate_for_ever : allocate_for_ever, NULL);
  }
  for (int i = 0; i < children; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      for (int n = 0; n < 100; ++n) free(sink = malloc(1013));
      _exit(0);
    }
    const int failed = wait_for(child);
    if (failed != 0) return failed;
  }
  atomic_store(&stop, 1);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  return 0;
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "";
  char* image[] = {argv[0], (char*)"image", NULL};
  if (strcmp(how, "image") == 0) {
    allocate(1021);
    return 0;
  }
  if (strcmp(how, "storm") == 0) return storm(argc > 2 ? atoi(argv[2]) : 100);
  allocate(1009);
  if (strcmp(how, "fork") == 0 || strcmp(how, "fork-exec") == 0) {
    const pid_t child = fork();
    if (child == 0) {
      allocate(1013);
      if (strcmp(how, "fork-exec") == 0) execv(argv[0], image);
      _exit(0);
    }
    return wait_for(child);
  }
  if (strcmp(how, "two") == 0) {
    const pid_t first = fork();
    if (first == 0) {
      allocate(1013);
      _exit(0);
    }
    const pid_t second = fork();
    if (second == 0) {
      allocate(1013);
      _exit(0);
    }
    return wait_for(first) + wait_for(second);
  }
  if (strcmp(how, "spawn") == 0) {
    pid_t child = -1;
    if (posix_spawn(&child, argv[0], NULL, NULL, image, environ) != 0) return 92;
    return wait_for(child);
  }
  if (strcmp(how, "vfork") == 0) {
    const pid_t child = vfork();
    if (child == 0) {
      execv(argv[0], image);
      _exit(93);
    }
    allocate(1009);
    return wait_for(child);
  }
  if (strcmp(how, "grandchild") == 0) {
    const pid_t child = fork();
    if (child == 0) {
      allocate(1013);
      const pid_t grandchild = fork();
      if (grandchild == 0) {
        allocate(1019);
        _exit(0);
      }
      _exit(wait_for(grandchild));
    }
    return wait_for(child);
  }
  if (strcmp(how, "daemon") == 0) { /* forks twice; the program is gone before the daemon works */
    if (fork() != 0) _exit(0);
    setsid();
    if (fork() != 0) _exit(0);
    if (chdir("/") != 0) _exit(94);
    for (int fd = 0; fd < 64; ++fd) close(fd);
    usleep(150000);
    allocate(1019);
    _exit(0);
  }
  if (strcmp(how, "stays") == 0) { /* a child that lives on until somebody ends it */
    const pid_t child = fork();
    if (child == 0) {
      allocate(1013);
      for (;;) pause();
    }
    printf("%d\n", (int)child);
    return 0;
  }
  if (strcmp(how, "raw-fork") == 0) { /* past the C library: its fork handlers do not run */
    const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
      allocate(1013);
      _exit(0);
    }
    allocate(1009);
    return wait_for(child);
  }
  return 99;
}
