/* SPDX-License-Identifier: Apache-2.0
 * Loads for the options of the recorder; argv[1] says which, sizes and counts are known
 * (tests/preload/options_test.cc). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "opmeter/opmeter.h"

static void* volatile sink;

static void pair(size_t bytes) {
  sink = malloc(bytes);
  free(sink);
}

/* n blocks of 16 to 4111 bytes, alive together, then freed; says how many bytes they were. */
static int many(size_t n) {
  void** blocks =
      mmap(NULL, n * sizeof *blocks, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  uint64_t state = 88172645463325252u, bytes = 0;
  for (size_t i = 0; i < n; ++i) {
    size_t size;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    size = 16 + (size_t)(state >> 20) % 4096;
    bytes += size;
    blocks[i] = malloc(size);
  }
  for (size_t i = 0; i < n; ++i) free(blocks[i]);
  dprintf(1, "%llu\n", (unsigned long long)bytes);
  return 0;
}

/* Ten runs between allocations that are in none. */
static int runs(void) {
  opm_graph graph = opm_graph_declare("loads");
  for (int run = 0; run < 10; ++run) {
    void *born_outside, *born_inside;
    for (int i = 0; i < 100; ++i) pair(51);
    born_outside = malloc(53);
    opm_run_begin(graph);
    pair(61);
    born_inside = malloc(61);
    born_inside = realloc(born_inside, 67);
    free(born_outside);
    opm_run_end();
    free(born_inside);
    for (int i = 0; i < 100; ++i) pair(51);
  }
  return 0;
}

/* Three runs of two ops: the first touches 64 fresh pages, the second none. */
static int faults(void) {
  opm_graph graph = opm_graph_declare("loads");
  opm_op_desc desc = {sizeof desc, graph, 0, "touches", "touches", 1, 0, 0, 0, NULL, NULL};
  const opm_op touches = opm_op_declare(&desc);
  opm_op rests;
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  desc.index = 1;
  desc.name = desc.kind = "rests";
  rests = opm_op_declare(&desc);
  for (int run = 0; run < 10; ++run) {
    char* pages = mmap(NULL, 64 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(pages, 64 * page, MADV_NOHUGEPAGE);
    opm_run_begin(graph);
    opm_op_push(touches);
    for (int i = 0; i < 64; ++i) pages[(size_t)i * page] = 1;
    opm_op_pop();
    opm_op_push(rests);
    pair(71);
    opm_op_pop();
    opm_run_end();
    munmap(pages, 64 * page);
  }
  return 0;
}

/* A block of 12321 bytes, n pairs of many sizes, a block of 12347 bytes. */
static int long_one(size_t n) {
  uint64_t state = 1;
  sink = malloc(12321);
  for (size_t i = 0; i < n; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    pair(16 + (size_t)(state >> 40) % 5000);
  }
  sink = malloc(12347);
  return 0;
}

static void copy(const char* from, const char* to) {
  static char room[1 << 16];
  const int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ssize_t n;
  while ((n = read(in, room, sizeof room)) > 0) (void)!write(out, room, (size_t)n);
  close(in);
  close(out);
}

/* A block of 4321 bytes, a flush by call or by signal, a copy of the trace as it is then. */
static int flush(const char* how, const char* trace, const char* to) {
  sink = malloc(4321);
  if (strcmp(how, "call") == 0) opm_flush();
  if (strcmp(how, "signal") == 0) {
    kill(getppid(), SIGUSR2);
    usleep(300000);
  }
  copy(trace, to);
  return 0;
}

/* The recorder sleeps while n pairs are made; says how many seconds they took. */
static int stall(size_t n) {
  struct timespec a, b;
  pair(73);
  kill(getppid(), SIGSTOP);
  clock_gettime(CLOCK_MONOTONIC, &a);
  for (size_t i = 0; i < n; ++i) pair(73);
  clock_gettime(CLOCK_MONOTONIC, &b);
  kill(getppid(), SIGCONT);
  usleep(100000);
  sink = malloc(12347);
  dprintf(1, "%d\n", (int)(b.tv_sec - a.tv_sec));
  return 0;
}

int main(int argc, char** argv) {
  const char* which = argc > 1 ? argv[1] : "";
  const size_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
  if (strcmp(which, "many") == 0) return many(n);
  if (strcmp(which, "runs") == 0) return runs();
  if (strcmp(which, "faults") == 0) return faults();
  if (strcmp(which, "long") == 0) return long_one(n);
  if (strcmp(which, "flush") == 0) return flush(argv[2], argv[3], argv[4]);
  if (strcmp(which, "stall") == 0) return stall(n);
  return 2;
}
