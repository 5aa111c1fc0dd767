// SPDX-License-Identifier: Apache-2.0
// layout.h: which tensors of a graph share memory, and when each place is needed. A pure function
// of the graph; the executor only carries it out.
#ifndef OPMETER_RUNTIME_EXECUTOR_LAYOUT_H_
#define OPMETER_RUNTIME_EXECUTOR_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "opmeter/result.h"
#include "runtime/tvm/graph_json.h"

namespace opmeter::runtime {

inline constexpr std::uint32_t kNone = 0xffffffff;

/// One piece of memory and the entries that live in it.
struct Place {
  std::uint64_t size_bytes = 0;
  std::uint32_t input = kNone;  ///< input index when the data comes from outside, never from a pool
  bool is_output = false;       ///< read after the run
};

struct OpLayout {
  std::uint32_t node = 0;
  std::vector<std::uint32_t> acquire;  ///< places that must be there before the op
  std::vector<std::uint32_t> release;  ///< places whose last use this op is; outputs never
};

struct Layout {
  std::vector<Place> places;
  std::vector<std::uint32_t> place_of_entry;
  std::vector<OpLayout> ops;  ///< every operator node in order, "__nop" included
};

/// by_storage_id: entries that ops make share the places the compiler planned. Otherwise each has
/// its own. In both an entry made by "__nop" lives where its input does, and inputs have places of
/// their own whatever their storage id, so that nobody writes over data of the caller. kInput when
/// "__nop" joins two storage ids, which no planner does.
Result<Layout> lay_out(const Graph& graph, bool by_storage_id, const std::string& where);

}  // namespace opmeter::runtime

#endif  // OPMETER_RUNTIME_EXECUTOR_LAYOUT_H_
