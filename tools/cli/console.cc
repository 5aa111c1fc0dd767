// SPDX-License-Identifier: Apache-2.0
// See console.h.
#include "tools/cli/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tools/cli/failure.h"

namespace opmeter::tools {

void say(std::string_view text) {
  std::string line = "opmeter: ";
  for (const char c : text) {
    line += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  while (line.back() == ' ') line.pop_back();
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

bool use_color(std::string_view mode) {
  if (mode == "always") return true;
  if (mode == "never") return false;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == 0) && term != nullptr &&
         std::strcmp(term, "dumb") != 0;
}

int output_columns() {
  constexpr int kNarrowest = 80;
  winsize size{};
  if (isatty(STDOUT_FILENO) != 1 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return kNarrowest;
  return size.ws_col > kNarrowest ? size.ws_col : kNarrowest;
}

void write_result(std::string_view text, const std::string& path, bool force) {
  if (path.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return;  // main looks at stdout's state once, at the end
  }
  if (!force && std::filesystem::exists(path)) {
    throw Failure(usage_error(path + " exists; use -f to replace it or -o to name another"));
  }
  std::FILE* file = std::fopen(path.c_str(), "wb");
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  int error = errno;
  if (file != nullptr && std::fclose(file) != 0) {
    error = written ? errno : error;
    written = false;
  }
  if (!written) {
    throw Failure(input_error(fmt::format("cannot write {}: {}; free space or name another with -o",
                                          path, std::strerror(error))));
  }
}

std::string human_bytes(unsigned long long bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, units[unit]);
}

std::string human_time(double ns) {
  const char* const units[] = {"ns", "us", "ms", "s"};
  size_t unit = 0;
  while (ns >= 999.5 && unit + 1 < std::size(units)) {
    ns /= 1000;
    ++unit;
  }
  const int digits = unit == 0 || ns >= 99.95 ? 0 : ns >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", ns, digits, units[unit]);
}

}  // namespace opmeter::tools
