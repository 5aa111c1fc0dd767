// SPDX-License-Identifier: Apache-2.0
// What becomes of a model's outputs: checksums, files, comparison with expected values.
#ifndef OPMETER_TOOLS_MODEL_OUTPUTS_H_
#define OPMETER_TOOLS_MODEL_OUTPUTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/executor/executor.h"
#include "runtime/executor/tensor.h"

namespace opmeter::tools {

/// Values that an output should have.
struct Expectation {
  uint32_t output = 0;
  std::string file;
  runtime::Tensor tensor;
};

/// Reads I=FILE.npy words and checks them against the model's outputs. Throws Failure: unknown
/// output, unreadable file, another shape or dtype.
std::vector<Expectation> read_expectations(const runtime::Executor& executor,
                                           const std::vector<std::string>& assignments);

struct Comparison {
  double max_abs_diff = 0;  ///< infinity when a value is not a number on one side only
  uint64_t outside = 0;     ///< elements with |got - want| > atol + rtol * |want|
  uint64_t elements = 0;
};

/// Element by element, as numpy.allclose does; two NaN are equal. nullopt: no comparison of this
/// element type (more than one lane, types that .npy does not hold).
std::optional<Comparison> compare(const DLTensor& got, const DLTensor& want, double rtol,
                                  double atol);

/// Lower-case hex SHA-256 of the tensor's bytes in C order.
std::string sha256(const DLTensor& tensor);

}  // namespace opmeter::tools

#endif  // OPMETER_TOOLS_MODEL_OUTPUTS_H_
