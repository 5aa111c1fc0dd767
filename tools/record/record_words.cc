// SPDX-License-Identifier: Apache-2.0
// See record_words.h.
#include "tools/record/record_words.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/cli/console.h"
#include "tools/cli/failure.h"

namespace opmeter::tools {

void add_record_options(Arguments& arguments, RecordWords& words) {
  arguments.choice("--scope", words.scope, "WHAT", {"all", "runs"},
                   "runs: only what happens while a run is open (default all)");
  arguments.choice("--stacks", words.stacks, "WHICH", {"full", "fp", "none"},
                   "call stacks of allocations: full, by frame pointers, or none (default full)");
  arguments.flag("--free-stacks", words.free_stacks, "record the call stacks of frees too");
  arguments.flag("--verify-stacks", words.verify_stacks,
                 "self-check, slow: compare each stack with a walk by libunwind");
  arguments.flag("--time-calls", words.time_calls, "record how long each call took");
  arguments.flag("--faults", words.faults, "count page faults of each op, not only of each run");
  arguments.text(
      "--sample-bytes", words.sample_bytes, "SIZE",
      "record a sample: one allocation each SIZE bytes on average; totals are estimates");
  arguments.flag("--map", words.maps,
                 "record the program's own mmap, munmap, mremap, brk and sbrk calls too");
  arguments.flag("--follow", words.follow,
                 "record child processes too, each into a file of its own");
  arguments.text("--buffer", words.buffer, "SIZE",
                 "memory between program and writer (default 64M)");
  arguments.text("--max-file", words.max_file, "SIZE", "bound of the trace file (default none)");
  arguments.choice("--on-full", words.on_full, "WHAT", {"keep-last", "stop"},
                   "at that bound: drop the oldest events, or stop (default keep-last)");
}

RecordOptions to_record_options(const RecordWords& words, const CommonOptions& common) {
  RecordOptions options;
  options.output = common.output;
  options.force = common.force;
  options.no_stacks = words.stacks == "none";
  options.frame_pointers = words.stacks == "fp";
  options.scope_runs = words.scope == "runs";
  options.time_calls = words.time_calls;
  options.op_faults = words.faults;
  if (!words.sample_bytes.empty()) {
    options.sample_bytes = parse_size(words.sample_bytes, "--sample-bytes");
  }
  if (!words.max_file.empty()) options.max_file_bytes = parse_size(words.max_file, "--max-file");
  options.stop_when_full = words.on_full == "stop";
  constexpr uint64_t kSmallestFile = 64 * 1024;
  if (options.max_file_bytes != 0 && options.max_file_bytes < kSmallestFile) {
    throw Failure(usage_error("--max-file: at least 64K, for the definitions need room"));
  }
  options.free_stacks = words.free_stacks;
  options.verify_stacks = words.verify_stacks;
  options.maps = words.maps;
  options.follow = words.follow;
  options.buffer_bytes = parse_size(words.buffer, "--buffer");
  return options;
}

namespace {

/// The first few files' names.
std::string files_of(const std::vector<ChildOutcome>& children) {
  constexpr size_t kShown = 4;
  std::string names;
  for (size_t i = 0; i < std::min(children.size(), kShown); ++i) {
    names += (i == 0 ? "" : ", ") + children[i].output;
  }
  return children.size() > kShown ? names + ", ..." : names;
}

}  // namespace

void say_outcome(const RecordOutcome& outcome, bool quiet) {
  if (!outcome.note.empty()) say(outcome.note);
  if (!outcome.recorded) return;
  if (outcome.lost_events > 0) {
    say(fmt::format("{} events were lost; a larger --buffer may keep them", outcome.lost_events));
  }
  if (outcome.stacks_verified > 0) {
    say(fmt::format("{} stacks compared with a walk by libunwind: {} different",
                    outcome.stacks_verified, outcome.stacks_different));
  }
  for (const ChildOutcome& child : outcome.children) {
    if (!child.note.empty()) say(child.note);
    if (child.still_running) {
      say(fmt::format("process {} still runs; {} holds what it did until now", child.pid,
                      child.output));
    }
    if (child.lost_events > 0) {
      say(fmt::format("{}: {} events were lost", child.output, child.lost_events));
    }
  }
  if (quiet) return;
  if (outcome.children_unrecorded > 0) {
    say(fmt::format("{} not recorded; {}",
                    outcome.children_unrecorded == 1
                        ? "a child process was"
                        : fmt::format("{} child processes were", outcome.children_unrecorded),
                    outcome.followed ? "no session was free, or they cannot reach this process"
                                     : "--follow records each into a file of its own"));
  }
  if (!outcome.children.empty()) {
    say(fmt::format("followed {}: {}",
                    outcome.children.size() == 1
                        ? "a child process"
                        : fmt::format("{} child processes", outcome.children.size()),
                    files_of(outcome.children)));
  }
  say(fmt::format("{}: {} events, {}, {} lost; next: opmeter report {}", outcome.output,
                  outcome.events, human_bytes(outcome.file_bytes), outcome.lost_events,
                  outcome.output));
}

}  // namespace opmeter::tools
