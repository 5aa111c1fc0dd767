// SPDX-License-Identifier: Apache-2.0
// Pieces that several views of the terminal report show: header, quality, histogram, frames.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "reports/text/layout.h"

namespace opmeter::reports::text {
namespace {

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// One row of a histogram.
struct Bin {
  uint64_t min_bytes = 0, max_bytes = 0;
  uint64_t calls = 0, bytes = 0;  // shown phases together
  uint64_t first = 0, steady = 0;
};

/// A size limit as the recorder wrote it: a number of bytes, or words.
std::string limit(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? bytes(value) : text;
}

/// What is missing, in a few words; "" when nothing is.
std::string what_is_missing(const Report& report) {
  const Quality& q = report.quality;
  const Context& c = report.context;
  std::vector<std::string> parts;
  if (!c.kept_last.empty()) parts.push_back("only the last " + limit(c.kept_last) + " kept");
  if (!c.stopped_at.empty()) parts.push_back("stopped at the limit of " + limit(c.stopped_at));
  if (q.damaged_blocks > 0) parts.push_back(plural(q.damaged_blocks, "damaged block"));
  if (q.lost_events > 0) parts.push_back(plural(q.lost_events, "lost event"));
  if (q.gaps > 0) parts.push_back(plural(q.gaps, "gap"));
  if (parts.empty() && !q.complete) {
    parts.push_back(q.note.empty() ? "the trace ends without its trailer" : q.note);
  }
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

/// Joins neighbours until at most `most` rows are left; zero stays apart.
void merge_bins(std::vector<Bin>& bins, size_t most) {
  while (bins.size() > most) {
    // Join the two neighbours with the fewest calls together.
    size_t best = 0;
    uint64_t fewest = UINT64_MAX;
    for (size_t i = bins.front().min_bytes == 0 ? 1 : 0; i + 1 < bins.size(); ++i) {
      const uint64_t together = bins[i].calls + bins[i + 1].calls;
      if (together < fewest) {
        fewest = together;
        best = i;
      }
    }
    if (fewest == UINT64_MAX) return;
    Bin& into = bins[best];
    const Bin& from = bins[best + 1];
    into.max_bytes = from.max_bytes;
    into.calls += from.calls;
    into.bytes += from.bytes;
    into.first += from.first;
    into.steady += from.steady;
    bins.erase(bins.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

}  // namespace

size_t shown(const TextOptions& options, size_t total) {
  return options.all ? total : std::min(options.top, total);
}

const Counts& counts(const Report& report, Phase phase, Domain domain) {
  return report.phases[static_cast<size_t>(phase)][static_cast<size_t>(domain)];
}

void header(Page& page, const Report& report) {
  const Context& c = report.context;
  std::string command;
  for (const std::string& word : c.command) command += (command.empty() ? "" : " ") + word;
  page.words({"opmeter" + (c.opmeter_version.empty() ? "" : " " + c.opmeter_version),
              c.model.empty() ? "" : base_name(c.model), c.pool.empty() ? "" : "pool " + c.pool,
              c.device.empty() ? "" : "device " + c.device,
              c.model.empty() ? "" : fmt::format("threads {}", c.threads)});
  if (c.model.empty() && !command.empty()) page.line(command);
  page.words(
      {c.trace.empty() ? "" : base_name(c.trace), c.pid == 0 ? "" : fmt::format("pid {}", c.pid),
       c.host.empty() ? "" : "host " + c.host,
       c.cpus == 0 ? "" : plural(static_cast<uint64_t>(c.cpus), "CPU"), c.allocator,
       c.duration_ns == 0 ? "" : duration(static_cast<double>(c.duration_ns)) + " recorded"});
  if (const std::string missing = what_is_missing(report); !missing.empty()) {
    page.warning("! Incomplete, totals are lower bounds: " + missing + ".");
  }
  std::vector<std::string> limits;
  if (report.quality.sampled_interval_bytes) {
    limits.push_back(fmt::format("Heap counts are estimated (sampled every {}).",
                                 edge(*report.quality.sampled_interval_bytes)));
  }
  if (c.scope == "runs") limits.push_back("Outside runs nothing was recorded.");
  if (!limits.empty()) page.words(limits);
}

void quality(Page& page, const Report& report) {
  const Quality& q = report.quality;
  std::vector<std::string> words = {fmt::format("lost events {}", q.lost_events),
                                    fmt::format("cut stacks {}", q.cut_stacks),
                                    fmt::format("frames without a name {}", q.unresolved_frames)};
  if (q.overhead_per_event_ns) {
    words.push_back(q.overhead_share
                        ? fmt::format("overhead {} of run ({} an event)",
                                      percent(*q.overhead_share),
                                      duration(*q.overhead_per_event_ns))
                        : fmt::format("overhead {} an event", duration(*q.overhead_per_event_ns)));
  }
  page.words(words);
  if (q.lost_events > 0) {
    page.warning(fmt::format("! {} lost: every count here is a lower bound.",
                             plural(q.lost_events, "event")));
  }
  if (q.damaged_blocks > 0) {
    page.warning(
        fmt::format("! {} of the trace damaged and left out.", plural(q.damaged_blocks, "block")));
  }
  if (!q.complete && !q.note.empty()) {
    page.warning("! The trace is not complete: " + q.note + ".");
  }
  if (q.inferred_context > 0) {
    page.line(fmt::format("{} of threads without a context charged to the only open run",
                          plural(q.inferred_context, "event")));
  }
  if (q.reused_addresses > 0) {
    page.line(fmt::format("{} at addresses whose release is not in the trace",
                          plural(q.reused_addresses, "allocation")));
  }
  const size_t most = page.options().all ? q.symbol_problems.size() : 2;
  for (size_t i = 0; i < std::min(most, q.symbol_problems.size()); ++i) {
    page.line("no names: " + q.symbol_problems[i]);
  }
  if (q.symbol_problems.size() > most) {
    page.more(q.symbol_problems.size() - most, "modules without names");
  }
}

std::string frame_name(const Frame& frame) {
  if (!frame.function.empty()) return frame.function;
  const std::string module = frame.module.empty() ? "(no module)" : base_name(frame.module);
  return fmt::format("{}+0x{:x}", module, frame.module_offset);
}

std::string frame_place(const Frame& frame) {
  if (!frame.file.empty()) {
    return frame.line != 0 ? fmt::format("{}:{}", base_name(frame.file), frame.line)
                           : base_name(frame.file);
  }
  if (frame.function.empty()) return {};
  return frame.module.empty()
             ? std::string()
             : fmt::format("{}+0x{:x}", base_name(frame.module), frame.module_offset);
}

void frames(Page& page, const Stack& stack, size_t most) {
  if (stack.frames.empty()) {
    page.line("    (no stack was recorded)");
    return;
  }
  const size_t n = std::min(most, stack.frames.size());
  for (size_t i = 0; i < n; ++i) {
    const Frame& frame = stack.frames[i];
    std::string place = cut_middle(frame_place(frame), page.width() / 3);
    if (frame.inlined) place += " [inlined]";
    const size_t room = page.width() - 4 - (place.empty() ? 0 : columns(place) + 2);
    std::string text = "    " + left(frame_name(frame), room);
    if (!place.empty()) text += "  " + place;
    page.line(text);
  }
  if (n < stack.frames.size()) {
    page.line(fmt::format("    ... {}", plural(stack.frames.size() - n, "outer frame")));
  }
  if (stack.cut) page.line("    ... (outer frames were not recorded)");
}

std::string stack_summary(const Report& report, const Stack& stack) {
  std::string text;
  if (report.runs.count > 0) {
    text = fmt::format("first run {} / {}", stack.first_run_calls, bytes(stack.first_run_bytes));
    if (report.runs.steady > 0) {
      const double runs = static_cast<double>(report.runs.steady);
      text += fmt::format(", steady {} / {} a run",
                          count(static_cast<double>(stack.steady_calls) / runs),
                          bytes(static_cast<double>(stack.steady_bytes) / runs));
    }
    text += fmt::format(", all {} / {}", stack.calls, bytes(stack.bytes));
  } else {
    text = fmt::format("{} / {}", plural(stack.calls, "call"), bytes(stack.bytes));
  }
  return text;
}

void histogram(Page& page, const Report& report, Domain domain, size_t most_rows) {
  const bool with_runs = report.runs.count > 0;
  std::map<uint64_t, Bin> by_size;
  for (const SizeBin& size : report.sizes) {
    if (size.domain != domain) continue;
    // Inside runs, where there are any: load would drown them.
    const bool in_run =
        size.phase == Phase::kFirst || size.phase == Phase::kWarmup || size.phase == Phase::kSteady;
    if (with_runs && !in_run) continue;
    Bin& bin = by_size[size.min_bytes];
    bin.min_bytes = size.min_bytes;
    bin.max_bytes = size.max_bytes;
    bin.calls += size.calls;
    bin.bytes += size.bytes;
    if (size.phase == Phase::kFirst) bin.first += size.calls;
    if (size.phase == Phase::kSteady) bin.steady += size.calls;
  }
  std::vector<Bin> bins;
  for (const auto& [size, bin] : by_size) bins.push_back(bin);
  if (bins.empty()) {
    page.line("  none");
    return;
  }
  merge_bins(bins, most_rows);
  uint64_t most_calls = 1;
  for (const Bin& bin : bins) most_calls = std::max(most_calls, bin.calls);
  const double full = std::log10(static_cast<double>(most_calls) + 1);
  const size_t number = 9;
  const size_t bar_width = page.width() - 22 - 1 - (with_runs ? 2 : 1) * (number + 1) - 10;
  page.line(left("  size", 23) + left("calls (log)", bar_width) + " " +
            (with_runs ? right("first run", number) + " " + right("steady", number)
                       : right("calls", number)) +
            right("bytes", 10));
  for (const Bin& bin : bins) {
    const std::string range =
        bin.max_bytes <= 1 ? "0 B" : edge(bin.min_bytes) + " - " + edge(bin.max_bytes);
    std::string text = right(range, 22) + " ";
    text += left(
        bar(std::log10(static_cast<double>(bin.calls) + 1) / full, bar_width, page.options().utf8),
        bar_width);
    text += " ";
    if (with_runs) {
      const double steady = report.runs.steady > 0 ? static_cast<double>(bin.steady) /
                                                         static_cast<double>(report.runs.steady)
                                                   : 0;
      text += right(fmt::format("{}", bin.first), number) + " " + right(count(steady), number);
    } else {
      text += right(fmt::format("{}", bin.calls), number);
    }
    text += right(bytes(bin.bytes), 10);
    page.line(text);
  }
}

}  // namespace opmeter::reports::text
