// SPDX-License-Identifier: Apache-2.0
// View "sizes": histograms of requested sizes, one for each domain that was used.
#include <fmt/format.h>

#include "reports/text/layout.h"

namespace opmeter::reports::text {

void sizes(Page& page, const Report& report) {
  header(page, report);
  bool any = false;
  for (size_t d = 0; d < kDomains; ++d) {
    const auto domain = static_cast<Domain>(d);
    Counts inside, total;
    for (size_t p = 0; p < kPhases; ++p) {
      const Counts& c = report.phases[p][d];
      total.calls += c.calls;
      total.bytes += c.bytes;
      const auto phase = static_cast<Phase>(p);
      if (phase == Phase::kLoad || phase == Phase::kOutside) continue;
      inside.calls += c.calls;
      inside.bytes += c.bytes;
    }
    if (total.calls == 0) continue;
    any = true;
    page.line();
    if (report.runs.count > 0) {
      page.heading(fmt::format("{}: {} inside runs, {}", kDomainNames[d],
                               plural(inside.calls, "call"), bytes(inside.bytes)));
      const Counts& load = counts(report, Phase::kLoad, domain);
      const Counts& outside = counts(report, Phase::kOutside, domain);
      page.line(fmt::format("  before the first run {} / {}, between and after runs {} / {}",
                            load.calls, bytes(load.bytes), outside.calls, bytes(outside.bytes)));
    } else {
      page.heading(fmt::format("{}: {}, {}", kDomainNames[d], plural(total.calls, "call"),
                               bytes(total.bytes)));
    }
    if (report.runs.count > 0 && inside.calls == 0) continue;
    histogram(page, report, domain, page.options().all ? SIZE_MAX : 24);
  }
  if (!any) page.line("No allocation was recorded.");
  page.line();
  quality(page, report);
}

}  // namespace opmeter::reports::text
