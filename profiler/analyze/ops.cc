// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/ops.h"

#include <algorithm>
#include <ctime>
#include <set>
#include <tuple>

#include "profiler/analyze/dist.h"

namespace opmeter::analyze {

using reports::Phase;

namespace {

constexpr size_t kHeap = static_cast<size_t>(Domain::kHeap);
constexpr size_t kWorkspace = static_cast<size_t>(Domain::kWorkspace);

std::vector<reports::Tensor> tensors_of(const std::vector<trace::TensorInfo>& infos) {
  std::vector<reports::Tensor> tensors;
  for (const trace::TensorInfo& info : infos) {
    tensors.push_back({info.name, info.shape,
                       dtype_name(info.dtype_code, info.dtype_bits, info.dtype_lanes), info.bytes});
  }
  return tensors;
}

/// Raw samples of one op from the runs that count.
struct Spans {
  std::vector<uint64_t> self, inclusive, kernel, device, faults;
};

class OpFold {
 public:
  OpFold(const Ledger& ledger, const std::vector<PhaseTable>& tables, bool no_runs)
      : ledger_(ledger), tables_(tables), no_runs_(no_runs) {}

  void add(const Slot& slot, reports::Op& op) {
    for (size_t d = 0; d < kDomains; ++d) {
      op.total[d] += slot.load.counts[d];
      op.total[d] += slot.outside.counts[d];
      if (slot.graph == kNoGraph) continue;
      slot.in_runs[d].fold(tables_[slot.graph], [&](Phase phase, const RunGroup& group) {
        op.total[d] += group.total;
        if (phase == Phase::kSteady) steady_[d].add(group);
        if (phase == Phase::kFirst) first_[d] += group.total;
      });
    }
    for (const auto* largest : {&slot.largest, &slot.load.largest, &slot.outside.largest}) {
      op.alloc.largest_bytes = std::max(op.alloc.largest_bytes, (*largest)[kHeap]);
      op.workspace.largest_bytes = std::max(op.workspace.largest_bytes, (*largest)[kWorkspace]);
    }
    call_time_.total_ns += slot.load.call_ns + slot.outside.call_ns;
    op.workspace.pool_growth_bytes += slot.workspace_growth_bytes;
    if (slot.graph == kNoGraph) {
      if (no_runs_) take_all(slot);
      return;
    }
    steady_runs_ += tables_[slot.graph].runs(Phase::kSteady);
    add_spans(slot, op);
    slot.call_ns.each([&](uint32_t run, uint64_t ns) {
      const Phase phase = tables_[slot.graph].of(run);
      call_time_.total_ns += ns;
      if (phase == Phase::kFirst) call_time_.first_run_ns += ns;
      if (phase == Phase::kSteady) call_time_.steady_per_run_ns += static_cast<double>(ns);
    });
  }

  void finish(reports::Op& op, double steady_latency_ns) {
    for (const auto& [out, d] : {std::pair{&op.alloc, kHeap}, {&op.workspace, kWorkspace}}) {
      out->total = op.total[d];
      out->first_run = first_[d];
      out->steady_per_run = steady_[d].per_run(steady_runs_);
    }
    if (ledger_.timed) {
      if (steady_runs_ > 0) call_time_.steady_per_run_ns /= static_cast<double>(steady_runs_);
      op.alloc.call_ns = call_time_;
    }
    double self = 0;
    for (const uint64_t ns : spans_.self) self += static_cast<double>(ns);
    if (steady_latency_ns > 0) op.share = self / steady_latency_ns;
    op.calls_per_run = measured_runs_ > 0
                           ? static_cast<double>(executions_) / static_cast<double>(measured_runs_)
                           : 0;
    op.latency_ns = summarize(std::move(spans_.self));
    op.inclusive_ns = summarize(std::move(spans_.inclusive));
    op.kernel_ns = summarize(std::move(spans_.kernel));
    op.device_ns = summarize(std::move(spans_.device));
    op.minor_faults = summarize(std::move(spans_.faults));
  }

