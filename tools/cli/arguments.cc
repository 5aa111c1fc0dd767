// SPDX-License-Identifier: Apache-2.0
// See arguments.h.
#include "tools/cli/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <numeric>

#include "tools/cli/console.h"
#include "tools/cli/failure.h"

namespace opmeter::tools {
namespace {

constexpr size_t kHelpColumns = 80;
constexpr uint64_t kLargestCount = uint64_t{1} << 32;

/// Edit distance with insertion, deletion, substitution and swap of neighbours each costing 1.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      now[j] =
          std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1] ? 1 : 0)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        now[j] = std::min(now[j], before[j - 2] + 1);
      }
    }
    before.swap(last);
    last.swap(now);
  }
  return last[b.size()];
}

/// "-o, --output DIR" as help shows an option.
std::string option_words(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name(true);
  std::string words;
  for (const std::string& name : option.get_snames()) words += "-" + name + ", ";
  for (const std::string& name : option.get_lnames()) words += "--" + name + ", ";
  words.resize(words.size() - 2);
  if (option.get_type_size() != 0) {
    const std::string type = option.get_type_name();  // ":VALIDATOR" follows
    words += " " + type.substr(0, type.find(':'));
  }
  return words;
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const bool is_start = word.size() >= 2 && candidate.substr(0, word.size()) == word;
    const size_t distance = is_start ? 1 : edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

uint64_t parse_size(const std::string& text, const std::string& option) {
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  int shift = 0;
  if (rest + 1 == end) {
    constexpr std::string_view kUnits = "KMG";
    const size_t unit = kUnits.find(static_cast<char>(std::toupper(*rest)));
    shift = unit == std::string_view::npos ? -1 : 10 * static_cast<int>(unit + 1);
  } else if (rest != end) {
    shift = -1;
  }
  if (error != std::errc{} || shift < 0 || number == 0 || number > (UINT64_MAX >> shift)) {
    throw Failure(usage_error(
        fmt::format("{}: '{}' is no size; write bytes, or 512K, 64M, 1G", option, text)));
  }
  return number << shift;
}

std::string wrap(std::string_view text, size_t indent, size_t columns) {
  std::string out;
  size_t column = indent;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (column > indent && column + 1 + word.size() > columns) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

Arguments::Arguments(std::string verb, std::string usage, std::string about)
    : verb_(std::move(verb)),
      usage_(std::move(usage)),
      about_(std::move(about)),
      app_(std::make_unique<CLI::App>()) {
  app_->set_help_flag();  // ours is parsed like any flag, so that it wins over missing arguments
  app_->allow_extras();
}

Arguments::~Arguments() = default;

void Arguments::flag(const char* names, bool& value, const char* about) {
  app_->add_flag(names, value, about);
}

void Arguments::text(const char* names, std::string& value, const char* type, const char* about) {
  app_->add_option(names, value, about)->type_name(type);
}

void Arguments::choice(const char* names, std::string& value, const char* type,
                       std::vector<std::string> choices, const char* about) {
  app_->add_option(names, value, about)->type_name(type)->check(CLI::IsMember(std::move(choices)));
}

void Arguments::number(const char* names, int& value, const char* type, int low, int high,
                       const char* about) {
  app_->add_option(names, value, about)->type_name(type)->check(CLI::Range(low, high));
}

void Arguments::number(const char* names, uint64_t& value, const char* type, uint64_t low,
                       const char* about) {
  app_->add_option(names, value, about)->type_name(type)->check(CLI::Range(low, kLargestCount));
}

void Arguments::number(const char* names, std::optional<uint64_t>& value, const char* type,
                       uint64_t low, const char* about) {
  app_->add_option(names, value, about)->type_name(type)->check(CLI::Range(low, kLargestCount));
}

void Arguments::number(const char* names, double& value, const char* type, const char* about) {
  app_->add_option(names, value, about)->type_name(type)->check(CLI::NonNegativeNumber);
}

void Arguments::list(const char* names, std::vector<std::string>& values, const char* type,
                     const char* about) {
  CLI::Option* option = app_->add_option(names, values, about)->type_name(type)->type_size(1);
  // An option takes one word each time; words without an option are all of the list.
  if (!option->get_positional()) {
    option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
}

void Arguments::hidden_flag(const char* names, bool& value) {
  app_->add_flag(names, value)->group("");
}

void Arguments::hidden_words(const char* name, std::vector<std::string>& values) {
  app_->add_option(name, values)->group("");
}

void Arguments::add_common(CommonOptions& common, unsigned offered) {
  if ((offered & kJson) != 0) {
    flag("--json", common.json, "one JSON document on stdout, all else on stderr");
  }
  if ((offered & (kResultFile | kTraceFile)) != 0) {
    text("-o", common.output, "FILE",
         (offered & kTraceFile) != 0 ? "trace file (default opmeter.%p.opm; %p is the process id)"
                                     : "write the result to FILE instead of stdout");
    flag("-f,--force", common.force, "replace an existing FILE");
  }
  choice("--color", common.color, "WHEN", {"auto", "always", "never"},
         "auto, always or never (auto honours NO_COLOR)");
  flag("-q,--quiet", common.quiet, "no notes on stderr, only trouble");
  flag("-v,--verbose", common.verbose, "say more on stderr");
  flag("-h,--help", wants_help_, "this text");
  flag("-V,--version", wants_version_, "the version");
}

void Arguments::fail(const std::string& what) const {
  throw Failure(usage_error(fmt::format("{}: {}; see opmeter help {}", verb_, what, verb_)));
}

bool Arguments::parse(const std::vector<std::string>& args) {
  std::vector<std::string> reversed(args.rbegin(), args.rend());  // as CLI11 wants them
  try {
    app_->parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    fail(error.what());
  }
  if (wants_help_) {
    write_result(help(), "", false);
    return false;
  }
  if (wants_version_) {
    write_result("opmeter " OPMETER_VERSION "\n", "", false);
    return false;
  }
  std::vector<std::string> extras = app_->remaining();
  std::erase(extras, "--");  // CLI11 obeys it and keeps it
  std::stable_partition(extras.begin(), extras.end(),
                        [](const std::string& word) { return word.rfind('-', 0) == 0; });
  if (extras.empty()) return true;
  const std::string& first = extras.front();
  if (first.rfind('-', 0) != 0) fail(fmt::format("unexpected argument '{}'", first));
  std::vector<std::string> known;
  for (const CLI::Option* option : app_->get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  const std::string word = first.substr(0, first.find('='));
  const std::string guess = nearest(word, known);
  fail(fmt::format("unknown option {}{}", word,
                   guess.empty() ? "" : fmt::format(", did you mean {}?", guess)));
}

std::string Arguments::help() const {
  constexpr size_t kIndent = 26;
  std::string text = fmt::format("usage: opmeter {}\n\n{}\n\n", wrap(usage_, 15, kHelpColumns),
                                 wrap(about_, 0, kHelpColumns));
  for (const CLI::Option* option : app_->get_options()) {
    if (option->get_group().empty()) continue;  // not for people
    std::string line = "  " + option_words(*option);
    if (line.size() + 2 > kIndent) {
      line += '\n';
      line.append(kIndent, ' ');
    } else {
      line.resize(kIndent, ' ');
    }
    text += line + wrap(option->get_description(), kIndent, kHelpColumns) + "\n";
  }
  if (!notes_.empty()) text += "\n" + notes_;
  return text;
}

}  // namespace opmeter::tools
