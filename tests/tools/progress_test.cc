// SPDX-License-Identifier: Apache-2.0
// The progress line: on terminals only, after a second, cut to the width, gone in the end.
#include "tools/report/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

namespace opmeter::tools {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

/// A pseudo-terminal, of which we are the screen.
class Screen {
 public:
  Screen() {
    if (openpty(&master_, &terminal_, nullptr, nullptr, nullptr) != 0) return;
    fcntl(master_, F_SETFL, O_NONBLOCK);
  }
  ~Screen() {
    close(master_);
    close(terminal_);
  }
  int terminal() const { return terminal_; }
  std::string text() const {
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = read(master_, buffer, sizeof buffer)) > 0;) {
      text.append(buffer, static_cast<size_t>(n));
    }
    return text;
  }

 private:
  int master_ = -1, terminal_ = -1;
};

TEST(Progress, IsDrawnOnATerminalAfterASecondAndClearedInTheEnd) {
  const Screen screen;
  ASSERT_GE(screen.terminal(), 0);
  uint64_t now = 5;
  {
    Progress progress(screen.terminal(), true, [&] { return now; });
    now += 900'000'000;
    progress.update(9, 100);
    EXPECT_EQ(screen.text(), "");
    now += 200'000'000;
    progress.update(50'000'000, 100'000'000);
    EXPECT_THAT(screen.text(), HasSubstr(" 50%  50.0 M of 100.0 M events, 1 s left"));
    progress.update(60'000'000, 100'000'000);
    EXPECT_EQ(screen.text(), "") << "not more often than a reader can see";
  }
  EXPECT_THAT(screen.text(), EndsWith("\r\x1b[K"));
}

TEST(Progress, IsSilentWhereNobodyLooksAndWhereNobodyWants) {
  const Screen screen;
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK);
  uint64_t now = 0;
  for (const auto& [fd, wanted] : {std::pair{pipe_fds[1], true}, {screen.terminal(), false}}) {
    Progress progress(fd, wanted, [&] { return now; });
    now += 10'000'000'000;
    progress.update(1, 2);
  }
  char byte;
  EXPECT_LT(read(pipe_fds[0], &byte, 1), 0);
  EXPECT_EQ(screen.text(), "");
  close(pipe_fds[0]);
  close(pipe_fds[1]);
}

TEST(Progress, TheLineFitsAndSurvivesOddNumbers) {
  for (const int columns : {0, 1, 20, 80, 200}) {
    for (const uint64_t done : {uint64_t{0}, uint64_t{1}, uint64_t{5}, UINT64_MAX}) {
      for (const uint64_t of : {uint64_t{0}, uint64_t{3}, UINT64_MAX}) {
        EXPECT_LE(progress_line(done, of, 1, columns).size(), static_cast<size_t>(columns));
      }
    }
  }
  EXPECT_THAT(progress_line(5, 3, 1, 100), HasSubstr("100%"));
}

}  // namespace
}  // namespace opmeter::tools
