// SPDX-License-Identifier: Apache-2.0
// See verb.h. In the order in which a newcomer needs them.
#include "tools/cli/verb.h"

#include <fmt/format.h>

#include "tools/cli/arguments.h"
#include "tools/cli/failure.h"

namespace opmeter::tools {

std::span<const Verb> verbs() {
  static constexpr Verb kVerbs[] = {
      {"profile", "run a model, record it and report, in one step", profile_main},
      {"record", "run any program and record its allocations, ops and runs", record_main},
      {"report", "show what a trace file says", report_main},
      {"run", "execute a model: checksums of its outputs, and latency", run_main},
      {"info", "what a trace file holds and whether it is whole", info_main},
      {"doctor", "what works on this machine", doctor_main},
      {"help", "this text, or that of one command", help_main},
  };
  return kVerbs;
}

const Verb& find_verb(const std::string& name) {
  std::vector<std::string> names;
  for (const Verb& verb : verbs()) {
    if (name == verb.name) return verb;
    names.emplace_back(verb.name);
  }
  const std::string guess = nearest(name, names);
  throw Failure(usage_error(fmt::format("unknown command '{}'{}; see opmeter help", name,
                                        guess.empty() ? "" : ", did you mean " + guess + "?")));
}

}  // namespace opmeter::tools
