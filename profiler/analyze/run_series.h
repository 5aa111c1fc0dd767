// SPDX-License-Identifier: Apache-2.0
// Values per run, folded into phases later: where warm-up ends is known only after the last run,
// but the events are read once. Equal values of consecutive runs share one segment, so a steady
// state of a million runs costs as much memory as one run.
//
//     run      1    2    3    4    5    6          segments
//     calls   24    4    0    0    0    0          [1,1]=24  [2,2]=4  [3,6]=0
#ifndef OPMETER_PROFILER_ANALYZE_RUN_SERIES_H_
#define OPMETER_PROFILER_ANALYZE_RUN_SERIES_H_

#include <cstdint>
#include <vector>

#include "reports/model.h"

namespace opmeter::analyze {

/// Which phase each run of one graph belongs to. Runs are numbered from 1.
class PhaseTable {
 public:
  PhaseTable() = default;
  /// phases[i] is the phase of run i + 1.
  explicit PhaseTable(std::vector<reports::Phase> phases) : phases_(std::move(phases)) {
    for (auto& counts : before_) counts.reserve(phases_.size() + 1);
    std::array<uint64_t, reports::kPhases> running{};
    for (size_t i = 0; i <= phases_.size(); ++i) {
      for (size_t p = 0; p < reports::kPhases; ++p) before_[p].push_back(running[p]);
      if (i < phases_.size()) ++running[static_cast<size_t>(phases_[i])];
    }
  }

  reports::Phase of(uint32_t run) const { return phases_[run - 1]; }
  uint64_t runs() const { return phases_.size(); }
  uint64_t runs(reports::Phase phase) const {
    return phases_.empty() ? 0 : before_[static_cast<size_t>(phase)].back();
  }
  /// How many of the runs first..last (inclusive) are of `phase`.
  uint64_t runs(reports::Phase phase, uint32_t first, uint32_t last) const {
    const auto& before = before_[static_cast<size_t>(phase)];
    return before[last] - before[first - 1];
  }

 private:
  std::vector<reports::Phase> phases_;
  std::array<std::vector<uint64_t>, reports::kPhases> before_;
};

/// One value per run; runs without one count as zero. V needs operator==.
template <typename V>
class RunSeries {
 public:
  struct Segment {
    uint32_t first = 0, last = 0;  ///< runs, inclusive
    V each{};                      ///< the value of every one of them
  };

  void add(uint32_t run, const V& value) {
    if (!segments_.empty()) {
      Segment& back = segments_.back();
      if (run == back.last + 1 && back.each == value) {
        back.last = run;
        return;
      }
    }
    segments_.push_back({run, run, value});
  }

  const std::vector<Segment>& segments() const { return segments_; }

  /// visit(phase, number of runs, value of each) for every segment and phase that meet.
  template <typename Visit>
  void fold(const PhaseTable& table, Visit&& visit) const {
    for (const Segment& segment : segments_) {
      for (const auto phase :
           {reports::Phase::kFirst, reports::Phase::kWarmup, reports::Phase::kSteady}) {
        const uint64_t n = table.runs(phase, segment.first, segment.last);
        if (n != 0) visit(phase, n, segment.each);
      }
    }
  }

 private:
  std::vector<Segment> segments_;
};

/// Raw samples in order, with the run each belongs to (0 = outside runs).
class RunSamples {
 public:
  void add(uint32_t run, uint64_t value) {
    if (marks_.empty() || marks_.back().run != run) marks_.push_back({run, values_.size()});
    values_.push_back(value);
  }
  /// visit(run, value) in order.
  template <typename Visit>
  void each(Visit&& visit) const {
    for (size_t m = 0; m < marks_.size(); ++m) {
      const size_t end = m + 1 < marks_.size() ? marks_[m + 1].offset : values_.size();
      for (size_t i = marks_[m].offset; i < end; ++i) visit(marks_[m].run, values_[i]);
    }
  }
  bool empty() const { return values_.empty(); }
  size_t size() const { return values_.size(); }

 private:
  struct Mark {
    uint32_t run;
    size_t offset;
  };
  std::vector<uint64_t> values_;
  std::vector<Mark> marks_;
};

}  // namespace opmeter::analyze

#endif  // OPMETER_PROFILER_ANALYZE_RUN_SERIES_H_
