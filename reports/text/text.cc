// SPDX-License-Identifier: Apache-2.0
#include "reports/text/text.h"

#include <array>
#include <utility>

#include "reports/text/layout.h"

namespace opmeter::reports {

std::optional<View> parse_view(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, View>, 6> kViews = {{
      {"diag", View::kDiag},
      {"ops", View::kOps},
      {"sizes", View::kSizes},
      {"stacks", View::kStacks},
      {"threads", View::kThreads},
      {"timeline", View::kTimeline},
  }};
  for (const auto& [word, view] : kViews) {
    if (word == name) return view;
  }
  return std::nullopt;
}

std::string render_text(const Report& report, View view, const TextOptions& options) {
  text::Page page(options);
  switch (view) {
    case View::kDiag:
      text::diag(page, report);
      break;
    case View::kOps:
      text::ops(page, report);
      break;
    case View::kSizes:
      text::sizes(page, report);
      break;
    case View::kStacks:
      text::stacks(page, report);
      break;
    case View::kThreads:
      text::threads(page, report);
      break;
    case View::kTimeline:
      text::timeline(page, report);
      break;
  }
  return page.take();
}

}  // namespace opmeter::reports
