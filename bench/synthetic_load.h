// SPDX-License-Identifier: Apache-2.0
// The events of a program that never was, for measuring the analysis at any size: a heap with a
// steady number of live blocks, many stacks and random victims; on wish in runs of a model with
// operators and workspaces. Streams: memory does not depend on the number of events.
#ifndef OPMETER_BENCH_SYNTHETIC_LOAD_H_
#define OPMETER_BENCH_SYNTHETIC_LOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "profiler/trace/writer.h"

namespace opmeter::bench {

struct SyntheticOptions {
  uint32_t live_blocks = 100'000;  ///< of each thread
  uint32_t stacks = 4096;
  uint32_t threads = 1;
  bool random_sizes = false;  ///< a new size each time; otherwise one size a stack
  bool runs = false;          ///< runs of kOps operators, with workspaces from a caching pool
};

class SyntheticLoad {
 public:
  static constexpr uint32_t kOps = 32;

  explicit SyntheticLoad(const SyntheticOptions& options) : options_(options) {
    threads_.resize(options.threads);
    for (uint32_t t = 0; t < options.threads; ++t) {
      threads_[t].random = 0x9e3779b97f4a7c15ULL * (t + 1);
      threads_[t].next_address = (uint64_t{0x7f00} + t) << 32;
    }
  }

  /// Appends about `n` more events, in order of time.
  void more(size_t n, std::vector<trace::Event>& events) {
    const size_t end = events.size() + n;
    while (events.size() < end) {
      turn_ = turn_ + 1 < options_.threads ? turn_ + 1 : 0;
      if (options_.runs && turn_ == 0) {
        run_step(events);
      } else {
        for (int i = 0; i < 16; ++i) heap_event(turn_, events);
      }
    }
  }

  /// What the events name: stacks of ten frames, threads, ops, a pool, two clock readings.
  void define(trace::TraceWriter& writer) const {
    writer.define_command({"synthetic"});
    writer.define(trace::ClockSync{0, 0, 1'700'000'000'000'000'000});
    writer.define(trace::ClockSync{1'000'000'000, 1'000'000'000, 1'700'000'001'000'000'000});
    for (uint32_t t = 0; t < options_.threads; ++t) {
      writer.define(trace::ThreadInfo{t + 1, 1000 + t, "thread " + std::to_string(t)});
    }
    for (uint32_t s = 1; s <= options_.stacks; ++s) {
      trace::StackInfo stack;
      stack.id = s;
      for (uint32_t frame = 0; frame < 10; ++frame) {
        stack.frames.push_back(0x400000 + frame * 4096 + (s >> frame) * 16);
      }
      writer.define(stack);
    }
    if (!options_.runs) return;
    writer.define(trace::GraphInfo{1, "net"});
    writer.define(trace::PoolInfo{1, "caching", 2, 1, 0});
    for (uint32_t op = 1; op <= kOps; ++op) {
      trace::OpInfo info;
      info.id = op;
      info.graph = 1;
      info.index = static_cast<int32_t>(op) - 1;
      info.name = "op " + std::to_string(op);
      writer.define(info);
    }
  }

 private:
  struct Block {
    uint64_t address = 0;
    uint32_t size_class = 0;
  };
  struct Thread {
    uint64_t random = 1;
    uint64_t next_address = 0;
    std::vector<Block> live;
    std::vector<uint64_t> free_addresses[24];  // by size class, last freed first: as malloc does
  };

  static uint64_t next(uint64_t& state) {  // xorshift64*
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545F4914F6CDD1Du;
  }
  static uint64_t below(uint64_t& state, uint64_t n) { return (next(state) >> 32) * n >> 32; }

  trace::Event& event(trace::EventKind kind, uint32_t thread, std::vector<trace::Event>& events) {
    trace::Event& e = events.emplace_back();
    e.kind = kind;
    e.thread = thread + 1;
    now_ns_ += 20 + (now_ns_ >> 3) % 61;
    e.ticks = e.time_ns = now_ns_;
    return e;
  }

