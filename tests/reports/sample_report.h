// SPDX-License-Identifier: Apache-2.0
// A report with every field filled, for the tests of the renderers. The numbers are invented.
#ifndef OPMETER_TESTS_REPORTS_SAMPLE_REPORT_H_
#define OPMETER_TESTS_REPORTS_SAMPLE_REPORT_H_

#include "reports/model.h"

namespace opmeter::reports {

inline Dist sample_dist(double scale) {
  return {.n = 400,
          .min = scale,
          .p50 = 2 * scale,
          .p90 = 3 * scale,
          .p99 = 4 * scale,
          .max = 5 * scale,
          .mean = 2.2 * scale};
}

inline Counts sample_counts(uint64_t calls, uint64_t bytes) {
  return {.calls = calls,
          .bytes = bytes,
          .frees = calls,
          .failed = 1,
          .backing_calls = 1,
          .backing_bytes = 64};
}

inline PerRun sample_per_run(uint64_t calls, uint64_t bytes) {
  return {.runs = 400,
          .calls = static_cast<double>(calls) + 0.25,
          .bytes = static_cast<double>(bytes),
          .calls_sum = calls * 400 + 100,
          .bytes_sum = bytes * 400,
          .min_calls = calls,
          .max_calls = calls + 1,
          .runs_with_calls = 400};
}

inline Report sample_report() {
  Report r;
  r.context.trace = "/tmp/cnn.opm";
  r.context.duration_ns = 3'000'000'000;
  r.context.command = {"opmeter", "run", "cnn.so"};
  r.context.pid = 4127;
  r.context.host = "ci-3";
  r.context.cpus = 2;
  r.context.threads = 2;
  r.context.allocator = "glibc 2.36";
  r.context.model = "/models/cnn.so";
  r.context.pool = "naive";
  r.context.device = "cpu";
  r.context.started_at = "2026-01-02T03:04:05Z";
  r.context.opmeter_version = "0.1.0";
  r.context.scope = "runs";
  r.context.stopped_at = "64 MiB";
  r.context.kept_last = "16 MiB";
  r.runs = {.count = 411,
            .warmup = 10,
            .steady = 400,
            .warmup_detected = true,
            .latency_ns = sample_dist(4e6),
            .gap_ns = sample_dist(1e4),
            .first_run_ns = 12'100'000,
            .first_gap_ns = 20'000,
            .samples_ns = {12'100'000, 8'000'000},
            .minor_faults = sample_dist(3)};
  for (auto& phase : r.phases) phase[0] = sample_counts(100, 409'600);
  r.alloc.total = sample_counts(500, 2'048'000);
  r.alloc.first_run = sample_counts(421, 2'400'000);
  r.alloc.steady_per_run = sample_per_run(41, 1'310'000);
  r.alloc.live_peak_bytes = 3'900'000;
  r.alloc.growth_slope = 12.5;
  r.alloc.growth_ci_low = 10;
  r.alloc.growth_ci_high = 14;
  r.alloc.temporary_calls = 400;
  r.alloc.forbidden_calls = 2;
  r.alloc.first_run_largest_bytes = 864'256;
  r.alloc.largest = {864'256, "fused_nn_dense_3", 7};
  r.workspace_pool.total = sample_counts(60, 600'000);
  r.workspace_pool.first_run = sample_counts(12, 120'000);
  r.workspace_pool.steady_per_run = sample_per_run(12, 120'000);
  r.workspace_pool.growth_bytes = {53248, 4096};
  r.workspace_pool.growth_calls = 2;
  r.workspace_pool.growth_bytes_sum = 57344;
  r.alloc.call_ns = CallTime{9000, 4000, 12.5};
  r.map.total = sample_counts(3, 12288);
  r.map.steady_per_run = sample_per_run(1, 4096);
  r.map.live_peak_bytes = 8192;
  r.arena_bytes = 1'048'576;
  for (int i = 0; i < 30; ++i) {
    Op op;
    op.id = static_cast<uint32_t>(i + 1);
    op.index = i;
    op.name =
        "fused_nn_contrib_conv2d_NCHWc_add_nn_relu_with_a_very_long_name_" + std::to_string(i);
    op.kind = op.name;
    op.device = "cpu:0";
    op.graph = "default";
    op.inputs = {{"data", {1, 3, 64, 64}, "float32", 49152}};
    op.outputs = {{"out", {}, "float32", 4}};
    op.calls_per_run = 1;
    op.first_run_ns = 400'000;
    op.latency_ns = op.inclusive_ns = sample_dist(1000.0 * (30 - i) * (30 - i));
    op.kernel_ns = sample_dist(900.0 * (30 - i));
    op.share = 0.03;
    op.total[0] = sample_counts(10, 4096);
    op.alloc.first_run = sample_counts(3, 3000);
    op.alloc.steady_per_run = sample_per_run(static_cast<uint64_t>(30 - i), 3000);
    op.alloc.largest_bytes = 2048;
    op.alloc.call_ns = CallTime{300, 100, 0.5};
    op.minor_faults = sample_dist(1);
    op.workspace.first_run = sample_counts(1, 3000);
    op.sizes = {{Domain::kHeap, Phase::kFirst, 1024, 2048, 3, 3000}};
    op.top_stacks = {{7, Domain::kHeap, 3, 3000}};
    r.ops.push_back(op);
  }
  Op executor;
  executor.name = "(executor)";
  executor.alloc.first_run = sample_counts(5, 500);
  r.ops.push_back(executor);
  for (uint64_t size = 1; size < (1ull << 40); size *= 2) {
    r.sizes.push_back({Domain::kHeap, Phase::kFirst, size, size * 2, size % 97 + 1, size * 40});
    r.sizes.push_back({Domain::kHeap, Phase::kSteady, size, size * 2, size % 7 + 1, size * 4});
  }
  Stack stack;
  stack.id = 7;
  stack.calls = 500;
  stack.bytes = 2'048'000;
  stack.first_run_calls = 12;
  stack.first_run_bytes = 9000;
  stack.steady_calls = 400;
  stack.call_ns = 700;
  stack.cause = "pool_growth";
  stack.ops = {"fused_nn_dense_3", "fused_nn_softmax"};
  stack.cut = true;
  stack.frames = {
      {"tvm::runtime::very::deep::WorkspacePool<std::vector<std::pair<int, long>>>::Pool::"
       "Alloc(DLDevice, unsigned long)",
       12, "/src/a/very/long/folder/name/workspace_pool.cc", 44, "/usr/lib/libtvm.so", 4096, "00ff",
       true},
      {"", 0, "", 0, "/models/cnn.so", 0x1234, "", false},
      {"", 0, "", 0, "", 0x7fff0000, "", false}};
  r.stacks = {stack};
  r.threads = {{1, 4127, "main", "caller", Domain::kHeap, 450, 2'000'000, 400, 300},
               {2, 4128, "opm-worker-1", "worker", Domain::kHeap, 50, 48'000, 21, 100}};
  r.timeline = {{1000, 10}, {2000, 3'900'000}, {3'000'000'000, 5}};
  r.quality.lost_events = 3;
  r.quality.gaps = 1;
  r.quality.sampled_interval_bytes = 4096;
  r.quality.complete = false;
  r.quality.note = "the file ends inside a block at byte 1234567";
  r.quality.overhead_per_event_ns = 31;
  r.quality.overhead_share = 0.041;
  r.quality.symbol_problems = {
      "/models/cnn.so: is another build now (build id 00ff, recorded 11aa)"};
  return r;
}

}  // namespace opmeter::reports

#endif  // OPMETER_TESTS_REPORTS_SAMPLE_REPORT_H_
