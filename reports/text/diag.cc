// SPDX-License-Identifier: Apache-2.0
// The default view: one screen that says whether run() allocates, who does it, how much, and
// whether it is warm-up or steady state. Works for traces without runs too.
#include <fmt/format.h>

#include <algorithm>

#include "reports/text/layout.h"

namespace opmeter::reports::text {
namespace {

/// One line per count that has a first-run and a steady side.
void two_sides(Page& page, const std::string& what, const std::string& first,
               const std::string& steady) {
  page.line("  " + left(what, 26) + right(first, 24) + right(steady, 26));
}

std::string calls_and_bytes(double calls, double size) {
  return fmt::format("{} / {}", count(calls), bytes(size));
}

void verdict(Page& page, const Report& report) {
  const PerRun& steady = report.alloc.steady_per_run;
  if (report.runs.count == 0) {
    const Allocations& a = report.alloc;
    page.heading(fmt::format("{}, {}   peak live {}   {} still live at the end",
                             plural(a.total.calls, "malloc"), bytes(a.total.bytes),
                             bytes(a.live_peak_bytes), bytes(a.live_end_bytes)));
    page.line("No run was marked in this program: counts are those of the whole recording.");
    return;
  }
  if (report.runs.steady == 0) {
    const Counts& first = report.alloc.first_run;
    page.heading(fmt::format("FIRST RUN   {}   {}   peak live {}", plural(first.calls, "malloc"),
                             bytes(first.bytes), bytes(report.alloc.live_peak_bytes)));
    page.warning("! No steady run was recorded: nothing can be said about steady state.");
    return;
  }
  page.heading(fmt::format("STEADY STATE   {} mallocs/run   {}/run   peak live {}",
                           count(steady.calls), bytes(steady.bytes),
                           bytes(report.alloc.live_peak_bytes)));
  if (steady.calls_sum > 0) {
    std::string calls =
        steady.min_calls == steady.max_calls
            ? plural(steady.max_calls, "time") + " a run"
            : fmt::format("{} to {} times a run", steady.min_calls, steady.max_calls);
    page.warning(fmt::format("! Steady state calls malloc {}, in {} of {}.", calls,
                             steady.runs_with_calls, plural(steady.runs, "run")));
  } else if (report.quality.lost_events > 0 || !report.quality.complete) {
    page.warning("! No malloc inside run() in what was recorded of steady state (not all was).");
  } else {
    page.good(
        fmt::format("No malloc inside run() in steady state ({}).", plural(steady.runs, "run")));
  }
  if (report.runs.never_steady) {
    page.warning("! The runs show a trend to the end: they may not have reached a steady state.");
  }
}

void runs(Page& page, const Report& report) {
  const Runs& r = report.runs;
  std::string text = fmt::format(
      "RUNS {}: first {}", r.count,
      r.first_run_ns ? duration(static_cast<double>(*r.first_run_ns)) : "(not measured)");
  text += fmt::format(", {} warm-up{}, {} steady", r.warmup, r.warmup_detected ? " (detected)" : "",
                      r.steady);
  page.heading(text);
  if (r.latency_ns.n > 0) {
    const auto quantile = [](const char* name, const std::optional<double>& value, int needed) {
      return value ? fmt::format("{} {}", name, duration(*value))
                   : fmt::format("{} n/a (n < {})", name, needed);
    };
    page.words({"steady latency", quantile("p50", r.latency_ns.p50, 6),
                quantile("p90", r.latency_ns.p90, 36), quantile("p99", r.latency_ns.p99, 368),
                "max " + duration(*r.latency_ns.max), fmt::format("n={}", r.latency_ns.n)},
               "  ");
  }
  if (r.minor_faults.n > 0) {
    const auto at = [](const std::optional<double>& value) {
      return value ? count(*value) : std::string("n/a");
    };
    page.line(fmt::format("  minor page faults a run: p50 {}, max {}, n={}", at(r.minor_faults.p50),
                          at(r.minor_faults.max), r.minor_faults.n));
  }
  if (r.incomplete > 0) {
    page.warning(fmt::format("! {} ended early or lost events and are in no latency.",
                             plural(r.incomplete, "run")));
  }
}

void totals(Page& page, const Report& report) {
  const Allocations& a = report.alloc;
  page.line();
  two_sides(page, "", "first run", "steady, per run");
  two_sides(page, "mallocs (calls / bytes)",
            calls_and_bytes(static_cast<double>(a.first_run.calls),
                            static_cast<double>(a.first_run.bytes)),
            calls_and_bytes(a.steady_per_run.calls, a.steady_per_run.bytes));
  two_sides(page, "  largest", bytes(a.first_run_largest_bytes), bytes(a.steady_largest_bytes));
  const auto pool = [&](const char* name, const PoolUse& use) {
    if (use.total.calls == 0) return;
    two_sides(page, name,
              calls_and_bytes(static_cast<double>(use.first_run.calls),
                              static_cast<double>(use.first_run.bytes)),
              calls_and_bytes(use.steady_per_run.calls, use.steady_per_run.bytes));
    two_sides(page, "  largest", bytes(use.first_run_largest_bytes),
              bytes(use.steady_largest_bytes));
  };
  pool("workspaces from the pool", report.workspace_pool);
  pool("tensors from the pool", report.tensor_pool);
  const PoolUse& workspace = report.workspace_pool;
  if (workspace.growth_calls > 0 && workspace.growth_calls >= workspace.total.calls) {
    page.line("  each workspace request is a malloc of its own");
  } else if (workspace.growth_calls > 0) {
    std::string list;
    for (size_t i = 0; i < workspace.growth_bytes.size() && i < 6; ++i) {
      list += fmt::format("{}{}", i == 0 ? "" : ", ", workspace.growth_bytes[i]);
    }
    if (workspace.growth_calls > 6) list += ", ...";
    page.line(fmt::format("  workspace pool grew {} by {}: {} B",
                          plural(workspace.growth_calls, "time"), bytes(workspace.growth_bytes_sum),
                          list));
  }
  const Counts& load = counts(report, Phase::kLoad, Domain::kHeap);
  std::vector<std::string> words = {
      report.context.scope == "runs"
          ? std::string("before the first run: not recorded")
          : fmt::format("before the first run {} / {}", load.calls, bytes(load.bytes)),
      fmt::format("temporary {} (freed in their run)", a.temporary_calls),
      fmt::format("live at the end {}", bytes(a.live_end_bytes))};
  if (a.growth_slope && *a.growth_slope != 0) {
    words.push_back(fmt::format("growth {}{}/run", *a.growth_slope < 0 ? "-" : "+",
                                bytes(std::abs(*a.growth_slope))));
  }
  page.words(words, "  ");
  if (a.call_ns) {
    page.line(fmt::format("  time in malloc and free: first run {}, steady {} a run, all {}",
                          duration(static_cast<double>(a.call_ns->first_run_ns)),
                          duration(a.call_ns->steady_per_run_ns),
                          duration(static_cast<double>(a.call_ns->total_ns))));
  }
  if (a.forbidden_calls > 0) {
    page.warning(fmt::format("! {} inside scopes that forbid allocation.",
                             plural(a.forbidden_calls, "malloc")));
  }
}

/// Ops by what they cost in this domain: steady first, then first run.
std::vector<const Op*> ranked(const Report& report, const OpAllocations Op::*use) {
  std::vector<const Op*> list;
  for (const Op& op : report.ops) {
    if ((op.*use).first_run.calls > 0 || (op.*use).steady_per_run.calls_sum > 0)
      list.push_back(&op);
  }
  std::stable_sort(list.begin(), list.end(), [use](const Op* a, const Op* b) {
    const OpAllocations& x = a->*use;
    const OpAllocations& y = b->*use;
    if (x.steady_per_run.calls_sum != y.steady_per_run.calls_sum) {
      return x.steady_per_run.calls_sum > y.steady_per_run.calls_sum;
    }
    return x.first_run.bytes > y.first_run.bytes;
  });
  return list;
}

void operators(Page& page, const Report& report, const std::string& title,
               const OpAllocations Op::*use, size_t most) {
  const std::vector<const Op*> list = ranked(report, use);
  page.line();
  page.heading(title);
  if (list.empty()) {
    page.line("  none inside runs");
    return;
  }
  Table table(page, {{"#", 4},
                     {"operator", 0, true},
                     {"first", 6},
                     {"bytes", 8},
                     {"steady", 7},
                     {"bytes", 8},
                     {"largest", 8},
                     {"p50 us", 8},
                     {"time", 6}});
  table.header();
  const size_t n = page.options().all ? list.size() : std::min(most, list.size());
  for (size_t i = 0; i < n; ++i) {
    const Op& op = *list[i];
    const OpAllocations& a = op.*use;
    const bool pseudo = op.latency_ns.n == 0;
    table.row({op.index >= 0 ? fmt::format("{}", op.index) : "--", op_label(op.name),
               fmt::format("{}", a.first_run.calls), bytes(a.first_run.bytes),
               count(a.steady_per_run.calls), bytes(a.steady_per_run.bytes), bytes(a.largest_bytes),
               microseconds(op.latency_ns.p50), pseudo ? "" : percent(op.share)});
  }
  page.more(list.size() - n, "operators");
}

void top_stacks(Page& page, const Report& report, Domain domain, size_t most, size_t depth) {
  std::vector<const Stack*> list;
  for (const Stack& stack : report.stacks) {
    if (stack.domain != domain) continue;
    if (report.runs.count > 0 && stack.steady_calls + stack.first_run_calls == 0) continue;
    list.push_back(&stack);
  }
  const bool steady = report.alloc.steady_per_run.calls_sum > 0;
  std::stable_sort(list.begin(), list.end(), [&](const Stack* a, const Stack* b) {
    if (report.runs.count == 0) return a->bytes > b->bytes;
    if (steady && a->steady_calls != b->steady_calls) return a->steady_calls > b->steady_calls;
    return a->first_run_bytes > b->first_run_bytes;
  });
  if (list.empty()) return;
  page.line();
  const size_t n = page.options().all ? list.size() : std::min(most, list.size());
  page.heading(fmt::format("TOP STACKS ({} of {})", n, list.size()));
  for (size_t i = 0; i < n; ++i) {
    const Stack& stack = *list[i];
    const std::string summary = fmt::format("  {}. {}", i + 1, stack_summary(report, stack));
    std::string who;
    if (report.runs.count > 0 && !stack.ops.empty()) who = "in " + stack.ops.front();
    if (!who.empty() && stack.ops.size() > 1) {
      who += fmt::format(" and {} more", stack.ops.size() - 1);
    }
    if (!stack.cause.empty()) who += "  [" + stack.cause + "]";
    if (columns(summary) + 2 + columns(who) <= page.width()) {
      page.line(summary + "  " + who);
    } else {
      page.line(summary);
      page.line("     " + who);
    }
    frames(page, stack, depth);
  }
}

void thread_split(Page& page, const Report& report) {
  struct Role {
    const char* name;
    uint64_t threads = 0, first = 0, steady = 0;
  };
  std::array<Role, 3> roles = {Role{"caller"}, Role{"worker"}, Role{"other"}};
  for (const Thread& thread : report.threads) {
    if (thread.domain != Domain::kHeap) continue;
    for (Role& role : roles) {
      if (thread.role != role.name) continue;
      ++role.threads;
      role.first += thread.first_run_calls;
      role.steady += thread.steady_calls;
    }
  }
  std::vector<std::string> words = {"THREADS (mallocs first run / steady a run)"};
  for (const Role& role : roles) {
    if (role.threads == 0) continue;
    const double steady = report.runs.steady > 0 ? static_cast<double>(role.steady) /
                                                       static_cast<double>(report.runs.steady)
                                                 : 0;
    words.push_back(
        fmt::format("{} {}: {} / {}", role.threads, role.name, role.first, count(steady)));
  }
  page.line();
  page.words(words);
}

}  // namespace

void diag(Page& page, const Report& report) {
  header(page, report);
  page.line();
  verdict(page, report);
  if (report.runs.count > 0) {
    runs(page, report);
    totals(page, report);
    operators(page, report,
              "MALLOCS BY OPERATOR (calls and bytes in the first run and per steady run)",
              &Op::alloc, 8);
    if (report.workspace_pool.total.calls > 0) {
      operators(page, report, "WORKSPACES BY OPERATOR (requests to the pool, likewise)",
                &Op::workspace, 5);
    }
  } else {
    const Allocations& a = report.alloc;
    page.words({fmt::format("frees {}", a.total.frees), fmt::format("failed {}", a.total.failed),
                fmt::format("frees of blocks born before the recording {}", a.freed_unknown),
                "largest " + bytes(a.largest.bytes)});
    if (a.call_ns) {
      page.line("time in malloc and free " + duration(static_cast<double>(a.call_ns->total_ns)));
    }
  }
  if (report.map.total.calls > 0) {
    page.line(fmt::format("  mappings of the program {} / {}, peak {}, at the end {}",
                          plural(report.map.total.calls, "call"), bytes(report.map.total.bytes),
                          bytes(report.map.live_peak_bytes), bytes(report.map.live_end_bytes)));
  }
  const bool with_runs = report.runs.count > 0;
  page.line();
  page.heading(with_runs ? "SIZES OF MALLOCS INSIDE RUNS" : "SIZES OF MALLOCS");
  histogram(page, report, Domain::kHeap, with_runs ? 8 : 12);
  top_stacks(page, report, Domain::kHeap, with_runs ? 3 : 5, 5);
  if (with_runs) thread_split(page, report);
  page.line();
  quality(page, report);
}

}  // namespace opmeter::reports::text
