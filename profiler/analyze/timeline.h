// SPDX-License-Identifier: Apache-2.0
// Live bytes over time, thinned while the events stream by: a bounded number of equal time steps,
// each of which keeps its highest point, so that no peak is lost. When the time outgrows the steps,
// neighbours merge and the step doubles.
#ifndef OPMETER_PROFILER_ANALYZE_TIMELINE_H_
#define OPMETER_PROFILER_ANALYZE_TIMELINE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "reports/model.h"

namespace opmeter::analyze {

class Timeline {
 public:
  static constexpr size_t kSteps = 512;

  /// Times ascend. Most calls change nothing but the last value: the step is still the same, and
  /// has been higher.
  [[gnu::always_inline]] void add(uint64_t t_ns, uint64_t live_bytes) {
    last_ = {t_ns, live_bytes};
    if (t_ns < step_end_ns_ && live_bytes <= step_peak_) return;
    add_point();
  }

  /// The highest point of each step in order, and the last value.
  std::vector<reports::TimelinePoint> points() const {
    std::vector<reports::TimelinePoint> all = points_;
    if (!all.empty() && all.back().t_ns != last_.t_ns) all.push_back(last_);
    return all;
  }

 private:
  [[gnu::noinline]] void add_point() {
    if (points_.empty()) start_ns_ = last_.t_ns;
    while (step_of(last_) >= kSteps) halve();
    if (points_.empty() || step_of(last_) != step_of(points_.back())) {
      points_.push_back(last_);
    } else if (last_.live_bytes > points_.back().live_bytes) {
      points_.back() = last_;
    }
    step_peak_ = points_.back().live_bytes;
    step_end_ns_ = start_ns_ + ((step_of(points_.back()) + 1) << shift_);
  }

  uint64_t step_of(const reports::TimelinePoint& point) const {
    return (std::max(point.t_ns, start_ns_) - start_ns_) >> shift_;
  }

  void halve() {
    ++shift_;
    std::vector<reports::TimelinePoint> kept;
    for (const reports::TimelinePoint& point : points_) {
      if (!kept.empty() && step_of(kept.back()) == step_of(point)) {
        if (point.live_bytes > kept.back().live_bytes) kept.back() = point;
      } else {
        kept.push_back(point);
      }
    }
    points_ = std::move(kept);
  }

  std::vector<reports::TimelinePoint> points_;
  reports::TimelinePoint last_{};
  uint64_t start_ns_ = 0;
  uint64_t step_end_ns_ = 0;  // of the last point's step
  uint64_t step_peak_ = 0;
  int shift_ = 10;  // first step 1.024 us
};

}  // namespace opmeter::analyze

#endif  // OPMETER_PROFILER_ANALYZE_TIMELINE_H_
