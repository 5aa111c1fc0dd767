/* SPDX-License-Identifier: Apache-2.0
 * Allocates deep and with ever new stacks while other threads hold locks of the C library: the
 * loader's (dlopen and dlclose in a loop), a FILE's, the one around the list of modules. A hang
 * ends by the watchdog. argv: loader PLUGIN | stdio | iterate */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void* volatile sink;
static atomic_int stop;
static atomic_long allocated;
static const char* plugin;

__attribute__((noinline)) static void turn_b(unsigned path, int depth);
__attribute__((noinline)) static void turn_a(unsigned path, int depth) {
  if (depth == 0)
    free(sink = malloc(3001));
  else
    (path & 1 ? turn_a : turn_b)(path >> 1, depth - 1);
  __asm__ volatile("");
}
static void turn_b(unsigned path, int depth) {
  if (depth == 0)
    free(sink = malloc(3001));
  else
    (path & 1 ? turn_a : turn_b)(path >> 1, depth - 1);
  __asm__ volatile("");
}

static void* allocate(void* unused) {
  (void)unused;
  for (unsigned path = 0; !atomic_load(&stop); ++path) {
    turn_a(path, 20);
    atomic_fetch_add(&allocated, 1);
  }
  return NULL;
}

static int at_module(struct dl_phdr_info* info, size_t size, void* count) {
  (void)size;
  (void)info;
  free(sink = malloc(3011)); /* under the loader's lock */
  ++*(int*)count;
  return 0;
}

int main(int argc, char** argv) {
  const char* which = argc > 1 ? argv[1] : "";
  pthread_t threads[3];
  alarm(60);
  for (int i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, allocate, NULL);
  if (strcmp(which, "loader") == 0) {
    plugin = argv[2];
    for (int i = 0; i < 300; ++i) {
      void* handle = dlopen(plugin, RTLD_NOW);
      if (handle == NULL) return 2;
      void* symbol = dlsym(handle, "plugin_allocate");
      void* (*plugin_allocate)(size_t) = NULL;
      memcpy(&plugin_allocate, &symbol, sizeof symbol);
      free(sink = plugin_allocate(3019));
      if (dlclose(handle) != 0) return 3;
    }
  } else if (strcmp(which, "stdio") == 0) {
    FILE* file = fopen("/dev/null", "w");
    for (int i = 0; i < 3000; ++i) {
      flockfile(file);
      free(sink = malloc(3011));
      fprintf(file, "%s", "under the lock\n");
      fflush(NULL); /* takes every FILE's lock */
      funlockfile(file);
    }
    fclose(file);
  } else if (strcmp(which, "iterate") == 0) {
    for (int i = 0; i < 500; ++i) {
      int modules = 0;
      dl_iterate_phdr(at_module, &modules);
      if (modules == 0) return 4;
    }
  } else {
    return 9;
  }
  while (atomic_load(&allocated) < 1000) usleep(1000);
  atomic_store(&stop, 1);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  return 0;
}
