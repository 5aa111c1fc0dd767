// SPDX-License-Identifier: Apache-2.0
// blob.h: what a library carries in __tvm_dev_mblob: model factories, device code, the import tree.
// Entries have no length of their own, so an unknown kind ends the reading with an error that names
// it and what makes it. Device code is recognised and skipped, never loaded.
#ifndef OPMETER_RUNTIME_TVM_BLOB_H_
#define OPMETER_RUNTIME_TVM_BLOB_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "opmeter/result.h"
#include "runtime/tvm/params.h"

namespace opmeter::runtime {

/// One model inside a library.
struct ModelFactory {
  std::string key;          ///< "GraphExecutorFactory" or "GraphRuntimeFactory" (0.7)
  std::string module_name;  ///< "default" unless the compiler was told otherwise
  std::string graph_json;
  std::vector<NamedTensor> params;
};

/// One kind of device code.
struct DeviceModule {
  std::string key;     ///< "opencl", "cuda", ...
  std::string format;  ///< "cl", "ptx", ...
  std::uint64_t code_bytes = 0;
  std::vector<std::string> kernels;
};

struct Blob {
  std::vector<std::string> keys;  ///< every entry in order, "_lib" and "_import_tree" included
  std::vector<ModelFactory> factories;
  std::vector<DeviceModule> device_modules;
  /// CSR over the entries other than the tree; empty = every entry is an import of the library.
  std::vector<std::uint64_t> import_row_ptr;
  std::vector<std::uint64_t> import_children;
};

/// `bytes` is the blob behind its length word. Errors (kInput) give entry and position.
Result<Blob> parse_blob(std::span<const std::byte> bytes, const std::string& where);

}  // namespace opmeter::runtime

#endif  // OPMETER_RUNTIME_TVM_BLOB_H_
