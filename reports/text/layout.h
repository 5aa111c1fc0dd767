// SPDX-License-Identifier: Apache-2.0
// What all terminal views share: units, names cut in the middle, bars, tables, and a page that
// keeps every line within its width. Internal to reports/text.
#ifndef OPMETER_REPORTS_TEXT_LAYOUT_H_
#define OPMETER_REPORTS_TEXT_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/text/text.h"

namespace opmeter::reports::text {

/// "0 B", "512 B", "1.31 MiB": powers of 1024, three digits.
std::string bytes(double value);
inline std::string bytes(uint64_t value) { return bytes(static_cast<double>(value)); }
/// A size that bounds a bin: exact where a whole number of units ("64 KiB"), else in bytes.
std::string edge(uint64_t value);
/// A mean number of calls: "12" when whole, else "41.2".
std::string count(double value);
/// "310 ns", "12.3 us", "8.91 ms", "1.25 s".
std::string duration(double ns);
/// Microseconds with one decimal; "-" when absent.
std::string microseconds(const std::optional<double>& ns);
/// "12.3%".
std::string percent(double fraction);
/// "1 malloc", "2 mallocs".
std::string plural(uint64_t n, const std::string& noun);

/// Columns that `text` takes (code points; escape sequences are not expected here).
size_t columns(std::string_view text);
/// At most `width` columns: the middle is replaced by "...", because the tails of operator names
/// tell them apart. Control characters become "?".
std::string cut_middle(std::string_view text, size_t width);
/// An operator's name for a narrow column: TVM's generated names without the parts that all of them
/// share
/// ("tvmgen_default_fused_nn_contrib_conv2d_NCHWc_add_nn_relu_1" -> "conv2d_NCHWc_add_relu_1").
/// JSON has the whole name.
std::string op_label(std::string_view name);
/// Padded to `width` columns, cut if longer.
std::string left(std::string_view text, size_t width);
std::string right(std::string_view text, size_t width);
/// A bar of fraction * width columns; something visible for every fraction above 0.
std::string bar(double fraction, size_t width, bool utf8);

/// Lines under construction.
class Page {
 public:
  explicit Page(const TextOptions& options);
  const TextOptions& options() const { return options_; }
  size_t width() const { return width_; }

  void line(std::string_view text = {});
  /// Bold.
  void heading(std::string_view text);
  /// Yellow; write the "!" into the text.
  void warning(std::string_view text);
  /// Green.
  void good(std::string_view text);
  /// Words joined by three spaces, wrapped at the width.
  void words(const std::vector<std::string>& parts, std::string_view indent = {});
  /// "... 31 more" with a hint, when a list was cut.
  void more(size_t hidden, std::string_view what);
  std::string take() { return std::move(out_); }

 private:
  void put(std::string_view text, std::string_view color);
  TextOptions options_;
  size_t width_;
  std::string out_;
};

/// A table: columns of fixed width, one of them (width 0) takes what is left.
class Table {
 public:
  struct Column {
    std::string title;
    size_t width = 0;
    bool is_text = false;  ///< left-aligned
  };
  Table(Page& page, std::vector<Column> columns);
  void header();
  void row(const std::vector<std::string>& cells, bool warn = false);

 private:
  std::string format(const std::vector<std::string>& cells) const;
  Page& page_;
  std::vector<Column> columns_;
};

// Pieces of several views.

/// How many rows of `total` a list shows.
size_t shown(const TextOptions& options, size_t total);
/// "opmeter 0.1.0   cnn_09.so   pool caching ..." and where it ran.
void header(Page& page, const Report& report);
/// Lost events, cut stacks, overhead: what limits this report.
void quality(Page& page, const Report& report);
/// The frames of a stack, function left and place right.
void frames(Page& page, const Stack& stack, size_t most);
/// "function" or "module+0x12", and "file.cc:12" or "module".
std::string frame_name(const Frame& frame);
std::string frame_place(const Frame& frame);
/// One line of numbers over a stack's frames.
std::string stack_summary(const Report& report, const Stack& stack);
/// Histogram of one domain: first run and steady runs beside each other, bars by calls.
void histogram(Page& page, const Report& report, Domain domain, size_t most_rows);
/// Counts of a phase and domain.
const Counts& counts(const Report& report, Phase phase, Domain domain);

// The views.
void diag(Page& page, const Report& report);
void ops(Page& page, const Report& report);
void sizes(Page& page, const Report& report);
void stacks(Page& page, const Report& report);
void threads(Page& page, const Report& report);
void timeline(Page& page, const Report& report);

}  // namespace opmeter::reports::text

#endif  // OPMETER_REPORTS_TEXT_LAYOUT_H_
