// SPDX-License-Identifier: Apache-2.0
// naive_pool.cc: one device block per request (see naive_pool.h).
#include "runtime/pool/naive_pool.h"

#include <algorithm>

namespace opmeter::runtime {
namespace {

// Operators hold few workspaces at a time (1 to 3 in real models). Reserved, so that remembering a
// block is no heap call beside the block's own.
constexpr std::size_t kReservedBlocks = 256;

}  // namespace

NaivePool::NaivePool(Device& device, Slot slots)
    : device_(device), slots_(slots), tensors_(device) {
  for (SlotState& slot : slots_) slot.live.reserve(kReservedBlocks);
}

NaivePool::~NaivePool() {
  for (const SlotState& slot : slots_) {
    for (const Block& block : slot.live) device_.free(block.address);
  }
}

void* NaivePool::alloc_workspace(Slot slot, std::uint64_t size_bytes) noexcept {
  void* block = device_.allocate(size_bytes);
  if (block == nullptr) return nullptr;
  SlotState& state = slots_[slot];
  state.live.push_back({block, size_bytes});
  ++state.requests;
  state.live_bytes += size_bytes;
  state.peak_bytes = std::max(state.peak_bytes, state.live_bytes);
  return block;
}

bool NaivePool::free_workspace(Slot slot, void* block) noexcept {
  SlotState& state = slots_[slot];
  // Last in, first out in nearly every operator.
  for (std::size_t i = state.live.size(); i-- > 0;) {
    if (state.live[i].address != block) continue;
    state.live_bytes -= state.live[i].size_bytes;
    state.live.erase(state.live.begin() + static_cast<std::ptrdiff_t>(i));
    device_.free(block);
    return true;
  }
  return false;
}

void* NaivePool::last_workspace(Slot slot) const noexcept {
  const std::vector<Block>& live = slots_[slot].live;
  return live.empty() ? nullptr : live.back().address;
}

void* NaivePool::alloc_tensor(std::uint64_t size_bytes) noexcept {
  return tensors_.alloc(size_bytes);
}

void NaivePool::free_tensor(void* block, std::uint64_t size_bytes) noexcept {
  tensors_.free(block, size_bytes);
}

PoolStats NaivePool::stats() const {
  PoolStats stats;
  for (const SlotState& slot : slots_) {
    stats.workspace_requests += slot.requests;
    stats.workspace_peak_bytes += slot.peak_bytes;
  }
  tensors_.add_to(stats);
  return stats;
}

}  // namespace opmeter::runtime
