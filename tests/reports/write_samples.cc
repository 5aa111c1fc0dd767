// SPDX-License-Identifier: Apache-2.0
// Writes report JSON for the schema test: an empty report, one with every field, and one that came
// out of analyze.
#include <cstdio>
#include <fstream>
#include <string>

#include "profiler/analyze/analyze.h"
#include "reports/json.h"
#include "tests/analyze/scenario.h"
#include "tests/reports/sample_report.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  const auto write = [&](const char* name, const opmeter::reports::Report& report) {
    std::ofstream(folder + "/" + name) << opmeter::reports::to_json(report);
  };
  write("empty.json", {});
  write("sample.json", opmeter::reports::sample_report());
  opmeter::analyze::Scenario s;
  for (int run = 0; run < 12; ++run) {
    s.run_begin();
    s.push(1);
    s.backing(0x1000, 4096, 1);
    s.pool_alloc(1, 0x1000, 4000);
    s.pool_free(1, 0x1000);
    s.free(0x1000);
    s.pop();
    s.run_end();
  }
  write("analyzed.json", s.report());
  return 0;
}
