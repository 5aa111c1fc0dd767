// SPDX-License-Identifier: Apache-2.0
// How a program ends, forks, execs: nothing of what it allocated is lost, its exit code is its own.
#include <fstream>

#include "tests/preload/recorded.h"

namespace opmeter {
namespace {

struct Ending {
  const char* how;
  int exit_code;
  size_t allocations;
};

void PrintTo(const Ending& ending, std::ostream* out) { *out << ending.how; }

class HowItEnds : public testing::TestWithParam<Ending> {};

TEST_P(HowItEnds, AllAllocationsAreInTheTraceAndTheExitCodeIsTheProgramsOwn) {
  const Recorded r = record_program({victim("how_it_ends"), GetParam().how});
  EXPECT_EQ(r.outcome.exit_code, GetParam().exit_code);
  EXPECT_EQ(r.allocations_of(1009).size(), GetParam().allocations);
  EXPECT_TRUE(r.reader->quality().complete) << r.reader->quality().note;
  EXPECT_EQ(r.reader->quality().lost_events, 0u);
}

INSTANTIATE_TEST_SUITE_P(
    AllWays, HowItEnds,
    testing::Values(Ending{"return", 0, 1000}, Ending{"exit7", 7, 1000}, Ending{"_exit", 8, 1000},
                    Ending{"quick_exit", 9, 1000}, Ending{"abort", 128 + 6, 1000},
                    Ending{"kill", 128 + 9, 1000}, Ending{"segv", 128 + 11, 1000},
                    Ending{"thread", 0, 1000}, Ending{"close-all", 0, 1000},
                    Ending{"fork", 0, 1000},   // the child's are its own affair
                    Ending{"exec", 0, 2000}),  // both images of the one process
    [](const testing::TestParamInfo<Ending>& row) {
      std::string name = row.param.how;
      for (char& c : name) c = c == '-' ? '_' : c;
      return "By_" + name;
    });

TEST(Lifecycle, AnExecIsMarkedAndItsModulesBelongToANewEpoch) {
  const Recorded r = record_program({victim("how_it_ends"), "exec"});
  EXPECT_EQ(r.of_kind(trace::EventKind::kExec).size(), 1u);
  const std::vector<trace::Event> all = r.allocations_of(1009);
  ASSERT_EQ(all.size(), 2000u);
  for (const trace::Event& e : {all.front(), all.back()}) {
    const trace::StackInfo& stack = r.stack(e.stack);
    const trace::ModuleInfo* module = r.module_of(stack.frames.front(), stack.epoch);
    ASSERT_NE(module, nullptr);
    EXPECT_NE(module->path.find("how_it_ends"), std::string::npos) << module->path;
  }
  EXPECT_NE(r.stack(all.front().stack).epoch, r.stack(all.back().stack).epoch);
}

TEST(Lifecycle, AStaticProgramRunsUnchangedAndItIsSaidWhyNothingWasRecorded) {
  const Recorded r = record_program({victim("static_program"), "3"});
  EXPECT_EQ(r.outcome.exit_code, 0);
  EXPECT_FALSE(r.outcome.recorded);
  EXPECT_NE(r.outcome.note.find("statically linked"), std::string::npos) << r.outcome.note;
}

TEST(Lifecycle, AProgramThatIsNotThereIs127AndOneThatCannotBeRunIs126) {
  setenv("OPMETER_PRELOAD", OPMETER_PRELOAD_LIBRARY, 1);
  const ScratchFolder folder;
  tools::RecordOptions options;
  options.output = folder.file("t.opm");
  options.command = {"no-such-program-here"};
  Result<tools::RecordOutcome> missing = tools::record(options);
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->exit_code, 127);
  EXPECT_FALSE(missing->note.empty());

  std::ofstream(folder.file("data.txt")) << "not a program";
  options.command = {folder.file("data.txt")};
  Result<tools::RecordOutcome> refused = tools::record(options);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->exit_code, 126);
  EXPECT_FALSE(refused->note.empty());
  EXPECT_FALSE(std::filesystem::exists(options.output)) << "no empty trace is left behind";
}

TEST(Lifecycle,
     AnOutputThatExistsIsNotReplacedWithoutForceAndAnUnwritableOneStopsBeforeTheProgram) {
  setenv("OPMETER_PRELOAD", OPMETER_PRELOAD_LIBRARY, 1);
  const ScratchFolder folder;
  tools::RecordOptions options;
  options.command = {"/bin/sh", "-c", "echo ran > " + folder.file("ran")};
  options.output = folder.file("kept.opm");
  std::ofstream(options.output) << "precious";
  Result<tools::RecordOutcome> exists = tools::record(options);
  ASSERT_FALSE(exists);
  EXPECT_EQ(exists.error().kind, ErrorKind::kUsage);
  options.output = "/no/such/folder/t.opm";
  EXPECT_FALSE(tools::record(options));
  EXPECT_FALSE(std::filesystem::exists(folder.file("ran")));
}

TEST(Lifecycle, AFullDiskIsReportedAndTheProgramDoesNotNotice) {
  setenv("OPMETER_PRELOAD", OPMETER_PRELOAD_LIBRARY, 1);
  tools::RecordOptions options;
  options.command = {victim("how_it_ends"), "exit7"};
  options.output = "/dev/full";
  options.force = true;
  Result<tools::RecordOutcome> outcome = tools::record(options);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->exit_code, 7);
  EXPECT_NE(outcome->note.find("/dev/full"), std::string::npos) << outcome->note;
}

TEST(Lifecycle, ABufferOfFourChunksBoundsMemoryAndStillLosesNothing) {
  tools::RecordOptions options;
  options.buffer_bytes = 4 * 64 * 1024;
  const Recorded r = record_program({victim("deterministic"), "leaks"}, options);
  EXPECT_EQ(r.outcome.lost_events, 0u);
  EXPECT_TRUE(r.reader->quality().complete);
  EXPECT_GE(heap_totals(r).calls, 20000u);
}

TEST(Lifecycle, ThreadsKeepTheirNamesAndKernelIds) {
  const Recorded r = record_program({victim("how_it_ends"), "thread"});
  const auto& threads = r.reader->definitions().threads;
  ASSERT_EQ(threads.size(), 2u);
  for (const auto& [id, thread] : threads) {
    EXPECT_EQ(thread.name, "how_it_ends");
    EXPECT_GT(thread.tid, 0);
  }
  EXPECT_EQ(r.of_kind(trace::EventKind::kThreadExit).size(), 1u);
}

TEST(Python, StockPythonRunsUnchangedWithItsOutputAndExitCode) {
  setenv("OPMETER_PRELOAD", OPMETER_PRELOAD_LIBRARY, 1);
  const ScratchFolder folder;
  const std::string out = folder.file("out.txt");
  tools::RecordOptions options;
  options.output = folder.file("t.opm");
  options.command = {
      "/bin/sh", "-c",
      "exec python3 -c 'import json,sys; print(json.dumps([1,2])); sys.exit(5)' > " + out};
  if (std::system("python3 -c 'pass' > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "no python3 on this machine";
  Result<tools::RecordOutcome> outcome = tools::record(options);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->exit_code, 5);
  std::ifstream in(out);
  std::string line;
  std::getline(in, line);
  EXPECT_EQ(line, "[1, 2]");
  EXPECT_TRUE(outcome->recorded);
  EXPECT_GT(outcome->events, 1000u);
  EXPECT_EQ(outcome->lost_events, 0u);
}

}  // namespace
}  // namespace opmeter
