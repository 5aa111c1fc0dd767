// SPDX-License-Identifier: Apache-2.0
// tracing_pool.h: wraps any pool and reports every request and release through opmeter.h, so that
// workspaces and tensors get operator, stack, run and size as mallocs do. make_pool() wraps only
// when a profiler is in the process; without one there is nothing in the way.
#ifndef OPMETER_RUNTIME_POOL_TRACING_POOL_H_
#define OPMETER_RUNTIME_POOL_TRACING_POOL_H_

#include <memory>

#include "opmeter/opmeter.h"
#include "runtime/pool/pool.h"

namespace opmeter::runtime {

class TracingPool final : public Pool {
 public:
  explicit TracingPool(std::unique_ptr<Pool> inner);
  ~TracingPool() override;
  TracingPool(const TracingPool&) = delete;
  TracingPool& operator=(const TracingPool&) = delete;

  std::string_view name() const noexcept override { return inner_->name(); }
  DLDevice device() const noexcept override { return inner_->device(); }
  bool tensors_at_load() const noexcept override { return inner_->tensors_at_load(); }
  void* alloc_workspace(Slot slot, std::uint64_t size_bytes) noexcept override;
  bool free_workspace(Slot slot, void* block) noexcept override;
  void* last_workspace(Slot slot) const noexcept override { return inner_->last_workspace(slot); }
  void* alloc_tensor(std::uint64_t size_bytes) noexcept override;
  void free_tensor(void* block, std::uint64_t size_bytes) noexcept override;
  PoolStats stats() const override { return inner_->stats(); }

 private:
  std::unique_ptr<Pool> inner_;
  opm_pool workspaces_;
  opm_pool tensors_;
};

}  // namespace opmeter::runtime

#endif  // OPMETER_RUNTIME_POOL_TRACING_POOL_H_
