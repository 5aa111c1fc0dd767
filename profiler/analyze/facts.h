// SPDX-License-Identifier: Apache-2.0
// What the recorder wrote down about itself and the machine: texts and numbers by key.
#ifndef OPMETER_PROFILER_ANALYZE_FACTS_H_
#define OPMETER_PROFILER_ANALYZE_FACTS_H_

#include <charconv>
#include <optional>
#include <string>

#include "profiler/trace/event.h"

namespace opmeter::analyze {

/// "" when the trace does not say.
inline std::string fact(const trace::Definitions& definitions, const std::string& key) {
  const auto found = definitions.info.find(key);
  return found == definitions.info.end() ? std::string() : found->second;
}

/// Absent when the trace does not say, or says no such number.
template <typename Number>
std::optional<Number> fact(const trace::Definitions& definitions, const std::string& key) {
  const std::string text = fact(definitions, key);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace opmeter::analyze

#endif  // OPMETER_PROFILER_ANALYZE_FACTS_H_
