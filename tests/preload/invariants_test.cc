// SPDX-License-Identifier: Apache-2.0
// From a running program to its Report: the sums of ../design's invariants hold per domain on every
// program of these tests, and what annotated.c says is charged as it was said.
#include "profiler/analyze/invariants.h"

#include "profiler/analyze/analyze.h"
#include "tests/preload/recorded.h"

namespace opmeter {
namespace {

reports::Report report_of(const Recorded& r) {
  analyze::AnalyzeOptions options;
  options.all = true;
  options.symbolize = false;
  Result<reports::Report> report = analyze::analyze(*r.reader, options);
  if (!report) {
    ADD_FAILURE() << report.error().message;
    return {};
  }
  return *report;
}

TEST(Invariants, HoldForEveryProgramHoweverItEnds) {
  const std::vector<std::vector<std::string>> commands = {{victim("deterministic"), "text"},
                                                          {victim("deterministic"), "containers"},
                                                          {victim("deterministic"), "aligned"},
                                                          {victim("deterministic"), "threads"},
                                                          {victim("deterministic"), "leaks"},
                                                          {victim("entry_points")},
                                                          {victim("operators_new")},
                                                          {victim("annotated")},
                                                          {victim("odd_stacks"), "50"},
                                                          {victim("how_it_ends"), "kill"},
                                                          {victim("how_it_ends"), "exec"},
                                                          {victim("how_it_ends"), "thread"}};
  for (const auto& command : commands) {
    SCOPED_TRACE(command.front() + " " + command.back());
    const Recorded r = record_program(command);
    const reports::Report report = report_of(r);
    EXPECT_EQ(analyze::check_invariants(report), std::vector<std::string>{});
    const HeapTotals totals = heap_totals(r);
    EXPECT_EQ(report.alloc.total.calls, totals.calls);
    EXPECT_EQ(report.alloc.total.bytes, totals.bytes);
  }
}

const reports::Op* find_op(const reports::Report& report, const std::string& name) {
  for (const reports::Op& op : report.ops) {
    if (op.name == name) return &op;
  }
  ADD_FAILURE() << "no op " << name;
  static const reports::Op none;
  return &none;
}

TEST(Attribution, EachAllocationGoesToTheOpThatWasOpenOrGaveTheToken) {
  const reports::Report report = report_of(record_program({victim("annotated")}));
  EXPECT_EQ(report.runs.count, 3u);
  const auto heap = [](const reports::Op* op) { return op->total[0]; };
  // first: 107 three times and, as backing of its pool, 4096 once.
  const reports::Op* first = find_op(report, "first");
  EXPECT_EQ(heap(first).calls, 4u);
  EXPECT_EQ(heap(first).bytes, 3u * 107 + 4096);
  EXPECT_EQ(heap(first).backing_calls, 1u);
  EXPECT_EQ(first->alloc.first_run.calls, 2u);
  EXPECT_EQ(first->alloc.steady_per_run.calls_sum, 2u);
  EXPECT_EQ(first->workspace.first_run.calls, 1u);
  EXPECT_EQ(first->workspace.first_run.bytes, 1000u);
  EXPECT_EQ(first->workspace.pool_growth_bytes, 4096u);
  // (executor): 103 in each run. (outside): 113 after each, 101 before.
  const reports::Op* executor = find_op(report, "(executor)");
  EXPECT_EQ(heap(executor).calls, 3u);
  EXPECT_EQ(heap(executor).bytes, 3u * 103);
  // second: 109, the worker's 301, pthread_create's own; 307 after detaching is inferred to the
  // only open run's op.
  const reports::Op* second = find_op(report, "second");
  EXPECT_GE(heap(second).bytes, 3u * (109 + 301 + 307));
  EXPECT_GE(report.quality.inferred_context, 3u);
  EXPECT_EQ(report.alloc.forbidden_calls, 3u);
  EXPECT_EQ(report.context.model, "toy");
  ASSERT_EQ(first->inputs.size(), 1u);
  EXPECT_EQ(first->inputs[0].dtype, "float32");
}

TEST(Attribution, SelfTimesAndGapsAddUpToEachRunsLatency) {
  const reports::Report report = report_of(record_program({victim("annotated")}));
  // Two steady runs: with mean x n every sum is exact.
  const double runs = static_cast<double>(report.runs.latency_ns.n);
  ASSERT_EQ(report.runs.latency_ns.n, 2u);
  double parts = *report.runs.gap_ns.mean * runs;
  for (const reports::Op& op : report.ops) {
    if (op.latency_ns.mean) parts += *op.latency_ns.mean * static_cast<double>(op.latency_ns.n);
  }
  EXPECT_NEAR(parts, *report.runs.latency_ns.mean * runs, 0.5);
}

}  // namespace
}  // namespace opmeter
