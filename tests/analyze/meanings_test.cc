// SPDX-License-Identifier: Apache-2.0
// What recordings with options tell: page faults, mappings, timed calls, samples, runs only,
// limited size; and why stacks allocate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "profiler/analyze/invariants.h"
#include "profiler/analyze/mapped_ranges.h"
#include "profiler/analyze/run_samples.h"
#include "profiler/analyze/sampling.h"
#include "profiler/analyze/stacks.h"
#include "reports/json.h"
#include "reports/text/text.h"
#include "tests/analyze/scenario.h"

namespace opmeter::analyze {
namespace {

using reports::Domain;
using reports::Phase;
using reports::Report;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string text_of(const Report& report) {
  return reports::render_text(report, reports::View::kDiag, {.width = 100});
}

TEST(Faults, ARunHasThoseOfTheProcessAndAnOpThoseOfItsThreadWithoutItsChildren) {
  Scenario s;
  for (uint64_t run = 0; run < 8; ++run) {
    const uint64_t thread = run * 100, process = run * 1000;
    s.run_begin();
    s.faults(thread, process);
    s.push(1);
    s.faults(thread + 1, process + 1);
    s.push(2);
    s.faults(thread + 3, process + 3);
    s.faults(thread + 10, process + 10);
    s.pop();
    s.faults(thread + 15, process + 20);
    s.pop();
    s.faults(thread + 16, process + 50);
    s.run_end();
  }
  AnalyzeOptions options;
  options.warmup = 1;
  const Report report = s.report(options);
  EXPECT_EQ(report.runs.minor_faults.n, 7u);
  EXPECT_DOUBLE_EQ(report.runs.minor_faults.min.value(), 50);
  EXPECT_DOUBLE_EQ(report.runs.minor_faults.max.value(), 50);
  EXPECT_DOUBLE_EQ(op_named(report, "conv").minor_faults.max.value(), 14 - 7);
  EXPECT_DOUBLE_EQ(op_named(report, "relu").minor_faults.p50.value(), 7);
  EXPECT_THAT(text_of(report), HasSubstr("minor page faults a run: p50 50"));
  EXPECT_THAT(reports::to_json(report), HasSubstr("\"minor_faults\""));
}

TEST(Faults, WithoutReadingsBesideOpsOnlyRunsHaveThem) {
  Scenario s;
  s.push(2);  // encloses the run
  s.run_begin();
  s.faults(5, 50);
  s.push(1);
  s.pop();
  s.faults(9, 90);
  s.run_end();
  s.pop();
  s.run_begin();
  s.faults(9, 100);
  s.faults(9, 110);
  s.run_end();
  const Report report = s.report();
  EXPECT_EQ(report.runs.minor_faults.n, 1u);
  EXPECT_DOUBLE_EQ(report.runs.minor_faults.mean.value(), 10);
  for (const auto& op : report.ops) EXPECT_EQ(op.minor_faults.n, 0u) << op.name;
}

TEST(Mappings, AreADomainOfTheirOwnAndMayBeGivenBackInParts) {
  Scenario s;
  s.alloc(0x10, 5);
  s.run_begin();
  s.push(1);
  s.map(0x100000, 0x4000);
  s.unmap(0x101000, 0x1000);  // a hole
  s.map(0x101000, 0x2000);    // over the hole and, in place, over what is there
  s.map(0, 0x1000);           // failed
  s.pop();
  s.run_end();
  s.unmap(0x0fff000, 0x10);  // nothing is mapped there
  s.unmap(0x100000, 0x3000);
  const Report report = s.report();
  EXPECT_THAT(check_invariants(report), IsEmpty());
  EXPECT_EQ(report.map.total.calls, 2u);
  EXPECT_EQ(report.map.total.bytes, 0x6000u);
  EXPECT_EQ(report.map.total.frees, 3u);
  EXPECT_EQ(report.map.total.failed, 1u);
  EXPECT_EQ(report.map.live_peak_bytes, 0x4000u);
  EXPECT_EQ(report.map.live_end_bytes, 0x1000u);
  EXPECT_EQ(op_named(report, "conv").total[static_cast<size_t>(Domain::kMap)].calls, 2u);
  EXPECT_EQ(report.alloc.total.calls, 1u) << "never added to the heap";
  EXPECT_EQ(report.alloc.live_peak_bytes, 5u);
  EXPECT_THAT(text_of(report), HasSubstr("mappings of the program 2 calls / 24"));
}

TEST(Mappings, RangesAgreeWithABytewiseMapOverRandomUse) {
  std::mt19937_64 random(11);
  MappedRanges fast;
  std::vector<bool> slow(300);
  for (int step = 0; step < 100'000; ++step) {
    const size_t begin = random() % slow.size();
    const size_t bytes = random() % (slow.size() - begin + 1);
    const bool maps = random() % 2 == 0;
    uint64_t changed = 0;
    for (size_t i = begin; i < begin + bytes; ++i) {
      changed += slow[i] != maps ? 1 : 0;
      slow[i] = maps;
    }
    ASSERT_EQ(maps ? fast.map(begin, bytes) : fast.unmap(begin, bytes), changed) << step;
  }
  EXPECT_EQ(MappedRanges().map(UINT64_MAX - 10, 100), 10u) << "cut at the end of all addresses";
}

TEST(TimedCalls, AddUpOverOpsAndStandBesideStacks) {
  Scenario s;
  s.alloc(0x10, 5, 7);
  s.took(1000);
  for (int run = 0; run < 4; ++run) {
    s.run_begin();
    s.push(1);
    s.alloc(0x20, 5, 8);
    s.took(run == 0 ? 500 : 100);
    s.free(0x20);
    s.took(20);
    s.realloc(0x10, 0x10, 6);
    s.took(3);
    s.alloc(0, 1 << 20);  // failed, and took its time
    s.took(7);
    s.pop();
    s.run_end();
  }
  AnalyzeOptions options;
  options.warmup = 1;
  const Report report = s.report(options);
  EXPECT_THAT(check_invariants(report), IsEmpty());
  ASSERT_TRUE(report.alloc.call_ns);
  EXPECT_EQ(report.alloc.call_ns->total_ns, 1000u + 530 + 3 * 130);
  EXPECT_EQ(report.alloc.call_ns->first_run_ns, 530u);
  EXPECT_DOUBLE_EQ(report.alloc.call_ns->steady_per_run_ns, 130);
  const reports::Op& conv = op_named(report, "conv");
  EXPECT_EQ(conv.alloc.call_ns->total_ns, 530u + 3 * 130);
  EXPECT_DOUBLE_EQ(conv.alloc.call_ns->steady_per_run_ns, 130);
  EXPECT_EQ(op_named(report, "(outside)").alloc.call_ns->total_ns, 1000u);
  std::map<uint32_t, uint64_t> by_stack;
  for (const auto& stack : report.stacks) by_stack[stack.id] += stack.call_ns;
  EXPECT_EQ(by_stack[7], 1000u);
  EXPECT_EQ(by_stack[8], 800u);
  EXPECT_THAT(text_of(report), HasSubstr("time in malloc and free: first run 530 ns"));

  const Report untimed = Scenario().report();
  EXPECT_FALSE(untimed.alloc.call_ns);
  EXPECT_THAT(reports::to_json(untimed), Not(HasSubstr("call_ns")));
}

// --- samples

TEST(Sampling, WeightsAreWholeAndRightInTheMean) {
  for (const uint64_t bytes : {0, 1, 100, 1000, 1024, 5000, 1 << 20}) {
    Sampling sampling(1024);
    uint64_t sum = 0;
    constexpr int kDraws = 10'000;
    for (int i = 0; i < kDraws; ++i) {
      const uint32_t weight = sampling.draw(bytes);
      ASSERT_GE(weight, 1u);
      ASSERT_LE(std::abs(weight - sampling.weight(bytes)), 1.0);
      sum += weight;
    }
    EXPECT_NEAR(static_cast<double>(sum) / kDraws, sampling.weight(bytes), 0.001) << bytes;
  }
  EXPECT_EQ(Sampling().draw(5), 1u);
}

/// A program of known totals, of which each allocation is recorded with its probability.
TEST(Sampling, EstimatesAreUnbiasedAndEveryInvariantHolds) {
  constexpr uint64_t kInterval = 4096;
  double calls_error = 0, bytes_error = 0, op_error = 0;
  constexpr int kSeeds = 40;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    std::uniform_real_distribution<double> uniform(0, 1);
    Scenario s;
    s.definitions.info["sample_bytes"] = std::to_string(kInterval);
    uint64_t calls = 0, bytes = 0, relu = 0, live = 0;
    for (int run = 0; run < 3; ++run) {
      s.run_begin();
      for (int i = 0; i < 3000; ++i) {
        const uint32_t op = i % 2 == 0 ? 1 : 2;
        const uint64_t size = (random() % 40) * (random() % 400);
        ++calls;
        bytes += size;
        relu += op == 2 ? 1 : 0;
        const bool freed = random() % 4 != 0;
        if (!freed) live += size;
        const double p = 1 - std::exp(-static_cast<double>(std::max<uint64_t>(size, 1)) /
                                      static_cast<double>(kInterval));
        if (uniform(random) >= p) continue;
        const uint64_t address = 0x1000 + calls * 16;
        s.push(op);
        s.alloc(address, size, op);
        s.pop();
        if (freed) s.free(address);
      }
      s.run_end();
    }
    const Report report = s.report();
    ASSERT_THAT(check_invariants(report), IsEmpty());
    ASSERT_EQ(report.quality.sampled_interval_bytes, kInterval);
    EXPECT_EQ(report.alloc.freed_unknown, 0u);
    EXPECT_NEAR(static_cast<double>(report.alloc.live_end_bytes), static_cast<double>(live),
                0.15 * static_cast<double>(live));
    const auto error = [](uint64_t got, uint64_t want) {
      return static_cast<double>(got) / static_cast<double>(want) - 1;
    };
    calls_error += error(report.alloc.total.calls, calls) / kSeeds;
    bytes_error += error(report.alloc.total.bytes, bytes) / kSeeds;
    op_error += error(op_named(report, "relu").alloc.total.calls, relu) / kSeeds;
    if (seed == 1) {
      EXPECT_THAT(text_of(report), HasSubstr("estimated (sampled every 4 KiB)"));
      EXPECT_THAT(reports::to_json(report), HasSubstr("\"interval_bytes\": 4096"));
    }
  }
  EXPECT_NEAR(bytes_error, 0, 0.01);
  EXPECT_NEAR(calls_error, 0, 0.15);  // calls of a few bytes have weights of thousands
  EXPECT_NEAR(op_error, 0, 0.2);
}

// --- what was left out on purpose, and what is missing

TEST(LeftOut, OutsideRunsNothingIsSaidAndItsBlocksAreNotUnknown) {
  Scenario s;
  s.definitions.info["scope"] = "runs";
  s.run_begin();
  s.alloc(0x10, 5);
  s.free(0x999);  // born outside
  s.run_end();
  const Report report = s.report();
  EXPECT_EQ(report.alloc.freed_unknown, 0u);
  EXPECT_EQ(report.alloc.total.frees, 1u);
  EXPECT_EQ(report.context.scope, "runs");
  EXPECT_TRUE(report.quality.complete);
  EXPECT_THAT(text_of(report), HasSubstr("Outside runs nothing was recorded"));
  EXPECT_THAT(text_of(report), HasSubstr("before the first run: not recorded"));
}

TEST(LeftOut, EveryKindOfLossIsSaidInTheFirstLinesAndMakesTheReportIncomplete) {
  const auto with = [](const auto& change) {
    Scenario s;
    s.alloc(0x10, 5);
    change(s);
    return s.report();
  };
  EXPECT_TRUE(with([](Scenario&) {}).quality.complete);
  EXPECT_THAT(text_of(with([](Scenario&) {})), Not(HasSubstr("!")));
  struct Case {
    Report report;
    const char* words;
  };
  for (const Case& c :
       {Case{with([](Scenario& s) { s.lost(3); }), "3 lost events"},
        Case{with([](Scenario& s) { s.lost(0); }), "1 gap"},
        Case{with([](Scenario& s) { s.definitions.info["stopped_at"] = "100 MiB"; }), "100 MiB"},
        Case{with([](Scenario& s) { s.definitions.info["kept_last"] = "67108864"; }),
             "only the last 64.0 MiB kept"}}) {
    EXPECT_FALSE(c.report.quality.complete) << c.words;
    const std::string text = text_of(c.report);
    const size_t at = text.find("! Incomplete, totals are lower bounds");
    ASSERT_NE(at, std::string::npos) << c.words;
    EXPECT_LT(at, text.find("malloc")) << "before the first number";
    EXPECT_THAT(text, HasSubstr(c.words));
    EXPECT_THAT(reports::to_json(c.report), HasSubstr("\"complete\": false"));
  }
}

// --- growth and temporary allocations

TEST(Growth, ALeakOfEachRunIsTheSlopeAndBlocksFreedInTheirRunAreTemporary) {
  Scenario s;
  for (uint64_t run = 0; run < 20; ++run) {
    s.run_begin();
    s.alloc(0x1000 + run * 16, 24);
    s.alloc(0x10, 7);
    s.free(0x10);
    s.run_end();
  }
  const Report report = s.report();
  EXPECT_DOUBLE_EQ(report.alloc.growth_slope.value(), 24);
  EXPECT_EQ(report.alloc.temporary_calls, 20u);
  EXPECT_THAT(text_of(report), HasSubstr("growth +24 B/run"));
  EXPECT_THAT(text_of(report), HasSubstr("temporary 20"));
  const auto json = reports::to_json_value(report);
  EXPECT_EQ(json["alloc"]["growth_bytes_per_run"]["slope"], 24.0);
  EXPECT_EQ(json["alloc"]["temporary_calls"], 20);
}

// --- many runs

TEST(ManyRuns, ShareEpochsAndEverySumStaysExact) {
  std::mt19937_64 random(4);
  Scenario s;
  constexpr uint64_t kRuns = 3000;
  uint64_t steady = 0, steady_max = 0, steady_with = 0, steady_min = UINT64_MAX;
  constexpr uint64_t kWarmup = 700;  // inside of what would be one epoch
  for (uint64_t run = 1; run <= kRuns; ++run) {
    s.run_begin();
    s.push(1);
    const uint64_t calls = random() % 4;
    for (uint64_t i = 0; i < calls; ++i) {
      s.alloc(0x10 + i * 16, random() % 100, static_cast<uint32_t>(1 + random() % 3));
    }
    for (uint64_t i = 0; i < calls; ++i) s.free(0x10 + i * 16);
    s.pop();
    s.run_end();
    if (run <= kWarmup) continue;
    steady += calls;
    steady_min = std::min(steady_min, calls);
    steady_max = std::max(steady_max, calls);
    steady_with += calls > 0 ? 1 : 0;
  }
  AnalyzeOptions options;
  options.warmup = kWarmup;
  const Report report = s.report(options);
  EXPECT_THAT(check_invariants(report), IsEmpty());
  const reports::PerRun& m = report.alloc.steady_per_run;
  EXPECT_EQ(m.runs, kRuns - kWarmup);
  EXPECT_EQ(m.calls_sum, steady);
  EXPECT_EQ(m.min_calls, steady_min);
  EXPECT_EQ(m.max_calls, steady_max);
  EXPECT_EQ(m.runs_with_calls, steady_with);
  // Detected, hinted or cut short: whatever decides, the lists agree.
  EXPECT_THAT(check_invariants(s.report()), IsEmpty());
  Scenario hinted = s;
  uint64_t n = 0;
  for (trace::Event& e : hinted.events) {
    if (e.kind == trace::EventKind::kRunBegin && ++n <= 1234) e.api = 1;
  }
  const Report by_hint = hinted.report();
  EXPECT_THAT(check_invariants(by_hint), IsEmpty());
  EXPECT_EQ(by_hint.runs.warmup, 1233u);
  Scenario cut = s;
  cut.events.resize(cut.events.size() - 2);
  EXPECT_THAT(check_invariants(cut.report()), IsEmpty());
}

TEST(ManyRuns, ThatOverlapKeepEverySum) {
  Scenario s;
  for (int round = 0; round < 300; ++round) {
    const uint64_t a = s.run_begin(1, 1);
    const uint64_t b = s.run_begin(1, 2);
    for (uint64_t i = 0; i < 3; ++i) {
      s.alloc(0x1000 + i * 16, 10, 1, 1);
      s.alloc(0x2000 + i * 16, 10, 1, 2);
      s.free(0x1000 + i * 16, 1);
      s.free(0x2000 + i * 16, 2);
    }
    s.event(trace::EventKind::kRunEnd, 2).run = b;
    s.event(trace::EventKind::kRunEnd, 1).run = a;
  }
  const Report report = s.report();
  EXPECT_THAT(check_invariants(report), IsEmpty());
  EXPECT_EQ(report.alloc.steady_per_run.min_calls, 3u);
  EXPECT_EQ(report.alloc.steady_per_run.max_calls, 3u);
  EXPECT_EQ(report.alloc.total.calls, 1800u);
}

TEST(ManyRuns, SpansComeBackFromTheirBytes) {
  std::mt19937_64 random(8);
  RunSamples samples;
  std::vector<std::pair<uint32_t, uint64_t>> want;
  uint32_t run = 0;
  for (int i = 0; i < 50'000; ++i) {
    const auto step = random() % 8;
    run = step < 4 ? run : step < 7 ? run + 1 : static_cast<uint32_t>(random());
    const uint64_t value = random() >> (2 + random() % 62);
    samples.add(run, value);
    want.emplace_back(run, value);
  }
  std::vector<std::pair<uint32_t, uint64_t>> got;
  samples.each([&](uint32_t r, uint64_t value) { got.emplace_back(r, value); });
  EXPECT_EQ(got, want);
  const RunSamples copy = samples;
  EXPECT_EQ(copy.size(), want.size());
}

// --- causes

TEST(Causes, APoolThatKeepsWhatItGetsGrowsAndOneThatKeepsNothingMisses) {
  Scenario s;
  s.definitions.pools[7] = {7, "naive", 2, 1, 0};
  s.run_begin();
  s.backing(0x10, 100, 1, 1);  // caching
  s.backing(0x20, 100, 7, 2);  // naive
  s.backing(0x30, 100, 7, 3);
  s.alloc(0x40, 100, 3);  // not always for the pool
  s.run_end();
  std::map<uint32_t, std::string> cause;
  for (const auto& stack : s.report().stacks) cause[stack.id] = stack.cause;
  EXPECT_EQ(cause[1], "pool_growth");
  EXPECT_EQ(cause[2], "pool_miss");
  EXPECT_EQ(cause[3], "");
}

TEST(Causes, KnownCodeIsNamedByTheFrameThatAsked) {
  const auto frame = [](const char* function, const char* module) {
    reports::Frame f;
    f.function = function;
    f.module = module;
    return f;
  };
  const auto gomp = frame("GOMP_parallel", "/usr/lib/x86_64-linux-gnu/libgomp.so.1");
  const auto nameless_gomp = frame("", "/usr/lib/x86_64-linux-gnu/libgomp.so.1");
  const auto program = frame("conv2d", "/models/cnn.so");
  const auto tls = frame("__tls_get_addr", "/lib64/ld-linux-x86-64.so.2");
  const auto new_ = frame("operator new(unsigned long)", "/usr/lib/libstdc++.so.6");
  const auto queue = frame("tvm::runtime::SpscTaskQueue::Push", "/usr/lib/libtvm_runtime.so");
  EXPECT_EQ(cause_of({gomp, program}), "thread_team");
  EXPECT_EQ(cause_of({nameless_gomp, program}), "thread_team");
  EXPECT_EQ(cause_of({new_, queue, program}), "thread_team");
  EXPECT_EQ(cause_of({tls, program}), "thread_local");
  EXPECT_EQ(cause_of({program, gomp}), "") << "the program's own, inside a parallel region";
  EXPECT_EQ(cause_of({}), "");
}

}  // namespace
}  // namespace opmeter::analyze
