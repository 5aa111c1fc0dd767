// SPDX-License-Identifier: Apache-2.0
// dtype.h: element types as artifacts write them ("float32", "int8x4", "bool") and as DLPack
// carries them. Used by the readers of graphs, parameters and .npy files. Holds no tensor and no
// memory.
#ifndef OPMETER_RUNTIME_TVM_DTYPE_H_
#define OPMETER_RUNTIME_TVM_DTYPE_H_

#include <dlpack/dlpack.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace opmeter::runtime {

/// Reads TVM's spelling: int, uint, float, bfloat + bits [+ "x" + lanes]; "bool" (= uint1),
/// "handle", "void" or "". Bits default to 32. nullopt when it is none of these.
std::optional<DLDataType> parse_dtype(std::string_view text);

/// The same spelling back: "float32", "uint8x4", "bool".
std::string dtype_name(DLDataType type);

bool same_dtype(DLDataType a, DLDataType b);

/// Bytes of one element: ceil(bits * lanes / 8); int4 takes one byte, as in TVM.
std::uint64_t element_bytes(DLDataType type);

/// Elements times element size; nullopt when an extent is negative or the product leaves 63 bits.
/// A scalar (no extents) has one element.
std::optional<std::uint64_t> shape_bytes(std::span<const std::int64_t> shape, DLDataType type);

/// "1x3x64x64"; "scalar" without extents.
std::string shape_name(std::span<const std::int64_t> shape);

/// "cpu:0", "opencl:1", "device type 32:0".
std::string device_name(DLDevice device);
std::string device_type_name(int device_type);

}  // namespace opmeter::runtime

#endif  // OPMETER_RUNTIME_TVM_DTYPE_H_
