// SPDX-License-Identifier: Apache-2.0
// dtype.cc: element types as text and sizes (see dtype.h). The spellings are TVM's
// String2DLDataType.
#include "runtime/tvm/dtype.h"

#include <array>
#include <charconv>

namespace opmeter::runtime {
namespace {

struct Base {
  std::string_view name;
  std::uint8_t code;
};
// "bfloat" stands before "float": the first prefix that fits is taken.
constexpr std::array<Base, 4> kBases = {Base{"uint", kDLUInt}, Base{"int", kDLInt},
                                        Base{"bfloat", kDLBfloat}, Base{"float", kDLFloat}};

/// Takes decimal digits off the front; nullopt when they do not fit `limit`.
std::optional<unsigned> take_number(std::string_view& text, unsigned limit) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value == 0 || value > limit) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

}  // namespace

std::optional<DLDataType> parse_dtype(std::string_view text) {
  if (text == "bool") return DLDataType{kDLUInt, 1, 1};
  if (text.empty() || text == "void") return DLDataType{kDLOpaqueHandle, 0, 0};
  if (text == "handle") return DLDataType{kDLOpaqueHandle, 64, 1};
  for (const Base& base : kBases) {
    if (!text.starts_with(base.name)) continue;
    text.remove_prefix(base.name.size());
    DLDataType type{base.code, 32, 1};
    if (!text.empty() && text.front() != 'x') {
      const std::optional<unsigned> bits = take_number(text, 255);
      if (!bits) return std::nullopt;
      type.bits = static_cast<std::uint8_t>(*bits);
    }
    if (!text.empty() && text.front() == 'x') {
      text.remove_prefix(1);
      const std::optional<unsigned> lanes = take_number(text, 65535);
      if (!lanes) return std::nullopt;
      type.lanes = static_cast<std::uint16_t>(*lanes);
    }
    if (!text.empty()) return std::nullopt;
    return type;
  }
  return std::nullopt;
}

std::string dtype_name(DLDataType type) {
  if (type.code == kDLUInt && type.bits == 1 && type.lanes == 1) return "bool";
  if (type.code == kDLOpaqueHandle) return type.bits == 0 ? "void" : "handle";
  std::string name = "type" + std::to_string(type.code) + "_";
  for (const Base& base : kBases) {
    if (base.code == type.code) name = base.name;
  }
  name += std::to_string(type.bits);
  if (type.lanes != 1) name += "x" + std::to_string(type.lanes);
  return name;
}

bool same_dtype(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

std::uint64_t element_bytes(DLDataType type) {
  return (std::uint64_t{type.bits} * type.lanes + 7) / 8;
}

std::optional<std::uint64_t> shape_bytes(std::span<const std::int64_t> shape, DLDataType type) {
  std::int64_t total = static_cast<std::int64_t>(element_bytes(type));
  for (const std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(total, extent, &total)) return std::nullopt;
  }
  return static_cast<std::uint64_t>(total);
}

std::string shape_name(std::span<const std::int64_t> shape) {
  if (shape.empty()) return "scalar";
  std::string text;
  for (const std::int64_t extent : shape) {
    if (!text.empty()) text += 'x';
    text += std::to_string(extent);
  }
  return text;
}

std::string device_type_name(int device_type) {
  switch (device_type) {
    case 1:
      return "cpu";
    case 2:
      return "cuda";
    case 3:
      return "cuda_host";
    case 4:
      return "opencl";
    case 7:
      return "vulkan";
    case 8:
      return "metal";
    case 10:
      return "rocm";
    default:
      return "device type " + std::to_string(device_type);
  }
}

std::string device_name(DLDevice device) {
  return device_type_name(device.device_type) + ":" + std::to_string(device.device_id);
}

}  // namespace opmeter::runtime
