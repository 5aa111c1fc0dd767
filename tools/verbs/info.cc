// SPDX-License-Identifier: Apache-2.0
// `opmeter info`: facts about a trace file, without analysing it.
#include "profiler/analyze/analyze.h"
#include "profiler/trace/reader.h"
#include "reports/json.h"
#include "reports/text/text.h"
#include "tools/cli/arguments.h"
#include "tools/cli/console.h"
#include "tools/cli/failure.h"
#include "tools/cli/verb.h"
#include "tools/report/report_options.h"

namespace opmeter::tools {

int info_main(const VerbArgs& args) {
  CommonOptions common;
  std::string file;
  bool all = false;
  Arguments arguments("info", "info FILE [options]",
                      "What a trace file holds, and whether it is whole.");
  arguments.text("FILE", file, "", "a trace file");
  arguments.flag("--all", all, "every thread and module");
  arguments.add_common(common, kJson | kResultFile);
  if (!arguments.parse(args)) return kExitOk;
  if (file.empty()) arguments.fail("name a trace FILE");

  const trace::TraceReader reader = value_or_fail(trace::TraceReader::open(file));
  const reports::TraceInfo info = analyze::describe(reader, file);
  reports::TextOptions text = text_options(common);
  text.all = all;
  write_result(common.json ? reports::to_json(info) : reports::render_text(info, text),
               common.output, common.force);
  return kExitOk;
}

}  // namespace opmeter::tools
