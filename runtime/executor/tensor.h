// SPDX-License-Identifier: Apache-2.0
// tensor.h: an owning host tensor and helpers over borrowed DLTensor views. The common currency of
// parameters, .npy files and the executor's inputs. Never talks to a pool: inputs and parameters
// are not pool memory.
#ifndef OPMETER_RUNTIME_EXECUTOR_TENSOR_H_
#define OPMETER_RUNTIME_EXECUTOR_TENSOR_H_

#include <dlpack/dlpack.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "opmeter/result.h"

namespace opmeter::runtime {

/// Code compiled by TVM 0.7 to 0.9 may assume this alignment of every tensor and workspace.
inline constexpr std::size_t kTensorAlignment = 128;

/// A compact C-order tensor in host memory, 128-aligned. Copies of a Tensor share the storage.
class Tensor {
 public:
  Tensor() = default;

  /// Zeroed. Errors: negative or overflowing shape, not enough memory.
  static Result<Tensor> create(std::vector<std::int64_t> shape, DLDataType dtype);

  std::span<const std::int64_t> shape() const { return shape_; }
  DLDataType dtype() const { return dtype_; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  void* data() const { return storage_.get(); }
  const std::shared_ptr<void>& storage() const { return storage_; }

  template <typename T>
  std::span<T> as() const {
    return {static_cast<T*>(data()), size_bytes_ / sizeof(T)};
  }

  /// A view that borrows storage and extents from this object.
  DLTensor view() const;

 private:
  std::vector<std::int64_t> shape_;
  DLDataType dtype_{};
  std::uint64_t size_bytes_ = 0;
  std::shared_ptr<void> storage_;
};

std::span<const std::int64_t> extents(const DLTensor& tensor);
/// First byte of the data, byte_offset included.
void* data_of(const DLTensor& tensor);
/// True when strides are absent or those of a C-order tensor without gaps.
bool is_compact(const DLTensor& tensor);

}  // namespace opmeter::runtime

#endif  // OPMETER_RUNTIME_EXECUTOR_TENSOR_H_
