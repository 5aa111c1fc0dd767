// SPDX-License-Identifier: Apache-2.0
// graph_json.cc: JSON text -> Graph (see graph_json.h). First read() takes the shape of the file,
// then link() checks what the parts say about each other. Rules and quirks are those of TVM's
// graph_executor.h `Load` and `SetupStorage`.
#include "runtime/tvm/graph_json.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "runtime/tvm/dtype.h"
#include "runtime/tvm/text.h"

namespace opmeter::runtime {
namespace {

// Ordered, because the key "metadata" ends the reading and everything behind it is ignored.
using Json = nlohmann::ordered_json;

constexpr std::int64_t kMaxId = std::numeric_limits<std::int32_t>::max();

std::optional<std::int64_t> integer(const Json& value, std::int64_t low, std::int64_t high) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    return std::nullopt;
  }
  const std::int64_t number = value.get<std::int64_t>();
  if (number < low || number > high) return std::nullopt;
  return number;
}

/// What `attrs` holds before it is spread over the entries.
struct EntryLists {
  std::vector<std::string> dtypes;
  std::vector<std::int64_t> storage_ids;
  std::vector<std::vector<std::int64_t>> shapes;
  std::vector<std::int64_t> device_types;
  std::vector<std::string> scopes;
  bool has_dtypes = false;
  bool has_storage_ids = false;
  bool has_shapes = false;
};

class Parser {
 public:
  explicit Parser(const std::string& where) : where_(where) {}

  Result<Graph> parse(std::string_view text) {
    Json root;
    try {
      root = Json::parse(text);
    } catch (const Json::parse_error& error) {
      return fail("not JSON (around byte " + std::to_string(error.byte) +
                  "); is this the graph file of the model, and is it whole?");
    } catch (const Json::exception&) {
      return fail("not JSON that can be held; is this the graph file of the model?");
    }
    if (Status status = read(root); !status) return status.error();
    if (Status status = link(); !status) return status.error();
    return std::move(graph_);
  }

 private:
  Error fail(const std::string& what) const {
    return input_error(one_line(where_ + ": graph JSON: " + what));
  }
  Error fail_node(std::size_t index, const std::string& what) const {
    const std::string& name = graph_.nodes[index].name;
    return fail("node " + std::to_string(index) + " \"" + name + "\": " + what);
  }

  Status read(const Json& root) {
    if (!root.is_object()) return fail("the top level is not an object");
    bool nodes = false, arg_nodes = false, heads = false, row_ptr = false, attrs = false;
    for (const auto& [key, value] : root.items()) {
      Status status;
      if (key == "nodes") {
        status = read_nodes(value);
        nodes = true;
      } else if (key == "arg_nodes") {
        status = read_ids(value, "arg_nodes", graph_.arg_nodes);
        arg_nodes = true;
      } else if (key == "node_row_ptr") {
        status = read_ids(value, "node_row_ptr", graph_.node_row_ptr);
        row_ptr = true;
      } else if (key == "heads") {
        status = read_refs(value, "heads", graph_.heads);
        heads = true;
      } else if (key == "attrs") {
        status = read_attrs(value);
        attrs = true;
      } else if (key == "metadata") {
        break;
      } else {
        return fail(
            "unknown key \"" + key +
            "\"; graphs of TVM 0.5 to 0.19 have nodes, arg_nodes, heads, node_row_ptr, attrs");
      }
      if (!status) return status;
    }
    const char* missing = !nodes       ? "nodes"
                          : !arg_nodes ? "arg_nodes"
                          : !heads     ? "heads"
                          : !row_ptr   ? "node_row_ptr"
                          : !attrs     ? "attrs"
                                       : nullptr;
    if (missing != nullptr) {
      return fail("key \"" + std::string(missing) + "\" is missing; export the graph again");
    }
    return {};
  }

  Status read_ids(const Json& value, const std::string& key, std::vector<std::uint32_t>& out) {
    if (!value.is_array()) return fail("\"" + key + "\" is not a list");
    out.clear();
    for (const Json& item : value) {
      const std::optional<std::int64_t> id = integer(item, 0, kMaxId);
      if (!id) return fail("\"" + key + "\" holds something that is not a small whole number");
      out.push_back(static_cast<std::uint32_t>(*id));
    }
    return {};
  }

