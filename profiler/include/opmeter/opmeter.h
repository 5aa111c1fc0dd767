/* SPDX-License-Identifier: Apache-2.0
 *
 * opmeter.h: how a program tells Opmeter what it is doing (C11; opmeter.hpp has the C++ guards).
 *
 * Include it, call it, link nothing. Each module (executable or shared library) that includes it
 * looks for the symbol `opm_api_v1` once, in a constructor, by dlsym: never lazily, because a
 * failing dlsym itself calls malloc. Without a profiler in the process the table pointer stays null
 * and every call is one load and one branch.
 *
 * Thread rule: every function may be called from any thread; op, run and forbid scopes belong to
 * the calling thread. No function fails, throws, sets errno or calls malloc. Strings are copied;
 * pass UTF-8, NULL counts as "". Time is taken by the profiler.
 */
#ifndef OPMETER_OPMETER_H_
#define OPMETER_OPMETER_H_

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Ids are process-wide, given by the profiler; 0 means none (and is what comes back without a
 * profiler). */
typedef uint32_t opm_graph; /* one compiled model as loaded once            */
typedef uint32_t opm_op;    /* one node of a graph: its executions are ops  */
typedef uint32_t opm_pool;  /* one object serving workspaces or tensors     */
typedef uint64_t opm_span;  /* one open asynchronous span                   */

/* What a pool's blocks are (the numbers reach trace files). */
enum {
  OPM_DOMAIN_WORKSPACE = 2, /* op-scoped scratch memory          */
  OPM_DOMAIN_TENSOR = 3,    /* intermediate tensors between ops  */
  OPM_DOMAIN_DEVICE = 4     /* device memory (cudaMalloc, ...)   */
};

/* What the coming runs are. Run 1 of a graph is always "first". */
enum {
  OPM_PHASE_AUTO = 0,   /* the analysis finds the end of warm-up  */
  OPM_PHASE_WARMUP = 1, /* known to be warm-up                    */
  OPM_PHASE_STEADY = 2  /* known to be measured steady state      */
};

/* A tensor of an op. dtype numbers are DLPack's (code 0 int, 1 uint, 2 float, 3 handle, 4 bfloat).
 */
typedef struct opm_tensor {
  const char* name;
  const int64_t* shape; /* ndim extents */
  int32_t ndim;
  uint8_t dtype_code;
  uint8_t dtype_bits;
  uint16_t dtype_lanes;
  uint64_t bytes; /* size of the data */
} opm_tensor;

/* An op of a graph. device_type numbers are DLPack's (cpu 1, cuda 2, opencl 4). */
typedef struct opm_op_desc {
  uint32_t struct_size; /* sizeof(opm_op_desc) */
  opm_graph graph;
  int32_t index;    /* position in execution order */
  const char* name; /* the node's name             */
  const char* kind; /* the function it calls       */
  int32_t device_type;
  int32_t device_id;
  uint32_t num_inputs;
  uint32_t num_outputs;
  const opm_tensor* inputs;
  const opm_tensor* outputs;
} opm_op_desc;

typedef struct opm_pool_desc {
  uint32_t struct_size; /* sizeof(opm_pool_desc) */
  const char* name;     /* "naive", "caching", ... */
  int32_t domain;       /* OPM_DOMAIN_* */
  int32_t device_type;
  int32_t device_id;
} opm_pool_desc;

/* Which run and op a thread is working for; opaque, copyable, valid until that run ends. */
typedef struct opm_context {
  uint64_t run;
  uint32_t op;
  uint32_t reserved;
} opm_context;

/* Return addresses kept of an allocation that a watch saw; deeper stacks lose their outer frames.
 */
#define OPM_WATCH_FRAMES 32

/* One allocation that a watch saw. */
typedef struct opm_allocation {
  const char* entry_point; /* "malloc", "operator new", ...: a constant, valid for ever */
  uint64_t bytes;          /* as asked for */
  uint32_t failed;         /* 1 = the request was refused */
  uint32_t frame_count;
  void* frames[OPM_WATCH_FRAMES]; /* innermost first: frames[0] is in the caller of entry_point */
} opm_allocation;

/* What one thread allocated between watch_begin and watch_end. A realloc to another size counts as
 * an allocation and a free, realloc(p, 0) as a free, operator new once. */
typedef struct opm_watch {
  uint32_t struct_size;        /* sizeof(opm_watch)                                              */
  uint32_t capacity;           /* room in `allocations`                                          */
  opm_allocation* allocations; /* the caller's memory, which outlives the watch; may be NULL     */
  uint32_t described;          /* out: entries filled, the first allocations and failed requests */
  uint32_t reserved;
  uint64_t calls;          /* out: allocations, also those that `allocations` has no room for */
  uint64_t bytes;          /* out: as asked for, of those calls */
  uint64_t failed;         /* out: requests that were refused; not among calls */
  uint64_t frees;          /* out */
  struct opm_watch* outer; /* the profiler's, while the watch is open */
} opm_watch;

