// SPDX-License-Identifier: Apache-2.0
// The words of `record` that `profile` shares, and what both say when a recording has ended.
#ifndef OPMETER_TOOLS_RECORD_RECORD_WORDS_H_
#define OPMETER_TOOLS_RECORD_RECORD_WORDS_H_

#include <string>

#include "tools/cli/arguments.h"
#include "tools/record/record.h"

namespace opmeter::tools {

struct RecordWords {
  std::string stacks = "full";  ///< full | fp | none
  std::string scope = "all";    ///< all | runs
  bool time_calls = false;
  bool faults = false;
  std::string sample_bytes;           ///< a size, or empty: every allocation
  std::string max_file;               ///< a size, or empty: no bound
  std::string on_full = "keep-last";  ///< keep-last | stop
  bool free_stacks = false;
  bool verify_stacks = false;
  bool maps = false;
  bool follow = false;
  std::string buffer = "64M";
};

void add_record_options(Arguments& arguments, RecordWords& words);

/// Everything but the command. Throws Failure (usage).
RecordOptions to_record_options(const RecordWords& words, const CommonOptions& common);

/// Trouble always; where the file is and what comes next unless `quiet`.
void say_outcome(const RecordOutcome& outcome, bool quiet);

}  // namespace opmeter::tools

#endif  // OPMETER_TOOLS_RECORD_RECORD_WORDS_H_
