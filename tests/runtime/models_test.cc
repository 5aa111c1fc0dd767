// SPDX-License-Identifier: Apache-2.0
// models_test.cc: real artifacts of two TVM versions give stock TVM's answers, in every form, with
// every pool, with one and two threads, and grow TVM's workspaces as TVM does.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/runtime/artifacts.h"

namespace opmeter::runtime {
namespace {

struct Case {
  std::string name;
  bool three_files;
  std::string pool;
  int threads;
};

std::string words(const Case& c) {
  return c.name + (c.three_files ? "_files_" : "_library_") + c.pool + "_" +
         std::to_string(c.threads);
}

/// What test listings print instead of the bytes of a Case.
void PrintTo(const Case& c, std::ostream* out) { *out << words(c); }

std::string case_name(const testing::TestParamInfo<Case>& info) { return words(info.param); }

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  const auto add = [&cases](const std::string& name, bool files) {
    for (const char* pool : {"naive", "caching"}) {
      for (const int threads : {1, 2, 3}) cases.push_back({name, files, pool, threads});
    }
  };
  for (const char* name :
       {"relay_add_09", "relay_add_016", "mlp_09", "mlp_016", "cnn_09", "cnn_016", "bert_mini_09",
        "bert_mini_016", "bert_mini_torch_09", "bert_mini_torch_016", "bert_mini_mxnet_09",
        "reshape_chain_09", "reshape_chain_016", "chain_09"}) {
    add(name, false);
  }
  for (const char* name : {"mlp_09", "cnn_09", "bert_mini_09"}) add(name, true);
  return cases;
}

class Models : public testing::TestWithParam<Case> {};

TEST_P(Models, GiveStockTvmsOutputsInTheFirstAndInLaterRuns) {
  OPMETER_SKIP_WITHOUT_AVX2();
  const Case& c = GetParam();
  const std::string library = artifact(c.name + (c.three_files ? ".split.so" : ".so"));
  if (library.empty()) GTEST_SKIP() << c.name << " is in neither tests/data nor the shared folder";
  Result<ModelPtr> model = c.three_files
                               ? load_model(ModelFiles{artifact(c.name + ".json"),
                                                       artifact(c.name + ".params"), library})
                               : load_model(library);
  ASSERT_TRUE(model.ok()) << model.error().message;
  auto executor = executor_or_fail(*model, {.pool = c.pool, .threads = c.threads});
  ASSERT_NE(executor, nullptr);
  set_reference_inputs(*executor, c.name);
  EXPECT_TRUE(executor->unset_inputs().empty());
  for (int run = 0; run < 3; ++run) {
    const Status status = executor->run();
    ASSERT_TRUE(status.ok()) << status.error().message;
    expect_reference_outputs(*executor, c.name);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Models, testing::ValuesIn(all_cases()), case_name);

TEST(CachingPoolOnModels, GrowsInTheFirstRunAsTvmsWorkspacePoolDoesAndNeverAfter) {
  OPMETER_SKIP_WITHOUT_AVX2();
  struct Growth {
    std::string name;
    std::vector<std::uint64_t> bytes;
  };
  for (const Growth& growth :
       {Growth{"cnn_09", {53248, 4096, 77824, 151552}}, Growth{"bert_mini_09", {4096, 8192}},
        Growth{"bert_mini_016", {32768}}, Growth{"mlp_09", {}}}) {
    auto executor = executor_or_fail(load_or_fail(artifact(growth.name + ".so")));
    ASSERT_NE(executor, nullptr);
    for (int run = 0; run < 4; ++run) {
      ASSERT_TRUE(executor->run().ok());
      EXPECT_EQ(executor->pool_stats().workspace_growth_bytes, growth.bytes)
          << growth.name << " run " << run;
    }
  }
}

TEST(NaivePoolOnModels, IsAskedEqualAmountsInEveryRun) {
  OPMETER_SKIP_WITHOUT_AVX2();
  struct Requests {
    std::string name;
    std::uint64_t workspaces;
  };
  // Counted with stock TVM by replacing the slot of __TVMBackendAllocWorkspace.
  for (const Requests& c :
       {Requests{"bert_mini_torch_09", 512}, Requests{"bert_mini_mxnet_09", 632},
        Requests{"bert_mini_torch_016", 2845}}) {
    const std::string path = artifact(c.name + ".so");
    if (path.empty()) GTEST_SKIP() << "the front ends' models are only in the shared folder";
    auto executor = executor_or_fail(load_or_fail(path), {.pool = "naive"});
    ASSERT_NE(executor, nullptr);
    for (std::uint64_t run = 1; run <= 2; ++run) {
      ASSERT_TRUE(executor->run().ok());
      EXPECT_EQ(executor->pool_stats().workspace_requests, run * c.workspaces) << c.name;
    }
  }
}

TEST(ModelFacts, NameOpsInputsStorageAndParameters) {
  OPMETER_SKIP_WITHOUT_AVX2();
  const ModelPtr model = load_or_fail(artifact("cnn_09.so"));
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->format, "GraphExecutorFactory");
  EXPECT_TRUE(model->library->may_request_workspaces());
  EXPECT_GT(model->param_bytes(), 0u);
  EXPECT_GT(model->load_ns, 0u);
  auto executor = executor_or_fail(model);
  ASSERT_NE(executor, nullptr);
  EXPECT_EQ(executor->ops().size(), 14u);
  ASSERT_EQ(executor->inputs()[0].name, "data");
  EXPECT_FALSE(executor->inputs()[0].is_param);
  EXPECT_EQ(executor->inputs()[0].size_bytes, 3u * 64 * 64 * 4);
  EXPECT_TRUE(executor->inputs()[1].is_param);
  EXPECT_EQ(executor->outputs().size(), 1u);
  EXPECT_EQ(executor->unset_inputs(), std::vector<std::uint32_t>{0});
}

TEST(Argsort, NamesTheOperatorAndThePackedFunctionThatIsMissing) {
  OPMETER_SKIP_WITHOUT_AVX2();
  for (const char* file : {"argsort_09.so", "argsort_016.so"}) {
    auto executor = executor_or_fail(load_or_fail(artifact(file)));
    ASSERT_NE(executor, nullptr);
    for (int run = 0; run < 2; ++run) {
      const Status status = executor->run();
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.error().kind, ErrorKind::kInput);
      EXPECT_NE(status.error().message.find("\"tvm.contrib.sort.argsort\""), std::string::npos)
          << status.error().message;
      EXPECT_NE(status.error().message.find("operator 0 \"tvmgen_default_fused_argsort\""),
                std::string::npos)
          << status.error().message;
    }
  }
}

}  // namespace
}  // namespace opmeter::runtime
