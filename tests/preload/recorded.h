// SPDX-License-Identifier: Apache-2.0
// Runs a program under the interposer and gives its trace back in memory, for the tests of this
// folder.
#ifndef OPMETER_TESTS_PRELOAD_RECORDED_H_
#define OPMETER_TESTS_PRELOAD_RECORDED_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
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
  std::string out;  ///< what the program wrote to standard output

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

/// Standard output goes to a file while this lives.
class CapturedStdout {
 public:
  explicit CapturedStdout(const std::string& path) {
    std::fflush(stdout);
    kept_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);  // no descriptor of ours for the program
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    dup2(file, STDOUT_FILENO);
    close(file);
  }
  ~CapturedStdout() {
    std::fflush(stdout);
    dup2(kept_, STDOUT_FILENO);
    close(kept_);
  }
  CapturedStdout(const CapturedStdout&) = delete;
  CapturedStdout& operator=(const CapturedStdout&) = delete;

 private:
  int kept_;
};

/// All of a trace file in memory.
inline void read_trace(const std::string& path, Recorded& recorded) {
  Result<trace::TraceReader> reader = trace::TraceReader::open(path);
  if (!reader) {
    ADD_FAILURE() << reader.error().message;
    return;
  }
  recorded.reader.emplace(std::move(*reader));  // the mapping outlives the file's name
  trace::EventStream stream = recorded.reader->events();
  for (trace::Event e; stream.next(e);) recorded.events.push_back(e);
}

/// Records `command` with everything else as in `options`; fails the test when Opmeter itself
/// fails.
inline Recorded record_program(std::vector<std::string> command,
                               tools::RecordOptions options = {}) {
  const ScratchFolder folder;
  setenv("OPMETER_PRELOAD", OPMETER_PRELOAD_LIBRARY, 1);
  options.command = std::move(command);
  options.output = folder.file("trace.opm");
  Recorded recorded;
  {
    const CapturedStdout capture(folder.file("stdout"));
    Result<tools::RecordOutcome> outcome = tools::record(options);
    if (!outcome) {
      ADD_FAILURE() << outcome.error().message;
      return recorded;
    }
    recorded.outcome = *outcome;
  }
  std::ifstream out(folder.file("stdout"));
  recorded.out.assign(std::istreambuf_iterator<char>(out), {});
  read_trace(options.output, recorded);
  return recorded;
}

/// The same with another library preloaded behind the interposer.
inline Recorded record_behind(const std::string& library, std::vector<std::string> command,
                              tools::RecordOptions options = {}) {
  setenv("LD_PRELOAD", library.c_str(), 1);
  Recorded recorded = record_program(std::move(command), std::move(options));
  unsetenv("LD_PRELOAD");
  return recorded;
}

/// Whether the loader finds the library.
inline bool loadable(const std::string& library) {
  const std::string complains =
      "LD_PRELOAD=" + library + " /bin/true 2>&1 | grep -q 'cannot be preloaded'";
  return std::system(complains.c_str()) != 0;  // NOLINT: the shell is wanted
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
