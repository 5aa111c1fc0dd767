// SPDX-License-Identifier: Apache-2.0
// What a program learns about its own allocations. The same file is built four ways (see
// CMakeLists.txt): linked with opmeter::hooks, the same without position independence, and unlinked
// for LD_PRELOAD and for `opmeter record`.
#include "opmeter/watch.hpp"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "opmeter/gtest.hpp"

namespace {

/// Keeps a block from being optimised away.
void use(void* block) { asm volatile("" : : "r"(block) : "memory"); }

struct alignas(256) Overaligned {
  char bytes[512];
};

[[gnu::noinline]] void* allocate_from_a_named_function(size_t bytes) {
  void* block = std::malloc(bytes);
  use(block);
  return block;
}

const opm_allocation* find(const opmeter::AllocationWatch& watch, uint64_t bytes) {
  const opm_watch& seen = watch.details();
  for (uint32_t i = 0; i < seen.described; ++i) {
    if (seen.allocations[i].bytes == bytes) return &seen.allocations[i];
  }
  return nullptr;
}

TEST(Watch, HooksAreInThisProcess) { ASSERT_TRUE(opmeter::allocations_are_watched()); }

TEST(Watch, EveryEntryPointIsNamedWithItsSizeAndCountsOnce) {
  void* out = nullptr;
  opmeter::AllocationWatch watch;
  void* blocks[] = {std::malloc(101),  std::calloc(1, 103),
                    memalign(64, 107), std::aligned_alloc(64, 128),
                    valloc(109),       pvalloc(113)};
  blocks[0] = std::realloc(blocks[0], 20011);
  blocks[1] = reallocarray(blocks[1], 3, 20021);
  (void)!posix_memalign(&out, 64, 127);
  void* by_new = ::operator new(131);
  void* by_new_array = ::operator new[](137);
  void* by_nothrow = ::operator new(139, std::nothrow);
  auto* by_aligned = new Overaligned;
  use(by_aligned);
  watch.stop();

  const struct {
    uint64_t bytes;
    const char* entry_point;
  } expected[] = {{101, "malloc"},        {103, "calloc"},         {107, "memalign"},
                  {128, "aligned_alloc"}, {109, "valloc"},         {113, "pvalloc"},
                  {20011, "realloc"},     {60063, "reallocarray"}, {127, "posix_memalign"},
                  {131, "operator new"},  {137, "operator new[]"}, {139, "operator new"},
                  {512, "operator new"}};
  uint64_t bytes = 0;
  for (const auto& e : expected) {
    const opm_allocation* found = find(watch, e.bytes);
    ASSERT_NE(found, nullptr) << e.bytes;
    EXPECT_STREQ(found->entry_point, e.entry_point) << e.bytes;
    EXPECT_EQ(found->failed, 0u);
    EXPECT_GT(found->frame_count, 3u) << "gtest alone is deeper";
    bytes += e.bytes;
  }
  EXPECT_EQ(watch.allocations(), std::size(expected));
  EXPECT_EQ(watch.bytes(), bytes);
  EXPECT_EQ(watch.frees(), 2u) << "each realloc gave one block back";
  for (void* block : blocks) std::free(block);
  std::free(out);
  ::operator delete(by_new);
  ::operator delete[](by_new_array);
  ::operator delete(by_nothrow);
  delete by_aligned;
}

TEST(Watch, StacksBeginInTheCallerAndAreNamed) {
  opmeter::AllocationWatch watch;
  void* block = allocate_from_a_named_function(149);
  watch.stop();
  ASSERT_EQ(watch.allocations(), 1u);
  const opm_allocation& a = watch.details().allocations[0];
  const auto begin = reinterpret_cast<uintptr_t>(&allocate_from_a_named_function);
  const auto pc = reinterpret_cast<uintptr_t>(a.frames[0]);
  EXPECT_TRUE(pc > begin && pc < begin + 256) << "frame 0 is in the function that called malloc";
  const std::string text = watch.describe("testing::");
  EXPECT_NE(text.find("malloc of 149 bytes\n"), std::string::npos) << text;
  EXPECT_NE(text.find("allocate_from_a_named_function"), std::string::npos) << text;
  EXPECT_NE(text.find("watch_test.cc:"), std::string::npos) << text;
  EXPECT_EQ(text.find("testing::"), std::string::npos) << "the framework's frames are cut\n"
                                                       << text;
  EXPECT_EQ(text.find("libopmeter"), std::string::npos) << "Opmeter's own too\n" << text;
  std::free(block);
}

TEST(Watch, FreesAreNotAllocations) {
  void* block = std::malloc(10);
  use(block);
  auto* numbers = new std::vector<int>(100);
  use(numbers);
  opmeter::AllocationWatch watch;
  std::free(block);
  delete numbers;
  std::free(nullptr);
  watch.stop();
  EXPECT_EQ(watch.allocations(), 0u);
  EXPECT_EQ(watch.frees(), 3u);
}

TEST(Watch, ReallocToNothingIsAReleaseAndFromNothingAnAllocation) {
  void* block = std::malloc(10);
  opmeter::AllocationWatch watch;
  block = std::realloc(block, 0);
  void* other = std::realloc(nullptr, 151);
  use(other);
  watch.stop();
  EXPECT_EQ(watch.allocations(), 1u);
  EXPECT_EQ(watch.bytes(), 151u);
  EXPECT_EQ(watch.frees(), 1u);
  std::free(block);
  std::free(other);
}

TEST(Watch, RefusedRequestsAreTheirOwnKind) {
  opmeter::AllocationWatch watch;
  volatile size_t huge = SIZE_MAX / 2;
  void* malloced = std::malloc(huge);
  void* with_nothrow = ::operator new(huge, std::nothrow);
  watch.stop();
  EXPECT_EQ(malloced, nullptr);
  EXPECT_EQ(with_nothrow, nullptr);
  EXPECT_EQ(watch.allocations(), 0u);
  EXPECT_EQ(watch.failed(), 2u);
  EXPECT_NE(watch.describe().find("refused"), std::string::npos);
}

TEST(Watch, AnAllocationInANestedScopeCountsInEachOpenOne) {
  opmeter::AllocationWatch outer;
  void* first = std::malloc(10);
  opmeter::AllocationWatch inner;
  void* second = allocate_from_a_named_function(20);
  inner.stop();
  void* third = std::malloc(30);
  outer.stop();
  void* unseen = std::malloc(40);
  EXPECT_EQ(inner.bytes(), 20u);
  EXPECT_EQ(outer.bytes(), 60u);
  const opm_allocation* in_outer = find(outer, 20);
  const opm_allocation* in_inner = find(inner, 20);
  ASSERT_TRUE(in_outer != nullptr && in_inner != nullptr);
  ASSERT_EQ(in_outer->frame_count, in_inner->frame_count);
  EXPECT_TRUE(
      std::equal(in_outer->frames, in_outer->frames + in_outer->frame_count, in_inner->frames));
  for (void* block : {first, second, third, unseen}) std::free(block);
}

TEST(Watch, ClosingTheOuterScopeFirstLeavesNothingOpen) {
  opmeter::AllocationWatch outer;
  opmeter::AllocationWatch inner;
  outer.stop();
  std::free(allocate_from_a_named_function(10));
  inner.stop();
  EXPECT_EQ(outer.allocations(), 0u);
  EXPECT_EQ(inner.allocations(), 0u);
}

TEST(Watch, OtherThreadsAreNotSeen) {
  std::atomic<int> step{0};
  void* foreign = nullptr;
  std::thread other([&] {
    while (step.load() == 0) std::this_thread::yield();
    foreign = allocate_from_a_named_function(157);
    step.store(2);
  });
  opmeter::AllocationWatch watch;
  step.store(1);
  while (step.load() != 2) std::this_thread::yield();
  watch.stop();
  other.join();
  EXPECT_EQ(watch.allocations(), 0u);
  std::free(foreign);
}

TEST(Watch, EachThreadHasItsOwnWatch) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (uint64_t n = 1; n <= 4; ++n) {
    threads.emplace_back([n, &wrong] {
      for (int round = 0; round < 200; ++round) {
        opmeter::AllocationWatch watch;
        for (uint64_t i = 0; i < n; ++i) std::free(allocate_from_a_named_function(n));
        watch.stop();
        if (watch.allocations() != n || watch.bytes() != n * n || watch.frees() != n) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(Watch, AScopeThatAnExceptionLeavesIsClosed) {
  uint64_t seen = 0;
  try {
    opmeter::AllocationWatch watch;
    struct Keep {
      opmeter::AllocationWatch& from;
      uint64_t& to;
      ~Keep() { to = from.allocations(); }
    } const keep{watch, seen};
    throw std::runtime_error("thrown");
  } catch (const std::runtime_error&) {
  }
  EXPECT_GE(seen, 1u) << "the exception object itself is allocated";
  opm_watch after{};
  after.struct_size = sizeof after;
  ASSERT_TRUE(opm_watch_begin(&after));
  EXPECT_EQ(after.outer, nullptr) << "nothing is left open";
  opm_watch_end(&after);
}

TEST(Watch, MoreAllocationsThanThereIsRoomForAreStillCounted) {
  std::vector<void*> blocks(100);
  opmeter::AllocationWatch watch;
  for (void*& block : blocks) block = allocate_from_a_named_function(16);
  watch.stop();
  EXPECT_EQ(watch.allocations(), 100u);
  EXPECT_EQ(watch.details().described, opmeter::AllocationWatch::kDescribed);
  const std::string text = watch.describe();
  EXPECT_NE(text.find("malloc of 16 bytes, 32 times"), std::string::npos) << text;
  EXPECT_NE(text.find("and 68 more"), std::string::npos) << text;
  for (void* block : blocks) std::free(block);
}

[[gnu::noinline]] void* deep(int levels) {
  void* block = levels == 0 ? std::malloc(163) : deep(levels - 1);
  use(block);
  return block;
}

TEST(Watch, DeepStacksKeepTheirInnermostFrames) {
  opmeter::AllocationWatch watch;
  void* block = deep(500);
  watch.stop();
  EXPECT_EQ(watch.details().allocations[0].frame_count, uint32_t{OPM_WATCH_FRAMES});
  std::free(block);
}

TEST(Watch, ErrnoIsNotTouched) {
  opmeter::AllocationWatch watch;
  errno = 77;
  void* block = allocate_from_a_named_function(16);
  EXPECT_EQ(errno, 77);
  std::free(block);
}

TEST(Watch, LibrariesOfTheProgramAreSeen) {
  opmeter::AllocationWatch watch;
  char* copy = strdup("libc calls its own malloc");  // in libc.so
  std::string text(100, 'x');                        // in libstdc++.so
  watch.stop();
  EXPECT_EQ(watch.allocations(), 2u) << watch.describe();
  std::free(copy);
}

TEST(HeapCount, CountsAllThreadsAndPeakAndGrowth) {
  ASSERT_TRUE(opm_heap_count_begin());
  std::free(allocate_from_a_named_function(100000));
  void* kept = allocate_from_a_named_function(5000);
  std::thread other([] { std::free(allocate_from_a_named_function(200000)); });
  other.join();
  opm_heap_count count{};
  count.struct_size = sizeof count;
  opm_heap_count_end(&count);
  EXPECT_GE(count.calls, 3u);
  EXPECT_GE(count.bytes, 305000u);
  EXPECT_GE(count.frees, 2u);
  EXPECT_GE(count.peak_growth, 205000);
  EXPECT_LT(count.peak_growth, 305000);
  EXPECT_GE(count.net_growth, 5000);
  EXPECT_LT(count.net_growth, 6000 + 64 * 1024) << "a thread may leave something behind";
  std::free(kept);
  const uint64_t before = count.calls;
  std::free(allocate_from_a_named_function(10));
  opm_heap_count_end(&count);
  EXPECT_EQ(count.calls, before) << "nothing counts after the end";
}

TEST(HeapCount, ReallocMovesTheGrowthByTheDifference) {
  void* block = std::malloc(1000);
  ASSERT_TRUE(opm_heap_count_begin());
  block = std::realloc(block, 50000);
  block = std::realloc(block, 1000);
  opm_heap_count count{};
  count.struct_size = sizeof count;
  opm_heap_count_end(&count);
  EXPECT_EQ(count.calls, 2u);
  EXPECT_EQ(count.frees, 2u);
  EXPECT_NEAR(static_cast<double>(count.net_growth), 0, 64);
  std::free(block);
}

// --- the assertions

TEST(NoAllocations, PassWhereNothingIsAllocated) {
  int sum = 0;
  void* block = std::malloc(10);
  EXPECT_NO_ALLOCATIONS {
    for (int i = 0; i < 100; ++i) sum += i;
    std::free(block);
  }
  ASSERT_NO_ALLOCATIONS { ++sum; }
  EXPECT_EQ(sum, 4951);
}

TEST(NoAllocations, FailureListsSizeEntryPointAndStack) {
  EXPECT_NONFATAL_FAILURE(
      EXPECT_NO_ALLOCATIONS { std::free(allocate_from_a_named_function(167)); },
      "1 allocation (167 bytes) in a block that allows none:\n  malloc of 167 bytes\n      ");
  EXPECT_NONFATAL_FAILURE(
      EXPECT_NO_ALLOCATIONS { std::free(allocate_from_a_named_function(167)); },
      "allocate_from_a_named_function");
}

TEST(NoAllocations, ALibrarysInnerFunctionsAreLeftOut) {
  testing::TestPartResultArray failures;
  {
    const testing::ScopedFakeTestPartResultReporter catcher(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    EXPECT_NO_ALLOCATIONS {
      std::vector<int> numbers;
      numbers.push_back(1);
      use(numbers.data());
    }
  }
  ASSERT_EQ(failures.size(), 1);
  const std::string message = failures.GetTestPartResult(0).message();
  EXPECT_NE(message.find("operator new of 4 bytes"), std::string::npos) << message;
  EXPECT_NE(message.find("push_back"), std::string::npos) << message;
  EXPECT_EQ(message.find("_M_allocate"), std::string::npos) << message;
  EXPECT_NE(message.find("TestBody"), std::string::npos) << message;
}

void fatal_block(bool* reached) {
  ASSERT_NO_ALLOCATIONS { std::free(allocate_from_a_named_function(173)); }
  *reached = true;
}

TEST(NoAllocations, TheFatalFormLeavesTheFunction) {
  static bool reached = false;
  EXPECT_FATAL_FAILURE(fatal_block(&reached), "malloc of 173 bytes");
  EXPECT_FALSE(reached);
}

void leaves_by_return() {
  EXPECT_NO_ALLOCATIONS {
    std::free(allocate_from_a_named_function(179));
    return;
  }
}

TEST(NoAllocations, BlocksLeftEarlyAreJudgedToo) {
  EXPECT_NONFATAL_FAILURE(leaves_by_return(), "malloc of 179 bytes");
  testing::TestPartResultArray failures;
  {
    const testing::ScopedFakeTestPartResultReporter catcher(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    try {
      EXPECT_NO_ALLOCATIONS { throw 1; }
    } catch (int) {
    }
  }
  ASSERT_EQ(failures.size(), 1);
  EXPECT_NE(std::string(failures.GetTestPartResult(0).message()).find("1 allocation"),
            std::string::npos)
      << failures.GetTestPartResult(0).message();
}

TEST(NoAllocations, NestAndDoNotCaptureAnElse) {
  const bool yes = std::getenv("PATH") != nullptr;
  int branch = 0;
  if (yes) EXPECT_NO_ALLOCATIONS {
      EXPECT_NO_ALLOCATIONS { branch = 1; }
    }
  else
    branch = 2;
  EXPECT_EQ(branch, yes ? 1 : 2);
}

}  // namespace
