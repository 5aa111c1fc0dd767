// SPDX-License-Identifier: Apache-2.0
// TraceInfo: facts about a trace file, as plain data, for `opmeter info`: what it holds and how
// whole it is, without analysing it. JSON "opmeter.info/1".
#ifndef OPMETER_REPORTS_INFO_H_
#define OPMETER_REPORTS_INFO_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace opmeter::reports {

struct TraceInfo {
  std::string path;
  int version_major = 0, version_minor = 0;
  uint64_t file_bytes = 0;
  uint64_t events = 0;
  uint64_t duration_ns = 0;  ///< between the first and the last clock reading
  std::string started_at;    ///< UTC, ISO 8601; "" when unknown
  std::vector<std::string> command;
  std::map<std::string, std::string> info;  ///< opm_info and the recorder's facts

  struct Thread {
    uint32_t id = 0;
    int64_t tid = 0;
    std::string name;
  };
  std::vector<Thread> threads;

  struct Module {
    std::string path, build_id;
    bool unloaded = false;
  };
  std::vector<Module> modules;

  uint64_t stacks = 0, cut_stacks = 0;
  uint64_t graphs = 0, ops = 0, pools = 0, marks = 0;

  uint64_t lost_events = 0, damaged_blocks = 0;
  bool complete = false;
  std::string note;
  std::optional<double> overhead_per_event_ns;
};

}  // namespace opmeter::reports

#endif  // OPMETER_REPORTS_INFO_H_
