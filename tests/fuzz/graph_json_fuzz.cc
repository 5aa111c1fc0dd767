// SPDX-License-Identifier: Apache-2.0
// graph_json_fuzz.cc: any bytes as a graph: an error of one line, or a graph whose layout holds.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "runtime/executor/layout.h"
#include "runtime/tvm/graph_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace opmeter::runtime;
  const std::string where = "fuzz.json";
  const opmeter::Result<Graph> graph =
      parse_graph_json({reinterpret_cast<const char*>(data), size}, where);
  if (!graph) {
    if (graph.error().message.find('\n') != std::string::npos) std::abort();
    return 0;
  }
  for (const bool by_storage_id : {false, true}) {
    const opmeter::Result<Layout> layout = lay_out(*graph, by_storage_id, where);
    if (!layout) continue;
    for (std::size_t i = 0; i < graph->entries.size(); ++i) {
      const Place& place = layout->places.at(layout->place_of_entry.at(i));
      if (place.size_bytes < graph->entries[i].size_bytes) std::abort();
    }
  }
  return 0;
}
