/* SPDX-License-Identifier: Apache-2.0
 * Signal handlers that allocate, on an alternate stack, while a timer interrupts whatever runs: the
 * program, its allocator (which must bear that: toy_allocator) or the recorder. Prints how often
 * the handler allocated. With "state" it checks what hooks must leave alone instead. */
#define _GNU_SOURCE
#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static void* volatile sink;
static volatile sig_atomic_t handled = 0;

static void allocate_in_handler(int signal) {
  (void)signal;
  void* p = malloc(7013);
  free(p);
  ++handled;
}

/* A distinct stack for each path of 12 turns: the recorder works long on stacks it has not seen. */
__attribute__((noinline)) static void left(unsigned path, int depth);
__attribute__((noinline)) static void right(unsigned path, int depth) {
  if (depth == 0) {
    free(sink = malloc(7001));
    return;
  }
  (path & 1 ? left : right)(path >> 1, depth - 1);
  __asm__ volatile("");
}
static void left(unsigned path, int depth) {
  if (depth == 0) {
    free(sink = malloc(7001));
    return;
  }
  (path & 1 ? left : right)(path >> 1, depth - 1);
  __asm__ volatile("");
}

static int storm(int seconds_hundredths) {
  static char stack[64 * 1024];
  stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = allocate_in_handler;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  sigaltstack(&alternate, NULL);
  sigaction(SIGALRM, &action, NULL);
  struct itimerval every = {{0, 60}, {0, 60}};
  struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &every, NULL);
  struct timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  unsigned path = 0;
  long pairs = 0;
  do {
    for (int i = 0; i < 1000; ++i, ++pairs) right(path++, 12);
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - begin.tv_sec) * 100 + (now.tv_nsec - begin.tv_nsec) / 10000000 <
           seconds_hundredths);
  setitimer(ITIMER_REAL, &never, NULL);
  printf("handled %d pairs %ld\n", (int)handled, pairs);
  return 0;
}

static int state(void) {
  sigset_t wanted, found;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGUSR1);
  sigaddset(&wanted, SIGTERM);
  pthread_sigmask(SIG_SETMASK, &wanted, NULL);
  fesetround(FE_UPWARD);
  feclearexcept(FE_ALL_EXCEPT);
  for (unsigned i = 0; i < 20000; ++i) {
    errno = 1000 + (int)(i & 63);
    right(i, 12);
    void* p = realloc(calloc(1, 100 + i % 50), 300);
    if (errno != 1000 + (int)(i & 63)) return 2;
    free(p);
    if (errno != 1000 + (int)(i & 63)) return 3;
  }
  if (fegetround() != FE_UPWARD) return 4;
  if (fetestexcept(FE_ALL_EXCEPT) != 0) return 5;
  pthread_sigmask(SIG_SETMASK, NULL, &found);
  for (int s = 1; s < 32; ++s) {
    if (sigismember(&wanted, s) != sigismember(&found, s)) return 6;
  }
  /* A signal that somebody waits for reaches the waiter: no thread of the recorder takes it. */
  kill(getpid(), SIGTERM);
  int got = 0;
  if (sigwait(&wanted, &got) != 0 || got != SIGTERM) return 7;
  return 0;
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "state") == 0) return state();
  alarm(0);
  return storm(argc > 1 ? atoi(argv[1]) : 100);
}
