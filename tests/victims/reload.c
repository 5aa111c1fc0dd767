/* SPDX-License-Identifier: Apache-2.0
 * Opens a library, lets it allocate, closes it and opens another one, which the loader puts at the
 * same addresses: argv = FIRST SECOND. Exit code 77 when it did not. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static uintptr_t allocate_in(const char* library, size_t size) {
  void* handle = dlopen(library, RTLD_NOW);
  if (handle == NULL) exit(2);
  void* symbol = dlsym(handle, "plugin_allocate");
  void* (*plugin_allocate)(size_t) = NULL;
  memcpy(&plugin_allocate, &symbol, sizeof symbol);
  free(plugin_allocate(size));
  if (dlclose(handle) != 0) exit(3);
  return (uintptr_t)symbol;
}

int main(int argc, char** argv) {
  if (argc < 3) return 9;
  const uintptr_t first = allocate_in(argv[1], 10289);
  const uintptr_t second = allocate_in(argv[2], 10301);
  return first == second ? 0 : 77;
}
