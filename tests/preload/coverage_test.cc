// SPDX-License-Identifier: Apache-2.0
// What is seen, and that it is true: callers inside the C library, mappings, other allocators,
// races between threads.
#include <fstream>

#include "tests/preload/recorded.h"
#include "tests/preload/replay.h"

namespace opmeter {
namespace {

using trace::AllocApi;
using trace::Event;
using trace::EventKind;

/// What a victim printed as "name number".
std::map<std::string, uint64_t> said_by(const Recorded& r) {
  std::map<std::string, uint64_t> numbers;
  std::istringstream lines(r.out);
  for (std::string name, number; lines >> name >> number;) {
    numbers[name] = std::stoull(number, nullptr, 0);
  }
  return numbers;
}

/// The file name of the module that called the allocator.
std::string caller_of(const Recorded& r, const Event& e) {
  const trace::StackInfo& stack = r.stack(e.stack);
  const trace::ModuleInfo* module = r.module_of(stack.frames.front(), stack.epoch);
  return module == nullptr ? "" : std::filesystem::path(module->path).filename().string();
}

TEST(LibcCallers, EachFunctionThatAllocatesForItsCallerIsFoundOnce) {
  const Recorded r = record_program({victim("libc_callers")});
  ASSERT_EQ(r.outcome.exit_code, 0);
  for (const uint64_t bytes :
       std::vector<uint64_t>{10103, 10111, 10136, 10139, 10141, 10159, 10163}) {
    SCOPED_TRACE(bytes);
    EXPECT_EQ(r.allocations_of(bytes).size(), 1u);
  }
  // getline grows its line: one allocation, then reallocations, the last of the size it reports.
  std::istringstream out(r.out);
  std::string word;
  uint64_t room = 0;
  out >> word >> room;
  ASSERT_EQ(word, "getline");
  ASSERT_EQ(r.allocations_of(room).size(), 1u);
  EXPECT_EQ(caller_of(r, r.allocations_of(room).front()), "libc.so.6");
  for (const uint64_t bytes : std::vector<uint64_t>{10103, 10111, 10136, 10141, 10159}) {
    EXPECT_EQ(caller_of(r, r.allocations_of(bytes).front()), "libc.so.6") << bytes;
  }
  if (r.out.find("libc 2.36") != std::string::npos) {
    EXPECT_EQ(r.allocations_of(10167).size(), 1u) << "qsort's own block";
  }
  EXPECT_EQ(replay(r.events).alloc_on_live, 0u);
}

TEST(LibcCallers, ABlockBornUnseenIsFreedAndItsFreeIsAnEventOfAnUnknownAddress) {
  const Recorded r = record_program({victim("libc_callers")});
  ASSERT_EQ(r.outcome.exit_code, 0);
  EXPECT_TRUE(r.allocations_of(10169).empty());
  const size_t at = r.out.find("unborn ");
  ASSERT_NE(at, std::string::npos);
  const uint64_t address = std::stoull(r.out.substr(at + 7), nullptr, 16);
  size_t frees = 0;
  for (const Event& e : r.of_kind(EventKind::kFree)) frees += e.address == address;
  EXPECT_GE(frees, 1u);
  EXPECT_EQ(replay(r.events).unknown_free, 1u) << replay(r.events).first_trouble;
}

TEST(NewHandlers, WhatAHandlerAndACatchBlockAllocateCounts) {
  const Recorded r = record_program({victim("new_handler")});
  ASSERT_EQ(r.outcome.exit_code, 0);
  EXPECT_EQ(r.allocations_of(10271).size(), 2u);
  EXPECT_EQ(r.allocations_of(10273).size(), 1u);
  size_t failed = 0;
  for (const Event& e : r.of_kind(EventKind::kAlloc)) failed += e.address == 0;
  EXPECT_EQ(failed, 1u);
}

class Maps : public testing::Test {
 protected:
  Maps() {
    tools::RecordOptions options;
    options.maps = true;
    recorded_ = record_program({victim("maps")}, options);
    said_ = said_by(recorded_);
    page_ = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  }
  /// Events of the kind, api and exact range.
  size_t count(EventKind kind, AllocApi api, uint64_t address, uint64_t bytes) const {
    size_t n = 0;
    for (const Event& e : recorded_.of_kind(kind)) {
      n += static_cast<AllocApi>(e.api) == api && e.address == address && e.bytes == bytes;
    }
    return n;
  }
  size_t allocs(AllocApi api, uint64_t address, uint64_t bytes) const {
    return count(EventKind::kMapAlloc, api, address, bytes);
  }
  size_t frees(AllocApi api, uint64_t address, uint64_t bytes) const {
    return count(EventKind::kMapFree, api, address, bytes);
  }
  Recorded recorded_;
  std::map<std::string, uint64_t> said_;
  uint64_t page_ = 0;
};

TEST_F(Maps, EachCallIsFoundOnceWithItsRangeAndFailuresAreMarked) {
  ASSERT_EQ(recorded_.outcome.exit_code, 0);
  EXPECT_EQ(allocs(AllocApi::kMmap, said_["five"], 5 * page_), 1u);
  EXPECT_EQ(frees(AllocApi::kMunmap, said_["five"] + page_, 2 * page_), 1u) << "a part";
  EXPECT_EQ(allocs(AllocApi::kMmap, said_["seven"], 7 * page_ - 1), 1u) << "mmap64, size as asked";
  EXPECT_EQ(allocs(AllocApi::kMmap, 0, 0), 1u) << "failed";
  EXPECT_EQ(frees(AllocApi::kMunmap, said_["five"] + 1, page_), 0u) << "gave nothing back";
  EXPECT_EQ(allocs(AllocApi::kMremap, 0, 2 * page_), 1u) << "failed";
}

TEST_F(Maps, AMremapGivesTheOldRangeBackAndTakesTheNewOneUnlessItLeavesTheOldOne) {
  EXPECT_EQ(frees(AllocApi::kMremap, said_["seven"], 7 * page_), 1u);
  EXPECT_EQ(allocs(AllocApi::kMremap, said_["grown"], 4099 * page_), 1u);
  EXPECT_EQ(frees(AllocApi::kMremap, said_["grown"], 4099 * page_), 1u);
  EXPECT_EQ(allocs(AllocApi::kMremap, said_["grown"], 11 * page_), 1u);
  EXPECT_EQ(allocs(AllocApi::kMremap, said_["twice"], 3 * page_), 1u);
  EXPECT_EQ(frees(AllocApi::kMremap, said_["shared"], 0), 0u);
  EXPECT_EQ(frees(AllocApi::kMremap, said_["shared"], 3 * page_), 0u);
}

TEST_F(Maps, TheProgramBreakIsARangeThatGrowsAndShrinks) {
  const uint64_t broke = said_["broke"];
  EXPECT_EQ(allocs(AllocApi::kSbrk, broke, 13 * page_), 1u);
  EXPECT_EQ(frees(AllocApi::kSbrk, broke + 11 * page_, 2 * page_), 1u);
  EXPECT_EQ(allocs(AllocApi::kSbrk, broke + 11 * page_, page_), 1u) << "brk upwards";
  EXPECT_EQ(frees(AllocApi::kSbrk, broke, 12 * page_), 1u) << "brk downwards";
}

TEST_F(Maps, MappingsCarryTheirStack) {
  for (const Event& e : recorded_.of_kind(EventKind::kMapAlloc)) {
    if (e.address == 0) continue;
    EXPECT_EQ(caller_of(recorded_, e), "maps");
  }
}

TEST(MapsOff, WithoutTheOptionNoMappingIsRecorded) {
  const Recorded r = record_program({victim("maps")});
  ASSERT_EQ(r.outcome.exit_code, 0);
  EXPECT_TRUE(r.of_kind(EventKind::kMapAlloc).empty());
  EXPECT_TRUE(r.of_kind(EventKind::kMapFree).empty());
}

TEST(ToyAllocator,
     OneThatMapsUnderItsLockInsideMallocDoesNotHangAndItsMappingsAreNotTheProgramsOwn) {
  tools::RecordOptions options;
  options.maps = true;
  const Recorded r = record_behind(victim("toy_allocator_locking.so"), {victim("races")}, options);
  ASSERT_EQ(r.outcome.exit_code, 0);
  EXPECT_EQ(r.outcome.lost_events, 0u);
  size_t reallocs = 0;
  for (const Event& e : r.events) {
    const auto api = static_cast<AllocApi>(e.api);
    reallocs += (e.kind == EventKind::kReallocEnd || e.kind == EventKind::kAlloc) &&
                api == AllocApi::kRealloc;
  }
  EXPECT_EQ(reallocs, 800000u);
  for (const Event& e : r.of_kind(EventKind::kMapAlloc)) {
    EXPECT_NE(caller_of(r, e), "toy_allocator_locking.so");
  }
}

class Races : public testing::TestWithParam<const char*> {};

TEST_P(Races, FourThreadsThatPassEachOtherTheirBlocksLeaveNoImpossibleEvent) {
  const Recorded r = record_program({victim("races"), GetParam()});
  ASSERT_EQ(r.outcome.exit_code, 0);
  EXPECT_EQ(r.outcome.lost_events, 0u);
  const Replay played = replay(r.events);
  EXPECT_EQ(played.alloc_on_live, 0u) << played.first_trouble;
  EXPECT_EQ(played.unknown_free, 0u) << played.first_trouble;
  EXPECT_GE(played.allocations, 800000u);
}

INSTANTIATE_TEST_SUITE_P(By, Races, testing::Values("realloc", "free"),
                         [](const auto& row) { return std::string(row.param); });

struct Allocator {
  const char* name;
  const char* library;  ///< "" = the C library's
};
void PrintTo(const Allocator& allocator, std::ostream* out) { *out << allocator.name; }

class Allocators : public testing::TestWithParam<Allocator> {};

TEST_P(Allocators, EachAllocationCountsExactlyOnceByNewToo) {
  const std::string library = GetParam().library;
  if (!library.empty() && !loadable(library)) {
    GTEST_SKIP() << library << " is not installed on this machine";
  }
  const Recorded r =
      library.empty() ? record_program({victim("news")}) : record_behind(library, {victim("news")});
  ASSERT_EQ(r.outcome.exit_code, 0);
  EXPECT_EQ(r.outcome.lost_events, 0u);
  struct Row {
    uint64_t bytes;
    size_t calls;
    AllocApi api;
  };
  for (const Row& row : std::vector<Row>{{1013, 1000, AllocApi::kNew},
                                         {1019, 500, AllocApi::kNewArray},
                                         {1021, 300, AllocApi::kNew},
                                         {1031, 700, AllocApi::kMalloc},
                                         {1033, 200, AllocApi::kCalloc},
                                         {1039, 100, AllocApi::kMalloc},
                                         {4099, 100, AllocApi::kRealloc}}) {
    SCOPED_TRACE(row.bytes);
    const std::vector<Event> found = r.allocations_of(row.bytes);
    EXPECT_EQ(found.size(), row.calls);
    for (const Event& e : found) ASSERT_EQ(static_cast<AllocApi>(e.api), row.api);
  }
  const Replay played = replay(r.events);
  EXPECT_EQ(played.alloc_on_live, 0u) << played.first_trouble;
  size_t frees_of_ours = 0;
  for (const Event& e : r.of_kind(EventKind::kFree)) {
    const auto api = static_cast<AllocApi>(e.api);
    frees_of_ours += api == AllocApi::kDelete || api == AllocApi::kDeleteArray;
  }
  EXPECT_EQ(frees_of_ours, 1800u);
  if (!library.empty()) {
    EXPECT_EQ(r.reader->definitions().info.at("allocator").substr(0, 5),
              std::filesystem::path(library).filename().string().substr(0, 5));
  }
}

INSTANTIATE_TEST_SUITE_P(Preloaded, Allocators,
                         testing::Values(Allocator{"glibc", ""},
                                         Allocator{"jemalloc", "libjemalloc.so.2"},
                                         Allocator{"mimalloc", "libmimalloc.so.2"},
                                         Allocator{"tcmalloc", "libtcmalloc_minimal.so.4"}),
                         [](const auto& row) { return std::string(row.param.name); });

TEST_P(Allocators, LinkedIntoTheProgramEachAllocationCountsExactlyOnceToo) {
  const std::string program = victim(std::string("news_") + GetParam().name);
  if (!std::filesystem::exists(program)) {
    GTEST_SKIP() << GetParam().name << " was not there when the tests were built";
  }
  const Recorded r = record_program({program});
  ASSERT_EQ(r.outcome.exit_code, 0);
  EXPECT_EQ(r.allocations_of(1013).size(), 1000u);
  EXPECT_EQ(r.allocations_of(1019).size(), 500u);
  EXPECT_EQ(r.allocations_of(1021).size(), 300u);
  EXPECT_EQ(r.allocations_of(1031).size(), 700u);
  EXPECT_EQ(r.allocations_of(4099).size(), 100u);
  EXPECT_EQ(replay(r.events).alloc_on_live, 0u);
}

}  // namespace
}  // namespace opmeter
