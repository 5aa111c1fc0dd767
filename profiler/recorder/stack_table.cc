// SPDX-License-Identifier: Apache-2.0
// Buckets of singly linked nodes.
#include "profiler/recorder/stack_table.h"

#include <cstring>

#include "profiler/recorder/modules.h"

namespace opmeter::recorder {
namespace {

constexpr size_t kBuckets = size_t{1} << 20;  // 8 MiB of address space, touched only where used
constexpr size_t kArenaBytes = size_t{1} << 20;

std::atomic<StackNode*>* g_buckets = nullptr;

/// Blocks that are never given back; a new mapping when the current one is used up.
struct Arena {
  std::atomic<uint8_t*> base{nullptr};
  std::atomic<size_t> used{kArenaBytes};
};
Arena g_arena;
std::atomic_flag g_arena_growing = ATOMIC_FLAG_INIT;

void* arena_take(size_t bytes) {
  bytes = (bytes + 15) & ~size_t{15};
  if (bytes > kArenaBytes / 4) return map_pages(bytes);
  // Only the miss path comes here, and nothing in this section calls out but mmap: a spin is short.
  // One that is not has interrupted the holder (a signal handler) or outlived it (a forked child):
  // a page of its own serves as well.
  constexpr int kSpins = 20'000;
  for (int i = 0; g_arena_growing.test_and_set(std::memory_order_acquire);) {
    if (++i == kSpins) return map_pages(bytes);
  }
  void* at = nullptr;
  size_t used = g_arena.used.load(std::memory_order_relaxed);
  if (used + bytes > kArenaBytes) {
    g_arena.base.store(static_cast<uint8_t*>(map_pages(kArenaBytes)), std::memory_order_relaxed);
    used = 0;
  }
  if (uint8_t* base = g_arena.base.load(std::memory_order_relaxed); base != nullptr) {
    at = base + used;
    used += bytes;
  } else {
    used = kArenaBytes;
  }
  g_arena.used.store(used, std::memory_order_relaxed);
  g_arena_growing.clear(std::memory_order_release);
  return at;
}

StackNode* find(StackNode* node, uint64_t hash, void* const* frames, uint32_t count, uint32_t epoch,
                bool cut) {
  for (; node != nullptr; node = node->next) {
    if (node->hash == hash && node->count == count && node->epoch == epoch && node->cut == cut &&
        std::memcmp(node->frames(), frames, count * sizeof(void*)) == 0) {
      return node;
    }
  }
  return nullptr;
}

[[gnu::noinline]] StackNode* add(ThreadState* t, void* const* frames, uint32_t count, bool cut) {
  // A stack never seen may run through a module never seen.
  modules_refresh_for(t, frames, count);
  const uint32_t epoch = session()->epoch.load(std::memory_order_acquire);
  StackHash sum;
  for (uint32_t i = 0; i < count; ++i) sum.add(i, reinterpret_cast<uint64_t>(frames[i]));
  const uint64_t hash = sum.finish(count, epoch, cut);
  std::atomic<StackNode*>& bucket = g_buckets[hash & (kBuckets - 1)];
  auto* node = static_cast<StackNode*>(arena_take(sizeof(StackNode) + count * sizeof(void*)));
  if (node == nullptr) return nullptr;
  node->hash = hash;
  node->epoch = epoch;
  node->count = count;
  node->cut = cut;
  node->defined.store(false, std::memory_order_relaxed);
  std::memcpy(node->frames(), frames, count * sizeof(void*));
  StackNode* head = bucket.load(std::memory_order_acquire);
  for (;;) {
    if (StackNode* other = find(head, hash, frames, count, epoch, cut)) {
      node = other;  // another thread was first; our copy stays unused in the arena
      break;
    }
    node->next = head;
    node->id = session()->next_stack.fetch_add(1, std::memory_order_relaxed) + 1;
    if (bucket.compare_exchange_weak(head, node, std::memory_order_release,
                                     std::memory_order_acquire)) {
      break;
    }
  }
  if (!node->defined.load(std::memory_order_acquire)) define_stack(t, node);
  return node;
}

}  // namespace

void define_stack(ThreadState* t, StackNode* node) {
  // Read by the drain: u32 id, u32 epoch, u64 flags, u64 frames[].
  uint8_t* out = t->payload;
  const uint64_t flags = node->cut ? 1 : 0;
  std::memcpy(out, &node->id, 4);
  std::memcpy(out + 4, &node->epoch, 4);
  std::memcpy(out + 8, &flags, 8);
  std::memcpy(out + 16, node->frames(), node->count * sizeof(void*));
  if (record_payload(t, trace::DefinitionTag::kStack, out, 16 + node->count * sizeof(void*))) {
    node->defined.store(true, std::memory_order_release);
  }
}

bool stack_table_start() {
  g_buckets =
      static_cast<std::atomic<StackNode*>*>(map_pages(kBuckets * sizeof(std::atomic<StackNode*>)));
  return g_buckets != nullptr;
}

void stack_table_restart() {
  if (g_buckets == nullptr) return;
  // Zero pages in place of the parent's.
  madvise(static_cast<void*>(g_buckets), kBuckets * sizeof(std::atomic<StackNode*>), MADV_DONTNEED);
  g_arena.base.store(nullptr, std::memory_order_relaxed);
  g_arena.used.store(kArenaBytes, std::memory_order_relaxed);
  g_arena_growing.clear();
}

StackNode* intern_stack(ThreadState* t, void* const* frames, uint32_t count, uint32_t epoch,
                        bool cut, uint64_t hash) {
  if (g_buckets == nullptr) return nullptr;
  StackNode* head = g_buckets[hash & (kBuckets - 1)].load(std::memory_order_acquire);
  StackNode* node = find(head, hash, frames, count, epoch, cut);
  return node != nullptr ? node : add(t, frames, count, cut);
}

}  // namespace opmeter::recorder
