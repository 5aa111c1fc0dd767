// SPDX-License-Identifier: Apache-2.0
// tracing_test.cc: what a profiler hears. This program exports its own opm_api_v1, which writes
// each call down as a word, and compares the sequences.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "opmeter/opmeter.h"
#include "tests/runtime/graphs.h"

namespace opmeter::runtime {
namespace {

/// The profiler's diary. Calls of other threads are told apart by a leading '*'.
struct Diary {
  std::mutex mutex;
  std::vector<std::string> words;
  std::vector<std::string> op_names;
  std::vector<std::string> op_details;
  std::vector<std::string> infos;
  std::vector<std::string> pools;
};

Diary& diary() {
  static Diary& instance = *new Diary;
  return instance;
}

thread_local bool main_thread = false;

void note(const std::string& word) {
  const std::lock_guard lock(diary().mutex);
  diary().words.push_back((main_thread ? "" : "*") + word);
}

std::string pool_name(opm_pool pool) { return diary().pools[pool - 1]; }

const opm_api kApi = {
    sizeof(opm_api),
    [](const char* name) -> opm_graph {
      note("graph " + std::string(name));
      return 1;
    },
    [](const opm_op_desc* desc) -> opm_op {
      diary().op_names.push_back(desc->name);
      std::string detail = std::to_string(desc->index) + " " + desc->kind;
      for (std::uint32_t i = 0; i < desc->num_inputs; ++i) {
        detail += " " + std::string(desc->inputs[i].name);
      }
      detail += " ->";
      for (std::uint32_t i = 0; i < desc->num_outputs; ++i) {
        detail +=
            " " + std::string(desc->outputs[i].name) + ":" + std::to_string(desc->outputs[i].bytes);
      }
      diary().op_details.push_back(detail);
      return static_cast<opm_op>(diary().op_names.size());
    },
    [](opm_op op) { note("push " + diary().op_names[op - 1]); },
    [] { note("pop"); },
    [] { note("kernel{"); },
    [] { note("}kernel"); },
    [](opm_op, std::uint64_t) -> opm_span { return 0; },
    [](opm_span) {},
    [](opm_graph) { note("run{"); },
    [] { note("}run"); },
    [](std::int32_t) {},
    []() -> opm_context {
      note("context_get");
      return {7, 8, 0};
    },
    [](opm_context context) { note("attach " + std::to_string(context.run)); },
    [] { note("detach"); },
    [](const opm_pool_desc* desc) -> opm_pool {
      diary().pools.push_back(std::string(desc->name) +
                              (desc->domain == OPM_DOMAIN_WORKSPACE ? ".workspace" : ".tensor"));
      return static_cast<opm_pool>(diary().pools.size());
    },
    [](opm_pool) {},
    [](opm_pool) {},
    [](opm_pool pool, const void* block, std::uint64_t bytes) {
      note((block != nullptr ? "alloc " : "failed ") + pool_name(pool) + " " +
           std::to_string(bytes));
    },
    [](opm_pool pool, const void*) { note("free " + pool_name(pool)); },
    [](opm_pool) {},
    [] {},
    [] {},
    [](const char*) {},
    [](const char* key, const char* value) {
      diary().infos.push_back(std::string(key) + "=" + value);
    },
    [] {},
    nullptr,  // recording: always
    nullptr,  // it watches and counts nothing
    nullptr,
    nullptr,
    nullptr,
};

using Words = std::vector<std::string>;

/// Forgets everything, then makes an executor.
std::unique_ptr<Executor> fresh(const GraphText& graph, const std::string& heads,
                                ExecutorOptions options) {
  main_thread = true;
  {
    const std::lock_guard lock(diary().mutex);
    diary().words.clear();
    diary().op_names.clear();
    diary().op_details.clear();
    diary().infos.clear();
    diary().pools.clear();
  }
  return executor_or_fail(*load_graph(graph.text(heads)), options);
}

Words take_words() {
  const std::lock_guard lock(diary().mutex);
  return std::exchange(diary().words, {});
}

GraphText two_ops() {
  return GraphText()
      .input("x")
      .op("a", "through_workspace", "[0,0,0]")
      .op("r", "__nop", "[1,0,0]", {.storage_id = 1})
      .op("y", "add_one", "[2,0,0]");
}

TEST(Marks, DeclareTheGraphWithItsTensorsAndNopsAtCreation) {
  const auto executor = fresh(two_ops(), "[3,0,0]", {.pool = "naive", .threads = 2});
  ASSERT_NE(executor, nullptr);
  EXPECT_EQ(diary().op_details,
            (Words{"0 through_workspace x -> a:16", "1 __nop a -> r:16", "2 add_one r -> y:16"}));
  EXPECT_EQ(diary().infos[1], "pool=naive");
  EXPECT_EQ(diary().infos[2], "device=cpu:0");
  EXPECT_EQ(diary().infos[3], "threads=2");
  EXPECT_EQ(take_words(), Words{"graph ops.so"});
}

TEST(Marks, OfTheNaivePoolShowEachTensorAndWorkspaceInsideItsOp) {
  const auto executor = fresh(two_ops(), "[3,0,0]", {.pool = "naive"});
  const Words ops = {"push a",
                     "alloc naive.tensor 16",
                     "kernel{",
                     "alloc naive.workspace 16",
                     "free naive.workspace",
                     "}kernel",
                     "pop",
                     "push y",
                     "alloc naive.tensor 16",
                     "kernel{",
                     "}kernel",
                     "free naive.tensor",
                     "pop",
                     "}run"};
  take_words();
  ASSERT_TRUE(executor->run().ok());
  Words expected = {"run{"};
  expected.insert(expected.end(), ops.begin(), ops.end());
  EXPECT_EQ(take_words(), expected);
  ASSERT_TRUE(executor->run().ok());
  expected.insert(expected.begin() + 1, "free naive.tensor");  // the first run's output
  EXPECT_EQ(take_words(), expected);
}

TEST(Marks, OfTheCachingPoolShowTensorsAtLoad) {
  const auto executor = fresh(two_ops(), "[3,0,0]", {.pool = "caching"});
  EXPECT_EQ(take_words(),
            (Words{"graph ops.so", "alloc caching.tensor 16", "alloc caching.tensor 16"}));
  for (int run = 0; run < 2; ++run) {
    ASSERT_TRUE(executor->run().ok());
    EXPECT_EQ(take_words(), (Words{"run{", "push a", "kernel{", "alloc caching.workspace 16",
                                   "free caching.workspace", "}kernel", "pop", "push y", "kernel{",
                                   "}kernel", "pop", "}run"}));
  }
}

TEST(Marks, CarryTheContextToWorkersForEachLaunch) {
  const auto executor =
      fresh(GraphText().input("x").op("y", "in_parallel", "[0,0,0]"), "[1,0,0]", {.threads = 2});
  take_words();
  ASSERT_TRUE(executor->run().ok());
  Words mine, workers;
  for (const std::string& word : take_words()) (word[0] == '*' ? workers : mine).push_back(word);
  EXPECT_EQ(mine, (Words{"run{", "push y", "kernel{", "context_get", "alloc caching.workspace 4096",
                         "free caching.workspace", "}kernel", "pop", "}run"}));
  EXPECT_EQ(workers, (Words{"*attach 7", "*alloc caching.workspace 4096", "*free caching.workspace",
                            "*detach"}));
}

TEST(Marks, StayBalancedWhenAnOperatorFails) {
  const auto executor = fresh(GraphText()
                                  .input("x")
                                  .op("a", "add_one", "[0,0,0]")
                                  .op("y", "fails_holding_workspaces", "[1,0,0]"),
                              "[2,0,0]", {.pool = "naive"});
  take_words();
  ASSERT_FALSE(executor->run().ok());
  EXPECT_EQ(take_words(), (Words{"run{", "push a", "alloc naive.tensor 16", "kernel{", "}kernel",
                                 "pop", "push y", "alloc naive.tensor 16", "kernel{",
                                 "alloc naive.workspace 1000", "alloc naive.workspace 5000",
                                 "}kernel", "free naive.tensor", "free naive.tensor",
                                 "free naive.workspace", "free naive.workspace", "pop", "}run"}));
}

}  // namespace
}  // namespace opmeter::runtime

extern "C" __attribute__((visibility("default"))) const opm_api* opm_api_v1() {
  return &opmeter::runtime::kApi;
}
