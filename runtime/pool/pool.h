// SPDX-License-Identifier: Apache-2.0
// pool.h: the one interface behind which an executor's intermediate tensors and operator workspaces
// are served. Implementations: naive, caching; TracingPool decorates any of them. A pool calls the
// heap for blocks only: its bookkeeping is reserved up front, so that heap traffic seen inside a
// pool is the pool's policy and nothing else.
#ifndef OPMETER_RUNTIME_POOL_POOL_H_
#define OPMETER_RUNTIME_POOL_POOL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "opmeter/result.h"
#include "runtime/device/device.h"

namespace opmeter::runtime {

/// Which thread of the executor asks: 0 is the thread inside run(), 1..threads-1 its workers.
using Slot = std::uint32_t;

struct PoolStats {
  std::uint64_t workspace_requests = 0;
  /// Most bytes held for workspaces; with several threads the sum of each slot's own peak.
  std::uint64_t workspace_peak_bytes = 0;
  /// Sizes of the blocks the workspace part got from the device, in order, slot by slot. The naive
  /// pool gets one per request and therefore lists none.
  std::vector<std::uint64_t> workspace_growth_bytes;
  std::uint64_t tensor_requests = 0;
  std::uint64_t tensor_peak_bytes = 0;
};

/// Blocks are aligned to kTensorAlignment. A slot is used by one thread at a time; different slots
/// at once. Tensor functions may be called from any thread. Nothing throws.
class Pool {
 public:
  virtual ~Pool() = default;

  /// "naive", "caching": what reports call it.
  virtual std::string_view name() const noexcept = 0;
  virtual DLDevice device() const noexcept = 0;

  /// True: intermediate tensors are requested once at load, by storage id. False: each is requested
  /// just before the op that makes it and released after its last use, in every run.
  virtual bool tensors_at_load() const noexcept = 0;

  /// Null when the device has no memory left.
  virtual void* alloc_workspace(Slot slot, std::uint64_t size_bytes) noexcept = 0;
  /// False when `block` is not a live workspace of this slot; nothing has happened then.
  virtual bool free_workspace(Slot slot, void* block) noexcept = 0;
  /// The youngest live workspace of the slot or null: how an executor takes back what a failed
  /// operator did not release.
  virtual void* last_workspace(Slot slot) const noexcept = 0;

  virtual void* alloc_tensor(std::uint64_t size_bytes) noexcept = 0;
  virtual void free_tensor(void* block, std::uint64_t size_bytes) noexcept = 0;

  /// Not while a run is going on.
  virtual PoolStats stats() const = 0;
};

/// `kind`: "naive" or "caching" (else kUsage, naming those). `slots` = threads of the executor.
Result<std::unique_ptr<Pool>> make_pool(std::string_view kind, Device& device, Slot slots);

}  // namespace opmeter::runtime

#endif  // OPMETER_RUNTIME_POOL_POOL_H_
