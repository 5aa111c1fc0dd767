// SPDX-License-Identifier: Apache-2.0
#include "reports/text/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace opmeter::reports::text {
namespace {

/// Three significant digits, never fewer than the whole number has.
std::string three_digits(double value) {
  if (value >= 100) return fmt::format("{:.0f}", value);
  if (value >= 10) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/// Start offsets of the code points, and the end.
std::vector<size_t> code_points(std::string_view text) {
  std::vector<size_t> starts;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!is_continuation(text[i])) starts.push_back(i);
  }
  starts.push_back(text.size());
  return starts;
}

}  // namespace

std::string bytes(double value) {
  constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  // 1023.5 would print as "1024 KiB".
  while (value >= (unit == 0 ? 1024 : 1023.5) && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) {
    return value == std::floor(value) ? fmt::format("{:.0f} B", value)
                                      : fmt::format("{:.1f} B", value);
  }
  return three_digits(value) + " " + kUnits[unit];
}

std::string edge(uint64_t value) {
  constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (value == UINT64_MAX) return "more";
  size_t unit = 0;
  while (value >= 1024 && value % 1024 == 0 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", value, kUnits[unit]);
}

std::string count(double value) {
  if (value == std::floor(value) && value < 1e15) return fmt::format("{:.0f}", value);
  return value < 0.1 ? fmt::format("{:.3f}", value) : fmt::format("{:.1f}", value);
}

std::string duration(double ns) {
  if (ns < 1000) return fmt::format("{:.0f} ns", ns);
  if (ns < 999.5e3) return three_digits(ns / 1e3) + " us";
  if (ns < 999.5e6) return three_digits(ns / 1e6) + " ms";
  return three_digits(ns / 1e9) + " s";
}

std::string microseconds(const std::optional<double>& ns) {
  return ns ? fmt::format("{:.1f}", *ns / 1000) : "-";
}

std::string percent(double fraction) { return fmt::format("{:.1f}%", fraction * 100); }

std::string plural(uint64_t n, const std::string& noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

size_t columns(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

std::string cut_middle(std::string_view text, size_t width) {
  std::string clean(text);
  for (char& c : clean) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  const std::vector<size_t> starts = code_points(clean);
  const size_t length = starts.size() - 1;
  if (length <= width) return clean;
  if (width <= 3) return clean.substr(0, starts[width]);
  const size_t kept = width - 3;
  const size_t head = (kept + 1) / 2;
  return clean.substr(0, starts[head]) + "..." + clean.substr(starts[length - (kept - head)]);
}

std::string op_label(std::string_view name) {
  constexpr std::string_view kGenerated = "tvmgen_";
  std::string label(name);
  if (name.starts_with(kGenerated)) {
    // tvmgen_MODULE_FUNCTION
    const size_t function = name.find('_', kGenerated.size());
    if (function == std::string_view::npos || function + 1 == name.size()) return label;
    label = label.substr(function + 1);
  }
  if (!label.starts_with("fused_")) return label;
  std::string kept;
  for (size_t at = sizeof "fused_" - 1; at < label.size();) {
    const size_t end = std::min(label.find('_', at), label.size());
    const std::string part = label.substr(at, end - at);
    if (part != "nn" && part != "contrib") kept += (kept.empty() ? "" : "_") + part;
    at = end + 1;
  }
  return kept.empty() ? label : kept;
}

std::string left(std::string_view text, size_t width) {
  std::string cut = cut_middle(text, width);
  cut.append(width - columns(cut), ' ');
  return cut;
}

std::string right(std::string_view text, size_t width) {
  const std::string cut = cut_middle(text, width);
  return std::string(width - columns(cut), ' ') + cut;
}

std::string bar(double fraction, size_t width, bool utf8) {
  fraction = std::clamp(fraction, 0.0, 1.0);
  if (fraction == 0) return {};
  if (!utf8) {
    const auto n = static_cast<size_t>(std::lround(fraction * static_cast<double>(width)));
    return std::string(std::max<size_t>(1, n), '#');
  }
  constexpr std::array<const char*, 8> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = std::max<size_t>(
      1, static_cast<size_t>(std::lround(fraction * static_cast<double>(width * 8))));
  std::string text;
  for (size_t i = 0; i < eighths / 8; ++i) text += "█";
  return text + kEighths[eighths % 8];
}

// --- Page
// -----------------------------------------------------------------------------------------

Page::Page(const TextOptions& options)
    : options_(options), width_(std::max<size_t>(60, options.width)) {}

void Page::put(std::string_view text, std::string_view color) {
  std::string cut = cut_middle(text, width_);
  while (!cut.empty() && cut.back() == ' ') cut.pop_back();
  if (options_.color && !color.empty() && !cut.empty()) {
    out_ += fmt::format("\x1b[{}m{}\x1b[0m\n", color, cut);
  } else {
    out_ += cut + "\n";
  }
}

void Page::line(std::string_view text) { put(text, {}); }
void Page::heading(std::string_view text) { put(text, "1"); }
void Page::warning(std::string_view text) { put(text, "33"); }
void Page::good(std::string_view text) { put(text, "32"); }

void Page::words(const std::vector<std::string>& parts, std::string_view indent) {
  std::string current(indent);
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    const bool fresh = columns(current) == columns(indent);
    if (!fresh && columns(current) + 3 + columns(part) > width_) {
      line(current);
      current = indent;
    } else if (!fresh) {
      current += "   ";
    }
    current += part;
  }
  if (columns(current) > columns(indent)) line(current);
}

void Page::more(size_t hidden, std::string_view what) {
  if (hidden > 0) line(fmt::format("  ... {} more {} (--all shows them)", hidden, what));
}

// --- Table
// ----------------------------------------------------------------------------------------

Table::Table(Page& page, std::vector<Column> columns) : page_(page), columns_(std::move(columns)) {
  size_t used = columns_.size() - 1;  // one blank between columns
  for (const Column& column : columns_) used += column.width;
  for (Column& column : columns_) {
    if (column.width == 0) column.width = page.width() > used + 8 ? page.width() - used : 8;
  }
}

std::string Table::format(const std::vector<std::string>& cells) const {
  std::string text;
  for (size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    const std::string& cell = i < cells.size() ? cells[i] : std::string();
    if (i > 0) text += ' ';
    text += column.is_text ? left(cell, column.width) : right(cell, column.width);
  }
  return text;
}

void Table::header() {
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  page_.line(format(titles));
}

void Table::row(const std::vector<std::string>& cells, bool warn) {
  warn ? page_.warning(format(cells)) : page_.line(format(cells));
}

}  // namespace opmeter::reports::text