/* What all threads allocated between heap_count_begin and heap_count_end. The last two are in bytes
 * that the allocator set aside (malloc_usable_size), INT64_MIN where it does not tell. */
typedef struct opm_heap_count {
  uint32_t struct_size; /* sizeof(opm_heap_count) */
  uint32_t reserved;
  uint64_t calls;
  uint64_t bytes; /* as asked for */
  uint64_t frees;
  int64_t peak_growth; /* highest growth of the heap over where it was at the begin, at least 0 */
  int64_t net_growth;
} opm_heap_count;

/* The one seam to a profiler. New functions are appended and struct_size grows; nothing is ever
 * reordered. */
typedef struct opm_api {
  size_t struct_size;
  opm_graph (*graph_declare)(const char* name);
  opm_op (*op_declare)(const opm_op_desc* desc);
  void (*op_push)(opm_op op);
  void (*op_pop)(void);
  void (*kernel_begin)(void);
  void (*kernel_end)(void);
  opm_span (*span_start)(opm_op op, uint64_t stream);
  void (*span_end)(opm_span span);
  void (*run_begin)(opm_graph graph);
  void (*run_end)(void);
  void (*phase)(int32_t phase);
  opm_context (*context_get)(void);
  void (*context_attach)(opm_context context);
  void (*context_detach)(void);
  opm_pool (*pool_create)(const opm_pool_desc* desc);
  void (*pool_destroy)(opm_pool pool);
  void (*pool_alloc_begin)(opm_pool pool);
  void (*pool_alloc_end)(opm_pool pool, const void* block, uint64_t bytes);
  void (*pool_free_begin)(opm_pool pool, const void* block);
  void (*pool_free_end)(opm_pool pool);
  void (*forbid_alloc_begin)(void);
  void (*forbid_alloc_end)(void);
  void (*mark)(const char* text);
  void (*info)(const char* key, const char* value);
  void (*flush)(void);
  /* From here on a profiler that cannot do it leaves null. */
  int (*recording)(void); /* null = always */
  int (*watch_begin)(opm_watch* watch);
  void (*watch_end)(opm_watch* watch);
  int (*heap_count_begin)(void);
  void (*heap_count_end)(opm_heap_count* count);
} opm_api;

/* Exported by a profiler under the name "opm_api_v1". The table lives as long as the process. */
typedef const opm_api* (*opm_api_v1_fn)(void);

#ifndef OPM_API_TYPES_ONLY /* a profiler, which provides the table, defines it before including \
                              this file */

/* This module's table; null when no profiler is loaded. Weak and hidden: one per module, no link
 * dependency. */
__attribute__((weak, visibility("hidden"))) const opm_api* opm_api_table = NULL;

__attribute__((weak, visibility("hidden"), constructor(101))) void opm_api_connect(void);
void opm_api_connect(void) {
  void* symbol;
  opm_api_v1_fn get = NULL;
  if (opm_api_table != NULL)
    return; /* each translation unit of the module registers this constructor */
  symbol = dlsym(NULL /* RTLD_DEFAULT, which needs _GNU_SOURCE */, "opm_api_v1");
  if (symbol == NULL) return;
  memcpy(&get, &symbol, sizeof get); /* ISO C has no conversion from object to function pointers */
  opm_api_table = get();
  if (opm_api_table != NULL && opm_api_table->struct_size < sizeof(opm_api)) opm_api_table = NULL;
}

/* --- declarations: once, before the first run
 * ------------------------------------------------------------------ */

/* A model. Runs name their graph; op indices are per graph. */
static inline opm_graph opm_graph_declare(const char* name) {
  return opm_api_table ? opm_api_table->graph_declare(name) : 0;
}
/* An op with its tensors. Declaring is optional detail: pushing an undeclared id 0 is charged to
 * "(unnamed)". */
static inline opm_op opm_op_declare(const opm_op_desc* desc) {
  return opm_api_table ? opm_api_table->op_declare(desc) : 0;
}
/* A fact about the process for the report's context ("model", "pool", "device", "threads", ...). */
static inline void opm_info(const char* key, const char* value) {
  if (opm_api_table) opm_api_table->info(key, value);
}

/* --- spans on this thread
 * --------------------------------------------------------------------------------------- */

/* Opens before the op's outputs and workspaces are requested; closes after the releases it causes.
 * Nests. */
static inline void opm_op_push(opm_op op) {
  if (opm_api_table) opm_api_table->op_push(op);
}
static inline void opm_op_pop(void) {
  if (opm_api_table) opm_api_table->op_pop();
}
/* The kernel call inside the innermost open op. */
static inline void opm_kernel_begin(void) {
  if (opm_api_table) opm_api_table->kernel_begin();
}
static inline void opm_kernel_end(void) {
  if (opm_api_table) opm_api_table->kernel_end();
}
/* A span that may end on another thread, on a stream (0 = host). Does not change whom allocations
 * are charged to. */
