// SPDX-License-Identifier: Apache-2.0
// What `opmeter doctor` looks at: each check is one question about this machine, with what to do
// when the answer is no. Nothing is changed and nothing is linked for it: drivers are only looked
// for.
#ifndef OPMETER_TOOLS_DOCTOR_CHECKS_H_
#define OPMETER_TOOLS_DOCTOR_CHECKS_H_

#include <string>
#include <vector>

namespace opmeter::tools {

enum class CheckStatus {
  kOk,
  kWarn,     ///< works, but worse than it could; or not needed by this version
  kMissing,  ///< what depends on it does not work
};

struct Check {
  std::string name;
  CheckStatus status = CheckStatus::kOk;
  std::string detail;  ///< what was found
  std::string fix;     ///< what to do; "" when nothing needs doing
};

/// "preload", "unwinder", "symbols": records a child (this executable) and looks at the trace.
std::vector<Check> recording_checks();
/// What that child does: allocates once below a few functions of known names.
int probe_main();

/// CPU, clock, permissions, drivers, noise.
std::vector<Check> machine_checks();

}  // namespace opmeter::tools

#endif  // OPMETER_TOOLS_DOCTOR_CHECKS_H_
