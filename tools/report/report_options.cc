// SPDX-License-Identifier: Apache-2.0
// See report_options.h.
#include "tools/report/report_options.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>

#include "profiler/analyze/analyze.h"
#include "profiler/analyze/sizes.h"
#include "profiler/trace/reader.h"
#include "tools/cli/console.h"
#include "tools/cli/failure.h"
#include "tools/report/progress.h"

namespace opmeter::tools {
namespace {

/// By the locale's name, as the C library decides it.
bool terminal_is_utf8() {
  std::string locale;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == 0) continue;
    locale = value;
    break;
  }
  std::transform(locale.begin(), locale.end(), locale.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
}

}  // namespace

void add_report_options(Arguments& arguments, ReportOptions& options) {
  arguments.choice("--view", options.view, "VIEW",
                   {"diag", "ops", "sizes", "stacks", "threads", "timeline"},
                   "diag, ops, sizes, stacks, threads or timeline (default diag)");
  arguments.text("--bins", options.bins, "LIST",
                 "edges of the size histogram, like 1K,5K,15K,20K (default powers of two)");
  arguments.number("--top", options.top, "N", 1, "rows of a list (default 10; JSON: 20 stacks)");
  arguments.flag("--all", options.all, "every row: sums then agree over all lists");
  arguments.number("--threshold-us", options.threshold_us, "T",
                   "mark ops that are slower than this (default 100)");
}

reports::Report load_report(const std::string& path, const ReportOptions& options,
                            std::optional<uint64_t> warmup, bool quiet) {
  analyze::AnalyzeOptions analysis;
  if (!options.bins.empty()) analysis.bins = value_or_fail(analyze::parse_size_bins(options.bins));
  if (options.top) analysis.top = *options.top;
  analysis.all = options.all;
  analysis.warmup = warmup;
  analysis.trace_path = path;
  Progress progress(STDERR_FILENO, !quiet, [] {
    return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                 std::chrono::nanoseconds(1));
  });
  analysis.progress = [&](uint64_t done, uint64_t of) { progress.update(done, of); };
  const trace::TraceReader reader = value_or_fail(trace::TraceReader::open(path));
  return value_or_fail(analyze::analyze(reader, analysis));
}

reports::TextOptions text_options(const CommonOptions& common) {
  const bool to_file = !common.output.empty();
  reports::TextOptions text;
  text.color = common.color == "always" || (!to_file && use_color(common.color));
  text.width = to_file ? 80 : static_cast<size_t>(output_columns());
  text.utf8 = terminal_is_utf8();
  return text;
}

std::string report_text(const reports::Report& report, const ReportOptions& options,
                        const CommonOptions& common) {
  reports::TextOptions text = text_options(common);
  if (options.top) text.top = *options.top;
  text.all = options.all;
  text.threshold_us = options.threshold_us;
  return reports::render_text(report, *reports::parse_view(options.view), text);
}

void say_details(const reports::Report& report) {
  for (const std::string& problem : report.quality.symbol_problems) say(problem);
}

}  // namespace opmeter::tools
