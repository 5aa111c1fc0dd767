// SPDX-License-Identifier: Apache-2.0
// Reads a trace file: definitions at once, events as one stream merged by time over all threads, in
// bounded memory. A cut or damaged file is read up to the damage and around it; TraceQuality says
// what is missing.
#ifndef OPMETER_PROFILER_TRACE_READER_H_
#define OPMETER_PROFILER_TRACE_READER_H_

#include <memory>
#include <span>
#include <string>

#include "opmeter/result.h"
#include "profiler/trace/event.h"

namespace opmeter::trace {

class TraceReader;

/// A single pass over the events in order of time; ties: what allocates comes last, then by thread
/// id. Where blocks of a thread are missing, kLost (bytes = events missing) and kResync stand in
/// their place. A realloc arrives as
/// kReallocBegin at its first stamp and kReallocEnd at its second.
class EventStream {
 public:
  EventStream(EventStream&&) noexcept;
  EventStream& operator=(EventStream&&) noexcept;
  ~EventStream();

  /// Fills `event` and returns true, or returns false at the end.
  bool next(Event& event);
  /// The next events of the same stream, in order, empty at the end: the fast way to read all of
  /// them. Valid until the next call. Not to be mixed with next().
  std::span<const Event> next_batch();

 private:
  friend class TraceReader;
  struct Impl;
  explicit EventStream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// An open trace file. Thread rule: one thread; streams must not outlive their reader.
class TraceReader {
 public:
  /// Opens `path`. Errors (kInput): missing, not a trace, a newer major version, header cut.
  static Result<TraceReader> open(const std::string& path);
  /// The same over bytes in memory (tests, fuzzing); `name` stands in messages. The bytes must
  /// outlive the reader.
  static Result<TraceReader> from_bytes(const uint8_t* bytes, size_t size, const std::string& name);

  TraceReader(TraceReader&&) noexcept;
  TraceReader& operator=(TraceReader&&) noexcept;
  ~TraceReader();

  const Definitions& definitions() const;
  /// Checksums and the order of blocks are verified by open; what a stream then cannot decode is
  /// added while it reads.
  const TraceQuality& quality() const;
  int version_major() const;
  int version_minor() const;

  /// Starts a new pass.
  EventStream events() const;

 private:
  friend class EventStream;
  struct Impl;
  explicit TraceReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace opmeter::trace

#endif  // OPMETER_PROFILER_TRACE_READER_H_
