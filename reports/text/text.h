// SPDX-License-Identifier: Apache-2.0
// The terminal report: one function per view, all from plain data. Pure: what a terminal is (its
// width, colours, UTF-8) is told by the caller. No line is wider than TextOptions::width.
#ifndef OPMETER_REPORTS_TEXT_TEXT_H_
#define OPMETER_REPORTS_TEXT_TEXT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "reports/info.h"
#include "reports/model.h"

namespace opmeter::reports {

enum class View { kDiag, kOps, kSizes, kStacks, kThreads, kTimeline };

/// "diag", "ops", "sizes", "stacks", "threads" or "timeline".
std::optional<View> parse_view(std::string_view name);

struct TextOptions {
  size_t width = 80;          ///< columns; at least 60 are used
  bool color = false;         ///< ANSI colours; never the only sign
  bool utf8 = true;           ///< false: bars and marks in ASCII
  size_t top = 10;            ///< rows of a list
  bool all = false;           ///< every row
  double threshold_us = 100;  ///< ops view: slower ops are marked "!"
};

/// The view as lines, each ended by a newline.
std::string render_text(const Report& report, View view, const TextOptions& options);
/// `opmeter info`.
std::string render_text(const TraceInfo& info, const TextOptions& options);

}  // namespace opmeter::reports

#endif  // OPMETER_REPORTS_TEXT_TEXT_H_
