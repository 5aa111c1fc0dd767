// SPDX-License-Identifier: Apache-2.0
// Gives a model its inputs: from .npy files, or made up reproducibly where nobody gave any.
#ifndef OPMETER_TOOLS_MODEL_INPUTS_H_
#define OPMETER_TOOLS_MODEL_INPUTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/executor/executor.h"

namespace opmeter::tools {

/// Where the data of one input came from.
struct InputSource {
  std::string name;
  std::string source;  ///< the file; "random" or "zeros" when made up
  bool made_up = false;
  std::vector<int64_t> shape;
  std::string dtype;
};

/// Sets every input of `executor`. `assignments` are NAME=FILE.npy. Random numbers depend on seed
/// and the input's index only. Throws Failure: unknown name, unreadable file, wrong shape or dtype.
std::vector<InputSource> set_inputs(runtime::Executor& executor,
                                    const std::vector<std::string>& assignments, uint64_t seed);

/// Fills `size_bytes` at `data` with numbers of [0, 1) (floating point of 16, 32 or 64 bits, also
/// bfloat16). False: another type, nothing done.
bool fill_random(void* data, uint64_t size_bytes, DLDataType dtype, uint64_t seed);

}  // namespace opmeter::tools

#endif  // OPMETER_TOOLS_MODEL_INPUTS_H_
