// SPDX-License-Identifier: Apache-2.0
// graphs.h: writes small graphs as JSON for tests: nodes are added in order and wired by name.
#ifndef OPMETER_TESTS_RUNTIME_GRAPHS_H_
#define OPMETER_TESTS_RUNTIME_GRAPHS_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/executor/executor.h"
#include "tests/runtime/artifacts.h"

namespace opmeter::runtime {

/// A temporary folder that goes when the test ends.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "opmeter-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string write(const std::string& name, const std::string& text) const {
    const std::string file = path_ + "/" + name;
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// All tensors are float32 of one shape unless said otherwise.
class GraphText {
 public:
  explicit GraphText(std::string shape = "[4]") : shape_(std::move(shape)) {}

  GraphText& input(const std::string& name) {
    args_ += (args_.empty() ? "" : ",") + std::to_string(count_);
    node(R"({"op":"null","name":")" + name + R"(","inputs":[]})", 1, next_storage_++, shape_);
    return *this;
  }

  struct Extra {
    int outputs = 1;
    int storage_id = -1;  ///< -1 = a new one
    std::string shape{};
    bool flatten = false;
  };

  /// inputs: "[0,0,0],[1,0,0]".
  GraphText& op(const std::string& name, const std::string& func, const std::string& inputs) {
    return op(name, func, inputs, Extra());
  }
  GraphText& op(const std::string& name, const std::string& func, const std::string& inputs,
                const Extra& extra) {
    int num_inputs = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) num_inputs += inputs[i] == '[';
    node(R"({"op":"tvm_op","name":")" + name + R"(","attrs":{"func_name":")" + func +
             R"(","num_inputs":")" + std::to_string(num_inputs) + R"(","num_outputs":")" +
             std::to_string(extra.outputs) + R"(","flatten_data":")" + (extra.flatten ? "1" : "0") +
             R"("},"inputs":[)" + inputs + "]}",
         extra.outputs, extra.storage_id, extra.shape.empty() ? shape_ : extra.shape);
    return *this;
  }

  /// heads: "[1,0,0]".
  std::string text(const std::string& heads) const {
    return R"({"nodes":[)" + nodes_ + R"(],"arg_nodes":[)" + args_ + R"(],"heads":[)" + heads +
           R"(],"node_row_ptr":[0)" + rows_ + R"(],"attrs":{"dltype":["list_str",[)" + dtypes_ +
           R"(]],"storage_id":["list_int",[)" + ids_ + R"(]],"shape":["list_shape",[)" + shapes_ +
           "]]}}";
  }

 private:
  void node(const std::string& text, int outputs, int storage_id, const std::string& shape) {
    nodes_ += (nodes_.empty() ? "" : ",") + text;
    ++count_;
    for (int i = 0; i < outputs; ++i) {
      const std::string comma = dtypes_.empty() ? "" : ",";
      dtypes_ += comma + "\"float32\"";
      ids_ += comma + std::to_string(storage_id >= 0 ? storage_id : next_storage_++);
      shapes_ += comma + shape;
      ++entries_;
    }
    rows_ += "," + std::to_string(entries_);
  }

  std::string shape_;
  std::string nodes_, args_, rows_, dtypes_, ids_, shapes_;
  int count_ = 0;
  int entries_ = 0;
  int next_storage_ = 0;
};

inline std::string fixture(const std::string& name) {
  return std::string(OPMETER_FIXTURES) + "/" + name + ".so";
}

/// The graph over a fixture library.
inline Result<ModelPtr> load_graph(const std::string& graph, const std::string& library = "ops") {
  const TempFolder folder;
  return load_model(ModelFiles{folder.write("graph.json", graph), "", fixture(library)});
}

/// y = func(x) on 4 floats, with the input set to 1 2 3 4.
inline std::unique_ptr<Executor> one_op(const std::string& func, ExecutorOptions options = {},
                                        const std::string& library = "ops") {
  Result<ModelPtr> model =
      load_graph(GraphText().input("x").op("y", func, "[0,0,0]").text("[1,0,0]"), library);
  EXPECT_TRUE(model.ok()) << model.error().message;
  if (!model) return nullptr;
  std::unique_ptr<Executor> executor = executor_or_fail(*model, options);
  if (executor == nullptr) return nullptr;
  Result<Tensor> x = Tensor::create({4}, {kDLFloat, 32, 1});
  for (std::size_t i = 0; i < 4; ++i) x->as<float>()[i] = static_cast<float>(i + 1);
  EXPECT_TRUE(executor->set_input(0, x->view()).ok());
  return executor;
}

inline std::vector<float> values(const DLTensor& tensor) {
  std::size_t count = 1;
  for (const std::int64_t extent : extents(tensor)) count *= static_cast<std::size_t>(extent);
  const auto* data = static_cast<const float*>(data_of(tensor));
  return {data, data + count};
}

inline std::vector<float> output_values(const Executor& executor, std::uint32_t index = 0) {
  Result<DLTensor> output = executor.output(index);
  EXPECT_TRUE(output.ok()) << output.error().message;
  return output.ok() ? values(*output) : std::vector<float>{};
}

}  // namespace opmeter::runtime

#endif  // OPMETER_TESTS_RUNTIME_GRAPHS_H_
