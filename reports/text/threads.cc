// SPDX-License-Identifier: Apache-2.0
// View "threads": who allocates, the thread that calls run() or its workers.
#include <fmt/format.h>

#include <algorithm>

#include "reports/text/layout.h"

namespace opmeter::reports::text {

void threads(Page& page, const Report& report) {
  header(page, report);
  page.line();
  page.heading("THREADS");
  page.line("  caller = began a run, worker = was given a run's context, other = neither");
  page.line();
  std::vector<const Thread*> list;
  for (const Thread& thread : report.threads) list.push_back(&thread);
  const auto rank = [](const Thread* t) {
    return t->role == "caller" ? 0 : t->role == "worker" ? 1 : 2;
  };
  std::stable_sort(list.begin(), list.end(), [&](const Thread* a, const Thread* b) {
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    if (a->id == b->id) return a->domain < b->domain;
    return a->calls > b->calls;
  });
  Table table(page, {{"role", 7, true},
                     {"thread", 0, true},
                     {"tid", 8},
                     {"domain", 9, true},
                     {"first run", 9},
                     {"steady/run", 10},
                     {"all calls", 10},
                     {"bytes", 9}});
  table.header();
  const size_t n = shown(page.options(), list.size());
  for (size_t i = 0; i < n; ++i) {
    const Thread& t = *list[i];
    const double steady = report.runs.steady > 0 ? static_cast<double>(t.steady_calls) /
                                                       static_cast<double>(report.runs.steady)
                                                 : 0;
    table.row({t.role, t.name.empty() ? fmt::format("thread {}", t.id) : t.name,
               fmt::format("{}", t.tid), kDomainNames[static_cast<size_t>(t.domain)],
               fmt::format("{}", t.first_run_calls), count(steady), fmt::format("{}", t.calls),
               bytes(t.bytes)});
  }
  page.more(list.size() - n, "rows");
  page.line();
  quality(page, report);
}

}  // namespace opmeter::reports::text
