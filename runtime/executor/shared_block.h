// SPDX-License-Identifier: Apache-2.0
// shared_block.h: a pool tensor that an executor and the receivers of exported outputs hold
// together. Made only when an output is exported, so that runs without exports count nothing.
#ifndef OPMETER_RUNTIME_EXECUTOR_SHARED_BLOCK_H_
#define OPMETER_RUNTIME_EXECUTOR_SHARED_BLOCK_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "runtime/pool/pool.h"

namespace opmeter::runtime {

class SharedBlock {
 public:
  /// Starts with one holder, the executor.
  SharedBlock(std::shared_ptr<Pool> pool, void* block, std::uint64_t size_bytes)
      : pool_(std::move(pool)), block_(block), size_bytes_(size_bytes) {}

  void hold() noexcept { holders_.fetch_add(1, std::memory_order_relaxed); }

  /// The last holder gives the block back to its pool, on its own thread.
  void drop() noexcept {
    if (holders_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    pool_->free_tensor(block_, size_bytes_);
    delete this;
  }

 private:
  ~SharedBlock() = default;

  std::shared_ptr<Pool> pool_;
  void* block_;
  std::uint64_t size_bytes_;
  std::atomic<std::uint32_t> holders_{1};
};

}  // namespace opmeter::runtime

#endif  // OPMETER_RUNTIME_EXECUTOR_SHARED_BLOCK_H_
