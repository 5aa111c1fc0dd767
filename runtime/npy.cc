// SPDX-License-Identifier: Apache-2.0
// npy.cc: .npy in and out (see npy.h). Format: NEP 1 and numpy.lib.format:
//
//   "\x93NUMPY" | u8 major | u8 minor | header length (v1 u16, v2 and v3 u32) | header | data
//   header: {'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), } padded with blanks and \n
#include "runtime/npy.h"

#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>

#include "runtime/tvm/byte_reader.h"
#include "runtime/tvm/dtype.h"
#include "runtime/tvm/elf_check.h"
#include "runtime/tvm/text.h"

namespace opmeter::runtime {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

/// The header is a Python dict of three known keys; this reads exactly that much Python.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  std::optional<Header> parse() {
    Header header;
    bool descr = false, order = false, shape = false;
    if (!accept('{')) return std::nullopt;
    while (!accept('}')) {
      const std::optional<std::string> key = quoted();
      if (!key || !accept(':')) return std::nullopt;
      if (*key == "descr") {
        const std::optional<std::string> value = quoted();
        if (!value) return std::nullopt;
        header.descr = *value;
        descr = true;
      } else if (*key == "fortran_order") {
        if (word("False")) {
          header.fortran_order = false;
        } else if (word("True")) {
          header.fortran_order = true;
        } else {
          return std::nullopt;
        }
        order = true;
      } else if (*key == "shape") {
        if (!tuple(header.shape)) return std::nullopt;
        shape = true;
      } else {
        return std::nullopt;
      }
      if (!accept(',') && !peek('}')) return std::nullopt;
    }
    if (!descr || !order || !shape) return std::nullopt;
    return header;
  }

 private:
  void skip_blanks() {
    const std::size_t start = text_.find_first_not_of(" \t\r\n");
    text_.remove_prefix(start == std::string_view::npos ? text_.size() : start);
  }
  bool peek(char c) {
    skip_blanks();
    return !text_.empty() && text_.front() == c;
  }
  bool accept(char c) {
    if (!peek(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool word(std::string_view wanted) {
    skip_blanks();
    if (!text_.starts_with(wanted)) return false;
    text_.remove_prefix(wanted.size());
    return true;
  }
  std::optional<std::string> quoted() {
    skip_blanks();
    if (text_.empty() || (text_.front() != '\'' && text_.front() != '"')) return std::nullopt;
    const std::size_t end = text_.find(text_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string value(text_.substr(1, end - 1));
    text_.remove_prefix(end + 1);
    return value;
  }
  bool tuple(std::vector<std::int64_t>& out) {
    if (!accept('(')) return false;
    while (!accept(')')) {
      skip_blanks();
      std::int64_t value = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
      if (error != std::errc()) return false;
      text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
      accept('L');  // Python 2 wrote long integers so.
      out.push_back(value);
      if (!accept(',') && !peek(')')) return false;
    }
    return true;
  }

  std::string_view text_;
};

/// "<f4" -> float32. nullopt: a type that graphs do not have (or big endian).
std::optional<DLDataType> dtype_of(std::string_view descr) {
  if (descr.size() < 3) return std::nullopt;
  const char order = descr[0];
  unsigned bytes = 0;
  const auto [end, error] = std::from_chars(descr.data() + 2, descr.data() + descr.size(), bytes);
  if (error != std::errc() || end != descr.data() + descr.size()) return std::nullopt;
  if (order != '<' && !(bytes == 1 && (order == '|' || order == '>' || order == '='))) {
    return std::nullopt;
  }
  const auto type = [bytes](int code) {
    return DLDataType{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bytes * 8), 1};
  };
  const bool whole = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
  switch (descr[1]) {
    case 'b':
      return bytes == 1 ? std::optional(DLDataType{kDLUInt, 1, 1}) : std::nullopt;
    case 'i':
      return whole ? std::optional(type(kDLInt)) : std::nullopt;
    case 'u':
      return whole ? std::optional(type(kDLUInt)) : std::nullopt;
    case 'f':
      return whole && bytes != 1 ? std::optional(type(kDLFloat)) : std::nullopt;
    default:
      return std::nullopt;
  }
}

std::optional<std::string> descr_of(DLDataType type) {
  if (type.lanes != 1) return std::nullopt;
  if (type.code == kDLUInt && type.bits == 1) return "|b1";
  const char kind = type.code == kDLInt ? 'i' : type.code == kDLUInt ? 'u' : 'f';
  if (type.bits % 8 != 0 || type.code > kDLFloat) return std::nullopt;
  std::string descr =
      (type.bits == 8 ? "|" : "<") + std::string(1, kind) + std::to_string(type.bits / 8);
  if (!dtype_of(descr)) return std::nullopt;
  return descr;
}

}  // namespace

Result<Tensor> parse_npy(std::span<const std::byte> bytes, const std::string& where) {
  const auto fail = [&](const std::string& what) {
    return input_error(one_line(where + ": " + what));
  };
  ByteReader reader(bytes);
  const std::span<const std::byte> magic = reader.take(kMagic.size());
  if (reader.failed() || std::memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0) {
    return fail("not a .npy file (wrong magic); write it with numpy.save");
  }
  const unsigned major = reader.read<std::uint8_t>();
  reader.read<std::uint8_t>();
  if (!reader.failed() && (major < 1 || major > 3)) {
    return fail("version " + std::to_string(major) + " of .npy is not known; 1 to 3 are");
  }
  const std::uint64_t length =
      major == 1 ? reader.read<std::uint16_t>() : reader.read<std::uint32_t>();
  const std::span<const std::byte> raw = reader.take(length);
  if (reader.failed()) return fail("the .npy header is cut");
  const std::optional<Header> header =
      HeaderParser({reinterpret_cast<const char*>(raw.data()), raw.size()}).parse();
  if (!header) return fail("the .npy header is damaged");
  const std::optional<DLDataType> dtype = dtype_of(header->descr);
  if (!dtype) {
    return fail("elements of type \"" + one_line(header->descr, 60) +
                "\" cannot be used; save little-endian bool, int, uint or float");
  }
  if (header->fortran_order && header->shape.size() > 1) {
    return fail("the array is in Fortran order; save numpy.ascontiguousarray of it");
  }
  const std::optional<std::uint64_t> size = shape_bytes(header->shape, *dtype);
  if (!size) return fail("shape " + shape_name(header->shape) + " does not fit in memory");
  if (reader.remaining() != *size) {
    return fail("holds " + std::to_string(reader.remaining()) + " bytes of data where " +
                shape_name(header->shape) + " " + dtype_name(*dtype) + " takes " +
                std::to_string(*size) + "; the file is cut or damaged");
  }
  Result<Tensor> tensor = Tensor::create(header->shape, *dtype);
  if (!tensor) return fail(tensor.error().message);
  const std::span<const std::byte> data = reader.take(*size);
  if (!data.empty()) std::memcpy(tensor->data(), data.data(), data.size());
  return tensor;
}

Result<Tensor> read_npy(const std::string& path) {
  Result<std::string> bytes = read_file(path, "the .npy file");
  if (!bytes) return bytes.error();
  return parse_npy(std::as_bytes(std::span(*bytes)), path);
}

Status write_npy(const std::string& path, const DLTensor& tensor) {
  const std::optional<std::string> descr = descr_of(tensor.dtype);
  if (tensor.device.device_type != kDLCPU || !is_compact(tensor) || !descr) {
    return usage_error(path + ": a " + dtype_name(tensor.dtype) + " tensor on " +
                       device_name(tensor.device) +
                       " cannot be written as .npy; it takes compact host data of a plain type");
  }
  std::string shape = "(";
  for (const std::int64_t extent : extents(tensor)) shape += std::to_string(extent) + ",";
  shape += ")";
  std::string header =
      "{'descr': '" + *descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  // Data starts at a multiple of 64, as NumPy does it.
  const std::size_t prefix = kMagic.size() + 4;
  header.append((64 - (prefix + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  if (header.size() > 0xffff) return usage_error(path + ": too many dimensions for a .npy file");
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << kMagic << '\x01' << '\x00' << static_cast<char>(header.size() & 0xff)
       << static_cast<char>(header.size() >> 8) << header;
  const std::optional<std::uint64_t> size = shape_bytes(extents(tensor), tensor.dtype);
  file.write(static_cast<const char*>(data_of(tensor)),
             static_cast<std::streamsize>(size.value_or(0)));
  file.close();
  if (!file) return input_error(path + ": cannot write the .npy file; is the folder there?");
  return {};
}

}  // namespace opmeter::runtime
