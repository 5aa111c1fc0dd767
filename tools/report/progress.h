// SPDX-License-Identifier: Apache-2.0
// How far the analysis of a long trace is: one line on a terminal that is drawn over itself and is
// gone in the end. Short work shows nothing.
#ifndef OPMETER_TOOLS_REPORT_PROGRESS_H_
#define OPMETER_TOOLS_REPORT_PROGRESS_H_

#include <cstdint>
#include <functional>
#include <string>

namespace opmeter::tools {

/// "analysing  [######......]  52%  41.2 M of 79.0 M events, 2 s left", at most `columns` wide.
std::string progress_line(uint64_t done, uint64_t of, uint64_t elapsed_ns, int columns);

class Progress {
 public:
  /// Writes to `fd` if it is a terminal and `wanted`. `now_ns` is a clock that never goes back.
  Progress(int fd, bool wanted, std::function<uint64_t()> now_ns);
  /// Clears the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Cheap enough for every few hundred events.
  void update(uint64_t done, uint64_t of);

 private:
  int fd_;
  bool on_;
  bool drawn_ = false;
  std::function<uint64_t()> now_ns_;
  uint64_t begin_ns_ = 0, next_ns_ = 0;
};

}  // namespace opmeter::tools

#endif  // OPMETER_TOOLS_REPORT_PROGRESS_H_
