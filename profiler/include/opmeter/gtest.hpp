// SPDX-License-Identifier: Apache-2.0
// gtest.hpp: GoogleTest assertions that a block allocates nothing on the calling thread.
//
//   EXPECT_NO_ALLOCATIONS { model.run(); }
//   ASSERT_NO_ALLOCATIONS { model.run(); }
//
// A failure lists size, entry point and call stack of each allocation. Releases are allowed; a
// realloc to another size counts as an allocation. Without Opmeter's hooks in the process the
// assertion fails and says how to get them. Under `opmeter record` the block is also a scope that
// forbids allocation. Needs opmeter/watch.hpp's hooks; docs/no-allocation.md.
#ifndef OPMETER_GTEST_HPP_
#define OPMETER_GTEST_HPP_

#include <gtest/gtest.h>

#include <string>

#include "opmeter/watch.hpp"

namespace opmeter {
namespace detail {

/// Drives the macros' loop: pass 1 is the block, pass 2 (only on failure) reports.
class NoAllocationsBlock {
 public:
  NoAllocationsBlock(const char* file, int line) : file_(file), line_(line) {}
  NoAllocationsBlock(const NoAllocationsBlock&) = delete;
  NoAllocationsBlock& operator=(const NoAllocationsBlock&) = delete;

  /// The block was left by return, break, goto or an exception: the loop had no second pass.
  ~NoAllocationsBlock() {
    if (pass_ != 1) return;
    stop();
    if (failed()) ADD_FAILURE_AT(file_, line_) << message();
  }

  bool next() {
    ++pass_;
    if (pass_ == 1) {
      opm_forbid_alloc_begin();
      return true;
    }
    if (pass_ == 2) {
      stop();
      return failed();
    }
    return false;
  }
  bool reporting() const { return pass_ == 2; }

  std::string message() const {
    if (!watch_.possible()) return why_not_watched();
    std::string text;
    if (watch_.allocations() > 0) {
      text =
          plural(watch_.allocations(), "allocation") + " (" + plural(watch_.bytes(), "byte") + ")";
    }
    if (watch_.failed() > 0) {
      text += (text.empty() ? "" : " and ") + plural(watch_.failed(), "refused allocation");
    }
    return text + " in a block that allows none:\n" + watch_.describe("testing::");
  }

 private:
  void stop() {
    watch_.stop();
    opm_forbid_alloc_end();
  }
  bool failed() const {
    return !watch_.possible() || watch_.allocations() > 0 || watch_.failed() > 0;
  }

  const char* file_;
  int line_;
  int pass_ = 0;
  AllocationWatch watch_;
};

}  // namespace detail
}  // namespace opmeter

// The switch keeps an `else` of the caller's from binding to ours; blocks nest, hence the line in
// the name.
#define OPMETER_NO_ALLOCATIONS_(report, block)                                           \
  switch (0)                                                                             \
  case 0:                                                                                \
  default:                                                                               \
    for (::opmeter::detail::NoAllocationsBlock block(__FILE__, __LINE__); block.next();) \
      if (block.reporting())                                                             \
        report(block.message());                                                         \
      else

#define EXPECT_NO_ALLOCATIONS \
  OPMETER_NO_ALLOCATIONS_(OPMETER_NONFATAL_, OPMETER_CONCAT_(opmeter_block_, __LINE__))
#define ASSERT_NO_ALLOCATIONS \
  OPMETER_NO_ALLOCATIONS_(OPMETER_FATAL_, OPMETER_CONCAT_(opmeter_block_, __LINE__))
#define OPMETER_NONFATAL_(text) ADD_FAILURE() << (text)
#define OPMETER_FATAL_(text) GTEST_FAIL() << (text)
#define OPMETER_CONCAT_(a, b) OPMETER_CONCAT_NOW_(a, b)
#define OPMETER_CONCAT_NOW_(a, b) a##b

#endif  // OPMETER_GTEST_HPP_
