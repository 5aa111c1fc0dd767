// SPDX-License-Identifier: Apache-2.0
// Runs a command to its end and tells what it said and what it cost.
#ifndef OPMETER_BENCH_RECORDING_CHILD_H_
#define OPMETER_BENCH_RECORDING_CHILD_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace opmeter::bench {

struct ChildRun {
  std::map<std::string, double> said;  ///< its `key value` lines on standard output
  std::string out;                     ///< all of standard output
  double cpu_ns = 0;  ///< user and system time of it and the processes it waited for
};

/// `command[0]` is a path. Ends this program with a line when the command fails.
ChildRun run_child(const std::vector<std::string>& command);

}  // namespace opmeter::bench

#endif  // OPMETER_BENCH_RECORDING_CHILD_H_
