/* SPDX-License-Identifier: Apache-2.0
 * Threads that end late or live on little: argv[1] says which. */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void* volatile sink;
static pthread_key_t key;
static pthread_t main_thread;

static void allocate(int count, size_t size) {
  for (int i = 0; i < count; ++i) sink = malloc(size);
}

/* Runs in every round of destructors, also in those after the recorder's own. */
static void destructor(void* rounds) {
  allocate(100, 1013);
  if ((size_t)rounds > 1) pthread_setspecific(key, (void*)((size_t)rounds - 1));
}

static void* in_key_destructors(void* unused) {
  (void)unused;
  pthread_setspecific(key, (void*)(size_t)PTHREAD_DESTRUCTOR_ITERATIONS);
  allocate(1, 1009);
  return NULL;
}

static void* outlives_main(void* unused) {
  (void)unused;
  pthread_join(main_thread, NULL);
  allocate(1000, 1009);
  exit(5);
}

__attribute__((noinline)) static void* deep(int levels) {
  volatile char room[64];
  room[0] = (char)levels;
  void* p = levels == 0 ? malloc(1019) : deep(levels - 1);
  room[1] = room[0];
  return p;
}

static void* on_little_stack(void* unused) {
  (void)unused;
  for (int i = 0; i < 200; ++i) free(sink = deep(i % 40));
  return NULL;
}

static void* wait_and_allocate(void* barrier) {
  pthread_barrier_wait(barrier);
  allocate(10, 1021);
  return NULL;
}

int main(int argc, char** argv) {
  const char* which = argc > 1 ? argv[1] : "";
  pthread_t thread;
  main_thread = pthread_self();
  if (strcmp(which, "destructors") == 0) {
    pthread_key_create(&key, destructor);
    pthread_create(&thread, NULL, in_key_destructors, NULL);
    return pthread_join(thread, NULL);
  }
  if (strcmp(which, "outlives-main") == 0) {
    pthread_create(&thread, NULL, outlives_main, NULL);
    pthread_exit(NULL);
  }
  if (strcmp(which, "little-stack") == 0) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, 16384) != 0) return 2;
    for (int i = 0; i < 4; ++i) {
      if (pthread_create(&thread, &attributes, on_little_stack, NULL) != 0) return 3;
      pthread_join(thread, NULL);
    }
    return 0;
  }
  if (strcmp(which, "many") == 0) { /* more at one time than there are chunks in a small buffer */
    enum { kMany = 200 };
    static pthread_t threads[kMany];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, kMany);
    for (int i = 0; i < kMany; ++i) pthread_create(&threads[i], NULL, wait_and_allocate, &barrier);
    for (int i = 0; i < kMany; ++i) pthread_join(threads[i], NULL);
    return 0;
  }
  return 9;
}