  void heap_event(uint32_t thread, std::vector<trace::Event>& events) {
    Thread& t = threads_[thread];
    const bool allocates =
        t.live.empty() || (t.live.size() < options_.live_blocks && (next(t.random) >> 60) != 0) ||
        (t.live.size() < options_.live_blocks + 64 && (next(t.random) >> 63) != 0);
    if (!allocates) {
      Block& victim = t.live[below(t.random, t.live.size())];
      trace::Event& e = event(trace::EventKind::kFree, thread, events);
      e.address = victim.address;
      e.api = static_cast<uint16_t>(trace::AllocApi::kFree);
      t.free_addresses[victim.size_class].push_back(victim.address);
      victim = t.live.back();
      t.live.pop_back();
      return;
    }
    auto stack = static_cast<uint32_t>(1 + below(t.random, options_.stacks));
    if (options_.runs) {  // an operator has stacks of its own
      stack = 1 + (stack / kOps * kOps + op_) % options_.stacks;
    }
    uint64_t sizes = options_.random_sizes ? next(t.random) : stack * 0x9e3779b97f4a7c15ULL;
    const auto width = static_cast<uint32_t>(4 + (sizes >> 60) % 13);  // 16 B to 64 KiB
    Block block;
    block.size_class = width;
    const uint64_t bytes = (uint64_t{1} << width) + (sizes & ((uint64_t{1} << width) - 1));
    std::vector<uint64_t>& free_addresses = t.free_addresses[width];
    if (free_addresses.empty()) {
      block.address = t.next_address;
      t.next_address += (uint64_t{2} << width) + 16;
    } else {
      block.address = free_addresses.back();
      free_addresses.pop_back();
    }
    t.live.push_back(block);
    trace::Event& e = event(trace::EventKind::kAlloc, thread, events);
    e.address = block.address;
    e.bytes = bytes;
    e.stack = stack;
    e.api = static_cast<uint16_t>(trace::AllocApi::kMalloc);
  }

  /// An operator of the first thread's model, or the end of its run.
  void run_step(std::vector<trace::Event>& events) {
    using Kind = trace::EventKind;
    if (op_ == 0) {
      trace::Event& e = event(Kind::kRunBegin, 0, events);
      e.run = ++run_;
      e.ref = 1;
    }
    event(Kind::kOpPush, 0, events).ref = ++op_;
    for (uint32_t w = 0; w < 2; ++w) {
      trace::Event& e = event(Kind::kPoolAlloc, 0, events);
      e.address = 0x10000000 + w * 0x100000;
      e.bytes = 1000 + op_ * 64;
      e.stack = 1 + op_ % options_.stacks;
      e.ref = 1;
    }
    event(Kind::kKernelBegin, 0, events);
    for (int i = 0; i < 8; ++i) heap_event(0, events);
    event(Kind::kKernelEnd, 0, events);
    for (uint32_t w = 2; w-- > 0;) {
      trace::Event& e = event(Kind::kPoolFree, 0, events);
      e.address = 0x10000000 + w * 0x100000;
      e.ref = 1;
    }
    event(Kind::kOpPop, 0, events);
    if (op_ < kOps) return;
    op_ = 0;
    event(Kind::kRunEnd, 0, events).run = run_;
  }

  SyntheticOptions options_;
  std::vector<Thread> threads_;
  uint32_t turn_ = UINT32_MAX - 1;
  uint32_t op_ = 0;
  uint64_t run_ = 0;
  uint64_t now_ns_ = 1000;
};

/// Streams a trace of about `events` events to the writer and finishes it.
inline Status write_synthetic(trace::TraceWriter& writer, const SyntheticOptions& options,
                              uint64_t events) {
  SyntheticLoad load(options);
  load.define(writer);
  std::vector<trace::Event> batch;
  for (uint64_t done = 0; done < events && writer.status(); done += batch.size()) {
    batch.clear();
    load.more(std::min<uint64_t>(1 << 14, events - done), batch);
    for (const trace::Event& event : batch) writer.event(event);
  }
  return writer.finish({});
}

}  // namespace opmeter::bench

#endif  // OPMETER_BENCH_SYNTHETIC_LOAD_H_
