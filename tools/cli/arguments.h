// SPDX-License-Identifier: Apache-2.0
// The arguments of one verb: CLI11 behind the rules that all verbs share (common options, one-line
// errors that name the nearest word, help within 80 columns).
#ifndef OPMETER_TOOLS_CLI_ARGUMENTS_H_
#define OPMETER_TOOLS_CLI_ARGUMENTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;  // only arguments.cc sees CLI11: its headers take seconds to compile
}

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

/// Declares options, parses, prints help. Variables given to it must outlive the parse; they keep
/// their value where an option is not given. `names` are "-o,--long", or "WORD" for what stands
/// without an option; `type` stands for the value in help.
class Arguments {
 public:
  /// `usage` follows "usage: opmeter "; `about` is printed above the options.
  Arguments(std::string verb, std::string usage, std::string about);
  ~Arguments();
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  void flag(const char* names, bool& value, const char* about);
  void text(const char* names, std::string& value, const char* type, const char* about);
  void choice(const char* names, std::string& value, const char* type,
              std::vector<std::string> choices, const char* about);
  void number(const char* names, int& value, const char* type, int low, int high,
              const char* about);
  void number(const char* names, uint64_t& value, const char* type, uint64_t low,
              const char* about);
  void number(const char* names, std::optional<uint64_t>& value, const char* type, uint64_t low,
              const char* about);
  /// Not negative.
  void number(const char* names, double& value, const char* type, const char* about);
  /// May be given several times.
  void list(const char* names, std::vector<std::string>& values, const char* type,
            const char* about);
  void add_common(CommonOptions& common, unsigned offered);
  /// Accepted but not for people: not in help.
  void hidden_flag(const char* names, bool& value);
  void hidden_words(const char* name, std::vector<std::string>& values);
  /// Printed below the options, as it is: lines up to 80 columns.
  void set_notes(std::string notes) { notes_ = std::move(notes); }

  /// True: go on. False: help or version was asked for and printed. Throws Failure (usage).
  bool parse(const std::vector<std::string>& args);

  std::string help() const;
  /// A usage Failure that says where help is.
  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::string verb_, usage_, about_, notes_;
  std::unique_ptr<CLI::App> app_;
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
