// SPDX-License-Identifier: Apache-2.0
// Values per run, folded into phases later: where warm-up ends is known only after the last run,
// but the events are read once. Equal values of consecutive runs share one segment, so a steady
// state of a million runs costs as much memory as one run.
//
//     run      1    2    3    4    5    6          segments
//     calls   24    4    0    0    0    0          [1,1]=24  [2,2]=4  [3,6]=0
#ifndef OPMETER_PROFILER_ANALYZE_RUN_SERIES_H_
#define OPMETER_PROFILER_ANALYZE_RUN_SERIES_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "reports/model.h"

namespace opmeter::analyze {

/// Runs of one graph are numbered from 1. The first ones are remembered one by one; later ones
/// share an epoch with their neighbours, an eighth of an octave long, so that a program whose every
/// run is different costs memory by the logarithm of its runs. Where a phase ends, an epoch must
/// end: what is known beforehand starts a new one, and a warm-up that detection ends inside of one
/// is prolonged to its end (fold.h).
inline constexpr uint32_t kRunsAlone = 256;

/// The first run of the epoch of `run`, as far as numbers decide it.
inline uint32_t epoch_of(uint32_t run) {
  return run < kRunsAlone ? run : run & ~((std::bit_floor(run) >> 3) - 1);
}

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

template <typename T>
void add_to(T& sum, const T& more) {
  sum += more;
}
template <typename T, size_t n>
void add_to(std::array<T, n>& sum, const std::array<T, n>& more) {
  for (size_t i = 0; i < n; ++i) sum[i] += more[i];
}

/// One value per run; runs without one count as zero. V needs == and +=, or is an array of such.
template <typename V>
class RunSeries {
 public:
  struct Segment {
    uint32_t first = 0, last = 0;  ///< runs, inclusive
    V each{};                      ///< the value of every one of them
  };

  /// Adds to the value of a run. Runs may overlap in time, so that their values come in turns: the
  /// segments that are near the end are looked through for the run's own.
  void add(uint32_t run, const V& value) {
    const size_t n = segments_.size();
    for (size_t back = 1; back <= std::min<size_t>(n, kOverlap); ++back) {
      const size_t i = n - back;
      if (run > segments_[i].last) break;
      if (run >= segments_[i].first) return add_inside(i, run, value);
    }
    if (n != 0 && run == segments_.back().last + 1 && segments_.back().each == value) {
      segments_.back().last = run;
      return;
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
  static constexpr size_t kOverlap = 16;

  /// Segment i holds the run: what stands beside the run in it keeps its value.
  void add_inside(size_t i, uint32_t run, const V& value) {
    const Segment whole = segments_[i];
    Segment own{run, run, whole.each};
    add_to(own.each, value);
    std::vector<Segment> parts;
    if (whole.first < run) parts.push_back({whole.first, run - 1, whole.each});
    parts.push_back(own);
    if (run < whole.last) parts.push_back({run + 1, whole.last, whole.each});
    segments_[i] = parts.front();
    const auto behind = segments_.begin() + static_cast<ptrdiff_t>(i) + 1;
    segments_.insert(behind, parts.begin() + 1, parts.end());
    join(i + parts.size() - 1);
    join(i);
  }
  /// Makes one of segment i and the one before it when they can be.
  void join(size_t i) {
    if (i == 0 || i >= segments_.size()) return;
    Segment& before = segments_[i - 1];
    const Segment& segment = segments_[i];
    if (segment.first != before.last + 1 || !(segment.each == before.each)) return;
    before.last = segment.last;
    segments_.erase(segments_.begin() + static_cast<ptrdiff_t>(i));
  }

  std::vector<Segment> segments_;
};

/// Counts of several runs of one phase together.
struct RunGroup {
  uint64_t runs = 0;
  reports::Counts total;
  uint64_t min_calls = UINT64_MAX, max_calls = 0, runs_with_calls = 0;

  void add(uint64_t n, const reports::Counts& each) {
    runs += n;
    for (const auto field : {&reports::Counts::calls, &reports::Counts::bytes,
                             &reports::Counts::frees, &reports::Counts::failed,
                             &reports::Counts::backing_calls, &reports::Counts::backing_bytes}) {
      total.*field += n * each.*field;
    }
    min_calls = std::min(min_calls, each.calls);
    max_calls = std::max(max_calls, each.calls);
    if (each.calls > 0) runs_with_calls += n;
  }
};

/// Counts by run, each added once, when its run has ended. Equal neighbours share a segment, as
/// above; unequal ones of one epoch share a group.
class CountSeries {
 public:
  /// `epoch` as of RunRecord.
  void add(uint32_t run, uint32_t epoch, const reports::Counts& counts) {
    if (!segments_.empty() && run == segments_.back().last + 1 && segments_.back().each == counts) {
      segments_.back().last = run;
    } else if (run < kRunsAlone) {
      segments_.push_back({run, run, counts});
    } else if (!groups_.empty() && groups_.back().epoch == epoch) {
      groups_.back().group.add(1, counts);
    } else {
      groups_.push_back({epoch, {}});
      groups_.back().group.add(1, counts);
      // The next one may repeat these counts: then they are a segment that begins behind this run.
      segments_.push_back({run + 1, run, counts});
    }
  }

  /// visit(phase, RunGroup).
  template <typename Visit>
  void fold(const PhaseTable& table, Visit&& visit) const {
    for (const Segment& segment : segments_) {
      if (segment.last < segment.first) continue;
      for (const auto phase :
           {reports::Phase::kFirst, reports::Phase::kWarmup, reports::Phase::kSteady}) {
        const uint64_t n = table.runs(phase, segment.first, segment.last);
        if (n == 0) continue;
        RunGroup group;
        group.add(n, segment.each);
        visit(phase, group);
      }
    }
    for (const EpochGroup& group : groups_) visit(table.of(group.epoch), group.group);
  }

 private:
  struct Segment {
    uint32_t first = 0, last = 0;  // runs, inclusive
    reports::Counts each;
  };
  struct EpochGroup {
    uint32_t epoch = 0;
    RunGroup group;
  };

  std::vector<Segment> segments_;
  std::vector<EpochGroup> groups_;
};

}  // namespace opmeter::analyze

#endif  // OPMETER_PROFILER_ANALYZE_RUN_SERIES_H_
