// SPDX-License-Identifier: Apache-2.0
// Answers a program that asks, in its own process, what it allocates: watches of one thread, each
// allocation with its stack, and a count of all threads. Needs the hooks but no session. Both write
// into memory of the asker or into a few words here, never into a trace. Zone a.
#ifndef OPMETER_PROFILER_RECORDER_WATCH_H_
#define OPMETER_PROFILER_RECORDER_WATCH_H_

#include <atomic>

#include "profiler/recorder/recorder.h"

namespace opmeter::recorder {

extern constinit thread_local opm_watch* t_watch;  ///< the innermost open one
extern constinit std::atomic<bool> g_counting;

/// All that a hook costs while nobody asks.
inline bool watching() { return t_watch != nullptr || g_counting.load(std::memory_order_relaxed); }

// Functions of opm_api.
int watch_begin(opm_watch* watch);
void watch_end(opm_watch* watch);
int heap_count_begin();
void heap_count_end(opm_heap_count* count);

/// After the real call. block null = it failed. `hook_frame` as for record_alloc.
void watch_alloc(const void* hook_frame, AllocApi api, const void* block, uint64_t bytes);
/// Before the real call, while the block's size can still be asked for.
void watch_free(const void* block);

/// Around a real realloc of a block to a size that is not 0.
class WatchedRealloc {
 public:
  explicit WatchedRealloc(const void* old_block);
  /// block null = it failed and the old block is still there.
  void done(const void* hook_frame, AllocApi api, const void* block, uint64_t bytes) const;

 private:
  bool watching_;
  uint64_t old_usable_ = 0;
};

/// Told by the dlclose hook: without a session nobody else forgets the rules of unloaded code.
void watch_module_unloaded();

}  // namespace opmeter::recorder

#endif  // OPMETER_PROFILER_RECORDER_WATCH_H_
