// SPDX-License-Identifier: Apache-2.0
// Recording a part: only allocations that a random byte falls into (--sample-bytes), or only what
// happens while a run is open (--scope runs). Either way a release is recorded when its allocation
// was, so live bytes are right for what was recorded. Zone a.
#ifndef OPMETER_PROFILER_RECORDER_SELECTION_H_
#define OPMETER_PROFILER_RECORDER_SELECTION_H_

#include <cstdint>

#include "profiler/recorder/recorder.h"

namespace opmeter::recorder {

/// True when not every event is wanted; the rest of this file is asked only then.
inline bool selective() {
  return (g_session->flags & kScopeRuns) != 0 || g_session->sample_bytes != 0;
}

/// Names of blocks: heap and pool have addresses in common.
inline uint64_t heap_key(const void* block) { return reinterpret_cast<uint64_t>(block); }
inline uint64_t pool_key(const void* block) {
  return reinterpret_cast<uint64_t>(block) | uint64_t{1} << 63;
}

/// Is this heap allocation to be recorded? Remembers it then. A sampled one stands for
/// 1 / (1 - exp(-bytes / sample_bytes)) of its size (bytes at least 1): points are thrown on the
/// stream of allocated bytes by a Poisson process, and what is hit is recorded. A failed call
/// (key 0) is not remembered.
bool select_alloc(ThreadState* t, uint64_t key, uint64_t bytes);
/// Is this release of a heap block? Inside the scope every one is, unless allocations are sampled.
bool select_free(uint64_t key);
/// The same for pool blocks, which are never sampled.
bool in_scope(uint64_t key);
bool scope_had(uint64_t key);

/// Runs open in the process, told by opm_run_begin and opm_run_end.
void run_opened();
void run_closed();
/// In a forked child that records: nothing is open, nothing known.
void selection_restart();
/// False when memory is refused.
bool selection_start();

}  // namespace opmeter::recorder

#endif  // OPMETER_PROFILER_RECORDER_SELECTION_H_
