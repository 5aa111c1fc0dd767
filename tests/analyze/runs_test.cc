// SPDX-License-Identifier: Apache-2.0
// Runs and phases: first, warm-up, steady; latencies that add up to the nanosecond; counts per run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "opmeter/opmeter.h"
#include "profiler/analyze/fold.h"
#include "profiler/analyze/invariants.h"
#include "tests/analyze/scenario.h"

namespace opmeter::analyze {
namespace {

using reports::Phase;
using reports::Report;
using testing::ElementsAre;
using testing::IsEmpty;
using Kind = trace::EventKind;

/// A run whose conv mallocs `calls` times and frees it all.
void plain_run(Scenario& s, int calls, uint64_t op_ns = 1000, uint16_t hint = 0) {
  s.run_begin(1, 1, hint);
  s.push(1);
  for (int i = 0; i < calls; ++i) s.alloc(0x1000 + static_cast<uint64_t>(i) * 16, 10);
  s.wait(op_ns);
  for (int i = 0; i < calls; ++i) s.free(0x1000 + static_cast<uint64_t>(i) * 16);
  s.pop();
  s.run_end();
}

TEST(Runs, FirstWarmUpAndSteadyAreKeptApart) {
  Scenario s;
  plain_run(s, 24);
  plain_run(s, 4);
  for (int i = 0; i < 8; ++i) plain_run(s, 1);
  const Report report = s.report();
  EXPECT_EQ(report.runs.count, 10u);
  EXPECT_EQ(report.runs.warmup, 1u);
  EXPECT_EQ(report.runs.steady, 8u);
  EXPECT_TRUE(report.runs.warmup_detected);
  EXPECT_EQ(counts_of(report, Phase::kFirst).calls, 24u);
  EXPECT_EQ(counts_of(report, Phase::kWarmup).calls, 4u);
  EXPECT_EQ(counts_of(report, Phase::kSteady).calls, 8u);
  EXPECT_EQ(report.alloc.first_run.calls, 24u);
  const auto& steady = report.alloc.steady_per_run;
  EXPECT_EQ(steady.runs, 8u);
  EXPECT_EQ(steady.calls, 1.0);
  EXPECT_EQ(steady.bytes, 10.0);
  EXPECT_EQ(steady.min_calls, 1u);
  EXPECT_EQ(steady.max_calls, 1u);
  EXPECT_EQ(steady.runs_with_calls, 8u);
  EXPECT_EQ(report.alloc.temporary_calls, 24u + 4 + 8);
  EXPECT_EQ(op_named(report, "conv").calls_per_run, 1.0);
  EXPECT_EQ(op_named(report, "relu").calls_per_run, 0.0);
  EXPECT_THAT(check_invariants(report), IsEmpty());
}

TEST(Runs, CountsPerRunSpanSteadyRunsWithAndWithoutCalls) {
  Scenario s;
  for (const int calls : {9, 0, 3, 0, 1, 0, 3, 0, 1}) plain_run(s, calls);
  const Report report = s.report();
  const auto& m = op_named(report, "conv").alloc.steady_per_run;
  EXPECT_EQ(m.runs, 8u);
  EXPECT_EQ(m.calls_sum, 8u);
  EXPECT_EQ(m.min_calls, 0u);
  EXPECT_EQ(m.max_calls, 3u);
  EXPECT_EQ(m.runs_with_calls, 4u);
  EXPECT_EQ(m.calls, 1.0);
  EXPECT_THAT(check_invariants(report), IsEmpty());
}

TEST(Runs, SelfTimesAndGapsAreTheRunsLatencyToTheNanosecond) {
  Scenario s;
  s.run_begin();
  s.wait(13).push(1);
  s.wait(1001).push(2);
  s.event(Kind::kKernelBegin, 1);
  s.wait(57);
  s.event(Kind::kKernelEnd, 1);
  s.pop();
  s.wait(7).pop();
  s.wait(3).push(2);
  s.wait(444).pop();
  s.wait(19);
  s.run_end();
  const Report report = s.report();
  uint64_t self = 0;
  for (const auto& op : report.ops) self += op.first_run_ns.value_or(0);
  ASSERT_TRUE(report.runs.first_run_ns && report.runs.first_gap_ns);
  EXPECT_EQ(self + *report.runs.first_gap_ns, *report.runs.first_run_ns);
  EXPECT_EQ(*report.runs.first_gap_ns, 113u + 103u + 119u);
  EXPECT_EQ(op_named(report, "conv").first_run_ns, 1101u + 107u);
  EXPECT_THAT(report.runs.samples_ns, ElementsAre(*report.runs.first_run_ns));
}

TEST(Runs, LatenciesAreSelfTimesOfSteadyRuns) {
  Scenario s;
  for (int run = 0; run < 7; ++run) {
    s.run_begin();
    s.push(1);
    s.push(2);
    s.event(Kind::kKernelBegin, 1);
    s.wait(run == 0 ? 5'000 : 900);
    s.event(Kind::kKernelEnd, 1);
    s.pop();
    s.pop();
    s.run_end();
  }
  const Report report = s.report();
  const auto& conv = op_named(report, "conv");
  const auto& relu = op_named(report, "relu");
  EXPECT_EQ(conv.latency_ns.n, 6u);
  EXPECT_EQ(conv.latency_ns.p50, 200.0);
  EXPECT_EQ(conv.inclusive_ns.p50, 1400.0);
  EXPECT_EQ(relu.latency_ns.p50, 1200.0);
  EXPECT_EQ(relu.inclusive_ns.p50, 1200.0);
  EXPECT_EQ(relu.kernel_ns.p50, 1000.0);
  EXPECT_EQ(report.runs.latency_ns.p50, 1600.0);
  EXPECT_EQ(report.runs.gap_ns.p50, 200.0);
  EXPECT_DOUBLE_EQ(conv.share + relu.share, 1400.0 / 1600.0);
}

TEST(Runs, HintsDecideThePhaseAndTheFirstRunIsAlwaysFirst) {
  Scenario s;
  plain_run(s, 1, 1000, OPM_PHASE_WARMUP);
  for (int i = 0; i < 3; ++i) plain_run(s, 1, 1000, OPM_PHASE_WARMUP);
  for (int i = 0; i < 5; ++i) plain_run(s, 9, 1000, OPM_PHASE_STEADY);
  const Report report = s.report();
  EXPECT_EQ(report.runs.warmup, 3u);
  EXPECT_EQ(report.runs.steady, 5u);
  EXPECT_FALSE(report.runs.warmup_detected);
  EXPECT_EQ(report.alloc.steady_per_run.calls, 9.0);
}

TEST(Runs, AGivenWarmUpIncludesTheFirstRun) {
  Scenario s;
  for (int i = 0; i < 10; ++i) plain_run(s, 1);
  AnalyzeOptions options;
  options.warmup = 4;
  const Report report = s.report(options);
  EXPECT_EQ(report.runs.warmup, 3u);
  EXPECT_EQ(report.runs.steady, 6u);
  EXPECT_FALSE(report.runs.warmup_detected);
}

TEST(Runs, ARunThatDidNotEndIsNeitherSteadyNorInAnyLatency) {
  Scenario s;
  for (int i = 0; i < 5; ++i) plain_run(s, 2);
  s.run_begin();
  s.push(1);
  s.alloc(0x9000, 10);  // killed here
  const Report report = s.report();
  EXPECT_EQ(report.runs.count, 6u);
  EXPECT_EQ(report.runs.incomplete, 1u);
  EXPECT_EQ(report.runs.steady, 4u);
  EXPECT_EQ(report.runs.samples_ns.size(), 5u);
  EXPECT_EQ(report.alloc.steady_per_run.min_calls, 2u);
  EXPECT_EQ(counts_of(report, Phase::kWarmup).calls, 1u);
  EXPECT_THAT(check_invariants(report), IsEmpty());
}

TEST(Runs, GrowthPerRunIsTheSlopeOfLiveBytesAtTheEndOfSteadyRuns) {
  Scenario s;
  for (uint64_t run = 0; run < 20; ++run) {
    s.run_begin();
    s.alloc(0x100000 + run * 64, 48);  // leaks 48 bytes a run
    s.run_end();
  }
  const Report report = s.report();
  ASSERT_TRUE(report.alloc.growth_slope && report.alloc.growth_ci_low);
  EXPECT_DOUBLE_EQ(*report.alloc.growth_slope, 48);
  EXPECT_DOUBLE_EQ(*report.alloc.growth_ci_low, 48);
  EXPECT_DOUBLE_EQ(*report.alloc.growth_ci_high, 48);
  EXPECT_FALSE(report.runs.never_steady) << "one malloc in every run is a steady state";
}

TEST(Runs, AMillionEqualRunsNeedNoMemoryEach) {
  RunSeries<Tally> series;
  for (uint32_t run = 1; run <= 1'000'000; ++run) series.add(run, {4, 400});
  EXPECT_EQ(series.segments().size(), 1u);
  PhaseTable table(std::vector<Phase>(1'000'000, Phase::kSteady));
  uint64_t calls = 0;
  series.fold(table, [&](Phase, uint64_t n, const Tally& each) { calls += n * each.calls; });
  EXPECT_EQ(calls, 4'000'000u);
}

TEST(Runs, TheOverheadIsWhatTheEventsOfSteadyRunsCost) {
  Scenario s;
  for (int i = 0; i < 5; ++i) plain_run(s, 2, 10'000);
  trace::TraceQuality quality;
  quality.overhead_samples = 10;
  quality.overhead_ticks = 500;
  quality.ns_per_tick = 2;
  size_t i = 0;
  const Report report = analyze_events(s.definitions, quality, [&](trace::Event& e) {
    if (i == s.events.size()) return false;
    e = s.events[i++];
    return true;
  });
  EXPECT_DOUBLE_EQ(report.quality.overhead_per_event_ns.value(), 100);
  // push, 2 malloc, 2 free, pop, end: 7 events of the run's thread after its begin
  EXPECT_DOUBLE_EQ(report.quality.overhead_share.value(), 700 / *report.runs.latency_ns.mean);
}

}  // namespace
}  // namespace opmeter::analyze
