// SPDX-License-Identifier: Apache-2.0
// The memory that the program under test and the draining process share: one MAP_SHARED file of a
// header and chunks. Everything here survives a kill of the program, because the file belongs to
// the parent (docs/adr/0001).
//
//   SessionHeader (4 KiB) | Chunk 0 | Chunk 1 | ... | Chunk n-1
//
// A thread owns one chunk at a time and appends 32-byte slots to it; a full chunk waits for the
// drain, which empties it and gives it back. So memory is bounded for any number of threads, and
// one busy thread can use all of it. Producer -> consumer order: slots, then `committed` (release).
// Consumer -> producer: `state` = free (release).
#ifndef OPMETER_PROFILER_RECORDER_SESSION_H_
#define OPMETER_PROFILER_RECORDER_SESSION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace opmeter::recorder {

/// Environment of the program under test: the path of the session file, set by `opmeter record`.
inline constexpr char kSessionEnv[] = "OPMETER_SESSION";

inline constexpr uint64_t kSessionMagic =
    0x31534553504D504F;  // "OPMPSES1": layout version in the last byte
inline constexpr size_t kHeaderBytes = 4096;
inline constexpr size_t kChunkBytes = 64 * 1024;

/// One event, or the first slot of a payload record. Kinds are trace::EventKind; payloads use
/// kPayloadKind.
struct Slot {
  uint64_t ticks;
  uint64_t address;  ///< payload: trace::DefinitionTag
  uint64_t bytes;    ///< payload: its size; ceil(size / 32) slots of it follow
  uint32_t stack_or_ref;
  uint8_t kind;
  uint8_t flags;
  uint16_t api;
};
static_assert(sizeof(Slot) == 32);

/// A definition travelling in the ring (codec.h layout, except kStack: u32 id, u32 epoch, u64
/// flags, u64 frames...).
inline constexpr uint8_t kPayloadKind = 0xff;

/// Events with one field more than a Slot has are two slots: this one follows.
///   kReallocBegin: old address, new size        + kContinuation never (one slot)
///   kReallocEnd:   address = new, bytes = new size, stack + kContinuation{address = old,
///   stack_or_ref = pool}; kAlloc, kFree backing or timed: + kContinuation{stack_or_ref = pool,
///   ticks = duration}; kRunBegin: address = run, ref = graph, api = phase
inline constexpr uint8_t kContinuation = 0xfe;

enum class ChunkState : uint32_t { kFree = 0, kOwned = 1, kFull = 2 };

struct ChunkHeader {
  std::atomic<ChunkState> state;
  uint32_t thread;    ///< trace thread id of the owner
  uint32_t sequence;  ///< 0, 1, 2, ... per thread
  /// Slots that may be read. The owner writes it with every event and the drain looks at `state` of
  /// every chunk: on one cache line each look would cost the owner a miss.
  alignas(64) std::atomic<uint32_t> committed;
};
static_assert(sizeof(ChunkHeader) == 128);

inline constexpr uint32_t kSlotsPerChunk = (kChunkBytes - sizeof(ChunkHeader)) / sizeof(Slot);

struct Chunk {
  ChunkHeader header;
  Slot slots[kSlotsPerChunk];
};
static_assert(sizeof(Chunk) == kChunkBytes);

/// What `opmeter record` was asked for.
enum SessionFlag : uint32_t {
  kFreeStacks = 1,      ///< frees carry a call stack too
  kNoStacks = 2,        ///< allocations carry none
  kVerifyStacks = 4,    ///< compare each stack with a libunwind cursor walk (slow; a self-check)
  kMapCalls = 8,        ///< mmap, munmap, mremap, brk and sbrk calls of the program (domain map)
  kFollow = 16,         ///< child processes record too, each into a session of its own
  kFramePointers = 32,  ///< stacks by frame pointers: cheap, wrong where code has none
  kTimeCalls = 64,      ///< how long each allocation call took
  kScopeRuns = 128,     ///< only what happens while a run is open, and frees of what was recorded
  kOpFaults = 256,      ///< page faults at op borders, not only at those of runs
};

/// Why nothing more is recorded.
enum StopReason : uint32_t {
  kNotStopped = 0,
  kDrainGone = 1,  ///< producers waited in vain
  kFileFull = 2,   ///< the bound of the file is reached, and to stop there was asked for
};

/// --follow: a session that waits for a child process, or serves one. The recording process fills
/// `fd` (of its own descriptor table: the child opens /proc/RECORDER/fd/FD), a child takes the
/// session by changing `pid` from 0.
struct FollowSlot {
  std::atomic<int32_t> fd;   ///< 0 = empty; published last
  std::atomic<int32_t> pid;  ///< of the child, as the recording process sees it; 0 = to be had
};
inline constexpr uint32_t kFollowSlots = 256;  ///< children recorded at one time

struct SessionHeader {
  uint64_t magic;
  uint32_t chunk_count;
  uint32_t flags;                     ///< SessionFlag
  std::atomic<int32_t> owner_pid;     ///< the process that records; 0 = nobody yet
  std::atomic<uint32_t> images;       ///< 1 + number of exec in that process
  std::atomic<uint32_t> drain_beats;  ///< grows while the drain lives
  std::atomic<uint32_t> stopped;      ///< StopReason
  // Ids continue over an exec, so they live here.
  std::atomic<uint32_t> next_thread, next_stack, next_graph, next_op, next_pool, next_module;
  std::atomic<uint32_t> epoch;       ///< unload epoch of the module table
  std::atomic<uint32_t> next_chunk;  ///< where to look for a free chunk: what the drain emptied
                                     ///< last is still in the caches
  std::atomic<uint64_t> next_run, next_span;
  // Counters of the trailer.
  std::atomic<uint64_t> lost_events;
  std::atomic<uint64_t> overhead_samples, overhead_ticks;
  std::atomic<uint64_t> flush_requested, flush_done;
  // The self-check of stacks: compared, of them different, and how stacks were found.
  std::atomic<uint64_t> stacks_verified, stacks_different;
  std::atomic<uint64_t> stacks_by_libunwind;
  // Child processes. Only the main program's session uses these.
  int32_t recorder_pid;
  std::atomic<uint32_t> forks_pending;        ///< --follow: children that have not claimed yet
  std::atomic<uint32_t> children_unrecorded;  ///< without --follow, or when no session was free
  FollowSlot follow[kFollowSlots];
  // What replaces this process: exec calls that have not failed, and the path of the last. As many
  // images as this and one more came, or the last one did not load the interposer.
  std::atomic<uint32_t> execs;
  char exec_path[512];
  std::atomic<uint32_t> clock_forbidden;  ///< the program forbade itself the time stamp counter
  uint64_t sample_bytes;  ///< mean distance of sampled bytes; 0 = every allocation is recorded
};
static_assert(sizeof(SessionHeader) <= kHeaderBytes);
static_assert(std::atomic<uint64_t>::is_always_lock_free, "shared between processes");

constexpr size_t session_bytes(uint32_t chunk_count) {
  return kHeaderBytes + size_t{chunk_count} * kChunkBytes;
}
inline Chunk* session_chunks(SessionHeader* header) {
  return reinterpret_cast<Chunk*>(reinterpret_cast<uint8_t*>(header) + kHeaderBytes);
}

}  // namespace opmeter::recorder

#endif  // OPMETER_PROFILER_RECORDER_SESSION_H_
