// SPDX-License-Identifier: Apache-2.0
// model.h: a loaded artifact: graph, parameters and library, checked against each other and ready
// for any number of executors, which share it. Loading runs no operator.
#ifndef OPMETER_RUNTIME_EXECUTOR_MODEL_H_
#define OPMETER_RUNTIME_EXECUTOR_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "opmeter/result.h"
#include "runtime/tvm/graph_json.h"
#include "runtime/tvm/library.h"
#include "runtime/tvm/params.h"

namespace opmeter::runtime {

/// The three-file form.
struct ModelFiles {
  std::string graph;    ///< graph JSON
  std::string params;   ///< .params; empty = the graph has none
  std::string library;  ///< the operators
};

/// Immutable once loaded; may be shared by threads.
struct Model {
  std::string name;    ///< file name of the library
  std::string source;  ///< what the user gave, for messages
  Graph graph;
  std::vector<NamedTensor> params;  ///< those the graph uses
  std::shared_ptr<Library> library;
  std::string format;  ///< "GraphExecutorFactory", "GraphRuntimeFactory" or "json+params+so"
  std::vector<std::string> device_modules;  ///< kinds of device code in the blob: "opencl", ...
  std::uint64_t load_ns = 0;

  std::uint64_t param_bytes() const;
};

using ModelPtr = std::shared_ptr<const Model>;

/// A factory library (graph and parameters inside). Errors: kInput when the file is missing, cut,
/// no library, or holds something else (named, with what to do).
Result<ModelPtr> load_model(const std::string& library_path);
Result<ModelPtr> load_model(const ModelFiles& files);

}  // namespace opmeter::runtime

#endif  // OPMETER_RUNTIME_EXECUTOR_MODEL_H_
