// SPDX-License-Identifier: Apache-2.0
// Failure: how a verb gives up. main turns it into one line on stderr and an exit code, so no verb
// prints its own errors. Libraries return Result; the command may throw.
#ifndef OPMETER_TOOLS_CLI_FAILURE_H_
#define OPMETER_TOOLS_CLI_FAILURE_H_

#include <exception>
#include <string>
#include <utility>

#include "opmeter/result.h"

namespace opmeter::tools {

/// Exit codes of the command beside those of ErrorKind.
enum ExitCode : int {
  kExitOk = 0,
  kExitGateFailed = 1,      ///< an expectation or a gate did not hold
  kExitRecordFailed = 125,  ///< `record`: Opmeter itself failed, as env and timeout say it
};

class Failure : public std::exception {
 public:
  Failure(int exit_code, std::string message)
      : exit_code_(exit_code), message_(std::move(message)) {}
  explicit Failure(Error error) : Failure(static_cast<int>(error.kind), std::move(error.message)) {}

  int exit_code() const { return exit_code_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  int exit_code_;
  std::string message_;
};

/// The value, or a Failure with the error's line and exit code.
template <typename T>
T value_or_fail(Result<T> result) {
  if (!result) throw Failure(result.error());
  return std::move(result).value();
}
inline void check(const Status& status) {
  if (!status) throw Failure(status.error());
}

}  // namespace opmeter::tools

#endif  // OPMETER_TOOLS_CLI_FAILURE_H_
