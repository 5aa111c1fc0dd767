// SPDX-License-Identifier: Apache-2.0
// The `opmeter` command: finds the verb, and turns whatever goes wrong into one line on stderr and
// an exit code. What a verb does is in verbs/.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "tools/cli/console.h"
#include "tools/cli/failure.h"
#include "tools/cli/verb.h"

namespace {

namespace tools = opmeter::tools;
using opmeter::ErrorKind;
using opmeter::usage_error;

int dispatch(std::vector<std::string> args) {
  if (args.empty()) throw tools::Failure(usage_error("no command given; see opmeter help"));
  const std::string first = args.front();
  args.erase(args.begin());
  if (first == "-h" || first == "--help") return tools::help_main(args);
  if (first == "-V" || first == "--version") return tools::help_main({"--version"});
  if (first.rfind('-', 0) == 0) {
    throw tools::Failure(usage_error(fmt::format(
        "option {} comes before the command; write opmeter COMMAND {} ...", first, first)));
  }
  return tools::find_verb(first).main(args);
}

int guarded(const std::vector<std::string>& args) {
  try {
    return dispatch(args);
  } catch (const tools::Failure& failure) {
    tools::say(failure.what());
    return failure.exit_code();
  } catch (const std::bad_alloc&) {
    tools::say("out of memory; give a smaller input or more memory");
  } catch (const std::exception& error) {
    tools::say(fmt::format("internal error: {}; please report it", error.what()));
  }
  return static_cast<int>(ErrorKind::kInput);
}

}  // namespace

int main(int argc, char** argv) {
  const int code = guarded(std::vector<std::string>(argv + 1, argv + argc));
  // A full disk behind a redirection shows up only here.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    tools::say(fmt::format("cannot write to standard output: {}; free space or use -o",
                           std::strerror(errno)));
    return code != 0 ? code : static_cast<int>(ErrorKind::kInput);
  }
  return code;
}
