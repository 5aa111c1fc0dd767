// SPDX-License-Identifier: Apache-2.0
// layout.cc: entries -> places, and first and last use of each place (see layout.h).
#include "runtime/executor/layout.h"

#include <algorithm>
#include <unordered_map>

#include "runtime/tvm/text.h"

namespace opmeter::runtime {
namespace {

constexpr const char* kJoined =
    "\": __nop has another storage id than its input, so its data would be lost; run it with the "
    "naive pool or compile the model again";

}  // namespace

Result<Layout> lay_out(const Graph& graph, bool by_storage_id, const std::string& where) {
  Layout layout;
  layout.place_of_entry.assign(graph.entries.size(), kNone);
  const auto add_place = [&layout] {
    layout.places.emplace_back();
    return static_cast<std::uint32_t>(layout.places.size() - 1);
  };
  for (std::uint32_t i = 0; i < graph.arg_nodes.size(); ++i) {
    const std::uint32_t place = add_place();
    layout.places[place].input = i;
    layout.place_of_entry[graph.entry_id({graph.arg_nodes[i], 0})] = place;
  }
  std::unordered_map<std::int64_t, std::uint32_t> by_id;
  for (std::uint32_t node = 0; node < graph.nodes.size(); ++node) {
    const GraphNode& op = graph.nodes[node];
    if (!op.is_op) continue;
    layout.ops.push_back({node, {}, {}});
    for (std::uint32_t output = 0; output < op.num_outputs; ++output) {
      const std::uint32_t entry = graph.entry_id({node, output});
      const std::int64_t id = graph.entries[entry].storage_id;
      std::uint32_t& place = layout.place_of_entry[entry];
      if (op.is_nop()) {
        const std::uint32_t input = graph.entry_id(op.inputs[0]);
        place = layout.place_of_entry[input];
        const bool from_op = layout.places[place].input == kNone;
        if (by_storage_id && from_op && graph.entries[input].storage_id != id) {
          return input_error(one_line(where + ": node " + std::to_string(node) + " \"" + op.name) +
                             kJoined);
        }
      } else if (by_storage_id) {
        const auto [known, added] = by_id.try_emplace(id, kNone);
        if (added) known->second = add_place();
        place = known->second;
      } else {
        place = add_place();
      }
    }
  }
  for (std::size_t entry = 0; entry < graph.entries.size(); ++entry) {
    Place& place = layout.places[layout.place_of_entry[entry]];
    place.size_bytes = std::max(place.size_bytes, graph.entries[entry].size_bytes);
  }
  for (const EntryRef& head : graph.heads) {
    layout.places[layout.place_of_entry[graph.entry_id(head)]].is_output = true;
  }

  // A place is first used by the op that makes it and last used by the last op that touches any of
  // its entries.
  std::vector<std::uint32_t> first(layout.places.size(), kNone);
  std::vector<std::uint32_t> last(layout.places.size(), kNone);
  for (std::uint32_t i = 0; i < layout.ops.size(); ++i) {
    const std::uint32_t node = layout.ops[i].node;
    const auto touch = [&](std::uint32_t entry) {
      const std::uint32_t place = layout.place_of_entry[entry];
      if (first[place] == kNone) first[place] = i;
      last[place] = i;
    };
    for (const EntryRef& input : graph.nodes[node].inputs) touch(graph.entry_id(input));
    for (std::uint32_t output = 0; output < graph.nodes[node].num_outputs; ++output) {
      touch(graph.entry_id({node, output}));
    }
  }
  for (std::uint32_t place = 0; place < layout.places.size(); ++place) {
    if (layout.places[place].input != kNone || first[place] == kNone) continue;
    layout.ops[first[place]].acquire.push_back(place);
    if (!layout.places[place].is_output) layout.ops[last[place]].release.push_back(place);
  }
  return layout;
}

}  // namespace opmeter::runtime
