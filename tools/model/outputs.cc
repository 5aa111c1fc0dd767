// SPDX-License-Identifier: Apache-2.0
// See outputs.h.
#include "tools/model/outputs.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/npy.h"
#include "runtime/tvm/dtype.h"
#include "tools/cli/failure.h"
#include "tools/model/run_options.h"

namespace opmeter::tools {
namespace {

double from_half(uint16_t half) {
  const int exponent = (half >> 10) & 0x1f;
  const double mantissa = half & 0x3ff;
  double value = 0;
  if (exponent == 0) {
    value = std::ldexp(mantissa, -24);
  } else if (exponent == 31) {
    value = mantissa == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  } else {
    value = std::ldexp(mantissa + 1024, exponent - 25);
  }
  return (half & 0x8000) != 0 ? -value : value;
}

struct Half {
  uint16_t bits;
};

/// The distance of two elements, without the rounding of a common type where it would hide one.
template <typename T>
double distance(T got, T want) {
  return static_cast<double>(got < want ? static_cast<long double>(want) - got
                                        : static_cast<long double>(got) - want);
}
double distance(double got, double want) {
  if (got == want || (std::isnan(got) && std::isnan(want))) return 0;
  const double diff = std::fabs(got - want);
  return std::isnan(diff) ? std::numeric_limits<double>::infinity() : diff;
}
double distance(float got, float want) { return distance(double{got}, double{want}); }
double distance(Half got, Half want) { return distance(from_half(got.bits), from_half(want.bits)); }

template <typename T>
double magnitude(T value) {
  return std::fabs(static_cast<double>(value));
}
double magnitude(Half value) { return std::fabs(from_half(value.bits)); }

template <typename T>
Comparison compare_as(const DLTensor& got, const DLTensor& want, uint64_t elements, double rtol,
                      double atol) {
  Comparison result;
  result.elements = elements;
  const auto* a = static_cast<const std::byte*>(runtime::data_of(got));
  const auto* b = static_cast<const std::byte*>(runtime::data_of(want));
  for (uint64_t i = 0; i < elements; ++i) {
    T x, y;
    std::memcpy(&x, a + i * sizeof(T), sizeof(T));
    std::memcpy(&y, b + i * sizeof(T), sizeof(T));
    const double diff = distance(x, y);
    if (diff > result.max_abs_diff) result.max_abs_diff = diff;
    // Written so that an infinite difference is outside whatever the tolerance.
    const double limit = atol + rtol * magnitude(y);
    if (diff != 0 && (!(diff <= limit) || std::isinf(diff))) ++result.outside;
  }
  return result;
}

uint64_t tensor_bytes(const DLTensor& tensor) {
  return runtime::shape_bytes(runtime::extents(tensor), tensor.dtype).value_or(0);
}

}  // namespace

std::vector<Expectation> read_expectations(const runtime::Executor& executor,
                                           const std::vector<std::string>& assignments) {
  std::vector<Expectation> expectations;
  for (const std::string& assignment : assignments) {
    const auto [word, file] = split_assignment(assignment, "--expect", "I=FILE.npy");
    uint32_t index = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), index);
    const size_t count = executor.outputs().size();
    if (error != std::errc{} || rest != word.data() + word.size() || index >= count) {
      throw Failure(usage_error(fmt::format(
          "--expect {}: there is no output '{}'; outputs are 0..{}", assignment, word, count - 1)));
    }
    runtime::Tensor tensor = value_or_fail(runtime::read_npy(file));
    const runtime::TensorInfo& output = executor.outputs()[index];
    const bool same_shape = std::equal(tensor.shape().begin(), tensor.shape().end(),
                                       output.shape.begin(), output.shape.end());
    if (!same_shape || !runtime::same_dtype(tensor.dtype(), output.dtype)) {
      throw Failure(usage_error(fmt::format(
          "--expect {}: {} holds {} {} but output {} is {} {}; give a file of that shape and dtype",
          index, file, runtime::dtype_name(tensor.dtype()), runtime::shape_name(tensor.shape()),
          index, runtime::dtype_name(output.dtype), runtime::shape_name(output.shape))));
    }
    expectations.push_back({index, file, std::move(tensor)});
  }
  return expectations;
}

std::optional<Comparison> compare(const DLTensor& got, const DLTensor& want, double rtol,
                                  double atol) {
  const DLDataType type = got.dtype;
  if (type.lanes != 1) return std::nullopt;
  const uint64_t elements = tensor_bytes(got) / runtime::element_bytes(type);
  const auto as = [&]<typename T>(T) { return compare_as<T>(got, want, elements, rtol, atol); };
  switch (type.code) {
    case kDLFloat:
      if (type.bits == 64) return as(double{});
      if (type.bits == 32) return as(float{});
      if (type.bits == 16) return as(Half{});
      return std::nullopt;
    case kDLInt:
      if (type.bits == 64) return as(int64_t{});
      if (type.bits == 32) return as(int32_t{});
      if (type.bits == 16) return as(int16_t{});
      if (type.bits == 8) return as(int8_t{});
      return std::nullopt;
    case kDLUInt:
      if (type.bits == 64) return as(uint64_t{});
      if (type.bits == 32) return as(uint32_t{});
      if (type.bits == 16) return as(uint16_t{});
      if (type.bits == 8 || type.bits == 1) return as(uint8_t{});
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

std::string sha256(const DLTensor& tensor) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  if (EVP_Digest(runtime::data_of(tensor), tensor_bytes(tensor), digest, &length, EVP_sha256(),
                 nullptr) != 1) {
    throw Failure(unavailable_error("libcrypto gives no SHA-256; see openssl's configuration"));
  }
  std::string hex;
  for (unsigned int i = 0; i < length; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

}  // namespace opmeter::tools
