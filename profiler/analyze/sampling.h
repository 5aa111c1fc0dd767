// SPDX-License-Identifier: Apache-2.0
// What a recorded allocation stands for when the recorder took a sample: with Poisson sampling of
// mean interval R, an allocation of s bytes is recorded with probability p = 1 - exp(-s/R), so each
// recorded one stands for 1/p allocations of s bytes (Horvitz-Thompson: unbiased for every sum).
//
// Weights are drawn as whole numbers, so that every list of a report adds up to the same total:
// 1/p = 1.58 gives 1 or 2, and 1.58 in the mean. The draws follow the golden-ratio sequence, which
// is even over every subsequence of evenly spaced events, and the same each time.
#ifndef OPMETER_PROFILER_ANALYZE_SAMPLING_H_
#define OPMETER_PROFILER_ANALYZE_SAMPLING_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace opmeter::analyze {

class Sampling {
 public:
  Sampling() = default;
  /// 0 = everything was recorded.
  explicit Sampling(uint64_t interval_bytes) : interval_(static_cast<double>(interval_bytes)) {}

  bool on() const { return interval_ > 0; }

  /// For the next recorded allocation in the order of the trace.
  uint32_t draw(uint64_t bytes) {
    if (!on()) return 1;
    phase_ += 0x9e3779b97f4a7c15ULL;
    const double fraction = static_cast<double>(phase_ >> 11) * 0x1p-53;
    return static_cast<uint32_t>(std::min(std::floor(weight(bytes) + fraction), 4294967295.0));
  }

  /// 1/p. Zero bytes are sampled like one.
  double weight(uint64_t bytes) const {
    return on() ? 1 / -std::expm1(-static_cast<double>(std::max<uint64_t>(bytes, 1)) / interval_)
                : 1;
  }

 private:
  double interval_ = 0;
  uint64_t phase_ = 0;
};

}  // namespace opmeter::analyze

#endif  // OPMETER_PROFILER_ANALYZE_SAMPLING_H_
