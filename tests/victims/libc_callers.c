/* SPDX-License-Identifier: Apache-2.0
 * Functions of the C library that allocate on behalf of their caller, each with a size of its own
 * (tests/preload finds each once); a block that the interposer never saw being born. */
#define _GNU_SOURCE
#include <gnu/libc-version.h>
#include <malloc.h>
#include <obstack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#define obstack_chunk_alloc malloc
#define obstack_chunk_free free

extern void* __libc_malloc(size_t size); /* glibc's own name: no hook stands before it */

static void* volatile sink;

static int by_first_byte(const void* a, const void* b) {
  return *(const unsigned char*)a - *(const unsigned char*)b;
}

static char* text_of(size_t length) {
  static char text[32768];
  memset(text, 'x', length);
  text[length] = 0;
  return text;
}

int main(void) {
  char* p;
  sink = p = strdup(text_of(10102)); /* 10103 */
  free(p);
  sink = p = strndup(text_of(20000), 10110); /* 10111 */
  free(p);

  wchar_t wide[2534];
  wmemset(wide, L'x', 2533);
  wide[2533] = 0;
  sink = p = (char*)wcsdup(wide); /* 2534 * 4 = 10136 */
  free(p);

  struct obstack stack;
  obstack_begin(&stack, 10139);
  obstack_1grow(&stack, 'a');
  obstack_free(&stack, NULL);

  if (asprintf(&p, "%s", text_of(10140)) != 10140) return 2; /* ends in a block of 10141 */
  sink = p;
  free(p);

  FILE* lines = fmemopen(text_of(10150), 10150, "r");
  if (lines == NULL) return 3;
  setvbuf(lines, NULL, _IONBF, 0);
  char* line = NULL;
  size_t room = 0;
  if (getline(&line, &room, lines) != 10150) return 4;
  if (room < 10151) return 5;
  printf("getline %zu\n", room); /* its last block */
  fclose(lines);
  free(line);

  sink = p = getcwd(NULL, 10159);
  free(p);
  sink = p = realpath("/", NULL);
  free(p);

  static unsigned char numbers[3][3389];  /* qsort sorts in a block of its own up to glibc 2.36 */
  qsort(numbers, 3389, 3, by_first_byte); /* 10167 */

  FILE* file = fopen("/dev/null", "r");
  char buffer[8];
  if (file == NULL || fread(buffer, 1, 1, file) != 0) return 6;
  fclose(file);

  char* block = malloc(10163);
  size_t usable = malloc_usable_size(block);
  if (usable < 10163 || usable > 10163 + 64) return 7;
  memset(block, 1, usable);
  free(block);

  p = __libc_malloc(10169); /* not seen */
  printf("unborn %p\n", (void*)p);
  sink = p;
  free(p); /* seen: a release of an unknown block, and really released */
  printf("libc %s\n", gnu_get_libc_version());
  return 0;
}
