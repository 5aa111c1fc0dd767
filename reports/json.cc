// SPDX-License-Identifier: Apache-2.0
#include "reports/json.h"

namespace opmeter::reports {

using nlohmann::ordered_json;

namespace {

template <typename T>
ordered_json or_null(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json growth(const Allocations& alloc) {
  ordered_json ci = nullptr;
  if (alloc.growth_ci_low && alloc.growth_ci_high) {
    ci = ordered_json::array({*alloc.growth_ci_low, *alloc.growth_ci_high});
  }
  return {{"slope", or_null(alloc.growth_slope)}, {"ci", ci}};
}

ordered_json domains(const DomainCounts& counts) {
  ordered_json value = ordered_json::object();
  for (size_t d = 0; d < kDomains; ++d) value[kDomainNames[d]] = to_json_value(counts[d]);
  return value;
}

ordered_json bins(const std::vector<SizeBin>& list) {
  ordered_json value = ordered_json::array();
  for (const SizeBin& bin : list) {
    value.push_back({{"domain", kDomainNames[static_cast<size_t>(bin.domain)]},
                     {"phase", kPhaseNames[static_cast<size_t>(bin.phase)]},
                     {"min_bytes", bin.min_bytes},
                     {"max_bytes", bin.max_bytes},
                     {"calls", bin.calls},
                     {"bytes", bin.bytes}});
  }
  return value;
}

ordered_json tensors(const std::vector<Tensor>& list) {
  ordered_json value = ordered_json::array();
  for (const Tensor& tensor : list) {
    value.push_back({{"tensor", tensor.name},
                     {"shape", tensor.shape},
                     {"dtype", tensor.dtype},
                     {"bytes", tensor.bytes}});
  }
  return value;
}

ordered_json call_time(const CallTime& time) {
  return {{"total", time.total_ns},
          {"first_run", time.first_run_ns},
          {"steady_per_run", time.steady_per_run_ns}};
}

ordered_json op_allocations(const OpAllocations& use, bool workspace) {
  ordered_json value = {{"total", to_json_value(use.total)},
                        {"first_run", to_json_value(use.first_run)},
                        {"steady_per_run", to_json_value(use.steady_per_run)},
                        {"largest_bytes", use.largest_bytes}};
  if (workspace) value["pool_growth_bytes"] = use.pool_growth_bytes;
  if (use.call_ns) value["call_ns"] = call_time(*use.call_ns);
  return value;
}

ordered_json pool(const PoolUse& use) {
  return {{"total", to_json_value(use.total)},
          {"first_run", to_json_value(use.first_run)},
          {"steady_per_run", to_json_value(use.steady_per_run)},
          {"growth_bytes", use.growth_bytes},
          {"growth_calls", use.growth_calls},
          {"growth_bytes_sum", use.growth_bytes_sum},
          {"peak_bytes", use.peak_bytes},
          {"first_run_largest_bytes", use.first_run_largest_bytes},
          {"steady_largest_bytes", use.steady_largest_bytes}};
}

ordered_json context(const Context& c) {
  ordered_json value = {{"trace", c.trace},
                        {"duration_ns", c.duration_ns},
                        {"command", c.command},
                        {"pid", c.pid},
                        {"host", c.host},
                        {"cpus", c.cpus},
                        {"threads", c.threads},
                        {"allocator", c.allocator},
                        {"glibc_tunables", c.glibc_tunables}};
  if (!c.model.empty()) value["model"] = c.model;
  if (!c.pool.empty()) value["pool"] = c.pool;
  if (!c.device.empty()) value["device"] = c.device;
  value["started_at"] = c.started_at;
  value["opmeter_version"] = c.opmeter_version;
  value["scope"] = c.scope;
  if (!c.stopped_at.empty()) value["stopped_at"] = c.stopped_at;
  if (!c.kept_last.empty()) value["kept_last"] = c.kept_last;
  return value;
}

ordered_json op(const Op& o) {
  ordered_json stacks = ordered_json::array();
  for (const OpStackRef& ref : o.top_stacks) {
    stacks.push_back({{"stack", ref.stack},
                      {"domain", kDomainNames[static_cast<size_t>(ref.domain)]},
                      {"calls", ref.calls},
                      {"bytes", ref.bytes}});
  }
  ordered_json value = {{"id", o.id},
                        {"index", o.index},
                        {"name", o.name},
                        {"kind", o.kind},
                        {"device", o.device},
                        {"graph", o.graph},
                        {"inputs", tensors(o.inputs)},
                        {"outputs", tensors(o.outputs)},
                        {"calls_per_run", o.calls_per_run},
                        {"first_run_ns", or_null(o.first_run_ns)},
                        {"latency_ns", to_json_value(o.latency_ns)},
                        {"inclusive_ns", to_json_value(o.inclusive_ns)},
                        {"kernel_ns", to_json_value(o.kernel_ns)}};
  if (o.device_ns.n > 0) value["device_ns"] = to_json_value(o.device_ns);
  if (o.minor_faults.n > 0) value["minor_faults"] = to_json_value(o.minor_faults);
  value["share"] = o.share;
  value["total"] = domains(o.total);
  value["alloc"] = op_allocations(o.alloc, false);
  value["workspace"] = op_allocations(o.workspace, true);
  value["sizes"] = bins(o.sizes);
  value["top_stacks"] = std::move(stacks);
  return value;
}

ordered_json frame(const Frame& f) {
  ordered_json value = {{"function", f.function}, {"function_offset", f.function_offset}};
  if (!f.file.empty()) value["file"] = f.file;
  if (f.line != 0) value["line"] = f.line;
  value["module"] = f.module;
  value["module_offset"] = f.module_offset;
  if (!f.build_id.empty()) value["build_id"] = f.build_id;
  value["inlined"] = f.inlined;
  return value;
}

ordered_json stack(const Stack& s) {
  ordered_json value = {{"id", s.id},
                        {"domain", kDomainNames[static_cast<size_t>(s.domain)]},
                        {"calls", s.calls},
                        {"bytes", s.bytes},
                        {"first_run_calls", s.first_run_calls},
                        {"first_run_bytes", s.first_run_bytes},
                        {"steady_calls", s.steady_calls},
                        {"steady_bytes", s.steady_bytes}};
  if (s.forbidden_calls > 0) value["forbidden_calls"] = s.forbidden_calls;
  if (s.call_ns > 0) value["call_ns"] = s.call_ns;
  if (!s.cause.empty()) value["cause"] = s.cause;
  value["ops"] = s.ops;
  value["cut"] = s.cut;
  ordered_json frames = ordered_json::array();
  for (const Frame& f : s.frames) frames.push_back(frame(f));
  value["frames"] = std::move(frames);
  return value;
}

ordered_json runs(const Runs& r) {
  return {{"count", r.count},
          {"warmup", r.warmup},
          {"steady", r.steady},
          {"incomplete", r.incomplete},
          {"warmup_detected", r.warmup_detected},
          {"never_steady", r.never_steady},
          {"first_run_ns", or_null(r.first_run_ns)},
          {"first_gap_ns", or_null(r.first_gap_ns)},
          {"latency_ns", to_json_value(r.latency_ns)},
          {"gap_ns", to_json_value(r.gap_ns)},
          {"samples_ns", r.samples_ns},
          {"minor_faults", to_json_value(r.minor_faults)}};
}

ordered_json alloc(const Allocations& a) {
  ordered_json value = {
      {"total", to_json_value(a.total)},
      {"first_run", to_json_value(a.first_run)},
      {"steady_per_run", to_json_value(a.steady_per_run)},
      {"live_peak_bytes", a.live_peak_bytes},
      {"live_end_bytes", a.live_end_bytes},
      {"growth_bytes_per_run", growth(a)},
      {"temporary_calls", a.temporary_calls},
      {"freed_unknown", a.freed_unknown},
      {"forbidden_calls", a.forbidden_calls},
      {"first_run_largest_bytes", a.first_run_largest_bytes},
      {"steady_largest_bytes", a.steady_largest_bytes},
      {"largest", {{"bytes", a.largest.bytes}, {"op", a.largest.op}, {"stack", a.largest.stack}}}};
  if (a.call_ns) value["call_ns"] = call_time(*a.call_ns);
  return value;
}

ordered_json map_use(const MapUse& use) {
  return {{"total", to_json_value(use.total)},
          {"first_run", to_json_value(use.first_run)},
          {"steady_per_run", to_json_value(use.steady_per_run)},
          {"live_peak_bytes", use.live_peak_bytes},
          {"live_end_bytes", use.live_end_bytes}};
}

ordered_json quality(const Quality& q) {
  ordered_json sampled = nullptr;
  if (q.sampled_interval_bytes) sampled = {{"interval_bytes", *q.sampled_interval_bytes}};
  return {
      {"lost_events", q.lost_events},
      {"gaps", q.gaps},
      {"cut_stacks", q.cut_stacks},
      {"unresolved_frames", q.unresolved_frames},
      {"damaged_blocks", q.damaged_blocks},
      {"complete", q.complete},
      {"sampled", sampled},
      {"inferred_context", q.inferred_context},
      {"reused_addresses", q.reused_addresses},
      {"events", q.events},
      {"overhead",
       {{"per_event_ns", or_null(q.overhead_per_event_ns)}, {"share", or_null(q.overhead_share)}}},
      {"note", q.note},
      {"symbol_problems", q.symbol_problems}};
}

}  // namespace

ordered_json to_json_value(const Dist& dist) {
  return {{"n", dist.n},
          {"min", or_null(dist.min)},
          {"p50", or_null(dist.p50)},
          {"p90", or_null(dist.p90)},
          {"p99", or_null(dist.p99)},
          {"max", or_null(dist.max)},
          {"mean", or_null(dist.mean)}};
}

ordered_json to_json_value(const Counts& counts) {
  return {{"calls", counts.calls},
          {"bytes", counts.bytes},
          {"frees", counts.frees},
          {"failed", counts.failed},
          {"backing_calls", counts.backing_calls},
          {"backing_bytes", counts.backing_bytes}};
}

ordered_json to_json_value(const PerRun& per_run) {
  return {{"runs", per_run.runs},           {"calls", per_run.calls},
          {"bytes", per_run.bytes},         {"calls_sum", per_run.calls_sum},
          {"bytes_sum", per_run.bytes_sum}, {"min_calls", per_run.min_calls},
          {"max_calls", per_run.max_calls}, {"runs_with_calls", per_run.runs_with_calls}};
}

ordered_json to_json_value(const Report& report) {
  ordered_json value = {{"schema", "opmeter.report/1"}};
  value["context"] = context(report.context);
  value["runs"] = runs(report.runs);
  ordered_json phases = ordered_json::object();
  for (size_t p = 0; p < kPhases; ++p) phases[kPhaseNames[p]] = domains(report.phases[p]);
  value["phases"] = std::move(phases);
  value["alloc"] = alloc(report.alloc);
  ordered_json pools = {{"workspace", pool(report.workspace_pool)},
                        {"tensor", pool(report.tensor_pool)}};
  if (report.arena_bytes) pools["arena_bytes"] = *report.arena_bytes;
  pools["plan_misses"] = report.plan_misses;
  value["pools"] = std::move(pools);
  value["map"] = map_use(report.map);
  value["ops"] = ordered_json::array();
  for (const Op& o : report.ops) value["ops"].push_back(op(o));
  value["sizes"] = bins(report.sizes);
  value["stacks"] = ordered_json::array();
  for (const Stack& s : report.stacks) value["stacks"].push_back(stack(s));
  value["threads"] = ordered_json::array();
  for (const Thread& t : report.threads) {
    value["threads"].push_back({{"id", t.id},
                                {"tid", t.tid},
                                {"name", t.name},
                                {"role", t.role},
                                {"domain", kDomainNames[static_cast<size_t>(t.domain)]},
                                {"calls", t.calls},
                                {"bytes", t.bytes},
                                {"first_run_calls", t.first_run_calls},
                                {"steady_calls", t.steady_calls}});
  }
  value["timeline"] = ordered_json::array();
  for (const TimelinePoint& point : report.timeline) {
    value["timeline"].push_back({{"t_ns", point.t_ns}, {"live_bytes", point.live_bytes}});
  }
  value["quality"] = quality(report.quality);
  return value;
}

ordered_json to_json_value(const TraceInfo& info) {
  ordered_json threads = ordered_json::array();
  for (const TraceInfo::Thread& t : info.threads) {
    threads.push_back({{"id", t.id}, {"tid", t.tid}, {"name", t.name}});
  }
  ordered_json modules = ordered_json::array();
  for (const TraceInfo::Module& m : info.modules) {
    modules.push_back({{"path", m.path}, {"build_id", m.build_id}, {"unloaded", m.unloaded}});
  }
  return {
      {"schema", "opmeter.info/1"},
      {"path", info.path},
      {"version", std::to_string(info.version_major) + "." + std::to_string(info.version_minor)},
      {"file_bytes", info.file_bytes},
      {"events", info.events},
      {"duration_ns", info.duration_ns},
      {"started_at", info.started_at},
      {"command", info.command},
      {"info", info.info},
      {"threads", std::move(threads)},
      {"modules", std::move(modules)},
      {"stacks", info.stacks},
      {"graphs", info.graphs},
      {"ops", info.ops},
      {"pools", info.pools},
      {"marks", info.marks},
      {"quality",
       {{"complete", info.complete},
        {"lost_events", info.lost_events},
        {"damaged_blocks", info.damaged_blocks},
        {"cut_stacks", info.cut_stacks},
        {"overhead_per_event_ns", or_null(info.overhead_per_event_ns)},
        {"note", info.note}}}};
}

std::string dump_json(const ordered_json& value) {
  return value.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string to_json(const Report& report) { return dump_json(to_json_value(report)); }
std::string to_json(const TraceInfo& info) { return dump_json(to_json_value(info)); }

}  // namespace opmeter::reports
