// SPDX-License-Identifier: Apache-2.0
// device.h: the seam to memory of one device. Pools get their blocks here and the executor copies
// through it. Only the CPU is behind it today; other devices add an implementation and a case in
// open_device, nothing else changes.
#ifndef OPMETER_RUNTIME_DEVICE_DEVICE_H_
#define OPMETER_RUNTIME_DEVICE_DEVICE_H_

#include <dlpack/dlpack.h>

#include <cstdint>

#include "opmeter/result.h"

namespace opmeter::runtime {

/// Thread rule: every function may be called from any thread.
class Device {
 public:
  virtual ~Device() = default;

  virtual DLDevice id() const noexcept = 0;

  /// One block of `size_bytes` (0 counts as 1), aligned to kTensorAlignment, uninitialised: exactly
  /// one call of the system's allocator. Null when there is none left or the size is absurd.
  virtual void* allocate(std::uint64_t size_bytes) noexcept = 0;
  virtual void free(void* block) noexcept = 0;

  virtual Status copy_from_host(void* to, const void* from, std::uint64_t size_bytes) = 0;
  virtual Status copy_to_host(void* to, const void* from, std::uint64_t size_bytes) = 0;
};

/// The process's CPU device (cpu:0).
Device& cpu_device();

/// kUsage for an ordinal that does not exist, kUnavailable for a kind of device that this build
/// cannot drive. The device lives as long as the process.
Result<Device*> open_device(DLDevice id);

}  // namespace opmeter::runtime

#endif  // OPMETER_RUNTIME_DEVICE_DEVICE_H_
