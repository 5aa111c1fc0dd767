// SPDX-License-Identifier: Apache-2.0
// View "ops": where the time of a run goes, operator by operator, with the allocations beside it.
#include <fmt/format.h>

#include <algorithm>

#include "reports/text/layout.h"

namespace opmeter::reports::text {

void ops(Page& page, const Report& report) {
  header(page, report);
  const Dist& latency = report.runs.latency_ns;
  const double threshold_ns = page.options().threshold_us * 1000;
  page.line();
  if (latency.n > 0) {
    double share = 0;
    for (const Op& op : report.ops) share += op.share;
    const auto value = [](const std::optional<double>& ns) { return ns ? duration(*ns) : "n/a"; };
    page.heading("RUN LATENCY, steady");
    page.words({"p50 " + value(latency.p50), "p90 " + value(latency.p90),
                "p99 " + value(latency.p99), "max " + value(latency.max),
                fmt::format("n={}", latency.n), "ops " + percent(share) + " of it"},
               "  ");
  } else if (report.runs.count > 0) {
    page.warning("! No steady run was measured: latencies are missing.");
  }
  page.line(fmt::format("  self time, calls and mallocs per steady run; ! = p50 above {:g} us",
                        page.options().threshold_us));
  page.line();

  std::vector<const Op*> list;
  for (const Op& op : report.ops) {
    const bool pseudo = op.name == "(executor)" || op.name == "(outside)";
    if (!pseudo && (op.latency_ns.n > 0 || op.first_run_ns || op.total[0].calls > 0)) {
      list.push_back(&op);
    }
  }
  const auto cost = [](const Op* op) {
    return op->latency_ns.n > 0 ? *op->latency_ns.mean * static_cast<double>(op->latency_ns.n)
                                : static_cast<double>(op->first_run_ns.value_or(0)) * 1e-9;
  };
  std::stable_sort(list.begin(), list.end(),
                   [&](const Op* a, const Op* b) { return cost(a) > cost(b); });
  Table table(page, {{"", 1},
                     {"#", 4},
                     {"operator", 0, true},
                     {"calls", 5},
                     {"p50 us", 8},
                     {"p99 us", 8},
                     {"share", 6},
                     {"cum", 6},
                     {"malloc", 7},
                     {"ws", 7}});
  table.header();
  const size_t n = shown(page.options(), list.size());
  double cumulated = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    const Op& op = *list[i];
    cumulated += op.share;
    if (i >= n) continue;
    const bool slow =
        op.latency_ns.n > 0 && op.latency_ns.p50.value_or(*op.latency_ns.mean) > threshold_ns;
    table.row({slow ? "!" : "", op.index >= 0 ? fmt::format("{}", op.index) : "--",
               op_label(op.name), count(op.calls_per_run), microseconds(op.latency_ns.p50),
               microseconds(op.latency_ns.p99), percent(op.share), percent(cumulated),
               count(op.alloc.steady_per_run.calls), count(op.workspace.steady_per_run.calls)},
              slow);
  }
  page.more(list.size() - n, "operators");
  for (const Op& op : report.ops) {
    if (op.name != "(executor)") continue;
    const double gap = latency.n > 0 && *latency.mean > 0 && report.runs.gap_ns.mean
                           ? *report.runs.gap_ns.mean / *latency.mean
                           : 0;
    table.row({"", "--", op.name, "", microseconds(report.runs.gap_ns.p50),
               microseconds(report.runs.gap_ns.p99), percent(gap), "",
               count(op.alloc.steady_per_run.calls), count(op.workspace.steady_per_run.calls)});
  }
  page.line();
  quality(page, report);
}

}  // namespace opmeter::reports::text
