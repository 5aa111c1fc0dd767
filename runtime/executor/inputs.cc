// SPDX-License-Identifier: Apache-2.0
// inputs.cc: data into the graph: copied into the executor's own storage, or used where it is.
// Every mismatch is found here, before an operator sees it.
#include <cstring>
#include <utility>

#include "runtime/executor/executor_impl.h"
#include "runtime/tvm/dtype.h"
#include "runtime/tvm/text.h"

namespace opmeter::runtime {
namespace {

// Newer DLPack has a bool of its own; TVM's is uint1, with the same bytes.
constexpr std::uint8_t kDlpackBool = 6;

DLDataType canonical(DLDataType type) {
  if (type.code == kDlpackBool && type.bits == 8) return {kDLUInt, 1, type.lanes};
  return type;
}

std::string spelled(std::span<const std::int64_t> shape, DLDataType type) {
  return shape_name(shape) + " " + dtype_name(canonical(type));
}

}  // namespace

Result<std::uint32_t> Executor::input_index(std::string_view name) const {
  std::string known;
  for (const InputInfo& input : impl_->inputs) {
    if (input.name == name) return input.index;
    if (!input.is_param) known += (known.empty() ? "\"" : ", \"") + input.name + "\"";
  }
  return usage_error(one_line(impl_->model->source + ": has no input \"" + one_line(name, 100) +
                              "\"; its inputs are " + (known.empty() ? "none" : known)));
}

std::vector<std::uint32_t> Executor::unset_inputs() const {
  std::vector<std::uint32_t> unset;
  for (const InputInfo& input : impl_->inputs) {
    if (!impl_->input_states[input.index].set) unset.push_back(input.index);
  }
  return unset;
}

Status Executor::Impl::check_input(std::uint32_t index, const DLTensor& tensor,
                                   bool zero_copy) const {
  if (index >= inputs.size()) {
    return usage_error(one_line(model->source + ": has no input " + std::to_string(index) +
                                "; there are " + std::to_string(inputs.size()) +
                                ", parameters included"));
  }
  const InputInfo& info = inputs[index];
  const auto fail = [&](const std::string& what) {
    return usage_error(one_line(model->source + ": input \"" + info.name + "\" (index " +
                                std::to_string(index) + "): " + what));
  };
  if (tensor.device.device_type != kDLCPU) {
    return fail("the tensor lies on " + device_name(tensor.device) +
                ", which the host cannot read; copy it to the CPU first");
  }
  if (tensor.device.device_id != 0) {
    return fail("the tensor lies on " + device_name(tensor.device) +
                "; the only CPU device is cpu:0");
  }
  if (tensor.ndim < 0 || (tensor.ndim > 0 && tensor.shape == nullptr)) {
    return fail("the tensor has no valid shape");
  }
  const std::span<const std::int64_t> shape = extents(tensor);
  if (!std::equal(shape.begin(), shape.end(), info.shape.begin(), info.shape.end()) ||
      !same_dtype(canonical(tensor.dtype), info.dtype)) {
    return fail("is " + spelled(info.shape, info.dtype) + " but the tensor given is " +
                spelled(shape, tensor.dtype) + "; give a tensor of the input's shape and type");
  }
  if (!is_compact(tensor)) return fail("the tensor is strided; give it in C order without gaps");
  if (tensor.data == nullptr && info.size_bytes != 0) return fail("the tensor has no data");
  if (zero_copy && reinterpret_cast<std::uintptr_t>(data_of(tensor)) % kTensorAlignment != 0) {
    return fail("data + byte_offset is not aligned to " + std::to_string(kTensorAlignment) +
                " bytes, which zero copy needs; align it or use set_input");
  }
  return {};
}

void Executor::Impl::point_place(std::uint32_t place, void* data) {
  for (DLTensor* view : places[place].views) view->data = data;
}

Status Executor::Impl::adopt(std::uint32_t index, const DLTensor& tensor,
                             std::shared_ptr<void> owner) {
  const std::uint32_t place =
      layout.place_of_entry[model->graph.entry_id({model->graph.arg_nodes[index], 0})];
  point_place(place, data_of(tensor));
  input_states[index] = {std::move(owner), false, true};
  return {};
}

Status Executor::set_input(std::uint32_t index, const DLTensor& tensor) {
  Impl& self = *impl_;
  if (Status status = self.check_input(index, tensor, false); !status) return status;
  InputState& state = self.input_states[index];
  const InputInfo& info = self.inputs[index];
  std::shared_ptr<void> storage = state.owner;
  if (!state.writable) {
    Result<Tensor> own = Tensor::create(info.shape, info.dtype);
    if (!own) return own.error();
    storage = own->storage();
  }
  // memmove: the tensor may be a view of this very input (an output that is an input).
  if (info.size_bytes != 0) std::memmove(storage.get(), data_of(tensor), info.size_bytes);
  if (!state.writable) {
    const DLTensor view{storage.get(), {kDLCPU, 0}, 0, {}, nullptr, nullptr, 0};
    if (Status status = self.adopt(index, view, storage); !status) return status;
  }
  state.writable = true;
  state.set = true;
  return {};
}

Status Executor::set_input(std::string_view name, const DLTensor& tensor) {
  const Result<std::uint32_t> index = input_index(name);
  if (!index) return index.error();
  return set_input(*index, tensor);
}

Status Executor::set_input_zero_copy(std::uint32_t index, DLManagedTensor* tensor) {
  if (tensor == nullptr) return usage_error("set_input_zero_copy: no tensor given");
  if (Status status = impl_->check_input(index, tensor->dl_tensor, true); !status) return status;
  std::shared_ptr<void> owner(tensor, [](void* managed) {
    auto* self = static_cast<DLManagedTensor*>(managed);
    if (self->deleter != nullptr) self->deleter(self);
  });
  return impl_->adopt(index, tensor->dl_tensor, std::move(owner));
}

Status Executor::set_input_zero_copy(std::string_view name, DLManagedTensor* tensor) {
  const Result<std::uint32_t> index = input_index(name);
  if (!index) return index.error();
  return set_input_zero_copy(*index, tensor);
}

Status Executor::set_input_zero_copy(std::uint32_t index, DLManagedTensorVersioned* tensor) {
  if (tensor == nullptr) return usage_error("set_input_zero_copy: no tensor given");
  if (tensor->version.major != 1) {
    return usage_error("set_input_zero_copy: the tensor is of DLPack " +
                       std::to_string(tensor->version.major) + ".x; version 1 is known here");
  }
  if (Status status = impl_->check_input(index, tensor->dl_tensor, true); !status) return status;
  std::shared_ptr<void> owner(tensor, [](void* managed) {
    auto* self = static_cast<DLManagedTensorVersioned*>(managed);
    if (self->deleter != nullptr) self->deleter(self);
  });
  return impl_->adopt(index, tensor->dl_tensor, std::move(owner));
}

Status Executor::set_input_zero_copy(std::string_view name, DLManagedTensorVersioned* tensor) {
  const Result<std::uint32_t> index = input_index(name);
  if (!index) return index.error();
  return set_input_zero_copy(*index, tensor);
}

Status Executor::set_input_zero_copy(std::uint32_t index, const DLTensor& borrowed) {
  if (Status status = impl_->check_input(index, borrowed, true); !status) return status;
  // An owner that owns nothing.
  std::shared_ptr<void> owner(data_of(borrowed), [](void*) {});
  return impl_->adopt(index, borrowed, std::move(owner));
}

}  // namespace opmeter::runtime
