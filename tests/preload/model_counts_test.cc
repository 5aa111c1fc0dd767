// SPDX-License-Identifier: Apache-2.0
// `opmeter profile` against an independent count: tests/victims/counting_interposer.c is another
// interposer, which shares no code with ours and counts heap calls per op while `opmeter run`
// executes the same model.
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/preload/recorded.h"

namespace opmeter {
namespace {

struct OpCounts {
  uint64_t first_calls = 0, first_bytes = 0, later_calls = 0, later_bytes = 0, frees = 0;
  bool operator==(const OpCounts&) const = default;
};

std::ostream& operator<<(std::ostream& out, const OpCounts& c) {
  return out << "first " << c.first_calls << "/" << c.first_bytes << " later " << c.later_calls
             << "/" << c.later_bytes << " frees " << c.frees;
}

using CountsByOp = std::map<std::string, OpCounts>;

void drop_idle(CountsByOp& counts) {
  std::erase_if(counts, [](const auto& entry) { return entry.second == OpCounts{}; });
}

CountsByOp independent_counts(const std::string& arguments) {
  const ScratchFolder folder;
  const std::string file = folder.file("counts");
  const std::string command = "COUNT_OUT=" + file +
                              " LD_PRELOAD=" + victim("counting_interposer.so") + " " +
                              OPMETER_COMMAND + " run " + arguments + " > /dev/null 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  CountsByOp counts;
  std::ifstream in(file);
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string name;
    OpCounts c;
    words >> name >> c.first_calls >> c.first_bytes >> c.later_calls >> c.later_bytes >> c.frees;
    counts[name] = c;
  }
  EXPECT_FALSE(counts.empty());
  drop_idle(counts);
  return counts;
}

CountsByOp profiled_counts(const std::string& arguments) {
  const ScratchFolder folder;
  const std::string json = folder.file("report.json");
  const std::string command = std::string(OPMETER_COMMAND) + " profile " + arguments +
                              " --all --json -o " + folder.file("t.opm") + " > " + json +
                              " 2> /dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  std::ifstream in(json);
  const nlohmann::json report = nlohmann::json::parse(in, nullptr, false);
  CountsByOp counts;
  if (report.is_discarded()) {
    ADD_FAILURE() << "stdout is not one JSON document: " << command;
    return counts;
  }
  EXPECT_EQ(report["quality"]["lost_events"], 0);
  for (const nlohmann::json& op : report["ops"]) {
    if (op["name"] == "(outside)") continue;
    const nlohmann::json& total = op["total"]["heap"];
    const nlohmann::json& first = op["alloc"]["first_run"];
    OpCounts& c = counts[op["name"].get<std::string>()];
    c.first_calls = first["calls"];
    c.first_bytes = first["bytes"];
    c.later_calls = total["calls"].get<uint64_t>() - c.first_calls;
    c.later_bytes = total["bytes"].get<uint64_t>() - c.first_bytes;
    c.frees = total["frees"];
  }
  drop_idle(counts);
  return counts;
}

class ModelCounts : public testing::TestWithParam<const char*> {};

TEST_P(ModelCounts, PerOperatorEqualAnIndependentInterposersToTheUnit) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "the bundled models need AVX2";
#else
  GTEST_SKIP() << "the bundled models are x86-64 code";
#endif
  const std::string arguments =
      std::string(OPMETER_TEST_DATA) + "/tvm/" + GetParam() + " --runs 20";
  const CountsByOp want = independent_counts(arguments);
  const CountsByOp got = profiled_counts(arguments);
  EXPECT_EQ(got.size(), want.size());
  for (const auto& [name, counts] : want) {
    const auto it = got.find(name);
    ASSERT_NE(it, got.end()) << name;
    EXPECT_EQ(it->second, counts) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(ModelsAndPools, ModelCounts,
                         testing::Values("cnn_09.so --pool naive", "cnn_09.so --pool caching",
                                         "cnn_016.so --pool caching --threads 2",
                                         "cnn_09.so --pool naive --threads 2",
                                         "bert_mini_09.so --pool caching"),
                         [](const testing::TestParamInfo<const char*>& row) {
                           std::string name = row.param;
                           for (char& c : name)
                             c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

TEST(ModelGrowth, OfTheCachingPoolIsTvmsToTheByte) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "the bundled models need AVX2";
#else
  GTEST_SKIP() << "the bundled models are x86-64 code";
#endif
  const ScratchFolder folder;
  for (const auto& [model, growth] :
       std::map<std::string, std::vector<uint64_t>>{{"cnn_09", {53248, 4096, 77824, 151552}},
                                                    {"bert_mini_09", {4096, 8192}},
                                                    {"bert_mini_016", {32768}}}) {
    const std::string command = std::string(OPMETER_COMMAND) + " profile " + OPMETER_TEST_DATA +
                                "/tvm/" + model + ".so --pool caching --runs 5 --json -f -o " +
                                folder.file("t.opm") + " > " + folder.file("json") +
                                " 2> /dev/null";
    ASSERT_EQ(std::system(command.c_str()), 0);
    std::ifstream in(folder.file("json"));
    const nlohmann::json report = nlohmann::json::parse(in);
    EXPECT_EQ(report["pools"]["workspace"]["growth_bytes"].get<std::vector<uint64_t>>(), growth)
        << model;
    EXPECT_EQ(report["alloc"]["steady_per_run"]["calls_sum"], 0) << model;
  }
}

}  // namespace
}  // namespace opmeter
