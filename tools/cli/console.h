// SPDX-License-Identifier: Apache-2.0
// What the command says and where: results on stdout (or in the file of -o), everything else on
// stderr in whole lines that begin with "opmeter: ".
#ifndef OPMETER_TOOLS_CLI_CONSOLE_H_
#define OPMETER_TOOLS_CLI_CONSOLE_H_

#include <string>
#include <string_view>

namespace opmeter::tools {

/// One line on stderr. Line breaks and control characters in `text` (file names may hold any)
/// become spaces.
void say(std::string_view text);

/// Whether a result on stdout is coloured: `mode` is auto, always or never. auto: a terminal that
/// is not dumb, and NO_COLOR is unset or empty.
bool use_color(std::string_view mode);

/// Columns of the terminal behind stdout, at least 80; 80 for anything else.
int output_columns();

/// Writes a result to stdout, or to `path` when it is not empty. An existing file is replaced only
/// with `force`. Throws Failure.
void write_result(std::string_view text, const std::string& path, bool force);

/// "1.2 KiB", "0 B": for people, three significant digits.
std::string human_bytes(unsigned long long bytes);
/// "950 ns", "12.3 us", "4.56 ms", "1.23 s".
std::string human_time(double ns);

}  // namespace opmeter::tools

#endif  // OPMETER_TOOLS_CLI_CONSOLE_H_
