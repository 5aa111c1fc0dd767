// SPDX-License-Identifier: Apache-2.0
// bad_input_test.cc: everything a user can hand over that does not work gets one line that names
// the file, node or input and says what to do, with the right exit code class.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/runtime/graphs.h"

namespace opmeter::runtime {
namespace {

void expect_error(const Error& error, ErrorKind kind, const std::vector<std::string>& parts) {
  EXPECT_EQ(error.kind, kind) << error.message;
  EXPECT_EQ(error.message.find('\n'), std::string::npos) << error.message;
  for (const std::string& part : parts) {
    EXPECT_NE(error.message.find(part), std::string::npos) << part << " in: " << error.message;
  }
}

void expect_load_error(const std::string& path, const std::vector<std::string>& parts) {
  const Result<ModelPtr> model = load_model(path);
  ASSERT_FALSE(model.ok()) << path;
  expect_error(model.error(), ErrorKind::kInput, parts);
  EXPECT_EQ(model.error().message.rfind(path, 0), 0u) << model.error().message;
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(BadLibrary, MissingFileOrFolder) {
  expect_load_error("/nowhere/model.so", {"No such file"});
  expect_load_error("/tmp", {"is not a file"});
}

TEST(BadLibrary, WrongMagicSaysWhatItLooksLike) {
  const TempFolder folder;
  expect_load_error(
      folder.write("text.so", "hello, world, this is no library at all, not even near"),
      {"wrong magic", "export_library"});
  expect_load_error(folder.write("empty.so", ""), {"wrong magic"});
  expect_load_error(folder.write("graph.so", "{\"nodes\": []}"), {"JSON", "--graph"});
  std::string tar(1024, '\0');
  tar.replace(257, 5, "ustar");
  expect_load_error(folder.write("package.so", tar), {"tar package", "--lib"});
}

TEST(BadLibrary, ObjectFileOrOtherMachine) {
  const TempFolder folder;
  std::string elf = bytes_of(fixture("factory"));
  std::string object = elf;
  object[16] = 1;  // e_type: ET_REL
  expect_load_error(folder.write("object.so", object), {"object file", "-shared"});
  std::string other = elf;
  other[18] = 8;  // e_machine: MIPS
  other[19] = 0;
  expect_load_error(folder.write("mips.so", other), {"another machine"});
}

TEST(BadLibrary, CutAnywhereIsToldAndNeverMapped) {
  const TempFolder folder;
  const std::string whole = bytes_of(fixture("factory"));
  ASSERT_GT(whole.size(), 4096u);
  for (std::size_t size = 8; size < whole.size(); size += whole.size() / 97) {
    expect_load_error(folder.write("cut.so", whole.substr(0, size)), {"is cut"});
  }
  expect_load_error(folder.write("cut.so", whole.substr(0, whole.size() - 1)), {"is cut"});
}

TEST(BadLibrary, WithoutAGraphAsksForTheThreeFiles) {
  expect_load_error(fixture("ops"), {"no graph", "--graph"});
}

TEST(BadLibrary, OfALaterTvmIsNamed) {
  expect_load_error(fixture("factory_ffi"), {"TVM 0.21", "__TVMFFIFunctionCall"});
}

TEST(BadBlob, UnknownEntryIsNamedWithPositionAndMaker) {
  expect_load_error(fixture("factory_unknown"),
                    {"entry 0 \"wonder_target\"", "byte 8", "unknown kind", "target llvm"});
  expect_load_error(fixture("factory_vulkan"), {"entry 0 \"vulkan\"", "target vulkan"});
  expect_load_error(fixture("factory_aot"), {"AOT executor", "executor graph"});
}

TEST(BadBlob, LengthBeyondTheLibraryOrItsContent) {
  expect_load_error(fixture("factory_long"), {"__tvm_dev_mblob claims", "damaged"});
  expect_load_error(fixture("factory_short"), {"__tvm_dev_mblob", "cut or damaged"});
}

TEST(BadBlob, OldAndNewFactoryKeysAreBothTaken) {
  EXPECT_EQ(load_or_fail(fixture("factory"))->format, "GraphExecutorFactory");
  EXPECT_EQ(load_or_fail(fixture("factory_v07"))->format, "GraphRuntimeFactory");
  for (const char* name : {"factory", "factory_v07"}) {
    auto executor = executor_or_fail(load_or_fail(fixture(name)));
    ASSERT_NE(executor, nullptr);
    ASSERT_TRUE(executor->run().ok());
    EXPECT_EQ(output_values(*executor), std::vector<float>(4, 1.0f));
  }
}

TEST(MissingFunction, NamesOperatorFunctionAndLibrary) {
  const ModelPtr model = load_or_fail(fixture("factory_no_function"));
  ASSERT_NE(model, nullptr);
  const auto executor = Executor::create(model, {});
  ASSERT_FALSE(executor.ok());
  expect_error(executor.error(), ErrorKind::kInput,
               {"operator 0 \"y\"", "\"not_there\"", "factory_no_function.so", "different models"});
}

TEST(BadFiles, EachOfTheThreeIsNamed) {
  const TempFolder folder;
  const std::string graph =
      folder.write("g.json", GraphText().input("x").op("y", "add_one", "[0,0,0]").text("[1,0,0]"));
  struct Bad {
    ModelFiles files;
    std::vector<std::string> parts;
  };
  for (const Bad& bad : {
           Bad{{folder.path() + "/no.json", "", fixture("ops")}, {"no.json", "graph file"}},
           Bad{{graph, folder.path() + "/no.params", fixture("ops")},
               {"no.params", "No such file"}},
           Bad{{graph, "", folder.path() + "/no.so"}, {"no.so", "No such file"}},
           Bad{{graph, graph, fixture("ops")}, {"g.json", "wrong magic", "save_param_dict"}},
           Bad{{folder.write("b.json", "{"), "", fixture("ops")}, {"b.json", "not JSON"}},
       }) {
    const Result<ModelPtr> model = load_model(bad.files);
    ASSERT_FALSE(model.ok());
    expect_error(model.error(), ErrorKind::kInput, bad.parts);
  }
}

TEST(BadFiles, ParametersOfAnotherModelAreNoticed) {
  const TempFolder folder;
  const std::string graph =
      GraphText("[5]").input("p0").op("y", "add_one", "[0,0,0]").text("[1,0,0]");
  const Result<ModelPtr> model = load_model(
      ModelFiles{folder.write("g.json", graph), artifact("mlp_09.params"), fixture("ops")});
  ASSERT_FALSE(model.ok());
  expect_error(model.error(), ErrorKind::kInput,
               {"mlp_09.params", "parameter \"p0\"", "5 float32", "different models"});
}

TEST(DeviceArtifact, IsUnavailableAndSaysForWhichDeviceItIs) {
  OPMETER_SKIP_WITHOUT_AVX2();
  const ModelPtr model = load_or_fail(artifact("cnn_opencl_09.so"));
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->device_modules, std::vector<std::string>{"opencl"});
  const auto executor = Executor::create(model, {});
  ASSERT_FALSE(executor.ok());
  expect_error(executor.error(), ErrorKind::kUnavailable,
               {"cnn_opencl_09.so", "opencl", "target llvm"});
}

TEST(BadInput, UnknownNameOrIndexListsWhatIsThere) {
  auto executor = one_op("add_one");
  Result<Tensor> tensor = Tensor::create({4}, {kDLFloat, 32, 1});
  expect_error(executor->set_input("nope", tensor->view()).error(), ErrorKind::kUsage,
               {"no input \"nope\"", "\"x\""});
  expect_error(executor->set_input(7, tensor->view()).error(), ErrorKind::kUsage, {"no input 7"});
}

TEST(BadInput, ShapeOrTypeMismatchShowsBothSides) {
  auto executor = one_op("add_one");
  Result<Tensor> shape = Tensor::create({2, 2}, {kDLFloat, 32, 1});
  expect_error(executor->set_input("x", shape->view()).error(), ErrorKind::kUsage,
               {"input \"x\"", "4 float32", "2x2 float32"});
  Result<Tensor> type = Tensor::create({4}, {kDLInt, 32, 1});
  expect_error(executor->set_input("x", type->view()).error(), ErrorKind::kUsage,
               {"4 float32", "4 int32"});
}

TEST(BadInput, DeviceTensorCannotBeReadByTheHost) {
  auto executor = one_op("add_one");
  Result<Tensor> tensor = Tensor::create({4}, {kDLFloat, 32, 1});
  DLTensor view = tensor->view();
  view.device = {kDLOpenCL, 1};
  expect_error(executor->set_input("x", view).error(), ErrorKind::kUsage,
               {"opencl:1", "the host cannot read"});
}

TEST(BadGraph, ReshapeThatJoinsTwoStorageIdsIsRefusedByCachingOnly) {
  const std::string text = GraphText()
                               .input("x")
                               .op("a", "add_one", "[0,0,0]", {.storage_id = 5})
                               .op("r", "__nop", "[1,0,0]", {.storage_id = 6})
                               .text("[2,0,0]");
  const ModelPtr model = *load_graph(text);
  EXPECT_TRUE(Executor::create(model, {.pool = "naive"}).ok());
  const auto caching = Executor::create(model, {.pool = "caching"});
  ASSERT_FALSE(caching.ok());
  expect_error(caching.error(), ErrorKind::kInput, {"node 2 \"r\"", "storage id"});
}

}  // namespace
}  // namespace opmeter::runtime
