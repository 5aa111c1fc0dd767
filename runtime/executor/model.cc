// SPDX-License-Identifier: Apache-2.0
// model.cc: file(s) -> Model (see model.h): read, parse, and check graph and parameters against
// each other. Whether every operator's function is there is checked when an executor is made.
#include "runtime/executor/model.h"

#include <chrono>
#include <cstddef>
#include <map>
#include <set>
#include <span>

#include "runtime/tvm/blob.h"
#include "runtime/tvm/dtype.h"
#include "runtime/tvm/elf_check.h"
#include "runtime/tvm/text.h"

namespace opmeter::runtime {
namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t ns_since(Clock::time_point start) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

std::string file_name(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

/// Keeps the parameters that the graph has, as TVM 0.7+ does; the kept ones must fit.
Status adopt_params(Model& model, std::vector<NamedTensor> params, const std::string& where) {
  std::map<std::string, const GraphEntry*> entries;
  for (const std::uint32_t node : model.graph.arg_nodes) {
    entries[model.graph.nodes[node].name] = &model.graph.entries[model.graph.entry_id({node, 0})];
  }
  std::set<std::string> seen;
  for (NamedTensor& param : params) {
    const auto found = entries.find(param.name);
    if (found == entries.end()) continue;
    const GraphEntry& entry = *found->second;
    const std::span<const std::int64_t> shape = param.tensor.shape();
    const bool same_shape =
        std::equal(shape.begin(), shape.end(), entry.shape.begin(), entry.shape.end());
    if (!same_shape || !same_dtype(param.tensor.dtype(), entry.dtype)) {
      return input_error(one_line(
          where + ": parameter \"" + param.name + "\" is " + shape_name(shape) + " " +
          dtype_name(param.tensor.dtype()) + " but the graph wants " + shape_name(entry.shape) +
          " " + dtype_name(entry.dtype) + "; graph and parameters are of different models"));
    }
    if (!seen.insert(param.name).second) {
      return input_error(one_line(where + ": parameter \"" + param.name + "\" is there twice"));
    }
    model.params.push_back(std::move(param));
  }
  return {};
}

Status load_factory(Model& model) {
  const std::string& path = model.library->path();
  Result<std::span<const std::byte>> bytes = model.library->blob();
  if (!bytes) return bytes.error();
  if (bytes->empty()) {
    return input_error(path +
                       ": holds operators but no graph; give --graph, --params and --lib, or "
                       "export the factory module itself");
  }
  Result<Blob> blob = parse_blob(*bytes, path);
  if (!blob) return blob.error();
  for (DeviceModule& module : blob->device_modules) model.device_modules.push_back(module.key);
  if (blob->factories.empty()) {
    return input_error(path + ": its __tvm_dev_mblob holds no graph (entries: " +
                       std::to_string(blob->keys.size()) +
                       "); give --graph, --params and --lib, or export the factory module itself");
  }
  if (blob->factories.size() > 1) {
    return input_error(path + ": holds " + std::to_string(blob->factories.size()) +
                       " models; export one model per library");
  }
  ModelFactory& factory = blob->factories.front();
  model.format = factory.key;
  Result<Graph> graph = parse_graph_json(factory.graph_json, path);
  if (!graph) return graph.error();
  model.graph = std::move(graph).value();
  return adopt_params(model, std::move(factory.params), path);
}

Status load_files(Model& model, const ModelFiles& files) {
  Result<std::string> text = read_file(files.graph, "the graph file");
  if (!text) return text.error();
  Result<Graph> graph = parse_graph_json(*text, files.graph);
  if (!graph) return graph.error();
  model.graph = std::move(graph).value();
  model.format = "json+params+so";
  // A split library may carry device code, which must be known before anything runs.
  Result<std::span<const std::byte>> bytes = model.library->blob();
  if (!bytes) return bytes.error();
  if (!bytes->empty()) {
    Result<Blob> blob = parse_blob(*bytes, files.library);
    if (!blob) return blob.error();
    for (DeviceModule& module : blob->device_modules) model.device_modules.push_back(module.key);
  }
  if (files.params.empty()) return {};
  Result<std::string> params = read_file(files.params, "the parameter file");
  if (!params) return params.error();
  Result<std::vector<NamedTensor>> list =
      parse_params(std::as_bytes(std::span(*params)), files.params);
  if (!list) return list.error();
  return adopt_params(model, std::move(list).value(), files.params);
}

template <typename Load>
Result<ModelPtr> load(const std::string& library_path, const std::string& source, Load&& rest) {
  const Clock::time_point start = Clock::now();
  auto model = std::make_shared<Model>();
  model->source = source;
  model->name = file_name(source);
  Result<std::shared_ptr<Library>> library = Library::open(library_path);
  if (!library) return library.error();
  model->library = std::move(library).value();
  if (Status status = rest(*model); !status) return status.error();
  model->load_ns = ns_since(start);
  return ModelPtr(std::move(model));
}

}  // namespace

std::uint64_t Model::param_bytes() const {
  std::uint64_t total = 0;
  for (const NamedTensor& param : params) total += param.tensor.size_bytes();
  return total;
}

Result<ModelPtr> load_model(const std::string& library_path) {
  return load(library_path, library_path, [](Model& model) { return load_factory(model); });
}

Result<ModelPtr> load_model(const ModelFiles& files) {
  return load(files.library, files.library,
              [&files](Model& model) { return load_files(model, files); });
}

}  // namespace opmeter::runtime
