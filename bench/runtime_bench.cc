// SPDX-License-Identifier: Apache-2.0
// runtime_bench.cc: what the executor itself costs. Chain: 1000 tiny operators, run by the executor
// and by a bare loop over the same functions and arguments; the difference is the executor's
// overhead per op. Models: latency of a run by pool. Pools: a workspace pair, bare and through
// TracingPool. Marks: an opmeter.h call with no profiler in the process. Usage: runtime_bench
// DATA_FOLDER [benchmark flags].
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "opmeter/opmeter.h"
#include "runtime/executor/executor.h"
#include "runtime/npy.h"
#include "runtime/pool/caching_pool.h"
#include "runtime/pool/naive_pool.h"
#include "runtime/pool/tracing_pool.h"
#include "runtime/tvm/c_abi.h"

namespace opmeter::runtime {
namespace {

std::string data_folder;

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "runtime_bench: %s\n", why.c_str());
  std::exit(3);
}

std::unique_ptr<Executor> executor_of(const std::string& name, const char* pool) {
  Result<ModelPtr> model = load_model(data_folder + "/" + name + ".so");
  if (!model) die(model.error().message);
  Result<std::unique_ptr<Executor>> executor = Executor::create(*model, {.pool = pool});
  if (!executor) die(executor.error().message);
  for (const InputInfo& input : (*executor)->inputs()) {
    if (input.is_param) continue;
    Result<Tensor> tensor = read_npy(data_folder + "/" + name + ".in." + input.name + ".npy");
    if (!tensor) die(tensor.error().message);
    if (Status set = (*executor)->set_input(input.index, tensor->view()); !set) {
      die(set.error().message);
    }
  }
  if (Status warm = (*executor)->run(); !warm) die(warm.error().message);
  return std::move(executor).value();
}

void run_model(benchmark::State& state, const std::string& name, const char* pool) {
  const std::unique_ptr<Executor> executor = executor_of(name, pool);
  for (auto _ : state) {
    if (!executor->run().ok()) state.SkipWithError("run failed");
  }
  state.counters["ops"] = static_cast<double>(executor->ops().size());
  state.counters["per_op"] = benchmark::Counter(
      static_cast<double>(executor->ops().size()),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

/// The chain's own functions and tensors, laid out by hand and called back to back: a loop that
/// does nothing but the calls.
struct BareChain {
  struct Call {
    TvmFunction function;
    TvmValue* args;
    int* codes;
    int count;
  };
  ModelPtr model;
  std::vector<DLTensor> tensors;
  std::vector<Tensor> storage;
  std::vector<TvmValue> args;
  std::vector<int> codes;
  std::vector<Call> calls;

  explicit BareChain(const std::string& name) {
    Result<ModelPtr> loaded = load_model(data_folder + "/" + name + ".so");
    if (!loaded) die(loaded.error().message);
    model = *loaded;
    const Graph& graph = model->graph;
    std::vector<Tensor> by_id;
    for (const GraphEntry& entry : graph.entries) {
      const auto id = static_cast<std::size_t>(entry.storage_id);
      if (by_id.size() <= id) by_id.resize(id + 1);
      if (by_id[id].data() == nullptr || by_id[id].size_bytes() < entry.size_bytes) {
        by_id[id] = std::move(Tensor::create(entry.shape, entry.dtype)).value();
      }
    }
    storage = std::move(by_id);
    for (const GraphEntry& entry : graph.entries) {
      DLTensor tensor{};
      tensor.data = storage[static_cast<std::size_t>(entry.storage_id)].data();
      tensor.device = {kDLCPU, 0};
      tensor.ndim = static_cast<int>(entry.shape.size());
      tensor.dtype = entry.dtype;
      tensor.shape = const_cast<std::int64_t*>(entry.shape.data());
      tensors.push_back(tensor);
    }
    args.reserve(4 * graph.nodes.size());
    codes.assign(4 * graph.nodes.size(), kCodeTensor);
    for (std::uint32_t node = 0; node < graph.nodes.size(); ++node) {
      if (!graph.nodes[node].is_op) continue;
      Call call{model->library->function(graph.nodes[node].func_name), args.data() + args.size(),
                codes.data(), 0};
      const auto add = [&](std::uint32_t entry) {
        args.push_back({});
        args.back().v_handle = &tensors[entry];
        ++call.count;
      };
      for (const EntryRef& input : graph.nodes[node].inputs) add(graph.entry_id(input));
      add(graph.entry_id({node, 0}));
      calls.push_back(call);
    }
  }

  int run() const {
    TvmValue result;
    int code = kCodeNull;
    int failed = 0;
    for (const Call& call : calls) {
      failed |= call.function(call.args, call.codes, call.count, &result, &code, nullptr);
    }
    return failed;
  }
};

void bare_chain(benchmark::State& state) {
  const BareChain chain("chain_09");
  for (auto _ : state) {
    if (chain.run() != 0) state.SkipWithError("an operator failed");
  }
  state.counters["per_op"] = benchmark::Counter(
      static_cast<double>(chain.calls.size()),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

enum class Kind { kNaive, kCaching };

void workspace_pair(benchmark::State& state, Kind kind, bool traced) {
  std::unique_ptr<Pool> pool;
  if (kind == Kind::kNaive) {
    pool = std::make_unique<NaivePool>(cpu_device(), 1);
  } else {
    pool = std::make_unique<CachingPool>(cpu_device(), 1);
  }
  if (traced) pool = std::make_unique<TracingPool>(std::move(pool));
  for (auto _ : state) {
    void* block = pool->alloc_workspace(0, 4096);
    benchmark::DoNotOptimize(block);
    pool->free_workspace(0, block);
  }
}

void annotation_without_profiler(benchmark::State& state) {
  for (auto _ : state) {
    opm_op_push(1);
    benchmark::ClobberMemory();
  }
}

void register_all() {
  benchmark::RegisterBenchmark("chain/bare_loop", bare_chain)->Unit(benchmark::kMicrosecond);
  for (const char* name :
       {"chain_09", "mlp_09", "cnn_09", "bert_mini_09", "cnn_016", "bert_mini_016"}) {
    for (const char* pool : {"caching", "naive"}) {
      benchmark::RegisterBenchmark((std::string("run/") + name + "/" + pool).c_str(), run_model,
                                   std::string(name), pool)
          ->Unit(benchmark::kMicrosecond);
    }
  }
  benchmark::RegisterBenchmark("workspace_pair/caching", workspace_pair, Kind::kCaching, false);
  benchmark::RegisterBenchmark("workspace_pair/caching_traced", workspace_pair, Kind::kCaching,
                               true);
  benchmark::RegisterBenchmark("workspace_pair/naive", workspace_pair, Kind::kNaive, false);
  benchmark::RegisterBenchmark("workspace_pair/naive_traced", workspace_pair, Kind::kNaive, true);
  benchmark::RegisterBenchmark("opm_call/no_profiler", annotation_without_profiler);
}

}  // namespace
}  // namespace opmeter::runtime

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr,
                 "usage: runtime_bench DATA_FOLDER [--benchmark_...] "
                 "(for example tests/data/tvm)\n");
    return 2;
  }
  opmeter::runtime::data_folder = argv[1];
  opmeter::runtime::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
