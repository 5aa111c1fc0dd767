// SPDX-License-Identifier: Apache-2.0
// The recorder inside the program under test: one ThreadState per thread appends slots to the
// shared session. Zone a: noexcept, no malloc, no locks while walking stacks, errno kept; trouble
// is counted, never raised.
#ifndef OPMETER_PROFILER_RECORDER_RECORDER_H_
#define OPMETER_PROFILER_RECORDER_RECORDER_H_

#include <atomic>
#include <cstdint>

#define OPM_API_TYPES_ONLY
#include "opmeter/opmeter.h"
#include "profiler/recorder/clock.h"
#include "profiler/recorder/os.h"
#include "profiler/recorder/session.h"
#include "profiler/recorder/stack_walk.h"
#include "profiler/trace/codec.h"
#include "profiler/trace/kinds.h"

namespace opmeter::recorder {

using trace::AllocApi;
using trace::EventKind;

inline constexpr uint32_t kMaxOpenOps = 64;  ///< deeper ones are counted, not named
inline constexpr uint32_t kMaxOpenPools = 16;
inline constexpr uint32_t kMaxContexts = 16;
inline constexpr uint32_t kMaxFrames = 4096;  ///< deeper stacks are cut and flagged
inline constexpr uint32_t kMaxWalkWords = 8192;
inline constexpr uint32_t kLayoutSets = 512, kLayoutWays = 4;  ///< per thread, powers of two
inline constexpr uint32_t kNearbyStacks = 8192;                ///< per thread, a power of two
inline constexpr size_t kMaxPayloadBytes = 48 * 1024;          ///< of one definition: fits a chunk

/// What a thread works for: its own open run, or a token's.
struct ThreadContext {
  uint64_t run = 0;
  uint32_t ops[kMaxOpenOps];
  uint32_t depth = 0;  ///< open ops, may exceed kMaxOpenOps
};

struct StackNode;

/// See stack_layouts.h.
struct StackLayout {
  WalkStart start;
  StackNode* last;  ///< the stack that was found with it last; null = empty
  uint8_t* arrays;  ///< what it holds, in the thread's area
  uint32_t room;    ///< bytes there
  uint32_t epoch;
  uint32_t frames, words, groups;
  bool uses_rbp;   ///< start.rbp decides too
  bool only_last;  ///< nothing but the same stack again can be told by it
  uint8_t trust;   ///< how likely that is
};

/// Everything the recorder knows of one thread. Comes from map_pages, is reused after the thread's
/// end.
struct ThreadState {
  Chunk* chunk = nullptr;
  Slot* cursor = nullptr;
  Slot* end = nullptr;
  uint32_t id = 0;
  uint32_t sequence = 0;
  int32_t tid = 0;
  uint32_t events = 0;      ///< decides when an event's own cost is timed
  int64_t sample_left = 0;  ///< bytes to the next sampled one; 0 = not drawn yet
  uint64_t random = 0;
  const char* stack_low = nullptr;  ///< the thread's own stack, for walks by frame pointer
  const char* stack_high = nullptr;
  uint64_t unreported_lost = 0;
  bool waited_in_vain = false;
  uint32_t beats_at_look = 0;  ///< of the drain, when a chunk was last looked for
  int exit_rounds = 0;  ///< of pthread key destructors
  int32_t phase = OPM_PHASE_AUTO;
  opm_pool pools[kMaxOpenPools] = {};
  uint32_t pool_depth = 0;
  ThreadContext own;
  ThreadContext attached[kMaxContexts];
  uint32_t attached_depth = 0;
  char name[16] = {};
  ThreadState* next_free = nullptr;
  uint8_t* layout_area = nullptr;  ///< where layouts keep their arrays
  size_t layout_used = 0;
  StackLayout layouts[kLayoutSets * kLayoutWays];
  StackNode* nearby[kNearbyStacks];
  void* frames[kMaxFrames];
  uint64_t rules[kMaxFrames];
  WalkWord words[kMaxWalkWords];
  uint8_t payload[kMaxPayloadBytes];

