// SPDX-License-Identifier: Apache-2.0
// The numbers of a trace: kinds of events, their flags, and the functions that allocate. No
// containers: the code inside the program under test (zone a) needs these too.
#ifndef OPMETER_PROFILER_TRACE_KINDS_H_
#define OPMETER_PROFILER_TRACE_KINDS_H_

#include <cstdint>

namespace opmeter::trace {

/// Numbers reach files. The comment names the fields of Event that the kind uses beside ticks and
/// thread.
enum class EventKind : uint8_t {
  kAlloc = 1,  ///< heap allocation: address, bytes, stack, api, ref = pool when backing; address 0
               ///< = failed
  kFree = 2,   ///< heap release, stamped before it happens: address, api, ref = pool when backing,
               ///< stack 0
  kReallocBegin = 3,  ///< before the real call: old_address (may be 0), bytes = new size
  kReallocEnd =
      4,  ///< after it: address, old_address, bytes, stack, api; address 0 and bytes > 0 = failed
  kPoolAlloc = 5,    ///< pool request served: address, bytes, stack, ref = pool; address 0 = failed
  kPoolFree = 6,     ///< pool block given back: address, ref = pool
  kOpPush = 7,       ///< ref = op
  kOpPop = 8,        ///< -
  kKernelBegin = 9,  ///< -
  kKernelEnd = 10,   ///< -
  kRunBegin = 11,    ///< run (process-wide, from 1), ref = graph, api = OPM_PHASE_*
  kRunEnd = 12,      ///< run
  kContextAttach = 13,  ///< this thread works for: run, ref = op
  kContextDetach = 14,  ///< -
  kSpanStart = 15,      ///< address = span id, ref = op, bytes = stream
  kSpanEnd = 16,        ///< address = span id (may be another thread's)
  kForbidBegin = 17,    ///< -
  kForbidEnd = 18,      ///< -
  kThreadExit = 19,     ///< the thread gave its ring back
  kLost = 20,           ///< bytes = events of this thread that found no room since the last event
  kResync =
      21,      ///< follows kLost: the thread's context now: run, ref = innermost op, api = open ops
  kExec = 22,  ///< the process image was replaced: every live block and every open scope is gone
  kFaults = 23,    ///< minor page faults so far: address = of this thread, bytes = of the process;
                   ///< stands beside kRunBegin/kRunEnd, with --faults also beside op events
  kMapAlloc = 24,  ///< the program mapped memory itself: address, bytes, stack, api (mmap, mremap,
                   ///< sbrk); address 0 = failed
  kMapFree = 25,   ///< and gave a range back, which may be a part of a mapping: address, bytes, api
};

/// Bits of Event::flags.
enum EventFlag : uint8_t {
  kBacking = 1,  ///< raised inside a pool's own request or release (ref = the pool)
  kTimed = 2,    ///< Event::duration holds how long the real call took
};

/// Which function was called (Event::api of heap events).
enum class AllocApi : uint8_t {
  kUnknown = 0,
  kMalloc = 1,
  kCalloc = 2,
  kRealloc = 3,
  kReallocarray = 4,
  kFree = 5,
  kPosixMemalign = 6,
  kAlignedAlloc = 7,
  kMemalign = 8,
  kValloc = 9,
  kPvalloc = 10,
  kFreeSized = 11,
  kFreeAlignedSized = 12,
  kNew = 13,
  kNewArray = 14,
  kDelete = 15,
  kDeleteArray = 16,
  kMmap = 17,
  kMunmap = 18,
  kMremap = 19,
  kSbrk = 20,
};

}  // namespace opmeter::trace

#endif  // OPMETER_PROFILER_TRACE_KINDS_H_
