/* SPDX-License-Identifier: Apache-2.0
 * A library for dlopen that allocates, also while it is loaded. */
#include <stdlib.h>

#define SHOWN __attribute__((visibility("default")))

static void* volatile sink;

SHOWN void* plugin_allocate(size_t size) {
  void* block = malloc(size);
  sink = block; /* no tail call: this frame stays */
  return block;
}

__attribute__((constructor(101))) static void early(void) { free(plugin_allocate(10223)); }
