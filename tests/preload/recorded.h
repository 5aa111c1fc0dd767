// SPDX-License-Identifier: Apache-2.0
// Runs a program under the interposer and gives its trace back in memory, for the tests of this
// folder.
#ifndef OPMETER_TESTS_PRELOAD_RECORDED_H_
#define OPMETER_TESTS_PRELOAD_RECORDED_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "profiler/trace/reader.h"
#include "tools/record/record.h"

namespace opmeter {

/// A folder that disappears with the object.
class ScratchFolder {
 public:
  ScratchFolder() {
    char name[] = "/tmp/opmeter-test-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

struct Recorded {
  tools::RecordOutcome outcome;
  std::optional<trace::TraceReader> reader;
  std::vector<trace::Event> events;

  std::vector<trace::Event> of_kind(trace::EventKind kind) const {
    std::vector<trace::Event> found;
    for (const trace::Event& e : events) {
      if (e.kind == kind) found.push_back(e);
    }
    return found;
  }
  /// Successful heap allocations of exactly `bytes`, realloc results included.
  std::vector<trace::Event> allocations_of(uint64_t bytes) const {
    std::vector<trace::Event> found;
    for (const trace::Event& e : events) {
      const bool allocates =
          e.kind == trace::EventKind::kAlloc || e.kind == trace::EventKind::kReallocEnd;
      if (allocates && e.address != 0 && e.bytes == bytes) found.push_back(e);
    }
    return found;
  }
  const trace::StackInfo& stack(uint32_t id) const { return reader->definitions().stacks.at(id); }
  const trace::ModuleInfo* module_of(uint64_t frame, uint32_t epoch) const {
    return reader->definitions().module_at(frame - 1, epoch);
  }
};

inline std::string victim(const std::string& name) {
  return std::string(OPMETER_VICTIMS) + "/" + name;
}

/// Records `command` with everything else as in `options`; fails the test when Opmeter itself
/// fails.
inline Recorded record_program(std::vector<std::string> command,
                               tools::RecordOptions options = {}) {
  const ScratchFolder folder;
  setenv("OPMETER_PRELOAD", OPMETER_PRELOAD_LIBRARY, 1);
  options.command = std::move(command);
  options.output = folder.file("trace.opm");
  options.discard_stdout = true;
  Recorded recorded;
  Result<tools::RecordOutcome> outcome = tools::record(options);
  if (!outcome) {
    ADD_FAILURE() << outcome.error().message;
    return recorded;
  }
  recorded.outcome = *outcome;
  Result<trace::TraceReader> reader = trace::TraceReader::open(options.output);
  if (!reader) {
    ADD_FAILURE() << reader.error().message;
    return recorded;
  }
  recorded.reader.emplace(std::move(*reader));  // the mapping outlives the file's name
  trace::EventStream stream = recorded.reader->events();
  for (trace::Event e; stream.next(e);) recorded.events.push_back(e);
  return recorded;
}

/// Heap totals as memcheck defines them.
struct HeapTotals {
  uint64_t calls = 0, frees = 0, bytes = 0;
  bool operator==(const HeapTotals&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const HeapTotals& t) {
  return out << t.calls << " allocs, " << t.frees << " frees, " << t.bytes << " bytes";
}

inline HeapTotals heap_totals(const Recorded& recorded) {
  HeapTotals totals;
  for (const trace::Event& e : recorded.events) {
    if (e.kind == trace::EventKind::kFree) ++totals.frees;
    const bool moved = e.kind == trace::EventKind::kReallocEnd;
    if ((e.kind == trace::EventKind::kAlloc || moved) && e.address != 0) {
      ++totals.calls;
      totals.bytes += e.bytes;
      if (moved) ++totals.frees;
    }
  }
  return totals;
}

}  // namespace opmeter

#endif  // OPMETER_TESTS_PRELOAD_RECORDED_H_
