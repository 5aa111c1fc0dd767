// SPDX-License-Identifier: Apache-2.0
// create.cc: lays an executor out, once: tensor headers, call records, memory of the load phase,
// threads, and the graph as the profiler will know it.
#include <chrono>

#include "runtime/executor/executor_impl.h"
#include "runtime/tvm/dtype.h"
#include "runtime/tvm/text.h"

namespace opmeter::runtime {
namespace {

/// "__copy" as an operator: copies tensor 0 into tensor 1.
int copy_tensor(TvmValue* args, int*, int, TvmValue*, int*, void*) {
  const auto* from = static_cast<const DLTensor*>(args[0].v_handle);
  const auto* to = static_cast<const DLTensor*>(args[1].v_handle);
  const std::optional<std::uint64_t> size = shape_bytes(extents(*from), from->dtype);
  const Status copied = cpu_device().copy_to_host(to->data, from->data, size.value_or(0));
  return copied.ok() ? 0 : -1;
}

/// Why a model cannot run on `device`, if so.
Status check_device(const Model& model, DLDevice device) {
  std::string wants;
  for (const std::string& kind : model.device_modules) wants = kind;
  for (const GraphEntry& entry : model.graph.entries) {
    if (entry.device_type != 0 && entry.device_type != device.device_type) {
      wants = device_type_name(entry.device_type);
    }
  }
  if (!wants.empty()) {
    return unavailable_error(
        one_line(model.source + ": was compiled for " + wants +
                 ", but this build runs on the CPU only; compile it for target "
                 "llvm"));
  }
  for (const GraphEntry& entry : model.graph.entries) {
    if (!entry.storage_scope.empty() && entry.storage_scope != "global") {
      return unavailable_error(one_line(model.source + ": wants memory of scope \"" +
                                        entry.storage_scope + "\", which the CPU does not have"));
    }
  }
  return {};
}

std::string entry_name(const GraphNode& node, std::uint32_t output) {
  return node.num_outputs == 1 ? node.name : node.name + ":" + std::to_string(output);
}

TensorInfo tensor_info(const Graph& graph, EntryRef ref) {
  const GraphEntry& entry = graph.entries[graph.entry_id(ref)];
  return {entry_name(graph.nodes[ref.node], ref.output), entry.shape, entry.dtype,
          entry.size_bytes};
}

EntryInfo entry_info(const Graph& graph, EntryRef ref) {
  EntryInfo info;
  static_cast<TensorInfo&>(info) = tensor_info(graph, ref);
  info.storage_id = graph.entries[graph.entry_id(ref)].storage_id;
  return info;
}

opm_tensor annotate(const EntryInfo& info) {
  opm_tensor tensor{};
  tensor.name = info.name.c_str();
  tensor.shape = info.shape.data();
  tensor.ndim = static_cast<std::int32_t>(info.shape.size());
  tensor.dtype_code = info.dtype.code;
  tensor.dtype_bits = info.dtype.bits;
  tensor.dtype_lanes = info.dtype.lanes;
  tensor.bytes = info.size_bytes;
  return tensor;
}

}  // namespace

Result<std::unique_ptr<Executor>> Executor::create(ModelPtr model, const ExecutorOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  if (options.threads < 1 || options.threads > kMaxThreads) {
    return usage_error("threads must be 1 to " + std::to_string(kMaxThreads) + ", not " +
                       std::to_string(options.threads));
  }
  Result<Device*> device = open_device(options.device);
  if (!device) return device.error();
  if (Status status = check_device(*model, options.device); !status) return status.error();
  Result<std::unique_ptr<Pool>> pool =
      make_pool(options.pool, **device, static_cast<Slot>(options.threads));
  if (!pool) return pool.error();
  Result<std::unique_ptr<ThreadPool>> threads = ThreadPool::create(options.threads, **pool);
  if (!threads) return threads.error();

  auto impl = std::make_unique<Impl>();
  impl->model = std::move(model);
  impl->options = options;
  impl->pool = std::move(pool).value();
  impl->threads = std::move(threads).value();
  impl->context = {impl->pool.get(), impl->threads.get(), 0, false};
  impl->tensors_per_run = !impl->pool->tensors_at_load();
  if (Status status = impl->build(); !status) return status.error();
  impl->create_ns = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start)
          .count());
  return std::unique_ptr<Executor>(new Executor(std::move(impl)));
}

Status Executor::Impl::build() {
  Result<Layout> laid_out = lay_out(model->graph, !tensors_per_run, model->source);
  if (!laid_out) return laid_out.error();
  layout = std::move(laid_out).value();
  places.resize(layout.places.size());
  describe();
  // Before any memory is taken: a wrong library costs nothing.
  if (Status status = bind_calls(); !status) return status;
  declare();
  return place_tensors();
}

void Executor::Impl::describe() {
  const Graph& graph = model->graph;
  for (std::uint32_t i = 0; i < graph.arg_nodes.size(); ++i) {
    InputInfo info;
    static_cast<TensorInfo&>(info) = tensor_info(graph, {graph.arg_nodes[i], 0});
    info.index = i;
    inputs.push_back(std::move(info));
  }
  for (const EntryRef& head : graph.heads) outputs.push_back(tensor_info(graph, head));
  for (std::uint32_t i = 0; i < layout.ops.size(); ++i) {
    const std::uint32_t node = layout.ops[i].node;
    OpInfo op;
    op.index = i;
    op.name = graph.nodes[node].name;
    op.func = graph.nodes[node].func_name;
    for (const EntryRef& input : graph.nodes[node].inputs) {
      op.inputs.push_back(entry_info(graph, input));
    }
    for (std::uint32_t k = 0; k < graph.nodes[node].num_outputs; ++k) {
      op.outputs.push_back(entry_info(graph, {node, k}));
    }
    ops.push_back(std::move(op));
  }
}

