// SPDX-License-Identifier: Apache-2.0
// caching_pool.h: workspaces by exactly the rules of TVM's WorkspacePool (workspace_pool.cc, the
// same from 0.5 to 0.19), one pool per slot; tensors at load, by storage id. What users of stock
// TVM have.
//
// The rules: sizes round up to 4096, nothing counts as 4096. No free block: allocate. One free
// block: take it if it fits, else free it and allocate. Several: the smallest that fits; if none
// does, free the largest and allocate. Nothing is split, merged, capped or trimmed.
#ifndef OPMETER_RUNTIME_POOL_CACHING_POOL_H_
#define OPMETER_RUNTIME_POOL_CACHING_POOL_H_

#include <vector>

#include "runtime/pool/pool.h"
#include "runtime/pool/tensor_blocks.h"

namespace opmeter::runtime {

class CachingPool final : public Pool {
 public:
  CachingPool(Device& device, Slot slots);
  ~CachingPool() override;

  std::string_view name() const noexcept override { return "caching"; }
  DLDevice device() const noexcept override { return device_.id(); }
  bool tensors_at_load() const noexcept override { return true; }
  void* alloc_workspace(Slot slot, std::uint64_t size_bytes) noexcept override;
  bool free_workspace(Slot slot, void* block) noexcept override;
  void* last_workspace(Slot slot) const noexcept override;
  void* alloc_tensor(std::uint64_t size_bytes) noexcept override;
  void free_tensor(void* block, std::uint64_t size_bytes) noexcept override;
  PoolStats stats() const override;

 private:
  struct Block {
    void* address;
    std::uint64_t size_bytes;
  };
  struct alignas(128) SlotState {
    std::vector<Block> free;  ///< ascending by size
    std::vector<Block> live;  ///< youngest last
    std::vector<std::uint64_t> growth_bytes;
    std::uint64_t held_bytes = 0;
    std::uint64_t peak_bytes = 0;
    std::uint64_t requests = 0;
  };

  void* grow(SlotState& state, std::uint64_t size_bytes) noexcept;
  void drop(SlotState& state, std::size_t free_index) noexcept;

  Device& device_;
  std::vector<SlotState> slots_;
  TensorBlocks tensors_;
};

}  // namespace opmeter::runtime

#endif  // OPMETER_RUNTIME_POOL_CACHING_POOL_H_
