// SPDX-License-Identifier: Apache-2.0
// Hooks are linked, but the executable brings an operator new of its own, which comes before them:
// an assertion must not pass, because it would not see such allocations.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "opmeter/gtest.hpp"

// A bump allocator that never calls malloc.
static char g_memory[64 << 20];
static std::size_t g_used = 0;

void* operator new(std::size_t bytes) {
  void* block = g_memory + g_used;
  g_used += (bytes + 15) & ~std::size_t{15};
  if (g_used > sizeof g_memory) std::abort();
  return block;
}
void operator delete(void*) noexcept {}
void operator delete(void*, std::size_t) noexcept {}

namespace {

TEST(Bypassed, AnotherOperatorNewIsNoticed) {
  EXPECT_FALSE(opmeter::allocations_are_watched());
  EXPECT_NONFATAL_FAILURE(EXPECT_NO_ALLOCATIONS{}, "operator new is defined before them");
}

}  // namespace
