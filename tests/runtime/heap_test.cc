// SPDX-License-Identifier: Apache-2.0
// heap_test.cc: counts this program's own heap calls. run() calls the heap for blocks of the pool
// and for nothing else: caching never after the first run, naive once per tensor and workspace.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "tests/runtime/graphs.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OPMETER_OWN_HEAP 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OPMETER_OWN_HEAP 1
#endif
#endif

namespace {
// Every thread of the process: a worker's malloc counts too.
std::atomic<std::uint64_t> heap_calls{0};
}  // namespace

#ifndef OPMETER_OWN_HEAP
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t size) {
  heap_calls.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  heap_calls.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, size);
}
void* realloc(void* block, std::size_t size) {
  heap_calls.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(block, size);
}
void* memalign(std::size_t alignment, std::size_t size) {
  heap_calls.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) { return memalign(alignment, size); }
int posix_memalign(void** block, std::size_t alignment, std::size_t size) {
  *block = memalign(alignment, size);
  return *block != nullptr ? 0 : ENOMEM;
}
}
#endif

namespace opmeter::runtime {
namespace {

bool counts_heap_calls() {
#ifdef OPMETER_OWN_HEAP
  return false;
#else
  return true;
#endif
}

std::uint64_t calls_of_a_run(Executor& executor) {
  const std::uint64_t before = heap_calls.load();
  const Status status = executor.run();
  const std::uint64_t calls = heap_calls.load() - before;
  EXPECT_TRUE(status.ok()) << status.error().message;
  return calls;
}

TEST(HeapCallsInRun, OfTheCachingPoolAreItsGrowthInTheFirstRunAndNoneLater) {
  OPMETER_SKIP_WITHOUT_AVX2();
  if (!counts_heap_calls()) GTEST_SKIP() << "a sanitizer owns the heap";
  for (const char* name : {"mlp_09", "cnn_09", "bert_mini_09", "bert_mini_016", "chain_09"}) {
    for (const int threads : {1, 2, 4}) {
      auto executor =
          executor_or_fail(load_or_fail(artifact(std::string(name) + ".so")), {.threads = threads});
      ASSERT_NE(executor, nullptr);
      const std::uint64_t first = calls_of_a_run(*executor);
      EXPECT_EQ(first, executor->pool_stats().workspace_growth_bytes.size()) << name << threads;
      // Which worker meets which request is settled by task number, so one run is enough.
      for (int run = 0; run < 10; ++run)
        EXPECT_EQ(calls_of_a_run(*executor), 0u) << name << threads;
    }
  }
}

TEST(HeapCallsInRun, OfTheNaivePoolAreOnePerTensorAndWorkspace) {
  OPMETER_SKIP_WITHOUT_AVX2();
  if (!counts_heap_calls()) GTEST_SKIP() << "a sanitizer owns the heap";
  for (const char* name : {"mlp_09", "cnn_09", "bert_mini_09", "reshape_chain_09"}) {
    for (const int threads : {1, 2}) {
      auto executor = executor_or_fail(load_or_fail(artifact(std::string(name) + ".so")),
                                       {.pool = "naive", .threads = threads});
      ASSERT_NE(executor, nullptr);
      std::uint64_t outputs = 0;
      for (const OpInfo& op : executor->ops()) {
        if (op.func != "__nop") outputs += op.outputs.size();
      }
      std::uint64_t workspaces = 0;
      for (int run = 0; run < 5; ++run) {
        const std::uint64_t calls = calls_of_a_run(*executor);
        const std::uint64_t now = executor->pool_stats().workspace_requests;
        EXPECT_EQ(calls, outputs + (now - workspaces)) << name << " run " << run;
        workspaces = now;
      }
    }
  }
}

}  // namespace
}  // namespace opmeter::runtime
