// SPDX-License-Identifier: Apache-2.0
// Writes the story of a program as events, one call a line, for the tests of analyze: threads are
// numbers, time passes 100 ns an event unless told otherwise.
#ifndef OPMETER_TESTS_ANALYZE_SCENARIO_H_
#define OPMETER_TESTS_ANALYZE_SCENARIO_H_

#include <string>
#include <vector>

#include "profiler/analyze/analyze.h"
#include "profiler/trace/event.h"

namespace opmeter::analyze {

class Scenario {
 public:
  using Kind = trace::EventKind;

  Scenario() {
    definitions.graphs[1] = {1, "net"};
    definitions.pools[1] = {1, "caching", 2, 1, 0};
    definitions.pools[2] = {2, "storage", 3, 1, 0};
    definitions.pools[3] = {3, "gpu", 4, 2, 0};
    op(1, "conv");
    op(2, "relu");
  }

  void op(uint32_t id, const std::string& name, uint32_t graph = 1) {
    trace::OpInfo info;
    info.id = id;
    info.graph = graph;
    info.index = static_cast<int32_t>(id) - 1;
    info.name = name;
    definitions.ops[id] = info;
  }

  trace::Event& event(Kind kind, uint32_t thread) {
    trace::Event e;
    e.kind = kind;
    e.thread = thread;
    e.time_ns = e.ticks = now_ns += 100;
    events.push_back(e);
    return events.back();
  }
  Scenario& wait(uint64_t ns) {
    now_ns += ns;
    return *this;
  }

  void alloc(uint64_t address, uint64_t bytes, uint32_t stack = 1, uint32_t thread = 1) {
    trace::Event& e = event(Kind::kAlloc, thread);
    e.address = address;
    e.bytes = bytes;
    e.stack = stack;
  }
  void backing(uint64_t address, uint64_t bytes, uint32_t pool, uint32_t stack = 1) {
    alloc(address, bytes, stack);
    events.back().flags = trace::kBacking;
    events.back().ref = pool;
  }
  void free(uint64_t address, uint32_t thread = 1) { event(Kind::kFree, thread).address = address; }
  void realloc_begin(uint64_t old, uint64_t bytes, uint32_t thread = 1) {
    trace::Event& e = event(Kind::kReallocBegin, thread);
    e.old_address = old;
    e.bytes = bytes;
  }
  void realloc_end(uint64_t old, uint64_t address, uint64_t bytes, uint32_t thread = 1) {
    trace::Event& e = event(Kind::kReallocEnd, thread);
    e.old_address = old;
    e.address = address;
    e.bytes = bytes;
    e.stack = 1;
  }
  void realloc(uint64_t old, uint64_t address, uint64_t bytes, uint32_t thread = 1) {
    realloc_begin(old, bytes, thread);
    realloc_end(old, address, bytes, thread);
  }
  void pool_alloc(uint32_t pool, uint64_t address, uint64_t bytes, uint32_t thread = 1) {
    trace::Event& e = event(Kind::kPoolAlloc, thread);
    e.address = address;
    e.bytes = bytes;
    e.ref = pool;
    e.stack = 2;
  }
  void pool_free(uint32_t pool, uint64_t address, uint32_t thread = 1) {
    trace::Event& e = event(Kind::kPoolFree, thread);
    e.address = address;
    e.ref = pool;
  }
  void push(uint32_t op, uint32_t thread = 1) { event(Kind::kOpPush, thread).ref = op; }
  void pop(uint32_t thread = 1) { event(Kind::kOpPop, thread); }
  uint64_t run_begin(uint32_t graph = 1, uint32_t thread = 1, uint16_t hint = 0) {
    trace::Event& e = event(Kind::kRunBegin, thread);
    e.run = ++runs;
    e.ref = graph;
    e.api = hint;
    return runs;
  }
  void run_end(uint32_t thread = 1) { event(Kind::kRunEnd, thread).run = runs; }
  void attach(uint64_t run, uint32_t op, uint32_t thread) {
    trace::Event& e = event(Kind::kContextAttach, thread);
    e.run = run;
    e.ref = op;
  }
  void faults(uint64_t of_thread, uint64_t of_process, uint32_t thread = 1) {
    trace::Event& e = event(Kind::kFaults, thread);
    e.address = of_thread;
    e.bytes = of_process;
  }
  void map(uint64_t address, uint64_t bytes, uint32_t thread = 1) {
    trace::Event& e = event(Kind::kMapAlloc, thread);
    e.address = address;
    e.bytes = bytes;
    e.stack = 3;
  }
  void unmap(uint64_t address, uint64_t bytes, uint32_t thread = 1) {
    trace::Event& e = event(Kind::kMapFree, thread);
    e.address = address;
    e.bytes = bytes;
  }
  /// The event before this took so long.
  void took(uint32_t ns) {
    events.back().flags |= trace::kTimed;
    events.back().duration = ns;
  }
  void lost(uint64_t count, uint32_t thread = 1) { event(Kind::kLost, thread).bytes = count; }
  void detach(uint32_t thread) { event(Kind::kContextDetach, thread); }

  reports::Report report(AnalyzeOptions options = {}) const {
    options.all = true;
    size_t i = 0;
    trace::TraceQuality quality;
    quality.complete = true;
    return analyze_events(
        definitions, quality,
        [&](trace::Event& e) {
          if (i == events.size()) return false;
          e = events[i++];
          return true;
        },
        options);
  }

  trace::Definitions definitions;
  std::vector<trace::Event> events;
  uint64_t now_ns = 0;
  uint64_t runs = 0;
};

inline const reports::Op& op_named(const reports::Report& report, const std::string& name) {
  static const reports::Op kNone;
  for (const reports::Op& op : report.ops) {
    if (op.name == name) return op;
  }
  return kNone;
}

inline const reports::Counts& counts_of(const reports::Report& report, reports::Phase phase,
                                        reports::Domain domain = reports::Domain::kHeap) {
  return report.phases[static_cast<size_t>(phase)][static_cast<size_t>(domain)];
}

}  // namespace opmeter::analyze

#endif  // OPMETER_TESTS_ANALYZE_SCENARIO_H_
