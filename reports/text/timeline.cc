// SPDX-License-Identifier: Apache-2.0
// View "timeline": live heap bytes over time, one row per time step with its highest value.
#include <fmt/format.h>

#include <algorithm>

#include "reports/text/layout.h"

namespace opmeter::reports::text {

void timeline(Page& page, const Report& report) {
  header(page, report);
  page.line();
  page.heading(fmt::format("LIVE HEAP BYTES   peak {}   at the end {}",
                           bytes(report.alloc.live_peak_bytes),
                           bytes(report.alloc.live_end_bytes)));
  const std::vector<TimelinePoint>& points = report.timeline;
  if (points.empty()) {
    page.line("  no allocation was recorded");
    return;
  }
  const size_t rows = page.options().all ? points.size() : std::min<size_t>(32, points.size());
  const uint64_t begin = points.front().t_ns;
  const uint64_t span = std::max<uint64_t>(1, points.back().t_ns - begin);
  std::vector<TimelinePoint> highest(rows);
  uint64_t most = 1;
  for (const TimelinePoint& point : points) {
    const double position = static_cast<double>(point.t_ns - begin) / static_cast<double>(span);
    const size_t row =
        std::min(rows - 1, static_cast<size_t>(position * static_cast<double>(rows)));
    if (highest[row].t_ns == 0 || point.live_bytes >= highest[row].live_bytes) highest[row] = point;
    most = std::max(most, point.live_bytes);
  }
  const size_t bar_width = page.width() - 12 - 11 - 4;
  for (const TimelinePoint& point : highest) {
    if (point.t_ns == 0) continue;
    page.line(right(duration(static_cast<double>(point.t_ns)), 12) +
              right(bytes(point.live_bytes), 11) + "  " +
              bar(static_cast<double>(point.live_bytes) / static_cast<double>(most), bar_width,
                  page.options().utf8));
  }
  page.line();
  quality(page, report);
}

}  // namespace opmeter::reports::text
