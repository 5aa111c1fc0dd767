// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/fold.h"

#include <algorithm>
#include <ctime>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "opmeter/opmeter.h"
#include "profiler/analyze/dist.h"
#include "profiler/analyze/facts.h"
#include "profiler/analyze/ops.h"
#include "profiler/analyze/warmup.h"

namespace opmeter::analyze {

using reports::Phase;
using reports::Report;

namespace {

constexpr size_t kHeap = static_cast<size_t>(Domain::kHeap);
constexpr size_t kWorkspace = static_cast<size_t>(Domain::kWorkspace);
constexpr size_t kTensor = static_cast<size_t>(Domain::kTensor);
constexpr size_t kMap = static_cast<size_t>(Domain::kMap);

DomainCounts& of(Report& report, Phase phase) { return report.phases[static_cast<size_t>(phase)]; }

// --- runs
// -----------------------------------------------------------------------------------------

void fold_runs(const Ledger& ledger, const std::vector<PhaseTable>& tables, Report& report) {
  std::vector<uint64_t> latencies, gaps, faults;
  reports::CallTime call_time;
  std::vector<double> live_ends;
  for (const auto& [graph, number] : ledger.runs_in_order) {
    const RunRecord& run = ledger.graphs[graph].runs[number - 1];
    const Phase phase = tables[graph].of(number);
    ++report.runs.count;
    if (phase == Phase::kWarmup) ++report.runs.warmup;
    if (phase == Phase::kSteady) ++report.runs.steady;
    if (!run.measured()) ++report.runs.incomplete;
    if (run.ended) report.runs.samples_ns.push_back(run.latency_ns());
    const auto largest = [&](uint64_t& field, size_t domain) {
      field = std::max(field, run.largest[domain]);
    };
    if (phase == Phase::kFirst) {
      call_time.first_run_ns += run.call_ns;
      largest(report.alloc.first_run_largest_bytes, kHeap);
      largest(report.workspace_pool.first_run_largest_bytes, kWorkspace);
      largest(report.tensor_pool.first_run_largest_bytes, kTensor);
      if (run.measured() && !report.runs.first_run_ns) {
        report.runs.first_run_ns = run.latency_ns();
        report.runs.first_gap_ns = run.gap_ns;
      }
    }
    if (phase != Phase::kSteady) continue;
    largest(report.alloc.steady_largest_bytes, kHeap);
    largest(report.workspace_pool.steady_largest_bytes, kWorkspace);
    largest(report.tensor_pool.steady_largest_bytes, kTensor);
    live_ends.push_back(static_cast<double>(run.live_end_bytes));
    call_time.steady_per_run_ns += static_cast<double>(run.call_ns);
    if (!run.measured()) continue;
    latencies.push_back(run.latency_ns());
    gaps.push_back(run.gap_ns);
    if (run.minor_faults) faults.push_back(*run.minor_faults);
  }
  report.runs.latency_ns = summarize(std::move(latencies));
  report.runs.gap_ns = summarize(std::move(gaps));
  report.runs.minor_faults = summarize(std::move(faults));
  if (ledger.timed) {
    if (report.runs.steady > 0) {
      call_time.steady_per_run_ns /= static_cast<double>(report.runs.steady);
    }
    report.alloc.call_ns = call_time;  // the total comes with the ops
  }
  if (const auto slope = theil_sen(live_ends)) {
    report.alloc.growth_slope = slope->slope;
    report.alloc.growth_ci_low = slope->low;
    report.alloc.growth_ci_high = slope->high;
  }
}

// --- phases and the heap's and pools' totals
// ------------------------------------------------------

void fold_phases(const Ledger& ledger, const std::vector<PhaseTable>& tables, Report& report) {
  std::array<PerRunSum, kDomains> steady;
  for (const Slot& slot : ledger.slots) {
    for (size_t d = 0; d < kDomains; ++d) {
      of(report, Phase::kLoad)[d] += slot.load.counts[d];
      of(report, Phase::kOutside)[d] += slot.outside.counts[d];
    }
  }
  for (size_t g = 0; g < ledger.graphs.size(); ++g) {
    for (size_t d = 0; d < kDomains; ++d) {
      ledger.graphs[g].in_runs[d].fold(tables[g], [&](Phase phase, const RunGroup& group) {
        of(report, phase)[d] += group.total;
        if (phase == Phase::kSteady) steady[d].add(group);
      });
    }
  }
  std::array<Counts, kDomains> total{};
  for (const DomainCounts& phase : report.phases) {
    for (size_t d = 0; d < kDomains; ++d) total[d] += phase[d];
  }
  const DomainCounts& first = of(report, Phase::kFirst);
  report.alloc.total = total[kHeap];
  report.alloc.first_run = first[kHeap];
  report.alloc.steady_per_run = steady[kHeap].per_run(report.runs.steady);
  const auto pool = [&](reports::PoolUse& use, size_t d) {
    use.total = total[d];
    use.first_run = first[d];
    use.steady_per_run = steady[d].per_run(report.runs.steady);
    use.growth_bytes = ledger.growth[d].bytes;
    use.growth_calls = ledger.growth[d].calls;
    use.growth_bytes_sum = ledger.growth[d].sum;
    use.peak_bytes = ledger.peak_bytes[d];
  };
  pool(report.workspace_pool, kWorkspace);
  pool(report.tensor_pool, kTensor);
  report.map = {.total = total[kMap],
                .first_run = first[kMap],
                .steady_per_run = steady[kMap].per_run(report.runs.steady),
                .live_peak_bytes = ledger.peak_bytes[kMap],
                .live_end_bytes = ledger.live_bytes[kMap]};
}

// --- cells: sizes and stacks
// ----------------------------------------------------------------------

struct CellSums {
  std::array<Tally, reports::kPhases> by_phase{};
  Tally total;
};

CellSums sums_of(const Cell& cell, const Ledger& ledger, const std::vector<PhaseTable>& tables) {
  CellSums sums;
  const auto add = [&](Phase phase, uint64_t n, const Tally& each) {
    Tally& tally = sums.by_phase[static_cast<size_t>(phase)];
    tally.calls += n * each.calls;
    tally.bytes += n * each.bytes;
    sums.total.calls += n * each.calls;
    sums.total.bytes += n * each.bytes;
  };
  add(Phase::kLoad, 1, cell.tally.load);
  add(Phase::kOutside, 1, cell.tally.outside);
  const uint32_t graph = ledger.slots[cell.slot].graph;
  if (graph != kNoGraph) cell.tally.in_runs.fold(tables[graph], add);
  return sums;
}

/// Histogram under construction: bins in order of (domain, phase, size).
class Histogram {
 public:
  void add(const Cell& cell, const CellSums& sums) {
    for (size_t p = 0; p < reports::kPhases; ++p) {
      if (sums.by_phase[p].calls == 0) continue;
      Tally& tally = bins_[{cell.domain, static_cast<Phase>(p), cell.bin}];
      tally.calls += sums.by_phase[p].calls;
      tally.bytes += sums.by_phase[p].bytes;
    }
  }
  std::vector<reports::SizeBin> bins(const SizeBins& sizes) const {
    std::vector<reports::SizeBin> result;
    for (const auto& [key, tally] : bins_) {
      const auto [domain, phase, bin] = key;
      result.push_back(
          {domain, phase, sizes.min_bytes(bin), sizes.max_bytes(bin), tally.calls, tally.bytes});
    }
    return result;
  }

