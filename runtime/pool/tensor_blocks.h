// SPDX-License-Identifier: Apache-2.0
// tensor_blocks.h: the tensor half that both simple pools share: one device block per request, with
// counts. Which tensors are requested, and when, is the executor's business.
#ifndef OPMETER_RUNTIME_POOL_TENSOR_BLOCKS_H_
#define OPMETER_RUNTIME_POOL_TENSOR_BLOCKS_H_

#include <atomic>
#include <cstdint>

#include "runtime/pool/pool.h"

namespace opmeter::runtime {

/// Thread rule: any thread (an exported output is released where its receiver drops it).
class TensorBlocks {
 public:
  explicit TensorBlocks(Device& device) : device_(device) {}

  void* alloc(std::uint64_t size_bytes) noexcept {
    void* block = device_.allocate(size_bytes);
    if (block == nullptr) return nullptr;
    requests_.fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t live =
        live_bytes_.fetch_add(size_bytes, std::memory_order_relaxed) + size_bytes;
    std::uint64_t peak = peak_bytes_.load(std::memory_order_relaxed);
    while (live > peak &&
           !peak_bytes_.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
    }
    return block;
  }

  void free(void* block, std::uint64_t size_bytes) noexcept {
    live_bytes_.fetch_sub(size_bytes, std::memory_order_relaxed);
    device_.free(block);
  }

  void add_to(PoolStats& stats) const {
    stats.tensor_requests = requests_.load(std::memory_order_relaxed);
    stats.tensor_peak_bytes = peak_bytes_.load(std::memory_order_relaxed);
  }

 private:
  Device& device_;
  std::atomic<std::uint64_t> requests_{0};
  std::atomic<std::uint64_t> live_bytes_{0};
  std::atomic<std::uint64_t> peak_bytes_{0};
};

}  // namespace opmeter::runtime

#endif  // OPMETER_RUNTIME_POOL_TENSOR_BLOCKS_H_
