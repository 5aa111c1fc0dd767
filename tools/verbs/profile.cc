// SPDX-License-Identifier: Apache-2.0
// `opmeter profile`: record + run + report in one step. The run happens in a process of its own
// (this executable again, as `run`), so that nothing of Opmeter's but the runtime is in what is
// recorded.
#include <fmt/format.h>

#include <filesystem>

#include "reports/json.h"
#include "tools/cli/arguments.h"
#include "tools/cli/console.h"
#include "tools/cli/failure.h"
#include "tools/cli/verb.h"
#include "tools/model/run_options.h"
#include "tools/record/record_words.h"
#include "tools/report/report_options.h"

namespace opmeter::tools {

int profile_main(const VerbArgs& args) {
  CommonOptions common;
  RunOptions run;
  RecordWords words;
  ReportOptions show;
  Arguments arguments(
      "profile", "profile MODEL [options]",
      "Runs a model, records it, and reports which operator allocates and where the "
      "time goes.");
  add_run_options(arguments, run);
  add_record_options(arguments, words);
  add_report_options(arguments, show);
  arguments.add_common(common, kJson | kTraceFile);
  arguments.set_notes(kRunNotes);
  if (!arguments.parse(args)) return kExitOk;
  check_run_options(arguments, run);

  RecordOptions options = to_record_options(words, common);
  options.command = {std::filesystem::read_symlink("/proc/self/exe").string(), "run"};
  if (common.quiet) options.command.emplace_back("--quiet");
  for (std::string& word : to_words(run)) options.command.push_back(std::move(word));
  options.discard_stdout = true;  // checksums matter here only when they are expected
  const RecordOutcome outcome = value_or_fail(record(options));

  std::error_code ignored;
  if (outcome.exit_code != kExitOk && outcome.exit_code != kExitGateFailed &&
      outcome.exit_code < 128) {
    // The run has said why in its one line; what was recorded until then is no profile.
    std::filesystem::remove(outcome.output, ignored);
    return outcome.exit_code;
  }
  if (!outcome.recorded) {
    throw Failure(unavailable_error(outcome.note.empty()
                                        ? "nothing was recorded; see opmeter doctor"
                                        : outcome.note + "; see opmeter doctor"));
  }
  const reports::Report report = load_report(outcome.output, show, std::nullopt, common.quiet);
  if (common.verbose) say_details(report);
  common.output.clear();  // -o named the trace
  write_result(common.json ? reports::to_json(report) : report_text(report, show, common), "",
               false);
  std::fflush(stdout);
  if (outcome.exit_code >= 128) {
    say(fmt::format("signal {} ended the run; the report holds what was recorded until then",
                    outcome.exit_code - 128));
  }
  say_outcome(outcome, common.quiet);
  return outcome.exit_code;
}

}  // namespace opmeter::tools
