// SPDX-License-Identifier: Apache-2.0
// `opmeter record`: runs any program under the interposer. Transparent: the program keeps stdin,
// stdout, stderr, and its exit code is ours.
#include <fmt/format.h>

#include <algorithm>

#include "tools/cli/arguments.h"
#include "tools/cli/console.h"
#include "tools/cli/failure.h"
#include "tools/cli/verb.h"
#include "tools/record/record_words.h"

namespace opmeter::tools {

int record_main(const VerbArgs& args) {
  // Everything behind the first "--" is the program's, whatever it looks like.
  const auto split = std::find(args.begin(), args.end(), "--");
  CommonOptions common;
  RecordWords words;
  std::vector<std::string> strays;
  Arguments arguments("record", "record [options] -- PROG ARGS...",
                      "Runs a program and records its allocations, and its ops and runs if it is "
                      "annotated with opmeter.h.");
  arguments.hidden_words("PROG", strays);
  add_record_options(arguments, words);
  arguments.add_common(common, kTraceFile);
  arguments.set_notes(
      "Exit code: that of the program, 128 + n when signal n ended it; 125 when\n"
      "Opmeter itself failed, 126 when PROG cannot be run, 127 when it is not there;\n"
      "2 for an option that does not exist.\n");
  if (!arguments.parse(VerbArgs(args.begin(), split))) return kExitOk;
  if (!strays.empty()) arguments.fail(fmt::format("write -- before '{}'", strays.front()));
  if (split == args.end() || split + 1 == args.end()) {
    arguments.fail("name the program behind --");
  }
  RecordOptions options = to_record_options(words, common);
  options.command.assign(split + 1, args.end());

  const Result<RecordOutcome> outcome = record(options);
  if (!outcome) throw Failure(kExitRecordFailed, outcome.error().message);
  if (common.verbose) say("interposer: " + value_or_fail(find_preload_library()));
  say_outcome(*outcome, common.quiet);
  return outcome->exit_code;
}

}  // namespace opmeter::tools
