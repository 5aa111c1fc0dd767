// SPDX-License-Identifier: Apache-2.0
// `opmeter report`: what trace files say, as a terminal view or as JSON.
#include "reports/json.h"
#include "tools/cli/arguments.h"
#include "tools/cli/console.h"
#include "tools/cli/failure.h"
#include "tools/cli/verb.h"
#include "tools/report/report_options.h"

namespace opmeter::tools {

int report_main(const VerbArgs& args) {
  CommonOptions common;
  ReportOptions options;
  std::vector<std::string> files;
  std::optional<uint64_t> warmup;
  Arguments arguments("report", "report FILE... [options]",
                      "Shows what trace files say: one report after another.");
  arguments.list("FILE", files, "", "trace files, as record and profile write them");
  add_report_options(arguments, options);
  arguments.number("--warmup", warmup, "W", 0,
                   "so many runs, the first one included, are not steady state (default: found)");
  arguments.add_common(common, kJson | kResultFile);
  arguments.set_notes(
      "The JSON is described by docs/report.schema.json. A damaged or cut trace is\n"
      "reported as far as it can be read, and the report says what is missing.\n");
  if (!arguments.parse(args)) return kExitOk;
  if (files.empty()) arguments.fail("name a trace FILE");
  if (common.json && files.size() > 1) {
    arguments.fail("--json gives one document; name one FILE");
  }

  std::string result;
  for (const std::string& file : files) {
    const reports::Report report = load_report(file, options, warmup, common.quiet);
    if (common.verbose) say_details(report);
    if (common.json) {
      result = reports::to_json(report);
    } else {
      if (!result.empty()) result += '\n';
      result += report_text(report, options, common);
    }
  }
  write_result(result, common.output, common.force);
  return kExitOk;
}

}  // namespace opmeter::tools
