// SPDX-License-Identifier: Apache-2.0
// packed_registry.cc: the (still empty) table of built-in packed functions; see packed_registry.h.
#include "runtime/tvm/packed_registry.h"

namespace opmeter::runtime {

PackedFunction* find_packed(const std::string& /*name*/) { return nullptr; }

}  // namespace opmeter::runtime
