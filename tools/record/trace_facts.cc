// SPDX-License-Identifier: Apache-2.0
#include "tools/record/trace_facts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

namespace opmeter::tools {

std::string read_first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string expand_output(const std::string& wanted, pid_t pid) {
  std::string name = wanted.empty() ? "opmeter.%p.opm" : wanted;
  const std::string number = std::to_string(pid);
  for (size_t at = 0; (at = name.find("%p", at)) != std::string::npos; at += number.size()) {
    name.replace(at, 2, number);
  }
  return name;
}

void set_up_writer(trace::TraceWriter& writer, const RecordOptions& options, double ns_per_tick) {
  writer.set_tick_shift(trace::coarse_tick_shift(ns_per_tick));
  writer.set_limit(options.max_file_bytes, !options.stop_when_full);
}

void define_facts(trace::TraceWriter& writer, const RecordOptions& options, pid_t pid,
                  double ns_per_tick) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  writer.define_info("pid", std::to_string(pid));
  writer.define_info("host", host);
  writer.define_info("cpus", std::to_string(std::thread::hardware_concurrency()));
  writer.define_info("opmeter_version", OPMETER_VERSION);
  writer.define_info("ns_per_tick", fmt::format("{:.12g}", ns_per_tick));
  writer.define_info("stacks", options.no_stacks ? "none" : options.frame_pointers ? "fp" : "full");
  if (options.scope_runs) writer.define_info("scope", "runs");
  if (options.sample_bytes != 0) {
    writer.define_info("sample_bytes", std::to_string(options.sample_bytes));
  }
  const char* tunables = getenv("GLIBC_TUNABLES");
  writer.define_info("glibc_tunables", tunables != nullptr ? tunables : "");
}

void refresh_thread_names(recorder::Drain& drain, pid_t pid) {
  for (const auto& [id, tid] : drain.threads()) {
    const std::string name = read_first_line(fmt::format("/proc/{}/task/{}/comm", pid, tid));
    if (!name.empty()) drain.name_thread(id, name);
  }
}

}  // namespace opmeter::tools
