// SPDX-License-Identifier: Apache-2.0
// The functions behind opmeter.h: scopes are tracked per thread (workers ask for them by token) and
// become events.
#include <sys/resource.h>

#include <cstring>

#include "profiler/recorder/internal.h"
#include "profiler/recorder/selection.h"
#include "profiler/recorder/watch.h"

namespace opmeter::recorder {
namespace {

/// Minor page faults so far.
struct Faults {
  uint64_t thread, process;
};

Faults faults_now() {
  const KeepErrno keep;
  rusage usage{};
  Faults faults{};
  getrusage(RUSAGE_THREAD, &usage);
  faults.thread = static_cast<uint64_t>(usage.ru_minflt);
  getrusage(RUSAGE_SELF, &usage);
  faults.process = static_cast<uint64_t>(usage.ru_minflt);
  return faults;
}

/// Beside a run's or an op's border, at its time.
void record_faults(ThreadState* t, uint64_t ticks, const Faults& faults) {
  record_event_at(t, EventKind::kFaults, ticks, faults.thread, faults.process, 0);
}

bool op_faults() { return (session()->flags & kOpFaults) != 0; }

uint32_t innermost(const ThreadContext& c) {
  if (c.depth == 0) return 0;
  return c.ops[(c.depth <= kMaxOpenOps ? c.depth : kMaxOpenOps) - 1];
}

opm_graph graph_declare(const char* name) {
  const Recording window;
  ThreadState* t = window.thread();
  if (t == nullptr) return 0;
  const uint32_t id = session()->next_graph.fetch_add(1, std::memory_order_relaxed) + 1;
  trace::ByteSink sink(t->payload, sizeof t->payload);
  sink.varint(id);
  sink.string(name);
  record_payload(t, trace::DefinitionTag::kGraph, sink.data(), sink.size());
  return id;
}

void encode_tensors(trace::ByteSink& sink, const opm_tensor* tensors, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    const opm_tensor& x = tensors[i];
    trace::encode_tensor(sink, x.name, x.shape, x.ndim < 0 ? 0 : static_cast<uint32_t>(x.ndim),
                         x.dtype_code, x.dtype_bits, x.dtype_lanes, x.bytes);
  }
}

opm_op op_declare(const opm_op_desc* desc) {
  const Recording window;
  ThreadState* t = window.thread();
  if (t == nullptr || desc == nullptr || desc->struct_size < sizeof(opm_op_desc)) return 0;
  const uint32_t id = session()->next_op.fetch_add(1, std::memory_order_relaxed) + 1;
  trace::ByteSink sink(t->payload, sizeof t->payload);
  trace::encode_op_head(sink, id, desc->graph, desc->index, desc->name, desc->kind,
                        desc->device_type, desc->device_id, desc->num_inputs, desc->num_outputs);
  encode_tensors(sink, desc->inputs, desc->num_inputs);
  encode_tensors(sink, desc->outputs, desc->num_outputs);
  if (sink.overflow()) {  // thousands of tensors: the op keeps its name, loses their list
    sink = trace::ByteSink(t->payload, sizeof t->payload);
    trace::encode_op_head(sink, id, desc->graph, desc->index, desc->name, desc->kind,
                          desc->device_type, desc->device_id, 0, 0);
  }
  record_payload(t, trace::DefinitionTag::kOp, sink.data(), sink.size());
  return id;
}

void op_push(opm_op op) {
  const Recording window;
  ThreadState* t = window.thread();
  if (t == nullptr) return;
  ThreadContext& c = t->context();
  if (c.depth < kMaxOpenOps) c.ops[c.depth] = op;
  ++c.depth;
  if (op_faults()) {
    const Faults faults = faults_now();
    const uint64_t now = ticks_now();
    record_event_at(t, EventKind::kOpPush, now, 0, 0, op);
    record_faults(t, now, faults);
    return;
  }
  record_event(t, EventKind::kOpPush, 0, 0, op);
}

void op_pop() {
  const Recording window;
  ThreadState* t = window.thread();
  if (t == nullptr) return;
  ThreadContext& c = t->context();
  if (c.depth == 0) return;  // a pop too many harms nobody
  --c.depth;
  const uint64_t now = ticks_now();
  if (op_faults()) record_faults(t, now, faults_now());
  record_event_at(t, EventKind::kOpPop, now, 0, 0, 0);
}

void simple_event(EventKind kind) {
  const Recording window;
  if (window.thread() != nullptr) record_event(window.thread(), kind, 0, 0, 0);
}
void kernel_begin() { simple_event(EventKind::kKernelBegin); }
void kernel_end() { simple_event(EventKind::kKernelEnd); }
void forbid_alloc_begin() { simple_event(EventKind::kForbidBegin); }
void forbid_alloc_end() { simple_event(EventKind::kForbidEnd); }

opm_span span_start(opm_op op, uint64_t stream) {
  const Recording window;
  ThreadState* t = window.thread();
  if (t == nullptr) return 0;
  const uint64_t id = session()->next_span.fetch_add(1, std::memory_order_relaxed) + 1;
  record_event(t, EventKind::kSpanStart, id, stream, op);
  return id;
}

void span_end(opm_span span) {
  const Recording window;
  if (window.thread() != nullptr && span != 0) {
    record_event(window.thread(), EventKind::kSpanEnd, span, 0, 0);
  }
}

void end_run(ThreadState* t) {
  const uint64_t now = ticks_now();
  record_faults(t, now, faults_now());
  record_event_at(t, EventKind::kRunEnd, now, t->own.run, 0, 0);
  run_closed();
  t->own.run = 0;
  t->own.depth = 0;
}

void run_begin(opm_graph graph) {
  const Recording window;
  ThreadState* t = window.thread();
  if (t == nullptr) return;
  if (t->own.run != 0) end_run(t);  // runs do not nest: the program forgot an end
  t->own.run = session()->next_run.fetch_add(1, std::memory_order_relaxed) + 1;
  t->own.depth = 0;
  run_opened();
  const Faults faults = faults_now();  // first: what the recorder does here is not the run's
  const uint64_t now = ticks_now();
  record_event_at(t, EventKind::kRunBegin, now, t->own.run, 0, graph,
                  static_cast<uint16_t>(t->phase));
  record_faults(t, now, faults);
}

void run_end() {
  const Recording window;
  ThreadState* t = window.thread();
  if (t != nullptr && t->own.run != 0) end_run(t);
}

void phase(int32_t phase) {
  const Recording window;
  if (window.thread() != nullptr) window.thread()->phase = phase;
}

opm_context context_get() {
  const Recording window;
  ThreadState* t = window.thread();
  opm_context none = {0, 0, 0};
  if (t == nullptr) return none;
  const ThreadContext& c = t->context();
  return {c.run, innermost(c), 0};
}

void context_attach(opm_context context) {
  const Recording window;
  ThreadState* t = window.thread();
  if (t == nullptr) return;
  if (t->attached_depth < kMaxContexts) {
    ThreadContext& c = t->attached[t->attached_depth];
    c.run = context.run;
    c.depth = context.op == 0 ? 0 : 1;
    c.ops[0] = context.op;
  }
  ++t->attached_depth;
  record_event(t, EventKind::kContextAttach, context.run, 0, context.op);
}

void context_detach() {
  const Recording window;
  ThreadState* t = window.thread();
  if (t == nullptr || t->attached_depth == 0) return;
  --t->attached_depth;
  record_event(t, EventKind::kContextDetach, 0, 0, 0);
}

opm_pool pool_create(const opm_pool_desc* desc) {
  const Recording window;
  ThreadState* t = window.thread();
  if (t == nullptr || desc == nullptr || desc->struct_size < sizeof(opm_pool_desc)) return 0;
  const uint32_t id = session()->next_pool.fetch_add(1, std::memory_order_relaxed) + 1;
  trace::ByteSink sink(t->payload, sizeof t->payload);
  trace::encode_pool(sink, id, desc->name, desc->domain, desc->device_type, desc->device_id);
  record_payload(t, trace::DefinitionTag::kPool, sink.data(), sink.size());
  return id;
}

void pool_destroy(opm_pool) {
}  // the pool's blocks were given back one by one; its definition stays

void enter_pool(ThreadState* t, opm_pool pool) {
  if (t->pool_depth < kMaxOpenPools) t->pools[t->pool_depth] = pool;
  ++t->pool_depth;
}

void pool_alloc_begin(opm_pool pool) {
  const Recording window;
  if (window.thread() != nullptr) enter_pool(window.thread(), pool);
}

void pool_alloc_end(opm_pool pool, const void* block, uint64_t bytes) {
  const Recording window;
  ThreadState* t = window.thread();
  if (t == nullptr) return;
  if (t->pool_depth > 0) --t->pool_depth;
  record_pool_alloc(t, __builtin_frame_address(0), pool, block, bytes);
}

void pool_free_begin(opm_pool pool, const void* block) {
  const Recording window;
  ThreadState* t = window.thread();
  if (t == nullptr) return;
  record_pool_free(t, pool, block);
  enter_pool(t, pool);
}

void pool_free_end(opm_pool) {
  const Recording window;
  ThreadState* t = window.thread();
  if (t != nullptr && t->pool_depth > 0) --t->pool_depth;
}

void mark(const char* text) {
  const Recording window;
  ThreadState* t = window.thread();
  if (t == nullptr) return;
  trace::ByteSink sink(t->payload, sizeof t->payload);
  sink.varint(t->id);
  sink.varint(ticks_now());
  sink.string(text);
  record_payload(t, trace::DefinitionTag::kMark, sink.data(), sink.size());
}

void info(const char* key, const char* value) {
  const Recording window;
  ThreadState* t = window.thread();
  if (t == nullptr) return;
  trace::ByteSink sink(t->payload, sizeof t->payload);
  sink.string(key);
  sink.string(value);
  record_payload(t, trace::DefinitionTag::kInfo, sink.data(), sink.size());
}

void flush() {
  if (!recording()) return;
  const KeepErrno keep;
  const uint64_t mine = session()->flush_requested.fetch_add(1) + 1;
  const uint64_t deadline = clock_ns(CLOCK_MONOTONIC) + 1'000'000'000;
  while (session()->flush_done.load() < mine && clock_ns(CLOCK_MONOTONIC) < deadline) {
    const timespec pause{0, 200'000};
    nanosleep(&pause, nullptr);
  }
}

int is_recording() { return recording() ? 1 : 0; }

constexpr opm_api kTable = {
    .struct_size = sizeof(opm_api),
    .graph_declare = graph_declare,
    .op_declare = op_declare,
    .op_push = op_push,
    .op_pop = op_pop,
    .kernel_begin = kernel_begin,
    .kernel_end = kernel_end,
    .span_start = span_start,
    .span_end = span_end,
    .run_begin = run_begin,
    .run_end = run_end,
    .phase = phase,
    .context_get = context_get,
    .context_attach = context_attach,
    .context_detach = context_detach,
    .pool_create = pool_create,
    .pool_destroy = pool_destroy,
    .pool_alloc_begin = pool_alloc_begin,
    .pool_alloc_end = pool_alloc_end,
    .pool_free_begin = pool_free_begin,
    .pool_free_end = pool_free_end,
    .forbid_alloc_begin = forbid_alloc_begin,
    .forbid_alloc_end = forbid_alloc_end,
    .mark = mark,
    .info = info,
    .flush = flush,
    .recording = is_recording,
    .watch_begin = watch_begin,
    .watch_end = watch_end,
    .heap_count_begin = heap_count_begin,
    .heap_count_end = heap_count_end,
};

}  // namespace

const opm_api* api_table() { return &kTable; }

}  // namespace opmeter::recorder
