// SPDX-License-Identifier: Apache-2.0
// The program that the recording benchmark runs under each profiler: malloc+free pairs at a chosen
// call depth, from a chosen number of distinct stacks, or a mixed load. Prints its own times as
// `key value` lines. Links nothing of Opmeter.
#include <time.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

struct Options {
  std::string mode = "depth";  ///< depth | stacks | mixed
  uint64_t pairs = 20'000'000;
  int depth = 20;       ///< depth: calls above the pair
  uint32_t stacks = 1;  ///< stacks, mixed: distinct call paths, a power of two
  int threads = 1;
  bool random_sizes = false;  ///< mixed: a new size each time; otherwise one size a stack
};

uint64_t clock_ns(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

/// xorshift64*: cheap beside a malloc, good enough to spread stacks and victims.
struct Random {
  uint64_t state;
  uint64_t next() {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545F4914F6CDD1Du;
  }
  uint64_t below(uint64_t n) { return (next() >> 32) * n >> 32; }
};

/// Keeps a compiler from merging calls, dropping blocks or turning calls into jumps.
template <typename T>
inline void keep(T& value) {
  asm volatile("" : "+r"(value) : : "memory");
}

// --- depth: one stack, the loop at its end ------------------------------------------------------

[[gnu::noinline]] void pairs_here(uint64_t n) {
  for (uint64_t i = 0; i < n; ++i) {
    void* block = std::malloc(64);
    keep(block);
    std::free(block);
  }
}

template <int Level>
[[gnu::noinline]] void descend(uint64_t n) {
  if constexpr (Level == 0) {
    pairs_here(n);
  } else {
    descend<Level - 1>(n);
  }
  keep(n);
}

template <int... Levels>
void descend_to(int depth, uint64_t n, std::integer_sequence<int, Levels...>) {
  ((depth == Levels ? descend<Levels>(n) : void()), ...);
}

// --- stacks and mixed: one call path for each number -------------------------------------------

/// What a leaf does; its address decides nothing about the stack.
struct Work {
  void** slot = nullptr;
  uint64_t bytes = 64;
};

[[gnu::noinline]] void leaf(Work& work) {
  if (work.slot == nullptr) {
    void* block = std::malloc(work.bytes);
    keep(block);
    std::free(block);
    return;
  }
  std::free(*work.slot);
  *work.slot = std::malloc(work.bytes);
  std::memset(*work.slot, 1, 16);
}

/// Seventeen levels of two call sites each: 131072 paths, all of the same depth.
template <int Level>
[[gnu::noinline]] void branch(uint32_t path, Work& work) {
  if constexpr (Level == 0) {
    leaf(work);
  } else {
    if (path & 1) {
      branch<Level - 1>(path >> 1, work);
    } else {
      branch<Level - 1>(path >> 1, work);
      keep(path);
    }
  }
  keep(path);
}
constexpr int kLevels = 17;

void from_stacks(const Options& o, uint64_t pairs, uint64_t seed) {
  Random random{seed};
  Work work;
  for (uint64_t i = 0; i < pairs; ++i) {
    branch<kLevels>(static_cast<uint32_t>(random.below(o.stacks)), work);
  }
}

/// 16 B to 64 KiB, evenly spread over the logarithm: 7.9 KB on average.
uint64_t spread_size(uint64_t number) {
  Random random{number * 0x9E3779B97F4A7C15u + 1};
  random.next();
  return static_cast<uint64_t>(
      16.0 * std::pow(4096.0, static_cast<double>(random.next() >> 11) * 0x1p-53));
}

void mixed(const Options& o, uint64_t pairs, uint64_t seed) {
  constexpr uint64_t kLiveBytes = 15'000'000;
  constexpr size_t kSizes = 1 << 16;  // looked up: pow() would cost as much as a malloc
  std::vector<uint32_t> sizes(o.random_sizes ? kSizes : o.stacks);
  uint64_t sum = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    sizes[i] = static_cast<uint32_t>(spread_size(i));
    sum += sizes[i];
  }
  std::vector<void*> live(kLiveBytes * sizes.size() / sum / static_cast<uint64_t>(o.threads));
  Random random{seed};
  Work work;
  for (uint64_t i = 0; i < pairs; ++i) {
    const auto path = static_cast<uint32_t>(random.below(o.stacks));
    work.slot = &live[random.below(live.size())];
    work.bytes = sizes[o.random_sizes ? random.below(kSizes) : path];
    branch<kLevels>(path, work);
  }
  for (void* block : live) std::free(block);
}

void one_thread(const Options& o, uint64_t seed, std::atomic<uint64_t>& cpu_ns) {
  const uint64_t pairs = o.pairs / static_cast<uint64_t>(o.threads);
  const uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  if (o.mode == "depth") {
    descend_to(o.depth, pairs, std::make_integer_sequence<int, 64>{});
  } else if (o.mode == "stacks") {
    from_stacks(o, pairs, seed);
  } else {
    mixed(o, pairs, seed);
  }
  cpu_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i], value = argv[i + 1];
    if (key == "--mode") o.mode = value;
    if (key == "--pairs") o.pairs = std::stoull(value);
    if (key == "--depth") o.depth = std::stoi(value);
    if (key == "--stacks") o.stacks = static_cast<uint32_t>(std::stoul(value));
    if (key == "--threads") o.threads = std::stoi(value);
    if (key == "--random-sizes") o.random_sizes = value == "1";
  }
  std::atomic<uint64_t> cpu_ns{0};
  const uint64_t begin = clock_ns(CLOCK_MONOTONIC);
  std::vector<std::thread> others;
  for (int i = 1; i < o.threads; ++i) {
    others.emplace_back([&, i] { one_thread(o, static_cast<uint64_t>(i) * 7919 + 1, cpu_ns); });
  }
  one_thread(o, 12345, cpu_ns);
  for (std::thread& t : others) t.join();
  const uint64_t wall = clock_ns(CLOCK_MONOTONIC) - begin;
  std::printf("wall_ns %llu\nthread_cpu_ns %llu\n", static_cast<unsigned long long>(wall),
              static_cast<unsigned long long>(cpu_ns.load()));
  return 0;
}
