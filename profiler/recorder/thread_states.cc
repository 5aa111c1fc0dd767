// SPDX-License-Identifier: Apache-2.0
// Threads come and go: each gets a ThreadState at its first event and gives it back at its end.
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <cstring>

#include "profiler/recorder/internal.h"
#include "profiler/recorder/selection.h"

extern "C" __attribute__((weak)) void* __libc_stack_end;  // of the loader

namespace opmeter::recorder {

constinit thread_local Tls t_tls{};

namespace {

constinit pthread_key_t g_thread_key = 0;
constinit std::atomic_flag g_free_states_busy = ATOMIC_FLAG_INIT;
constinit ThreadState* g_free_states = nullptr;

void define_thread(ThreadState* t) {
  uint8_t buffer[64];
  trace::ByteSink sink(buffer, sizeof buffer);
  sink.varint(t->id);
  sink.signed_varint(t->tid);
  sink.string(t->name, sizeof t->name);
  record_payload(t, trace::DefinitionTag::kThread, sink.data(), sink.size());
}

/// Defines the thread again when it was renamed: threads are often named after their first
/// allocation.
void refresh_thread_name(ThreadState* t) {
  char name[16] = {};
  syscall(SYS_prctl, PR_GET_NAME, name, 0, 0, 0);
  if (std::memcmp(name, t->name, sizeof name) == 0) return;
  std::memcpy(t->name, name, sizeof name);
  define_thread(t);
}

ThreadState* new_state() {
  // Fresh pages are zero, the initial value of every member but one.
  auto* t = static_cast<ThreadState*>(map_pages(sizeof(ThreadState)));
  if (t != nullptr) t->phase = OPM_PHASE_AUTO;
  return t;
}

ThreadState* take_state() {
  while (g_free_states_busy.test_and_set(std::memory_order_acquire)) sched_yield();
  ThreadState* t = g_free_states;
  if (t != nullptr) g_free_states = t->next_free;
  g_free_states_busy.clear(std::memory_order_release);
  return t != nullptr ? t : new_state();
}

void give_state_back(ThreadState* t) {
  // Members are reset one by one: the buffers are large and need no reset.
  t->chunk = nullptr;
  t->cursor = t->end = nullptr;
  t->sequence = 0;
  t->unreported_lost = 0;
  t->sample_left = 0;
  t->waited_in_vain = false;
  t->exit_rounds = 0;
  t->phase = OPM_PHASE_AUTO;
  t->pool_depth = 0;
  t->own.run = 0;
  t->own.depth = 0;
  t->attached_depth = 0;
  while (g_free_states_busy.test_and_set(std::memory_order_acquire)) sched_yield();
  t->next_free = g_free_states;
  g_free_states = t;
  g_free_states_busy.clear(std::memory_order_release);
}

/// A signal in this short window finds `handler_busy` set: its events are counted as lost.
void detach_handler() {
  ThreadState* h = t_tls.handler;
  if (h == nullptr) return;
  t_tls.handler_busy = true;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  record_event(h, EventKind::kThreadExit, 0, 0, 0);
  close_chunk(h);
  t_tls.handler = nullptr;
  give_state_back(h);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  t_tls.handler_busy = false;
}

/// Key destructor. Other destructors of the thread may still allocate: the ring is given back in
/// the last round.
void detach_thread(void* data) {
  auto* t = static_cast<ThreadState*>(data);
  if (!recording() || t_tls.state != t) return;
  const KeepErrno keep;
  t_tls.busy = true;
  if (++t->exit_rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
    t_tls.own_calls = true;
    pthread_setspecific(g_thread_key, t);
    t_tls.own_calls = false;
  } else {
    refresh_thread_name(t);
    if (t->own.run != 0) run_closed();
    record_event(t, EventKind::kThreadExit, 0, 0, 0);
    close_chunk(t);
    t_tls.state = nullptr;
    give_state_back(t);
    detach_handler();
  }
  t_tls.busy = false;
}

/// Where the thread's own stack lies: it stays mapped as long as the thread runs, so that what
/// looks like a frame pointer into it can be followed.
void find_own_stack(ThreadState* t) {
  t->stack_low = t->stack_high = nullptr;
  if (t->tid == static_cast<int32_t>(syscall(SYS_getpid))) {
    if (&__libc_stack_end == nullptr) return;
    // The kernel keeps more than this below the main stack free of other mappings.
    constexpr size_t kMostMainStack = 100u << 20;
    t->stack_high = static_cast<const char*>(__libc_stack_end);
    t->stack_low = t->stack_high - kMostMainStack;
    return;
  }
  t_tls.own_calls = true;  // glibc mallocs in here
  pthread_attr_t attributes;
  void* low = nullptr;
  size_t bytes = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    if (pthread_attr_getstack(&attributes, &low, &bytes) == 0) {
      t->stack_low = static_cast<const char*>(low);
      t->stack_high = t->stack_low + bytes;
    }
    pthread_attr_destroy(&attributes);
  }
  t_tls.own_calls = false;
}

}  // namespace

ThreadState* attach_thread() {
  ThreadState* t = take_state();
  if (t == nullptr) return nullptr;
  t->id = g_session->next_thread.fetch_add(1, std::memory_order_relaxed) + 1;
  t->tid = static_cast<int32_t>(syscall(SYS_gettid));
  std::memset(t->name, 0, sizeof t->name);
  syscall(SYS_prctl, PR_GET_NAME, t->name, 0, 0, 0);
  t_tls.state = t;
  t_tls.own_calls = true;  // glibc callocs for keys beyond its first 32
  pthread_setspecific(g_thread_key, t);
  t_tls.own_calls = false;
  if ((g_session->flags & kFramePointers) != 0) find_own_stack(t);
  define_thread(t);
  return t;
}

ThreadState* attach_handler() {
  // Not from the list: the interrupted code may hold its lock.
  ThreadState* t = new_state();
  if (t == nullptr) return nullptr;
  t->id = g_session->next_thread.fetch_add(1, std::memory_order_relaxed) + 1;
  // Negative: signal handlers on that thread. Nobody renames it after the thread then.
  t->tid = -static_cast<int32_t>(syscall(SYS_gettid));
  std::memcpy(t->name, "signal handler", sizeof "signal handler");
  t_tls.handler = t;
  define_thread(t);
  return t;
}

void thread_states_restart() {
  g_free_states =
      nullptr;  // theirs may be half linked; the memory is the parent's, copied on write
  g_free_states_busy.clear();
  t_tls = {};
}

void thread_states_start() { pthread_key_create(&g_thread_key, detach_thread); }

}  // namespace opmeter::recorder
