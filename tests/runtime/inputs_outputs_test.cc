// SPDX-License-Identifier: Apache-2.0
// inputs_outputs_test.cc: data in and out: copies, zero copy and who keeps whose memory, and the
// known holes of zero copy (reshape after an input, outputs made by __nop, inputs that are
// outputs).
#include <gtest/gtest.h>

#include "tests/runtime/graphs.h"

namespace opmeter::runtime {
namespace {

using Floats = std::vector<float>;

/// An exporter that counts how often its tensor was deleted.
template <typename Managed>
struct Exporter {
  alignas(kTensorAlignment) float data[64 + 32] = {};
  std::int64_t shape[2] = {4, 1};
  int deleted = 0;
  Managed managed{};

  explicit Exporter(const Floats& values) {
    std::copy(values.begin(), values.end(), data);
    DLTensor& tensor = managed.dl_tensor;
    tensor.data = data;
    tensor.device = {kDLCPU, 0};
    tensor.ndim = 1;
    tensor.dtype = {kDLFloat, 32, 1};
    tensor.shape = shape;
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { ++static_cast<Exporter*>(self->manager_ctx)->deleted; };
  }
};

using OldExporter = Exporter<DLManagedTensor>;

Tensor floats(const Floats& values) {
  Result<Tensor> tensor =
      Tensor::create({static_cast<std::int64_t>(values.size())}, {kDLFloat, 32, 1});
  std::copy(values.begin(), values.end(), tensor->as<float>().begin());
  return *tensor;
}

class EveryPool : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Pools, EveryPool, testing::Values("naive", "caching"));

TEST_P(EveryPool, UsesAnExportersMemoryInPlaceAndDeletesItWhenReplaced) {
  OldExporter first({1, 2, 3, 4});
  OldExporter second({10, 20, 30, 40});
  auto executor = one_op("add_one", {.pool = GetParam()});
  ASSERT_TRUE(executor->set_input_zero_copy(0, &first.managed).ok());
  ASSERT_TRUE(executor->run().ok());
  EXPECT_EQ(output_values(*executor), (Floats{2, 3, 4, 5}));
  first.data[0] = 7;
  ASSERT_TRUE(executor->run().ok());
  EXPECT_EQ(output_values(*executor)[0], 8.0f);
  EXPECT_EQ(first.deleted, 0);
  ASSERT_TRUE(executor->set_input_zero_copy("x", &second.managed).ok());
  EXPECT_EQ(first.deleted, 1);
  ASSERT_TRUE(executor->run().ok());
  EXPECT_EQ(output_values(*executor), (Floats{11, 21, 31, 41}));
  executor.reset();
  EXPECT_EQ(first.deleted, 1);
  EXPECT_EQ(second.deleted, 1);
}

TEST_P(EveryPool, CopiesIntoItsOwnMemoryAfterAZeroCopyInput) {
  OldExporter exporter({1, 2, 3, 4});
  auto executor = one_op("add_one", {.pool = GetParam()});
  ASSERT_TRUE(executor->set_input_zero_copy(0, &exporter.managed).ok());
  ASSERT_TRUE(executor->set_input(0, floats({5, 6, 7, 8}).view()).ok());
  EXPECT_EQ(exporter.deleted, 1);
  EXPECT_EQ(exporter.data[0], 1.0f) << "the caller's memory must not be written";
  ASSERT_TRUE(executor->run().ok());
  EXPECT_EQ(output_values(*executor), (Floats{6, 7, 8, 9}));
}

TEST(ZeroCopyInput, TakesVersionedTensorsOfDlpackOne) {
  Exporter<DLManagedTensorVersioned> exporter({1, 2, 3, 4});
  auto executor = one_op("add_one");
  exporter.managed.version = {2, 0};
  EXPECT_FALSE(executor->set_input_zero_copy(0, &exporter.managed).ok());
  exporter.managed.version = {1, 3};
  ASSERT_TRUE(executor->set_input_zero_copy(0, &exporter.managed).ok());
  ASSERT_TRUE(executor->run().ok());
  EXPECT_EQ(output_values(*executor), (Floats{2, 3, 4, 5}));
  executor.reset();
  EXPECT_EQ(exporter.deleted, 1);
}

TEST(ZeroCopyInput, HonoursByteOffset) {
  OldExporter exporter({});
  for (int i = 0; i < 4; ++i) exporter.data[32 + i] = static_cast<float>(i);
  exporter.managed.dl_tensor.byte_offset = 128;
  auto executor = one_op("add_one");
  ASSERT_TRUE(executor->set_input_zero_copy(0, &exporter.managed).ok());
  ASSERT_TRUE(executor->run().ok());
  EXPECT_EQ(output_values(*executor), (Floats{1, 2, 3, 4}));
}

TEST(ZeroCopyInput, LeavesARefusedTensorWithItsOwner) {
  struct Refusal {
    const char* text;
    void (*spoil)(DLTensor&);
  };
  static std::int64_t stride[2] = {2, 1};
  static std::int64_t other_shape[1] = {5};
  for (const Refusal& refusal : {
           Refusal{"aligned to 128", [](DLTensor& t) { t.byte_offset = 4; }},
           Refusal{"aligned to 128", [](DLTensor& t) { t.byte_offset = 64; }},
           Refusal{"strided", [](DLTensor& t) { t.strides = stride; }},
           Refusal{"which the host cannot read",
                   [](DLTensor& t) {
                     t.device = {kDLCUDA, 0};
                   }},
           Refusal{"cpu:1",
                   [](DLTensor& t) {
                     t.device = {kDLCPU, 1};
                   }},
           Refusal{"5 float32", [](DLTensor& t) { t.shape = other_shape; }},
           Refusal{"4x1 float32", [](DLTensor& t) { t.ndim = 2; }},
           Refusal{"float64", [](DLTensor& t) { t.dtype.bits = 64; }},
           Refusal{"no data", [](DLTensor& t) { t.data = nullptr; }},
       }) {
    OldExporter exporter({1, 2, 3, 4});
    refusal.spoil(exporter.managed.dl_tensor);
    auto executor = one_op("add_one");
    const Status status = executor->set_input_zero_copy(0, &exporter.managed);
    ASSERT_FALSE(status.ok()) << refusal.text;
    EXPECT_EQ(status.error().kind, ErrorKind::kUsage);
    EXPECT_NE(status.error().message.find(refusal.text), std::string::npos)
        << status.error().message;
    EXPECT_NE(status.error().message.find("input \"x\""), std::string::npos);
    executor.reset();
    EXPECT_EQ(exporter.deleted, 0);
  }
}

TEST_P(EveryPool, ReachesThroughAReshapeRightAfterAnInput) {
  OldExporter exporter({1, 2, 3, 4});
  const ModelPtr model =
      *load_graph(GraphText()
                      .input("x")
                      .op("r", "__nop", "[0,0,0]", {.storage_id = 0, .shape = "[2,2]"})
                      .op("y", "add_one", "[1,0,0]")
                      .text("[2,0,0]"));
  auto executor = executor_or_fail(model, {.pool = GetParam()});
  ASSERT_TRUE(executor->set_input_zero_copy(0, &exporter.managed).ok());
  ASSERT_TRUE(executor->run().ok());
  EXPECT_EQ(output_values(*executor), (Floats{2, 3, 4, 5}));
}

TEST_P(EveryPool, GivesAnOutputThatAReshapeMade) {
  const ModelPtr model =
      *load_graph(GraphText()
                      .input("x")
                      .op("a", "add_one", "[0,0,0]", {.storage_id = 7})
                      .op("r", "__nop", "[1,0,0]", {.storage_id = 7, .shape = "[2,2]"})
                      .text("[2,0,0]"));
  auto executor = executor_or_fail(model, {.pool = GetParam()});
  for (int run = 0; run < 2; ++run) {
    ASSERT_TRUE(executor->set_input(0, floats({1, 2, 3, 4}).view()).ok());
    ASSERT_TRUE(executor->run().ok());
    EXPECT_EQ(output_values(*executor), (Floats{2, 3, 4, 5}));
    EXPECT_EQ(executor->output(0)->ndim, 2);
  }
}

TEST_P(EveryPool, GivesAnInputThatIsAlsoAnOutput) {
  const ModelPtr model = *load_graph(GraphText()
                                         .input("x")
                                         .op("r", "__nop", "[0,0,0]", {.storage_id = 0})
                                         .op("a", "add_one", "[0,0,0]")
                                         .text("[0,0,0],[1,0,0],[2,0,0]"));
  auto executor = executor_or_fail(model, {.pool = GetParam()});
  OldExporter exporter({1, 2, 3, 4});
  ASSERT_TRUE(executor->set_input_zero_copy(0, &exporter.managed).ok());
  ASSERT_TRUE(executor->run().ok());
  EXPECT_EQ(output_values(*executor, 0), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(output_values(*executor, 1), (Floats{1, 2, 3, 4}));
  Result<DLManagedTensor*> exported = executor->get_output(1);
  ASSERT_TRUE(exported.ok());
  executor.reset();
  EXPECT_EQ(exporter.deleted, 0) << "the exported output still uses the memory";
  EXPECT_EQ(values((*exported)->dl_tensor), (Floats{1, 2, 3, 4}));
  (*exported)->deleter(*exported);
  EXPECT_EQ(exporter.deleted, 1);
}

TEST_P(EveryPool, KeepsAnExportedOutputBeyondItsExecutor) {
  auto executor = one_op("add_one", {.pool = GetParam()});
  ASSERT_TRUE(executor->run().ok());
  Result<DLManagedTensor*> first = executor->get_output(0);
  Result<DLManagedTensor*> second = executor->get_output(0);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ((*first)->dl_tensor.data, (*second)->dl_tensor.data);
  (*second)->deleter(*second);
  executor.reset();
  EXPECT_EQ(values((*first)->dl_tensor), (Floats{2, 3, 4, 5}));
  EXPECT_EQ((*first)->dl_tensor.shape[0], 4);
  (*first)->deleter(*first);
}

TEST(NaivePool, LeavesAnExportedOutputAloneInLaterRuns) {
  auto executor = one_op("add_one", {.pool = "naive"});
  ASSERT_TRUE(executor->run().ok());
  Result<DLManagedTensor*> exported = executor->get_output(0);
  ASSERT_TRUE(exported.ok());
  ASSERT_TRUE(executor->set_input(0, floats({100, 100, 100, 100}).view()).ok());
  for (int run = 0; run < 3; ++run) ASSERT_TRUE(executor->run().ok());
  EXPECT_EQ(values((*exported)->dl_tensor), (Floats{2, 3, 4, 5}));
  EXPECT_EQ(output_values(*executor), Floats(4, 101.0f));
  (*exported)->deleter(*exported);
}

TEST_P(EveryPool, CanFeedAnExportedOutputToAnotherExecutor) {
  auto producer = one_op("add_one", {.pool = GetParam()});
  auto consumer = one_op("add_one", {.pool = GetParam()});
  ASSERT_TRUE(producer->run().ok());
  Result<DLManagedTensor*> exported = producer->get_output(0);
  ASSERT_TRUE(exported.ok());
  ASSERT_TRUE(consumer->set_input_zero_copy("x", *exported).ok());
  producer.reset();
  ASSERT_TRUE(consumer->run().ok());
  EXPECT_EQ(output_values(*consumer), (Floats{3, 4, 5, 6}));
}

TEST(Outputs, AreThereAfterARunOnlyAndByValidIndexOnly) {
  auto executor = one_op("add_one");
  EXPECT_NE(executor->output(0).error().message.find("call run() first"), std::string::npos);
  ASSERT_TRUE(executor->run().ok());
  EXPECT_TRUE(executor->output(0).ok());
  EXPECT_EQ(executor->output(1).error().kind, ErrorKind::kUsage);
  EXPECT_EQ(executor->get_output(9).error().kind, ErrorKind::kUsage);
}

TEST(Outputs, AreCopiedToHostTensorsOfTheirShapeOnly) {
  auto executor = one_op("add_one");
  ASSERT_TRUE(executor->run().ok());
  const Tensor target = floats({0, 0, 0, 0});
  ASSERT_TRUE(executor->copy_output(0, target.view()).ok());
  EXPECT_EQ(target.as<float>()[3], 5.0f);
  EXPECT_FALSE(executor->copy_output(0, floats({0, 0}).view()).ok());
  DLTensor on_device = target.view();
  on_device.device = {kDLCUDA, 0};
  EXPECT_NE(executor->copy_output(0, on_device).error().message.find("cuda:0"), std::string::npos);
}

TEST(Inputs, OwnStorageReplacesASharedParameter) {
  OPMETER_SKIP_WITHOUT_AVX2();
  const ModelPtr model = load_or_fail(artifact("mlp_09.so"));
  auto changed = executor_or_fail(model);
  auto untouched = executor_or_fail(model);
  for (const InputInfo& input : changed->inputs()) {
    if (!input.is_param) continue;
    Result<Tensor> zeros = Tensor::create(input.shape, input.dtype);
    ASSERT_TRUE(changed->set_input(input.index, zeros->view()).ok());
  }
  set_reference_inputs(*changed, "mlp_09");
  set_reference_inputs(*untouched, "mlp_09");
  ASSERT_TRUE(changed->run().ok());
  ASSERT_TRUE(untouched->run().ok());
  EXPECT_NEAR(output_values(*changed)[0], 0.1f, 1e-6f);
  expect_reference_outputs(*untouched, "mlp_09");
}

TEST(Inputs, AcceptDlpacksBoolForTvmsBool) {
  Result<Graph> graph = parse_graph_json(GraphText().input("x").text("[0,0,0]"), "test");
  ASSERT_TRUE(graph.ok());
  std::string text = GraphText().input("x").text("[0,0,0]");
  text.replace(text.find("float32"), 7, "bool");
  auto executor = executor_or_fail(*load_graph(text));
  ASSERT_NE(executor, nullptr);
  std::uint8_t flags[4] = {1, 0, 1, 1};
  std::int64_t shape[1] = {4};
  const DLTensor tensor{flags, {kDLCPU, 0}, 1, {6, 8, 1}, shape, nullptr, 0};
  const Status status = executor->set_input("x", tensor);
  EXPECT_TRUE(status.ok()) << status.error().message;
}

}  // namespace
}  // namespace opmeter::runtime
