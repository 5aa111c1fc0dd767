// SPDX-License-Identifier: Apache-2.0
// text.h: keeps messages that quote a file's own strings to one printable line.
#ifndef OPMETER_RUNTIME_TVM_TEXT_H_
#define OPMETER_RUNTIME_TVM_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace opmeter::runtime {

/// Line ends become spaces, other control characters '?', and more than `limit` bytes are cut.
inline std::string one_line(std::string_view text, std::size_t limit = 600) {
  std::string line(text.substr(0, limit));
  for (char& c : line) {
    if (c == '\n' || c == '\r' || c == '\t') {
      c = ' ';
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      c = '?';
    }
  }
  if (text.size() > limit) line += "...";
  return line;
}

}  // namespace opmeter::runtime

#endif  // OPMETER_RUNTIME_TVM_TEXT_H_
