// SPDX-License-Identifier: Apache-2.0
// caching_pool.cc: TVM's WorkspacePool rules (see caching_pool.h).
#include "runtime/pool/caching_pool.h"

#include <algorithm>

namespace opmeter::runtime {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kMaxRequestBytes = ~std::uint64_t{0} - kPageBytes;
// Blocks of one slot and kept growth records. Real models need 1 to 8; reserved, so that
// bookkeeping never calls the heap inside a run.
constexpr std::size_t kReservedBlocks = 256;
constexpr std::size_t kMaxGrowthRecords = 1024;

}  // namespace

CachingPool::CachingPool(Device& device, Slot slots)
    : device_(device), slots_(slots), tensors_(device) {
  for (SlotState& slot : slots_) {
    slot.free.reserve(kReservedBlocks);
    slot.live.reserve(kReservedBlocks);
    slot.growth_bytes.reserve(kMaxGrowthRecords);
  }
}

CachingPool::~CachingPool() {
  for (const SlotState& slot : slots_) {
    for (const Block& block : slot.free) device_.free(block.address);
    for (const Block& block : slot.live) device_.free(block.address);
  }
}

void* CachingPool::alloc_workspace(Slot slot, std::uint64_t size_bytes) noexcept {
  if (size_bytes > kMaxRequestBytes) return nullptr;
  SlotState& state = slots_[slot];
  ++state.requests;
  const std::uint64_t size =
      size_bytes == 0 ? kPageBytes : (size_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  const auto fit = std::find_if(state.free.begin(), state.free.end(),
                                [size](const Block& block) { return block.size_bytes >= size; });
  if (fit == state.free.end()) {
    if (!state.free.empty()) drop(state, state.free.size() - 1);
    return grow(state, size);
  }
  const Block block = *fit;
  state.free.erase(fit);
  state.live.push_back(block);
  return block.address;
}

void* CachingPool::grow(SlotState& state, std::uint64_t size_bytes) noexcept {
  void* address = device_.allocate(size_bytes);
  if (address == nullptr) return nullptr;
  state.held_bytes += size_bytes;
  state.peak_bytes = std::max(state.peak_bytes, state.held_bytes);
  if (state.growth_bytes.size() < kMaxGrowthRecords) state.growth_bytes.push_back(size_bytes);
  state.live.push_back({address, size_bytes});
  return address;
}

void CachingPool::drop(SlotState& state, std::size_t free_index) noexcept {
  const Block block = state.free[free_index];
  state.free.erase(state.free.begin() + static_cast<std::ptrdiff_t>(free_index));
  state.held_bytes -= block.size_bytes;
  device_.free(block.address);
}

bool CachingPool::free_workspace(Slot slot, void* block) noexcept {
  SlotState& state = slots_[slot];
  for (std::size_t i = state.live.size(); i-- > 0;) {
    if (state.live[i].address != block) continue;
    const Block freed = state.live[i];
    state.live.erase(state.live.begin() + static_cast<std::ptrdiff_t>(i));
    // As in TVM, a block goes behind others of its size, but before a single one.
    const bool single = state.free.size() == 1;
    const auto place = std::find_if(state.free.begin(), state.free.end(), [&](const Block& b) {
      return single ? b.size_bytes >= freed.size_bytes : b.size_bytes > freed.size_bytes;
    });
    state.free.insert(place, freed);
    return true;
  }
  return false;
}

void* CachingPool::last_workspace(Slot slot) const noexcept {
  const std::vector<Block>& live = slots_[slot].live;
  return live.empty() ? nullptr : live.back().address;
}

void* CachingPool::alloc_tensor(std::uint64_t size_bytes) noexcept {
  return tensors_.alloc(size_bytes);
}

void CachingPool::free_tensor(void* block, std::uint64_t size_bytes) noexcept {
  tensors_.free(block, size_bytes);
}

PoolStats CachingPool::stats() const {
  PoolStats stats;
  for (const SlotState& slot : slots_) {
    stats.workspace_requests += slot.requests;
    stats.workspace_peak_bytes += slot.peak_bytes;
    stats.workspace_growth_bytes.insert(stats.workspace_growth_bytes.end(),
                                        slot.growth_bytes.begin(), slot.growth_bytes.end());
  }
  tensors_.add_to(stats);
  return stats;
}

}  // namespace opmeter::runtime
