// SPDX-License-Identifier: Apache-2.0
// naive_pool.h: every tensor and workspace is its own allocation, made when asked and freed when
// released. The baseline that shows what operators ask for.
#ifndef OPMETER_RUNTIME_POOL_NAIVE_POOL_H_
#define OPMETER_RUNTIME_POOL_NAIVE_POOL_H_

#include <vector>

#include "runtime/pool/pool.h"
#include "runtime/pool/tensor_blocks.h"

namespace opmeter::runtime {

class NaivePool final : public Pool {
 public:
  NaivePool(Device& device, Slot slots);
  ~NaivePool() override;

  std::string_view name() const noexcept override { return "naive"; }
  DLDevice device() const noexcept override { return device_.id(); }
  bool tensors_at_load() const noexcept override { return false; }
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
  /// One thread's live workspaces, youngest last. Own cache lines: slots work at the same time.
  struct alignas(128) SlotState {
    std::vector<Block> live;
    std::uint64_t live_bytes = 0;
    std::uint64_t peak_bytes = 0;
    std::uint64_t requests = 0;
  };

  Device& device_;
  std::vector<SlotState> slots_;
  TensorBlocks tensors_;
};

}  // namespace opmeter::runtime

#endif  // OPMETER_RUNTIME_POOL_NAIVE_POOL_H_
