// SPDX-License-Identifier: Apache-2.0
// Writes a trace file: events are buffered per thread and leave as compressed, checksummed blocks;
// definitions leave first. Used by the process that drains the recorder's rings, never inside the
// program under test.
#ifndef OPMETER_PROFILER_TRACE_WRITER_H_
#define OPMETER_PROFILER_TRACE_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "opmeter/result.h"
#include "profiler/trace/codec.h"
#include "profiler/trace/event.h"

namespace opmeter::trace {

/// Totals that the producers counted, for the trailer.
struct Trailer {
  uint64_t lost_events = 0;
  uint64_t overhead_samples = 0;
  uint64_t overhead_ticks = 0;
};

/// The tick_shift whose unit is the largest not above kCoarseNs (prediction.h).
unsigned coarse_tick_shift(double ns_per_tick);

/// One file being written. Thread rule: one thread. A failed write (disk full) is remembered: later
/// calls do nothing and status() and finish() return that error, so that draining can go on without
/// blocking the program.
class TraceWriter {
 public:
  /// Creates or replaces `path`. Error kInput: cannot be created (the reason from the system).
  static Result<TraceWriter> create(const std::string& path);
  /// Writes into memory: tests and fuzzing.
  static TraceWriter to_memory(std::vector<uint8_t>* out);

  TraceWriter(TraceWriter&&) noexcept;
  TraceWriter& operator=(TraceWriter&&) noexcept;
  ~TraceWriter();

  /// Appends an event of event.thread (time_ns is ignored).
  void event(const Event& event);
  /// Appends events of one thread, in its order: the fast way.
  void events(const Event* events, size_t count);
  /// From the next blocks on heap and pool events are stored without this many low bits of ticks
  /// (at most 8): see coarse_tick_shift. Default 0.
  void set_tick_shift(unsigned shift);

  void define(const ModuleInfo& module);
  void define(const StackInfo& stack);
  void define(const GraphInfo& graph);
  void define(const OpInfo& op);
  void define(const PoolInfo& pool);
  void define(const ThreadInfo& thread);
  void define(const ClockSync& clock);
  void define_info(const std::string& key, const std::string& value);
  void define_command(const std::vector<std::string>& argv);
  void define_mark(uint32_t thread, uint64_t ticks, const std::string& text);
  void define_module_unload(uint32_t id, uint32_t last_epoch);
  /// A payload that the recorder encoded itself (codec.h): copied as it is.
  void define_raw(DefinitionTag tag, const uint8_t* payload, size_t size);

  /// Bounds the file: when it grows beyond `bytes`, either the oldest blocks of events leave it
  /// (info "kept_last"; definitions all stay), or writing ends there and full() says so (info
  /// "stopped_at"). 0 = unbounded.
  void set_limit(uint64_t bytes, bool keep_last);
  bool full() const;

  /// Everything so far reaches the file.
  Status flush();
  /// flush, trailer, close.
  Status finish(const Trailer& trailer);
  Status status() const;
  uint64_t events_written() const;
  uint64_t bytes_written() const;

 private:
  struct Impl;
  explicit TraceWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace opmeter::trace

#endif  // OPMETER_PROFILER_TRACE_WRITER_H_
