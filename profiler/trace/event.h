// SPDX-License-Identifier: Apache-2.0
// The vocabulary of a trace: events and the definitions that give their numbers a meaning. Plain
// data, std only; kinds.h has the enumerations. Written by the drain of the recorder's rings, read
// by analyze. docs/trace-format.md is the grammar on disk.
#ifndef OPMETER_PROFILER_TRACE_EVENT_H_
#define OPMETER_PROFILER_TRACE_EVENT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "profiler/trace/kinds.h"

namespace opmeter::trace {

/// One thing that happened. Times: `ticks` in the file, `time_ns` filled in by the reader (since
/// trace start).
struct Event {
  uint64_t ticks = 0;
  uint64_t time_ns = 0;
  uint64_t address = 0;
  uint64_t old_address = 0;
  uint64_t bytes = 0;
  uint64_t run = 0;
  uint32_t thread = 0;    ///< ThreadInfo::id
  uint32_t stack = 0;     ///< StackInfo::id, 0 = none
  uint32_t ref = 0;       ///< op, pool or graph id by kind
  uint32_t duration = 0;  ///< of the real call when flags has kTimed: ticks to a writer, ns from a
                          ///< reader
  uint16_t api = 0;       ///< AllocApi, phase or depth by kind
  EventKind kind{};
  uint8_t flags = 0;
};

/// An executable or shared library mapped during [first_epoch, last_epoch] of unloads.
struct ModuleInfo {
  uint32_t id = 0;
  std::string path;      ///< absolute where known; "[vdso]" for the vDSO
  std::string build_id;  ///< hex, may be empty
  uint64_t bias = 0;     ///< run-time address minus ELF virtual address
  uint64_t begin = 0;    ///< mapped range [begin, end)
  uint64_t end = 0;
  uint32_t first_epoch = 0;
  uint32_t last_epoch = UINT32_MAX;
};

/// A call stack, innermost first. Every entry is a return address: subtract 1 before looking it up.
struct StackInfo {
  uint32_t id = 0;
  uint32_t epoch = 0;  ///< which modules were mapped
  bool cut = false;    ///< outer frames are missing
  std::vector<uint64_t> frames;
};

struct TensorInfo {
  std::string name;
  std::vector<int64_t> shape;
  uint8_t dtype_code = 0;  ///< DLPack's
  uint8_t dtype_bits = 0;
  uint16_t dtype_lanes = 1;
  uint64_t bytes = 0;
};

struct GraphInfo {
  uint32_t id = 0;
  std::string name;
};

struct OpInfo {
  uint32_t id = 0;
  uint32_t graph = 0;
  int32_t index = 0;
  std::string name;
  std::string kind;
  int32_t device_type = 1;  ///< DLPack's
  int32_t device_id = 0;
  std::vector<TensorInfo> inputs, outputs;
};

struct PoolInfo {
  uint32_t id = 0;
  std::string name;
  int32_t domain = 0;  ///< OPM_DOMAIN_*
  int32_t device_type = 1;
  int32_t device_id = 0;
};

struct ThreadInfo {
  uint32_t id = 0;
  int64_t tid = 0;  ///< the kernel's
  std::string name;
};

/// A point in time with a name (opm_mark).
struct MarkInfo {
  uint64_t ticks = 0;
  uint64_t time_ns = 0;
  uint32_t thread = 0;
  std::string text;
};

/// One reading of the three clocks at the same moment; two or more map ticks to nanoseconds.
struct ClockSync {
  uint64_t ticks = 0;
  uint64_t monotonic_ns = 0;
  uint64_t realtime_ns = 0;
};

/// Everything a trace defines. Definitions may follow their first use in the file; this holds all
/// of them.
struct Definitions {
  std::vector<std::string> command;
  std::map<std::string, std::string>
      info;  ///< opm_info plus the recorder's facts: "pid", "host", "cpus", "opmeter_version",
             ///< "allocator", "glibc_tunables", "exit_code", "exit_signal", "stacks"
  std::map<uint32_t, ModuleInfo> modules;
  std::map<uint32_t, StackInfo> stacks;
  std::map<uint32_t, GraphInfo> graphs;
  std::map<uint32_t, OpInfo> ops;
  std::map<uint32_t, PoolInfo> pools;
  std::map<uint32_t, ThreadInfo> threads;
  std::vector<MarkInfo> marks;
  std::vector<ClockSync> clocks;

  /// The module that held `address` in `epoch`; null when none did.
  const ModuleInfo* module_at(uint64_t address, uint32_t epoch) const;
};

/// What the reader and the recorder know to be missing. Nothing is lost without a number here.
struct TraceQuality {
  uint64_t lost_events = 0;     ///< counted by the producers: no room within the bounded wait
  uint64_t damaged_blocks = 0;  ///< failed their checksum or did not decode
  bool complete = false;        ///< the trailer is there and no block is missing
  std::string note;  ///< one line for a person when not complete: what, where in the file
  uint64_t overhead_samples = 0;  ///< events whose own recording was timed
  uint64_t overhead_ticks = 0;    ///< sum of these times
  double ns_per_tick = 1.0;
  uint64_t events = 0;  ///< events that can be read
  uint64_t file_bytes = 0;
};

}  // namespace opmeter::trace

#endif  // OPMETER_PROFILER_TRACE_EVENT_H_