  /// [node, output] or [node, output, version].
  Status read_refs(const Json& value, const std::string& what, std::vector<EntryRef>& out) {
    if (!value.is_array()) return fail(what + " is not a list");
    out.clear();
    for (const Json& item : value) {
      if (!item.is_array() || item.size() < 2 || item.size() > 3) {
        return fail(what + ": an entry is not [node, output] or [node, output, version]");
      }
      const std::optional<std::int64_t> node = integer(item[0], 0, kMaxId);
      const std::optional<std::int64_t> output = integer(item[1], 0, kMaxId);
      const bool version_ok = item.size() == 2 || item[2].is_number_integer();
      if (!node || !output || !version_ok) {
        return fail(what + ": an entry holds something that is not a small whole number");
      }
      out.push_back({static_cast<std::uint32_t>(*node), static_cast<std::uint32_t>(*output)});
    }
    return {};
  }

  Status read_nodes(const Json& value) {
    if (!value.is_array()) return fail("\"nodes\" is not a list");
    graph_.nodes.clear();
    for (const Json& item : value) {
      GraphNode node;
      if (Status status = read_node(item, graph_.nodes.size(), node); !status) return status;
      graph_.nodes.push_back(std::move(node));
    }
    return {};
  }

  Status read_node(const Json& value, std::size_t index, GraphNode& node) {
    const std::string at = "node " + std::to_string(index);
    if (!value.is_object()) return fail(at + " is not an object");
    std::string op;
    std::optional<std::int64_t> num_inputs;
    bool has_op = false, has_name = false, has_inputs = false, has_outputs = false,
         has_flatten = false;
    for (const auto& [key, item] : value.items()) {
      if (key == "op" || key == "name") {
        if (!item.is_string()) return fail(at + ": \"" + key + "\" is not a string");
        (key == "op" ? op : node.name) = item.get<std::string>();
        (key == "op" ? has_op : has_name) = true;
      } else if (key == "inputs") {
        if (Status status = read_refs(item, at + ": \"inputs\"", node.inputs); !status) {
          return status;
        }
        has_inputs = true;
      } else if (key == "attr" || key == "attrs") {
        if (!item.is_object()) return fail(at + ": \"" + key + "\" is not an object");
        for (const auto& [name, attr] : item.items()) {
          if (!attr.is_string()) return fail(at + ": attribute \"" + name + "\" is not a string");
          const std::string text = attr.get<std::string>();
          if (name == "func_name") {
            node.func_name = text;
          } else if (name == "num_inputs") {
            num_inputs = number(text);
            if (!num_inputs) return fail(at + ": num_inputs \"" + text + "\" is not a number");
          } else if (name == "num_outputs") {
            const std::optional<std::int64_t> count = number(text);
            if (!count) return fail(at + ": num_outputs \"" + text + "\" is not a number");
            node.num_outputs = static_cast<std::uint32_t>(*count);
            has_outputs = true;
          } else if (name == "flatten_data") {
            const std::optional<std::int64_t> flag = number(text);
            if (!flag) return fail(at + ": flatten_data \"" + text + "\" is not a number");
            node.flatten_data = *flag != 0;
            has_flatten = true;
          } else {
            node.attrs.emplace_back(name, text);
          }
        }
      } else if (key == "control_deps") {
        if (!item.is_array()) return fail(at + ": \"control_deps\" is not a list");
      } else {
        return fail(at + ": unknown key \"" + key +
                    "\"; nodes have op, name, inputs, attrs and control_deps");
      }
    }
    if (!has_op || !has_name || !has_inputs) {
      return fail(at + ": key \"" +
                  (!has_op     ? "op"
                   : !has_name ? "name"
                               : "inputs") +
                  "\" is missing; export the graph again");
    }
    const std::string named = at + " \"" + node.name + "\"";
    if (op == "null") {
      node.num_outputs = 1;
      if (!node.inputs.empty()) return fail(named + ": an input node has inputs");
      return {};
    }
    if (op != "tvm_op") {
      return fail(named + ": op \"" + op +
                  "\" is neither \"null\" nor \"tvm_op\"; compile the graph before running it");
    }
    node.is_op = true;
    if (node.func_name.empty() || !num_inputs || !has_outputs || !has_flatten) {
      return fail(named + ": attribute \"" +
                  (node.func_name.empty() ? "func_name"
                   : !num_inputs          ? "num_inputs"
                   : !has_outputs         ? "num_outputs"
                                          : "flatten_data") +
                  "\" is missing");
    }
    if (static_cast<std::uint64_t>(*num_inputs) != node.inputs.size()) {
      return fail(named + ": num_inputs says " + std::to_string(*num_inputs) + " but there are " +
                  std::to_string(node.inputs.size()));
    }
    return {};
  }

