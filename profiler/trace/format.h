// SPDX-License-Identifier: Apache-2.0
// Layout of a trace file: file header, blocks, and which fields each event kind carries.
// docs/trace-format.md explains.
#ifndef OPMETER_PROFILER_TRACE_FORMAT_H_
#define OPMETER_PROFILER_TRACE_FORMAT_H_

#include <cstdint>

#include "profiler/trace/event.h"

namespace opmeter::trace {

inline constexpr char kFileMagic[8] = {'O', 'P', 'M', 'T', 'R', 'A', 'C', 'E'};
inline constexpr uint16_t kVersionMajor = 0;
inline constexpr uint16_t kVersionMinor = 1;

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
  kEvents =
      2,  ///< varint thread, varint base ticks, varint count, events of one thread in its order
  kTrailer = 3,  ///< varints: lost, overhead samples, overhead ticks, events written, blocks before
                 ///< this one
};

enum class BlockCodec : uint8_t { kRaw = 0, kZstd = 1 };

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

/// Fields of an event on disk, in this order, after its head byte (kind in bits 0-4, flags in bits
/// 5-7).
enum EventField : uint8_t {
  kFieldAddress = 1,     ///< zigzag varint delta to the previous address of the block
  kFieldOldAddress = 2,  ///< the same
  kFieldBytes = 4,       ///< varint
  kFieldStack = 8,       ///< zigzag varint delta to the previous stack of the block
  kFieldRef = 16,        ///< varint
  kFieldApi = 32,        ///< varint
  kFieldRun = 64,        ///< varint
};

/// Every kind starts with a zigzag varint delta of ticks; these fields follow. 255 = no such kind.
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
