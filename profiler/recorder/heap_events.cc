// SPDX-License-Identifier: Apache-2.0
// Allocations and releases, of the heap and of pools: the events that matter most, and so the ones
// whose cost counts.
#include "profiler/recorder/internal.h"
#include "profiler/recorder/selection.h"
#include "profiler/recorder/stack_capture.h"

namespace opmeter::recorder {
namespace {

/// One slot, or two: the second names the pool whose own work this is, and how long the call took.
inline void put(ThreadState* t, EventKind kind, AllocApi api, uint64_t ticks, const void* block,
                uint64_t bytes, uint32_t stack, CallTime time) {
  const opm_pool pool = t->backing_pool();
  const bool timed = time.begin != 0;
  const uint32_t slots = pool == 0 && !timed ? 1 : 2;
  Slot* slot = reserve(t, slots);
  if (slot == nullptr) return;
  slot[0] = {ticks,
             reinterpret_cast<uint64_t>(block),
             bytes,
             stack,
             static_cast<uint8_t>(kind),
             static_cast<uint8_t>((pool == 0 ? 0 : trace::kBacking) | (timed ? trace::kTimed : 0)),
             static_cast<uint16_t>(api)};
  if (slots == 2) slot[1] = {time.end - time.begin, 0, 0, pool, kContinuation, 0, 0};
  commit(t, slots);
}

/// A Recording whose conditions were found to hold.
class PlainWindow {
 public:
  explicit PlainWindow(ThreadState* t) : t_(t), tls_(t_tls) {
    tls_.busy = true;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    tls_.started = ++t->events % kOverheadPeriod == 0 ? ticks_now() : 0;
  }
  ~PlainWindow() {
    if (tls_.started != 0) [[unlikely]]
      leave_slowly(tls_, t_);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    tls_.busy = false;
  }
  PlainWindow(const PlainWindow&) = delete;
  PlainWindow& operator=(const PlainWindow&) = delete;

 private:
  ThreadState* t_;
  Tls& tls_;
};

uint32_t alloc_stack(ThreadState* t, const void* hook_frame) {
  return (g_session->flags & kNoStacks) != 0 ? 0 : capture_stack(t, hook_frame);
}

}  // namespace

void record_plain_alloc(ThreadState* t, const void* hook_frame, AllocApi api, const void* block,
                        uint64_t bytes) {
  const PlainWindow window(t);
  const uint64_t now = ticks_now();
  put(t, EventKind::kAlloc, api, now, block, bytes, capture_stack(t, hook_frame), {});
}

void record_plain_free(ThreadState* t, AllocApi api, const void* block) {
  const PlainWindow window(t);
  put(t, EventKind::kFree, api, ticks_after_loads(), block, 0, 0, {});
}

void record_alloc(ThreadState* t, const void* hook_frame, AllocApi api, const void* block,
                  uint64_t bytes, CallTime time) {
  if (selective() && !select_alloc(t, heap_key(block), bytes)) return;
  const uint64_t now = time.begin != 0 ? time.end : ticks_now();
  put(t, EventKind::kAlloc, api, now, block, bytes, alloc_stack(t, hook_frame), time);
}

void record_free(ThreadState* t, const void* hook_frame, AllocApi api, const void* block,
                 CallTime time) {
  if (selective() && !select_free(heap_key(block))) return;
  const uint64_t now = time.begin != 0 ? time.begin : ticks_after_loads();
  const uint32_t stack = (g_session->flags & kFreeStacks) != 0 ? capture_stack(t, hook_frame) : 0;
  put(t, EventKind::kFree, api, now, block, 0, stack, time);
}

void record_realloc(ThreadState* t, const void* hook_frame, AllocApi api, uint64_t before,
                    const void* old_block, const void* block, uint64_t bytes) {
  const uint64_t now = ticks_now();
  const bool timed = timing_calls();
  if (selective()) {
    // Each half is chosen by itself: the old block may be known and the new one not, or the
    // reverse.
    if (block != nullptr && select_free(heap_key(old_block))) {
      put(t, EventKind::kFree, api, before, old_block, 0, 0, {});
    }
    if (!select_alloc(t, heap_key(block), bytes)) return;
    put(t, EventKind::kAlloc, api, now, block, bytes, alloc_stack(t, hook_frame),
        timed ? CallTime{before, now} : CallTime{});
    return;
  }
  const uint32_t stack = alloc_stack(t, hook_frame);
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
             static_cast<uint8_t>((pool == 0 ? 0 : trace::kBacking) | (timed ? trace::kTimed : 0)),
             static_cast<uint16_t>(api)};
  slot[2] = {now - before, reinterpret_cast<uint64_t>(old_block), 0, pool, kContinuation, 0, 0};
  commit(t, 3);
}

void record_pool_alloc(ThreadState* t, const void* hook_frame, opm_pool pool, const void* block,
                       uint64_t bytes) {
  if (selective() && !in_scope(pool_key(block))) return;
  const uint64_t now = ticks_now();
  const uint32_t stack = alloc_stack(t, hook_frame);
  Slot* slot = reserve(t, 2);
  if (slot == nullptr) return;
  slot[0] = {now,   reinterpret_cast<uint64_t>(block),           bytes,
             stack, static_cast<uint8_t>(EventKind::kPoolAlloc), 0,
             0};
  slot[1] = {0, 0, 0, pool, kContinuation, 0, 0};
  commit(t, 2);
}

void record_pool_free(ThreadState* t, opm_pool pool, const void* block) {
  if (selective() && !scope_had(pool_key(block))) return;
  record_event(t, EventKind::kPoolFree, reinterpret_cast<uint64_t>(block), 0, pool);
}

}  // namespace opmeter::recorder
