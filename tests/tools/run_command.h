// SPDX-License-Identifier: Apache-2.0
// Runs the built `opmeter` command as a user would and keeps what it said: exit code, stdout,
// stderr.
#ifndef OPMETER_TESTS_TOOLS_RUN_COMMAND_H_
#define OPMETER_TESTS_TOOLS_RUN_COMMAND_H_

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace opmeter::tests {

struct Said {
  int exit_code = 0;
  std::string out, err;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// A directory of this test's own, gone with it.
class ScratchDir {
 public:
  ScratchDir() {
    std::string name = (std::filesystem::temp_directory_path() / "opmeter-tools-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~ScratchDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// `words` go through the shell: quote what needs it. "opmeter" is the built command. The working
/// directory is `dir`'s, so that files without a place do not end up in the build.
inline Said run_shell(const ScratchDir& dir, const std::string& words) {
  const std::string out = dir.file(".out"), err = dir.file(".err");
  const std::string script = "cd '" + dir.file("") +
                             "' && export PATH=\"" OPMETER_BIN_DIR
                             ":$PATH\" && unset NO_COLOR OPMETER_PRELOAD && { " +
                             words + "\n} >'" + out + "' 2>'" + err + "'";
  const int status = std::system(script.c_str());  // NOLINT: the shell is wanted
  Said said;
  said.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  said.out = read_file(out);
  said.err = read_file(err);
  return said;
}

/// The bundled models are x86-64 code that uses AVX2.
inline bool machine_runs_models() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") != 0;
#else
  return false;
#endif
}

#define OPMETER_SKIP_WITHOUT_AVX2() \
  if (!::opmeter::tests::machine_runs_models()) GTEST_SKIP() << "the bundled models need AVX2"

inline size_t count_lines(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

/// Columns of the widest line, code points counted.
inline size_t widest_line(const std::string& text) {
  size_t widest = 0, now = 0;
  for (const char c : text) {
    if (c == '\n')
      now = 0;
    else if ((static_cast<unsigned char>(c) & 0xc0) != 0x80)
      widest = std::max(widest, ++now);
  }
  return widest;
}

}  // namespace opmeter::tests

#endif  // OPMETER_TESTS_TOOLS_RUN_COMMAND_H_
