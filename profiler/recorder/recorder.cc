// SPDX-License-Identifier: Apache-2.0
// Events into the ring of the calling thread.
#include "profiler/recorder/recorder.h"

#include <time.h>

#include <cstring>

#include "profiler/recorder/internal.h"
#include "profiler/recorder/modules.h"
#include "profiler/recorder/stack_capture.h"

namespace opmeter::recorder {

void close_chunk(ThreadState* t) {
  if (t->chunk == nullptr) return;
  t->chunk->header.state.store(ChunkState::kFull, std::memory_order_release);
  t->chunk = nullptr;
  t->cursor = t->end = nullptr;
}

namespace {

/// One event in this many has its own cost timed.
constexpr uint32_t kOverheadPeriod = 61;  // prime: programs alternate between malloc and free
constexpr uint64_t kLongestWaitNs = 2'000'000'000;

void count_lost(ThreadState* t, uint64_t events) {
  g_session->lost_events.fetch_add(events, std::memory_order_relaxed);
  t->unreported_lost += events;
}

Chunk* take_free_chunk() {
  const uint32_t n = g_session->chunk_count;
  Chunk* chunks = session_chunks(g_session);
  const uint32_t first = g_session->next_chunk.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t at = (first + i) % n;
    ChunkState expected = ChunkState::kFree;
    if (chunks[at].header.state.load(std::memory_order_relaxed) == ChunkState::kFree &&
        chunks[at].header.state.compare_exchange_strong(expected, ChunkState::kOwned,
                                                        std::memory_order_acquire)) {
      g_session->next_chunk.store((at + 1) % n, std::memory_order_relaxed);
      return &chunks[at];
    }
  }
  return nullptr;
}

/// Waits for the drain, for a bounded time in all until it succeeds again. A drain without a
/// heartbeat is dead.
Chunk* wait_for_chunk(ThreadState* t) {
  Chunk* chunk = take_free_chunk();
  if (chunk != nullptr || t->waited_in_vain) return chunk;
  const uint32_t beats = g_session->drain_beats.load(std::memory_order_relaxed);
  const uint64_t deadline = clock_ns(CLOCK_MONOTONIC) + kLongestWaitNs;
  do {
    const timespec pause{0, 100'000};
    nanosleep(&pause, nullptr);
    chunk = take_free_chunk();
  } while (chunk == nullptr && g_session->stopped.load(std::memory_order_relaxed) == 0 &&
           clock_ns(CLOCK_MONOTONIC) < deadline);
  if (chunk != nullptr) return chunk;
  t->waited_in_vain = true;
  if (g_session->drain_beats.load(std::memory_order_relaxed) == beats) {
    g_session->stopped.store(1, std::memory_order_relaxed);
    g_gate->recording.store(false, std::memory_order_relaxed);
  }
  return nullptr;
}

Slot* reserve(ThreadState* t, uint32_t slots);

void commit(ThreadState* t, uint32_t slots) {
  t->cursor += slots;
  t->chunk->header.committed.store(static_cast<uint32_t>(t->cursor - t->chunk->slots),
                                   std::memory_order_release);
}

[[gnu::noinline]] Slot* reserve_in_new_chunk(ThreadState* t, uint32_t slots,
                                             uint64_t lost_if_none) {
  close_chunk(t);
  Chunk* chunk = wait_for_chunk(t);
  if (chunk == nullptr) {
    count_lost(t, lost_if_none);
    return nullptr;
  }
  t->waited_in_vain = false;
  chunk->header.committed.store(0, std::memory_order_relaxed);
  chunk->header.thread = t->id;
  chunk->header.sequence = t->sequence++;
  t->chunk = chunk;
  t->cursor = chunk->slots;
  t->end = chunk->slots + kSlotsPerChunk;
  if (t->unreported_lost != 0) {
    const ThreadContext& context = t->context();
    const uint32_t open = context.depth < kMaxOpenOps ? context.depth : kMaxOpenOps;
    const uint64_t now = ticks_now();
    t->cursor[0] = {now, 0, t->unreported_lost, 0, static_cast<uint8_t>(EventKind::kLost), 0, 0};
    t->cursor[1] = {now,
                    context.run,
                    0,
                    open == 0 ? 0 : context.ops[open - 1],
                    static_cast<uint8_t>(EventKind::kResync),
                    0,
                    static_cast<uint16_t>(context.depth)};
    t->unreported_lost = 0;
    commit(t, 2);
  }
  return slots <= static_cast<uint32_t>(t->end - t->cursor) ? t->cursor : nullptr;
}

/// Room for `slots` (at most a chunk less two). Null = lost and counted.
inline Slot* reserve(ThreadState* t, uint32_t slots) {
  if (static_cast<size_t>(t->end - t->cursor) >= slots) return t->cursor;
  return reserve_in_new_chunk(t, slots, 1);
}

}  // namespace

namespace {

/// The recorder was interrupted by a signal whose handler allocates: its events go to a ring of
/// their own, on behalf of the op that was interrupted. Null = counted as lost (a handler that
/// interrupts a handler here).
[[gnu::noinline]] ThreadState* enter_handler(Tls& tls, const void* hook_frame) {
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

Recording::Recording(const void* hook_frame) : thread_(nullptr) {
  if (!recording()) return;
  Tls& tls = t_tls;
  if (tls.busy) {
    thread_ = enter_handler(tls, hook_frame);
    return;
  }
  tls.busy = true;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  ThreadState* t = tls.state;
  if (t == nullptr) {
    const KeepErrno keep;
    t = attach_thread();
    if (t == nullptr) {
      g_session->lost_events.fetch_add(1, std::memory_order_relaxed);
      tls.busy = false;
      return;
    }
  }
  tls.started = ++t->events % kOverheadPeriod == 0 ? ticks_now() : 0;
  thread_ = t;
}

Recording::~Recording() {
  if (thread_ == nullptr) return;
  Tls& tls = t_tls;
  if (thread_ == tls.handler) {
    leave_handler(tls);
    return;
  }
  if (tls.started != 0) {
    g_session->overhead_samples.fetch_add(1, std::memory_order_relaxed);
    g_session->overhead_ticks.fetch_add(ticks_now() - tls.started, std::memory_order_relaxed);
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  tls.busy = false;
}

void record_event(ThreadState* t, EventKind kind, uint64_t address, uint64_t bytes, uint32_t ref,
                  uint16_t api) {
  Slot* slot = reserve(t, 1);
  if (slot == nullptr) return;
  *slot = {ticks_now(), address, bytes, ref, static_cast<uint8_t>(kind), 0, api};
  commit(t, 1);
}

void record_map(ThreadState* t, EventKind kind, AllocApi api, uint64_t ticks, uint64_t address,
                uint64_t bytes, uint32_t stack) {
  Slot* slot = reserve(t, 1);
  if (slot == nullptr) return;
  const uint8_t flags = t->backing_pool() == 0 ? 0 : trace::kBacking;
  *slot = {ticks, address, bytes, stack, static_cast<uint8_t>(kind), flags,
           static_cast<uint16_t>(api)};
  commit(t, 1);
}

bool record_payload(ThreadState* t, trace::DefinitionTag tag, const uint8_t* data, size_t size) {
  const auto slots = static_cast<uint32_t>(1 + (size + sizeof(Slot) - 1) / sizeof(Slot));
  if (slots + 2 > kSlotsPerChunk) return false;
  Slot* slot = static_cast<size_t>(t->end - t->cursor) >= slots ? t->cursor
                                                                : reserve_in_new_chunk(t, slots, 1);
  if (slot == nullptr) return false;
  slot[0] = {ticks_now(), static_cast<uint64_t>(tag), size, 0, kPayloadKind, 0, 0};
  std::memcpy(static_cast<void*>(slot + 1), data, size);
  commit(t, slots);
  return true;
}

namespace {

/// A heap event of one slot, or two inside a pool's own work: the second names the pool.
void record_heap(ThreadState* t, EventKind kind, AllocApi api, const void* block, uint64_t bytes,
                 const void* hook_frame, bool with_stack) {
  const KeepErrno keep;
  const uint64_t now = ticks_now();
  const uint32_t stack = with_stack ? capture_stack(t, hook_frame) : 0;
  const opm_pool pool = t->backing_pool();
  const uint32_t slots = pool == 0 ? 1 : 2;
  Slot* slot = reserve(t, slots);
  if (slot == nullptr) return;
  slot[0] = {now,
             reinterpret_cast<uint64_t>(block),
             bytes,
             stack,
             static_cast<uint8_t>(kind),
             static_cast<uint8_t>(pool == 0 ? 0 : trace::kBacking),
             static_cast<uint16_t>(api)};
  if (pool != 0) slot[1] = {0, 0, 0, pool, kContinuation, 0, 0};
  commit(t, slots);
}

}  // namespace

void record_alloc(ThreadState* t, const void* hook_frame, AllocApi api, const void* block,
                  uint64_t bytes) {
  record_heap(t, EventKind::kAlloc, api, block, bytes, hook_frame,
              (g_session->flags & kNoStacks) == 0);
}

void record_free(ThreadState* t, const void* hook_frame, AllocApi api, const void* block) {
  record_heap(t, EventKind::kFree, api, block, 0, hook_frame,
              (g_session->flags & kFreeStacks) != 0);
}

void record_realloc(ThreadState* t, const void* hook_frame, AllocApi api, uint64_t before,
                    const void* old_block, const void* block, uint64_t bytes) {
  const KeepErrno keep;
  const uint64_t now = ticks_now();
  const uint32_t stack = (g_session->flags & kNoStacks) ? 0 : capture_stack(t, hook_frame);
  const opm_pool pool = t->backing_pool();
  Slot* slot = reserve(t, 3);
  if (slot == nullptr) return;
  slot[0] = {before, reinterpret_cast<uint64_t>(old_block),          bytes,
             0,      static_cast<uint8_t>(EventKind::kReallocBegin), 0,
             0};
  slot[1] = {now,
             reinterpret_cast<uint64_t>(block),
             bytes,
             stack,
             static_cast<uint8_t>(EventKind::kReallocEnd),
             static_cast<uint8_t>(pool == 0 ? 0 : trace::kBacking),
             static_cast<uint16_t>(api)};
  slot[2] = {0, reinterpret_cast<uint64_t>(old_block), 0, pool, kContinuation, 0, 0};
  commit(t, 3);
}

void record_pool_alloc(ThreadState* t, const void* hook_frame, opm_pool pool, const void* block,
                       uint64_t bytes) {
  const KeepErrno keep;
  const uint64_t now = ticks_now();
  const uint32_t stack = (g_session->flags & kNoStacks) ? 0 : capture_stack(t, hook_frame);
  Slot* slot = reserve(t, 2);
  if (slot == nullptr) return;
  slot[0] = {now,   reinterpret_cast<uint64_t>(block),           bytes,
             stack, static_cast<uint8_t>(EventKind::kPoolAlloc), 0,
             0};
  slot[1] = {0, 0, 0, pool, kContinuation, 0, 0};
  commit(t, 2);
}

void module_unloaded() {
  const Recording window;
  if (window.thread() != nullptr) {
    const KeepErrno keep;
    modules_refresh(window.thread());
  }
}

}  // namespace opmeter::recorder
