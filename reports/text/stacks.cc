// SPDX-License-Identifier: Apache-2.0
// View "stacks": the call stacks of allocations, domain by domain, those inside scopes that forbid
// allocation before the others, then most bytes first.
#include <fmt/format.h>

#include <algorithm>

#include "reports/text/layout.h"

namespace opmeter::reports::text {

void stacks(Page& page, const Report& report) {
  header(page, report);
  bool any = false;
  for (size_t d = 0; d < kDomains; ++d) {
    std::vector<const Stack*> list;
    for (const Stack& stack : report.stacks) {
      if (static_cast<size_t>(stack.domain) == d) list.push_back(&stack);
    }
    if (list.empty()) continue;
    any = true;
    // A violation is news however small it is.
    std::stable_partition(list.begin(), list.end(),
                          [](const Stack* stack) { return stack->forbidden_calls > 0; });
    page.line();
    const size_t n = shown(page.options(), list.size());
    page.heading(fmt::format("{}: {} of {}", kDomainNames[d], n, plural(list.size(), "stack")));
    for (size_t i = 0; i < n; ++i) {
      const Stack& stack = *list[i];
      page.line();
      page.line(fmt::format("  {}. {}", i + 1, stack_summary(report, stack)));
      std::string who;
      const size_t most = page.options().all ? stack.ops.size() : 3;
      for (size_t k = 0; k < stack.ops.size() && k < most; ++k) {
        who += (k == 0 ? "in " : ", ") + stack.ops[k];
      }
      if (stack.ops.size() > most) who += fmt::format(" and {} more", stack.ops.size() - most);
      if (!stack.cause.empty()) who += "   cause: " + stack.cause;
      if (!who.empty()) page.line("     " + who);
      if (stack.forbidden_calls > 0) {
        page.warning(fmt::format("   ! {} inside scopes that forbid allocation",
                                 plural(stack.forbidden_calls, "call")));
      }
      frames(page, stack, page.options().all ? SIZE_MAX : 16);
    }
    page.more(list.size() - n, "stacks");
  }
  if (!any) page.line("No allocation was recorded.");
  page.line();
  quality(page, report);
}

}  // namespace opmeter::reports::text
