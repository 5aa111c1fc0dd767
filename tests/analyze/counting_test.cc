// SPDX-License-Identifier: Apache-2.0
// The counting rules of interfaces.md, section 1: what is a call, a byte, a free, a failure, a
// peak.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiler/analyze/invariants.h"
#include "tests/analyze/scenario.h"

namespace opmeter::analyze {
namespace {

using reports::Domain;
using reports::Phase;
using reports::Report;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(Counting, AnEmptyTraceGivesAnEmptyReport) {
  const Report report = Scenario().report();
  EXPECT_EQ(report.runs.count, 0u);
  EXPECT_EQ(report.alloc.total.calls, 0u);
  EXPECT_THAT(check_invariants(report), IsEmpty());
}

TEST(Counting, MallocOfZeroBytesIsOneCallInItsOwnBin) {
  Scenario s;
  s.alloc(0x10, 0);
  s.free(0x10);
  const Report report = s.report();
  EXPECT_EQ(report.alloc.total.calls, 1u);
  EXPECT_EQ(report.alloc.total.bytes, 0u);
  EXPECT_EQ(report.alloc.total.frees, 1u);
  ASSERT_EQ(report.sizes.size(), 1u);
  EXPECT_EQ(report.sizes[0].min_bytes, 0u);
  EXPECT_EQ(report.sizes[0].max_bytes, 1u);
  EXPECT_THAT(check_invariants(report), IsEmpty());
}

TEST(Counting, FailedCallsAreCountedApart) {
  Scenario s;
  s.alloc(0, 1 << 20);
  s.alloc(0x10, 8);
  s.pool_alloc(1, 0, 64);
  const Report report = s.report();
  EXPECT_EQ(report.alloc.total.calls, 1u);
  EXPECT_EQ(report.alloc.total.bytes, 8u);
  EXPECT_EQ(report.alloc.total.failed, 1u);
  EXPECT_EQ(counts_of(report, Phase::kLoad, Domain::kWorkspace).failed, 1u);
  EXPECT_THAT(check_invariants(report), IsEmpty());
}

struct ReallocCase {
  const char* name;
  uint64_t old, address, bytes;
  uint64_t calls, total_bytes, frees, failed, peak, live;
};

class Realloc : public testing::TestWithParam<ReallocCase> {};

TEST_P(Realloc, IsACallOfTheNewSizeAndAFreeOfTheOld) {
  const ReallocCase& c = GetParam();
  Scenario s;
  s.alloc(0x10, 100);
  s.realloc(c.old, c.address, c.bytes);
  const Report report = s.report();
  EXPECT_EQ(report.alloc.total.calls, c.calls);
  EXPECT_EQ(report.alloc.total.bytes, c.total_bytes);
  EXPECT_EQ(report.alloc.total.frees, c.frees);
  EXPECT_EQ(report.alloc.total.failed, c.failed);
  EXPECT_EQ(report.alloc.live_peak_bytes, c.peak);
  EXPECT_EQ(report.alloc.live_end_bytes, c.live);
  EXPECT_EQ(report.alloc.freed_unknown, 0u);
  EXPECT_THAT(check_invariants(report), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    All, Realloc,
    testing::Values(ReallocCase{"Moves", 0x10, 0x200, 300, 2, 400, 1, 0, 400, 300},
                    ReallocCase{"GrowsInPlace", 0x10, 0x10, 300, 2, 400, 1, 0, 300, 300},
                    ReallocCase{"ShrinksInPlace", 0x10, 0x10, 40, 2, 140, 1, 0, 100, 40},
                    ReallocCase{"Fails", 0x10, 0, 300, 1, 100, 0, 1, 100, 100},
                    ReallocCase{"OfNullIsAMalloc", 0, 0x200, 300, 2, 400, 0, 0, 400, 400}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(Counting, AFailedReallocKeepsTheOldBlock) {
  Scenario s;
  s.alloc(0x10, 100);
  s.realloc(0x10, 0, 300);
  s.free(0x10);
  const Report report = s.report();
  EXPECT_EQ(report.alloc.freed_unknown, 0u);
  EXPECT_EQ(report.alloc.live_end_bytes, 0u);
}

TEST(Counting, AnotherThreadMayGetTheOldAddressWhileAReallocMoves) {
  Scenario s;
  s.alloc(0x10, 100);
  s.realloc_begin(0x10, 300, 1);
  s.alloc(0x10, 50, 1, 2);
  s.realloc_end(0x10, 0x200, 300, 1);
  s.free(0x10, 2);
  const Report report = s.report();
  EXPECT_EQ(report.quality.reused_addresses, 0u);
  EXPECT_EQ(report.alloc.freed_unknown, 0u);
  EXPECT_EQ(report.alloc.live_end_bytes, 300u);
  EXPECT_EQ(report.alloc.live_peak_bytes, 450u) << "old, new and the other thread's block";
}

TEST(Counting, AReallocOfAnUnknownBlockIsAFreeOfAnUnknownBlock) {
  Scenario s;
  s.realloc(0x77, 0x200, 300);
  const Report report = s.report();
  EXPECT_EQ(report.alloc.total.frees, 1u);
  EXPECT_EQ(report.alloc.freed_unknown, 1u);
  EXPECT_EQ(report.alloc.live_end_bytes, 300u);
}

TEST(Counting, FreesOfBlocksBornBeforeTheRecorderCountAsFreesAndApart) {
  Scenario s;
  s.free(0x99);
  const Report report = s.report();
  EXPECT_EQ(report.alloc.total.frees, 1u);
  EXPECT_EQ(report.alloc.freed_unknown, 1u);
  EXPECT_EQ(report.alloc.live_end_bytes, 0u);
}

TEST(Counting, APoolBlockMayHaveTheAddressOfItsBackingBlock) {
  Scenario s;
  s.run_begin();
  s.push(1);
  s.backing(0x1000, 4096, 1);
  s.pool_alloc(1, 0x1000, 3000);
  s.pool_free(1, 0x1000);
  s.free(0x1000);
  s.pop();
  s.run_end();
  const Report report = s.report();
  const auto& heap = counts_of(report, Phase::kFirst);
  EXPECT_EQ(heap.calls, 1u);
  EXPECT_EQ(heap.backing_calls, 1u);
  EXPECT_EQ(heap.backing_bytes, 4096u);
  EXPECT_EQ(heap.frees, 1u);
  const auto& workspace = counts_of(report, Phase::kFirst, Domain::kWorkspace);
  EXPECT_EQ(workspace.calls, 1u);
  EXPECT_EQ(workspace.bytes, 3000u);
  EXPECT_EQ(workspace.frees, 1u);
  EXPECT_EQ(report.alloc.live_end_bytes, 0u);
  EXPECT_EQ(report.workspace_pool.peak_bytes, 3000u);
  EXPECT_EQ(report.alloc.freed_unknown, 0u);
  EXPECT_THAT(check_invariants(report), IsEmpty());
}

TEST(Counting, PoolGrowthIsListedInOrderFromTheFirstRunOn) {
  Scenario s;
  s.backing(0x1000, 111, 1);  // at load: not growth in runs
  for (int run = 0; run < 3; ++run) {
    s.run_begin();
    s.push(1);
    if (run == 0) {
      s.backing(0x2000, 53248, 1, 7);
      s.pool_alloc(1, 0x2000, 50000);
      s.backing(0x3000, 4096, 1, 7);
      s.pool_alloc(1, 0x3000, 4000);
      s.backing(0x4000, 999, 2, 7);
      s.pool_alloc(2, 0x4000, 900);
    }
    s.pop();
    s.run_end();
  }
  const Report report = s.report();
  EXPECT_THAT(report.workspace_pool.growth_bytes, ElementsAre(53248u, 4096u));
  EXPECT_EQ(report.workspace_pool.growth_calls, 2u);
  EXPECT_THAT(report.tensor_pool.growth_bytes, ElementsAre(999u));
  EXPECT_EQ(op_named(report, "conv").workspace.pool_growth_bytes, 53248u + 4096u);
  for (const auto& stack : report.stacks) {
    if (stack.domain == Domain::kHeap && stack.id == 7) {
      EXPECT_EQ(stack.cause, "pool_growth");
    }
    if (stack.domain == Domain::kWorkspace) {
      EXPECT_EQ(stack.cause, "");
    }
  }
  EXPECT_THAT(check_invariants(report), IsEmpty());
}

TEST(Counting, DevicePoolsCountInTheDeviceDomain) {
  Scenario s;
  s.pool_alloc(3, 0x5000, 1024);
  const Report report = s.report();
  EXPECT_EQ(counts_of(report, Phase::kLoad, Domain::kDevice).calls, 1u);
  EXPECT_THAT(check_invariants(report), IsEmpty());
}

TEST(Counting, TemporaryMeansFreedInTheRunThatMadeIt) {
  Scenario s;
  s.alloc(0x10, 1);
  s.run_begin();
  s.free(0x10);  // made at load
  s.alloc(0x20, 1);
  s.free(0x20);  // temporary
  s.alloc(0x30, 1);
  s.realloc(0x30, 0x38, 2);  // the old block is temporary
  s.run_end();
  s.run_begin();
  s.free(0x38);  // made in run 1
  s.run_end();
  EXPECT_EQ(s.report().alloc.temporary_calls, 2u);
}

TEST(Counting, AllocationsInForbiddenScopesAreCountedWithTheirStack) {
  Scenario s;
  s.event(Scenario::Kind::kForbidBegin, 1);
  s.alloc(0x10, 8, 5, 1);
  s.alloc(0x20, 8, 6, 2);  // another thread is free to allocate
  s.event(Scenario::Kind::kForbidEnd, 1);
  s.alloc(0x30, 8, 5, 1);
  const Report report = s.report();
  EXPECT_EQ(report.alloc.forbidden_calls, 1u);
  for (const auto& stack : report.stacks) EXPECT_EQ(stack.forbidden_calls, stack.id == 5 ? 1u : 0u);
}

TEST(Counting, ExecWipesLiveBlocksAndOpenScopes) {
  Scenario s;
  s.alloc(0x10, 100);
  s.run_begin();
  s.push(1);
  s.event(Scenario::Kind::kExec, 1);
  s.free(0x10);
  s.alloc(0x20, 7);
  const Report report = s.report();
  EXPECT_EQ(report.alloc.freed_unknown, 1u);
  EXPECT_EQ(report.alloc.live_end_bytes, 7u);
  EXPECT_EQ(report.runs.incomplete, 1u);
  EXPECT_EQ(counts_of(report, Phase::kOutside).calls, 1u);
  EXPECT_THAT(check_invariants(report), IsEmpty());
}

TEST(Counting, AnAllocationAtALiveAddressMeansALostFree) {
  Scenario s;
  s.alloc(0x10, 100);
  s.alloc(0x10, 30);
  const Report report = s.report();
  EXPECT_EQ(report.quality.reused_addresses, 1u);
  EXPECT_EQ(report.alloc.live_end_bytes, 30u);
}

TEST(Counting, TheLargestMallocNamesItsOpAndStack) {
  Scenario s;
  s.alloc(0x10, 100, 3);
  s.run_begin();
  s.push(2);
  s.alloc(0x20, 5000, 4);
  s.pop();
  s.run_end();
  const Report report = s.report();
  EXPECT_EQ(report.alloc.largest.bytes, 5000u);
  EXPECT_EQ(report.alloc.largest.op, "relu");
  EXPECT_EQ(report.alloc.largest.stack, 4u);
  EXPECT_EQ(report.alloc.first_run_largest_bytes, 5000u);
}

}  // namespace
}  // namespace opmeter::analyze
