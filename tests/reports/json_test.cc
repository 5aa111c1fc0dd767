// SPDX-License-Identifier: Apache-2.0
#include "reports/json.h"

#include <gtest/gtest.h>

#include "tests/reports/sample_report.h"

namespace opmeter::reports {
namespace {

TEST(Json, TheSameReportGivesTheSameBytes) {
  EXPECT_EQ(to_json(sample_report()), to_json(sample_report()));
}

TEST(Json, TheTopLevelHasTheKeysOfVersionOneInOrder) {
  const auto value = to_json_value(sample_report());
  std::vector<std::string> keys;
  for (const auto& [key, item] : value.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"schema", "context", "runs", "phases", "alloc", "pools",
                                            "map", "ops", "sizes", "stacks", "threads", "timeline",
                                            "quality"}));
  EXPECT_EQ(value["schema"], "opmeter.report/1");
}

TEST(Json, AbsentNumbersAreNull) {
  Dist five;
  five.n = 5;
  five.min = 1;
  const auto dist = to_json_value(five);
  EXPECT_EQ(dist["min"], 1.0);
  EXPECT_TRUE(dist["p50"].is_null());
  EXPECT_TRUE(dist["p99"].is_null());
  const auto empty = to_json_value(Report());
  EXPECT_TRUE(empty["alloc"]["growth_bytes_per_run"]["slope"].is_null());
  EXPECT_TRUE(empty["quality"]["overhead"]["share"].is_null());
}

TEST(Json, BigNumbersAreExact) {
  Report report;
  report.alloc.total.bytes = UINT64_MAX;
  EXPECT_EQ(to_json_value(report)["alloc"]["total"]["bytes"].get<uint64_t>(), UINT64_MAX);
}

TEST(Json, NamesThatAreNotUtf8DoNotBreakTheDocument) {
  Report report = sample_report();
  report.threads[0].name = "bad\xff name";
  const std::string text = to_json(report);
  EXPECT_NE(text.find("bad\xef\xbf\xbd name"), std::string::npos);
  EXPECT_FALSE(nlohmann::json::parse(text, nullptr, false).is_discarded());
}

TEST(Json, InfoCarriesItsSchemaAndQuality) {
  TraceInfo info;
  info.path = "x.opm";
  info.lost_events = 4;
  const auto value = to_json_value(info);
  EXPECT_EQ(value["schema"], "opmeter.info/1");
  EXPECT_EQ(value["quality"]["lost_events"], 4);
}

}  // namespace
}  // namespace opmeter::reports
