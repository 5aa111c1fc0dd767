// SPDX-License-Identifier: Apache-2.0
// executor_test.cc: running: operators of every interface, threads and their failures, several
// executors over one library, and what is left after an operator gave up.
#include <gtest/gtest.h>

#include <thread>

#include "runtime/executor/layout.h"
#include "tests/runtime/graphs.h"

namespace opmeter::runtime {
namespace {

using Floats = std::vector<float>;

std::string run_error(Executor& executor) {
  const Status status = executor.run();
  EXPECT_FALSE(status.ok());
  if (status.ok()) return "";
  EXPECT_EQ(status.error().kind, ErrorKind::kInput);
  EXPECT_EQ(status.error().message.find('\n'), std::string::npos);
  return status.error().message;
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

class EveryPool : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Pools, EveryPool, testing::Values("naive", "caching"));

TEST_P(EveryPool, RunsOperatorsOfSixAndOfThreeArguments) {
  for (const char* func : {"add_one", "add_one_v05", "through_workspace", "calls_own_function"}) {
    auto executor = one_op(func, {.pool = GetParam()});
    ASSERT_NE(executor, nullptr);
    for (int run = 0; run < 3; ++run) {
      const Status status = executor->run();
      ASSERT_TRUE(status.ok()) << status.error().message;
      EXPECT_EQ(output_values(*executor), (Floats{2, 3, 4, 5})) << func;
    }
  }
}

TEST_P(EveryPool, RunsLibrariesThatBindToTheProgramsBackendFunctions) {
  for (const char* func : {"add_one", "through_workspace", "in_parallel"}) {
    auto executor = one_op(func, {.pool = GetParam(), .threads = 2}, "ops_direct");
    ASSERT_NE(executor, nullptr);
    const Status status = executor->run();
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(output_values(*executor), (Floats{2, 3, 4, 5})) << func;
  }
}

TEST_P(EveryPool, SplitsTasksOverAnyNumberOfThreads) {
  for (const int threads : {1, 2, 3, 8}) {
    auto executor = one_op("in_parallel", {.pool = GetParam(), .threads = threads});
    ASSERT_NE(executor, nullptr);
    for (int run = 0; run < 50; ++run) {
      const Status status = executor->run();
      ASSERT_TRUE(status.ok()) << status.error().message;
      ASSERT_EQ(output_values(*executor), (Floats{2, 3, 4, 5}));
    }
    EXPECT_EQ(executor->pool_stats().workspace_requests, 50u * static_cast<unsigned>(threads));
  }
}

TEST(Barrier, HoldsEveryTaskUntilAllHaveCome) {
  for (const int threads : {1, 2, 4}) {
    auto executor = one_op("with_barriers", {.threads = threads});
    ASSERT_NE(executor, nullptr);
    const Status status = executor->run();
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(output_values(*executor)[0], static_cast<float>(threads));
  }
}

TEST_P(EveryPool, TellsAnOperatorsErrorOnOneLineWithItsNameAndRunsAgain) {
  auto executor = one_op("fails_with_text", {.pool = GetParam()});
  ASSERT_NE(executor, nullptr);
  for (int run = 0; run < 2; ++run) {
    const std::string error = run_error(*executor);
    EXPECT_HAS(error, "operator 0 \"y\" (fails_with_text)");
    EXPECT_HAS(error, "Assert fail: the fixture wants something else");
  }
  EXPECT_FALSE(executor->output(0).ok());
}

TEST_P(EveryPool, DoesNotBlameASilentOperatorForAnOlderError) {
  auto loud = one_op("fails_with_text", {.pool = GetParam()});
  auto silent = one_op("fails_silently", {.pool = GetParam()});
  run_error(*loud);
  EXPECT_HAS(run_error(*silent), "without a text");
}

TEST_P(EveryPool, TakesBackWorkspacesOfAnOperatorThatGaveUp) {
  auto executor = one_op("fails_holding_workspaces", {.pool = GetParam()});
  ASSERT_NE(executor, nullptr);
  EXPECT_HAS(run_error(*executor), "gave up half way");
  const std::uint64_t peak = executor->pool_stats().workspace_peak_bytes;
  for (int run = 0; run < 10; ++run) run_error(*executor);
  EXPECT_EQ(executor->pool_stats().workspace_peak_bytes, peak);
}

TEST_P(EveryPool, TakesBackWorkspacesOfAWorkerThatGaveUpAndKeepsItsText) {
  auto executor = one_op("worker_fails", {.pool = GetParam(), .threads = 3});
  ASSERT_NE(executor, nullptr);
  for (int run = 0; run < 20; ++run) EXPECT_HAS(run_error(*executor), "the last task is unwell");
  EXPECT_EQ(executor->pool_stats().workspace_peak_bytes,
            std::string(GetParam()) == "naive" ? 3000u : 4096u);
}

TEST_P(EveryPool, AnswersMisuseOfTheBackendWithAnError) {
  struct Misuse {
    const char* func;
    const char* text;
  };
  for (const Misuse& misuse :
       {Misuse{"nests", "launches do not nest"}, Misuse{"wants_many_tasks", "use --threads 64"},
        Misuse{"frees_a_strange_block", "this thread does not hold"},
        Misuse{"wants_device_workspace", "device type 4"},
        Misuse{"wants_huge_workspace", "no memory for a workspace"},
        Misuse{"calls_missing_function", "\"tvm.contrib.nobody.has_this\""}}) {
    for (const int threads : {1, 2}) {
      auto executor = one_op(misuse.func, {.pool = GetParam(), .threads = threads});
      ASSERT_NE(executor, nullptr);
      EXPECT_HAS(run_error(*executor), misuse.text);
    }
  }
}

TEST(SeveralExecutors, OfOneLibraryOnTwoThreadsWithTwoPoolsDoNotDisturbEachOther) {
  const ModelPtr model = *load_graph(GraphText("[64]")
                                         .input("x")
                                         .op("a", "in_parallel", "[0,0,0]")
                                         .op("b", "through_workspace", "[1,0,0]")
                                         .op("c", "in_parallel", "[2,0,0]")
                                         .text("[3,0,0]"));
  const auto work = [&model](const char* pool, float start) {
    auto executor = executor_or_fail(model, {.pool = pool, .threads = 2});
    ASSERT_NE(executor, nullptr);
    Result<Tensor> x = Tensor::create({64}, {kDLFloat, 32, 1});
    for (float& value : x->as<float>()) value = start;
    ASSERT_TRUE(executor->set_input("x", x->view()).ok());
    for (int run = 0; run < 300; ++run) {
      const Status status = executor->run();
      ASSERT_TRUE(status.ok()) << status.error().message;
      ASSERT_EQ(output_values(*executor), Floats(64, start + 3));
    }
    // Two tasks in a and in c, one request in b: none was served by the other executor.
    EXPECT_EQ(executor->pool_stats().workspace_requests, 300u * 5);
  };
  std::thread naive(work, "naive", 10.0f);
  std::thread caching(work, "caching", 1000.0f);
  naive.join();
  caching.join();
}

TEST(SeveralExecutors, OfARealModelOnTwoThreadsGiveTheRightAnswers) {
  OPMETER_SKIP_WITHOUT_AVX2();
  const auto work = [](const char* pool) {
    auto executor =
        executor_or_fail(load_or_fail(artifact("cnn_09.so")), {.pool = pool, .threads = 2});
    ASSERT_NE(executor, nullptr);
    set_reference_inputs(*executor, "cnn_09");
    for (int run = 0; run < 20; ++run) {
      ASSERT_TRUE(executor->run().ok());
      expect_reference_outputs(*executor, "cnn_09");
    }
  };
  std::thread naive(work, "naive");
  std::thread caching(work, "caching");
  naive.join();
  caching.join();
}

TEST(SeveralExecutors, ShareTheLibraryUntilTheLastOneEnds) {
  Result<std::shared_ptr<Library>> first = Library::open(fixture("ops"));
  Result<std::shared_ptr<Library>> second = Library::open(fixture("ops"));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->get(), second->get());
  first = input_error("dropped");
  EXPECT_NE((*second)->function("add_one"), nullptr);
}

TEST_P(EveryPool, FeedsOneOutputToSeveralReadersAndFreesUnusedOutputs) {
  const ModelPtr model = *load_graph(GraphText()
                                         .input("x")
                                         .op("split", "up_and_down", "[0,0,0]", {.outputs = 2})
                                         .op("sum", "add", "[1,0,0],[1,0,0]")
                                         .op("unused", "add_one", "[0,0,0]")
                                         .op("twice", "add", "[2,0,0],[1,0,0]")
                                         .text("[4,0,0],[2,0,0]"));
  auto executor = executor_or_fail(model, {.pool = GetParam()});
  ASSERT_NE(executor, nullptr);
  for (int run = 0; run < 2; ++run) {
    ASSERT_TRUE(executor->run().ok());
    EXPECT_EQ(output_values(*executor, 0), Floats(4, 3.0f));
    EXPECT_EQ(output_values(*executor, 1), Floats(4, 2.0f));
  }
  EXPECT_EQ(executor->outputs()[0].name, "twice");
  EXPECT_EQ(executor->ops()[0].outputs[1].name, "split:1");
}

TEST(FlattenData, PassesOneDimensionalViews) {
  for (const bool flatten : {false, true}) {
    const ModelPtr model = *load_graph(GraphText("[2,2]")
                                           .input("x")
                                           .op("y", "write_ndim", "[0,0,0]", {.flatten = flatten})
                                           .text("[1,0,0]"));
    auto executor = executor_or_fail(model);
    ASSERT_TRUE(executor->run().ok());
    EXPECT_EQ(output_values(*executor)[0], flatten ? 1.0f : 2.0f);
  }
}

TEST_P(EveryPool, CopiesByTheBuiltInCopyOperator) {
  const ModelPtr model = *load_graph(GraphText()
                                         .input("x")
                                         .op("a", "add_one", "[0,0,0]")
                                         .op("c", "__copy", "[1,0,0]")
                                         .text("[2,0,0]"));
  auto executor = executor_or_fail(model, {.pool = GetParam()});
  ASSERT_TRUE(executor->run().ok());
  EXPECT_EQ(output_values(*executor), Floats(4, 1.0f));
}

TEST(Layout, ReleasesEachPlaceAfterItsLastUseAndOutputsNever) {
  const Result<Graph> graph = parse_graph_json(GraphText()
                                                   .input("x")
                                                   .op("a", "add_one", "[0,0,0]")
                                                   .op("r", "__nop", "[1,0,0]", {.storage_id = 1})
                                                   .op("b", "add_one", "[1,0,0]")
                                                   .op("c", "add", "[2,0,0],[3,0,0]")
                                                   .text("[4,0,0]"),
                                               "test");
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  const Result<Layout> layout = lay_out(*graph, false, "test");
  ASSERT_TRUE(layout.ok());
  const auto& place = layout->place_of_entry;
  EXPECT_EQ(place[1], place[2]) << "a reshape lives where its input does";
  EXPECT_EQ(layout->ops[0].acquire, std::vector{place[1]});
  EXPECT_TRUE(layout->ops[0].release.empty());
  EXPECT_TRUE(layout->ops[2].release.empty());
  EXPECT_EQ(layout->ops[3].release, (std::vector{place[1], place[3]}));
  EXPECT_TRUE(layout->places[place[4]].is_output);
}

TEST(Layout, SharesPlacesByStorageIdButNeverWithInputs) {
  const Result<Graph> graph = parse_graph_json(GraphText()
                                                   .input("x")
                                                   .op("a", "add_one", "[0,0,0]", {.storage_id = 5})
                                                   .op("b", "add_one", "[1,0,0]", {.storage_id = 0})
                                                   .op("c", "add_one", "[2,0,0]", {.storage_id = 5})
                                                   .text("[3,0,0]"),
                                               "test");
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  const Result<Layout> layout = lay_out(*graph, true, "test");
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->places.size(), 3u);
  EXPECT_EQ(layout->place_of_entry[1], layout->place_of_entry[3]);
  EXPECT_NE(layout->place_of_entry[0], layout->place_of_entry[2]);
}

TEST(Options, OutOfRangeAreUsageErrors) {
  const ModelPtr model = *load_model(fixture("factory"));
  struct Bad {
    ExecutorOptions options;
    ErrorKind kind;
    const char* text;
  };
  for (const Bad& bad : {Bad{{.threads = 0}, ErrorKind::kUsage, "threads"},
                         Bad{{.threads = 5000}, ErrorKind::kUsage, "threads"},
                         Bad{{.pool = "magic"}, ErrorKind::kUsage, "naive or caching"},
                         Bad{{.device = {kDLCPU, 3}}, ErrorKind::kUsage, "cpu:3"},
                         Bad{{.device = {kDLCUDA, 0}}, ErrorKind::kUnavailable, "cuda"}}) {
    Result<std::unique_ptr<Executor>> executor = Executor::create(model, bad.options);
    ASSERT_FALSE(executor.ok());
    EXPECT_EQ(executor.error().kind, bad.kind);
    EXPECT_HAS(executor.error().message, bad.text);
  }
}

}  // namespace
}  // namespace opmeter::runtime
