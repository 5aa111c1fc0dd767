// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/invariants.h"

#include <map>
#include <optional>

namespace opmeter::analyze {

using reports::Counts;
using reports::Dist;
using reports::kDomainNames;
using reports::kDomains;
using reports::kPhaseNames;
using reports::kPhases;
using reports::Report;

namespace {

class Checker {
 public:
  void equal(const std::string& what, uint64_t got, uint64_t want) {
    if (got == want) return;
    violations.push_back(what + ": " + std::to_string(got) + ", but " + std::to_string(want) +
                         " expected");
  }
  void holds(bool condition, const std::string& sentence) {
    if (!condition) violations.push_back(sentence);
  }
  void dist(const std::string& what, const Dist& d) {
    holds(d.n == 0 || (d.min && d.max && d.mean), what + ": samples without min, max and mean");
    holds(d.p50.has_value() == (d.n >= 6), what + ": p50 must exist exactly from n = 6 on");
    holds(d.p90.has_value() == (d.n >= 36), what + ": p90 must exist exactly from n = 36 on");
    holds(d.p99.has_value() == (d.n >= 368), what + ": p99 must exist exactly from n = 368 on");
    std::optional<double> before;
    for (const auto& value : {d.min, d.p50, d.p90, d.p99, d.max}) {
      if (!value) continue;
      holds(!before || *before <= *value, what + ": percentiles must ascend");
      before = value;
    }
  }

