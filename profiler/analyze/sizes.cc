// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/sizes.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <string>

namespace opmeter::analyze {

SizeBins::SizeBins(std::vector<uint64_t> edges) : edges_(std::move(edges)) {
  // Bin 0 ends at 1 whatever the user says, so an edge there adds nothing.
  std::erase_if(edges_, [](uint64_t edge) { return edge <= 1; });
  for (size_t width = 0; width < first_.size(); ++width) {
    const auto narrower = std::count_if(edges_.begin(), edges_.end(), [width](uint64_t edge) {
      return static_cast<size_t>(std::bit_width(edge)) < width;
    });
    first_[width] = static_cast<uint16_t>(1 + narrower);
  }
}

uint64_t SizeBins::min_bytes(uint16_t bin) const {
  if (bin == 0) return 0;
  if (edges_.empty()) return uint64_t{1} << (bin - 1);
  return bin == 1 ? 1 : edges_[bin - 2u];
}

uint64_t SizeBins::max_bytes(uint16_t bin) const {
  if (bin == 0) return 1;
  if (edges_.empty()) return bin >= 64 ? UINT64_MAX : uint64_t{1} << bin;
  return bin - 1u < edges_.size() ? edges_[bin - 1u] : UINT64_MAX;
}

Result<std::vector<uint64_t>> parse_size_bins(std::string_view text) {
  std::vector<uint64_t> edges;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    const std::string quoted = "size bin '" + std::string(word) + "'";
    uint64_t value = 0;
    const auto [rest, failure] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (failure != std::errc()) return usage_error(quoted + " is not a size such as 512, 5K or 1M");
    const std::string_view suffix(rest, static_cast<size_t>(word.data() + word.size() - rest));
    int shift = 0;
    if (suffix == "K" || suffix == "k" || suffix == "KB" || suffix == "KiB") {
      shift = 10;
    } else if (suffix == "M" || suffix == "MB" || suffix == "MiB") {
      shift = 20;
    } else if (suffix == "G" || suffix == "GB" || suffix == "GiB") {
      shift = 30;
    } else if (!suffix.empty() && suffix != "B") {
      return usage_error(quoted + " has an unknown unit: use K, M or G");
    }
    if (value > (UINT64_MAX >> shift)) return usage_error(quoted + " is too large");
    value <<= shift;
    if (value == 0 || (!edges.empty() && value <= edges.back())) {
      return usage_error(quoted + " must be larger than the edge before it");
    }
    if (edges.size() == 1000) return usage_error("more than 1000 size bins");
    edges.push_back(value);
  }
  if (edges.empty()) return usage_error("no size bins given: write edges such as 1K,5K,15K,20K");
  return edges;
}

}  // namespace opmeter::analyze
