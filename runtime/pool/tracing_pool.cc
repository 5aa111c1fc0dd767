// SPDX-License-Identifier: Apache-2.0
// tracing_pool.cc: begin/end marks around the inner pool's work (see tracing_pool.h).
#include "runtime/pool/tracing_pool.h"

#include <string>

namespace opmeter::runtime {
namespace {

opm_pool declare(const Pool& pool, int domain) {
  const std::string name(pool.name());
  opm_pool_desc desc{};
  desc.struct_size = sizeof desc;
  desc.name = name.c_str();
  desc.domain = domain;
  desc.device_type = pool.device().device_type;
  desc.device_id = pool.device().device_id;
  return opm_pool_create(&desc);
}

}  // namespace

TracingPool::TracingPool(std::unique_ptr<Pool> inner)
    : inner_(std::move(inner)),
      workspaces_(declare(*inner_, OPM_DOMAIN_WORKSPACE)),
      tensors_(declare(*inner_, OPM_DOMAIN_TENSOR)) {}

TracingPool::~TracingPool() {
  inner_.reset();
  opm_pool_destroy(workspaces_);
  opm_pool_destroy(tensors_);
}

void* TracingPool::alloc_workspace(Slot slot, std::uint64_t size_bytes) noexcept {
  opm_pool_alloc_begin(workspaces_);
  void* block = inner_->alloc_workspace(slot, size_bytes);
  opm_pool_alloc_end(workspaces_, block, size_bytes);
  return block;
}

bool TracingPool::free_workspace(Slot slot, void* block) noexcept {
  opm_pool_free_begin(workspaces_, block);
  const bool known = inner_->free_workspace(slot, block);
  opm_pool_free_end(workspaces_);
  return known;
}

void* TracingPool::alloc_tensor(std::uint64_t size_bytes) noexcept {
  opm_pool_alloc_begin(tensors_);
  void* block = inner_->alloc_tensor(size_bytes);
  opm_pool_alloc_end(tensors_, block, size_bytes);
  return block;
}

void TracingPool::free_tensor(void* block, std::uint64_t size_bytes) noexcept {
  opm_pool_free_begin(tensors_, block);
  inner_->free_tensor(block, size_bytes);
  opm_pool_free_end(tensors_);
}

}  // namespace opmeter::runtime
