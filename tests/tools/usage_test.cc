// SPDX-License-Identifier: Apache-2.0
// How the command answers right and wrong words: exit codes, one-line errors, help.
#include "tests/tools/run_command.h"

namespace opmeter::tests {
namespace {

const std::string kCnn = OPMETER_TEST_DATA "/tvm/cnn_09.so";
const std::string kCnnInput = OPMETER_TEST_DATA "/tvm/cnn_09.in.data.npy";
const std::string kCnnOutput = OPMETER_TEST_DATA "/tvm/cnn_09.out.0.npy";

struct Wrong {
  std::string words;
  int exit_code;
  std::string says;  ///< a part of the line
};

TEST(Usage, EachErrorIsOneLineOnStderrAndItsExitCode) {
  const Wrong kWrongs[] = {
      {"", 2, "see opmeter help"},
      {"repotr x", 2, "did you mean report?"},
      {"xyzzy", 2, "unknown command 'xyzzy'"},
      {"--json report", 2, "comes before the command"},
      {"help nothing", 2, "unknown command"},
      {"run", 2, "MODEL"},
      {"run --polo naive m.so", 2, "did you mean --pool?"},
      {"run m.so n.so", 2, "unexpected argument 'n.so'"},
      {"run m.so --pool fast", 2, "fast"},
      {"run m.so --threads 0", 2, "--threads"},
      {"run m.so --runs abc", 2, "abc"},
      {"run m.so --runs 0", 2, "--runs"},
      {"run m.so --device gpu", 2, "cpu, cuda[:N] or opencl[:N]"},
      {"run m.so --device cpu:7", 2, "cpu:0"},
      {"run m.so --device cuda", 5, "CPU only"},
      {"run m.so --device opencl:1", 5, "CPU only"},
      {"run m.so --graph g.json", 2, "two models"},
      {"run --graph g.json", 2, "--lib"},
      {"run builtin:mlp", 3, "no built-in models"},
      {"run package.tar", 3, "does not load packages"},
      {"run missing.so", 3, "missing.so"},
      {"run /etc/passwd", 3, "/etc/passwd"},
      {"report", 2, "FILE"},
      {"report missing.opm", 3, "missing.opm"},
      {"report /etc/passwd", 3, "not an Opmeter trace"},
      {"report a.opm b.opm --json", 2, "one FILE"},
      {"report a.opm --view pie", 2, "pie"},
      {"info", 2, "FILE"},
      {"info missing.opm", 3, "missing.opm"},
      {"record", 2, "behind --"},
      {"record --", 2, "behind --"},
      {"record true", 2, "write -- before 'true'"},
      {"record --buffer 3x -- true", 2, "3x"},
      {"record --free-stack -- true", 2, "did you mean --free-stacks?"},
      {"doctor now", 2, "unexpected argument 'now'"},
  };
  const ScratchDir dir;
  for (const Wrong& wrong : kWrongs) {
    const Said said = run_shell(dir, "opmeter " + wrong.words);
    EXPECT_EQ(said.exit_code, wrong.exit_code) << wrong.words << "\n" << said.err;
    EXPECT_EQ(count_lines(said.err), 1u) << wrong.words << "\n" << said.err;
    EXPECT_EQ(said.err.rfind("opmeter: ", 0), 0u) << wrong.words << "\n" << said.err;
    EXPECT_NE(said.err.find(wrong.says), std::string::npos) << wrong.words << "\n" << said.err;
    EXPECT_EQ(said.out, "") << wrong.words;
  }
}

TEST(Usage, ANameWithALineBreakStillMakesOneLine) {
  const ScratchDir dir;
  const Said said = run_shell(dir, "opmeter report 'two\nlines.opm'");
  EXPECT_EQ(said.exit_code, 3);
  EXPECT_EQ(count_lines(said.err), 1u) << said.err;
}

TEST(Usage, HelpListsEveryVerbAndEachHasATextWithin80Columns) {
  const ScratchDir dir;
  const Said all = run_shell(dir, "opmeter help");
  EXPECT_EQ(all.exit_code, 0);
  EXPECT_EQ(all.err, "");
  EXPECT_LE(widest_line(all.out), 80u);
  for (const char* verb : {"run", "record", "profile", "report", "info", "doctor", "help"}) {
    EXPECT_NE(all.out.find("\n  " + std::string(verb) + " "), std::string::npos) << verb;
    const Said one = run_shell(dir, "opmeter help " + std::string(verb));
    EXPECT_EQ(one.exit_code, 0);
    EXPECT_EQ(one.out.rfind("usage: opmeter " + std::string(verb), 0), 0u) << one.out;
    EXPECT_LE(widest_line(one.out), 80u) << one.out;
    EXPECT_EQ(run_shell(dir, "opmeter " + std::string(verb) + " -h").out, one.out);
  }
}

TEST(Usage, VersionIsOneLine) {
  const ScratchDir dir;
  const Said said = run_shell(dir, "opmeter -V");
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_EQ(said.out.rfind("opmeter ", 0), 0u);
  EXPECT_EQ(count_lines(said.out), 1u);
  EXPECT_EQ(run_shell(dir, "opmeter run --version").out, said.out);
}

TEST(Usage, AFullDiskBehindStdoutIsTold) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const ScratchDir dir;
  const Said said = run_shell(dir, "opmeter help >/dev/full");
  EXPECT_EQ(said.exit_code, 3);
  EXPECT_EQ(count_lines(said.err), 1u) << said.err;
}

TEST(Run, GivesTheOutputsThatStockTvmGaveAndTheirChecksums) {
  OPMETER_SKIP_WITHOUT_AVX2();
  const ScratchDir dir;
  for (const char* pool : {"naive", "caching"}) {
    const Said said =
        run_shell(dir, "opmeter run --json --runs 3 --pool " + std::string(pool) + " " + kCnn +
                           " --input data=" + kCnnInput + " --expect 0=" + kCnnOutput);
    ASSERT_EQ(said.exit_code, 0) << said.err;
    EXPECT_EQ(said.err, "");
    const auto json = nlohmann::json::parse(said.out);
    EXPECT_EQ(json["schema"], "opmeter.run/1");
    EXPECT_EQ(json["model"], kCnn);
    EXPECT_EQ(json["pool"], pool);
    EXPECT_EQ(json["device"], "cpu:0");
    EXPECT_EQ(json["threads"], 1);
    ASSERT_EQ(json["outputs"].size(), 1u);
    const auto& output = json["outputs"][0];
    EXPECT_EQ(output["index"], 0);
    EXPECT_EQ(output["shape"], nlohmann::json({1, 10}));
    EXPECT_EQ(output["dtype"], "float32");
    EXPECT_EQ(output["sha256"].get<std::string>().size(), 64u);
    EXPECT_EQ(output["ok"], true);
    EXPECT_LE(output["max_abs_diff"], 1e-5);
    EXPECT_GT(json["load_ns"], 0);
    EXPECT_GT(json["first_run_ns"], 0);
    EXPECT_EQ(json["runs"]["count"], 3);
    EXPECT_TRUE(json["latency_ns"]["p50"].is_null());  // n < 6
  }
}

TEST(Run, WrittenOutputsHaveThePrintedChecksum) {
  OPMETER_SKIP_WITHOUT_AVX2();
  const ScratchDir dir;
  const Said said = run_shell(dir, "opmeter run --json --runs 1 " + kCnn +
                                       " --input data=" + kCnnInput + " --output made/here");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const std::string npy = read_file(dir.file("made/here/output.0.npy"));
  ASSERT_GT(npy.size(), 40u);
  std::ofstream(dir.file("data"), std::ios::binary) << npy.substr(npy.size() - 40);
  const Said sum = run_shell(dir, "sha256sum data");
  const auto json = nlohmann::json::parse(said.out);
  EXPECT_EQ(sum.out.substr(0, 64), json["outputs"][0]["sha256"]);
  EXPECT_EQ(json["latency_ns"]["n"], 0);  // the only run is the first run
}

TEST(Run, MadeUpInputsAreSaidAndTheSameForTheSameSeed) {
  OPMETER_SKIP_WITHOUT_AVX2();
  const ScratchDir dir;
  const Said first = run_shell(dir, "opmeter run --json --runs 1 " + kCnn);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_NE(first.err.find("input 'data' was not given: random, seed 0"), std::string::npos);
  const Said again = run_shell(dir, "opmeter run -q --json --runs 1 --pool naive " + kCnn);
  EXPECT_EQ(again.err, "");
  const Said other = run_shell(dir, "opmeter run -q --json --runs 1 --seed 1 " + kCnn);
  const auto sum = [](const Said& said) {
    return nlohmann::json::parse(said.out)["outputs"][0]["sha256"].get<std::string>();
  };
  EXPECT_EQ(sum(first), sum(again));
  EXPECT_NE(sum(first), sum(other));
}

TEST(Run, AnOutputOutsideToleranceIsExitCode1AndTheResultIsStillPrinted) {
  OPMETER_SKIP_WITHOUT_AVX2();
  const ScratchDir dir;
  const std::string words =
      "opmeter run -q --json --runs 1 " + kCnn + " --expect 0=" + kCnnOutput;  // random input
  const Said said = run_shell(dir, words);
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_EQ(count_lines(said.err), 1u) << said.err;
  EXPECT_EQ(nlohmann::json::parse(said.out)["outputs"][0]["ok"], false);
  EXPECT_EQ(run_shell(dir, words + " --atol 1000").exit_code, 0);
}

TEST(Run, WarmupRunsComeBeforeTheMeasuredOnes) {
  OPMETER_SKIP_WITHOUT_AVX2();
  const ScratchDir dir;
  const Said said = run_shell(dir, "opmeter run -q --json --warmup 3 --runs 7 " + kCnn);
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const auto json = nlohmann::json::parse(said.out);
  EXPECT_EQ(json["runs"]["count"], 10);
  EXPECT_EQ(json["runs"]["warmup"], 2);
  EXPECT_EQ(json["latency_ns"]["n"], 7);
  EXPECT_FALSE(json["latency_ns"]["p50"].is_null());
}

TEST(Run, WrongDataIsOneLineAndExitCode2Or3) {
  OPMETER_SKIP_WITHOUT_AVX2();
  const Wrong kWrongs[] = {
      {"--input nope=" + kCnnInput, 2, "nope"},
      {"--input data=" + kCnnOutput, 2, "1x10"},
      {"--input data=missing.npy", 3, "missing.npy"},
      {"--input data", 2, "NAME=FILE.npy"},
      {"--input data=" + kCnnInput + " --input data=" + kCnnInput, 2, "twice"},
      {"--expect 1=" + kCnnOutput, 2, "no output '1'"},
      {"--expect x=" + kCnnOutput, 2, "no output 'x'"},
      {"--expect 0=" + kCnnInput, 2, "1x3x64x64"},
      {"--expect 0=missing.npy", 3, "missing.npy"},
  };
  const ScratchDir dir;
  for (const Wrong& wrong : kWrongs) {
    const Said said = run_shell(dir, "opmeter run --runs 1 " + kCnn + " " + wrong.words);
    EXPECT_EQ(said.exit_code, wrong.exit_code) << wrong.words << "\n" << said.err;
    EXPECT_EQ(count_lines(said.err), 1u) << wrong.words << "\n" << said.err;
    EXPECT_NE(said.err.find(wrong.says), std::string::npos) << wrong.words << "\n" << said.err;
    EXPECT_EQ(said.out, "") << wrong.words;
  }
}

}  // namespace
}  // namespace opmeter::tests
