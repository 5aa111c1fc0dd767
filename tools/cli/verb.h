// SPDX-License-Identifier: Apache-2.0
// The verbs of the command. A new verb is one file in verbs/, one declaration and one row here.
#ifndef OPMETER_TOOLS_CLI_VERB_H_
#define OPMETER_TOOLS_CLI_VERB_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace opmeter::tools {

/// The words behind the verb. Returns the exit code; throws Failure.
using VerbArgs = std::vector<std::string>;

struct Verb {
  const char* name;
  const char* summary;  ///< one line of `opmeter help`
  int (*main)(const VerbArgs& args);
};

int run_main(const VerbArgs& args);
int record_main(const VerbArgs& args);
int profile_main(const VerbArgs& args);
int report_main(const VerbArgs& args);
int info_main(const VerbArgs& args);
int doctor_main(const VerbArgs& args);
int help_main(const VerbArgs& args);

std::span<const Verb> verbs();
/// Throws Failure (usage) that names the nearest verb.
const Verb& find_verb(const std::string& name);

}  // namespace opmeter::tools

#endif  // OPMETER_TOOLS_CLI_VERB_H_
