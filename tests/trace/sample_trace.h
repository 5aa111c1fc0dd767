// SPDX-License-Identifier: Apache-2.0
// A small trace with every kind of event and definition, for the tests of the format.
#ifndef OPMETER_TESTS_TRACE_SAMPLE_TRACE_H_
#define OPMETER_TESTS_TRACE_SAMPLE_TRACE_H_

#include <functional>
#include <vector>

#include "profiler/trace/event.h"
#include "profiler/trace/writer.h"

namespace opmeter::trace {

/// One event of every kind with every field of that kind set, two threads, ticks ascending.
inline std::vector<Event> sample_events() {
  std::vector<Event> events;
  uint64_t ticks = 1000;
  const auto add = [&](EventKind kind, uint32_t thread) -> Event& {
    Event e;
    e.kind = kind;
    e.thread = thread;
    e.ticks = ticks += 7;
    events.push_back(e);
    return events.back();
  };
  {
    Event& e = add(EventKind::kRunBegin, 1);
    e.run = 1;
    e.ref = 1;
    e.api = 2;
  }
  {
    Event& e = add(EventKind::kOpPush, 1);
    e.ref = 5;
  }
  {
    Event& e = add(EventKind::kPoolAlloc, 1);
    e.address = 0x7f0000001000;
    e.bytes = 50700;
    e.stack = 2;
    e.ref = 1;
  }
  {
    Event& e = add(EventKind::kAlloc, 1);
    e.address = 0x7f0000001000;
    e.bytes = 53248;
    e.stack = 1;
    e.ref = 1;
    e.flags = kBacking;
    e.api = 6;
  }
  add(EventKind::kKernelBegin, 1);
  {
    Event& e = add(EventKind::kContextAttach, 2);
    e.run = 1;
    e.ref = 5;
  }
  {
    Event& e = add(EventKind::kAlloc, 2);
    e.address = 0xffffffffffffff00;
    e.bytes = 1ull << 62;
    e.stack = 0xfffffff0;
    e.api = 13;
  }
  {
    Event& e = add(EventKind::kReallocBegin, 2);
    e.old_address = 0xffffffffffffff00;
    e.bytes = 3;
  }
  {
    Event& e = add(EventKind::kReallocEnd, 2);
    e.address = 16;
    e.old_address = 0xffffffffffffff00;
    e.bytes = 3;
    e.stack = 1;
    e.api = 3;
  }
  {
    Event& e = add(EventKind::kFree, 2);
    e.address = 16;
    e.api = 5;
  }
  add(EventKind::kForbidBegin, 2);
  add(EventKind::kForbidEnd, 2);
  add(EventKind::kContextDetach, 2);
  add(EventKind::kKernelEnd, 1);
  {
    Event& e = add(EventKind::kPoolFree, 1);
    e.address = 0x7f0000001000;
    e.ref = 1;
  }
  add(EventKind::kOpPop, 1);
  {
    Event& e = add(EventKind::kSpanStart, 1);
    e.address = 9;
    e.ref = 5;
    e.bytes = 3;
  }
  {
    Event& e = add(EventKind::kSpanEnd, 2);
    e.address = 9;
  }
  {
    Event& e = add(EventKind::kLost, 2);
    e.bytes = 12;
  }
  {
    Event& e = add(EventKind::kResync, 2);
    e.run = 1;
    e.ref = 5;
    e.api = 1;
  }
  {
    Event& e = add(EventKind::kFaults, 1);
    e.address = 12;
    e.bytes = 40;
  }
  {
    Event& e = add(EventKind::kMapAlloc, 2);
    e.address = 0x7f1200000000;
    e.bytes = 1u << 20;
    e.stack = 2;
    e.api = 17;
  }
  {
    Event& e = add(EventKind::kMapFree, 2);
    e.address = 0x7f1200001000;
    e.bytes = 4096;
    e.api = 18;
  }
  {
    Event& e = add(EventKind::kAlloc, 1);
    e.address = 0x555500001230;
    e.bytes = 24;
    e.stack = 1;
    e.api = 1;
    e.flags = kTimed;
    e.duration = 3;
  }
  {
    Event& e = add(EventKind::kRunEnd, 1);
    e.run = 1;
  }
  add(EventKind::kThreadExit, 2);
  add(EventKind::kExec, 1);
  return events;
}

inline Definitions sample_definitions() {
  Definitions d;
  d.command = {"prog", "an argument", ""};
  d.info = {{"pid", "42"}, {"model", "cnn.so"}};
  d.modules[1] = {1, "/usr/lib/libx.so", "00ff17", 0x1000, 0x2000, 0x3000, 0, 3};
  d.modules[2] = {2, "/usr/lib/liby.so", "", 0x1000, 0x2000, 0x3000, 4, UINT32_MAX};
  d.stacks[1] = {1, 0, false, {0x2010, 0x2100, 0x2200}};
  d.stacks[2] = {2, 0, false, {0x2033, 0x2044, 0x2100, 0x2200}};
  d.stacks[0xfffffff0] = {0xfffffff0, 4, true, {0xffffffffff600000, 0x10}};
  d.graphs[1] = {1, "default"};
  d.ops[5] = {5,
              1,
              3,
              "conv",
              "fused_conv",
              1,
              0,
              {{"x", {1, 3, 64, 64}, 2, 32, 1, 49152}},
              {{"y", {}, 0, 8, 4, 4}, {"z", {0}, 2, 16, 1, 0}}};
  d.pools[1] = {1, "caching", 2, 1, 0};
  d.threads[1] = {1, 4242, "main"};
  d.threads[2] = {2, 4243, "opm-worker-1"};
  d.clocks = {{1000, 5'000'000, 1'700'000'000'000'000'000},
              {101'000, 105'000'000, 1'700'000'000'100'000'000}};
  return d;
}

/// The sample as a file in memory. `flush_every` events a block boundary is forced (0 = never);
/// `more` may add to it.
inline std::vector<uint8_t> sample_file(size_t flush_every = 0,
                                        const std::function<void(TraceWriter&)>& more = nullptr) {
  std::vector<uint8_t> bytes;
  TraceWriter writer = TraceWriter::to_memory(&bytes);
  const Definitions d = sample_definitions();
  writer.define_command(d.command);
  for (const auto& [key, value] : d.info) writer.define_info(key, value);
  for (const auto& [id, m] : d.modules) {
    writer.define(m);
    if (m.last_epoch != UINT32_MAX) writer.define_module_unload(id, m.last_epoch);
  }
  for (const auto& [id, s] : d.stacks) writer.define(s);
  for (const auto& [id, g] : d.graphs) writer.define(g);
  for (const auto& [id, o] : d.ops) writer.define(o);
  for (const auto& [id, p] : d.pools) writer.define(p);
  for (const auto& [id, t] : d.threads) writer.define(t);
  for (const ClockSync& c : d.clocks) writer.define(c);
  writer.define_mark(1, 2000, "half way");
  size_t n = 0;
  for (const Event& e : sample_events()) {
    writer.event(e);
    if (flush_every != 0 && ++n % flush_every == 0) (void)writer.flush();
  }
  if (more) more(writer);
  (void)writer.finish({.lost_events = 12, .overhead_samples = 3, .overhead_ticks = 90});
  return bytes;
}

}  // namespace opmeter::trace

#endif  // OPMETER_TESTS_TRACE_SAMPLE_TRACE_H_
