// SPDX-License-Identifier: Apache-2.0
// Walks with libunwind and interns in a lock-free table: buckets of singly linked nodes that are
// only ever added.
#include "profiler/recorder/stack_capture.h"

#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include <atomic>
#include <cstring>

#include "profiler/recorder/internal.h"
#include "profiler/recorder/modules.h"
#include "profiler/recorder/stack_walk.h"
#include "profiler/recorder/unwind_rules.h"

namespace opmeter::recorder {
namespace {

struct StackNode {
  StackNode* next;
  uint64_t hash;
  uint32_t id;
  uint32_t epoch;
  uint32_t count;
  bool cut;
  std::atomic<bool>
      defined;  ///< its definition is in a ring; a second one is harmless, none is not

  void** frames() {
    return reinterpret_cast<void**>(this + 1);
  }  ///< `count` of them follow the node
};
static_assert(sizeof(StackNode) % alignof(void*) == 0);

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

uint64_t hash_frames(void* const* frames, uint32_t count, uint32_t epoch, bool cut) {
  uint64_t h =
      0x9E3779B97F4A7C15u ^ (uint64_t{epoch} << 32) ^ (uint64_t{count} << 1) ^ (cut ? 1 : 0);
  for (uint32_t i = 0; i < count; ++i) {
    h = (h ^ reinterpret_cast<uint64_t>(frames[i])) * 0xFF51AFD7ED558CCDu;
    h ^= h >> 32;
  }
  return h;
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

void define(ThreadState* t, StackNode* node) {
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

uint32_t intern(ThreadState* t, void* const* frames, uint32_t count, bool cut) {
  uint32_t epoch = session()->epoch.load(std::memory_order_acquire);
  uint64_t hash = hash_frames(frames, count, epoch, cut);
  std::atomic<StackNode*>* bucket = &g_buckets[hash & (kBuckets - 1)];
  StackNode* head = bucket->load(std::memory_order_acquire);
  StackNode* node = find(head, hash, frames, count, epoch, cut);
  if (node == nullptr) {
    // A stack never seen may run through a module never seen.
    modules_refresh(t);
    epoch = session()->epoch.load(std::memory_order_acquire);
    hash = hash_frames(frames, count, epoch, cut);
    bucket = &g_buckets[hash & (kBuckets - 1)];
    node = static_cast<StackNode*>(arena_take(sizeof(StackNode) + count * sizeof(void*)));
    if (node == nullptr) return 0;
    node->hash = hash;
    node->epoch = epoch;
    node->count = count;
    node->cut = cut;
    node->defined.store(false, std::memory_order_relaxed);
    std::memcpy(node->frames(), frames, count * sizeof(void*));
    head = bucket->load(std::memory_order_acquire);
    for (;;) {
      if (StackNode* other = find(head, hash, frames, count, epoch, cut)) {
        node = other;  // another thread was first; our copy stays unused in the arena
        break;
      }
      node->next = head;
      node->id = session()->next_stack.fetch_add(1, std::memory_order_relaxed) + 1;
      if (bucket->compare_exchange_weak(head, node, std::memory_order_release,
                                        std::memory_order_acquire)) {
        break;
      }
    }
  }
  if (!node->defined.load(std::memory_order_acquire)) define(t, node);
  return node->id;
}

}  // namespace

bool stacks_start() {
  g_buckets =
      static_cast<std::atomic<StackNode*>*>(map_pages(kBuckets * sizeof(std::atomic<StackNode*>)));
  if (session()->flags & kVerifyStacks) {
    unw_set_caching_policy(unw_local_addr_space, UNW_CACHE_NONE);
  } else {
    unw_set_caching_policy(unw_local_addr_space, UNW_CACHE_PER_THREAD);
    unw_set_cache_size(unw_local_addr_space, 1024, 0);
  }
  return g_buckets != nullptr && unwind_rules_start();
}

void stacks_flush() {
  unw_flush_cache(unw_local_addr_space, 0, 0);
  unwind_rules_flush();
}

namespace {

// --- the cache of whole stacks
// -----------------------------------------------------------------------------------

constexpr size_t kWordsBytes = 4u << 20;  // address space per thread; touched as far as used

CachedStack& cache_slot(ThreadState* t, const WalkStart& start) {
  uint64_t h = (start.rsp ^ start.pc << 7) * 0x9E3779B97F4A7C15u;
  h = (h ^ start.rbp) * 0xFF51AFD7ED558CCDu;
  return t->cache[h >> 53 & (kCachedStacks - 1)];
}

/// In the order of reading: the address of each word follows from the words before it, so a changed
/// stack is left before anything is read that the unwinder would not read.
bool still_valid(const CachedStack& cached) {
  for (const WalkWord *w = cached.at, *end = w + cached.words; w != end; ++w) {
    if (*reinterpret_cast<const uint64_t*>(w->address) != w->value) return false;
  }
  return true;
}

/// Room for `count` words, for as long as the cache is not emptied. When the room is used up, the
/// cache starts anew.
WalkWord* take_words(ThreadState* t, uint32_t count) {
  const size_t bytes = count * sizeof(WalkWord);
  if (t->words_area == nullptr) t->words_area = static_cast<uint8_t*>(map_pages(kWordsBytes));
  if (t->words_area == nullptr || bytes > kWordsBytes) return nullptr;
  if (t->words_used + bytes > kWordsBytes) {
    std::memset(static_cast<void*>(t->cache), 0, sizeof t->cache);
    t->words_used = 0;
  }
  void* at = t->words_area + t->words_used;
  t->words_used += bytes;
  return static_cast<WalkWord*>(at);
}

void remember(ThreadState* t, CachedStack& slot, const WalkStart& start, const Walk& walk,
              uint32_t id) {
  slot.id = 0;
  if (walk.words > slot.room) {
    const uint32_t room = (walk.words + 15) & ~15u;
    WalkWord* at = take_words(t, room);
    if (at == nullptr) return;
    slot.at = at;
    slot.room = room;
  }
  std::memcpy(slot.at, t->words, walk.words * sizeof(WalkWord));
  slot.start = start;
  slot.words = walk.words;
  slot.epoch = session()->epoch.load(std::memory_order_relaxed);
  slot.id = id;
}

// --- libunwind
// ---------------------------------------------------------------------------------------------------

/// Drops the library's own innermost frames; returns how many.
uint32_t own_frames(void* const* frames, uint32_t count) {
  uint32_t first = 0;
  while (first < count && is_own_code(frames[first])) ++first;
  return first;
}

/// Threads inside libunwind now. A fork in that moment leaves its locks held in the child.
std::atomic<uint32_t> g_inside_libunwind{0};
bool g_libunwind_usable = true;

uint32_t capture_by_libunwind(ThreadState* t) {
  // Not again in a signal handler that interrupted it.
  if (t_tls.in_libunwind || !g_libunwind_usable) return 0;
  session()->stacks_by_libunwind.fetch_add(1, std::memory_order_relaxed);
  t_tls.in_libunwind = true;
  g_inside_libunwind.fetch_add(1, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const int walked = unw_backtrace(t->frames, static_cast<int>(kMaxFrames));
  std::atomic_signal_fence(std::memory_order_seq_cst);
  g_inside_libunwind.fetch_sub(1, std::memory_order_relaxed);
  t_tls.in_libunwind = false;
  if (walked <= 0) return 0;
  auto count = static_cast<uint32_t>(walked);
  const bool cut = count == kMaxFrames;
  while (count > 0 && t->frames[count - 1] == nullptr) --count;
  const uint32_t first = own_frames(t->frames, count);
  return first == count ? 0 : intern(t, t->frames + first, count - first, cut);
}

/// The self-check: walks with a libunwind cursor, no cache involved, and compares with what `id`
/// stands for.
[[gnu::noinline]] void verify(ThreadState* t, uint32_t id) {
  unw_context_t context;
  unw_cursor_t cursor;
  unw_getcontext(&context);
  if (unw_init_local(&cursor, &context) != 0) return;
  uint32_t count = 0;
  bool own = true;
  do {
    unw_word_t ip = 0;
    unw_get_reg(&cursor, UNW_REG_IP, &ip);
    if (ip == 0) break;
    own = own && is_own_code(reinterpret_cast<void*>(ip));
    if (!own) t->frames[count++] = reinterpret_cast<void*>(ip);
  } while (count < kMaxFrames && unw_step(&cursor) > 0);
  session()->stacks_verified.fetch_add(1, std::memory_order_relaxed);
  if (intern(t, t->frames, count, count == kMaxFrames) != id) {
    session()->stacks_different.fetch_add(1, std::memory_order_relaxed);
  }
}

uint32_t capture(ThreadState* t, const WalkStart& start) {
  CachedStack& slot = cache_slot(t, start);
  if (slot.id != 0 && slot.start.pc == start.pc && slot.start.rsp == start.rsp &&
      slot.start.rbp == start.rbp &&
      slot.epoch == session()->epoch.load(std::memory_order_relaxed) && still_valid(slot)) {
    return slot.id;
  }
  const Walk walk = walk_stack(start, t->frames, kMaxFrames, t->words, kMaxWalkWords);
  if (!walk.complete && !walk.cut) return capture_by_libunwind(t);
  const uint32_t id = intern(t, t->frames, walk.frames, walk.cut);
  if (id != 0 && !walk.words_overflow) remember(t, slot, start, walk, id);
  return id;
}

}  // namespace

bool stacks_restart() {
  if (g_buckets == nullptr) return true;
  // The parent's stacks: zero pages in their place. Unwind rules hold: the code is the same.
  madvise(static_cast<void*>(g_buckets), kBuckets * sizeof(std::atomic<StackNode*>), MADV_DONTNEED);
  g_arena.base.store(nullptr, std::memory_order_relaxed);
  g_arena.used.store(kArenaBytes, std::memory_order_relaxed);
  g_arena_growing.clear();
  g_libunwind_usable = g_inside_libunwind.load(std::memory_order_relaxed) == 0;
  return true;
}

uint32_t capture_stack(ThreadState* t, const void* hook_frame) {
  if (g_buckets == nullptr || hook_frame == nullptr) return 0;
  const uint32_t id = capture(t, walk_start(hook_frame));
  if (session()->flags & kVerifyStacks) verify(t, id);
  return id;
}

}  // namespace opmeter::recorder
