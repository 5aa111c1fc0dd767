// SPDX-License-Identifier: Apache-2.0
// From the bytes of a trace file to a report: the reader's merge order, damage, facts for `info`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiler/analyze/invariants.h"
#include "profiler/trace/writer.h"
#include "tests/analyze/scenario.h"

namespace opmeter::analyze {
namespace {

using testing::IsEmpty;

std::vector<uint8_t> file_of(const Scenario& s) {
  std::vector<uint8_t> bytes;
  trace::TraceWriter writer = trace::TraceWriter::to_memory(&bytes);
  writer.define_command({"prog", "arg"});
  writer.define_info("pid", "42");
  writer.define_info("model", "/models/cnn.so");
  for (const auto& [id, graph] : s.definitions.graphs) writer.define(graph);
  for (const auto& [id, op] : s.definitions.ops) writer.define(op);
  for (const auto& [id, pool] : s.definitions.pools) writer.define(pool);
  writer.define(trace::ThreadInfo{1, 100, "main"});
  writer.define(trace::ClockSync{0, 0, 1'700'000'000'000'000'000});
  writer.define(trace::ClockSync{1'000'000'000, 1'000'000'000, 1'700'000'001'000'000'000});
  for (const trace::Event& e : s.events) writer.event(e);
  EXPECT_TRUE(writer.finish({.lost_events = 0, .overhead_samples = 2, .overhead_ticks = 100}));
  return bytes;
}

Scenario two_runs() {
  Scenario s;
  for (int run = 0; run < 2; ++run) {
    s.run_begin();
    s.push(1);
    s.alloc(0x10, 100);
    s.alloc(0x20, 50, 1, 2);  // another thread: merged by time
    s.free(0x10);
    s.free(0x20, 2);
    s.pop();
    s.run_end();
  }
  return s;
}

TEST(TraceFile, AReportComesFromItsBytes) {
  const Scenario s = two_runs();
  const std::vector<uint8_t> bytes = file_of(s);
  auto reader = trace::TraceReader::from_bytes(bytes.data(), bytes.size(), "test.opm");
  ASSERT_TRUE(reader) << reader.error().message;
  AnalyzeOptions options;
  options.all = true;
  const auto report = analyze(*reader, options);
  ASSERT_TRUE(report) << report.error().message;
  const reports::Report& r = report.value();
  EXPECT_THAT(check_invariants(r), IsEmpty());
  EXPECT_EQ(r.runs.count, 2u);
  EXPECT_EQ(r.alloc.first_run.calls, 2u);
  EXPECT_EQ(r.alloc.temporary_calls, 4u);
  EXPECT_EQ(r.alloc.freed_unknown, 0u);
  EXPECT_EQ(r.context.pid, 42);
  EXPECT_EQ(r.context.model, "/models/cnn.so");
  EXPECT_EQ(r.context.started_at, "2023-11-14T22:13:20Z");
  EXPECT_TRUE(r.quality.complete);
  EXPECT_DOUBLE_EQ(r.quality.overhead_per_event_ns.value(), 50);
}

TEST(TraceFile, ACutFileGivesAReportThatSaysSo) {
  const std::vector<uint8_t> bytes = file_of(two_runs());
  for (size_t size = 0; size < bytes.size(); size += 7) {
    auto reader = trace::TraceReader::from_bytes(bytes.data(), size, "cut.opm");
    if (!reader) continue;
    AnalyzeOptions options;
    options.all = true;
    const auto report = analyze(*reader, options);
    if (!report) {
      EXPECT_EQ(report.error().kind, ErrorKind::kInput);
      EXPECT_THAT(report.error().message, testing::HasSubstr("no readable event"));
      continue;
    }
    EXPECT_FALSE(report.value().quality.complete);
    EXPECT_THAT(check_invariants(report.value()), IsEmpty());
  }
}

TEST(TraceFile, InfoTellsWhatTheFileHoldsWithoutAnalysingIt) {
  const std::vector<uint8_t> bytes = file_of(two_runs());
  auto reader = trace::TraceReader::from_bytes(bytes.data(), bytes.size(), "test.opm");
  ASSERT_TRUE(reader);
  const reports::TraceInfo info = describe(*reader, "test.opm");
  EXPECT_EQ(info.events, two_runs().events.size());
  EXPECT_EQ(info.file_bytes, bytes.size());
  EXPECT_EQ(info.duration_ns, 1'000'000'000u);
  EXPECT_EQ(info.ops, 2u);
  EXPECT_EQ(info.command, (std::vector<std::string>{"prog", "arg"}));
  EXPECT_TRUE(info.complete);
}

}  // namespace
}  // namespace opmeter::analyze
