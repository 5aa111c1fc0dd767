// SPDX-License-Identifier: Apache-2.0
// cpu_device.cc: host memory behind the Device seam, and the place where a device is chosen by its
// DLPack number.
#include <cstdlib>
#include <cstring>

#include "runtime/device/device.h"
#include "runtime/executor/tensor.h"
#include "runtime/tvm/dtype.h"

namespace opmeter::runtime {
namespace {

// No tensor or workspace is that large: such a size is damage. Asked for it, glibc answers null but
// a sanitizer's allocator ends the process.
constexpr std::uint64_t kMaxBlockBytes = std::uint64_t{1} << 39;

class CpuDevice final : public Device {
 public:
  DLDevice id() const noexcept override { return {kDLCPU, 0}; }

  void* allocate(std::uint64_t size_bytes) noexcept override {
    if (size_bytes > kMaxBlockBytes) return nullptr;
    void* block = nullptr;
    const std::size_t size = size_bytes == 0 ? 1 : static_cast<std::size_t>(size_bytes);
    return posix_memalign(&block, kTensorAlignment, size) == 0 ? block : nullptr;
  }

  void free(void* block) noexcept override { std::free(block); }

  Status copy_from_host(void* to, const void* from, std::uint64_t size_bytes) override {
    if (size_bytes != 0) std::memcpy(to, from, size_bytes);
    return {};
  }

  Status copy_to_host(void* to, const void* from, std::uint64_t size_bytes) override {
    if (size_bytes != 0) std::memcpy(to, from, size_bytes);
    return {};
  }
};

}  // namespace

Device& cpu_device() {
  // Never destroyed: tensors handed out may be released after static destructors.
  static CpuDevice& device = *new CpuDevice;
  return device;
}

Result<Device*> open_device(DLDevice id) {
  if (id.device_type != kDLCPU) {
    return unavailable_error("this build drives no " + device_type_name(id.device_type) +
                             " device; use --device cpu with a model compiled for the CPU");
  }
  if (id.device_id != 0) {
    return usage_error("there is no device " + device_name(id) + "; the only CPU device is cpu:0");
  }
  return &cpu_device();
}

}  // namespace opmeter::runtime
