// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/warmup.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "profiler/analyze/dist.h"

namespace opmeter::analyze {
namespace {

constexpr size_t kBlock = 10;  // runs per block median
constexpr size_t kFewestBlocks = 4;
constexpr double kTolerance = 0.05;  // smaller moves of the level are noise to a reader

/// Runs before the calls per run have reached their final level.
size_t allocations_settle_after(std::span<const WarmupSample> runs) {
  const size_t half = runs.size() / 2;
  const auto [low, high] = std::minmax_element(
      runs.begin() + static_cast<ptrdiff_t>(half), runs.end(),
      [](const auto& a, const auto& b) { return a.alloc_calls < b.alloc_calls; });
  size_t settled = 0;
  for (size_t i = 0; i < half; ++i) {
    if (runs[i].alloc_calls < low->alloc_calls || runs[i].alloc_calls > high->alloc_calls) {
      settled = i + 1;
    }
  }
  return settled;
}

std::vector<double> block_medians(std::span<const WarmupSample> runs) {
  std::vector<double> medians;
  for (size_t begin = 0; begin + kBlock <= runs.size(); begin += kBlock) {
    std::vector<double> block;
    for (const WarmupSample& run : runs.subspan(begin, kBlock)) {
      block.push_back(static_cast<double>(run.latency_ns));
    }
    medians.push_back(median(std::move(block)));
  }
  return medians;
}

/// A significant trend that also matters: the medians of the first and the last third differ.
bool has_trend(std::span<const double> values) {
  if (std::abs(mann_kendall_z(values)) <= 2.576) return false;
  const size_t third = std::max<size_t>(1, values.size() / 3);
  const double head = median({values.begin(), values.begin() + static_cast<ptrdiff_t>(third)});
  const double tail = median({values.end() - static_cast<ptrdiff_t>(third), values.end()});
  return std::abs(tail - head) > kTolerance * std::max(std::min(head, tail), 1e-9);
}

/// At most `most` values, evenly spaced: the trend test is quadratic.
std::vector<double> calls_of(std::span<const WarmupSample> runs, size_t most) {
  std::vector<double> calls;
  const size_t step = std::max<size_t>(1, (runs.size() + most - 1) / most);
  for (size_t i = 0; i < runs.size(); i += step) {
    calls.push_back(static_cast<double>(runs[i].alloc_calls));
  }
  return calls;
}

}  // namespace

WarmupEnd detect_warmup(std::span<const WarmupSample> runs) {
  WarmupEnd end;
  if (runs.empty()) return end;
  size_t settled = allocations_settle_after(runs);
  std::span<const WarmupSample> rest = runs.subspan(settled);

  std::vector<double> medians = block_medians(rest);
  if (medians.size() >= kFewestBlocks) {
    const double level = *std::max_element(
        medians.begin() + static_cast<ptrdiff_t>(medians.size() / 2), medians.end());
    size_t slow = 0;
    while (slow < medians.size() / 2 && medians[slow] > level * (1 + kTolerance)) ++slow;
    settled += slow * kBlock;
    rest = rest.subspan(slow * kBlock);
    medians.erase(medians.begin(), medians.begin() + static_cast<ptrdiff_t>(slow));
    // Of a long series the last blocks decide: what is steady now may have drifted for an hour.
    constexpr size_t kMostBlocks = 400;
    const size_t skip = medians.size() > kMostBlocks ? medians.size() - kMostBlocks : 0;
    end.never_steady = has_trend(std::span<const double>(medians).subspan(skip));
  }
  if (rest.size() >= kBlock) end.never_steady |= has_trend(calls_of(rest, 400));
  end.warmup_runs = settled;
  return end;
}

}  // namespace opmeter::analyze