 private:
  void take_all(const Slot& slot) {
    slot.self.each([&](uint32_t, uint64_t ns) { spans_.self.push_back(ns); });
    slot.inclusive_samples().each([&](uint32_t, uint64_t ns) { spans_.inclusive.push_back(ns); });
    slot.kernel.each([&](uint32_t, uint64_t ns) { spans_.kernel.push_back(ns); });
    slot.device.each([&](uint32_t, uint64_t ns) { spans_.device.push_back(ns); });
    slot.faults.each([&](uint32_t, uint64_t n) { spans_.faults.push_back(n); });
  }

  void add_spans(const Slot& slot, reports::Op& op) {
    const GraphLedger& graph = ledger_.graphs[slot.graph];
    const PhaseTable& table = tables_[slot.graph];
    const auto measured = [&](uint32_t run) { return run != 0 && graph.runs[run - 1].measured(); };
    const auto steady = [&](uint32_t run) {
      return measured(run) && table.of(run) == Phase::kSteady;
    };
    slot.self.each([&](uint32_t run, uint64_t ns) {
      if (steady(run)) spans_.self.push_back(ns);
      if (measured(run) && table.of(run) == Phase::kFirst) {
        op.first_run_ns = op.first_run_ns.value_or(0) + ns;
      }
    });
    const auto take = [&](const RunSamples& samples, std::vector<uint64_t>& out) {
      samples.each([&](uint32_t run, uint64_t ns) {
        if (steady(run)) out.push_back(ns);
      });
    };
    take(slot.inclusive_samples(), spans_.inclusive);
    take(slot.kernel, spans_.kernel);
    take(slot.device, spans_.device);
    take(slot.faults, spans_.faults);

    // Calls per run over steady runs, or over every run when none is steady.
    const bool any_steady = table.runs(Phase::kSteady) > 0;
    const auto counts = [&](uint32_t run) { return any_steady ? steady(run) : measured(run); };
    for (uint32_t run = 1; run <= graph.runs.size(); ++run) measured_runs_ += counts(run) ? 1 : 0;
    slot.self.each([&](uint32_t run, uint64_t) { executions_ += counts(run) ? 1 : 0; });
  }

