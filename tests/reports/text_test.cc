// SPDX-License-Identifier: Apache-2.0
// The terminal report: widths, colours, units, and what each view must say.
#include "reports/text/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "reports/text/layout.h"
#include "tests/reports/sample_report.h"

namespace opmeter::reports {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

constexpr View kViews[] = {View::kDiag,   View::kOps,     View::kSizes,
                           View::kStacks, View::kThreads, View::kTimeline};

TEST(Text, NoLineOfAnyViewIsWiderThanThePage) {
  for (const Report& report : {sample_report(), Report()}) {
    for (const View view : kViews) {
      for (const size_t width : {60u, 80u, 132u}) {
        for (const bool all : {false, true}) {
          for (const std::string& line :
               lines_of(render_text(report, view, {.width = width, .all = all}))) {
            EXPECT_LE(text::columns(line), width) << line;
          }
        }
      }
    }
  }
}

TEST(Text, WithoutColourThereIsNoEscapeAndInAsciiNoOtherByte) {
  for (const View view : kViews) {
    const std::string plain = render_text(sample_report(), view, {.utf8 = false});
    for (const char c : plain) ASSERT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7f)) << int{c};
    EXPECT_THAT(render_text(sample_report(), view, {.color = true}), HasSubstr("\x1b["));
  }
}

TEST(Text, ColoursAreNeverTheOnlySign) {
  const std::string coloured = render_text(sample_report(), View::kDiag, {.color = true});
  for (const std::string& line : lines_of(coloured)) {
    if (line.starts_with("\x1b[33m")) {
      EXPECT_THAT(line, HasSubstr("!"));
    }
  }
}

TEST(Text, TheDiagnosisAnswersOnOneScreen) {
  const std::string text = render_text(sample_report(), View::kDiag, {});
  EXPECT_LE(lines_of(text).size(), 72u);  // with a line for every option of a recording
  for (const char* part :
       {"cnn.so", "pool naive", "device cpu", "41.2 mallocs/run", "! Steady state calls malloc",
        "first 12.1 ms", "10 warm-up (detected)", "400 steady", "53248, 4096", "23 more operators",
        "pool_growth", "workspace_pool.cc:44", "cnn.so+0x1234", "1 caller", "1 worker",
        "lost events 3", "overhead 4.1%", "lower bound", "not complete"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(Text, ASteadyStateWithoutMallocsSaysSoAndOnlyWhenNothingIsMissing) {
  Report report = sample_report();
  report.alloc.steady_per_run = {.runs = 400};
  EXPECT_THAT(render_text(report, View::kDiag, {}), HasSubstr("! No malloc inside run()"));
  report.quality = {};
  const std::string text = render_text(report, View::kDiag, {});
  EXPECT_THAT(text, HasSubstr("No malloc inside run() in steady state (400 runs)."));
  EXPECT_THAT(text, Not(HasSubstr("! No malloc")));
}

TEST(Text, AProgramWithoutRunsIsDiagnosedToo) {
  Report report = sample_report();
  report.runs = {};
  report.ops.clear();
  report.context.model.clear();
  for (SizeBin& bin : report.sizes) bin.phase = Phase::kLoad;
  const std::string text = render_text(report, View::kDiag, {});
  EXPECT_THAT(text, HasSubstr("500 mallocs, 1.95 MiB"));
  EXPECT_THAT(text, HasSubstr("No run was marked"));
  EXPECT_THAT(text, HasSubstr("TOP STACKS"));
  EXPECT_THAT(text, Not(HasSubstr("STEADY STATE")));
}

TEST(Text, SlowOperatorsAreMarkedAgainstTheThreshold) {
  const std::string text = render_text(sample_report(), View::kOps, {.threshold_us = 1000});
  EXPECT_THAT(text, HasSubstr("\n!    0"));
  EXPECT_THAT(text, Not(HasSubstr("\n!    9")));
  EXPECT_THAT(text, HasSubstr("(executor)"));
}

TEST(Text, AllShowsEveryOperator) {
  const std::string cut = render_text(sample_report(), View::kOps, {});
  EXPECT_THAT(cut, HasSubstr("20 more operators"));
  EXPECT_THAT(render_text(sample_report(), View::kOps, {.all = true}),
              Not(HasSubstr("more operators")));
}

TEST(Text, UnitsHaveThreeDigits) {
  struct Case {
    double value;
    const char* text;
  };
  for (const Case c :
       {Case{0, "0 B"}, Case{512, "512 B"}, Case{1023, "1023 B"}, Case{1024, "1.00 KiB"},
        Case{864'256, "844 KiB"}, Case{1'048'575, "1.00 MiB"}, Case{1'310'000, "1.25 MiB"},
        Case{1e18, "888 PiB"}}) {
    EXPECT_EQ(text::bytes(c.value), c.text);
  }
  EXPECT_EQ(text::edge(65536), "64 KiB");
  EXPECT_EQ(text::edge(65537), "65537 B");
  EXPECT_EQ(text::duration(310), "310 ns");
  EXPECT_EQ(text::duration(8.91e6), "8.91 ms");
  EXPECT_EQ(text::duration(999'600), "1.00 ms");
  EXPECT_EQ(text::count(12), "12");
  EXPECT_EQ(text::count(41.25), "41.2");
  EXPECT_EQ(text::count(0.01), "0.010");
}

TEST(Layout, an_operators_label_drops_what_all_generated_names_share) {
  EXPECT_EQ(text::op_label("tvmgen_default_fused_nn_contrib_conv2d_NCHWc_add_nn_relu_1"),
            "conv2d_NCHWc_add_relu_1");
  EXPECT_EQ(text::op_label("fused_nn_dense"), "dense");
  EXPECT_EQ(text::op_label("tvmgen_default_reshape"), "reshape");
  EXPECT_EQ(text::op_label("(executor)"), "(executor)");
  EXPECT_EQ(text::op_label("nn_dense"), "nn_dense");
  EXPECT_EQ(text::op_label("fused_nn"), "fused_nn");
  EXPECT_EQ(text::op_label("tvmgen_"), "tvmgen_");
  EXPECT_EQ(text::op_label(""), "");
}

TEST(Text, LongNamesKeepTheirHeadAndTail) {
  EXPECT_EQ(text::cut_middle("fused_nn_dense_3", 20), "fused_nn_dense_3");
  EXPECT_EQ(text::cut_middle("fused_nn_dense_add_relu_17", 12), "fused...u_17");
  EXPECT_EQ(text::cut_middle("ab\x1b[31mcd\n", 20), "ab?[31mcd?");
  EXPECT_EQ(text::columns(text::cut_middle("äöüäöüäöüäöü", 7)), 7u);
}

TEST(Text, BarsGrowWithTheFractionAndShowEveryLittle) {
  EXPECT_EQ(text::bar(0, 10, true), "");
  EXPECT_EQ(text::bar(1e-9, 10, true), "▏");
  EXPECT_EQ(text::bar(0.5, 4, false), "##");
  EXPECT_EQ(text::bar(1, 4, false), "####");
}

TEST(Text, ViewsHaveTheNamesOfTheCommandLine) {
  for (const char* name : {"diag", "ops", "sizes", "stacks", "threads", "timeline"}) {
    EXPECT_TRUE(parse_view(name).has_value()) << name;
  }
  EXPECT_FALSE(parse_view("Diag").has_value());
}

}  // namespace
}  // namespace opmeter::reports
