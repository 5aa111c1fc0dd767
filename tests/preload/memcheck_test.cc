// SPDX-License-Identifier: Apache-2.0
// Totals against valgrind memcheck, which counts by quite other means (binary translation).
#include <cstdio>

#include "tests/preload/recorded.h"

namespace opmeter {
namespace {

/// memcheck's "total heap usage" of a command; nothing when valgrind is not installed.
std::optional<HeapTotals> memcheck_totals(const std::string& command) {
  // The C and C++ libraries' own clean-up at exit happens only under valgrind; without it both see
  // the same program.
  const std::string line =
      "valgrind --tool=memcheck --leak-check=no --run-libc-freeres=no --run-cxx-freeres=no " +
      command + " 2>&1 > /dev/null";
  FILE* pipe = popen(line.c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::optional<HeapTotals> totals;
  char text[512];
  while (fgets(text, sizeof text, pipe) != nullptr) {
    std::string digits;  // numbers have thousands separators
    for (const char* c = text; *c != 0; ++c) {
      if (*c != ',') digits += *c;
    }
    const size_t at = digits.find("total heap usage: ");
    unsigned long calls = 0, frees = 0, bytes = 0;
    if (at != std::string::npos &&
        sscanf(digits.c_str() + at, "total heap usage: %lu allocs %lu frees %lu bytes", &calls,
               &frees, &bytes) == 3) {
      totals = HeapTotals{calls, frees, bytes};
    }
  }
  pclose(pipe);
  return totals;
}

class Memcheck : public testing::TestWithParam<const char*> {};

TEST_P(Memcheck, CountsTheSameCallsFreesAndBytes) {
  const std::string program = victim("deterministic");
  const std::optional<HeapTotals> want = memcheck_totals(program + " " + GetParam());
  if (!want) GTEST_SKIP() << "valgrind is not installed";
  const Recorded r = record_program({program, GetParam()});
  EXPECT_EQ(heap_totals(r), *want);
  EXPECT_EQ(r.outcome.lost_events, 0u);
}

INSTANTIATE_TEST_SUITE_P(FivePrograms, Memcheck,
                         testing::Values("text", "containers", "aligned", "threads", "leaks"),
                         [](const testing::TestParamInfo<const char*>& row) {
                           return std::string(row.param);
                         });

}  // namespace
}  // namespace opmeter
