// SPDX-License-Identifier: Apache-2.0
// Report: what analyze found in a trace, as plain data. Filled by profiler/analyze, read by every
// renderer. Field for field the JSON of docs/report.schema.json ("opmeter.report/1"). std only; no
// logic beyond small helpers.
#ifndef OPMETER_REPORTS_MODEL_H_
#define OPMETER_REPORTS_MODEL_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace opmeter::reports {

/// Where a block lives. Domains are never added up.
enum class Domain : uint8_t { kHeap = 0, kWorkspace = 1, kTensor = 2, kDevice = 3, kMap = 4 };
inline constexpr size_t kDomains = 5;
inline constexpr std::array<const char*, kDomains> kDomainNames = {"heap", "workspace", "tensor",
                                                                   "device", "map"};

enum class Phase : uint8_t { kLoad = 0, kFirst = 1, kWarmup = 2, kSteady = 3, kOutside = 4 };
inline constexpr size_t kPhases = 5;
inline constexpr std::array<const char*, kPhases> kPhaseNames = {"load", "first", "warmup",
                                                                 "steady", "outside"};

/// Summary of raw samples by nearest rank. A percentile is absent when no two-sided 95 %
/// order-statistic interval exists for n samples (p50 n >= 6, p90 n >= 36, p99 n >= 368).
struct Dist {
  uint64_t n = 0;
  std::optional<double> min, p50, p90, p99, max, mean;
};

/// Calls and bytes of one domain in one place. `failed` calls are in neither calls nor bytes.
struct Counts {
  uint64_t calls = 0, bytes = 0, frees = 0, failed = 0, backing_calls = 0, backing_bytes = 0;

  friend bool operator==(const Counts&, const Counts&) = default;
  Counts& operator+=(const Counts& more) {
    calls += more.calls;
    bytes += more.bytes;
    frees += more.frees;
    failed += more.failed;
    backing_calls += more.backing_calls;
    backing_bytes += more.backing_bytes;
    return *this;
  }
};
using DomainCounts = std::array<Counts, kDomains>;

/// Counts per run over several runs (means), with the exact sums beside them.
struct PerRun {
  uint64_t runs = 0;
  double calls = 0, bytes = 0;
  uint64_t calls_sum = 0, bytes_sum = 0, min_calls = 0, max_calls = 0, runs_with_calls = 0;
};

struct SizeBin {
  Domain domain{};
  Phase phase{};
  uint64_t min_bytes = 0, max_bytes = 0;  ///< half-open; zero has its own bin [0, 1)
  uint64_t calls = 0, bytes = 0;
};

struct Frame {
  std::string function;          ///< demangled; "" when unknown
  uint64_t function_offset = 0;  ///< bytes into the function
  std::string file;              ///< "" when unknown
  uint32_t line = 0;
  std::string module;          ///< path
  uint64_t module_offset = 0;  ///< ELF virtual address of the call in the module
  std::string build_id;
  bool inlined = false;  ///< expanded into the next outer frame
};

struct Stack {
  uint32_t id = 0;
  Domain domain{};
  uint64_t calls = 0, bytes = 0;
  uint64_t first_run_calls = 0, steady_calls = 0;
  uint64_t first_run_bytes = 0, steady_bytes = 0;
  uint64_t forbidden_calls = 0;  ///< inside opm_forbid scopes
  uint64_t call_ns = 0;          ///< spent in these calls, where they were timed
  std::string cause;             ///< "" when unknown
  std::vector<std::string> ops;  ///< names of the ops that allocated here, most calls first
  bool cut = false;
  std::vector<Frame> frames;  ///< innermost first, Opmeter's own removed
};

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  std::string dtype;
  uint64_t bytes = 0;
};

/// Time spent inside heap calls, releases included, where the recorder timed them.
struct CallTime {
  uint64_t total_ns = 0;
  uint64_t first_run_ns = 0;
  double steady_per_run_ns = 0;
};

struct OpAllocations {
  Counts total;  ///< all phases
  Counts first_run;
  PerRun steady_per_run;
  uint64_t largest_bytes = 0;
  uint64_t pool_growth_bytes = 0;   ///< workspace only
  std::optional<CallTime> call_ns;  ///< heap only
};

struct OpStackRef {
  uint32_t stack = 0;
  Domain domain{};
  uint64_t calls = 0, bytes = 0;
};

/// One op, or a pseudo-op: "(executor)" inside runs but between ops, "(outside)" outside runs.
struct Op {
  uint32_t id = 0;
  int32_t index = -1;
  std::string name, kind, device, graph;
  std::vector<Tensor> inputs, outputs;
  double calls_per_run = 0;
  std::optional<uint64_t> first_run_ns;  ///< self time in the first run
  Dist latency_ns;                       ///< self time, steady runs
  Dist inclusive_ns;
  Dist kernel_ns;
  Dist device_ns;           ///< asynchronous spans on a stream; n = 0 when there are none
  Dist minor_faults;        ///< children subtracted, steady runs; n = 0 when not recorded
  double share = 0;         ///< of the steady runs' latency
  DomainCounts total{};     ///< every domain, all phases
  OpAllocations alloc;      ///< domain heap
  OpAllocations workspace;  ///< domain workspace
  std::vector<SizeBin> sizes;
  std::vector<OpStackRef> top_stacks;
};

