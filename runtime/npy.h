// SPDX-License-Identifier: Apache-2.0
// npy.h: NumPy's .npy files without NumPy: versions 1 to 3, C order, little endian, bool, int, uint
// and float elements. How models get inputs from files and how outputs are kept and compared.
#ifndef OPMETER_RUNTIME_NPY_H_
#define OPMETER_RUNTIME_NPY_H_

#include <dlpack/dlpack.h>

#include <cstddef>
#include <span>
#include <string>

#include "opmeter/result.h"
#include "runtime/executor/tensor.h"

namespace opmeter::runtime {

/// Reads one array. "|b1" becomes bool (uint1). Errors (kInput) name the file and what is wrong.
Result<Tensor> read_npy(const std::string& path);

/// The same from memory; `where` names the source in errors.
Result<Tensor> parse_npy(std::span<const std::byte> bytes, const std::string& where);

/// Writes version 1.0. The tensor must be compact host data of a type that .npy knows (else
/// kUsage).
Status write_npy(const std::string& path, const DLTensor& tensor);

}  // namespace opmeter::runtime

#endif  // OPMETER_RUNTIME_NPY_H_
