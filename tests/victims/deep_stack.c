/* SPDX-License-Identifier: Apache-2.0
 * One malloc of 1013 bytes below argv[1] frames of descend(), called from main. */
#include <stdlib.h>

static void* volatile sink;

__attribute__((noinline)) void descend(int depth) {
  if (depth == 0) {
    sink = malloc(1013);
  } else {
    descend(depth - 1);
  }
  __asm__ volatile("" ::: "memory"); /* no tail call */
}

int main(int argc, char** argv) {
  descend(argc > 1 ? atoi(argv[1]) : 10);
  return 0;
}