struct Thread {
  uint32_t id = 0;
  int64_t tid = 0;  ///< the kernel's
  std::string name;
  std::string role;  ///< caller | worker | other
  Domain domain{};
  uint64_t calls = 0, bytes = 0;
  uint64_t first_run_calls = 0, steady_calls = 0;
};

struct PoolUse {
  Counts total;
  Counts first_run;
  PerRun steady_per_run;
  std::vector<uint64_t>
      growth_bytes;  ///< backing heap or device blocks in order of request, from run 1 on
  uint64_t growth_calls = 0, growth_bytes_sum = 0;  ///< also of those that the list has no room for
  uint64_t peak_bytes = 0;                          ///< highest live requested bytes
  uint64_t first_run_largest_bytes = 0, steady_largest_bytes = 0;
};

/// Mappings that the program made itself (mmap, mremap, sbrk), where they were recorded.
struct MapUse {
  Counts total;
  Counts first_run;
  PerRun steady_per_run;
  uint64_t live_peak_bytes = 0, live_end_bytes = 0;
};

struct TimelinePoint {
  uint64_t t_ns = 0;
  uint64_t live_bytes = 0;  ///< domain heap
};

struct Context {
  std::string trace;         ///< path of the file, "" when it came from memory
  uint64_t duration_ns = 0;  ///< first to last event
  std::vector<std::string> command;
  int64_t pid = 0;
  std::string host;
  int cpus = 0;
  int threads = 0;
  std::string allocator, glibc_tunables, model, pool, device, started_at, opmeter_version;
  std::string scope = "all";  ///< "runs": what happened outside runs was not recorded
  std::string stopped_at;     ///< the size limit of the trace ended the recording here
  std::string kept_last;      ///< of a longer recording, the trace keeps only this end
};

struct Runs {
  uint64_t count = 0;
  uint64_t warmup = 0;  ///< runs that are neither first nor steady
  uint64_t steady = 0;
  uint64_t incomplete = 0;  ///< did not end, or lost events: in no latency number
  bool warmup_detected = false;
  bool never_steady = false;
  Dist latency_ns;  ///< steady runs
  Dist gap_ns;      ///< between ops, steady runs
  std::optional<uint64_t> first_run_ns;
  std::optional<uint64_t> first_gap_ns;
  std::vector<uint64_t> samples_ns;  ///< every run in order
  Dist minor_faults;
};

struct Allocations {
  Counts total;
  Counts first_run;
  PerRun steady_per_run;
  uint64_t live_peak_bytes = 0, live_end_bytes = 0;
  std::optional<double> growth_slope, growth_ci_low, growth_ci_high;  ///< bytes per steady run
  std::optional<CallTime> call_ns;
  uint64_t temporary_calls = 0;  ///< freed in the run that made them
  uint64_t freed_unknown = 0;    ///< frees of blocks born before the recorder
  uint64_t forbidden_calls = 0;  ///< inside opm_forbid scopes
  uint64_t first_run_largest_bytes = 0, steady_largest_bytes = 0;
  struct Largest {
    uint64_t bytes = 0;
    std::string op;
    uint32_t stack = 0;
  } largest;
};

struct Quality {
  uint64_t lost_events = 0, cut_stacks = 0, unresolved_frames = 0, damaged_blocks = 0;
  uint64_t gaps = 0;  ///< places where an unknown number of a thread's events is missing
  bool complete = true;
  /// Heap allocations are estimates from a sample: one every so many bytes in the mean.
  std::optional<uint64_t> sampled_interval_bytes;
  uint64_t inferred_context = 0;  ///< events charged to the only open run without a token
  uint64_t reused_addresses = 0;  ///< allocations at an address that was still live: lost frees
  uint64_t events = 0;            ///< events analysed
  std::optional<double> overhead_per_event_ns, overhead_share;
  std::string note;
  std::vector<std::string> symbol_problems;  ///< modules whose file gives no names, and why
};

struct Report {
  Context context;
  Runs runs;
  std::array<DomainCounts, kPhases> phases{};
  Allocations alloc;
  PoolUse workspace_pool, tensor_pool;
  MapUse map;
  std::optional<uint64_t> arena_bytes;
  uint64_t plan_misses = 0;
  std::vector<Op> ops;
  std::vector<SizeBin> sizes;
  std::vector<Stack> stacks;
  std::vector<Thread> threads;
  std::vector<TimelinePoint> timeline;
  Quality quality;
};

}  // namespace opmeter::reports

#endif  // OPMETER_REPORTS_MODEL_H_
