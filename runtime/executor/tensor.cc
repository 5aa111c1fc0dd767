// SPDX-License-Identifier: Apache-2.0
// tensor.cc: owning host tensors and DLTensor helpers (see tensor.h).
#include "runtime/executor/tensor.h"

#include <cstring>

#include "runtime/device/device.h"
#include "runtime/tvm/dtype.h"

namespace opmeter::runtime {

Result<Tensor> Tensor::create(std::vector<std::int64_t> shape, DLDataType dtype) {
  const std::optional<std::uint64_t> bytes = shape_bytes(shape, dtype);
  if (!bytes) return input_error("a tensor of shape " + shape_name(shape) + " has no valid size");
  void* block = cpu_device().allocate(*bytes);
  if (block == nullptr) {
    return input_error("no memory for a tensor of shape " + shape_name(shape) + " (" +
                       std::to_string(*bytes) + " bytes)");
  }
  std::memset(block, 0, *bytes);
  Tensor tensor;
  tensor.shape_ = std::move(shape);
  tensor.dtype_ = dtype;
  tensor.size_bytes_ = *bytes;
  tensor.storage_ = std::shared_ptr<void>(block, [](void* p) { cpu_device().free(p); });
  return tensor;
}

DLTensor Tensor::view() const {
  DLTensor tensor{};
  tensor.data = data();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = static_cast<int>(shape_.size());
  tensor.dtype = dtype_;
  // DLPack has no const extents; nobody writes through this pointer.
  tensor.shape = const_cast<std::int64_t*>(shape_.data());
  return tensor;
}

std::span<const std::int64_t> extents(const DLTensor& tensor) {
  return {tensor.shape, static_cast<std::size_t>(tensor.ndim)};
}

void* data_of(const DLTensor& tensor) {
  return static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
}

bool is_compact(const DLTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  std::int64_t expected = 1;
  for (int axis = tensor.ndim - 1; axis >= 0; --axis) {
    // The stride of an axis with one element is never used and may be anything.
    if (tensor.shape[axis] != 1 && tensor.strides[axis] != expected) return false;
    expected *= tensor.shape[axis];
  }
  return true;
}

}  // namespace opmeter::runtime
