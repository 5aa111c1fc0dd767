// SPDX-License-Identifier: Apache-2.0
// params_fuzz.cc: any bytes as a .params file: an error of one line or tensors of the stated size.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "runtime/tvm/dtype.h"
#include "runtime/tvm/params.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace opmeter::runtime;
  const auto params = parse_params(std::as_bytes(std::span(data, size)), "fuzz.params");
  if (!params) {
    if (params.error().message.find('\n') != std::string::npos) std::abort();
    return 0;
  }
  for (const NamedTensor& param : *params) {
    if (shape_bytes(param.tensor.shape(), param.tensor.dtype()) != param.tensor.size_bytes()) {
      std::abort();
    }
  }
  return 0;
}
