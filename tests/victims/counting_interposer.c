/* SPDX-License-Identifier: Apache-2.0
 * An independent count: hooks malloc's family, exports its own opm_api_v1 and counts heap calls per
 * op. It shares no code with the profiler. At the program's end it writes lines "OP first_calls
 * first_bytes later_calls later_bytes frees" to the file named in COUNT_OUT. Only what happens
 * inside runs counts; "(executor)" is a run without op. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPM_API_TYPES_ONLY
#include "opmeter/opmeter.h"

enum { kMaxOps = 4096, kExecutor = 0 };

typedef struct Tally {
  char name[200];
  uint64_t first_calls, first_bytes, later_calls, later_bytes, frees;
} Tally;

static Tally g_ops[kMaxOps];
static uint32_t g_op_count = 1;
static uint64_t g_runs;
static pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;

static __thread uint64_t t_run;
static __thread uint32_t t_ops[64];
static __thread uint32_t t_depth;
static __thread struct {
  uint64_t run;
  uint32_t op;
} t_attached[16];
static __thread uint32_t t_attached_depth;

static void* (*real_malloc)(size_t);
static void* (*real_calloc)(size_t, size_t);
static void* (*real_realloc)(void*, size_t);
static void (*real_free)(void*);
static int (*real_posix_memalign)(void**, size_t, size_t);
static void* (*real_aligned_alloc)(size_t, size_t);
static void* (*real_memalign)(size_t, size_t);

static void find(void* slot, const char* name) {
  void* symbol = dlsym(RTLD_NEXT, name);
  memcpy(slot, &symbol, sizeof symbol);
}

static char g_early[65536];
static size_t g_early_used;
static int g_finding;

static int is_early(const void* p) {
  return (const char*)p >= g_early && (const char*)p < g_early + sizeof g_early;
}

static void find_all(void) {
  if (real_malloc || g_finding) return;
  g_finding = 1;
  find(&real_calloc, "calloc");
  find(&real_realloc, "realloc");
  find(&real_free, "free");
  find(&real_posix_memalign, "posix_memalign");
  find(&real_aligned_alloc, "aligned_alloc");
  find(&real_memalign, "memalign");
  find(&real_malloc, "malloc");
  g_finding = 0;
}

static void* early(size_t n) {
  void* p = g_early + g_early_used;
  g_early_used += (n + 63) / 64 * 64;
  return g_early_used <= sizeof g_early ? p : NULL;
}

/* Whose call it is, or null outside runs. */
static Tally* mine(int* is_first) {
  uint64_t run = t_run;
  uint32_t op = kExecutor;
  if (t_attached_depth > 0) {
    run = t_attached[t_attached_depth - 1].run;
    op = t_attached[t_attached_depth - 1].op;
    if (t_depth > 0) op = t_ops[t_depth - 1];
  } else if (t_depth > 0) {
    op = t_ops[t_depth - 1];
  }
  if (run == 0) return NULL;
  *is_first = run == 1;
  return &g_ops[op];
}

