/* SPDX-License-Identifier: Apache-2.0
 * Opens a library with RTLD_DEEPBIND: its malloc is the C library's own, past every interposer. Its
 * blocks are freed here and ours there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static void* volatile sink;

int main(int argc, char** argv) {
  if (argc < 2) return 9;
  void* handle = dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
  if (handle == NULL) return 2;
  void* symbol = dlsym(handle, "plugin_allocate");
  void* (*plugin_allocate)(size_t) = NULL;
  memcpy(&plugin_allocate, &symbol, sizeof symbol);
  for (int i = 0; i < 100; ++i) free(sink = plugin_allocate(10211)); /* born unseen, freed seen */
  for (int i = 0; i < 100; ++i) free(sink = malloc(10243));
  char* grown = realloc(plugin_allocate(10247), 20483);
  if (grown == NULL) return 3;
  memset(grown, 1, 20483);
  free(grown);
  return dlclose(handle);
}
