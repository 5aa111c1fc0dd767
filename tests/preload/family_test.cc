// SPDX-License-Identifier: Apache-2.0
// Child processes: silent and clean by default; with --follow each has a trace of its own.
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <thread>

#include "tests/preload/recorded.h"
#include "tests/preload/replay.h"

namespace opmeter {
namespace {

struct Family {
  Recorded program;
  std::vector<Recorded> children;
  std::vector<std::string> names;  ///< of the children's files, without folder
  size_t in_all(uint64_t bytes) const {
    size_t n = program.allocations_of(bytes).size();
    for (const Recorded& child : children) n += child.allocations_of(bytes).size();
    return n;
  }
};

Family follow(std::vector<std::string> command, const std::string& output = "t.opm") {
  const ScratchFolder folder;
  setenv("OPMETER_PRELOAD", OPMETER_PRELOAD_LIBRARY, 1);
  tools::RecordOptions options;
  options.command = std::move(command);
  options.output = folder.file(output);
  options.follow = true;
  options.buffer_bytes = 16u << 20;
  Family family;
  {
    const CapturedStdout capture(folder.file("stdout"));
    Result<tools::RecordOutcome> outcome = tools::record(options);
    if (!outcome) {
      ADD_FAILURE() << outcome.error().message;
      return family;
    }
    family.program.outcome = *outcome;
  }
  read_trace(family.program.outcome.output, family.program);
  for (const tools::ChildOutcome& child : family.program.outcome.children) {
    EXPECT_EQ(child.note, "");
    EXPECT_EQ(child.lost_events, 0u);
    EXPECT_FALSE(child.still_running);
    Recorded recorded;
    read_trace(child.output, recorded);
    EXPECT_TRUE(recorded.reader->quality().complete) << recorded.reader->quality().note;
    family.children.push_back(std::move(recorded));
    family.names.push_back(std::filesystem::path(child.output).filename());
  }
  return family;
}

struct Row {
  const char* how;
  size_t children;
  size_t program, child, grandchild, image;  ///< allocations of 1009, 1013, 1019, 1021 bytes
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.how; }
std::string name_of(const testing::TestParamInfo<Row>& row) {
  std::string name = row.param.how;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}

class Followed : public testing::TestWithParam<Row> {};

TEST_P(Followed, EachChildHasItsOwnTraceAndNothingIsLost) {
  const Family family = follow({victim("family"), GetParam().how});
  EXPECT_EQ(family.program.outcome.exit_code, 0);
  EXPECT_EQ(family.program.outcome.children_unrecorded, 0u);
  ASSERT_EQ(family.children.size(), GetParam().children);
  EXPECT_EQ(family.program.allocations_of(1009).size(), GetParam().program);
  EXPECT_EQ(family.in_all(1009), GetParam().program) << "the parent's are in its own trace only";
  EXPECT_EQ(family.in_all(1013), GetParam().child);
  EXPECT_EQ(family.in_all(1019), GetParam().grandchild);
  EXPECT_EQ(family.in_all(1021), GetParam().image);
  EXPECT_EQ(family.program.allocations_of(1013).size(), 0u);
  for (const Recorded& child : family.children) {
    EXPECT_EQ(replay(child.events).alloc_on_live, 0u);
    // Stacks of the child's allocations are defined in its own file and name its own modules.
    for (const uint64_t bytes : std::vector<uint64_t>{1013, 1019, 1021}) {
      for (const trace::Event& e : child.allocations_of(bytes)) {
        const trace::StackInfo& stack = child.stack(e.stack);
        const trace::ModuleInfo* module = child.module_of(stack.frames.front(), stack.epoch);
        ASSERT_NE(module, nullptr);
        ASSERT_NE(module->path.find("family"), std::string::npos) << module->path;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    AllWays, Followed,
    testing::Values(Row{"fork", 1, 1000, 1000, 0, 0}, Row{"two", 2, 1000, 2000, 0, 0},
                    Row{"fork-exec", 1, 1000, 1000, 0, 1000}, Row{"spawn", 1, 1000, 0, 0, 1000},
                    Row{"vfork", 1, 2000, 0, 0, 1000}, Row{"grandchild", 2, 1000, 1000, 1000, 0},
                    Row{"daemon", 2, 1000, 0, 1000, 0}),
    name_of);

class Unfollowed : public testing::TestWithParam<Row> {};

TEST_P(Unfollowed, AChildIsSilentTheProgramsTraceIsCleanAndItIsCounted) {
  const Recorded r = record_program({victim("family"), GetParam().how});
  EXPECT_EQ(r.outcome.exit_code, 0);
  EXPECT_EQ(r.allocations_of(1009).size(), GetParam().program);
  EXPECT_TRUE(r.allocations_of(1013).empty());
  EXPECT_TRUE(r.allocations_of(1019).empty());
  EXPECT_TRUE(r.allocations_of(1021).empty());
  EXPECT_EQ(r.outcome.children_unrecorded, GetParam().children);
  EXPECT_TRUE(r.outcome.children.empty());
  EXPECT_EQ(replay(r.events).alloc_on_live, 0u);
  EXPECT_TRUE(r.reader->quality().complete);
}

INSTANTIATE_TEST_SUITE_P(
    AllWays, Unfollowed,
    testing::Values(Row{"fork", 1, 1000, 0, 0, 0}, Row{"two", 2, 1000, 0, 0, 0},
                    Row{"fork-exec", 2, 1000, 0, 0, 0},  // the fork, and the image that came of it
                    Row{"spawn", 1, 1000, 0, 0, 0}, Row{"vfork", 1, 2000, 0, 0, 0},
                    // Past the C library's fork handlers nobody counts; the child is silent too.
                    Row{"raw-fork", 0, 2000, 0, 0, 0}),
    name_of);

TEST(FamilyFiles, ChildrensFilesAreNamedByTheirPidWhateverTheNameThatWasAskedFor) {
  const Family plain = follow({victim("family"), "two"}, "plain.opm");
  ASSERT_EQ(plain.names.size(), 2u);
  EXPECT_NE(plain.names[0], plain.names[1]);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(plain.names[i], "plain.opm." + std::to_string(plain.program.outcome.children[i].pid));
  }
  const Family marked = follow({victim("family"), "fork"}, "of.%p.opm");
  ASSERT_EQ(marked.names.size(), 1u);
  EXPECT_EQ(marked.names[0],
            "of." + std::to_string(marked.program.outcome.children[0].pid) + ".opm");
}

TEST(FamilyFiles, AChildsTraceSaysItsOwnCommandPidAndParent) {
  const Family family = follow({victim("family"), "fork-exec"});
  ASSERT_EQ(family.children.size(), 1u);
  const trace::Definitions& child = family.children[0].reader->definitions();
  ASSERT_EQ(child.command.size(), 2u);
  EXPECT_EQ(child.command[1], "image");
  EXPECT_EQ(child.info.at("pid"), std::to_string(family.program.outcome.children[0].pid));
  EXPECT_EQ(child.info.at("parent_pid"), family.program.reader->definitions().info.at("pid"));
  EXPECT_EQ(child.info.at("allocator"), "libc.so.6");
}

TEST(FamilyFiles, ManyShortChildrenAtOnceAllGetASession) {
  const Family family =
      follow({"/bin/sh", "-c",
              "for i in 1 2 3 4 5 6 7 8 9 10; do " + victim("family") + " image & done; wait"});
  EXPECT_EQ(family.program.outcome.children_unrecorded, 0u);
  EXPECT_EQ(family.in_all(1021), 10000u);
}

TEST(FamilyFiles, AnInterruptEndsTheWaitForAChildThatStaysAndItsFileIsComplete) {
  const ScratchFolder folder;
  const pid_t recorder = fork();
  if (recorder == 0) {
    setenv("OPMETER_PRELOAD", OPMETER_PRELOAD_LIBRARY, 1);
    tools::RecordOptions options;
    options.command = {victim("family"), "stays"};
    options.output = folder.file("t.opm");
    options.follow = true;
    const CapturedStdout capture(folder.file("stdout"));
    const Result<tools::RecordOutcome> outcome = tools::record(options);
    std::ofstream said(folder.file("said"));
    if (outcome && outcome->children.size() == 1) {
      said << outcome->exit_code << " " << outcome->children[0].still_running << " "
           << outcome->children[0].output;
    }
    said.close();
    _exit(0);
  }
  // The program prints the child's pid and ends; the recorder goes on for the child.
  pid_t child = 0;
  for (int i = 0; i < 1000 && child == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::ifstream(folder.file("stdout")) >> child;
  }
  ASSERT_GT(child, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  ASSERT_EQ(waitpid(recorder, nullptr, WNOHANG), 0) << "it waits for the child";
  kill(recorder, SIGINT);
  ASSERT_EQ(waitpid(recorder, nullptr, 0), recorder);
  kill(child, SIGKILL);
  std::ifstream said(folder.file("said"));
  int exit_code = -1, still_running = -1;
  std::string output;
  said >> exit_code >> still_running >> output;
  EXPECT_EQ(exit_code, 0);
  EXPECT_EQ(still_running, 1);
  Recorded trace;
  read_trace(output, trace);
  EXPECT_EQ(trace.allocations_of(1013).size(), 1000u);
  EXPECT_TRUE(trace.reader->quality().complete);
}

TEST(ForkStorm, ChildrenOfAProgramWithBusyThreadsNeverHang) {
  const Recorded r = record_program({victim("family"), "storm", "300"});
  EXPECT_EQ(r.outcome.exit_code, 0) << "142: the watchdog";
  EXPECT_EQ(r.outcome.children_unrecorded, 300u);
  EXPECT_EQ(replay(r.events).alloc_on_live, 0u);
}

TEST(ForkStorm, FollowedChildrenOfAProgramWithBusyThreadsNeverHangAndAreComplete) {
  const Family family = follow({victim("family"), "storm", "60"});
  EXPECT_EQ(family.program.outcome.exit_code, 0) << "142: the watchdog";
  EXPECT_EQ(family.program.outcome.children_unrecorded, 0u);
  ASSERT_EQ(family.children.size(), 60u);
  for (const Recorded& child : family.children) {
    EXPECT_EQ(child.allocations_of(1013).size() % 100, 0u);
    EXPECT_GE(child.allocations_of(1013).size(), 100u);
  }
}

}  // namespace
}  // namespace opmeter
