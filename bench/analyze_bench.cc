// SPDX-License-Identifier: Apache-2.0
// Cost of the analysis per event: the collector over batches in memory, the reader alone, and both
// together from a file, symbols and folding included. One thread. Items are events.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/synthetic_load.h"
#include "profiler/analyze/analyze.h"
#include "profiler/analyze/collector.h"
#include "profiler/trace/reader.h"

namespace opmeter::bench {
namespace {

SyntheticOptions load_of(int64_t kind) {
  SyntheticOptions options;
  options.random_sizes = kind == 1;
  options.runs = kind == 2;
  options.threads = kind == 3 ? 4 : 1;
  return options;
}
constexpr const char* kLoadNames[] = {"heap, a size a stack", "heap, random sizes",
                                      "runs of 32 ops", "heap, 4 threads"};

/// Batches are made while the clock stands still, so that they come from the cache, as from the
/// decoder, and the heap is in its steady state.
void collector(benchmark::State& state) {
  SyntheticLoad load(load_of(state.range(0)));
  const trace::Definitions definitions;
  const analyze::SizeBins bins;
  analyze::Collector collector(definitions, bins);
  std::vector<trace::Event> batch;
  const auto refill = [&] {
    batch.clear();
    load.more(512, batch);
  };
  for (int warm_up = 0; warm_up < 4000; ++warm_up) {
    refill();
    collector.add(batch);
  }
  uint64_t events = 0;
  for (auto _ : state) {
    state.PauseTiming();
    refill();
    state.ResumeTiming();
    collector.add(batch);
    events += batch.size();
  }
  benchmark::DoNotOptimize(collector.finish());
  state.SetItemsProcessed(static_cast<int64_t>(events));
  state.SetLabel(kLoadNames[state.range(0)]);
}
BENCHMARK(collector)->DenseRange(0, 3);

/// A trace in a file of its own, removed at the end of the program.
class File {
 public:
  File(int64_t kind, uint64_t events) {
    const char* folder = std::getenv("TMPDIR");
    path_ = std::string(folder == nullptr ? "/tmp" : folder) + "/analyze_bench." +
            std::to_string(getpid()) + "." + std::to_string(kind) + ".opm";
    auto writer = trace::TraceWriter::create(path_);
    if (!writer || !write_synthetic(writer.value(), load_of(kind), events)) std::abort();
    bytes_ = writer->bytes_written();
  }
  ~File() { std::remove(path_.c_str()); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::string path_;
  uint64_t bytes_ = 0;
};

constexpr uint64_t kEvents = 10'000'000;

const File& file_of(int64_t kind) {
  static const File files[] = {{0, kEvents}, {1, kEvents}, {2, kEvents}, {3, kEvents}};
  return files[kind];
}

trace::TraceReader open_or_abort(const File& file) {
  auto reader = trace::TraceReader::open(file.path());
  if (!reader) std::abort();
  return std::move(reader.value());
}

void tell(benchmark::State& state, const File& file) {
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(kEvents));
  state.SetLabel(kLoadNames[state.range(0)]);
  state.counters["bytes_per_event"] = static_cast<double>(file.bytes()) / kEvents;
}

void read(benchmark::State& state) {
  const File& file = file_of(state.range(0));
  for (auto _ : state) {
    const trace::TraceReader reader = open_or_abort(file);
    trace::EventStream stream = reader.events();
    uint64_t sum = 0;
    for (auto batch = stream.next_batch(); !batch.empty(); batch = stream.next_batch()) {
      sum += batch.size() + batch.back().address;
    }
    benchmark::DoNotOptimize(sum);
  }
  tell(state, file);
}
BENCHMARK(read)->DenseRange(0, 3)->Unit(benchmark::kMillisecond);

void file_to_report(benchmark::State& state) {
  const File& file = file_of(state.range(0));
  for (auto _ : state) {
    const trace::TraceReader reader = open_or_abort(file);
    const auto report = analyze::analyze(reader);
    if (!report || !report->quality.complete) std::abort();
    benchmark::DoNotOptimize(report->alloc.total.calls);
  }
  tell(state, file);
}
BENCHMARK(file_to_report)->DenseRange(0, 3)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace opmeter::bench

BENCHMARK_MAIN();