Status Executor::Impl::bind_calls() {
  const Graph& graph = model->graph;
  entry_tensors.resize(graph.entries.size());
  for (std::size_t i = 0; i < graph.entries.size(); ++i) {
    const GraphEntry& entry = graph.entries[i];
    DLTensor& tensor = entry_tensors[i];
    tensor = {};
    tensor.device = options.device;
    tensor.ndim = static_cast<int>(entry.shape.size());
    tensor.dtype = entry.dtype;
    tensor.shape = const_cast<std::int64_t*>(entry.shape.data());  // never written through
    places[layout.place_of_entry[i]].views.push_back(&tensor);
  }
  std::size_t num_args = 0;
  std::size_t num_flat = 0;
  for (const OpLayout& op : layout.ops) {
    const GraphNode& node = graph.nodes[op.node];
    num_args += node.inputs.size() + node.num_outputs;
    if (node.flatten_data) num_flat += node.inputs.size() + node.num_outputs;
  }
  // Sized once: call records keep pointers into these.
  args.reserve(num_args);
  type_codes.assign(num_args, kCodeTensor);
  flat_tensors.reserve(num_flat);
  flat_extents.reserve(num_flat);
  for (std::uint32_t i = 0; i < layout.ops.size(); ++i) {
    const GraphNode& node = graph.nodes[layout.ops[i].node];
    if (node.is_nop()) continue;
    OpCall call{};
    call.function =
        node.func_name == "__copy" ? &copy_tensor : model->library->function(node.func_name);
    if (call.function == nullptr) {
      return input_error(one_line(model->source + ": operator " + std::to_string(i) + " \"" +
                                  node.name + "\": function \"" + node.func_name + "\" is not in " +
                                  model->library->path() +
                                  "; graph and library are of different models"));
    }
    call.op = i;
    call.args = args.data() + args.size();
    call.type_codes = type_codes.data() + args.size();
    const auto add = [&](std::uint32_t entry) {
      DLTensor* tensor = &entry_tensors[entry];
      if (node.flatten_data) {
        const std::uint64_t width = element_bytes(tensor->dtype);
        flat_extents.push_back(static_cast<std::int64_t>(graph.entries[entry].size_bytes / width));
        flat_tensors.push_back(*tensor);
        flat_tensors.back().ndim = 1;
        flat_tensors.back().shape = &flat_extents.back();
        tensor = &flat_tensors.back();
        places[layout.place_of_entry[entry]].views.push_back(tensor);
      }
      TvmValue value{};
      value.v_handle = tensor;
      args.push_back(value);
      ++call.num_args;
    };
    for (const EntryRef& input : node.inputs) add(graph.entry_id(input));
    for (std::uint32_t k = 0; k < node.num_outputs; ++k) {
      add(graph.entry_id({layout.ops[i].node, k}));
    }
    calls.push_back(call);
  }
  return {};
}

Status Executor::Impl::place_tensors() {
  input_states.resize(inputs.size());
  for (const NamedTensor& param : model->params) {
    for (InputInfo& input : inputs) {
      if (input.name != param.name) continue;
      input.is_param = true;
      input_states[input.index] = {param.tensor.storage(), false, true};
    }
  }
  for (std::uint32_t p = 0; p < layout.places.size(); ++p) {
    const Place& place = layout.places[p];
    if (place.input != kNone) {
      InputState& state = input_states[place.input];
      if (state.owner == nullptr) {
        const InputInfo& info = inputs[place.input];
        Result<Tensor> zeros = Tensor::create(info.shape, info.dtype);
        if (!zeros) return input_error(model->source + ": " + zeros.error().message);
        state = {zeros->storage(), true, false};
      }
      point_place(p, state.owner.get());
    } else if (!tensors_per_run) {
      places[p].block = pool->alloc_tensor(place.size_bytes);
      if (places[p].block == nullptr) {
        return input_error(model->source + ": no memory for an intermediate tensor of " +
                           std::to_string(place.size_bytes) + " bytes");
      }
      point_place(p, places[p].block);
    }
  }
  return {};
}

void Executor::Impl::declare() {
  op_ids.assign(ops.size(), 0);
  if (!opm_enabled()) return;
  opm_info("model", model->source.c_str());
  opm_info("pool", options.pool.c_str());
  opm_info("device", device_name(options.device).c_str());
  opm_info("threads", std::to_string(options.threads).c_str());
  graph_id = opm_graph_declare(model->name.c_str());
  for (const OpInfo& op : ops) {
    std::vector<opm_tensor> in;
    std::vector<opm_tensor> out;
    for (const EntryInfo& entry : op.inputs) in.push_back(annotate(entry));
    for (const EntryInfo& entry : op.outputs) out.push_back(annotate(entry));
    opm_op_desc desc{};
    desc.struct_size = sizeof desc;
    desc.graph = graph_id;
    desc.index = static_cast<std::int32_t>(op.index);
    desc.name = op.name.c_str();
    desc.kind = op.func.c_str();
    desc.device_type = options.device.device_type;
    desc.device_id = options.device.device_id;
    desc.num_inputs = static_cast<std::uint32_t>(in.size());
    desc.num_outputs = static_cast<std::uint32_t>(out.size());
    desc.inputs = in.data();
    desc.outputs = out.data();
    op_ids[op.index] = opm_op_declare(&desc);
  }
}

}  // namespace opmeter::runtime
