// SPDX-License-Identifier: Apache-2.0
#include "bench/recording/child.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>

extern char** environ;

namespace opmeter::bench {
namespace {

double ns(const timeval& t) {
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_usec) * 1e3;
}

}  // namespace

ChildRun run_child(const std::vector<std::string>& command) {
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) std::abort();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int failed = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  ChildRun run;
  char room[4096];
  ssize_t n = 0;
  while (failed == 0 && (n = read(out[0], room, sizeof room)) > 0) {
    run.out.append(room, static_cast<size_t>(n));
  }
  close(out[0]);
  int status = 0;
  rusage usage{};
  if (failed != 0 || wait4(pid, &status, 0, &usage) != pid || !WIFEXITED(status) ||
      WEXITSTATUS(status) != 0) {
    std::fprintf(stderr, "recording_bench: %s failed\n", argv[0]);
    std::exit(3);
  }
  run.cpu_ns = ns(usage.ru_utime) + ns(usage.ru_stime);
  std::istringstream lines(run.out);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string key, rest;
    double value = 0;
    if (words >> key >> value && !(words >> rest)) run.said[key] = value;
  }
  return run;
}

}  // namespace opmeter::bench
