// SPDX-License-Identifier: Apache-2.0
// What the recorder's own files share: the state of the process and of the calling thread. Zone a.
#ifndef OPMETER_PROFILER_RECORDER_INTERNAL_H_
#define OPMETER_PROFILER_RECORDER_INTERNAL_H_

#include <atomic>

#include "profiler/recorder/recorder.h"

namespace opmeter::recorder {

/// On a page of its own that the kernel zeroes in a forked child, whichever way it was forked.
struct Gate {
  std::atomic<bool> recording;
};

struct Tls {
  ThreadState* state;
  bool busy;         ///< the recorder is at work on this thread
  bool own_calls;    ///< what it calls may call malloc: that is ours, not the program's
  uint64_t started;  ///< ticks when the sampled window opened, 0 = not sampled
};

extern constinit Gate* g_gate;
extern constinit SessionHeader* g_session;
extern constinit thread_local Tls t_tls;

/// Gives the calling thread a state and an id; null when memory is refused. Only with `busy` set.
ThreadState* attach_thread();
/// Prepares for attach_thread: once per process.
void thread_states_start();
/// Hands the thread's chunk to the drain.
void close_chunk(ThreadState* t);

}  // namespace opmeter::recorder

#endif  // OPMETER_PROFILER_RECORDER_INTERNAL_H_
