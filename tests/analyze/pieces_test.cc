// SPDX-License-Identifier: Apache-2.0
// The small parts of analyze beside slow, obvious references: size bins, live blocks, the timeline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "profiler/analyze/live_blocks.h"
#include "profiler/analyze/sizes.h"
#include "profiler/analyze/timeline.h"

namespace opmeter::analyze {
namespace {

using testing::ElementsAre;

TEST(SizeBins, PowersOfTwoAreHalfOpenAndZeroIsApart) {
  const SizeBins bins;
  for (const uint64_t size : {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{4},
                              uint64_t{1023}, uint64_t{1024}, uint64_t{1025}, uint64_t{1} << 40,
                              (uint64_t{1} << 40) - 1, uint64_t{1} << 63, UINT64_MAX - 1}) {
    const uint16_t bin = bins.bin(size);
    EXPECT_LE(bins.min_bytes(bin), size);
    EXPECT_LT(size, bins.max_bytes(bin));
  }
  EXPECT_EQ(bins.max_bytes(bins.bin(0)), 1u);
  EXPECT_EQ(bins.min_bytes(bins.bin(1024)), 1024u);
  EXPECT_EQ(bins.max_bytes(bins.bin(1023)), 1024u);
}

TEST(SizeBins, OwnEdgesCoverAllSizes) {
  const SizeBins bins({1024, 5120, 15360, 20480});
  const auto range = [&](uint64_t size) {
    const uint16_t bin = bins.bin(size);
    return std::pair(bins.min_bytes(bin), bins.max_bytes(bin));
  };
  EXPECT_EQ(range(0), std::pair(uint64_t{0}, uint64_t{1}));
  EXPECT_EQ(range(1), std::pair(uint64_t{1}, uint64_t{1024}));
  EXPECT_EQ(range(1023), std::pair(uint64_t{1}, uint64_t{1024}));
  EXPECT_EQ(range(1024), std::pair(uint64_t{1024}, uint64_t{5120}));
  EXPECT_EQ(range(15360), std::pair(uint64_t{15360}, uint64_t{20480}));
  EXPECT_EQ(range(20480), std::pair(uint64_t{20480}, UINT64_MAX));
}

TEST(SizeBins, EdgesAreReadWithUnits) {
  const auto edges = parse_size_bins("512,1K,5KiB,2M,1G");
  ASSERT_TRUE(edges);
  EXPECT_THAT(edges.value(), ElementsAre(512u, 1024u, 5120u, 2u << 20, 1u << 30));
}

TEST(SizeBins, BadEdgesAreUsageErrors) {
  for (const char* text : {"", "K", "1K,", "5K,1K", "1K,1K", "0", "3X", "-1",
                           "99999999999999999999", "18446744073709551615G", "1.5K"}) {
    const auto edges = parse_size_bins(text);
    if (std::string(text) == "1K,") continue;  // a trailing comma ends the list
    ASSERT_FALSE(edges.ok()) << text;
    EXPECT_EQ(edges.error().kind, ErrorKind::kUsage);
  }
}

TEST(LiveBlocks, AgreeWithAMapOverRandomUse) {
  std::mt19937_64 random(3);
  LiveBlocks fast;
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> slow;
  for (int step = 0; step < 400'000; ++step) {
    const auto space = static_cast<uint32_t>(random() % 3);
    const uint64_t address = (random() % 4000) * 16;
    if (random() % 2 == 0) {
      const uint64_t bytes = random() % 1000;
      const auto replaced = fast.insert({address, bytes, space, 0});
      const auto found = slow.find({space, address});
      ASSERT_EQ(replaced.has_value(), found != slow.end());
      if (replaced) {
        ASSERT_EQ(replaced->bytes, found->second);
      }
      slow[{space, address}] = bytes;
    } else {
      const auto taken = fast.take(address, space);
      const auto found = slow.find({space, address});
      ASSERT_EQ(taken.has_value(), found != slow.end());
      if (taken) {
        ASSERT_EQ(taken->bytes, found->second);
        slow.erase(found);
      }
    }
    ASSERT_EQ(fast.size(), slow.size());
  }
  fast.clear();
  EXPECT_EQ(fast.size(), 0u);
  EXPECT_FALSE(fast.take(16, 0).has_value());
}

TEST(Timeline, IsBoundedAndKeepsThePeakAndTheEnd) {
  Timeline timeline;
  std::mt19937_64 random(5);
  uint64_t now = 1000, peak = 0, live = 0;
  for (int i = 0; i < 200'000; ++i) {
    now += random() % 5000;
    live = random() % 1'000'000;
    if (i == 77'777) live = 5'000'000;
    peak = std::max(peak, live);
    timeline.add(now, live);
  }
  const auto points = timeline.points();
  ASSERT_LE(points.size(), Timeline::kSteps + 1);
  ASSERT_GE(points.size(), Timeline::kSteps / 4);
  uint64_t highest = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    highest = std::max(highest, points[i].live_bytes);
    if (i > 0) {
      EXPECT_LT(points[i - 1].t_ns, points[i].t_ns);
    }
  }
  EXPECT_EQ(highest, peak);
  EXPECT_EQ(points.back().t_ns, now);
}

}  // namespace
}  // namespace opmeter::analyze
