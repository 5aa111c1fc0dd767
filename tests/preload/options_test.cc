// SPDX-License-Identifier: Apache-2.0
// What each option of the recorder leaves in the trace, with programs whose counts are known
// (loads.c), and what happens when the writer does not keep up.
#include <cmath>
#include <set>

#include "profiler/analyze/analyze.h"
#include "profiler/analyze/invariants.h"
#include "tests/preload/recorded.h"

namespace opmeter {
namespace {

using trace::Event;
using trace::EventKind;

reports::Report report_of(const Recorded& r) {
  analyze::AnalyzeOptions options;
  options.all = true;
  options.symbolize = false;
  Result<reports::Report> report = analyze::analyze(*r.reader, options);
  if (!report) {
    ADD_FAILURE() << report.error().message;
    return {};
  }
  EXPECT_EQ(analyze::check_invariants(*report), std::vector<std::string>{});
  return *report;
}

TEST(SampleBytes, EstimatesTotalsWithoutBias) {
  constexpr double kCalls = 200'000;
  tools::RecordOptions options;
  options.sample_bytes = 4096;
  const Recorded r = record_program({victim("loads"), "many", "200000"}, options);
  const double bytes = std::stod(r.out);
  const reports::Report report = report_of(r);
  // A block of s bytes is kept with probability p = 1 - exp(-s/4096): 37 % of these. The estimate
  // of the bytes has a relative deviation of 0.26 %, that of the calls of 0.7 %: six of them.
  EXPECT_NEAR(static_cast<double>(report.alloc.total.bytes) / bytes, 1, 0.016);
  EXPECT_NEAR(static_cast<double>(report.alloc.total.calls) / kCalls, 1, 0.042);
  std::set<uint64_t> live;
  size_t sampled = 0;
  for (const Event& e : r.events) {
    if (e.kind == EventKind::kAlloc) {
      ++sampled;
      live.insert(e.address);
    }
    if (e.kind == EventKind::kFree) {
      EXPECT_EQ(live.erase(e.address), 1u) << "free of what is not in the sample";
    }
  }
  EXPECT_NEAR(static_cast<double>(sampled), 0.37 * kCalls, 0.02 * kCalls);
  EXPECT_LT(live.size(), 50u);
}

TEST(ScopeRuns, RecordsRunsOnlyAndTheReleasesOfTheirBlocks) {
  tools::RecordOptions options;
  options.scope_runs = true;
  const Recorded r = record_program({victim("loads"), "runs"}, options);
  EXPECT_EQ(r.allocations_of(51).size(), 0u);
  EXPECT_EQ(r.allocations_of(53).size(), 0u);
  EXPECT_EQ(r.allocations_of(61).size(), 20u);
  const std::vector<Event> outlive = r.allocations_of(67);
  ASSERT_EQ(outlive.size(), 10u);
  for (const Event& block : outlive) {
    bool freed = false;
    for (const Event& e : r.of_kind(EventKind::kFree)) {
      freed |= e.address == block.address && e.time_ns > block.time_ns;
    }
    EXPECT_TRUE(freed) << "freed after its run";
  }
  const reports::Report report = report_of(r);
  EXPECT_EQ(report.runs.count, 10u);
  EXPECT_EQ(report.alloc.total.calls, 30u);
  EXPECT_EQ(report.alloc.total.bytes, 20u * 61 + 10u * 67);
}

TEST(TimeCalls, EveryCallHasItsDuration) {
  tools::RecordOptions options;
  options.time_calls = true;
  const Recorded r = record_program({victim("loads"), "many", "20000"}, options);
  size_t timed = 0, longer_than_nothing = 0;
  for (const Event& e : r.events) {
    if (e.kind != EventKind::kAlloc && e.kind != EventKind::kFree) continue;
    EXPECT_NE(e.flags & trace::kTimed, 0) << "event at " << e.time_ns;
    ++timed;
    longer_than_nothing += e.duration > 0;
  }
  EXPECT_GE(timed, 40'000u);
  EXPECT_GT(longer_than_nothing, timed * 9 / 10);
  for (const Event& e : record_program({victim("loads"), "many", "10"}).events) {
    EXPECT_EQ(e.flags & trace::kTimed, 0) << "not asked for";
  }
}

TEST(Faults, AreCountedOfRunsAndWhenAskedForOfOps) {
  for (const bool of_ops : {false, true}) {
    tools::RecordOptions options;
    options.op_faults = of_ops;
    const reports::Report report = report_of(record_program({victim("loads"), "faults"}, options));
    size_t declared = 0;
    for (const reports::Op& op : report.ops) {
      if (op.name != "touches" && op.name != "rests") continue;
      ++declared;
      EXPECT_EQ(op.minor_faults.n > 0, of_ops) << op.name;
      if (!of_ops) continue;
      if (op.name == "touches") {
        EXPECT_GE(op.minor_faults.p50.value_or(0), 64) << op.name;
      } else {
        EXPECT_LT(op.minor_faults.p50.value_or(99), 10) << op.name;
      }
    }
    EXPECT_EQ(declared, 2u);
    EXPECT_GE(report.runs.minor_faults.p50.value_or(0), 64);
  }
}

TEST(FramePointers, GiveTheStacksOfCodeThatHasThem) {
  tools::RecordOptions fp;
  fp.frame_pointers = true;
  const Recorded full = record_program({victim("odd_stacks_fp"), "50"});
  const Recorded by_pointers = record_program({victim("odd_stacks_fp"), "50"}, fp);
  EXPECT_EQ(by_pointers.reader->definitions().info.at("stacks"), "fp");
  // Recursion of known depth, compared by the number of frames in the program itself.
  // The C library has no frame pointers, so that _start is out of their reach.
  const auto own_frames = [](const Recorded& r, size_t out_of_reach) {
    std::multiset<size_t> depths;
    for (const Event& e : r.allocations_of(112)) {
      const trace::StackInfo& stack = r.stack(e.stack);
      size_t own = 0;
      for (const uint64_t frame : stack.frames) {
        const trace::ModuleInfo* module = r.module_of(frame, stack.epoch);
        own += module != nullptr && module->path.find("odd_stacks_fp") != std::string::npos;
      }
      depths.insert(own - out_of_reach);
    }
    return depths;
  };
  ASSERT_GT(own_frames(full, 0).size(), 10u);
  EXPECT_EQ(own_frames(by_pointers, 0), own_frames(full, 1));
}

TEST(MaxFile, KeepsTheEndOrTheBeginningAsAsked) {
  constexpr uint64_t kLimit = 256 * 1024;
  for (const bool stop : {false, true}) {
    SCOPED_TRACE(stop ? "stop" : "keep last");
    tools::RecordOptions options;
    options.max_file_bytes = kLimit;
    options.stop_when_full = stop;
    const Recorded r = record_program({victim("loads"), "long", "300000"}, options);
    EXPECT_EQ(r.outcome.exit_code, 0);
    EXPECT_LE(r.outcome.file_bytes, kLimit * 5 / 4);
    EXPECT_EQ(r.allocations_of(12321).size(), stop ? 1u : 0u);
    EXPECT_EQ(r.allocations_of(12347).size(), stop ? 0u : 1u);
    EXPECT_GT(r.events.size(), 20'000u);
    EXPECT_LT(r.events.size(), 600'000u);
    EXPECT_EQ(r.reader->definitions().info.contains(stop ? "stopped_at" : "kept_last"), true);
    const reports::Report report = report_of(r);
    EXPECT_FALSE(report.quality.complete);
    EXPECT_EQ(report.quality.damaged_blocks, 0u);
    EXPECT_EQ(report.quality.lost_events, 0u) << "left out on purpose is not lost";
    // What is kept is whole: its stacks are known.
    for (const Event& e : r.of_kind(EventKind::kAlloc)) {
      EXPECT_TRUE(r.reader->definitions().stacks.contains(e.stack)) << e.time_ns;
    }
  }
}

TEST(MaxFile, ALargerLimitThanTheTraceChangesNothing) {
  tools::RecordOptions options;
  options.max_file_bytes = 64 << 20;
  const Recorded r = record_program({victim("loads"), "long", "30000"}, options);
  EXPECT_EQ(r.allocations_of(12321).size() + r.allocations_of(12347).size(), 2u);
  EXPECT_TRUE(report_of(r).quality.complete);
}

TEST(Flush, WritesWhatIsBufferedByCallAndBySignal) {
  for (const char* how : {"call", "signal", "not at all"}) {
    SCOPED_TRACE(how);
    const ScratchFolder folder;
    setenv("OPMETER_PRELOAD", OPMETER_PRELOAD_LIBRARY, 1);
    tools::RecordOptions options;
    options.output = folder.file("trace.opm");
    options.command = {victim("loads"), "flush", how, options.output, folder.file("then.opm")};
    const Result<tools::RecordOutcome> outcome = tools::record(options);
    ASSERT_TRUE(outcome);
    ASSERT_EQ(outcome->exit_code, 0);
    Recorded then;
    if (std::string(how) == "not at all") {
      // A file that nobody asked to be written may hold no event yet, and no block border.
      const Result<trace::TraceReader> early = trace::TraceReader::open(folder.file("then.opm"));
      if (!early) continue;
    }
    read_trace(folder.file("then.opm"), then);
    EXPECT_EQ(then.allocations_of(4321).size(), std::string(how) == "not at all" ? 0u : 1u);
  }
}

TEST(BackPressure, TheProgramWaitsForABoundedTimeThenEveryLossIsCounted) {
  const ScratchFolder folder;
  const std::string file = folder.file("trace.opm");
  // Little memory, and a recorder that is stopped while 100 000 pairs are made.
  const std::string command = "OPMETER_PRELOAD='" OPMETER_PRELOAD_LIBRARY "' '" OPMETER_COMMAND
                              "' record -q --buffer 256K -o " +
                              file + " -- " + victim("loads") + " stall 100000 >" +
                              folder.file("seconds") + " 2>" + folder.file("said");
  ASSERT_EQ(std::system(command.c_str()), 0);  // NOLINT: the shell is wanted
  int seconds = 99;
  std::ifstream(folder.file("seconds")) >> seconds;
  EXPECT_LT(seconds, 20) << "2 s are the bound; machines may be busy";
  std::ifstream said(folder.file("said"));
  std::string line;
  std::getline(said, line);
  EXPECT_NE(line.find("events were lost"), std::string::npos) << line;
  Recorded r;
  read_trace(file, r);
  uint64_t pairs = 0;
  std::set<uint64_t> of_73;
  for (const Event& e : r.events) {
    if (e.kind == EventKind::kAlloc && e.bytes == 73) {
      ++pairs;
      of_73.insert(e.address);
    }
    if (e.kind == EventKind::kFree && of_73.contains(e.address)) ++pairs;
  }
  const uint64_t lost = r.reader->quality().lost_events;
  EXPECT_GT(lost, 100'000u);
  EXPECT_EQ(pairs + lost, 200'002u) << "recorded or counted as lost";
  EXPECT_EQ(r.allocations_of(12347).size(), 1u) << "recorded again when the recorder woke up";
}

}  // namespace
}  // namespace opmeter
