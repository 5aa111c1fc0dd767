// SPDX-License-Identifier: Apache-2.0
// recording_bench.cc: what recording costs the program that is recorded. Each iteration runs every
// variant of a fixture once, one after the other, each as a process of its own: without a profiler,
// under `opmeter record` and, where it is installed, under heaptrack. Counters are medians over the
// iterations; a ratio is that of the two runs of one iteration. Each trace is opened again: an
// event that is not there, or counted as lost, ends the benchmark with an error.
//
//   bare_ns, opm_ns            of a malloc+free pair (a request+release pair), the producer's CPU
//   x_cpu                      producer's CPU, Opmeter to bare (goal of issue: the main ratio)
//   x_wall, x_total            wall clock; CPU of all processes, the writing one included
//   x_heaptrack                producer's CPU under heaptrack to bare
//   B_per_event                trace file to events
//   per_event_ns               (opm - bare) / 2
//   models: ratio, low, high   latency recorded to bare: median and its 99 % interval
//
// Usage: recording_bench [--pairs=N] [--rounds=N] [--no-peer] [--benchmark_...]
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/recording/child.h"
#include "profiler/trace/reader.h"

namespace opmeter::bench {
namespace {

uint64_t g_pairs = 20'000'000;
int g_rounds = 3;
bool g_peer = true;

const std::string kCommand = OPMETER_BIN "/opmeter";
const std::string kLoads = OPMETER_BENCH_BIN;
const std::string kPeer = "/usr/bin/heaptrack";

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/// A folder for traces that goes away with the program.
struct Scratch {
  std::string path;
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "opmeter-bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path = name;
  }
  ~Scratch() { std::filesystem::remove_all(path); }
};
const Scratch& scratch() {
  static const Scratch folder;
  return folder;
}

struct TraceFacts {
  uint64_t events = 0, bytes = 0;
  std::string wrong;  ///< why the trace does not count
};

TraceFacts look_at(const std::string& path, uint64_t at_least) {
  const Result<trace::TraceReader> reader = trace::TraceReader::open(path);
  if (!reader) return {0, 0, reader.error().message};
  const trace::TraceQuality quality = reader->quality();
  TraceFacts facts{quality.events, quality.file_bytes, ""};
  if (quality.lost_events != 0) facts.wrong = fmt::format("{} events lost", quality.lost_events);
  if (!quality.complete && facts.wrong.empty()) facts.wrong = "trace incomplete: " + quality.note;
  if (facts.events < at_least && facts.wrong.empty()) {
    facts.wrong = fmt::format("{} events of {}", facts.events, at_least);
  }
  return facts;
}

std::vector<std::string> recorded(const std::vector<std::string>& command,
                                  const std::vector<std::string>& options,
                                  const std::string& trace) {
  std::vector<std::string> words = {kCommand, "record", "-q", "-f", "-o", trace};
  words.insert(words.end(), options.begin(), options.end());
  words.emplace_back("--");
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

struct Fixture {
  std::string name;
  std::vector<std::string> bare;      ///< the program
  std::vector<std::string> observed;  ///< the program as it is recorded; empty: the same
  std::vector<std::string> options;   ///< of record
  uint64_t pairs = 0;
  bool peer = false;
};

/// Medians over iterations; see the head of this file.
void pairs(benchmark::State& state, const Fixture& f) {
  std::vector<double> bare_ns, opm_ns, cpu, wall, total, peer, bytes;
  const std::string trace = scratch().path + "/pairs.opm";
  const auto n = static_cast<double>(f.pairs);
  int round = 0;
  for (auto _ : state) {
    ChildRun bare, opm;
    const auto run_bare = [&] { bare = run_child(f.bare); };
    const auto run_opm = [&] {
      opm = run_child(recorded(f.observed.empty() ? f.bare : f.observed, f.options, trace));
    };
    if (round++ % 2 == 0) {
      run_bare();
      run_opm();
    } else {
      run_opm();
      run_bare();
    }
    const TraceFacts facts = look_at(trace, 2 * f.pairs);
    if (!facts.wrong.empty()) {
      state.SkipWithError(facts.wrong.c_str());
      break;
    }
    bare_ns.push_back(bare.said["thread_cpu_ns"] / n);
    opm_ns.push_back(opm.said["thread_cpu_ns"] / n);
    cpu.push_back(opm.said["thread_cpu_ns"] / bare.said["thread_cpu_ns"]);
    wall.push_back(opm.said["wall_ns"] / bare.said["wall_ns"]);
    total.push_back(opm.cpu_ns / bare.cpu_ns);
    bytes.push_back(static_cast<double>(facts.bytes) / static_cast<double>(facts.events));
    if (f.peer && g_peer && round == 1 && access(kPeer.c_str(), X_OK) == 0) {
      std::vector<std::string> words = {kPeer, "-o", scratch().path + "/peer"};
      words.insert(words.end(), f.bare.begin(), f.bare.end());
      peer.push_back(run_child(words).said["thread_cpu_ns"] / bare.said["thread_cpu_ns"]);
      for (const auto& file : std::filesystem::directory_iterator(scratch().path)) {
        if (file.path().filename().string().starts_with("peer")) std::filesystem::remove(file);
      }
    }
    state.SetIterationTime(opm.said["wall_ns"] * 1e-9);
  }
  state.counters["bare_ns"] = median(bare_ns);
  state.counters["opm_ns"] = median(opm_ns);
  state.counters["per_event_ns"] = (median(opm_ns) - median(bare_ns)) / 2;
  state.counters["x_cpu"] = median(cpu);
  state.counters["x_wall"] = median(wall);
  state.counters["x_total"] = median(total);
  state.counters["B_per_event"] = median(bytes);
  if (!peer.empty()) state.counters["x_heaptrack"] = median(peer);
}

/// Latency of a model's steady runs, recorded to bare, in pairs of processes; each gives the median
/// of its runs. The interval is of the mean of the pairs' log ratios (Student, 99 %).
void model(benchmark::State& state, const std::string& name, const std::string& pool, int runs) {
  constexpr int kPairs = 20;
  constexpr double kStudent99 = 2.861;  // two-sided, 19 degrees of freedom
  const std::string trace = scratch().path + "/model.opm";
  const std::vector<std::string> words = {kCommand,
                                          "run",
                                          OPMETER_MODELS "/" + name + ".so",
                                          "--pool",
                                          pool,
                                          "--runs",
                                          std::to_string(runs),
                                          "--threads",
                                          "1",
                                          "--json",
                                          "-q"};
  const auto latency = [](const ChildRun& run) {
    return nlohmann::json::parse(run.out)["latency_ns"]["p50"].get<double>();
  };
  double ratio = 0, low = 0, high = 0;
  for (auto _ : state) {
    double sum = 0, squares = 0;
    for (int i = 0; i < kPairs; ++i) {
      double bare = 0, opm = 0;
      if (i % 2 == 0) bare = latency(run_child(words));
      opm = latency(run_child(recorded(words, {}, trace)));
      if (i % 2 == 1) bare = latency(run_child(words));
      const double x = std::log(opm / bare);
      sum += x;
      squares += x * x;
      const TraceFacts facts = look_at(trace, 1);
      if (!facts.wrong.empty()) state.SkipWithError(facts.wrong.c_str());
      state.SetIterationTime(opm * 1e-9);
    }
    const double mean = sum / kPairs;
    const double half =
        kStudent99 * std::sqrt((squares - kPairs * mean * mean) / (kPairs - 1) / kPairs);
    ratio = std::exp(mean), low = std::exp(mean - half), high = std::exp(mean + half);
  }
  state.counters["ratio"] = ratio;
  state.counters["low"] = low;
  state.counters["high"] = high;
}

void register_pairs(Fixture f) {
  f.pairs = g_pairs;
  benchmark::RegisterBenchmark(f.name.c_str(), [f](benchmark::State& state) { pairs(state, f); })
      ->Iterations(g_rounds)
      ->UseManualTime()
      ->Unit(benchmark::kSecond);
}

void register_all() {
  const std::string n = std::to_string(g_pairs);
  for (const char* build : {"", "_fp"}) {
    const std::string load = kLoads + "/recording_load" + build;
    const auto add = [&](const std::string& name, std::vector<std::string> words, bool peer,
                         std::vector<std::string> options = {}) {
      words.insert(words.begin(), {load, "--pairs", n});
      register_pairs({name + build, std::move(words), {}, std::move(options), 0, peer});
    };
    for (const char* depth : {"5", "20", "60"}) {
      add(fmt::format("depth:{}", depth), {"--mode", "depth", "--depth", depth}, true);
    }
    for (const char* stacks : {"1", "64", "4096", "131072"}) {
      add(fmt::format("stacks:{}", stacks), {"--mode", "stacks", "--stacks", stacks}, false);
    }
    add("mixed/fixed_sizes", {"--mode", "mixed", "--stacks", "4096"}, true);
    add("mixed/random_sizes", {"--mode", "mixed", "--stacks", "4096", "--random-sizes", "1"},
        false);
  }
  const std::string load = kLoads + "/recording_load";
  for (const char* threads : {"1", "2", "4"}) {
    for (const char* mode : {"depth", "mixed"}) {
      register_pairs({fmt::format("threads:{}/{}", threads, mode),
                      {load, "--pairs", n, "--mode", mode, "--depth", "20", "--stacks", "4096",
                       "--threads", threads},
                      {},
                      {},
                      0,
                      false});
    }
  }
  register_pairs({"option/stacks_none/depth:20",
                  {load, "--pairs", n, "--mode", "depth"},
                  {},
                  {"--stacks", "none"},
                  0,
                  false});
  register_pairs({"option/stacks_fp/depth:20_fp",
                  {load + "_fp", "--pairs", n, "--mode", "depth"},
                  {},
                  {"--stacks", "fp"},
                  0,
                  false});
  const std::string workspaces = kLoads + "/workspace_load";
  register_pairs({"workspace", {workspaces, n}, {workspaces, n, "traced"}, {}, 0, false});
  for (const char* pool : {"caching"}) {
    for (const auto& [name, runs] : {std::pair{"cnn_09", 1000}, std::pair{"bert_mini_09", 300}}) {
      benchmark::RegisterBenchmark(
          fmt::format("model/{}/{}", name, pool).c_str(),
          [name = std::string(name), pool = std::string(pool),
           runs = runs](benchmark::State& state) { model(state, name, pool, runs); })
          ->Iterations(1)
          ->UseManualTime();
    }
  }
}

}  // namespace
}  // namespace opmeter::bench

int main(int argc, char** argv) {
  using namespace opmeter::bench;
  benchmark::Initialize(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("--pairs=")) {
      g_pairs = std::strtoull(argv[i] + 8, nullptr, 10);
    } else if (word.starts_with("--rounds=")) {
      g_rounds = std::atoi(argv[i] + 9);
    } else if (word == "--no-peer") {
      g_peer = false;
    } else {
      std::fprintf(stderr,
                   "recording_bench: %s is no option; --pairs=N, --rounds=N, --no-peer or "
                   "--benchmark_...\n",
                   argv[i]);
      return 2;
    }
  }
  if (g_pairs == 0 || g_rounds < 1) {
    std::fprintf(stderr, "recording_bench: --pairs and --rounds are 1 or more\n");
    return 2;
  }
  register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
