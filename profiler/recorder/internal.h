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

/// Gives the calling thread a state and an id; null when memory is refused. Only with `busy` set.
ThreadState* attach_thread();
/// The same for signal handlers of the calling thread that interrupt the recorder. Takes no lock.
/// Only with `handler_busy` set.
ThreadState* attach_handler();
/// Prepares for attach_thread: once per process.
void thread_states_start();
/// In a forked child: forgets all threads of the parent.
void thread_states_restart();
/// One event of domain map, with a stamp taken earlier.
void record_map(ThreadState* t, EventKind kind, AllocApi api, uint64_t ticks, uint64_t address,
                uint64_t bytes, uint32_t stack);
/// Hands the thread's chunk to the drain.
void close_chunk(ThreadState* t);

}  // namespace opmeter::recorder

#endif  // OPMETER_PROFILER_RECORDER_INTERNAL_H_
