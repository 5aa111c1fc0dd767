/* SPDX-License-Identifier: Apache-2.0
 * Calls every entry point of the malloc family once with a prime size of its own (tests/preload
 * finds each once). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void* volatile sink;
static volatile size_t huge =
    (size_t)PTRDIFF_MAX - 4096; /* volatile: compilers know that it cannot succeed */
static volatile size_t half = SIZE_MAX / 2;

int main(void) {
  void* p;
  void (*sized)(void*, size_t) = NULL;
  void (*aligned_sized)(void*, size_t, size_t) = NULL;
  void* symbol;

  sink = p = malloc(10007);
  free(p);
  sink = p = calloc(3, 3343); /* 10029 */
  free(p);
  sink = p = realloc(NULL, 10037);
  sink = p = realloc(p, 20011);           /* moves or grows: one call, one free */
  sink = p = realloc(p, 10039);           /* shrinks */
  sink = p = realloc(p, 0);               /* a free */
  sink = p = reallocarray(NULL, 7, 1439); /* 10073 */
  free(p);
  if (posix_memalign(&p, 128, 10061) == 0) {
    sink = p;
    free(p);
  }
  sink = p = aligned_alloc(64, 10112);
  free(p);
  sink = p = memalign(256, 10067);
  free(p);
  sink = p = valloc(10069);
  free(p);
  sink = p = pvalloc(10079);
  free(p);
  symbol = dlsym(RTLD_DEFAULT, "free_sized");
  memcpy(&sized, &symbol, sizeof sized);
  symbol = dlsym(RTLD_DEFAULT, "free_aligned_sized");
  memcpy(&aligned_sized, &symbol, sizeof aligned_sized);
  sink = p = malloc(10091);
  if (sized)
    sized(p, 10091);
  else
    free(p);
  sink = p = aligned_alloc(32, 10144);
  if (aligned_sized)
    aligned_sized(p, 32, 10144);
  else
    free(p);
  sink = p = strdup("eleven char"); /* 12 */
  free(p);
  free(NULL); /* no event */

  /* Failing calls: counted apart. */
  errno = 0;
  sink = p = malloc(huge);
  if (p != NULL || errno != ENOMEM) return 3;
  sink = p = calloc(half, 3);
  if (p != NULL) return 4;
  sink = p = malloc(10093);
  if (realloc(p, huge) != NULL) return 5;
  free(p);              /* still there after the failed realloc */
  sink = p = malloc(0); /* one call of no bytes */
  free(p);
  /* errno survives the recorder. */
  errno = 77;
  sink = p = malloc(10099);
  if (errno != 77) return 6;
  free(p);
  if (errno != 77) return 7;
  puts("done");
  return 0;
}
