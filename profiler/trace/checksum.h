// SPDX-License-Identifier: Apache-2.0
// The checksum of headers and blocks: XXH3, 64 bits.
#ifndef OPMETER_PROFILER_TRACE_CHECKSUM_H_
#define OPMETER_PROFILER_TRACE_CHECKSUM_H_

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstddef>
#include <cstdint>

#include "profiler/trace/format.h"

namespace opmeter::trace {

inline uint64_t header_checksum(const void* first_24_bytes) {
  return XXH3_64bits(first_24_bytes, 24);
}

inline uint64_t block_checksum(const BlockHeader& header, const void* payload, size_t size) {
  return XXH3_64bits_withSeed(payload, size, header_checksum(&header));
}

}  // namespace opmeter::trace

#endif  // OPMETER_PROFILER_TRACE_CHECKSUM_H_