static inline opm_span opm_span_start(opm_op op, uint64_t stream) {
  return opm_api_table ? opm_api_table->span_start(op, stream) : 0;
}
static inline void opm_span_end(opm_span span) {
  if (opm_api_table) opm_api_table->span_end(span);
}

/* --- runs, phases
 * -----------------------------------------------------------------------------------------------
 */

/* One graph execution on this thread. Runs do not nest on a thread; several threads may have one
 * open each. */
static inline void opm_run_begin(opm_graph graph) {
  if (opm_api_table) opm_api_table->run_begin(graph);
}
static inline void opm_run_end(void) {
  if (opm_api_table) opm_api_table->run_end();
}
/* From now on runs begun by this thread are OPM_PHASE_*. */
static inline void opm_phase(int32_t phase) {
  if (opm_api_table) opm_api_table->phase(phase);
}

/* --- the context of other threads
 * ------------------------------------------------------------------------------- */

/* Take a token on the thread that has the run and op, attach it on a thread that works for it,
 * detach when done. */
static inline opm_context opm_context_get(void) {
  opm_context none = {0, 0, 0};
  return opm_api_table ? opm_api_table->context_get() : none;
}
static inline void opm_context_attach(opm_context context) {
  if (opm_api_table) opm_api_table->context_attach(context);
}
static inline void opm_context_detach(void) {
  if (opm_api_table) opm_api_table->context_detach();
}

/* --- pools
 * -------------------------------------------------------------------------------------------------------
 */

static inline opm_pool opm_pool_create(const opm_pool_desc* desc) {
  return opm_api_table ? opm_api_table->pool_create(desc) : 0;
}
static inline void opm_pool_destroy(opm_pool pool) {
  if (opm_api_table) opm_api_table->pool_destroy(pool);
}
/* Around the pool's own work for one request of `bytes`: what it allocates in between is "backing".
 * block NULL = the request failed. The event carries the call stack. */
static inline void opm_pool_alloc_begin(opm_pool pool) {
  if (opm_api_table) opm_api_table->pool_alloc_begin(pool);
}
static inline void opm_pool_alloc_end(opm_pool pool, const void* block, uint64_t bytes) {
  if (opm_api_table) opm_api_table->pool_alloc_end(pool, block, bytes);
}
/* Around the release of `block`. Call begin before the block can be reused. */
static inline void opm_pool_free_begin(opm_pool pool, const void* block) {
  if (opm_api_table) opm_api_table->pool_free_begin(pool, block);
}
static inline void opm_pool_free_end(opm_pool pool) {
  if (opm_api_table) opm_api_table->pool_free_end(pool);
}

/* --- scopes, marks
 * -----------------------------------------------------------------------------------------------
 */

/* Between the two no allocation of this thread is expected: a recording holds each one with its
 * stack as a violation. Nests. A test asks with opm_watch_begin, or opmeter/gtest.hpp. */
static inline void opm_forbid_alloc_begin(void) {
  if (opm_api_table) opm_api_table->forbid_alloc_begin();
}
static inline void opm_forbid_alloc_end(void) {
  if (opm_api_table) opm_api_table->forbid_alloc_end();
}
/* A point in time with a name. */
static inline void opm_mark(const char* text) {
  if (opm_api_table) opm_api_table->mark(text);
}
/* What was recorded before this call is in the trace file when it returns (waits for a bounded
 * time). */
static inline void opm_flush(void) {
  if (opm_api_table) opm_api_table->flush();
}
/* 1 when a profiler listens: lets a program skip the cost of preparing declarations. */
static inline int opm_enabled(void) {
  return opm_api_table != NULL && (opm_api_table->recording == NULL || opm_api_table->recording());
}

/* --- asking the hooks, with or without a recording
 * ---------------------------------------------------------------------------------------------- */

/* From now on allocations of this thread are written to `watch`, whose out members are reset. 1; or
 * 0 and nothing happens when no hooks are in the process (link opmeter::hooks, or preload
 * libopmeter_preload.so). Watches nest, and an allocation counts in each open one. */
static inline int opm_watch_begin(opm_watch* watch) {
  return opm_api_table != NULL && opm_api_table->watch_begin != NULL &&
         opm_api_table->watch_begin(watch);
}
/* Closes `watch` and those opened after it; on the thread that opened it. */
static inline void opm_watch_end(opm_watch* watch) {
  if (opm_api_table != NULL && opm_api_table->watch_end != NULL) opm_api_table->watch_end(watch);
}
/* Counts from zero, for all threads; one count at a time. 0 = no hooks, as above. */
static inline int opm_heap_count_begin(void) {
  return opm_api_table != NULL && opm_api_table->heap_count_begin != NULL &&
         opm_api_table->heap_count_begin();
}
static inline void opm_heap_count_end(opm_heap_count* count) {
  if (opm_api_table != NULL && opm_api_table->heap_count_end != NULL)
    opm_api_table->heap_count_end(count);
}

#endif /* OPM_API_TYPES_ONLY */

#ifdef __cplusplus
}
#endif

#endif /* OPMETER_OPMETER_H_ */
