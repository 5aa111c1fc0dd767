// SPDX-License-Identifier: Apache-2.0
// params.cc: .params lists and single arrays (see params.h). Layout: TVM's SaveParams /
// NDArray::Save, the same in every version:
//
//   u64 list magic | u64 0 | u64 n | n x string name | u64 n | n x array
//   array: u64 magic | u64 0 | i32 device_type, device_id | i32 ndim | u8 code, u8 bits, u16 lanes
//          | i64 shape[ndim] | i64 nbytes | data
#include "runtime/tvm/params.h"

#include <cstring>

#include "runtime/tvm/dtype.h"
#include "runtime/tvm/text.h"

namespace opmeter::runtime {
namespace {

constexpr std::uint64_t kListMagic = 0xF7E58D4F05049CB7;
constexpr std::uint64_t kArrayMagic = 0xDD5E40F096B4A13F;
// Smallest array: header without extents or data.
constexpr std::uint64_t kMinArrayBytes = 8 + 8 + 8 + 4 + 4 + 8;

}  // namespace

Result<Tensor> read_ndarray(ByteReader& reader, const std::string& name) {
  const std::size_t start = reader.offset();
  const auto fail = [&](const std::string& what) {
    return input_error(one_line("parameter \"" + one_line(name, 100) + "\" at byte " +
                                std::to_string(start) + ": " + what));
  };
  const std::uint64_t magic = reader.read<std::uint64_t>();
  reader.read<std::uint64_t>();
  const std::int32_t device_type = reader.read<std::int32_t>();
  reader.read<std::int32_t>();
  const std::int32_t ndim = reader.read<std::int32_t>();
  DLDataType dtype{};
  dtype.code = reader.read<std::uint8_t>();
  dtype.bits = reader.read<std::uint8_t>();
  dtype.lanes = reader.read<std::uint16_t>();
  if (reader.failed()) return fail("the data ends inside it; the file is cut");
  if (magic != kArrayMagic) return fail("no array begins there (wrong magic); the file is damaged");
  if (device_type != kDLCPU) return fail("it was saved from a device that is not the CPU");
  if (ndim < 0 || static_cast<std::uint64_t>(ndim) > reader.remaining() / 8) {
    return fail("it claims " + std::to_string(ndim) + " dimensions; the file is damaged or cut");
  }
  std::vector<std::int64_t> shape(static_cast<std::size_t>(ndim));
  for (std::int64_t& extent : shape) extent = reader.read<std::int64_t>();
  const std::int64_t size = reader.read<std::int64_t>();
  if (reader.failed()) return fail("the data ends inside it; the file is cut");

  const std::optional<std::uint64_t> expected = shape_bytes(shape, dtype);
  if (!expected) return fail("shape " + shape_name(shape) + " does not fit in memory");
  // Writers leave lanes out of the size; 0.5 and 0.6 also round bool down to nothing, which cannot
  // be read back.
  if (size < 0 || static_cast<std::uint64_t>(size) != *expected) {
    return fail("it claims " + std::to_string(size) + " bytes for " + shape_name(shape) + " " +
                dtype_name(dtype) + " (" + std::to_string(*expected) + " is right)");
  }
  const std::span<const std::byte> data = reader.take(*expected);
  if (reader.failed()) return fail("the data ends inside it; the file is cut");
  Result<Tensor> tensor = Tensor::create(std::move(shape), dtype);
  if (!tensor) return fail(tensor.error().message);
  if (!data.empty()) std::memcpy(tensor->data(), data.data(), data.size());
  return tensor;
}

Result<std::vector<NamedTensor>> parse_params(std::span<const std::byte> bytes,
                                              const std::string& where) {
  ByteReader reader(bytes);
  const auto fail = [&](const std::string& what) { return input_error(where + ": " + what); };
  const std::uint64_t magic = reader.read<std::uint64_t>();
  reader.read<std::uint64_t>();
  if (reader.failed() || magic != kListMagic) {
    return fail("not a .params file (wrong magic); give the file that TVM's save_param_dict wrote");
  }
  std::vector<NamedTensor> params(reader.read_count(8));
  for (NamedTensor& param : params) param.name = reader.read_string();
  const std::uint64_t arrays = reader.read_count(kMinArrayBytes);
  if (reader.failed()) return fail("the list of parameter names is cut or damaged");
  if (arrays != params.size()) {
    return fail(std::to_string(params.size()) + " names for " + std::to_string(arrays) +
                " parameters; the file is damaged");
  }
  for (NamedTensor& param : params) {
    Result<Tensor> tensor = read_ndarray(reader, param.name);
    if (!tensor) return fail(tensor.error().message);
    param.tensor = std::move(tensor).value();
  }
  if (reader.remaining() != 0) {
    return fail(std::to_string(reader.remaining()) +
                " bytes follow the last parameter; is this one "
                "whole .params file?");
  }
  return params;
}

}  // namespace opmeter::runtime
