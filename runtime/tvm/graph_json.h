// SPDX-License-Identifier: Apache-2.0
// graph_json.h: the graph of an artifact (TVM 0.5 to 0.19, also NNVM's) as plain data, fully
// validated: after a successful parse every index is in range, every size fits and nodes come after
// their inputs. Knows nothing of libraries or parameters.
#ifndef OPMETER_RUNTIME_TVM_GRAPH_JSON_H_
#define OPMETER_RUNTIME_TVM_GRAPH_JSON_H_

#include <dlpack/dlpack.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "opmeter/result.h"

namespace opmeter::runtime {

/// Output `output` of node `node`.
struct EntryRef {
  std::uint32_t node = 0;
  std::uint32_t output = 0;
};

struct GraphNode {
  bool is_op = false;  ///< false: input or parameter
  std::string name;
  std::string func_name;  ///< ops only; "__nop" and "__copy" name no library function
  std::uint32_t num_outputs = 1;
  bool flatten_data = false;  ///< arguments are passed as one-dimensional tensors
  std::vector<EntryRef> inputs;
  /// Further string attributes ("hash", "data_layout", ...).
  std::vector<std::pair<std::string, std::string>> attrs;

  bool is_nop() const { return is_op && func_name == "__nop"; }
};

/// One tensor: entry id = node_row_ptr[node] + output.
struct GraphEntry {
  std::vector<std::int64_t> shape;
  DLDataType dtype{};
  std::int64_t storage_id = 0;
  std::int32_t device_type = 0;  ///< 0 = the graph does not say
  std::string storage_scope;     ///< "" or "global" = ordinary memory
  std::uint64_t size_bytes = 0;
};

struct Graph {
  std::vector<GraphNode> nodes;
  std::vector<std::uint32_t> arg_nodes;  ///< inputs and parameters, in input-index order
  std::vector<EntryRef> heads;           ///< outputs
  std::vector<std::uint32_t> node_row_ptr;
  std::vector<GraphEntry> entries;

  std::uint32_t entry_id(EntryRef ref) const { return node_row_ptr[ref.node] + ref.output; }
};

/// `where` names the source in errors (kInput, one line).
Result<Graph> parse_graph_json(std::string_view text, const std::string& where);

}  // namespace opmeter::runtime

#endif  // OPMETER_RUNTIME_TVM_GRAPH_JSON_H_