  std::vector<std::string> violations;
};

void add(Counts& sum, const Counts& more) {
  sum.calls += more.calls;
  sum.bytes += more.bytes;
  sum.frees += more.frees;
  sum.failed += more.failed;
  sum.backing_calls += more.backing_calls;
  sum.backing_bytes += more.backing_bytes;
}

struct CallsBytes {
  uint64_t calls = 0, bytes = 0;
};

}  // namespace

std::vector<std::string> check_invariants(const Report& report) {
  Checker check;
  for (size_t d = 0; d < kDomains; ++d) {
    const auto domain = static_cast<reports::Domain>(d);
    const std::string name = kDomainNames[d];
    Counts total, ops;
    for (const auto& phase : report.phases) add(total, phase[d]);
    for (const auto& op : report.ops) add(ops, op.total[d]);
    check.equal(name + " calls over ops", ops.calls, total.calls);
    check.equal(name + " bytes over ops", ops.bytes, total.bytes);
    check.equal(name + " frees over ops", ops.frees, total.frees);
    check.equal(name + " failed calls over ops", ops.failed, total.failed);
    check.equal(name + " backing calls over ops", ops.backing_calls, total.backing_calls);
    check.equal(name + " backing bytes over ops", ops.backing_bytes, total.backing_bytes);
    check.holds(total.backing_calls <= total.calls && total.backing_bytes <= total.bytes,
                name + ": backing must be part of calls and bytes");

    CallsBytes sizes, stacks, threads;
    std::array<CallsBytes, kPhases> sizes_by_phase{};
    for (const auto& bin : report.sizes) {
      if (bin.domain != domain) continue;
      sizes.calls += bin.calls;
      sizes.bytes += bin.bytes;
      auto& phase = sizes_by_phase[static_cast<size_t>(bin.phase)];
      phase.calls += bin.calls;
      phase.bytes += bin.bytes;
      const std::string where = name + " bin from " + std::to_string(bin.min_bytes);
      check.holds(bin.calls > 0, where + " is empty");
      check.holds(bin.min_bytes < bin.max_bytes, where + " has no width");
      check.holds(bin.min_bytes == 0 || bin.bytes / bin.calls >= bin.min_bytes,
                  where + " holds smaller blocks");
      check.holds((bin.bytes + bin.calls - 1) / bin.calls <= bin.max_bytes,
                  where + " holds larger blocks");
    }
    for (const auto& stack : report.stacks) {
      if (stack.domain != domain) continue;
      stacks.calls += stack.calls;
      stacks.bytes += stack.bytes;
    }
    for (const auto& thread : report.threads) {
      if (thread.domain != domain) continue;
      threads.calls += thread.calls;
      threads.bytes += thread.bytes;
    }
    check.equal(name + " calls over sizes", sizes.calls, total.calls);
    check.equal(name + " bytes over sizes", sizes.bytes, total.bytes);
    check.equal(name + " calls over stacks", stacks.calls, total.calls);
    check.equal(name + " bytes over stacks", stacks.bytes, total.bytes);
    check.equal(name + " calls over threads", threads.calls, total.calls);
    check.equal(name + " bytes over threads", threads.bytes, total.bytes);
    for (size_t p = 0; p < kPhases; ++p) {
      const std::string where = name + " over sizes in phase " + kPhaseNames[p];
      check.equal(where + ", calls", sizes_by_phase[p].calls, report.phases[p][d].calls);
      check.equal(where + ", bytes", sizes_by_phase[p].bytes, report.phases[p][d].bytes);
    }

    for (const auto& op : report.ops) {
      CallsBytes in_sizes, in_stacks;
      for (const auto& bin : op.sizes) {
        if (bin.domain != domain) continue;
        in_sizes.calls += bin.calls;
        in_sizes.bytes += bin.bytes;
      }
      for (const auto& ref : op.top_stacks) {
        if (ref.domain != domain) continue;
        in_stacks.calls += ref.calls;
        in_stacks.bytes += ref.bytes;
      }
      check.equal(op.name + ", " + name + " calls over its sizes", in_sizes.calls,
                  op.total[d].calls);
      check.equal(op.name + ", " + name + " bytes over its sizes", in_sizes.bytes,
                  op.total[d].bytes);
      check.equal(op.name + ", " + name + " calls over its stacks", in_stacks.calls,
                  op.total[d].calls);
      check.equal(op.name + ", " + name + " bytes over its stacks", in_stacks.bytes,
                  op.total[d].bytes);
    }
  }

  const auto phase = [&](reports::Phase p, reports::Domain d) -> const Counts& {
    return report.phases[static_cast<size_t>(p)][static_cast<size_t>(d)];
  };
  const auto heap = reports::Domain::kHeap;
  const auto first = reports::Phase::kFirst;
  const auto steady = reports::Phase::kSteady;
  Counts total;
  for (const auto& counts : report.phases) add(total, counts[0]);
  check.holds(report.alloc.total == total, "alloc.total is not the heap's sum over phases");
  check.holds(report.alloc.first_run == phase(first, heap),
              "alloc.first_run is not the heap's phase first");
  check.equal("alloc.steady_per_run.calls_sum", report.alloc.steady_per_run.calls_sum,
              phase(steady, heap).calls);
  check.equal("alloc.steady_per_run.bytes_sum", report.alloc.steady_per_run.bytes_sum,
              phase(steady, heap).bytes);
  check.equal("workspace steady calls_sum", report.workspace_pool.steady_per_run.calls_sum,
              phase(steady, reports::Domain::kWorkspace).calls);
  check.equal("tensor steady calls_sum", report.tensor_pool.steady_per_run.calls_sum,
              phase(steady, reports::Domain::kTensor).calls);
  Counts ops_first;
  uint64_t ops_steady = 0;
  for (const auto& op : report.ops) {
    add(ops_first, op.alloc.first_run);
    ops_steady += op.alloc.steady_per_run.calls_sum;
    check.holds(op.alloc.total == op.total[0], op.name + ": alloc.total is not its heap total");
    check.holds(op.alloc.largest_bytes <= report.alloc.largest.bytes,
                op.name + ": its largest is larger than the largest");
    check.dist(op.name + " latency_ns", op.latency_ns);
    check.dist(op.name + " inclusive_ns", op.inclusive_ns);
    check.dist(op.name + " kernel_ns", op.kernel_ns);
  }
  check.holds(ops_first == report.alloc.first_run,
              "first-run counts over ops differ from the run's");
  check.equal("steady calls over ops", ops_steady, report.alloc.steady_per_run.calls_sum);

  if (report.alloc.call_ns) {
    uint64_t call_ns = 0;
    for (const auto& op : report.ops) {
      check.holds(op.alloc.call_ns.has_value(), op.name + ": the time in its calls is missing");
      if (op.alloc.call_ns) call_ns += op.alloc.call_ns->total_ns;
    }
    check.equal("time in calls over ops", call_ns, report.alloc.call_ns->total_ns);
  }

  const reports::PerRun& per_run = report.alloc.steady_per_run;
  check.equal("alloc.steady_per_run.runs", per_run.runs, report.runs.steady);
  check.holds(per_run.min_calls <= per_run.max_calls, "steady min_calls is above max_calls");
  check.holds(per_run.runs_with_calls <= per_run.runs, "more runs with calls than runs");
  check.holds(report.alloc.live_end_bytes <= report.alloc.live_peak_bytes,
              "live bytes at the end are above the peak");
  check.holds(report.alloc.temporary_calls <= report.alloc.total.calls,
              "more temporary calls than calls");
  const uint64_t firsts = report.runs.count - report.runs.warmup - report.runs.steady;
  check.holds(report.runs.count == 0 ? firsts == 0 : firsts >= 1,
              "runs are not first, warm-up or steady");
  check.dist("runs.latency_ns", report.runs.latency_ns);
  check.dist("runs.gap_ns", report.runs.gap_ns);
  std::map<std::string, uint64_t> roles{{"caller", 0}, {"worker", 0}, {"other", 0}};
  for (const auto& thread : report.threads) {
    check.holds(roles.contains(thread.role), "thread role '" + thread.role + "' is unknown");
  }
  for (size_t i = 1; i < report.timeline.size(); ++i) {
    check.holds(report.timeline[i - 1].t_ns <= report.timeline[i].t_ns,
                "the timeline goes back in time");
  }
  return check.violations;
}

}  // namespace opmeter::analyze