  static std::optional<std::int64_t> number(const std::string& text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    if (value < 0 || value > kMaxId) return std::nullopt;
    return value;
  }

  Status read_attrs(const Json& value) {
    if (!value.is_object()) return fail("\"attrs\" is not an object");
    lists_ = {};
    for (const auto& [key, item] : value.items()) {
      if (!item.is_array() || item.size() != 2 || !item[0].is_string()) {
        return fail("attrs: \"" + key + "\" is not [tag, list]");
      }
      const std::string tag = item[0].get<std::string>();
      if (Status status = read_attr(key, tag, item[1]); !status) return status;
    }
    // TVM's reader marks storage_scope with dltype's bit, so a graph with scopes only would pass
    // there and crash later; here dltype stays required.
    if (!lists_.has_dtypes || !lists_.has_storage_ids || !lists_.has_shapes) {
      return fail(std::string("attrs: \"") +
                  (!lists_.has_dtypes        ? "dltype"
                   : !lists_.has_storage_ids ? "storage_id"
                                             : "shape") +
                  "\" is missing; export the graph again");
    }
    return {};
  }

  Status read_attr(const std::string& key, const std::string& tag, const Json& list) {
    const auto expect = [&](const char* wanted) -> Status {
      if (tag != wanted || !list.is_array()) {
        return fail("attrs: \"" + key + "\" is not a " + wanted);
      }
      return {};
    };
    if (key == "dltype" || key == "storage_scope") {
      if (Status status = expect("list_str"); !status) return status;
      std::vector<std::string>& out = key == "dltype" ? lists_.dtypes : lists_.scopes;
      for (const Json& item : list) {
        if (!item.is_string()) return fail("attrs: \"" + key + "\" holds a non-string");
        out.push_back(item.get<std::string>());
      }
      if (key == "dltype") lists_.has_dtypes = true;
    } else if (key == "storage_id" || key == "device_index") {
      if (Status status = expect("list_int"); !status) return status;
      std::vector<std::int64_t>& out =
          key == "storage_id" ? lists_.storage_ids : lists_.device_types;
      for (const Json& item : list) {
        const std::optional<std::int64_t> id = integer(item, 0, kMaxId);
        if (!id) return fail("attrs: \"" + key + "\" holds a value below 0 or out of range");
        out.push_back(*id);
      }
      if (key == "storage_id") lists_.has_storage_ids = true;
    } else if (key == "shape") {
      if (Status status = expect("list_shape"); !status) return status;
      for (const Json& item : list) {
        if (!item.is_array()) return fail("attrs: \"shape\" holds something that is not a shape");
        std::vector<std::int64_t> shape;
        for (const Json& extent : item) {
          const std::optional<std::int64_t> number =
              integer(extent, 0, std::numeric_limits<std::int64_t>::max());
          if (!number) {
            return fail(
                "attrs: a shape holds an extent that is not a whole number >= 0; dynamic "
                "shapes are not for the graph executor");
          }
          shape.push_back(*number);
        }
        lists_.shapes.push_back(std::move(shape));
      }
      lists_.has_shapes = true;
    } else if (tag != "list_int" && tag != "size_t") {
      return fail("attrs: unknown key \"" + key + "\" with tag \"" + tag + "\"");
    }
    return {};
  }

  Status link() {
    if (Status status = link_row_ptr(); !status) return status;
    if (Status status = link_entries(); !status) return status;
    if (Status status = link_nodes(); !status) return status;
    for (const EntryRef& head : graph_.heads) {
      if (!valid(head)) {
        return fail("output [" + std::to_string(head.node) + ", " + std::to_string(head.output) +
                    "] names no tensor of the graph");
      }
    }
    return link_arg_nodes();
  }

  bool valid(EntryRef ref) const {
    return ref.node < graph_.nodes.size() && ref.output < graph_.nodes[ref.node].num_outputs;
  }

