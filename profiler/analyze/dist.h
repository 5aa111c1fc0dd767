// SPDX-License-Identifier: Apache-2.0
// Summaries of raw samples: nearest-rank percentiles that are withheld when the sample is too small
// to bound them, and the robust slope of a series. Pure functions.
#ifndef OPMETER_PROFILER_ANALYZE_DIST_H_
#define OPMETER_PROFILER_ANALYZE_DIST_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "reports/model.h"

namespace opmeter::analyze {

/// True when n samples give a two-sided 95 % order-statistic interval of the p-quantile
/// (0 < p < 1): max(p, 1 - p)^n <= 0.025. p50 n >= 6, p90 n >= 36, p99 n >= 368.
bool percentile_is_known(double p, uint64_t n);

/// The nearest-rank p-quantile of ascending samples: element ceil(p n), counted from 1. n > 0.
uint64_t nearest_rank(std::span<const uint64_t> ascending, double p);

/// min, max and mean of n > 0 samples; percentiles where known. Takes the samples to sort them.
reports::Dist summarize(std::vector<uint64_t> samples);

/// Median of the values (mean of the middle two), 0 for none.
double median(std::vector<double> values);

/// A slope with its 95 % interval. The interval is absent for n < 6.
struct Slope {
  double slope = 0;
  std::optional<double> low, high;
};

/// Theil-Sen: the median of the slopes of all pairs (x = 0, 1, ...), the interval from the variance
/// of Kendall's S (Sen 1968). Above 400 values every k-th is used. Absent for n < 2.
std::optional<Slope> theil_sen(std::span<const double> values);

/// Mann-Kendall's trend test without ties correction beyond the variance term: z of S, 0 for n < 4
/// or when all values are equal. |z| > 2.576 is significant at 1 %.
double mann_kendall_z(std::span<const double> values);

}  // namespace opmeter::analyze

#endif  // OPMETER_PROFILER_ANALYZE_DIST_H_
