// SPDX-License-Identifier: Apache-2.0
// What `run` and `profile` are told about a model and its execution: MODEL words, device, pool,
// inputs, expectations. Parsed in one place, so that `profile` can hand them on to the `run` that
// it records.
#ifndef OPMETER_TOOLS_MODEL_RUN_OPTIONS_H_
#define OPMETER_TOOLS_MODEL_RUN_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/cli/arguments.h"

namespace opmeter::tools {

struct RunOptions {
  std::string model;                   ///< a factory library; or:
  std::string graph, params, library;  ///< the three-file form

  std::string device = "cpu";
  std::string pool = "caching";
  int threads = 1;
  std::optional<uint64_t> warmup;  ///< absent: the end of warm-up is found
  uint64_t runs = 100;
  uint64_t seed = 0;

  std::vector<std::string> inputs;   ///< NAME=FILE.npy
  std::vector<std::string> expects;  ///< I=FILE.npy
  double rtol = 1e-5, atol = 1e-6;
  std::string output_dir;
};

/// Adds the options; `arguments` and `options` must outlive the parse.
void add_run_options(Arguments& arguments, RunOptions& options);

/// After the parse: checks that one model is named, in a form that this version loads. Throws
/// Failure.
void check_run_options(const Arguments& arguments, const RunOptions& options);

/// The command line words that give these options again.
std::vector<std::string> to_words(const RunOptions& options);

/// How runs are counted, for the help of `run` and `profile`.
extern const char kRunNotes[];

/// "NAME=FILE" to its halves. Throws Failure (usage) naming `option`.
std::pair<std::string, std::string> split_assignment(const std::string& text,
                                                     const std::string& option,
                                                     const std::string& form);

}  // namespace opmeter::tools

#endif  // OPMETER_TOOLS_MODEL_RUN_OPTIONS_H_
