// SPDX-License-Identifier: Apache-2.0
// Looks at known layouts, walks by unwind rules, or asks libunwind, in this order.
#include "profiler/recorder/stack_capture.h"

#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include <atomic>

#include "profiler/recorder/internal.h"
#include "profiler/recorder/modules.h"
#include "profiler/recorder/stack_layouts.h"
#include "profiler/recorder/stack_table.h"
#include "profiler/recorder/stack_walk.h"
#include "profiler/recorder/unwind_rules.h"
#include "profiler/recorder/unwinder_pipe.h"

namespace opmeter::recorder {

namespace {

/// Threads inside libunwind now. A fork in that moment leaves its locks held in the child.
std::atomic<uint32_t> g_inside_libunwind{0};
bool g_libunwind_usable = true;

/// Around each call of it.
class InLibunwind {
 public:
  InLibunwind() {
    t_tls.in_libunwind = true;
    g_inside_libunwind.fetch_add(1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  ~InLibunwind() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    g_inside_libunwind.fetch_sub(1, std::memory_order_relaxed);
    t_tls.in_libunwind = false;
  }
  InLibunwind(const InLibunwind&) = delete;
  InLibunwind& operator=(const InLibunwind&) = delete;
};

}  // namespace

bool inside_unwinder() { return t_tls.in_libunwind; }

bool stacks_start() {
  const InLibunwind call;
  if (session()->flags & kVerifyStacks) {
    unw_set_caching_policy(unw_local_addr_space, UNW_CACHE_NONE);
  } else {
    unw_set_caching_policy(unw_local_addr_space, UNW_CACHE_PER_THREAD);
    unw_set_cache_size(unw_local_addr_space, 1024, 0);
  }
  return stack_table_start() && unwind_rules_start();
}

void stacks_restart() {
  stack_table_restart();  // unwind rules hold: the code is the same
  g_libunwind_usable = g_inside_libunwind.load(std::memory_order_relaxed) == 0;
}

void stacks_flush() {
  unw_flush_cache(unw_local_addr_space, 0, 0);
  unwind_rules_flush();
}

namespace {

uint32_t epoch_now() { return session()->epoch.load(std::memory_order_acquire); }

StackNode* intern(ThreadState* t, void* const* frames, uint32_t count, uint32_t epoch, bool cut) {
  StackHash hash;
  for (uint32_t i = 0; i < count; ++i) hash.add(i, reinterpret_cast<uint64_t>(frames[i]));
  return intern_stack(t, frames, count, epoch, cut, hash.finish(count, epoch, cut));
}

/// Drops the library's own innermost frames; returns how many.
uint32_t own_frames(void* const* frames, uint32_t count) {
  uint32_t first = 0;
  while (first < count && is_own_code(frames[first])) ++first;
  return first;
}

/// libunwind does not tell the root of a stack from a frame that it cannot get past (code without
/// unwind tables): the root's own table does, or a return address of 0 above it.
bool ends_at_root(void* const* frames, uint32_t count, bool zero_above) {
#if defined(__x86_64__)
  return zero_above ||
         (count > 0 && unwind_rule(reinterpret_cast<uint64_t>(frames[count - 1]), false).kind ==
                           UnwindRule::kEnd);
#else
  return zero_above || count > 0;  // no tables of our own there
#endif
}

uint32_t capture_by_libunwind(ThreadState* t) {
  // Not again in a signal handler that interrupted it.
  if (t_tls.in_libunwind || !g_libunwind_usable || !unwinder_pipe_is_safe()) return 0;
  session()->stacks_by_libunwind.fetch_add(1, std::memory_order_relaxed);
  int walked = 0;
  {
    const InLibunwind call;
    walked = unw_backtrace(t->frames, static_cast<int>(kMaxFrames));
  }
  if (walked <= 0) return 0;
  auto count = static_cast<uint32_t>(walked);
  bool cut = count == kMaxFrames;
  const uint32_t with_zeros = count;
  while (count > 0 && t->frames[count - 1] == nullptr) --count;
  cut = cut || !ends_at_root(t->frames, count, count != with_zeros);
  const uint32_t first = own_frames(t->frames, count);
  if (first == count) return 0;
  StackNode* node = intern(t, t->frames + first, count - first, epoch_now(), cut);
  return node == nullptr ? 0 : stack_id(t, node);
}

/// The self-check: walks with a libunwind cursor, no cache involved, and compares with what `id`
/// stands for.
[[gnu::noinline]] void verify(ThreadState* t, uint32_t id) {
  if (t_tls.in_libunwind || !unwinder_pipe_is_safe()) return;
  const InLibunwind call;
  unw_context_t context;
  unw_cursor_t cursor;
  unw_getcontext(&context);
  if (unw_init_local(&cursor, &context) != 0) return;
  uint32_t count = 0;
  bool own = true;
  unw_word_t ip = 0;
  do {
    unw_get_reg(&cursor, UNW_REG_IP, &ip);
    if (ip == 0) break;
    own = own && is_own_code(reinterpret_cast<void*>(ip));
    if (!own) t->frames[count++] = reinterpret_cast<void*>(ip);
  } while (count < kMaxFrames && unw_step(&cursor) > 0);
  session()->stacks_verified.fetch_add(1, std::memory_order_relaxed);
  const bool cut = count == kMaxFrames || !ends_at_root(t->frames, count, ip == 0);
  StackNode* node = intern(t, t->frames, count, epoch_now(), cut);
  if (node == nullptr || node->id != id) {
    session()->stacks_different.fetch_add(1, std::memory_order_relaxed);
  }
}

/// Everything that calls out or may call out: errno is kept here, not on the way past it.
[[gnu::noinline]] uint32_t capture_by_walk(ThreadState* t, const WalkStart& start, uint32_t epoch) {
  const KeepErrno keep;
  WalkLog log;
  log.words = t->words;
  log.room = kMaxWalkWords;
  log.rules = t->rules;
  const Walk walk = walk_stack(start, t->frames, kMaxFrames, &log);
  if (!walk.complete && !walk.cut) return capture_by_libunwind(t);
  StackNode* node = intern(t, t->frames, walk.frames, epoch, walk.cut);
  if (node == nullptr) return 0;
  if (walk.complete) remember_layout(t, start, epoch, log, node);
  return stack_id(t, node);
}

/// The chain of frame pointers, as far as it lies on the thread's own stack and climbs. Null when
/// it cannot be read: on another stack.
StackNode* capture_by_frame_pointers(ThreadState* t, const WalkStart& start, uint32_t epoch) {
  const auto low = reinterpret_cast<uint64_t>(t->stack_low);
  const auto high = reinterpret_cast<uint64_t>(t->stack_high);
  if (start.rsp < low || start.rsp >= high) return nullptr;
  uint32_t count = 0;
  t->frames[count++] = reinterpret_cast<void*>(start.pc);
  uint64_t below = start.rsp, rbp = start.rbp;
  while (count < kMaxFrames && rbp >= below && rbp + 16 <= high && rbp % 8 == 0) {
    const auto* frame = reinterpret_cast<const uint64_t*>(rbp);
    if (frame[1] == 0) break;
    t->frames[count++] = reinterpret_cast<void*>(frame[1]);
    below = rbp + 16;
    rbp = frame[0];
  }
  return intern(t, t->frames, count, epoch, count == kMaxFrames);
}

}  // namespace

uint32_t capture_stack(ThreadState* t, const void* hook_frame) {
  if (hook_frame == nullptr) return 0;
  const WalkStart start = walk_start(hook_frame);
  const uint32_t epoch = epoch_now();
  if (session()->flags & kFramePointers) {
    const KeepErrno keep;
    StackNode* node = capture_by_frame_pointers(t, start, epoch);
    if (node != nullptr) return stack_id(t, node);
  }
  StackNode* node = look_at_layouts(t, start, epoch);
  const uint32_t id = node != nullptr ? stack_id(t, node) : capture_by_walk(t, start, epoch);
  if (session()->flags & kVerifyStacks) verify(t, id);
  return id;
}

}  // namespace opmeter::recorder
