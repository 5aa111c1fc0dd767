// SPDX-License-Identifier: Apache-2.0
// benchmark.hpp: Google Benchmark programs that say how much they allocate. Including it in one
// file registers a MemoryManager fed by Opmeter's hooks: the JSON output then has allocs_per_iter,
// max_bytes_used, total_allocated_bytes and net_heap_growth of each benchmark.
// OPMETER_BENCHMARK_MAIN() in place of BENCHMARK_MAIN() shows allocs_per_iter on the terminal, too.
// Google Benchmark makes the count in a few extra iterations that are not timed, so latencies are
// not touched. All threads count.
#ifndef OPMETER_BENCHMARK_HPP_
#define OPMETER_BENCHMARK_HPP_

#include <benchmark/benchmark.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "opmeter/watch.hpp"

namespace opmeter {

/// Fills Google Benchmark's result from the hooks. Peak and growth are in bytes that the allocator
/// set aside, relative to the benchmark's begin; total_allocated_bytes is as asked for.
class BenchmarkMemoryManager : public ::benchmark::MemoryManager {
 public:
  void Start() override { opm_heap_count_begin(); }

  // Versions differ in which of the two is virtual, pure or there at all: both are defined and none
  // says override.
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored "-Wsuggest-override"
#pragma GCC diagnostic ignored "-Winconsistent-missing-override"
#endif
  void Stop(Result& result) { fill(result); }
  void Stop(Result* result) { fill(*result); }
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

 private:
  static void fill(Result& result) {
    opm_heap_count count{};
    count.struct_size = sizeof count;
    opm_heap_count_end(&count);
    result.num_allocs = static_cast<std::int64_t>(count.calls);
    result.total_allocated_bytes = static_cast<std::int64_t>(count.bytes);
    if (count.peak_growth == INT64_MIN) {  // the allocator does not tell sizes
      result.max_bytes_used = 0;
      return;
    }
    result.max_bytes_used = count.peak_growth;
    result.net_heap_growth = count.net_growth;
  }
};

/// Registers the manager; false and a line on stderr without hooks. Including this header does it
/// for the program.
inline bool register_benchmark_memory_manager() {
  static BenchmarkMemoryManager manager;
  static const bool registered = [] {
    if (!allocations_are_watched()) {
      std::fprintf(stderr, "opmeter: no allocs_per_iter. %s\n", why_not_watched());
      return false;
    }
    ::benchmark::RegisterMemoryManager(&manager);
    return true;
  }();
  return registered;
}

namespace detail {

struct RegisterBenchmarkMemoryManager {
  RegisterBenchmarkMemoryManager() { register_benchmark_memory_manager(); }
};
static const RegisterBenchmarkMemoryManager register_benchmark_memory_manager_now;

/// The reporter that the flags ask for; a terminal one gets the count as a column.
class AllocsPerIterReporter : public ::benchmark::BenchmarkReporter {
 public:
  AllocsPerIterReporter() : shown_(::benchmark::CreateDefaultDisplayReporter()) {
    columns_ = dynamic_cast<::benchmark::ConsoleReporter*>(shown_) != nullptr;
  }
  bool ReportContext(const Context& context) override {
    shown_->SetOutputStream(&GetOutputStream());
    shown_->SetErrorStream(&GetErrorStream());
    return shown_->ReportContext(context);
  }
  void ReportRuns(const std::vector<Run>& runs) override {
    std::vector<Run> with_column = runs;
    for (Run& run : with_column) {
      if (columns_ && run.memory_result != nullptr) {
        run.counters["allocs/iter"] = ::benchmark::Counter(run.allocs_per_iter);
      }
    }
    shown_->ReportRuns(with_column);
  }
  void Finalize() override { shown_->Finalize(); }

 private:
  ::benchmark::BenchmarkReporter* shown_;  // the library's, as long as the process
  bool columns_ = false;
};

}  // namespace detail
}  // namespace opmeter

#define OPMETER_BENCHMARK_MAIN()                                        \
  int main(int argc, char** argv) {                                     \
    ::benchmark::Initialize(&argc, argv);                               \
    if (::benchmark::ReportUnrecognizedArguments(argc, argv)) return 1; \
    ::opmeter::detail::AllocsPerIterReporter reporter;                  \
    ::benchmark::RunSpecifiedBenchmarks(&reporter);                     \
    ::benchmark::Shutdown();                                            \
    return 0;                                                           \
  }                                                                     \
  int main(int, char**)

#endif  // OPMETER_BENCHMARK_HPP_