  const Ledger& ledger_;
  const std::vector<PhaseTable>& tables_;
  bool no_runs_;
  std::array<PerRunSum, kDomains> steady_;
  DomainCounts first_{};
  reports::CallTime call_time_;
  Spans spans_;
  uint64_t steady_runs_ = 0;
  uint64_t measured_runs_ = 0;
  uint64_t executions_ = 0;
};

}  // namespace

void PerRunSum::add(const RunGroup& group) {
  all_.runs += group.runs;
  all_.total += group.total;
  all_.runs_with_calls += group.runs_with_calls;
  all_.min_calls = std::min(all_.min_calls, group.min_calls);
  all_.max_calls = std::max(all_.max_calls, group.max_calls);
}

reports::PerRun PerRunSum::per_run(uint64_t runs) const {
  reports::PerRun result;
  result.runs = runs;
  result.calls_sum = all_.total.calls;
  result.bytes_sum = all_.total.bytes;
  result.runs_with_calls = all_.runs_with_calls;
  result.max_calls = all_.max_calls;
  result.min_calls = all_.runs < runs || runs == 0 ? 0 : all_.min_calls;
  if (runs > 0) {
    result.calls = static_cast<double>(result.calls_sum) / static_cast<double>(runs);
    result.bytes = static_cast<double>(result.bytes_sum) / static_cast<double>(runs);
  }
  return result;
}

std::string OpNames::of(uint32_t op) const {
  if (op == kOutsideOp) return "(outside)";
  if (op == kExecutorOp) return "(executor)";
  if (op == kUnnamedOp) return "(unnamed)";
  const auto found = definitions_.ops.find(op);
  if (found == definitions_.ops.end()) return "(op " + std::to_string(op) + ")";
  return found->second.name.empty() ? "(unnamed)" : found->second.name;
}

OpRows::OpRows(std::vector<std::pair<uint32_t, reports::Op>> rows) : rows_(std::move(rows)) {
  for (size_t i = 0; i < rows_.size(); ++i) by_op_[rows_[i].first] = i;
}

std::vector<reports::Op> OpRows::take() {
  std::vector<reports::Op> ops;
  for (auto& [op, row] : rows_) ops.push_back(std::move(row));
  return ops;
}

OpRows fold_ops(const Ledger& ledger, const trace::Definitions& definitions,
                const std::vector<PhaseTable>& tables, const OpNames& names,
                const reports::Runs& runs) {
  // Declared ops by graph and position, then ops whose definition was lost, then pseudo-ops.
  std::vector<const trace::OpInfo*> declared;
  for (const auto& [id, info] : definitions.ops) {
    // The two ids that stand for pseudo-ops are not the trace's to define.
    if (id != kUnnamedOp && id < kExecutorOp) declared.push_back(&info);
  }
  std::stable_sort(declared.begin(), declared.end(), [](const auto* a, const auto* b) {
    return std::tie(a->graph, a->index) < std::tie(b->graph, b->index);
  });
  std::vector<uint32_t> order;
  for (const trace::OpInfo* info : declared) order.push_back(info->id);
  std::set<uint32_t> known(order.begin(), order.end());
  std::set<uint32_t> undeclared;
  bool unnamed = false;
  for (const Slot& slot : ledger.slots) {
    if (slot.op == kUnnamedOp) unnamed = true;
    if (slot.op != kUnnamedOp && slot.op < kExecutorOp && !known.contains(slot.op)) {
      undeclared.insert(slot.op);
    }
  }
  order.insert(order.end(), undeclared.begin(), undeclared.end());
  if (unnamed) order.push_back(kUnnamedOp);
  if (!ledger.graphs.empty()) order.push_back(kExecutorOp);
  order.push_back(kOutsideOp);

  double steady_latency = 0;
  if (runs.latency_ns.mean) {
    steady_latency = *runs.latency_ns.mean * static_cast<double>(runs.latency_ns.n);
  }
  std::unordered_map<uint32_t, std::vector<const Slot*>> slots;
  for (const Slot& slot : ledger.slots) slots[slot.op].push_back(&slot);

  std::vector<std::pair<uint32_t, reports::Op>> rows;
  for (const uint32_t id : order) {
    reports::Op op;
    op.name = names.of(id);
    if (id < kExecutorOp) op.id = id;
    if (const auto found = definitions.ops.find(id); found != definitions.ops.end()) {
      const trace::OpInfo& info = found->second;
      op.index = info.index;
      op.kind = info.kind;
      op.device = device_name(info.device_type, info.device_id);
      op.inputs = tensors_of(info.inputs);
      op.outputs = tensors_of(info.outputs);
      const auto graph = definitions.graphs.find(info.graph);
      if (graph != definitions.graphs.end()) op.graph = graph->second.name;
    }
    OpFold fold(ledger, tables, ledger.graphs.empty());
    for (const Slot* slot : slots[id]) fold.add(*slot, op);
    fold.finish(op, steady_latency);
    rows.emplace_back(id, std::move(op));
  }
  return OpRows(std::move(rows));
}

std::string started_at(const trace::Definitions& definitions) {
  if (const auto told = definitions.info.find("started_at"); told != definitions.info.end()) {
    return told->second;
  }
  if (definitions.clocks.empty() || definitions.clocks.front().realtime_ns == 0) return {};
  const std::time_t seconds =
      static_cast<std::time_t>(definitions.clocks.front().realtime_ns / 1'000'000'000);
  std::tm utc{};
  char text[32];
  if (gmtime_r(&seconds, &utc) == nullptr) return {};
  return std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc) > 0 ? text : "";
}

std::string device_name(int32_t device_type, int32_t device_id) {
  std::string name;
  switch (device_type) {
    case 1:
      name = "cpu";
      break;
    case 2:
      name = "cuda";
      break;
    case 4:
      name = "opencl";
      break;
    case 7:
      name = "vulkan";
      break;
    case 8:
      name = "metal";
      break;
    case 10:
      name = "rocm";
      break;
    default:
      name = "device" + std::to_string(device_type);
      break;
  }
  return name + ":" + std::to_string(device_id);
}

std::string dtype_name(uint8_t code, uint8_t bits, uint16_t lanes) {
  std::string name;
  if (code == 1 && bits == 1) {
    name = "bool";
  } else {
    constexpr const char* kCodes[] = {"int", "uint", "float", "handle", "bfloat"};
    name = code < std::size(kCodes) ? kCodes[code] : "type" + std::to_string(code) + "_";
    name += std::to_string(bits);
  }
  if (lanes > 1) name += "x" + std::to_string(lanes);
  return name;
}

}  // namespace opmeter::analyze
