// SPDX-License-Identifier: Apache-2.0
// See record_words.h.
#include "tools/record/record_words.h"

#include <fmt/format.h>

#include "tools/cli/console.h"

namespace opmeter::tools {

void add_record_options(Arguments& arguments, RecordWords& words) {
  arguments.choice("--stacks", words.stacks, "WHICH", {"full", "none"},
                   "call stacks of allocations: full or none (default full)");
  arguments.flag("--free-stacks", words.free_stacks, "record the call stacks of frees too");
  arguments.flag("--verify-stacks", words.verify_stacks,
                 "self-check, slow: compare each stack with a walk by libunwind");
  arguments.text("--buffer", words.buffer, "SIZE",
                 "memory between program and writer (default 64M)");
}

RecordOptions to_record_options(const RecordWords& words, const CommonOptions& common) {
  RecordOptions options;
  options.output = common.output;
  options.force = common.force;
  options.no_stacks = words.stacks == "none";
  options.free_stacks = words.free_stacks;
  options.verify_stacks = words.verify_stacks;
  options.buffer_bytes = parse_size(words.buffer, "--buffer");
  return options;
}

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
  if (quiet) return;
  say(fmt::format("{}: {} events, {}, {} lost; next: opmeter report {}", outcome.output,
                  outcome.events, human_bytes(outcome.file_bytes), outcome.lost_events,
                  outcome.output));
}

}  // namespace opmeter::tools
