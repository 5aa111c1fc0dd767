// SPDX-License-Identifier: Apache-2.0
// Layout of a trace file: file header, blocks, and which fields each event kind carries.
// docs/trace-format.md explains.
#ifndef OPMETER_PROFILER_TRACE_FORMAT_H_
#define OPMETER_PROFILER_TRACE_FORMAT_H_

#include <cstdint>

#include "profiler/trace/event.h"

namespace opmeter::trace {

inline constexpr char kFileMagic[8] = {'O', 'P', 'M', 'T', 'R', 'A', 'C', 'E'};
inline constexpr uint16_t kVersionMajor = 1;
inline constexpr uint16_t kVersionMinor = 0;

/// First bytes of a file; little endian like everything else.
struct FileHeader {
  char magic[8];
  uint16_t major;
  uint16_t minor;
  uint32_t header_bytes;  ///< where the first block starts
  uint64_t reserved;
  uint64_t checksum;  ///< XXH3 of the 24 bytes before
};
static_assert(sizeof(FileHeader) == 32);

inline constexpr uint32_t kBlockMagic = 0x424D504F;  // "OPMB"

enum class BlockType : uint8_t {
  kDefinitions = 1,  ///< tagged records (codec.h)
  kEvents = 2,       ///< EventBlockHead, then columns: events of one thread in its order
  kTrailer = 3,  ///< varints: lost, overhead samples, overhead ticks, events written, blocks before
                 ///< this one
};

/// kColumns: the payload's head is as it is, each column has its own choice of raw or zstd.
enum class BlockCodec : uint8_t { kRaw = 0, kZstd = 1, kColumns = 2 };

struct BlockHeader {
  uint32_t magic;
  BlockType type;
  BlockCodec codec;
  uint16_t reserved;
  uint32_t stored_bytes;  ///< of the payload that follows
  uint32_t raw_bytes;     ///< of the payload after decompression
  uint64_t sequence;      ///< 0, 1, 2, ... : a gap is a missing block
  uint64_t checksum;  ///< XXH3 of the 24 bytes before, then of the stored payload seeded with that
};
static_assert(sizeof(BlockHeader) == 32);

/// Upper bound of a payload after decompression: a larger claim is damage, not data.
inline constexpr uint32_t kMaxBlockBytes = 8u << 20;

/// Upper bound of the events of a block.
inline constexpr uint32_t kMaxBlockEvents = 1u << 18;

/// First in the payload of an event block, as varints in this order; then the columns.
struct EventBlockHead {
  uint64_t thread = 0;       ///< ThreadInfo::id
  uint64_t index = 0;        ///< blocks of this thread before this one
  uint64_t first_event = 0;  ///< events of this thread before this block
  uint64_t count = 0;
  uint64_t base_ticks = 0;  ///< the time before the first event
  uint64_t tick_shift = 0;  ///< heap and pool events come without this many low bits of ticks
  // The thread's context before the first event: what a reader needs after a lost block.
  uint64_t run = 0, op = 0, depth = 0;
};

/// Columns of an event block. On disk: varint number of columns, then for each varint id, varint
/// raw bytes, varint stored bytes (equal = as it is, else zstd), then all the data in that order.
enum class Column : uint8_t {
  kKind = 0,       ///< a byte an event: kind in bits 0-4, flags in bits 5-7
  kMode = 1,       ///< a byte for events with a mode (prediction.h)
  kTime = 2,       ///< a byte an event: delta of ticks >> tick_shift; 255 = in kTimeLong
  kTimeLong = 3,   ///< zigzag varint
  kTimeLow = 4,    ///< the low bits of ticks, a byte, for events that keep them; tick_shift <= 8
  kStack0 = 5,     ///< bits 0-7 of a stack id
  kStack1 = 6,     ///< bits 8-15; 255 = bits 8.. in kStackLong
  kStackLong = 7,  ///< varint
  kBytes0 = 8,     ///< the same of a size
  kBytes1 = 9,
  kBytesLong = 10,
  kAddress0 = 11,     ///< bits 4-11 of an address
  kAddress1 = 12,     ///< bits 12-19
  kAddress2 = 13,     ///< bits 20-27
  kAddressLong = 14,  ///< varint, all bits
  kVictim0 = 15,      ///< bits 0-7 of a live slot
  kVictim1 = 16,      ///< bits 8-15
  kOther = 17,        ///< varints: every other field
  kDuration = 18,     ///< varints: ticks of events with kTimed
};
inline constexpr size_t kColumns = 19;

/// The fields of an event. Allocations, releases and op begins have a mode byte (prediction.h);
/// the others write their fields as varints, in this order.
enum EventField : uint8_t {
  kFieldAddress = 1,
  kFieldOldAddress = 2,
  kFieldBytes = 4,
  kFieldStack = 8,
  kFieldRef = 16,
  kFieldApi = 32,
  kFieldRun = 64,
};

/// 255 = no such kind.
constexpr uint8_t event_fields(EventKind kind) {
  switch (kind) {
    case EventKind::kAlloc:
      return kFieldAddress | kFieldBytes | kFieldStack | kFieldRef | kFieldApi;
    case EventKind::kFree:
      return kFieldAddress | kFieldStack | kFieldRef | kFieldApi;
    case EventKind::kReallocBegin:
      return kFieldOldAddress | kFieldBytes;
    case EventKind::kReallocEnd:
      return kFieldAddress | kFieldOldAddress | kFieldBytes | kFieldStack | kFieldRef | kFieldApi;
    case EventKind::kPoolAlloc:
      return kFieldAddress | kFieldBytes | kFieldStack | kFieldRef;
    case EventKind::kPoolFree:
      return kFieldAddress | kFieldRef;
    case EventKind::kOpPush:
      return kFieldRef;
    case EventKind::kOpPop:
      return 0;
    case EventKind::kKernelBegin:
      return 0;
    case EventKind::kKernelEnd:
      return 0;
    case EventKind::kRunBegin:
      return kFieldRun | kFieldRef | kFieldApi;
    case EventKind::kRunEnd:
      return kFieldRun;
    case EventKind::kContextAttach:
      return kFieldRun | kFieldRef;
    case EventKind::kContextDetach:
      return 0;
    case EventKind::kSpanStart:
      return kFieldAddress | kFieldRef | kFieldBytes;
    case EventKind::kSpanEnd:
      return kFieldAddress;
    case EventKind::kForbidBegin:
      return 0;
    case EventKind::kForbidEnd:
      return 0;
    case EventKind::kThreadExit:
      return 0;
    case EventKind::kLost:
      return kFieldBytes;
    case EventKind::kResync:
      return kFieldRun | kFieldRef | kFieldApi;
    case EventKind::kExec:
      return 0;
    case EventKind::kFaults:
      return kFieldAddress | kFieldBytes;
    case EventKind::kMapAlloc:
      return kFieldAddress | kFieldBytes | kFieldStack | kFieldApi;
    case EventKind::kMapFree:
      return kFieldAddress | kFieldBytes | kFieldApi;
  }
  return 255;
}

}  // namespace opmeter::trace

#endif  // OPMETER_PROFILER_TRACE_FORMAT_H_
