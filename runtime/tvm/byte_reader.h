// SPDX-License-Identifier: Apache-2.0
// byte_reader.h: a bounds-checked little-endian cursor over bytes somebody else wrote. A read past
// the end fails the reader for good and yields zeros; callers check failed() once per group.
#ifndef OPMETER_RUNTIME_TVM_BYTE_READER_H_
#define OPMETER_RUNTIME_TVM_BYTE_READER_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace opmeter::runtime {

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool failed() const { return failed_; }
  std::size_t offset() const { return offset_; }
  std::size_t remaining() const { return bytes_.size() - offset_; }

  /// An integer in little-endian order.
  template <typename T>
  T read() {
    static_assert(std::is_integral_v<T> && std::endian::native == std::endian::little);
    T value{};
    const std::span<const std::byte> raw = take(sizeof(T));
    if (!raw.empty()) std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }

  /// The next `count` bytes, borrowed; empty (and failed) when there are fewer.
  std::span<const std::byte> take(std::uint64_t count) {
    if (failed_ || count > remaining()) {
      failed_ = true;
      return {};
    }
    const std::span<const std::byte> raw = bytes_.subspan(offset_, static_cast<std::size_t>(count));
    offset_ += raw.size();
    return raw;
  }

  /// u64 length + bytes, borrowed.
  std::string_view read_string() {
    const std::span<const std::byte> raw = take(read<std::uint64_t>());
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }

  /// u64 count of items that take at least `min_item_bytes` each: fails early on a count that
  /// cannot be true, so that no caller reserves memory for it.
  std::uint64_t read_count(std::uint64_t min_item_bytes) {
    const std::uint64_t count = read<std::uint64_t>();
    if (!failed_ && count > remaining() / min_item_bytes) failed_ = true;
    return failed_ ? 0 : count;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t offset_ = 0;
  bool failed_ = false;
};

}  // namespace opmeter::runtime

#endif  // OPMETER_RUNTIME_TVM_BYTE_READER_H_
