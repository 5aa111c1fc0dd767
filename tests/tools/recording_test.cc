// SPDX-License-Identifier: Apache-2.0
// record, profile, report, info and doctor as a user meets them: under the interposer.
#include "tests/tools/run_command.h"

namespace opmeter::tests {
namespace {

const std::string kCnn = OPMETER_TEST_DATA "/tvm/cnn_09.so";

TEST(Record, PassesStreamsAndExitCodeAndClosesWithOneLine) {
  const ScratchDir dir;
  const Said said = run_shell(
      dir, "echo in | opmeter record -o a.opm -- sh -c 'read x; echo $x; echo err >&2; exit 7'");
  EXPECT_EQ(said.exit_code, 7);
  EXPECT_EQ(said.out, "in\n");
  EXPECT_EQ(said.err.rfind("err\nopmeter: a.opm: ", 0), 0u) << said.err;
  EXPECT_NE(said.err.find("next: opmeter report a.opm"), std::string::npos);
  EXPECT_EQ(count_lines(said.err), 2u);
  EXPECT_EQ(run_shell(dir, "opmeter record -q -f -o a.opm -- true").err, "");
}

TEST(Record, EndsAsTheProgramDidOrCouldNot) {
  const ScratchDir dir;
  EXPECT_EQ(run_shell(dir, "opmeter record -q -- sh -c 'kill -9 $$'").exit_code, 137);
  const Said missing = run_shell(dir, "opmeter record -o m.opm -- ./not-there");
  EXPECT_EQ(missing.exit_code, 127);
  EXPECT_EQ(count_lines(missing.err), 1u) << missing.err;
  EXPECT_FALSE(std::filesystem::exists(dir.file("m.opm")));
  const Said not_runnable = run_shell(dir, "opmeter record -o m.opm -- /etc/passwd");
  EXPECT_EQ(not_runnable.exit_code, 126);
  EXPECT_EQ(count_lines(not_runnable.err), 1u) << not_runnable.err;
  EXPECT_FALSE(std::filesystem::exists(dir.file("m.opm")));
}

TEST(Record, ReplacesAFileOnlyWithForce) {
  const ScratchDir dir;
  std::ofstream(dir.file("a.opm")) << "precious";
  const Said refused = run_shell(dir, "opmeter record -o a.opm -- touch started");
  EXPECT_EQ(refused.exit_code, 125);
  EXPECT_EQ(count_lines(refused.err), 1u) << refused.err;
  EXPECT_NE(refused.err.find("-f"), std::string::npos);
  EXPECT_EQ(read_file(dir.file("a.opm")), "precious");
  EXPECT_FALSE(std::filesystem::exists(dir.file("started")));
  EXPECT_EQ(run_shell(dir, "opmeter record -q -f -o a.opm -- true").exit_code, 0);
  EXPECT_EQ(run_shell(dir, "opmeter info a.opm").exit_code, 0);
  EXPECT_EQ(run_shell(dir, "opmeter record -o no/such/a.opm -- true").exit_code, 125);
}

TEST(Record, PutsTheProcessIdIntoTheName) {
  const ScratchDir dir;
  const Said said = run_shell(dir, "opmeter record -q -o 'x.%p.opm' -- sh -c 'echo $$'");
  const std::string pid = said.out.substr(0, said.out.find('\n'));
  EXPECT_TRUE(std::filesystem::exists(dir.file("x." + pid + ".opm")));
  const Said unnamed = run_shell(dir, "opmeter record -q -- sh -c 'echo $$'");
  const std::string other = unnamed.out.substr(0, unnamed.out.find('\n'));
  EXPECT_TRUE(std::filesystem::exists(dir.file("opmeter." + other + ".opm")));
}

TEST(Record, APythonProgramIsUnchanged) {
  const ScratchDir dir;
  const Said said =
      run_shell(dir,
                "opmeter record -q -o p.opm -- python3 -c 'import sys; print(sum(range(10))); "
                "sys.exit(3)'");
  EXPECT_EQ(said.exit_code, 3);
  EXPECT_EQ(said.out, "45\n");
  const auto json = nlohmann::json::parse(run_shell(dir, "opmeter report --json p.opm").out);
  EXPECT_GT(json["alloc"]["total"]["calls"], 100);
  EXPECT_EQ(json["quality"]["lost_events"], 0);
}

TEST(Record, StacksCanBeLeftOutOrComparedWithLibunwind) {
  const ScratchDir dir;
  const Said none = run_shell(dir, "opmeter record --stacks none -o n.opm -- ls");
  EXPECT_EQ(none.exit_code, 0) << none.err;
  const Said checked = run_shell(dir, "opmeter record --verify-stacks -o v.opm -- ls");
  EXPECT_EQ(checked.exit_code, 0);
  EXPECT_NE(checked.err.find("compared with a walk by libunwind: 0 different"), std::string::npos)
      << checked.err;
  EXPECT_EQ(run_shell(dir, "opmeter record --stacks some -o x.opm -- ls").exit_code, 2);
}

TEST(Profile, ReportsEachOperatorInFirstRunAndSteadyState) {
  OPMETER_SKIP_WITHOUT_AVX2();
  const ScratchDir dir;
  const Said said =
      run_shell(dir, "opmeter profile " + kCnn + " --pool naive --runs 20 -o c.opm --json");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const auto json = nlohmann::json::parse(said.out);
  EXPECT_EQ(json["schema"], "opmeter.report/1");
  EXPECT_EQ(json["runs"]["count"], 20);
  EXPECT_EQ(json["context"]["pool"], "naive");
  EXPECT_GT(json["alloc"]["first_run"]["calls"], 0);
  EXPECT_GT(json["alloc"]["steady_per_run"]["calls"], 0);
  EXPECT_NE(said.err.find("next: opmeter report c.opm"), std::string::npos) << said.err;

  const auto caching = nlohmann::json::parse(
      run_shell(dir, "opmeter profile -q " + kCnn + " --runs 20 -o d.opm --json").out);
  EXPECT_EQ(caching["context"]["pool"], "caching");
  EXPECT_EQ(caching["alloc"]["steady_per_run"]["calls_sum"], 0);
}

TEST(Profile, ExitsAsTheRunDidAndLeavesNoTraceOfAFailedOne) {
  OPMETER_SKIP_WITHOUT_AVX2();
  const ScratchDir dir;
  const Said missing = run_shell(dir, "opmeter profile missing.so -o m.opm");
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_EQ(count_lines(missing.err), 1u) << missing.err;
  EXPECT_EQ(missing.out, "");
  EXPECT_FALSE(std::filesystem::exists(dir.file("m.opm")));
  const Said unexpected = run_shell(
      dir, "opmeter profile -q --runs 2 " + kCnn +
               " -o u.opm --json --expect 0=" + OPMETER_TEST_DATA "/tvm/cnn_09.out.0.npy");
  EXPECT_EQ(unexpected.exit_code, 1);
  EXPECT_EQ(count_lines(unexpected.err), 1u) << unexpected.err;
  EXPECT_EQ(nlohmann::json::parse(unexpected.out)["runs"]["count"], 2);
}

TEST(Profile, AModelGivenByARelativePathIsFoundFromAnotherDirectoryLater) {
  OPMETER_SKIP_WITHOUT_AVX2();
  const ScratchDir dir;
  ASSERT_EQ(run_shell(dir, "cp " + kCnn + " m.so && opmeter profile -q --runs 2 ./m.so -o m.opm")
                .exit_code,
            0);
  const Said said =
      run_shell(dir, "cd / && opmeter report --all --json '" + dir.file("m.opm") + "'");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  size_t frames = 0;
  const nlohmann::json report = nlohmann::json::parse(said.out);
  for (const auto& stack : report["stacks"]) {
    for (const auto& frame : stack["frames"]) {
      const auto module = frame["module"].get<std::string>();
      if (module.find("m.so") == std::string::npos || module.find("libm.so") != std::string::npos)
        continue;
      ++frames;
      EXPECT_EQ(module[0], '/') << module;
    }
  }
  EXPECT_GT(frames, 0u);
}

class Reports : public testing::Test {
 protected:
  void SetUp() override {
    OPMETER_SKIP_WITHOUT_AVX2();
    const Said said = run_shell(dir_, "opmeter profile -q " + kCnn + " --runs 8 -o c.opm");
    ASSERT_EQ(said.exit_code, 0) << said.err;
  }
  ScratchDir dir_;
};

TEST_F(Reports, EveryViewIsWithin80ColumnsAndAPipeHasNoColours) {
  for (const char* view : {"diag", "ops", "sizes", "stacks", "threads", "timeline"}) {
    for (const char* more : {"", " --all", " --top 1", " --bins 1K,5K,15K,20K"}) {
      const Said said =
          run_shell(dir_, "TERM=xterm opmeter report c.opm --view " + std::string(view) + more);
      EXPECT_EQ(said.exit_code, 0) << view << more << said.err;
      EXPECT_GT(said.out.size(), 40u) << view << more;
      EXPECT_LE(widest_line(said.out), 80u) << view << more << "\n" << said.out;
      EXPECT_EQ(said.out.find('\x1b'), std::string::npos) << view << more;
    }
  }
  EXPECT_NE(run_shell(dir_, "opmeter report c.opm --color always").out.find('\x1b'),
            std::string::npos);
}

TEST_F(Reports, SeveralFilesAreReportedOneAfterAnother) {
  const std::string one = run_shell(dir_, "opmeter report c.opm").out;
  EXPECT_EQ(run_shell(dir_, "opmeter report c.opm c.opm").out, one + "\n" + one);
}

TEST_F(Reports, AResultGoesToAFileOnlyWhenItMay) {
  EXPECT_EQ(run_shell(dir_, "opmeter report c.opm --json -o r.json").exit_code, 0);
  EXPECT_EQ(nlohmann::json::parse(read_file(dir_.file("r.json")))["schema"], "opmeter.report/1");
  const Said refused = run_shell(dir_, "opmeter report c.opm -o r.json");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(count_lines(refused.err), 1u) << refused.err;
  EXPECT_EQ(run_shell(dir_, "opmeter report c.opm -f -o r.json").exit_code, 0);
}

TEST_F(Reports, ACutTraceIsReadUpToTheCutAndSaysSo) {
  // Long enough for several blocks of events: what is cut away is the last ones.
  ASSERT_EQ(run_shell(dir_, "opmeter profile -q -f --pool naive " + kCnn +
                                " --runs 3000 -o c.opm > /dev/null")
                .exit_code,
            0);
  const std::string whole = read_file(dir_.file("c.opm"));
  std::ofstream(dir_.file("cut.opm"), std::ios::binary) << whole.substr(0, whole.size() * 3 / 4);
  const Said said = run_shell(dir_, "opmeter report cut.opm --json");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(nlohmann::json::parse(said.out)["quality"]["complete"], false);
  const auto info = nlohmann::json::parse(run_shell(dir_, "opmeter info cut.opm --json").out);
  EXPECT_EQ(info["schema"], "opmeter.info/1");
  EXPECT_EQ(info["quality"]["complete"], false);
  std::ofstream(dir_.file("stub.opm"), std::ios::binary) << whole.substr(0, 16);
  const Said stub = run_shell(dir_, "opmeter report stub.opm");
  EXPECT_EQ(stub.exit_code, 3);
  EXPECT_EQ(count_lines(stub.err), 1u) << stub.err;
}

TEST_F(Reports, InfoIsOneDocumentOrAPageWithin80Columns) {
  const Said page = run_shell(dir_, "opmeter info c.opm");
  EXPECT_EQ(page.exit_code, 0);
  EXPECT_LE(widest_line(page.out), 80u) << page.out;
  const auto json = nlohmann::json::parse(run_shell(dir_, "opmeter info c.opm --json").out);
  EXPECT_EQ(json["quality"]["complete"], true);
}

TEST(Doctor, FindsThatRecordingUnwindingAndSymbolsWork) {
  const ScratchDir dir;
  const Said said = run_shell(dir, "opmeter doctor --json");
  EXPECT_EQ(said.exit_code, 0) << said.out;
  EXPECT_EQ(said.err, "");
  const auto json = nlohmann::json::parse(said.out);
  EXPECT_EQ(json["schema"], "opmeter.doctor/1");
  std::map<std::string, std::string> status;
  for (const auto& check : json["checks"]) {
    EXPECT_TRUE(check.contains("detail") && check.contains("fix"));
    status[check["name"]] = check["status"];
    EXPECT_TRUE(status[check["name"]] == "ok" || status[check["name"]] == "warn" ||
                status[check["name"]] == "missing");
  }
  for (const char* works : {"preload", "unwinder", "symbols"}) EXPECT_EQ(status[works], "ok");
  for (const char* told : {"cpu", "clock", "perf", "ptrace", "cuda", "cupti", "opencl"}) {
    EXPECT_EQ(status.count(told), 1u) << told;
  }
  const Said page = run_shell(dir, "opmeter doctor");
  EXPECT_LE(widest_line(page.out), 80u) << page.out;
}

TEST(Doctor, SaysWhatIsMissingAndWhatToDo) {
  const ScratchDir dir;
  const Said said = run_shell(dir, "OPMETER_PRELOAD=/nowhere.so opmeter doctor --json");
  EXPECT_EQ(said.exit_code, 5);
  const auto preload = nlohmann::json::parse(said.out)["checks"][0];
  EXPECT_EQ(preload["name"], "preload");
  EXPECT_EQ(preload["status"], "missing");
  EXPECT_NE(preload["fix"], "");
}

}  // namespace
}  // namespace opmeter::tests
