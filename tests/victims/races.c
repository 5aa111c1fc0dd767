/* SPDX-License-Identifier: Apache-2.0
 * Four threads reallocate and free the blocks of one table, each block now this thread's, now that
 * one's: addresses go from thread to thread within nanoseconds. With "free" they allocate and free
 * only. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kThreads = 4, kReallocs = 200000, kPlaces = 64 };
static _Atomic(void*) table[kPlaces];

static void* work(void* seed) {
  unsigned long random = (unsigned long)(size_t)seed * 2654435761u + 1;
  for (int i = 0; i < kReallocs; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const size_t place = random >> 33 & (kPlaces - 1);
    const size_t size = 1 + (random >> 40 & 2047);
    void* block = atomic_exchange(&table[place], NULL);
    block = realloc(block, size);
    free(atomic_exchange(&table[place], block));
  }
  return NULL;
}

static void* hand_over(void* seed) {
  unsigned long random = (unsigned long)(size_t)seed * 2654435761u + 1;
  for (int i = 0; i < kReallocs; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    free(atomic_exchange(&table[random >> 33 & 3], malloc(1 + (random >> 40 & 2047))));
  }
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[kThreads];
  void* (*const what)(void*) = argc > 1 && strcmp(argv[1], "free") == 0 ? hand_over : work;
  for (size_t i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, what, (void*)(i + 1));
  for (size_t i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  for (size_t i = 0; i < kPlaces; ++i) free(table[i]);
  return 0;
}
