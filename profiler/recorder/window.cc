// SPDX-License-Identifier: Apache-2.0
// Opening and closing a window to record in, where that is more than a flag: a thread's first
// event, an event whose own cost is timed, a signal handler that interrupted the recorder.
#include "profiler/recorder/internal.h"
#include "profiler/recorder/modules.h"

namespace opmeter::recorder {
namespace {

/// The recorder was interrupted by a signal whose handler allocates: its events go to a ring of
/// their own, on behalf of the op that was interrupted. Null = counted as lost (a handler that
/// interrupts a handler here).
ThreadState* enter_handler(Tls& tls, const void* hook_frame) {
  if (tls.own_calls) return nullptr;
  if (hook_frame != nullptr) {
    const void* caller = static_cast<void* const*>(hook_frame)[1];
    if (is_unwinder_code(caller) || is_own_code(caller)) return nullptr;
  }
  if (tls.handler_busy) {
    g_session->lost_events.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  tls.handler_busy = true;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const KeepErrno keep;
  ThreadState* t = tls.handler;
  if (t == nullptr) t = attach_handler();
  if (t == nullptr) {
    g_session->lost_events.fetch_add(1, std::memory_order_relaxed);
    tls.handler_busy = false;
    return nullptr;
  }
  if (tls.state == nullptr) return t;
  const ThreadContext& interrupted = tls.state->context();
  const uint32_t open = interrupted.depth < kMaxOpenOps ? interrupted.depth : kMaxOpenOps;
  if (interrupted.run == 0 && open == 0) return t;
  ThreadContext& c = t->attached[0];
  c.run = interrupted.run;
  c.depth = open == 0 ? 0 : 1;
  c.ops[0] = open == 0 ? 0 : interrupted.ops[open - 1];
  t->attached_depth = 1;
  record_event(t, EventKind::kContextAttach, c.run, 0, c.ops[0]);
  return t;
}

void leave_handler(Tls& tls) {
  if (tls.handler->attached_depth != 0) {
    tls.handler->attached_depth = 0;
    record_event(tls.handler, EventKind::kContextDetach, 0, 0, 0);
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  tls.handler_busy = false;
}

}  // namespace

ThreadState* enter_slowly(Tls& tls, const void* hook_frame) {
  if (tls.busy) return enter_handler(tls, hook_frame);
  tls.busy = true;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const KeepErrno keep;
  ThreadState* t = attach_thread();
  if (t == nullptr) {
    g_session->lost_events.fetch_add(1, std::memory_order_relaxed);
    tls.busy = false;
    return nullptr;
  }
  tls.started = 0;
  return t;
}

void leave_slowly(Tls& tls, ThreadState* t) {
  if (t == tls.handler) {
    leave_handler(tls);
    return;
  }
  g_session->overhead_samples.fetch_add(1, std::memory_order_relaxed);
  g_session->overhead_ticks.fetch_add(ticks_now() - tls.started, std::memory_order_relaxed);
}

}  // namespace opmeter::recorder
