// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/dist.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace opmeter::analyze {

bool percentile_is_known(double p, uint64_t n) {
  return std::pow(std::max(p, 1 - p), static_cast<double>(n)) <= 0.025;
}

uint64_t nearest_rank(std::span<const uint64_t> ascending, double p) {
  const double n = static_cast<double>(ascending.size());
  // p * n may land a rounding error above a whole number: that must not skip a rank.
  const double rank = std::ceil(p * n - 1e-9);
  return ascending[static_cast<size_t>(std::clamp(rank, 1.0, n)) - 1];
}

reports::Dist summarize(std::vector<uint64_t> samples) {
  reports::Dist dist;
  dist.n = samples.size();
  if (samples.empty()) return dist;
  std::sort(samples.begin(), samples.end());
  dist.min = static_cast<double>(samples.front());
  dist.max = static_cast<double>(samples.back());
  dist.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(dist.n);
  const auto percentile = [&](double p) -> std::optional<double> {
    if (!percentile_is_known(p, dist.n)) return std::nullopt;
    return static_cast<double>(nearest_rank(samples, p));
  };
  dist.p50 = percentile(0.50);
  dist.p90 = percentile(0.90);
  dist.p99 = percentile(0.99);
  return dist;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const size_t half = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(half), values.end());
  const double upper = values[half];
  if (values.size() % 2 != 0) return upper;
  return (upper +
          *std::max_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(half))) /
         2;
}

namespace {

/// Variance of Kendall's S for n values, with the correction for tied values.
double kendall_variance(std::span<const double> values) {
  std::map<double, double> ties;
  for (const double value : values) ties[value] += 1;
  const auto term = [](double n) { return n * (n - 1) * (2 * n + 5); };
  double sum = term(static_cast<double>(values.size()));
  for (const auto& [value, count] : ties) sum -= term(count);
  return sum / 18;
}

}  // namespace

std::optional<Slope> theil_sen(std::span<const double> values) {
  if (values.size() < 2) return std::nullopt;
  constexpr size_t kMost = 400;  // 79 800 pairs
  const size_t step = (values.size() + kMost - 1) / kMost;
  std::vector<double> kept;
  for (size_t i = 0; i < values.size(); i += step) kept.push_back(values[i]);
  if (kept.size() < 2) return std::nullopt;

  std::vector<double> slopes;
  slopes.reserve(kept.size() * (kept.size() - 1) / 2);
  for (size_t i = 0; i < kept.size(); ++i) {
    for (size_t j = i + 1; j < kept.size(); ++j) {
      slopes.push_back((kept[j] - kept[i]) / static_cast<double>((j - i) * step));
    }
  }
  std::sort(slopes.begin(), slopes.end());
  const size_t n = slopes.size();
  Slope result;
  result.slope = n % 2 != 0 ? slopes[n / 2] : (slopes[n / 2 - 1] + slopes[n / 2]) / 2;
  if (kept.size() >= 6) {
    const double c = 1.959964 * std::sqrt(std::max(0.0, kendall_variance(kept)));
    const double pairs = static_cast<double>(n);
    const auto at = [&](double rank) {
      return slopes[static_cast<size_t>(std::clamp(rank, 0.0, pairs - 1))];
    };
    result.low = at(std::floor((pairs - c) / 2) - 1);
    result.high = at(std::ceil((pairs + c) / 2));
  }
  return result;
}

double mann_kendall_z(std::span<const double> values) {
  if (values.size() < 4) return 0;
  double s = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = i + 1; j < values.size(); ++j) {
      s += values[j] > values[i] ? 1 : values[j] < values[i] ? -1 : 0;
    }
  }
  const double variance = kendall_variance(values);
  if (variance <= 0 || s == 0) return 0;
  return (s > 0 ? s - 1 : s + 1) / std::sqrt(variance);
}

}  // namespace opmeter::analyze
