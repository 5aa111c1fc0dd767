// SPDX-License-Identifier: Apache-2.0
// See inputs.h.
#include "tools/model/inputs.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "runtime/npy.h"
#include "runtime/tvm/dtype.h"
#include "tools/cli/failure.h"
#include "tools/model/run_options.h"

namespace opmeter::tools {
namespace {

/// splitmix64 (Steele, Lea, Flood 2014): the same numbers on every machine and standard library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  /// 24 bits in [0, 1): exact as float.
  float next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    return static_cast<float>(z >> 40) * 0x1p-24f;
  }

 private:
  uint64_t state_;
};

/// A float of [0, 1) as IEEE half, cut; what is below the smallest normal number becomes 0.
uint16_t to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const int exponent = static_cast<int>(bits >> 23) - 127 + 15;
  if (exponent <= 0) return 0;
  return static_cast<uint16_t>((static_cast<uint32_t>(exponent) << 10) | ((bits >> 13) & 0x3ff));
}

template <typename T, typename Convert>
void fill(void* data, uint64_t size_bytes, Random& random, Convert convert) {
  auto* bytes = static_cast<std::byte*>(data);
  for (uint64_t i = 0; i + sizeof(T) <= size_bytes; i += sizeof(T)) {
    const T value = convert(random.next());
    std::memcpy(bytes + i, &value, sizeof value);
  }
}

}  // namespace

bool fill_random(void* data, uint64_t size_bytes, DLDataType dtype, uint64_t seed) {
  Random random(seed);
  if (dtype.code == kDLBfloat && dtype.bits == 16) {
    fill<uint16_t>(data, size_bytes, random, [](float value) {
      return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
    });
    return true;
  }
  if (dtype.code != kDLFloat) return false;
  switch (dtype.bits) {
    case 16:
      fill<uint16_t>(data, size_bytes, random, to_half);
      return true;
    case 32:
      fill<float>(data, size_bytes, random, [](float value) { return value; });
      return true;
    case 64:
      fill<double>(data, size_bytes, random, [](float value) { return double{value}; });
      return true;
    default:
      return false;
  }
}

std::vector<InputSource> set_inputs(runtime::Executor& executor,
                                    const std::vector<std::string>& assignments, uint64_t seed) {
  const std::vector<runtime::InputInfo>& inputs = executor.inputs();
  std::vector<std::string> files(inputs.size());
  for (const std::string& assignment : assignments) {
    const auto [name, file] = split_assignment(assignment, "--input", "NAME=FILE.npy");
    const uint32_t index = value_or_fail(executor.input_index(name));
    if (!files[index].empty()) {
      throw Failure(usage_error(fmt::format("--input names '{}' twice; give it once", name)));
    }
    files[index] = file;
    const runtime::Tensor tensor = value_or_fail(runtime::read_npy(file));
    const Status set = executor.set_input(index, tensor.view());
    if (!set) {
      throw Failure(
          Error{set.error().kind, fmt::format("{} (from {})", set.error().message, file)});
    }
  }
  std::vector<InputSource> sources;
  for (const runtime::InputInfo& input : inputs) {
    std::string source = files[input.index];
    if (source.empty() && input.is_param) continue;
    const bool made_up = source.empty();
    if (made_up) {
      const runtime::Tensor tensor =
          value_or_fail(runtime::Tensor::create(input.shape, input.dtype));
      source = fill_random(tensor.data(), tensor.size_bytes(), input.dtype, seed + input.index)
                   ? "random"
                   : "zeros";
      check(executor.set_input(input.index, tensor.view()));
    }
    sources.push_back({input.name, source, made_up, input.shape, runtime::dtype_name(input.dtype)});
  }
  return sources;
}

}  // namespace opmeter::tools
