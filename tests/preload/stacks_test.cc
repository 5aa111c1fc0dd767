// SPDX-License-Identifier: Apache-2.0
#include "tests/preload/recorded.h"

namespace opmeter {
namespace {

/// Frames of the executable in the stack of the one 1013-byte malloc.
size_t own_frames(const Recorded& r, const std::string& program, const trace::StackInfo& stack) {
  size_t n = 0;
  for (const uint64_t frame : stack.frames) {
    const trace::ModuleInfo* module = r.module_of(frame, stack.epoch);
    n += module != nullptr && module->path.find(program) != std::string::npos;
  }
  return n;
}

TEST(Stacks, AreWholeFromTheCallOfMallocToTheStartOfTheProgram) {
  for (const char* program : {"deep_stack", "deep_stack_no_pie"}) {
    for (const int depth : {0, 1, 20, 1000, 3000}) {
      SCOPED_TRACE(std::string(program) + " " + std::to_string(depth));
      const Recorded r = record_program({victim(program), std::to_string(depth)});
      const std::vector<trace::Event> found = r.allocations_of(1013);
      ASSERT_EQ(found.size(), 1u);
      const trace::StackInfo& stack = r.stack(found[0].stack);
      EXPECT_FALSE(stack.cut);
      // descend() depth + 1 times, main, _start.
      EXPECT_EQ(own_frames(r, program, stack), static_cast<size_t>(depth) + 3);
      // The interposer's own frames are not there, and the first frame is the program's call.
      for (const uint64_t frame : stack.frames) {
        const trace::ModuleInfo* module = r.module_of(frame, stack.epoch);
        ASSERT_NE(module, nullptr);
        EXPECT_EQ(module->path.find("libopmeter_preload"), std::string::npos);
      }
      EXPECT_NE(r.module_of(stack.frames.front(), stack.epoch)->path.find(program),
                std::string::npos);
    }
  }
}

TEST(Stacks, DeeperThanTheBufferAreCutAtTheRootAndFlagged) {
  const Recorded r = record_program({victim("deep_stack"), "20000"});
  const std::vector<trace::Event> found = r.allocations_of(1013);
  ASSERT_EQ(found.size(), 1u);
  const trace::StackInfo& stack = r.stack(found[0].stack);
  EXPECT_TRUE(stack.cut);
  EXPECT_GE(stack.frames.size(), 1024u);
}

TEST(Stacks, FreesCarryOneOnlyWhenAskedFor) {
  for (const bool asked : {false, true}) {
    tools::RecordOptions options;
    options.free_stacks = asked;
    const Recorded r = record_program({victim("deterministic"), "aligned"}, options);
    size_t with = 0, all = 0;
    for (const trace::Event& e : r.of_kind(trace::EventKind::kFree)) {
      ++all;
      with += e.stack != 0;
    }
    EXPECT_EQ(with, asked ? all : 0u);
    EXPECT_GT(all, 900u);
  }
}

TEST(Stacks, CanBeLeftOut) {
  tools::RecordOptions options;
  options.no_stacks = true;
  const Recorded r = record_program({victim("deterministic"), "aligned"}, options);
  EXPECT_TRUE(r.reader->definitions().stacks.empty());
  EXPECT_GT(heap_totals(r).calls, 900u);
}

TEST(Stacks, EqualOnesHaveOneId) {
  const Recorded r = record_program({victim("how_it_ends"), "return"});
  std::map<uint32_t, size_t> ids;
  for (const trace::Event& e : r.allocations_of(1009)) ++ids[e.stack];
  EXPECT_EQ(ids.size(), 1u);
}

/// The recorder's self-check walks every stack again with a libunwind cursor, all caches off.
TEST(Stacks, EqualALibunwindCursorWalkInEveryEvent) {
  struct Row {
    std::vector<std::string> command;
    uint64_t at_least;
  };
  std::vector<Row> rows = {{{victim("odd_stacks"), "1000"}, 15'000},
                           {{victim("odd_stacks_fp"), "1000"}, 15'000},
                           {{victim("deterministic"), "containers"}, 1000},
                           {{victim("deterministic"), "threads"}, 4000},
                           {{victim("deep_stack"), "3000"}, 1}};
  if (access("/usr/bin/python3", X_OK) == 0) {
    rows.push_back({{"/usr/bin/python3", "-c", "import json, re, collections"}, 500});
  }
  for (const Row& row : rows) {
    SCOPED_TRACE(row.command[0]);
    tools::RecordOptions options;
    options.verify_stacks = true;
    const Recorded r = record_program(row.command, options);
    EXPECT_EQ(r.outcome.exit_code, 0);
    EXPECT_GE(r.outcome.stacks_verified, row.at_least);
    EXPECT_EQ(r.outcome.stacks_different, 0u);
  }
}

TEST(Stacks, AreFoundByOurOwnRulesExceptBelowASwitchedContext) {
  // glibc's start of a context has no unwind information at the address before it, where a return
  // address is looked up: the three allocations a round from there are libunwind's.
  const Recorded odd = record_program({victim("odd_stacks"), "1000"});
  EXPECT_LE(odd.outcome.stacks_by_libunwind, 3010u);
  const Recorded plain = record_program({victim("deterministic"), "containers"});
  EXPECT_LE(plain.outcome.stacks_by_libunwind, 10u);
}

}  // namespace
}  // namespace opmeter