 private:
  std::map<std::tuple<Domain, Phase, uint16_t>, Tally> bins_;
};

struct StackSums {
  reports::Stack stack;
  uint64_t growth_calls = 0, miss_calls = 0;
  std::map<uint32_t, uint64_t> calls_by_op;
};

using StackKey = std::pair<Domain, uint32_t>;

/// (bytes desc, calls desc, id): the order of lists in reports.
template <typename T>
bool bytes_first(const T& a, const T& b) {
  return std::tie(b.bytes, b.calls) < std::tie(a.bytes, a.calls);
}

void fold_cells(const Ledger& ledger, const std::vector<PhaseTable>& tables, const SizeBins& bins,
                const AnalyzeOptions& options, const OpNames& names, OpRows& ops, Report& report) {
  Histogram sizes;
  std::map<uint32_t, Histogram> op_sizes;
  std::map<StackKey, StackSums> stacks;
  std::map<std::pair<uint32_t, StackKey>, Tally> op_stacks;
  for (const Cell& cell : ledger.cells.cells()) {
    const CellSums sums = sums_of(cell, ledger, tables);
    const uint32_t op = ledger.slots[cell.slot].op;
    sizes.add(cell, sums);
    op_sizes[op].add(cell, sums);
    const StackKey key{cell.domain, cell.stack};
    StackSums& entry = stacks[key];
    reports::Stack& stack = entry.stack;
    stack.id = cell.stack;
    stack.domain = cell.domain;
    stack.calls += sums.total.calls;
    stack.bytes += sums.total.bytes;
    const Tally& first = sums.by_phase[static_cast<size_t>(Phase::kFirst)];
    const Tally& steady = sums.by_phase[static_cast<size_t>(Phase::kSteady)];
    stack.first_run_calls += first.calls;
    stack.first_run_bytes += first.bytes;
    stack.steady_calls += steady.calls;
    stack.steady_bytes += steady.bytes;
    stack.call_ns += cell.call_ns;
    entry.growth_calls += cell.growth_calls;
    entry.miss_calls += cell.miss_calls;
    entry.calls_by_op[op] += sums.total.calls;
    Tally& in_op = op_stacks[{op, key}];
    in_op.calls += sums.total.calls;
    in_op.bytes += sums.total.bytes;
  }
  report.sizes = sizes.bins(bins);
  for (const auto& [op, histogram] : op_sizes) ops.at(op).sizes = histogram.bins(bins);

  for (const auto& [key, tally] : op_stacks) {
    ops.at(key.first).top_stacks.push_back(
        {key.second.second, key.second.first, tally.calls, tally.bytes});
  }
  constexpr size_t kStacksPerOp = 5;
  std::set<StackKey> wanted;
  ops.each([&](reports::Op& op) {
    std::stable_sort(op.top_stacks.begin(), op.top_stacks.end(),
                     [](const auto& a, const auto& b) { return bytes_first(a, b); });
    if (!options.all && op.top_stacks.size() > kStacksPerOp) op.top_stacks.resize(kStacksPerOp);
    for (const reports::OpStackRef& ref : op.top_stacks) wanted.insert({ref.domain, ref.stack});
  });
  if (report.alloc.total.calls > 0) wanted.insert({Domain::kHeap, ledger.largest_stack});

  for (auto& [key, entry] : stacks) {
    // Every call from here served a pool's request: one that keeps what it gets has grown, one
    // that keeps nothing asks each time.
    if (entry.growth_calls + entry.miss_calls == entry.stack.calls && entry.stack.calls > 0) {
      entry.stack.cause = entry.growth_calls >= entry.miss_calls ? "pool_growth" : "pool_miss";
    }
    std::vector<std::pair<uint64_t, uint32_t>> by_calls;
    for (const auto& [op, calls] : entry.calls_by_op) by_calls.emplace_back(calls, op);
    std::stable_sort(by_calls.begin(), by_calls.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (const auto& [calls, op] : by_calls) entry.stack.ops.push_back(names.of(op));
    if (key.first == Domain::kHeap) {
      const auto forbidden = ledger.forbidden_by_stack.find(key.second);
      if (forbidden != ledger.forbidden_by_stack.end()) {
        entry.stack.forbidden_calls = forbidden->second;
      }
    }
    report.stacks.push_back(std::move(entry.stack));
  }

  // Lists may be cut, but never the head of any ranking that a view shows.
  if (!options.all) {
    const auto keep_top = [&](auto rank) {
      std::array<std::vector<std::pair<uint64_t, StackKey>>, kDomains> ranked;
      for (const reports::Stack& stack : report.stacks) {
        if (rank(stack) == 0) continue;
        ranked[static_cast<size_t>(stack.domain)].push_back(
            {rank(stack), {stack.domain, stack.id}});
      }
      for (auto& list : ranked) {
        std::stable_sort(list.begin(), list.end(),
                         [](const auto& a, const auto& b) { return a.first > b.first; });
        if (list.size() > options.top) list.resize(options.top);
        for (const auto& [value, key] : list) wanted.insert(key);
      }
    };
    keep_top([](const reports::Stack& s) { return s.bytes; });
    keep_top([](const reports::Stack& s) { return s.calls; });
    keep_top([](const reports::Stack& s) { return s.steady_calls; });
    keep_top([](const reports::Stack& s) { return s.first_run_calls; });
    keep_top([](const reports::Stack& s) { return s.forbidden_calls; });
    std::erase_if(report.stacks, [&](const reports::Stack& stack) {
      return !wanted.contains({stack.domain, stack.id});
    });
  }
  std::stable_sort(report.stacks.begin(), report.stacks.end(), [](const auto& a, const auto& b) {
    if (a.domain != b.domain) return a.domain < b.domain;
    return bytes_first(a, b);
  });
}

// --- threads, context, quality
// --------------------------------------------------------------------

void fold_threads(const Ledger& ledger, const trace::Definitions& definitions,
                  const std::vector<PhaseTable>& tables, Report& report) {
  for (const ThreadLedger& thread : ledger.threads) {
    ThreadLedger::Tallies total = thread.idle, first{}, steady{};
    for (size_t g = 0; g < thread.graphs.size(); ++g) {
      thread.graphs[g].series.fold(tables[g], [&](Phase phase, uint64_t n, const auto& each) {
        const auto add = [&](ThreadLedger::Tallies& sums) {
          for (size_t d = 0; d < kDomains; ++d) {
            sums[d].calls += n * each[d].calls;
            sums[d].bytes += n * each[d].bytes;
          }
        };
        add(total);
        if (phase == Phase::kFirst) add(first);
        if (phase == Phase::kSteady) add(steady);
      });
    }
    const auto info = definitions.threads.find(thread.id);
    for (size_t d = 0; d < kDomains; ++d) {
      // The heap row is always there: a thread that never allocates is a fact worth a line.
      if (d != kHeap && total[d].calls == 0) continue;
      reports::Thread row;
      row.id = thread.id;
      if (info != definitions.threads.end()) {
        row.name = info->second.name;
        row.tid = info->second.tid;
      }
      row.role = thread.began_run ? "caller" : thread.attached ? "worker" : "other";
      row.domain = static_cast<Domain>(d);
      row.calls = total[d].calls;
      row.bytes = total[d].bytes;
      row.first_run_calls = first[d].calls;
      row.steady_calls = steady[d].calls;
      report.threads.push_back(std::move(row));
    }
  }
  std::stable_sort(report.threads.begin(), report.threads.end(), [](const auto& a, const auto& b) {
    return std::tie(a.id, a.domain) < std::tie(b.id, b.domain);
  });
}

void fold_context(const Ledger& ledger, const trace::Definitions& definitions,
                  const AnalyzeOptions& options, Report& report) {
  reports::Context& context = report.context;
  context.trace = options.trace_path;
  context.duration_ns = ledger.last_ns - ledger.first_ns;
  context.command = definitions.command;
  context.pid = fact<int64_t>(definitions, "pid").value_or(0);
  context.host = fact(definitions, "host");
  context.cpus = fact<int>(definitions, "cpus").value_or(0);
  context.threads =
      fact<int>(definitions, "threads").value_or(static_cast<int>(ledger.threads.size()));
  context.allocator = fact(definitions, "allocator");
  context.glibc_tunables = fact(definitions, "glibc_tunables");
  context.model = fact(definitions, "model");
  context.pool = fact(definitions, "pool");
  context.device = fact(definitions, "device");
  context.started_at = started_at(definitions);
  context.opmeter_version = fact(definitions, "opmeter_version");
  if (const std::string scope = fact(definitions, "scope"); !scope.empty()) context.scope = scope;
  context.stopped_at = fact(definitions, "stopped_at");
  context.kept_last = fact(definitions, "kept_last");
  report.arena_bytes = fact<uint64_t>(definitions, "arena_bytes");
  report.plan_misses = fact<uint64_t>(definitions, "plan_misses").value_or(0);
}

void fold_quality(const Ledger& ledger, const trace::Definitions& definitions,
                  const std::vector<PhaseTable>& tables, const trace::TraceQuality& quality,
                  Report& report) {
  reports::Quality& out = report.quality;
  // Without a trailer only the markers inside the stream tell.
  out.lost_events = std::max(quality.lost_events, ledger.lost_events);
  for (const auto& [id, stack] : definitions.stacks) out.cut_stacks += stack.cut ? 1 : 0;
  out.damaged_blocks = quality.damaged_blocks;
  out.gaps = ledger.gaps;
  // Whole only if nothing is missing for whatever reason: a total must not be wrong in silence.
  out.complete = quality.complete && out.lost_events == 0 && ledger.gaps == 0 &&
                 report.context.stopped_at.empty() && report.context.kept_last.empty();
  const auto interval = fact<uint64_t>(definitions, "sample_bytes").value_or(0);
  if (interval > 0) out.sampled_interval_bytes = interval;
  out.note = quality.note;
  out.inferred_context = ledger.inferred_context;
  out.reused_addresses = ledger.reused_addresses;
  out.events = ledger.events;
  if (quality.overhead_samples == 0) return;
  const double per_event = static_cast<double>(quality.overhead_ticks) /
                           static_cast<double>(quality.overhead_samples) * quality.ns_per_tick;
  out.overhead_per_event_ns = per_event;
  double events = 0;
  double time_ns = 0;
  for (const auto& [graph, number] : ledger.runs_in_order) {
    const RunRecord& run = ledger.graphs[graph].runs[number - 1];
    if (!run.measured() || tables[graph].of(number) != Phase::kSteady) continue;
    events += static_cast<double>(run.events);
    time_ns += static_cast<double>(run.latency_ns());
  }
  if (time_ns > 0) out.overhead_share = per_event * events / time_ns;
}

}  // namespace

RunPhases decide_phases(const std::deque<RunRecord>& runs, std::optional<uint64_t> warmup) {
  RunPhases result;
  std::vector<Phase>& phases = result.phases;
  phases.assign(runs.size(), Phase::kSteady);
  if (runs.empty()) return result;
  phases[0] = Phase::kFirst;
  const auto hinted = [&](uint16_t hint) {
    return [hint](const RunRecord& r) { return r.hint == hint; };
  };
  const auto begin = runs.begin();
  const auto first_steady =
      static_cast<size_t>(std::find_if(begin, runs.end(), hinted(OPM_PHASE_STEADY)) - begin);
  const auto last_warmup = static_cast<size_t>(
      std::find_if(runs.rbegin(), runs.rend(), hinted(OPM_PHASE_WARMUP)).base() -
      begin);                // index after it, 0 when there is none
  std::vector<size_t> open;  // indices that detection decides
  for (size_t i = 1; i < runs.size(); ++i) {
    // Runs that share an epoch share a phase: the one that did not end is in no latency anyway.
    if (!runs[i].ended && i + 1 < kRunsAlone) {
      phases[i] = Phase::kWarmup;
    } else if (warmup) {
      if (i < *warmup) phases[i] = Phase::kWarmup;
    } else if (runs[i].hint == OPM_PHASE_WARMUP) {
      phases[i] = Phase::kWarmup;
    } else if (runs[i].hint == OPM_PHASE_STEADY) {
      phases[i] = Phase::kSteady;
    } else if (first_steady < runs.size()) {
      if (i < first_steady) phases[i] = Phase::kWarmup;
    } else if (i < last_warmup) {
      phases[i] = Phase::kWarmup;
    } else {
      open.push_back(i);
    }
  }
  if (open.empty()) return result;
  std::vector<WarmupSample> samples;
  for (const size_t i : open) samples.push_back({runs[i].latency_ns(), runs[i].heap_calls});
  const WarmupEnd end = detect_warmup(samples);
  size_t k = 0;
  for (; k < end.warmup_runs; ++k) phases[open[k]] = Phase::kWarmup;
  // Runs that share the epoch of the last of them were counted together.
  for (; k > 0 && k < open.size() && runs[open[k]].epoch == runs[open[k - 1]].epoch; ++k) {
    phases[open[k]] = Phase::kWarmup;
  }
  result.detected = true;
  result.never_steady = end.never_steady;
  return result;
}

Report fold(const Ledger& ledger, const trace::Definitions& definitions,
            const trace::TraceQuality& quality, const SizeBins& bins,
            const AnalyzeOptions& options) {
  Report report;
  std::vector<PhaseTable> tables;
  for (const GraphLedger& graph : ledger.graphs) {
    RunPhases decided = decide_phases(graph.runs, options.warmup);
    report.runs.warmup_detected |= decided.detected;
    report.runs.never_steady |= decided.never_steady;
    tables.emplace_back(std::move(decided.phases));
  }
  const OpNames names(definitions);
  fold_context(ledger, definitions, options, report);
  fold_runs(ledger, tables, report);
  fold_phases(ledger, tables, report);
  OpRows ops = fold_ops(ledger, definitions, tables, names, report.runs);
  fold_cells(ledger, tables, bins, options, names, ops, report);
  report.ops = ops.take();
  fold_threads(ledger, definitions, tables, report);
  fold_quality(ledger, definitions, tables, quality, report);
  report.alloc.live_peak_bytes = ledger.peak_bytes[kHeap];
  report.alloc.live_end_bytes = ledger.live_bytes[kHeap];
  report.alloc.temporary_calls = ledger.temporary_calls;
  report.alloc.freed_unknown = ledger.freed_unknown;
  report.alloc.forbidden_calls = ledger.forbidden_calls;
  if (report.alloc.call_ns) {
    for (const reports::Op& op : report.ops) {
      report.alloc.call_ns->total_ns += op.alloc.call_ns->total_ns;
    }
  }
  if (report.alloc.total.calls > 0) {
    report.alloc.largest = {ledger.largest_bytes, names.of(ledger.slots[ledger.largest_slot].op),
                            ledger.largest_stack};
  }
  report.timeline = ledger.timeline;
  return report;
}

}  // namespace opmeter::analyze
