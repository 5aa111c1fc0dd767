// SPDX-License-Identifier: Apache-2.0
// How `report` and `profile` show a trace: analysis options and terminal options from the command
// line, and the one way from a trace file to a printed report.
#ifndef OPMETER_TOOLS_REPORT_REPORT_OPTIONS_H_
#define OPMETER_TOOLS_REPORT_REPORT_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "reports/model.h"
#include "reports/text/text.h"
#include "tools/cli/arguments.h"

namespace opmeter::tools {

struct ReportOptions {
  std::string view = "diag";
  std::string bins;
  std::optional<uint64_t> top;
  bool all = false;
  double threshold_us = 100;
};

void add_report_options(Arguments& arguments, ReportOptions& options);

/// Reads and analyses a trace. `warmup` as in AnalyzeOptions. What takes more than a second shows
/// its progress on a terminal behind stderr, unless `quiet`. Throws Failure.
reports::Report load_report(const std::string& path, const ReportOptions& options,
                            std::optional<uint64_t> warmup, bool quiet);

/// For `--view` and a result that goes to stdout, or to a file (no colour).
std::string report_text(const reports::Report& report, const ReportOptions& options,
                        const CommonOptions& common);

/// Width, colour and characters of what is behind stdout.
reports::TextOptions text_options(const CommonOptions& common);

/// Says on stderr what limits a report (-v): modules without names.
void say_details(const reports::Report& report);

}  // namespace opmeter::tools

#endif  // OPMETER_TOOLS_REPORT_REPORT_OPTIONS_H_
