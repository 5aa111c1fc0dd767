// SPDX-License-Identifier: Apache-2.0
// `opmeter doctor`: what works on this machine, and what to do about what does not.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "reports/json.h"
#include "tools/cli/arguments.h"
#include "tools/cli/console.h"
#include "tools/cli/failure.h"
#include "tools/cli/verb.h"
#include "tools/doctor/checks.h"

namespace opmeter::tools {
namespace {

const char* status_word(CheckStatus status) {
  switch (status) {
    case CheckStatus::kOk:
      return "ok";
    case CheckStatus::kWarn:
      return "warn";
    case CheckStatus::kMissing:
      return "missing";
  }
  return "";
}

std::string as_json(const std::vector<Check>& checks) {
  nlohmann::ordered_json json;
  json["schema"] = "opmeter.doctor/1";
  json["opmeter_version"] = OPMETER_VERSION;
  json["checks"] = nlohmann::ordered_json::array();
  for (const Check& check : checks) {
    json["checks"].push_back({{"name", check.name},
                              {"status", status_word(check.status)},
                              {"detail", check.detail},
                              {"fix", check.fix}});
  }
  return reports::dump_json(json);
}

std::string as_text(const std::vector<Check>& checks, bool color) {
  constexpr size_t kIndent = 20, kColumns = 80;
  std::string text;
  for (const Check& check : checks) {
    const char* const paint = check.status == CheckStatus::kOk     ? "\x1b[32m"
                              : check.status == CheckStatus::kWarn ? "\x1b[33m"
                                                                   : "\x1b[31m";
    text += fmt::format("{}{:<8}{}{:<12}{}\n", color ? paint : "", status_word(check.status),
                        color ? "\x1b[0m" : "", check.name, wrap(check.detail, kIndent, kColumns));
    if (!check.fix.empty()) {
      text += std::string(kIndent, ' ') + wrap("-> " + check.fix, kIndent, kColumns) + "\n";
    }
  }
  return text;
}

}  // namespace

int doctor_main(const VerbArgs& args) {
  CommonOptions common;
  bool probe = false;
  Arguments arguments("doctor", "doctor [options]",
                      "What works on this machine: recording, unwinding, symbols, permissions, "
                      "drivers.");
  arguments.hidden_flag("--probe", probe);  // the child that is recorded
  arguments.add_common(common, kJson | kResultFile);
  arguments.set_notes(
      "ok: works. warn: works, but worse than it could, or only a later version needs\n"
      "it. missing: recording does not work here; the exit code is then 5.\n");
  if (!arguments.parse(args)) return kExitOk;
  if (probe) return probe_main();

  std::vector<Check> checks = recording_checks();
  bool works = true;
  for (const Check& check : checks) works = works && check.status != CheckStatus::kMissing;
  for (Check& check : machine_checks()) checks.push_back(std::move(check));
  const bool color = common.output.empty() ? use_color(common.color) : common.color == "always";
  write_result(common.json ? as_json(checks) : as_text(checks, color), common.output, common.force);
  return works ? kExitOk : static_cast<int>(ErrorKind::kUnavailable);
}

}  // namespace opmeter::tools
