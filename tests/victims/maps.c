/* SPDX-License-Identifier: Apache-2.0
 * Maps memory past the allocator in every way that the interposer watches, each with a size of its
 * own; prints the addresses for tests/preload. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void say(const char* what, void* at) { printf("%s %zu\n", what, (size_t)(uintptr_t)at); }

int main(void) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const int both = PROT_READ | PROT_WRITE, anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
  char* five = mmap(NULL, 5 * page, both, anonymous, -1, 0);
  say("five", five);
  munmap(five + page, 2 * page); /* a part of it */
  char* seven = mmap64(NULL, 7 * page - 1, both, anonymous, -1, 0);
  say("seven", seven);

  if (mmap(NULL, 0, both, anonymous, -1, 0) != MAP_FAILED) return 2;
  if (munmap(five + 1, page) == 0) return 3; /* fails: nothing is given back */
  if (mremap(five + page, page, 2 * page, 0) != MAP_FAILED) return 4;

  char* grown = mremap(seven, 7 * page, 4099 * page, MREMAP_MAYMOVE);
  if (grown == MAP_FAILED) return 5;
  say("grown", grown);
  char* shrunk = mremap(grown, 4099 * page, 11 * page, 0);
  if (shrunk != grown) return 6;

  char* shared = mmap(NULL, 3 * page, both, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  say("shared", shared);
  char* twice = mremap(shared, 0, 3 * page, MREMAP_MAYMOVE); /* the old one stays */
  if (twice == MAP_FAILED || twice == shared) return 7;
  say("twice", twice);

  char* broke = sbrk((intptr_t)(13 * page));
  say("broke", broke);
  if (sbrk(0) != broke + 13 * page) return 8;
  sbrk(-(intptr_t)(2 * page));
  if (brk(broke + 12 * page) != 0) return 9;
  brk(broke);
  return 0;
}
