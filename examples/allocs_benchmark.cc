// SPDX-License-Identifier: Apache-2.0
// A Google Benchmark program that says how much each benchmark allocates: include
// opmeter/benchmark.hpp, link opmeter::hooks.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "opmeter/benchmark.hpp"

namespace {

void grow_a_vector(benchmark::State& state) {
  for (auto _ : state) {
    std::vector<int> numbers;
    for (int i = 0; i < 1000; ++i) numbers.push_back(i);  // 11 allocations: 4, 8, ... 4096 bytes
    benchmark::DoNotOptimize(numbers.data());
  }
}
BENCHMARK(grow_a_vector);

void fill_a_reserved_vector(benchmark::State& state) {
  for (auto _ : state) {
    std::vector<int> numbers;
    numbers.reserve(1000);
    for (int i = 0; i < 1000; ++i) numbers.push_back(i);
    benchmark::DoNotOptimize(numbers.data());
  }
}
BENCHMARK(fill_a_reserved_vector);

void reuse_a_vector(benchmark::State& state) {
  std::vector<int> numbers(1000);
  for (auto _ : state) {
    numbers.clear();
    for (int i = 0; i < 1000; ++i) numbers.push_back(i);
    benchmark::DoNotOptimize(numbers.data());
  }
}
BENCHMARK(reuse_a_vector);

}  // namespace

OPMETER_BENCHMARK_MAIN();
