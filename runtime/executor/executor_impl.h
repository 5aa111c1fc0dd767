// SPDX-License-Identifier: Apache-2.0
// executor_impl.h: the inside of an Executor, shared by create.cc (laid out once), run.cc (the
// loop), inputs.cc and outputs.cc. Not for users.
#ifndef OPMETER_RUNTIME_EXECUTOR_EXECUTOR_IMPL_H_
#define OPMETER_RUNTIME_EXECUTOR_EXECUTOR_IMPL_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "opmeter/opmeter.h"
#include "runtime/executor/backend.h"
#include "runtime/executor/executor.h"
#include "runtime/executor/layout.h"
#include "runtime/executor/shared_block.h"
#include "runtime/executor/thread_pool.h"
#include "runtime/tvm/c_abi.h"

namespace opmeter::runtime {

/// One call of run()'s loop. Everything it points at is fixed at creation; only the data pointers
/// of the tensors behind args change.
struct OpCall {
  TvmFunction function;
  TvmValue* args;
  int* type_codes;
  int num_args;
  std::uint32_t op;  ///< index among ops
};

/// Where a place's data is now.
struct PlaceState {
  void* block = nullptr;          ///< from the pool; null for inputs and when not there
  SharedBlock* shared = nullptr;  ///< set while an exported output holds the block too
  std::vector<DLTensor*> views;   ///< tensors whose data points here
};

struct InputState {
  std::shared_ptr<void> owner;  ///< keeps the data: own storage, the model's, or an exporter's
  bool writable = false;        ///< own storage, so set_input may copy into it
  bool set = false;
};

struct Executor::Impl {
  ModelPtr model;
  ExecutorOptions options;
  std::vector<InputInfo> inputs;
  std::vector<TensorInfo> outputs;
  std::vector<OpInfo> ops;
  std::uint64_t create_ns = 0;

  Layout layout;
  std::vector<PlaceState> places;
  std::vector<InputState> input_states;
  std::vector<DLTensor> entry_tensors;  ///< one per graph entry
  std::vector<DLTensor> flat_tensors;   ///< copies for ops with flatten_data
  std::vector<std::int64_t> flat_extents;
  std::vector<TvmValue> args;
  std::vector<int> type_codes;
  std::vector<OpCall> calls;  ///< ops without "__nop", in order

  std::shared_ptr<Pool> pool;  ///< exported outputs keep it too
  std::unique_ptr<ThreadPool> threads;
  ThreadContext context;
  bool tensors_per_run = false;
  bool has_outputs = false;  ///< the last run succeeded
  opm_graph graph_id = 0;
  std::vector<opm_op> op_ids;

  ~Impl();

  // create.cc
  Status build();
  void describe();
  Status bind_calls();
  Status place_tensors();
  void declare();

  // run.cc
  Status run();
  template <bool kMarked, bool kPerRun>
  const OpCall* run_calls();
  bool acquire(const OpLayout& op);
  void release(std::uint32_t place);
  void release_outputs();
  void clean_up_after_failure();
  Error run_error(const OpCall& call) const;

  // inputs.cc
  Status check_input(std::uint32_t index, const DLTensor& tensor, bool zero_copy) const;
  Status adopt(std::uint32_t index, const DLTensor& tensor, std::shared_ptr<void> owner);
  void point_place(std::uint32_t place, void* data);

  const DLTensor& head_tensor(std::uint32_t index) const;
  std::uint32_t head_place(std::uint32_t index) const;
};

}  // namespace opmeter::runtime

#endif  // OPMETER_RUNTIME_EXECUTOR_EXECUTOR_IMPL_H_
