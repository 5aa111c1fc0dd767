// SPDX-License-Identifier: Apache-2.0
// params.h: named constant tensors: the .params file and the arrays inside a factory blob. Copies
// every array into aligned storage of its own, because files pack them without alignment.
#ifndef OPMETER_RUNTIME_TVM_PARAMS_H_
#define OPMETER_RUNTIME_TVM_PARAMS_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "opmeter/result.h"
#include "runtime/executor/tensor.h"
#include "runtime/tvm/byte_reader.h"

namespace opmeter::runtime {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// A whole .params file (list header, names, arrays). Errors (kInput) give file, array and offset.
Result<std::vector<NamedTensor>> parse_params(std::span<const std::byte> bytes,
                                              const std::string& where);

/// One array (with its own header) at the reader's position.
Result<Tensor> read_ndarray(ByteReader& reader, const std::string& name);

}  // namespace opmeter::runtime

#endif  // OPMETER_RUNTIME_TVM_PARAMS_H_
