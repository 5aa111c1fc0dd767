/* SPDX-License-Identifier: Apache-2.0
 * Allocates below a function that has no unwind tables, as hand-written kernels do: 10 frames above
 * it, 3 below. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static void* volatile sink;

/* Calls its argument; moves the stack pointer by an amount that nothing describes. */
void call_without_tables(void (*function)(void));
#if defined(__x86_64__)
__asm__(
    ".text\n.globl call_without_tables\n.type call_without_tables,@function\n"
    "call_without_tables:\n  pushq %rbx\n  subq $48, %rsp\n  callq *%rdi\n  addq $48, %rsp\n"
    "  popq %rbx\n  retq\n.size call_without_tables,.-call_without_tables\n");
#else
void call_without_tables(void (*function)(void)) { function(); }
#endif

__attribute__((noinline)) static void below(int levels) {
  if (levels == 0)
    free(sink = malloc(10303));
  else
    below(levels - 1);
  __asm__ volatile("");
}

static void enter(void) {
  below(2);
  __asm__ volatile("");
}

__attribute__((noinline)) static void above(int levels) {
  if (levels == 0)
    call_without_tables(enter);
  else
    above(levels - 1);
  __asm__ volatile("");
}

/* All descriptors are one file of the program's: a byte that anybody writes to one ends up there.
 */
static int take_all_descriptors(const char* file) {
  for (int fd = 3; fd < 4096; ++fd) close(fd);
  const int first = open(file, O_WRONLY | O_CREAT, 0600);
  for (int fd = first + 1; fd < 1024; ++fd) dup2(first, fd);
  return first == 3 ? 0 : 2;
}

int main(int argc, char** argv) {
  if (argc > 1 && take_all_descriptors(argv[1]) != 0) return 2;
  for (int i = 0; i < 10; ++i) above(10);
  return 0;
}
