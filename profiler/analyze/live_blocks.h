// SPDX-License-Identifier: Apache-2.0
// Blocks that are allocated and not yet freed, by address: the one table that every heap and pool
// event of a trace goes through, and its most expensive one: at random places of a table that no
// cache holds, hence prefetch. Open addressing with backward-shift deletion (no tombstones: a
// trace frees nearly all it allocates), because std::unordered_map costs a malloc a block.
#ifndef OPMETER_PROFILER_ANALYZE_LIVE_BLOCKS_H_
#define OPMETER_PROFILER_ANALYZE_LIVE_BLOCKS_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace opmeter::analyze {

/// One live block. `space` keeps the addresses of different owners apart: 0 is the heap, else the
/// pool's id (a naive workspace has the same address as the heap block that backs it).
struct alignas(32) LiveBlock {
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint32_t space = 0;
  uint32_t run = 0;     ///< serial of the run that made it, 0 = none
  uint32_t weight = 1;  ///< how many blocks it stands for (sampling.h)
};
static_assert(sizeof(LiveBlock) == 32);  // two to a cache line, none across two

class LiveBlocks {
 public:
  LiveBlocks() { clear(); }

  /// Adds a block; returns the one that was still live there (its free was lost), if any.
  std::optional<LiveBlock> insert(LiveBlock block) {
    if (block.space == kEmpty) --block.space;
    size_t i = home(block.address, block.space);
    for (; slots_[i].space != kEmpty; i = (i + 1) & mask_) {
      if (slots_[i].address == block.address && slots_[i].space == block.space) {
        const LiveBlock old = slots_[i];
        slots_[i] = block;
        return old;
      }
    }
    slots_[i] = block;
    if (++size_ * 2 > mask_) grow();
    return std::nullopt;
  }

  /// Removes and returns the block at `address`, if one is live there.
  std::optional<LiveBlock> take(uint64_t address, uint32_t space) {
    if (space == kEmpty) --space;
    size_t i = home(address, space);
    for (; slots_[i].space != kEmpty; i = (i + 1) & mask_) {
      if (slots_[i].address == address && slots_[i].space == space) {
        const LiveBlock found = slots_[i];
        close_gap(i);
        --size_;
        return found;
      }
    }
    return std::nullopt;
  }

  /// Brings the line of a block that will be asked for soon. A hint: any arguments are right.
  void prefetch(uint64_t address, uint32_t space) const {
    __builtin_prefetch(&slots_[home(address, space)], 1);
  }

  size_t size() const { return size_; }

  void clear() {
    slots_.assign(kFirstCapacity, LiveBlock{.space = kEmpty});
    mask_ = kFirstCapacity - 1;
    shift_ = 64 - kFirstBits;
    size_ = 0;
  }

 private:
  static constexpr uint32_t kEmpty = UINT32_MAX;
  static constexpr int kFirstBits = 10;
  static constexpr size_t kFirstCapacity = size_t{1} << kFirstBits;

  // Fibonacci hashing: the high bits of the product are well mixed although addresses are aligned.
  size_t home(uint64_t address, uint32_t space) const {
    const uint64_t key = address + (uint64_t{space} * 0xff51afd7ed558ccdULL);
    return static_cast<size_t>((key * 0x9e3779b97f4a7c15ULL) >> shift_);
  }

  void close_gap(size_t gap) {
    for (size_t i = (gap + 1) & mask_; slots_[i].space != kEmpty; i = (i + 1) & mask_) {
      const size_t wanted = home(slots_[i].address, slots_[i].space);
      // The entry may move back only when its home does not lie behind the gap on the circle.
      if (((i - wanted) & mask_) >= ((i - gap) & mask_)) {
        slots_[gap] = slots_[i];
        gap = i;
      }
    }
    slots_[gap].space = kEmpty;
  }

  void grow() {
    std::vector<LiveBlock> old(slots_.size() * 2, LiveBlock{.space = kEmpty});
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    --shift_;
    for (const LiveBlock& block : old) {
      if (block.space == kEmpty) continue;
      size_t i = home(block.address, block.space);
      while (slots_[i].space != kEmpty) i = (i + 1) & mask_;
      slots_[i] = block;
    }
  }

  std::vector<LiveBlock> slots_;
  size_t mask_ = 0;
  size_t size_ = 0;
  int shift_ = 0;
};

}  // namespace opmeter::analyze

#endif  // OPMETER_PROFILER_ANALYZE_LIVE_BLOCKS_H_