static void count_alloc(size_t n) {
  int is_first;
  Tally* tally = mine(&is_first);
  if (!tally) return;
  __atomic_fetch_add(is_first ? &tally->first_calls : &tally->later_calls, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(is_first ? &tally->first_bytes : &tally->later_bytes, n, __ATOMIC_RELAXED);
}

static void count_free(void) {
  int is_first;
  Tally* tally = mine(&is_first);
  if (tally) __atomic_fetch_add(&tally->frees, 1, __ATOMIC_RELAXED);
}

void* malloc(size_t n) {
  void* p;
  find_all();
  if (!real_malloc) return early(n);
  p = real_malloc(n);
  if (p) count_alloc(n);
  return p;
}

void* calloc(size_t a, size_t b) {
  void* p;
  find_all();
  if (!real_malloc) return early(a * b);
  p = real_calloc(a, b);
  if (p) count_alloc(a * b);
  return p;
}

void* realloc(void* old, size_t n) {
  void* p;
  find_all();
  if (is_early(old)) {
    p = malloc(n);
    if (p) memcpy(p, old, n);
    return p;
  }
  p = real_realloc(old, n);
  if (old && (n == 0 || p)) count_free();
  if (p) count_alloc(n);
  return p;
}

void free(void* p) {
  if (!p || is_early(p)) return;
  find_all();
  count_free();
  real_free(p);
}

int posix_memalign(void** out, size_t alignment, size_t n) {
  int error;
  find_all();
  error = real_posix_memalign(out, alignment, n);
  if (error == 0) count_alloc(n);
  return error;
}

void* aligned_alloc(size_t alignment, size_t n) {
  void* p;
  find_all();
  p = real_aligned_alloc(alignment, n);
  if (p) count_alloc(n);
  return p;
}

void* memalign(size_t alignment, size_t n) {
  void* p;
  find_all();
  p = real_memalign(alignment, n);
  if (p) count_alloc(n);
  return p;
}

static opm_graph graph_declare(const char* name) { return name ? 1 : 1; }

static opm_op op_declare(const opm_op_desc* desc) {
  uint32_t id;
  pthread_mutex_lock(&g_lock);
  id = g_op_count < kMaxOps ? g_op_count++ : kExecutor;
  if (id != kExecutor) snprintf(g_ops[id].name, sizeof g_ops[id].name, "%s", desc->name);
  pthread_mutex_unlock(&g_lock);
  return id;
}

static void op_push(opm_op op) { t_ops[t_depth++ & 63] = op; }
static void op_pop(void) { --t_depth; }
static void nothing(void) {}
static opm_span span_start(opm_op op, uint64_t stream) { return op + stream; }
static void span_end(opm_span span) { (void)span; }
static void run_begin(opm_graph graph) {
  (void)graph;
  t_run = __atomic_add_fetch(&g_runs, 1, __ATOMIC_RELAXED);
}
static void run_end(void) { t_run = 0; }
static void phase(int32_t which) { (void)which; }
static opm_context context_get(void) {
  opm_context c = {t_run, t_depth ? t_ops[t_depth - 1] : kExecutor, 0};
  return c;
}
static void context_attach(opm_context c) {
  t_attached[t_attached_depth].run = c.run;
  t_attached[t_attached_depth++].op = c.op;
}
static void context_detach(void) { --t_attached_depth; }
static opm_pool pool_create(const opm_pool_desc* desc) { return desc ? 1 : 0; }
static void pool_only(opm_pool pool) { (void)pool; }
static void pool_alloc_end(opm_pool pool, const void* block, uint64_t bytes) {
  (void)pool;
  (void)block;
  (void)bytes;
}
static void pool_free_begin(opm_pool pool, const void* block) {
  (void)pool;
  (void)block;
}
static void mark(const char* text) { (void)text; }
static void info(const char* key, const char* value) {
  (void)key;
  (void)value;
}

static const opm_api kTable = {
    .struct_size = sizeof(opm_api),
    .graph_declare = graph_declare,
    .op_declare = op_declare,
    .op_push = op_push,
    .op_pop = op_pop,
    .kernel_begin = nothing,
    .kernel_end = nothing,
    .span_start = span_start,
    .span_end = span_end,
    .run_begin = run_begin,
    .run_end = run_end,
    .phase = phase,
    .context_get = context_get,
    .context_attach = context_attach,
    .context_detach = context_detach,
    .pool_create = pool_create,
    .pool_destroy = pool_only,
    .pool_alloc_begin = pool_only,
    .pool_alloc_end = pool_alloc_end,
    .pool_free_begin = pool_free_begin,
    .pool_free_end = pool_only,
    .forbid_alloc_begin = nothing,
    .forbid_alloc_end = nothing,
    .mark = mark,
    .info = info,
    .flush = nothing,
};

const opm_api* opm_api_v1(void);
const opm_api* opm_api_v1(void) { return &kTable; }

__attribute__((destructor)) static void write_counts(void) {
  const char* path = getenv("COUNT_OUT");
  FILE* out = path ? fopen(path, "w") : NULL;
  uint32_t i;
  if (!out) return;
  snprintf(g_ops[kExecutor].name, sizeof g_ops[kExecutor].name, "(executor)");
  for (i = 0; i < g_op_count; ++i) {
    const Tally* t = &g_ops[i];
    fprintf(out, "%s %llu %llu %llu %llu %llu\n", t->name, (unsigned long long)t->first_calls,
            (unsigned long long)t->first_bytes, (unsigned long long)t->later_calls,
            (unsigned long long)t->later_bytes, (unsigned long long)t->frees);
  }
  fclose(out);
}
