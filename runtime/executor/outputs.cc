// SPDX-License-Identifier: Apache-2.0
// outputs.cc: data out of the graph, borrowed, copied or exported, and the executor's plain
// accessors.
#include <cstring>
#include <memory>
#include <utility>

#include "runtime/executor/executor_impl.h"
#include "runtime/tvm/dtype.h"
#include "runtime/tvm/text.h"

namespace opmeter::runtime {
namespace {

/// An exported output: the tensor, its extents and whatever keeps the data.
struct Export {
  DLManagedTensor managed{};
  std::vector<std::int64_t> shape;
  SharedBlock* block = nullptr;
  std::shared_ptr<void> owner;
  ModelPtr model;  ///< of parameters that are outputs

  ~Export() {
    if (block != nullptr) block->drop();
  }
};

void delete_export(DLManagedTensor* tensor) { delete static_cast<Export*>(tensor->manager_ctx); }

}  // namespace

Executor::Executor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executor::~Executor() = default;

Executor::Impl::~Impl() {
  threads.reset();  // Workers use the pool.
  for (std::uint32_t place = 0; place < places.size(); ++place) release(place);
}

const Model& Executor::model() const { return *impl_->model; }
const ExecutorOptions& Executor::options() const { return impl_->options; }
const std::vector<InputInfo>& Executor::inputs() const { return impl_->inputs; }
const std::vector<TensorInfo>& Executor::outputs() const { return impl_->outputs; }
const std::vector<OpInfo>& Executor::ops() const { return impl_->ops; }
PoolStats Executor::pool_stats() const { return impl_->pool->stats(); }
std::uint64_t Executor::create_ns() const { return impl_->create_ns; }

const DLTensor& Executor::Impl::head_tensor(std::uint32_t index) const {
  return entry_tensors[model->graph.entry_id(model->graph.heads[index])];
}

std::uint32_t Executor::Impl::head_place(std::uint32_t index) const {
  return layout.place_of_entry[model->graph.entry_id(model->graph.heads[index])];
}

Result<DLTensor> Executor::output(std::uint32_t index) const {
  const Impl& self = *impl_;
  if (index >= self.outputs.size()) {
    return usage_error(one_line(self.model->source + ": has no output " + std::to_string(index) +
                                "; there are " + std::to_string(self.outputs.size())));
  }
  if (!self.has_outputs) {
    return usage_error(one_line(self.model->source + ": output " + std::to_string(index) +
                                " is not there yet; call run() first"));
  }
  return self.head_tensor(index);
}

Result<DLManagedTensor*> Executor::get_output(std::uint32_t index) {
  Impl& self = *impl_;
  Result<DLTensor> view = output(index);
  if (!view) return view.error();
  auto exported = std::make_unique<Export>();
  const std::uint32_t place = self.head_place(index);
  PlaceState& state = self.places[place];
  if (state.block == nullptr) {
    exported->owner = self.input_states[self.layout.places[place].input].owner;
  } else {
    if (state.shared == nullptr) {
      state.shared = new SharedBlock(self.pool, state.block, self.layout.places[place].size_bytes);
    }
    state.shared->hold();
    exported->block = state.shared;
  }
  exported->model = self.model;
  exported->shape = self.outputs[index].shape;
  exported->managed.dl_tensor = *view;
  exported->managed.dl_tensor.shape = exported->shape.data();
  exported->managed.manager_ctx = exported.get();
  exported->managed.deleter = &delete_export;
  return &exported.release()->managed;
}

Status Executor::copy_output(std::uint32_t index, const DLTensor& to) const {
  Result<DLTensor> view = output(index);
  if (!view) return view.error();
  const TensorInfo& info = impl_->outputs[index];
  const auto fail = [&](const std::string& what) {
    return usage_error(one_line(impl_->model->source + ": output " + std::to_string(index) + " \"" +
                                info.name + "\": " + what));
  };
  if (to.device.device_type != kDLCPU) {
    return fail("the target lies on " + device_name(to.device) +
                ", which the host cannot write; give host memory");
  }
  const std::span<const std::int64_t> shape = extents(to);
  if (!std::equal(shape.begin(), shape.end(), info.shape.begin(), info.shape.end()) ||
      !same_dtype(to.dtype, info.dtype)) {
    return fail("is " + shape_name(info.shape) + " " + dtype_name(info.dtype) +
                " but the target is " + shape_name(shape) + " " + dtype_name(to.dtype));
  }
  if (!is_compact(to)) return fail("the target is strided; give it in C order without gaps");
  if (info.size_bytes != 0) std::memcpy(data_of(to), view->data, info.size_bytes);
  return {};
}

}  // namespace opmeter::runtime
