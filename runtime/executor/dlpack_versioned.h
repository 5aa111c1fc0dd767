// SPDX-License-Identifier: Apache-2.0
// dlpack_versioned.h: DLPack 1.x's DLManagedTensorVersioned, for systems whose dlpack.h is older
// (Debian 12 has 0.6). Layout from the DLPack 1.0 specification.
#ifndef OPMETER_RUNTIME_EXECUTOR_DLPACK_VERSIONED_H_
#define OPMETER_RUNTIME_EXECUTOR_DLPACK_VERSIONED_H_

#include <dlpack/dlpack.h>

#include <cstdint>

#ifndef DLPACK_MAJOR_VERSION
struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};
#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
#endif

#endif  // OPMETER_RUNTIME_EXECUTOR_DLPACK_VERSIONED_H_
