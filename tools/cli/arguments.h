// SPDX-License-Identifier: Apache-2.0
// The arguments of one verb: CLI11 behind the rules that all verbs share (common options, one-line
// errors that name the nearest word, help within 80 columns).
#ifndef OPMETER_TOOLS_CLI_ARGUMENTS_H_
#define OPMETER_TOOLS_CLI_ARGUMENTS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace opmeter::tools {

/// Options that every verb has; what a verb cannot use it does not offer.
struct CommonOptions {
  std::string output;  ///< -o
  bool force = false;
  bool quiet = false;
  bool verbose = false;
  bool json = false;
  std::string color = "auto";
};

/// What a verb offers of the common options, beside -q, -v, --color, -h and -V.
enum CommonOption : unsigned {
  kNone = 0,
  kJson = 1,
  kResultFile = 2,  ///< -o is where the result goes instead of stdout
  kTraceFile = 4,   ///< -o is the trace to record
};

class Arguments {
 public:
  /// `usage` follows "usage: opmeter "; `about` is printed above the options.
  Arguments(std::string verb, std::string usage, std::string about);

  /// Options are added here, by CLI11's own means.
  CLI::App& app() { return app_; }
  void add_common(CommonOptions& common, unsigned offered);
  /// Printed below the options, as it is: lines up to 80 columns.
  void set_notes(std::string notes) { notes_ = std::move(notes); }

  /// True: go on. False: help or version was asked for and printed. Throws Failure (usage).
  bool parse(const std::vector<std::string>& args);

  std::string help() const;
  /// A usage Failure that says where help is.
  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::string verb_, usage_, about_, notes_;
  CLI::App app_;
  bool wants_help_ = false, wants_version_ = false;
};

/// The candidate that is nearest to `word` by edit distance; "" when none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// "64M", "512K", "1G", "4096": bytes (powers of 1024). Throws Failure (usage) that names `option`.
uint64_t parse_size(const std::string& text, const std::string& option);

/// `text` wrapped to `columns`, every line but the first indented by `indent`.
std::string wrap(std::string_view text, size_t indent, size_t columns);

}  // namespace opmeter::tools

#endif  // OPMETER_TOOLS_CLI_ARGUMENTS_H_
