// SPDX-License-Identifier: Apache-2.0
// artifacts.h: finds compiled models and their reference data for tests, and compares tensors.
// Looks in tests/data first, then in the shared folder, which a checkout may lack.
#ifndef OPMETER_TESTS_RUNTIME_ARTIFACTS_H_
#define OPMETER_TESTS_RUNTIME_ARTIFACTS_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/executor/executor.h"
#include "runtime/npy.h"

namespace opmeter::runtime {

/// Path of a file of ours, or of the shared folder, or "" when neither has it.
inline std::string artifact(const std::string& file) {
  for (const char* folder : {OPMETER_TEST_DATA, OPMETER_SHARED_DATA}) {
    const std::string path = std::string(folder) + "/tvm/" + file;
    if (std::filesystem::exists(path)) return path;
  }
  return "";
}

inline bool machine_runs_artifacts() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") != 0;
#else
  return false;
#endif
}

#define OPMETER_SKIP_WITHOUT_AVX2()                                                          \
  if (!::opmeter::runtime::machine_runs_artifacts()) {                                       \
    GTEST_SKIP() << "the artifacts are compiled for x86-64 with AVX2, which this CPU lacks"; \
  }

inline ModelPtr load_or_fail(const std::string& path) {
  Result<ModelPtr> model = load_model(path);
  EXPECT_TRUE(model.ok()) << model.error().message;
  return model.ok() ? *model : nullptr;
}

inline std::unique_ptr<Executor> executor_or_fail(ModelPtr model, ExecutorOptions options = {}) {
  Result<std::unique_ptr<Executor>> executor = Executor::create(std::move(model), options);
  EXPECT_TRUE(executor.ok()) << executor.error().message;
  return executor.ok() ? std::move(executor).value() : nullptr;
}

/// Sets every input that has a NAME.in.INPUT.npy.
inline void set_reference_inputs(Executor& executor, const std::string& name) {
  for (const InputInfo& input : executor.inputs()) {
    if (input.is_param) continue;
    const std::string path = artifact(name + ".in." + input.name + ".npy");
    ASSERT_NE(path, "") << "no reference data for input " << input.name;
    Result<Tensor> tensor = read_npy(path);
    ASSERT_TRUE(tensor.ok()) << tensor.error().message;
    const Status status = executor.set_input(input.index, tensor->view());
    ASSERT_TRUE(status.ok()) << status.error().message;
  }
}

inline void expect_close(const DLTensor& got, const Tensor& want, const std::string& what) {
  ASSERT_EQ(std::vector<std::int64_t>(extents(got).begin(), extents(got).end()),
            std::vector<std::int64_t>(want.shape().begin(), want.shape().end()))
      << what;
  if (want.dtype().code != kDLFloat) {
    EXPECT_EQ(std::memcmp(data_of(got), want.data(), want.size_bytes()), 0) << what;
    return;
  }
  const auto* values = static_cast<const float*>(data_of(got));
  for (std::size_t i = 0; i < want.as<float>().size(); ++i) {
    const float expected = want.as<float>()[i];
    ASSERT_LE(std::fabs(values[i] - expected), 1e-6f + 1e-5f * std::fabs(expected))
        << what << " element " << i;
  }
}

inline void expect_reference_outputs(const Executor& executor, const std::string& name) {
  for (std::uint32_t i = 0; i < executor.outputs().size(); ++i) {
    Result<Tensor> want = read_npy(artifact(name + ".out." + std::to_string(i) + ".npy"));
    ASSERT_TRUE(want.ok()) << want.error().message;
    Result<DLTensor> got = executor.output(i);
    ASSERT_TRUE(got.ok()) << got.error().message;
    expect_close(*got, *want, name + " output " + std::to_string(i));
  }
}

}  // namespace opmeter::runtime

#endif  // OPMETER_TESTS_RUNTIME_ARTIFACTS_H_
