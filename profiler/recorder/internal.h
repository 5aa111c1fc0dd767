// SPDX-License-Identifier: Apache-2.0
// What the recorder's own files share: the state of the process and of the calling thread. Zone a.
#ifndef OPMETER_PROFILER_RECORDER_INTERNAL_H_
#define OPMETER_PROFILER_RECORDER_INTERNAL_H_

#include "profiler/recorder/recorder.h"

namespace opmeter::recorder {

/// Gives the calling thread a state and an id; null when memory is refused. Only with `busy` set.
ThreadState* attach_thread();
/// The same for signal handlers of the calling thread that interrupt the recorder. Takes no lock.
/// Only with `handler_busy` set.
ThreadState* attach_handler();
/// Prepares for attach_thread: once per process.
void thread_states_start();
/// In a forked child: forgets all threads of the parent.
void thread_states_restart();
/// An event without stack, stamped earlier.
void record_event_at(ThreadState* t, EventKind kind, uint64_t ticks, uint64_t address,
                     uint64_t bytes, uint32_t ref, uint16_t api = 0);
/// One event of domain map, with a stamp taken earlier.
void record_map(ThreadState* t, EventKind kind, AllocApi api, uint64_t ticks, uint64_t address,
                uint64_t bytes, uint32_t stack);
/// Nothing more is recorded.
void close_gate();
/// Hands the thread's chunk to the drain.
void close_chunk(ThreadState* t);

/// Room for `slots` (at most a chunk less two) in the thread's ring. Null = lost and counted.
Slot* reserve_in_new_chunk(ThreadState* t, uint32_t slots);
inline Slot* reserve(ThreadState* t, uint32_t slots) {
  if (static_cast<size_t>(t->end - t->cursor) >= slots) [[likely]]
    return t->cursor;
  return reserve_in_new_chunk(t, slots);
}
/// What was reserved is written: the drain may read it.
inline void commit(ThreadState* t, uint32_t slots) {
  t->cursor += slots;
  t->chunk->header.committed.store(static_cast<uint32_t>(t->cursor - t->chunk->slots),
                                   std::memory_order_release);
}

}  // namespace opmeter::recorder

#endif  // OPMETER_PROFILER_RECORDER_INTERNAL_H_
