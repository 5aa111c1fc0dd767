// SPDX-License-Identifier: Apache-2.0
// executor.h: runs a loaded model. Everything a run needs (call records, tensors' places, threads)
// is laid out at creation; run() is a loop over calls. It tells opmeter.h about the graph, each run
// and each op, and asks the profiler once per run whether anyone listens. It never includes the
// recorder.
#ifndef OPMETER_RUNTIME_EXECUTOR_EXECUTOR_H_
#define OPMETER_RUNTIME_EXECUTOR_EXECUTOR_H_

#include <dlpack/dlpack.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "opmeter/result.h"
#include "runtime/executor/dlpack_versioned.h"
#include "runtime/executor/model.h"
#include "runtime/pool/pool.h"

namespace opmeter::runtime {

struct ExecutorOptions {
  std::string pool = "caching";  ///< "naive" or "caching"
  int threads = 1;               ///< 1..kMaxThreads, the caller included
  DLDevice device{kDLCPU, 0};
};

inline constexpr int kMaxThreads = 1024;

/// A tensor of the graph's surface.
struct TensorInfo {
  std::string name;
  std::vector<std::int64_t> shape;
  DLDataType dtype{};
  std::uint64_t size_bytes = 0;
};

struct InputInfo : TensorInfo {
  std::uint32_t index = 0;  ///< TVM's input index: position among inputs and parameters
  bool is_param = false;    ///< given by the artifact
};

/// One tensor between nodes.
struct EntryInfo : TensorInfo {
  std::int64_t storage_id = 0;
};

/// One operator node.
struct OpInfo {
  std::uint32_t index = 0;  ///< position in execution order among operator nodes
  std::string name;         ///< the node's name
  std::string func;         ///< the function it calls; "__nop" = no call, the output is the input
  std::vector<EntryInfo> inputs;
  std::vector<EntryInfo> outputs;
};

/// Thread rule: one thread at a time per executor; different executors at once, also of one model.
class Executor {
 public:
  /// Errors: kUsage (pool, threads, device ordinal), kUnavailable (artifact for another device),
  /// kInput (a function is missing in the library).
  static Result<std::unique_ptr<Executor>> create(ModelPtr model, const ExecutorOptions& options);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  const Model& model() const;
  const ExecutorOptions& options() const;
  const std::vector<InputInfo>& inputs() const;    ///< inputs and parameters, by index
  const std::vector<TensorInfo>& outputs() const;  ///< named after the node that makes them
  const std::vector<OpInfo>& ops() const;          ///< in execution order, "__nop" included
  PoolStats pool_stats() const;
  std::uint64_t create_ns() const;  ///< what create() took

  /// kUsage with the known names when there is none.
  Result<std::uint32_t> input_index(std::string_view name) const;
  /// Inputs that neither the artifact nor a set_input has given; they are zeros.
  std::vector<std::uint32_t> unset_inputs() const;

  /// Copies host data of the same shape and dtype (strides allowed only if compact). kUsage names
  /// the input and both sides of a mismatch.
  Status set_input(std::uint32_t index, const DLTensor& tensor);
  Status set_input(std::string_view name, const DLTensor& tensor);

  /// Uses the tensor's memory in place until the input is set again or the executor ends; then its
  /// deleter runs. Needs 128-byte alignment of data + byte_offset. On error the caller keeps it.
  Status set_input_zero_copy(std::uint32_t index, DLManagedTensor* tensor);
  Status set_input_zero_copy(std::string_view name, DLManagedTensor* tensor);
  Status set_input_zero_copy(std::uint32_t index, DLManagedTensorVersioned* tensor);
  Status set_input_zero_copy(std::string_view name, DLManagedTensorVersioned* tensor);
  /// The same over memory that the caller keeps alive.
  Status set_input_zero_copy(std::uint32_t index, const DLTensor& borrowed);

  /// Executes every op once, in order. On error (kInput) names the operator and gives its text;
  /// everything the run had taken is back and the executor can run again.
  Status run();

  /// The last run's output, borrowed: valid until the next run, set_input or the end of the
  /// executor. kUsage: no such output, or no successful run yet.
  Result<DLTensor> output(std::uint32_t index) const;
  /// The same without a copy but kept alive by the result, also beyond the executor. The receiver
  /// calls its deleter. With tensors at load (caching) a later run overwrites the data.
  Result<DLManagedTensor*> get_output(std::uint32_t index);
  /// Copies into host memory of the same shape and dtype.
  Status copy_output(std::uint32_t index, const DLTensor& to) const;

 private:
  struct Impl;
  explicit Executor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace opmeter::runtime

#endif  // OPMETER_RUNTIME_EXECUTOR_EXECUTOR_H_
