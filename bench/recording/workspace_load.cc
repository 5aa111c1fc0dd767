// SPDX-License-Identifier: Apache-2.0
// The program that the recording benchmark runs to see what a traced workspace request costs: pairs
// of request and release from the caching pool, as an operator makes them, inside one run. Prints
// its own times as `key value` lines, as load.cc does. Usage: workspace_load PAIRS [traced]
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "opmeter/opmeter.h"
#include "runtime/pool/caching_pool.h"
#include "runtime/pool/tracing_pool.h"

namespace {

uint64_t clock_ns(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace opmeter::runtime;
  const uint64_t pairs = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20'000'000;
  std::unique_ptr<Pool> pool = std::make_unique<CachingPool>(cpu_device(), 1);
  if (argc > 2) pool = std::make_unique<TracingPool>(std::move(pool));
  const opm_graph graph = opm_graph_declare("workspaces");
  opm_run_begin(graph);
  const uint64_t wall = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  for (uint64_t i = 0; i < pairs; ++i) {
    void* block = pool->alloc_workspace(0, 4096);
    asm volatile("" : "+r"(block) : : "memory");
    pool->free_workspace(0, block);
  }
  std::printf("wall_ns %llu\nthread_cpu_ns %llu\n",
              static_cast<unsigned long long>(clock_ns(CLOCK_MONOTONIC) - wall),
              static_cast<unsigned long long>(clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu));
  opm_run_end();
  return 0;
}
