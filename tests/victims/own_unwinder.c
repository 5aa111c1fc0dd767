/* SPDX-License-Identifier: Apache-2.0
 * Carries a copy of libunwind of its own, linked statically and exported, so that the symbols of
 * the two clash; walks with it and allocates. */
#include <stdlib.h>
#define UNW_LOCAL_ONLY
#include <libunwind.h>

static void* volatile sink;

__attribute__((noinline)) static int walk(int levels) {
  if (levels > 0) return walk(levels - 1) + (sink != NULL ? 0 : 1);
  void* frames[64];
  free(sink = malloc(10253));
  return unw_backtrace(frames, 64);
}

int main(void) {
  for (int i = 0; i < 100; ++i) {
    if (walk(10) < 12) return 2;
  }
  return 0;
}