  ThreadContext& context() {
    return attached_depth == 0
               ? own
               : attached[(attached_depth <= kMaxContexts ? attached_depth : kMaxContexts) - 1];
  }
  opm_pool backing_pool() const {
    return pool_depth == 0 ? 0
                           : pools[(pool_depth <= kMaxOpenPools ? pool_depth : kMaxOpenPools) - 1];
  }
};

/// Connects to the session named in the environment, if this process is the one to record. Called
/// once, from the preload library's constructor. Returns false when there is nothing to do (then
/// every call below is a no-op).
/// `environment` is the constructor's envp: before libc's own constructor getenv() finds nothing.
/// `facts` is called whenever a recording begins, here and in a child process that is followed, to
/// say what else is known of the process.
bool start(const char* const* environment, void (*facts)());

/// On a page of its own that the kernel zeroes in a forked child, whichever way it was forked.
struct Gate {
  std::atomic<bool> recording;
  /// Recording as it is done by default: every event, full stacks, nothing timed.
  std::atomic<bool> plainly;
};

struct Tls {
  ThreadState* state;
  bool busy;             ///< the recorder is at work on this thread
  bool own_calls;        ///< what it calls may call malloc: that is ours, not the program's
  bool in_libunwind;     ///< a signal handler must not enter it a second time
  bool handler_busy;     ///< the recorder works for a signal handler that interrupted the recorder
  uint64_t started;      ///< ticks when the sampled window opened, 0 = not sampled
  ThreadState* handler;  ///< where such a handler's events go: a ring of its own, since the other
                         ///< one may be half written
};

extern constinit Gate* g_gate;
extern constinit SessionHeader* g_session;
extern constinit thread_local Tls t_tls;

/// True while this process records. A forked child sees false.
inline bool recording() { return g_gate->recording.load(std::memory_order_relaxed); }
inline SessionHeader* session() { return g_session; }

/// The parts of opening and closing a window that are more than a flag (window.cc).
ThreadState* enter_slowly(Tls& tls, const void* hook_frame);
void leave_slowly(Tls& tls, ThreadState* t);

/// One event in this many has its own cost timed.
inline constexpr uint32_t kOverheadPeriod =
    61;  // prime: programs alternate between malloc and free

/// Opens a window in which this thread may record; closed by its destructor. `thread()` is null
/// when this process does not record, or when the recorder itself (or a real allocation call around
/// us) is what is calling.
class Recording {
 public:
  /// `hook_frame` as below; null for what only the program itself calls.
  explicit Recording(const void* hook_frame = nullptr) {
    if (!recording()) return;
    Tls& tls = t_tls;
    if (tls.busy || tls.state == nullptr) [[unlikely]] {
      thread_ = enter_slowly(tls, hook_frame);
      return;
    }
    tls.busy = true;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    thread_ = tls.state;
    tls.started = ++thread_->events % kOverheadPeriod == 0 ? ticks_now() : 0;
  }
  ~Recording() {
    if (thread_ == nullptr) return;
    Tls& tls = t_tls;
    if (thread_ == tls.handler || tls.started != 0) [[unlikely]]
      leave_slowly(tls, thread_);
    if (thread_ == tls.handler) return;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    tls.busy = false;
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ThreadState* thread() const { return thread_; }

 private:
  ThreadState* thread_ = nullptr;
};

/// The thread's state when nothing but recording an event plainly is asked for and nothing stands
/// in the way; else null: open a Recording, which knows every case. Most events take this way.
inline ThreadState* plain_thread() {
  if (!g_gate->plainly.load(std::memory_order_relaxed)) return nullptr;
  const Tls& tls = t_tls;
  return tls.busy ? nullptr : tls.state;
}
/// For that thread: window and event in one.
void record_plain_alloc(ThreadState* t, const void* hook_frame, AllocApi api, const void* block,
                        uint64_t bytes);
void record_plain_free(ThreadState* t, AllocApi api, const void* block);

// Events. `t` is a Recording's thread.

/// When the real call began and ended, in ticks; begin 0 = not timed.
struct CallTime {
  uint64_t begin = 0, end = 0;
};
/// True when calls are to be timed. A timed release is recorded after the real call, at the time of
/// its begin.
inline bool timing_calls() { return recording() && (g_session->flags & kTimeCalls) != 0; }

/// `hook_frame` is __builtin_frame_address(0) of the exported function that the program called:
/// where its stack starts. Null = no stack.
void record_alloc(ThreadState* t, const void* hook_frame, AllocApi api, const void* block,
                  uint64_t bytes, CallTime time = {});
void record_free(ThreadState* t, const void* hook_frame, AllocApi api, const void* block,
                 CallTime time = {});
/// A realloc that is a plain allocation or a release is recorded as such by the caller; this is the
/// rest. `before` was taken before the real call. block null = failed.
void record_realloc(ThreadState* t, const void* hook_frame, AllocApi api, uint64_t before,
                    const void* old_block, const void* block, uint64_t bytes);
/// An event without stack.
void record_event(ThreadState* t, EventKind kind, uint64_t address, uint64_t bytes, uint32_t ref,
                  uint16_t api = 0);
void record_pool_alloc(ThreadState* t, const void* hook_frame, opm_pool pool, const void* block,
                       uint64_t bytes);
void record_pool_free(ThreadState* t, opm_pool pool, const void* block);
/// True when the program's own mmap, munmap, mremap, brk and sbrk calls are asked for (domain map).
bool recording_maps();
/// The program mapped [address, address + bytes), after the call; address 0 = it failed.
void record_map_alloc(ThreadState* t, const void* hook_frame, AllocApi api, uint64_t address,
                      uint64_t bytes);
/// It gave the range back. Told after the call, because a call that failed gave nothing back;
/// `before` was taken before it, because another thread may have the addresses again by now.
void record_map_free(ThreadState* t, AllocApi api, uint64_t before, uint64_t address,
                     uint64_t bytes);
/// A definition; true when it is in the ring.
bool record_payload(ThreadState* t, trace::DefinitionTag tag, const uint8_t* data, size_t size);

/// Told by the dlclose hook, after the real call.
void module_unloaded();

/// The table behind opm_api_v1. Without a session its recording functions do nothing; watching
/// works (watch.h).
const opm_api* api_table();

}  // namespace opmeter::recorder

#endif  // OPMETER_PROFILER_RECORDER_RECORDER_H_
