// SPDX-License-Identifier: Apache-2.0
// Events into the ring of the calling thread.
#include "profiler/recorder/recorder.h"

#include <signal.h>
#include <time.h>

#include <cerrno>
#include <cstring>

#include "profiler/recorder/internal.h"
#include "profiler/recorder/modules.h"

namespace opmeter::recorder {

void close_chunk(ThreadState* t) {
  if (t->chunk == nullptr) return;
  t->chunk->header.state.store(ChunkState::kFull, std::memory_order_release);
  t->chunk = nullptr;
  t->cursor = t->end = nullptr;
}

namespace {

constexpr uint64_t kLongestWaitNs = 2'000'000'000;

void count_lost(ThreadState* t, uint64_t events) {
  g_session->lost_events.fetch_add(events, std::memory_order_relaxed);
  t->unreported_lost += events;
}

/// The drain points `next_chunk` at what it emptied last: as long as it keeps up, a few chunks go
/// round and stay in the caches.
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

/// Nobody drains any more. Only a process that is gone is given up: one that was stopped, or
/// starved, comes back.
bool drain_is_gone(uint32_t beats_before) {
  return g_session->drain_beats.load(std::memory_order_relaxed) == beats_before &&
         kill(g_session->recorder_pid, 0) != 0 && errno == ESRCH;
}

/// Waits for the drain, for a bounded time in all until it succeeds again; until then losses are
/// counted, and the chunks are looked at once a beat of the drain.
Chunk* wait_for_chunk(ThreadState* t) {
  const uint32_t beats = g_session->drain_beats.load(std::memory_order_relaxed);
  if (t->waited_in_vain && t->beats_at_look == beats) return nullptr;
  t->beats_at_look = beats;
  Chunk* chunk = take_free_chunk();
  if (chunk != nullptr || t->waited_in_vain) return chunk;
  const uint64_t deadline = clock_ns(CLOCK_MONOTONIC) + kLongestWaitNs;
  do {
    const timespec pause{0, 100'000};
    nanosleep(&pause, nullptr);
    chunk = take_free_chunk();
  } while (chunk == nullptr && g_session->stopped.load(std::memory_order_relaxed) == 0 &&
           clock_ns(CLOCK_MONOTONIC) < deadline);
  if (chunk != nullptr) return chunk;
  t->waited_in_vain = true;
  if (drain_is_gone(beats)) {
    g_session->stopped.store(kDrainGone, std::memory_order_relaxed);
    close_gate();
  }
  return nullptr;
}

}  // namespace

Slot* reserve_in_new_chunk(ThreadState* t, uint32_t slots) {
  const KeepErrno keep;
  close_chunk(t);
  if (g_session->stopped.load(std::memory_order_relaxed) == kFileFull) {
    close_gate();
    return nullptr;
  }
  Chunk* chunk = wait_for_chunk(t);
  if (chunk == nullptr) {
    count_lost(t, 1);
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

void record_event_at(ThreadState* t, EventKind kind, uint64_t ticks, uint64_t address,
                     uint64_t bytes, uint32_t ref, uint16_t api) {
  Slot* slot = reserve(t, 1);
  if (slot == nullptr) return;
  *slot = {ticks, address, bytes, ref, static_cast<uint8_t>(kind), 0, api};
  commit(t, 1);
}

void record_event(ThreadState* t, EventKind kind, uint64_t address, uint64_t bytes, uint32_t ref,
                  uint16_t api) {
  record_event_at(t, kind, ticks_now(), address, bytes, ref, api);
}

void record_map(ThreadState* t, EventKind kind, AllocApi api, uint64_t ticks, uint64_t address,
                uint64_t bytes, uint32_t stack) {
  Slot* slot = reserve(t, 1);
  if (slot == nullptr) return;
  const uint8_t flags = t->backing_pool() == 0 ? 0 : trace::kBacking;
  *slot = {
      ticks, address, bytes, stack, static_cast<uint8_t>(kind), flags, static_cast<uint16_t>(api)};
  commit(t, 1);
}

bool record_payload(ThreadState* t, trace::DefinitionTag tag, const uint8_t* data, size_t size) {
  const auto slots = static_cast<uint32_t>(1 + (size + sizeof(Slot) - 1) / sizeof(Slot));
  if (slots + 2 > kSlotsPerChunk) return false;
  Slot* slot = reserve(t, slots);
  if (slot == nullptr) return false;
  slot[0] = {ticks_now(), static_cast<uint64_t>(tag), size, 0, kPayloadKind, 0, 0};
  std::memcpy(static_cast<void*>(slot + 1), data, size);
  commit(t, slots);
  return true;
}

void module_unloaded() {
  const Recording window;
  if (window.thread() != nullptr) {
    const KeepErrno keep;
    modules_refresh(window.thread());
  }
}

}  // namespace opmeter::recorder
