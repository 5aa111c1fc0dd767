// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/watch.h"

#include <dlfcn.h>
#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include <cstring>

#include "profiler/recorder/unwind_rules.h"

namespace opmeter::recorder {

constinit thread_local opm_watch* t_watch = nullptr;
constinit std::atomic<bool> g_counting{false};

namespace {

constinit std::atomic<bool> g_rules_ready{false};

/// A stack is being walked on this thread: what the unwinder itself allocates is not the program's.
constinit thread_local bool t_walking = false;

const char* entry_point(AllocApi api) {
  switch (api) {
    case AllocApi::kMalloc:
      return "malloc";
    case AllocApi::kCalloc:
      return "calloc";
    case AllocApi::kRealloc:
      return "realloc";
    case AllocApi::kReallocarray:
      return "reallocarray";
    case AllocApi::kPosixMemalign:
      return "posix_memalign";
    case AllocApi::kAlignedAlloc:
      return "aligned_alloc";
    case AllocApi::kMemalign:
      return "memalign";
    case AllocApi::kValloc:
      return "valloc";
    case AllocApi::kPvalloc:
      return "pvalloc";
    case AllocApi::kNew:
      return "operator new";
    case AllocApi::kNewArray:
      return "operator new[]";
    default:
      return "allocation";
  }
}

// --- one thread
// --------------------------------------------------------------------------------------------------

/// libunwind walks from here, so its first frames are ours: the program's begin at `pc`.
[[gnu::noinline]] uint32_t walk_by_libunwind(uint64_t pc, void** frames) {
  void* all[128];
  const int walked = unw_backtrace(all, static_cast<int>(sizeof all / sizeof all[0]));
  int first = 0;
  while (first < walked && reinterpret_cast<uint64_t>(all[first]) != pc) ++first;
  uint32_t count = 0;
  for (int i = first; i < walked && all[i] != nullptr && count < OPM_WATCH_FRAMES; ++i) {
    frames[count++] = all[i];
  }
  return count;
}

uint32_t walk(const void* hook_frame, void** frames) {
  if (hook_frame == nullptr || t_walking) return 0;
  t_walking = true;
  const WalkStart start = walk_start(hook_frame);
  const Walk walk = walk_stack(start, frames, OPM_WATCH_FRAMES, nullptr);
  const uint32_t count =
      walk.complete || walk.cut ? walk.frames : walk_by_libunwind(start.pc, frames);
  t_walking = false;
  return count;
}

/// Writes the allocation to each open watch of this thread; the stack is walked once.
void describe(const void* hook_frame, AllocApi api, const void* block, uint64_t bytes) {
  const KeepErrno keep;
  const opm_allocation* walked = nullptr;
  for (opm_watch* w = t_watch; w != nullptr; w = w->outer) {
    if (block != nullptr) {
      ++w->calls;
      w->bytes += bytes;
    } else {
      ++w->failed;
    }
    if (w->described >= w->capacity || w->allocations == nullptr) continue;
    opm_allocation& a = w->allocations[w->described++];
    a.entry_point = entry_point(api);
    a.bytes = bytes;
    a.failed = block == nullptr ? 1 : 0;
    if (walked == nullptr) {
      a.frame_count = walk(hook_frame, a.frames);
      walked = &a;
    } else {
      a.frame_count = walked->frame_count;
      std::memcpy(a.frames, walked->frames, walked->frame_count * sizeof(void*));
    }
  }
}

// --- all threads
// -------------------------------------------------------------------------------------------------

struct Count {
  std::atomic<uint64_t> calls{0}, bytes{0}, frees{0};
  std::atomic<int64_t> growth{0}, peak{0};
};
constinit Count g_count{};

using UsableSize = size_t (*)(void*);
constinit UsableSize g_usable_size = nullptr;

/// The allocator's own answer, or null: another library's malloc_usable_size must not be asked
/// about its blocks.
UsableSize find_usable_size() {
  void* size = dlsym(RTLD_NEXT, "malloc_usable_size");
  void* allocate = dlsym(RTLD_NEXT, "malloc");
  Dl_info of_size, of_allocate;
  if (size == nullptr || allocate == nullptr || dladdr(size, &of_size) == 0 ||
      dladdr(allocate, &of_allocate) == 0 || of_size.dli_fbase != of_allocate.dli_fbase) {
    return nullptr;
  }
  UsableSize function;
  std::memcpy(&function, &size, sizeof function);
  return function;
}

uint64_t usable_size(const void* block) {
  if (g_usable_size == nullptr || block == nullptr) return 0;
  return g_usable_size(const_cast<void*>(block));
}

void grow(int64_t by) {
  const int64_t now = g_count.growth.fetch_add(by, std::memory_order_relaxed) + by;
  int64_t peak = g_count.peak.load(std::memory_order_relaxed);
  while (now > peak && !g_count.peak.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

bool counting() { return g_counting.load(std::memory_order_relaxed); }

void count_alloc(const void* block, uint64_t bytes) {
  if (block == nullptr) return;
  g_count.calls.fetch_add(1, std::memory_order_relaxed);
  g_count.bytes.fetch_add(bytes, std::memory_order_relaxed);
  grow(static_cast<int64_t>(usable_size(block)));
}

}  // namespace

int watch_begin(opm_watch* watch) {
  if (watch == nullptr || watch->struct_size < sizeof(opm_watch)) return 0;
  const KeepErrno keep;
  // A session prepared the rules long ago. Two threads that come first at once prepare them twice,
  // which costs some address space.
  if (session() == nullptr && !g_rules_ready.load(std::memory_order_acquire)) {
    if (unwind_rules_start()) g_rules_ready.store(true, std::memory_order_release);
  }
  watch->described = 0;
  watch->calls = watch->bytes = watch->failed = watch->frees = 0;
  watch->outer = t_watch;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  t_watch = watch;
  return 1;
}

void watch_end(opm_watch* watch) {
  for (opm_watch* w = t_watch; w != nullptr; w = w->outer) {
    if (w != watch) continue;
    t_watch = watch->outer;
    watch->outer = nullptr;
    return;
  }
}

void watch_alloc(const void* hook_frame, AllocApi api, const void* block, uint64_t bytes) {
  if (t_walking) return;
  if (t_watch != nullptr) describe(hook_frame, api, block, bytes);
  if (counting()) count_alloc(block, bytes);
}

void watch_free(const void* block) {
  if (t_walking) return;
  for (opm_watch* w = t_watch; w != nullptr; w = w->outer) ++w->frees;
  if (counting()) {
    g_count.frees.fetch_add(1, std::memory_order_relaxed);
    grow(-static_cast<int64_t>(usable_size(block)));
  }
}

WatchedRealloc::WatchedRealloc(const void* old_block) : watching_(watching() && !t_walking) {
  if (watching_ && counting()) old_usable_ = usable_size(old_block);
}

void WatchedRealloc::done(const void* hook_frame, AllocApi api, const void* block,
                          uint64_t bytes) const {
  if (!watching_) return;
  watch_alloc(hook_frame, api, block, bytes);
  if (block == nullptr) return;
  for (opm_watch* w = t_watch; w != nullptr; w = w->outer) ++w->frees;
  if (counting()) {
    g_count.frees.fetch_add(1, std::memory_order_relaxed);
    grow(-static_cast<int64_t>(old_usable_));
  }
}

void watch_module_unloaded() {
  if (session() == nullptr && g_rules_ready.load(std::memory_order_acquire)) unwind_rules_flush();
}

int heap_count_begin() {
  const KeepErrno keep;
  g_counting.store(false);
  if (g_usable_size == nullptr) g_usable_size = find_usable_size();
  for (auto* counter : {&g_count.calls, &g_count.bytes, &g_count.frees}) counter->store(0);
  g_count.growth.store(0);
  g_count.peak.store(0);
  g_counting.store(true);
  return 1;
}

void heap_count_end(opm_heap_count* count) {
  g_counting.store(false);
  if (count == nullptr || count->struct_size < sizeof(opm_heap_count)) return;
  const bool sizes = g_usable_size != nullptr;
  count->calls = g_count.calls.load();
  count->bytes = g_count.bytes.load();
  count->frees = g_count.frees.load();
  count->peak_growth = sizes ? g_count.peak.load() : INT64_MIN;
  count->net_growth = sizes ? g_count.growth.load() : INT64_MIN;
}

}  // namespace opmeter::recorder
