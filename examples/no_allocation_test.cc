// SPDX-License-Identifier: Apache-2.0
// A test that a hot loop allocates nothing, as any project can have it: find_package(opmeter), link
// opmeter::hooks, include opmeter/gtest.hpp. The second test shows what a failure says: it is
// skipped unless SHOW_FAILURE is in the environment.
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <numeric>
#include <vector>

#include "opmeter/gtest.hpp"

namespace example {

/// Mean of the last values. Its window is made once.
class MovingMean {
 public:
  explicit MovingMean(std::size_t window) : values_(window, 0.0) {}
  double add(double value) {
    values_[next_] = value;
    next_ = (next_ + 1) % values_.size();
    return std::accumulate(values_.begin(), values_.end(), 0.0) /
           static_cast<double>(values_.size());
  }

 private:
  std::vector<double> values_;
  std::size_t next_ = 0;
};

/// The same with a queue, which asks for memory every now and then.
class QueuedMean {
 public:
  explicit QueuedMean(std::size_t window) : window_(window) {}
  double add(double value) {
    values_.push_back(value);
    if (values_.size() > window_) values_.pop_front();
    return std::accumulate(values_.begin(), values_.end(), 0.0) /
           static_cast<double>(values_.size());
  }

 private:
  std::deque<double> values_;
  std::size_t window_;
};

}  // namespace example

namespace {

using example::MovingMean;
using example::QueuedMean;

TEST(MovingMean, SteadyStateAllocatesNothing) {
  MovingMean mean(16);
  EXPECT_NO_ALLOCATIONS {
    for (int i = 0; i < 1000; ++i) mean.add(i);
  }
}

TEST(QueuedMean, SteadyStateAllocatesNothing) {
  if (std::getenv("SHOW_FAILURE") == nullptr) GTEST_SKIP() << "set SHOW_FAILURE=1 to see it fail";
  QueuedMean mean(16);
  EXPECT_NO_ALLOCATIONS {
    for (int i = 0; i < 1000; ++i) mean.add(i);
  }
}

}  // namespace
