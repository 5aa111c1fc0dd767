// SPDX-License-Identifier: Apache-2.0
// Whom an allocation is charged to: the op and run of its thread, of the thread that lent its
// context, of the only open run, or nobody.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiler/analyze/invariants.h"
#include "tests/analyze/scenario.h"

namespace opmeter::analyze {
namespace {

using reports::Phase;
using reports::Report;
using testing::IsEmpty;
using Kind = trace::EventKind;

uint64_t heap_calls(const Report& report, const std::string& op) {
  return op_named(report, op).total[0].calls;
}

TEST(Context, MallocsAreChargedToTheInnermostOpAndBetweenOpsToTheExecutor) {
  Scenario s;
  s.alloc(0x1, 1);  // load
  s.run_begin();
  s.alloc(0x2, 1);  // executor
  s.push(1);
  s.alloc(0x3, 1);  // conv
  s.push(2);
  s.alloc(0x4, 1);  // relu in conv
  s.pop();
  s.alloc(0x5, 1);  // conv
  s.pop();
  s.alloc(0x6, 1);  // executor
  s.run_end();
  s.alloc(0x7, 1);  // outside
  const Report report = s.report();
  EXPECT_EQ(heap_calls(report, "conv"), 2u);
  EXPECT_EQ(heap_calls(report, "relu"), 1u);
  EXPECT_EQ(heap_calls(report, "(executor)"), 2u);
  EXPECT_EQ(heap_calls(report, "(outside)"), 2u);
  EXPECT_EQ(counts_of(report, Phase::kLoad).calls, 1u);
  EXPECT_EQ(counts_of(report, Phase::kFirst).calls, 5u);
  EXPECT_EQ(counts_of(report, Phase::kOutside).calls, 1u);
  EXPECT_EQ(report.quality.inferred_context, 0u);
  EXPECT_THAT(check_invariants(report), IsEmpty());
}

TEST(Context, AWorkerIsChargedToTheRunAndOpItWasLent) {
  Scenario s;
  const uint64_t run = s.run_begin();
  s.push(1);
  s.attach(run, 1, 2);
  s.alloc(0x10, 1, 1, 2);
  s.pop();
  s.push(2);
  s.alloc(0x11, 1, 1, 2);  // still for conv
  s.detach(2);
  s.pop();
  s.run_end();
  const Report report = s.report();
  EXPECT_EQ(heap_calls(report, "conv"), 2u);
  EXPECT_EQ(report.quality.inferred_context, 0u);
  ASSERT_EQ(report.threads.size(), 2u);
  EXPECT_EQ(report.threads[0].role, "caller");
  EXPECT_EQ(report.threads[1].role, "worker");
  EXPECT_EQ(report.threads[1].calls, 2u);
  EXPECT_EQ(report.threads[1].first_run_calls, 2u);
  EXPECT_THAT(check_invariants(report), IsEmpty());
}

TEST(Context, ATokenWithoutAnOpIsTheExecutorOfItsRun) {
  Scenario s;
  const uint64_t run = s.run_begin();
  s.attach(run, 0, 2);
  s.alloc(0x10, 1, 1, 2);
  s.run_end();
  EXPECT_EQ(heap_calls(s.report(), "(executor)"), 1u);
}

TEST(Context, AThreadWithoutContextIsInferredFromTheOnlyOpenRun) {
  Scenario s;
  s.run_begin();
  s.push(2);
  s.alloc(0x10, 1, 1, 9);
  s.pop();
  s.run_end();
  const Report report = s.report();
  EXPECT_EQ(heap_calls(report, "relu"), 1u);
  EXPECT_EQ(report.quality.inferred_context, 1u);
  EXPECT_EQ(report.threads.back().role, "other");
}

TEST(Context, AThreadWithoutContextIsOutsideWhenSeveralRunsAreOpen) {
  Scenario s;
  s.run_begin(1, 1);
  s.run_begin(1, 2);
  s.alloc(0x10, 1, 1, 9);
  const Report report = s.report();
  EXPECT_EQ(heap_calls(report, "(outside)"), 1u);
  EXPECT_EQ(counts_of(report, Phase::kOutside).calls, 1u);
  EXPECT_EQ(report.quality.inferred_context, 0u);
  EXPECT_THAT(check_invariants(report), IsEmpty());
}

TEST(Context, ATokenOfARunThatEndedIsWorthNothing) {
  Scenario s;
  const uint64_t run = s.run_begin();
  s.attach(run, 1, 2);
  s.run_end();
  s.alloc(0x10, 1, 1, 2);
  const Report report = s.report();
  EXPECT_EQ(heap_calls(report, "(outside)"), 1u);
  EXPECT_THAT(check_invariants(report), IsEmpty());
}

TEST(Context, TwoExecutorsInTwoThreadsKeepTheirOpsApart) {
  Scenario s;
  s.definitions.graphs[2] = {2, "other"};
  s.op(3, "dense", 2);
  s.run_begin(1, 1);
  s.run_begin(2, 2);
  s.push(1, 1);
  s.push(3, 2);
  s.alloc(0x10, 1, 1, 1);
  s.alloc(0x20, 1, 1, 2);
  s.alloc(0x30, 1, 1, 2);
  s.pop(2);
  s.pop(1);
  s.run_end(2);
  s.run_end(1);
  const Report report = s.report();
  EXPECT_EQ(heap_calls(report, "conv"), 1u);
  EXPECT_EQ(heap_calls(report, "dense"), 2u);
  EXPECT_EQ(counts_of(report, Phase::kFirst).calls, 3u) << "run 1 of each graph is first";
  EXPECT_THAT(check_invariants(report), IsEmpty());
}

TEST(Context, TheUndeclaredOpIsUnnamedAndALostDefinitionIsNumbered) {
  Scenario s;
  s.run_begin();
  s.push(0);
  s.alloc(0x10, 1);
  s.pop();
  s.push(77);
  s.alloc(0x20, 1);
  s.pop();
  s.run_end();
  const Report report = s.report();
  EXPECT_EQ(heap_calls(report, "(unnamed)"), 1u);
  EXPECT_EQ(heap_calls(report, "(op 77)"), 1u);
  EXPECT_THAT(check_invariants(report), IsEmpty());
}

TEST(Context, OpsOutsideRunsKeepTheirNames) {
  Scenario s;
  s.push(1);
  s.alloc(0x10, 1);
  s.pop();
  const Report report = s.report();
  EXPECT_EQ(heap_calls(report, "conv"), 1u);
  EXPECT_EQ(counts_of(report, Phase::kLoad).calls, 1u);
  EXPECT_EQ(op_named(report, "conv").latency_ns.n, 1u) << "without runs every span counts";
  EXPECT_THAT(check_invariants(report), IsEmpty());
}

TEST(Context, ARunInsideAnOpIsTheExecutorsUntilItsOwnOpsOpen) {
  Scenario s;
  s.push(1);  // a range around everything
  s.run_begin();
  s.alloc(0x10, 1);
  s.pop();  // unbalanced: must not close the enclosing op
  s.run_end();
  s.alloc(0x20, 1);
  s.pop();
  const Report report = s.report();
  EXPECT_EQ(heap_calls(report, "(executor)"), 1u);
  EXPECT_EQ(heap_calls(report, "conv"), 1u);
  EXPECT_THAT(check_invariants(report), IsEmpty());
}

TEST(Context, LossIsCountedAndTheThreadGoesOnWithTheContextItIsTold) {
  Scenario s;
  const uint64_t run = s.run_begin();
  s.push(1);
  s.event(Kind::kLost, 1).bytes = 12;
  trace::Event& resync = s.event(Kind::kResync, 1);
  resync.run = run;
  resync.ref = 2;
  resync.api = 1;
  s.alloc(0x10, 1);
  s.pop();
  s.run_end();
  const Report report = s.report();
  EXPECT_EQ(report.quality.lost_events, 12u);
  EXPECT_EQ(heap_calls(report, "relu"), 1u);
  EXPECT_EQ(report.runs.incomplete, 1u);
  EXPECT_FALSE(report.runs.first_run_ns.has_value()) << "its latency is not known exactly";
  EXPECT_THAT(check_invariants(report), IsEmpty());
}

TEST(Context, ARunWhoseBeginWasLostIsTakenUpAgain) {
  Scenario s;
  s.event(Kind::kLost, 1).bytes = 3;
  trace::Event& resync = s.event(Kind::kResync, 1);
  resync.run = 41;
  resync.ref = 2;
  resync.api = 2;
  s.alloc(0x10, 1);
  s.pop();
  s.pop();
  s.alloc(0x11, 1);
  s.event(Kind::kRunEnd, 1).run = 41;
  const Report report = s.report();
  EXPECT_EQ(report.runs.count, 1u);
  EXPECT_EQ(heap_calls(report, "relu"), 1u);
  EXPECT_EQ(heap_calls(report, "(executor)"), 1u);
  EXPECT_THAT(check_invariants(report), IsEmpty());
}

TEST(Context, UnbalancedScopesAndUnknownIdsGiveNumbersNotCrashes) {
  Scenario s;
  for (const Kind kind : {Kind::kOpPop, Kind::kRunEnd, Kind::kContextDetach, Kind::kKernelEnd,
                          Kind::kForbidEnd, Kind::kSpanEnd, Kind::kThreadExit, Kind::kResync,
                          Kind::kReallocEnd, Kind::kPoolFree, Kind::kKernelBegin}) {
    s.event(kind, 4'000'000'000u);
  }
  s.attach(999, 999, 5);
  s.alloc(0x10, 1, 12345, 5);
  s.pool_alloc(4'000'000'000u, 0x10, 5);
  s.pool_free(4'000'000'000u, 0x10);
  s.run_begin(4'000'000'000u);
  s.push(UINT32_MAX);
  s.alloc(0x20, UINT64_MAX);
  EXPECT_THAT(check_invariants(s.report()), IsEmpty());
}

}  // namespace
}  // namespace opmeter::analyze