  Status link_row_ptr() {
    const std::vector<std::uint32_t>& row = graph_.node_row_ptr;
    if (row.size() != graph_.nodes.size() + 1 || row.front() != 0) {
      return fail("node_row_ptr has " + std::to_string(row.size()) + " values for " +
                  std::to_string(graph_.nodes.size()) + " nodes (one more, from 0, is right)");
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (row[i + 1] < row[i] || row[i + 1] - row[i] != graph_.nodes[i].num_outputs) {
        return fail_node(i, "node_row_ptr does not agree with its number of outputs");
      }
    }
    return {};
  }

  Status link_entries() {
    const std::size_t count = graph_.node_row_ptr.back();
    const auto sized = [&](const char* key, std::size_t size) -> Status {
      if (size == count) return {};
      return fail("attrs: \"" + std::string(key) + "\" has " + std::to_string(size) +
                  " values for " + std::to_string(count) + " tensors");
    };
    if (Status status = sized("dltype", lists_.dtypes.size()); !status) return status;
    if (Status status = sized("storage_id", lists_.storage_ids.size()); !status) return status;
    if (Status status = sized("shape", lists_.shapes.size()); !status) return status;
    if (!lists_.device_types.empty()) {
      if (Status status = sized("device_index", lists_.device_types.size()); !status) return status;
    }
    if (!lists_.scopes.empty()) {
      if (Status status = sized("storage_scope", lists_.scopes.size()); !status) return status;
    }
    graph_.entries.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      GraphEntry& entry = graph_.entries[i];
      const std::optional<DLDataType> dtype = parse_dtype(lists_.dtypes[i]);
      const unsigned bits = dtype ? dtype->bits : 0;
      if (!dtype || !(bits == 1 || bits == 4 || (bits != 0 && bits % 8 == 0))) {
        return fail("tensor " + std::to_string(i) + ": dtype \"" + lists_.dtypes[i] +
                    "\" is not one that can be stored");
      }
      entry.dtype = *dtype;
      entry.shape = std::move(lists_.shapes[i]);
      entry.storage_id = lists_.storage_ids[i];
      if (!lists_.device_types.empty()) {
        entry.device_type = static_cast<std::int32_t>(lists_.device_types[i]);
      }
      if (!lists_.scopes.empty()) entry.storage_scope = lists_.scopes[i];
      const std::optional<std::uint64_t> bytes = shape_bytes(entry.shape, entry.dtype);
      if (!bytes) {
        return fail("tensor " + std::to_string(i) + ": shape " + shape_name(entry.shape) +
                    " does not fit in memory");
      }
      entry.size_bytes = *bytes;
    }
    return {};
  }

  Status link_nodes() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const GraphNode& node = graph_.nodes[i];
      for (const EntryRef& input : node.inputs) {
        if (!valid(input)) {
          return fail_node(i, "input [" + std::to_string(input.node) + ", " +
                                  std::to_string(input.output) + "] names no tensor of the graph");
        }
        if (input.node >= i) {
          return fail_node(i, "input comes from node " + std::to_string(input.node) +
                                  ", which runs later; nodes must stand in execution order");
        }
      }
      if (node.is_nop() || (node.is_op && node.func_name == "__copy")) {
        if (node.inputs.size() != 1 || node.num_outputs != 1) {
          return fail_node(i, node.func_name + " must have one input and one output");
        }
        const GraphEntry& from = graph_.entries[graph_.entry_id(node.inputs[0])];
        const GraphEntry& to = graph_.entries[graph_.node_row_ptr[i]];
        if (from.size_bytes != to.size_bytes) {
          return fail_node(i, node.func_name + " changes the size of its tensor from " +
                                  std::to_string(from.size_bytes) + " to " +
                                  std::to_string(to.size_bytes) + " bytes");
        }
      }
    }
    return {};
  }

  Status link_arg_nodes() {
    std::vector<bool> listed(graph_.nodes.size(), false);
    for (const std::uint32_t node : graph_.arg_nodes) {
      if (node >= graph_.nodes.size() || graph_.nodes[node].is_op || listed[node]) {
        return fail("arg_nodes names node " + std::to_string(node) +
                    ", which is no input node or stands there twice");
      }
      listed[node] = true;
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!graph_.nodes[i].is_op && !listed[i])
        return fail_node(i, "is an input but not in arg_nodes");
    }
    return {};
  }

  const std::string& where_;
  Graph graph_;
  EntryLists lists_;
};

}  // namespace

Result<Graph> parse_graph_json(std::string_view text, const std::string& where) {
  return Parser(where).parse(text);
}

}  // namespace opmeter::runtime
