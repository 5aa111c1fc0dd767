// SPDX-License-Identifier: Apache-2.0
// Without hooks an assertion must not pass: it says how to get them. Built without the hooks and
// run without them.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "opmeter/gtest.hpp"

namespace {

TEST(WithoutHooks, NothingIsWatched) {
  EXPECT_FALSE(opmeter::allocations_are_watched());
  EXPECT_EQ(opm_heap_count_begin(), 0);
  EXPECT_EQ(opm_enabled(), 0);
}

TEST(WithoutHooks, AnEmptyBlockFailsAndSaysHowToGetHooks) {
  EXPECT_NONFATAL_FAILURE(EXPECT_NO_ALLOCATIONS{},
                          "Link opmeter::hooks, or run it with LD_PRELOAD=");
}

TEST(WithoutHooks, ForbiddingScopesAreHarmless) {
  const opmeter::ForbidAllocations scope;
  std::free(std::malloc(1));
}

}  // namespace
