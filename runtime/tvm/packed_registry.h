// SPDX-License-Identifier: Apache-2.0
// packed_registry.h: the packed functions that this runtime itself offers to generated code ("tvm.
// contrib.*" and the like), by name. The lookup stands at its place in TVM's order (library,
// imports, registry); today the registry is empty, so every such operator gets an error that names
// what it wanted.
#ifndef OPMETER_RUNTIME_TVM_PACKED_REGISTRY_H_
#define OPMETER_RUNTIME_TVM_PACKED_REGISTRY_H_

#include <string>

#include "runtime/tvm/c_abi.h"

namespace opmeter::runtime {

/// The function or null. Lives as long as the process. Any thread.
PackedFunction* find_packed(const std::string& name);

}  // namespace opmeter::runtime

#endif  // OPMETER_RUNTIME_TVM_PACKED_REGISTRY_H_
