// SPDX-License-Identifier: Apache-2.0
// Memory that the program has mapped itself, as ranges: unlike a heap block, a mapping may be given
// back in parts, together with its neighbours, or be replaced by another in place.
#ifndef OPMETER_PROFILER_ANALYZE_MAPPED_RANGES_H_
#define OPMETER_PROFILER_ANALYZE_MAPPED_RANGES_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace opmeter::analyze {

class MappedRanges {
 public:
  /// Maps [address, address + bytes), cut at the end of the address space. Returns how many bytes
  /// of it were not mapped before.
  uint64_t map(uint64_t address, uint64_t bytes) {
    uint64_t end = end_of(address, bytes);
    if (end == address) return 0;
    const uint64_t covered = unmap(address, bytes);
    const uint64_t added = end - address - covered;
    // Neighbours join: a heap that grows by sbrk is one range.
    uint64_t begin = address;
    const auto above = ranges_.lower_bound(address);
    if (above != ranges_.begin() && std::prev(above)->second == begin) {
      begin = std::prev(above)->first;
    }
    if (above != ranges_.end() && above->first == end) {
      end = above->second;
      ranges_.erase(above);
    }
    ranges_[begin] = end;
    return added;
  }

  /// Unmaps [address, address + bytes). Returns how many bytes of it were mapped.
  uint64_t unmap(uint64_t address, uint64_t bytes) {
    const uint64_t end = end_of(address, bytes);
    uint64_t removed = 0;
    auto range = ranges_.upper_bound(address);
    if (range != ranges_.begin() && std::prev(range)->second > address) --range;
    while (range != ranges_.end() && range->first < end) {
      const auto [begin, range_end] = *range;
      removed += std::min(range_end, end) - std::max(begin, address);
      range = ranges_.erase(range);
      if (begin < address) ranges_[begin] = address;
      if (range_end > end) ranges_[end] = range_end;
    }
    return removed;
  }

  void clear() { ranges_.clear(); }

 private:
  static uint64_t end_of(uint64_t address, uint64_t bytes) {
    return bytes > UINT64_MAX - address ? UINT64_MAX : address + bytes;
  }

  std::map<uint64_t, uint64_t> ranges_;  // begin to end, disjoint, never adjacent
};

}  // namespace opmeter::analyze

#endif  // OPMETER_PROFILER_ANALYZE_MAPPED_RANGES_H_
