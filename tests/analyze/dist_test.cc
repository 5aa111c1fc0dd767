// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/dist.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace opmeter::analyze {
namespace {

/// The obvious percentile: the smallest sample with at least p of the samples at or below it.
uint64_t slow_percentile(std::vector<uint64_t> samples, int percent) {
  std::sort(samples.begin(), samples.end());
  for (const uint64_t candidate : samples) {
    const auto below = static_cast<size_t>(
        std::count_if(samples.begin(), samples.end(), [&](uint64_t s) { return s <= candidate; }));
    if (below * 100 >= samples.size() * static_cast<size_t>(percent)) return candidate;
  }
  return samples.back();
}

TEST(Dist, PercentilesAreNearestRanksOfTheRawSamples) {
  std::mt19937_64 random(7);
  for (const size_t n : {6u, 7u, 36u, 40u, 99u, 100u, 101u, 368u, 500u, 1000u}) {
    std::vector<uint64_t> samples;
    for (size_t i = 0; i < n; ++i) samples.push_back(random() % 50);
    const reports::Dist dist = summarize(samples);
    EXPECT_EQ(dist.n, n);
    EXPECT_EQ(dist.p50, static_cast<double>(slow_percentile(samples, 50))) << n;
    if (n >= 36) {
      EXPECT_EQ(dist.p90, static_cast<double>(slow_percentile(samples, 90))) << n;
    }
    if (n >= 368) {
      EXPECT_EQ(dist.p99, static_cast<double>(slow_percentile(samples, 99))) << n;
    }
  }
}

TEST(Dist, APercentileIsAbsentUntilEnoughSamplesBoundIt) {
  struct Case {
    double p;
    uint64_t first_n;
  };
  for (const Case c : {Case{0.50, 6}, Case{0.90, 36}, Case{0.99, 368}}) {
    EXPECT_FALSE(percentile_is_known(c.p, c.first_n - 1)) << c.p;
    EXPECT_TRUE(percentile_is_known(c.p, c.first_n)) << c.p;
  }
  const reports::Dist five = summarize({5, 1, 4, 2, 3});
  EXPECT_FALSE(five.p50.has_value());
  EXPECT_EQ(five.min, 1.0);
  EXPECT_EQ(five.max, 5.0);
  EXPECT_EQ(five.mean, 3.0);
  EXPECT_EQ(summarize({}).n, 0u);
  EXPECT_FALSE(summarize({}).min.has_value());
}

TEST(Dist, MedianIsTheMiddleOrTheMeanOfTheMiddleTwo) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({4, 1}), 2.5);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({1, 2, 3, 100}), 2.5);
}

TEST(Slope, TheilSenIgnoresAFewWildValues) {
  std::vector<double> line;
  for (int i = 0; i < 30; ++i) line.push_back(3.0 * i + 7);
  line[4] = 1e6;
  line[20] = -1e6;
  const auto slope = theil_sen(line);
  ASSERT_TRUE(slope && slope->low && slope->high);
  EXPECT_DOUBLE_EQ(slope->slope, 3);
  EXPECT_LE(*slope->low, 3);
  EXPECT_GE(*slope->high, 3);
}

TEST(Slope, TheIntervalOfNoiseCoversZeroAboutAsOftenAsItSays) {
  std::mt19937 random(11);
  std::normal_distribution<double> noise;
  int covered = 0;
  for (int trial = 0; trial < 400; ++trial) {
    std::vector<double> values;
    for (int i = 0; i < 25; ++i) values.push_back(noise(random));
    const auto slope = theil_sen(values);
    if (*slope->low <= 0 && *slope->high >= 0) ++covered;
  }
  EXPECT_GT(covered, 400 * 92 / 100);
  EXPECT_LT(covered, 400 * 99 / 100);
}

TEST(Slope, ShortSeriesHaveNoSlopeOrNoInterval) {
  EXPECT_FALSE(theil_sen(std::vector<double>{1}).has_value());
  const auto two = theil_sen(std::vector<double>{1, 5});
  ASSERT_TRUE(two.has_value());
  EXPECT_EQ(two->slope, 4);
  EXPECT_FALSE(two->low.has_value());
}

TEST(Slope, LongSeriesAreThinnedAndKeepTheirSlopePerStep) {
  std::vector<double> line;
  for (int i = 0; i < 100'000; ++i) line.push_back(0.25 * i);
  EXPECT_DOUBLE_EQ(theil_sen(line)->slope, 0.25);
}

TEST(MannKendall, SeesATrendAndNotAFlatSeries) {
  std::vector<double> up, flat;
  for (int i = 0; i < 20; ++i) {
    up.push_back(i);
    flat.push_back(5);
  }
  EXPECT_GT(mann_kendall_z(up), 2.576);
  EXPECT_EQ(mann_kendall_z(flat), 0);
  EXPECT_EQ(mann_kendall_z(std::vector<double>{1, 2, 3}), 0);
  std::reverse(up.begin(), up.end());
  EXPECT_LT(mann_kendall_z(up), -2.576);
}

}  // namespace
}  // namespace opmeter::analyze
