// SPDX-License-Identifier: Apache-2.0
// `opmeter help [COMMAND]`: the commands, or what one of them takes.
#include <fmt/format.h>

#include "tools/cli/arguments.h"
#include "tools/cli/console.h"
#include "tools/cli/failure.h"
#include "tools/cli/verb.h"

namespace opmeter::tools {
namespace {

constexpr char kExamples[] = R"(
opmeter COMMAND -h says what a command takes; opmeter -V prints the version.

  opmeter profile model.so --pool naive
  opmeter record -o app.opm -- ./app --its-options
  opmeter report app.opm --view stacks

Exit codes: 0 ok; 1 an expectation failed; 2 an option or name that does not
exist; 3 a file is missing or damaged, or an operator failed; 4 no verdict
possible; 5 a driver, library or permission is absent. `record` exits as the
program did; 125 when Opmeter itself failed, 126 and 127 when the program could
not be started.
)";

std::string overview() {
  std::string text =
      "usage: opmeter COMMAND [options]\n\n"
      "Which operator of a model (or which code of any program) allocates, how much,\n"
      "from where, in the first run and in steady state; and where its time goes.\n\n";
  for (const Verb& verb : verbs()) text += fmt::format("  {:<10}{}\n", verb.name, verb.summary);
  return text + kExamples;
}

}  // namespace

int help_main(const VerbArgs& args) {
  CommonOptions common;
  std::string about;
  Arguments arguments("help", "help [COMMAND]", "The commands, or what one of them takes.");
  arguments.text("COMMAND", about, "", "one of the commands");
  arguments.add_common(common, kNone);
  if (!arguments.parse(args)) return kExitOk;
  if (about.empty()) {
    write_result(overview(), "", false);
    return kExitOk;
  }
  return find_verb(about).main({"--help"});
}

}  // namespace opmeter::tools
