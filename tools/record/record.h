// SPDX-License-Identifier: Apache-2.0
// Runs a program under the interposer and drains what it records into a trace file. Behind `record`
// and `profile`.
#ifndef OPMETER_TOOLS_RECORD_RECORD_H_
#define OPMETER_TOOLS_RECORD_RECORD_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "opmeter/result.h"

namespace opmeter::tools {

struct RecordOptions {
  std::vector<std::string> command;  ///< program and arguments; the program is looked up in PATH
  std::string output;  ///< "%p" in it is the program's process id; "" = opmeter.%p.opm
  bool force = false;  ///< replace an existing output file
  bool free_stacks = false;
  bool no_stacks = false;
  bool frame_pointers = false;  ///< stacks by frame pointers
  bool time_calls = false;      ///< how long each allocation call took
  bool scope_runs = false;      ///< only what happens while a run is open
  bool op_faults = false;       ///< page faults at op borders
  uint64_t sample_bytes = 0;    ///< mean distance of sampled bytes; 0 = every allocation
  uint64_t max_file_bytes = 0;  ///< bound of the trace file; 0 = none
  bool stop_when_full = false;  ///< at that bound: stop recording instead of dropping the oldest
  bool verify_stacks = false;   ///< self-check: each stack against a libunwind cursor walk (slow)
  bool maps = false;            ///< the program's own mmap, munmap, mremap, brk, sbrk: domain map
  bool follow = false;          ///< child processes too, each into a file of its own
  uint64_t buffer_bytes = 64ull << 20;
  bool discard_stdout = false;  ///< the program's standard output goes nowhere (profile --json)
};

/// A child process that was followed.
struct ChildOutcome {
  int32_t pid = 0;
  std::string output;
  uint64_t events = 0;
  uint64_t lost_events = 0;
  bool still_running = false;  ///< the wait for it was interrupted
  std::string note;            ///< as below
};

/// The flags of a session for these options.
uint32_t session_flags(const RecordOptions& options);

struct RecordOutcome {
  /// The program's exit code; 128 + n when signal n ended it; 126 / 127 when it could not be
  /// started.
  int exit_code = 0;
  std::string output;
  uint64_t events = 0;
  uint64_t file_bytes = 0;
  uint64_t lost_events = 0;
  uint64_t stacks_verified = 0, stacks_different = 0;  ///< of the self-check
  uint64_t stacks_by_libunwind = 0;    ///< walks that our own unwind rules did not reach
  bool recorded = false;               ///< the program loaded the interposer
  std::vector<ChildOutcome> children;  ///< in the order of their appearance
  bool followed = false;               ///< --follow was asked for
  uint64_t children_unrecorded = 0;    ///< processes that had our environment and no session
  std::string
      note;  ///< one line when something is missing: why nothing was recorded, a write that failed
};

/// Where libopmeter_preload.so lies: environment OPMETER_PRELOAD, else beside this executable
/// (../lib, lib/opmeter).
Result<std::string> find_preload_library();

/// Runs the command to its end. Error: Opmeter itself failed (no preload library, no memory, output
/// not writable); the program was then not started.
Result<RecordOutcome> record(const RecordOptions& options);

}  // namespace opmeter::tools

#endif  // OPMETER_TOOLS_RECORD_RECORD_H_
