// SPDX-License-Identifier: Apache-2.0
// How a program tells Opmeter what it is doing: a "graph" of two ops, run in a loop. Links nothing
// of Opmeter's; without a profiler every call is one load and one branch. Try it:
//   opmeter record -o hot.opm -- build/release/examples/hot_loop
#include <cstdio>
#include <numeric>
#include <vector>

#include "opmeter/opmeter.hpp"

namespace {

opm_op declare_op(opm_graph graph, int32_t index, const char* name) {
  opm_op_desc desc{};
  desc.struct_size = sizeof desc;
  desc.graph = graph;
  desc.index = index;
  desc.name = name;
  desc.kind = name;
  desc.device_type = 1;  // DLPack's number of the CPU
  return opm_op_declare(&desc);
}

}  // namespace

int main() {
  const opm_graph graph = opm_graph_declare("hot_loop");
  const opm_op fill = declare_op(graph, 0, "fill");
  const opm_op sum = declare_op(graph, 1, "sum");
  long total = 0;
  for (int i = 0; i < 100; ++i) {
    const opmeter::RunScope run(graph);
    std::vector<int> numbers;
    {
      const opmeter::OpScope op(fill);
      for (int n = 0; n < 1000; ++n) numbers.push_back(n);  // grows: 11 allocations a run
    }
    {
      const opmeter::OpScope op(sum);
      total += std::accumulate(numbers.begin(), numbers.end(), 0L);
    }
  }
  std::printf("%ld\n", total);
}
