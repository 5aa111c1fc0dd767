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

#include "profiler/analyze/huge_pages.h"

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
  [[gnu::always_inline]] std::optional<LiveBlock> insert(const LiveBlock& block) {
    const uint32_t space = block.space == kEmpty ? kEmpty - 1 : block.space;
    LiveBlock* slot = &slots_[home(block.address, space)];
    while (slot->space != kEmpty) [[unlikely]] {
        if (slot->address == block.address && slot->space == space) {
          const LiveBlock old = *slot;
          *slot = block;
          slot->space = space;
          return old;
        }
        slot = next(slot);
      }
    *slot = block;
    slot->space = space;
    if (++size_ * sparsity() > mask_) grow();
    return std::nullopt;
  }

  /// Removes and returns the block at `address`, if one is live there.
  [[gnu::always_inline]] std::optional<LiveBlock> take(uint64_t address, uint32_t space) {
    if (space == kEmpty) --space;
    LiveBlock* slot = &slots_[home(address, space)];
    while (slot->space != kEmpty) {
      if (slot->address == address && slot->space == space) {
        const LiveBlock found = *slot;
        if (next(slot)->space == kEmpty) {
          slot->space = kEmpty;
        } else {
          close_gap(static_cast<size_t>(slot - slots_.data()));
        }
        --size_;
        return found;
      }
      slot = next(slot);
    }
    return std::nullopt;
  }

  /// Brings the line of a block that will be asked for soon. A hint: any arguments are right.
  [[gnu::always_inline]] void prefetch(uint64_t address, uint32_t space) const {
    const LiveBlock* slot = &slots_[home(address, space)];
    __builtin_prefetch(slot, 1);
    __builtin_prefetch(slot + 1, 1);  // closing a gap looks at the next one: often another line
  }

  size_t size() const { return size_; }

  void clear() {
    slots_.assign(kFirstCapacity, LiveBlock{.space = kEmpty});
    mask_ = kFirstCapacity - 1;
    shift_ = 64 - kFirstBits;
    size_ = 0;
  }

 private:
  using Slots = std::vector<LiveBlock, HugePages<LiveBlock>>;
  static constexpr uint32_t kEmpty = UINT32_MAX;
  static constexpr int kFirstBits = 10;
  static constexpr size_t kFirstCapacity = size_t{1} << kFirstBits;

  // Fibonacci hashing: the high bits of the product are well mixed although addresses are aligned.
  size_t home(uint64_t address, uint32_t space) const {
    const uint64_t key = address + (uint64_t{space} * 0xff51afd7ed558ccdULL);
    return static_cast<size_t>((key * 0x9e3779b97f4a7c15ULL) >> shift_);
  }

  /// Slots for each block, at least. Where blocks have no neighbours, branches are guessed right: a
  /// quarter of the time. A table of hundreds of MB is better dense.
  size_t sparsity() const { return mask_ >> 22 == 0 ? 4 : 2; }

  LiveBlock* next(LiveBlock* slot) {
    return slot == slots_.data() + mask_ ? slots_.data() : slot + 1;
  }

  [[gnu::noinline]] void close_gap(size_t gap) {
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

  [[gnu::noinline]] void grow() {
    Slots old(slots_.size() * 2, LiveBlock{.space = kEmpty});
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

  Slots slots_;
  size_t mask_ = 0;
  size_t size_ = 0;
  int shift_ = 0;
};

}  // namespace opmeter::analyze

#endif  // OPMETER_PROFILER_ANALYZE_LIVE_BLOCKS_H_
