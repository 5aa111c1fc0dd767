// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/warmup.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

namespace opmeter::analyze {
namespace {

struct Case {
  const char* name;
  size_t runs;
  std::function<WarmupSample(size_t)> sample;
  uint64_t least, most;  // warm-up runs
  bool never_steady;
};

class Warmup : public testing::TestWithParam<Case> {};

TEST_P(Warmup, EndsWhereTheRunsSettle) {
  const Case& c = GetParam();
  std::vector<WarmupSample> runs;
  for (size_t i = 0; i < c.runs; ++i) runs.push_back(c.sample(i));
  const WarmupEnd end = detect_warmup(runs);
  EXPECT_GE(end.warmup_runs, c.least);
  EXPECT_LE(end.warmup_runs, c.most);
  EXPECT_EQ(end.never_steady, c.never_steady);
}

uint64_t noise(size_t i, uint64_t level, uint64_t spread) {
  std::mt19937_64 random(i * 7919 + 3);
  return level - spread / 2 + random() % (spread + 1);
}

INSTANTIATE_TEST_SUITE_P(
    All, Warmup,
    testing::Values(Case{"NoRuns", 0,
                         [](size_t) {
                           return WarmupSample{1, 1};
                         },
                         0, 0, false},
                    Case{"OneRunIsSteady", 1,
                         [](size_t) {
                           return WarmupSample{100, 7};
                         },
                         0, 0, false},
                    Case{"TwoDifferentRunsBelieveTheLater", 2,
                         [](size_t i) {
                           return WarmupSample{100, i == 0 ? 60u : 4u};
                         },
                         1, 1, false},
                    Case{"ConstantCallsNeedNoWarmUp", 19,
                         [](size_t) {
                           return WarmupSample{100, 52};
                         },
                         0, 0, false},
                    Case{"TwoRunsOfExtraCalls", 100,
                         [](size_t i) {
                           return WarmupSample{1000, i < 2 ? 6000u : 64u};
                         },
                         2, 2, false},
                    Case{"CallsThatVaryInsideTheirFinalBandAreSteady", 60,
                         [](size_t i) {
                           return WarmupSample{1000, 52 + (i * 7) % 5};
                         },
                         0, 0, false},
                    Case{"APeriodicMallocIsSteady", 100,
                         [](size_t i) {
                           return WarmupSample{1000, i % 10 == 3 ? 5u : 0u};
                         },
                         0, 0, false},
                    Case{"NoisyLatencyIsSteady", 200,
                         [](size_t i) {
                           return WarmupSample{noise(i, 1000, 60), 4};
                         },
                         0, 0, false},
                    Case{"SlowLeadingBlocksAreWarmUp", 200,
                         [](size_t i) {
                           return WarmupSample{noise(i, i < 40 ? 1500 : 1000, 40), 4};
                         },
                         30, 40, false},
                    Case{"OneSlowRunIsNoWarmUp", 200,
                         [](size_t i) {
                           return WarmupSample{i == 25 ? 90'000 : noise(i, 1000, 40), 4};
                         },
                         0, 0, false},
                    Case{"LatencyThatKeepsRisingIsNeverSteady", 300,
                         [](size_t i) {
                           return WarmupSample{noise(i, 1000 + 2 * i, 40), 4};
                         },
                         0, 0, true},
                    Case{"CallsThatKeepRisingAreNeverSteady", 100,
                         [](size_t i) {
                           return WarmupSample{1000, 10 + i};
                         },
                         50, 50, true},
                    Case{"FewRunsAreJudgedByCallsAlone", 19,
                         [](size_t i) {
                           return WarmupSample{i < 5 ? 9000u : 1000u, 4};
                         },
                         0, 0, false}),
    [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace opmeter::analyze
