// SPDX-License-Identifier: Apache-2.0
// See progress.h.
#include "tools/report/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace opmeter::tools {
namespace {

constexpr uint64_t kPatienceNs = 1'000'000'000;  // what ends sooner needs no line
constexpr uint64_t kStepNs = 100'000'000;

bool is_terminal(int fd) {
  const char* term = std::getenv("TERM");
  return isatty(fd) != 0 && (term == nullptr || std::string_view(term) != "dumb");
}

int columns_of(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void put(int fd, std::string_view text) {
  // A terminal that takes nothing must not stop the analysis.
  [[maybe_unused]] const ssize_t ignored = write(fd, text.data(), text.size());
}

}  // namespace

std::string progress_line(uint64_t done, uint64_t of, uint64_t elapsed_ns, int columns) {
  done = std::min(done, of);
  const double fraction = of == 0 ? 1 : static_cast<double>(done) / static_cast<double>(of);
  constexpr size_t kBar = 20;
  const auto full = static_cast<size_t>(fraction * kBar);
  const double left_s =
      fraction > 0 ? static_cast<double>(elapsed_ns) * 1e-9 / fraction * (1 - fraction) : 0;
  std::string line =
      fmt::format("analysing  [{}{}] {:3.0f}%  {:.1f} M of {:.1f} M events, {:.0f} s left",
                  std::string(full, '#'), std::string(kBar - full, '.'), 100 * fraction,
                  static_cast<double>(done) * 1e-6, static_cast<double>(of) * 1e-6, left_s);
  // The last column stays free: some terminals begin a new line when it is written.
  const auto room = static_cast<size_t>(std::max(columns - 1, 0));
  if (line.size() > room) line.resize(room);
  return line;
}

Progress::Progress(int fd, bool wanted, std::function<uint64_t()> now_ns)
    : fd_(fd), on_(wanted && is_terminal(fd)), now_ns_(std::move(now_ns)) {
  if (!on_) return;
  begin_ns_ = now_ns_();
  next_ns_ = begin_ns_ + kPatienceNs;
}

Progress::~Progress() {
  if (drawn_) put(fd_, "\r\x1b[K");
}

void Progress::update(uint64_t done, uint64_t of) {
  if (!on_) return;
  const uint64_t now = now_ns_();
  if (now < next_ns_) return;
  next_ns_ = now + kStepNs;
  put(fd_, "\r" + progress_line(done, of, now - begin_ns_, columns_of(fd_)) + "\x1b[K");
  drawn_ = true;
}

}  // namespace opmeter::tools
