// SPDX-License-Identifier: Apache-2.0
// Size bins of the histograms: half-open, zero apart. The default edges are powers of two, so that
// an 844 KB workspace never shares a row with a 1 KB string; a user may give edges of their own.
#ifndef OPMETER_PROFILER_ANALYZE_SIZES_H_
#define OPMETER_PROFILER_ANALYZE_SIZES_H_

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

#include "opmeter/result.h"

namespace opmeter::analyze {

/// Bins of sizes. Bin 0 is [0, 1): calls of zero bytes.
class SizeBins {
 public:
  /// Powers of two: [0,1) [1,2) [2,4) ... [2^63, 2^64 - 1].
  SizeBins() = default;
  /// Edges in ascending order: [0,1) [1,e0) [e0,e1) ... [eN, 2^64 - 1]. No edges = powers of two.
  explicit SizeBins(std::vector<uint64_t> edges);

  uint16_t bin(uint64_t bytes) const {
    const auto width = static_cast<size_t>(std::bit_width(bytes));
    if (edges_.empty() || width == 0) return static_cast<uint16_t>(width);
    // Edges of fewer bits lie below: only those of the same width are left to be compared.
    uint16_t bin = first_[width];
    while (bin <= edges_.size() && edges_[bin - 1u] <= bytes) ++bin;
    return bin;
  }
  uint64_t min_bytes(uint16_t bin) const;
  /// Exclusive, except that the last bin ends at the largest number there is.
  uint64_t max_bytes(uint16_t bin) const;

 private:
  std::vector<uint64_t> edges_;
  std::array<uint16_t, 65> first_{};  // by bits of a size: the lowest bin that it can be in
};

/// "1K,5K,15K,20K" to bytes (K, M, G = powers of 1024, no suffix = bytes). Error kUsage when an
/// edge is no number, zero, or not above the one before it.
Result<std::vector<uint64_t>> parse_size_bins(std::string_view text);

}  // namespace opmeter::analyze

#endif  // OPMETER_PROFILER_ANALYZE_SIZES_H_
