// SPDX-License-Identifier: Apache-2.0
// The other end of the shared rings: owns the session file, empties chunks into a TraceWriter,
// gives them back. Runs in the parent of the program under test, so that a kill of the program
// loses nothing that was committed.
#ifndef OPMETER_PROFILER_RECORDER_DRAIN_H_
#define OPMETER_PROFILER_RECORDER_DRAIN_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "opmeter/result.h"
#include "profiler/recorder/session.h"
#include "profiler/trace/writer.h"

namespace opmeter::recorder {

/// The session file, mapped. Movable; unmapped and closed at the end of its life.
class Session {
 public:
  /// Whether the memory is allocated at once, so that a page which cannot be had fails here and not
  /// as SIGBUS in the program under test; or as it is used, for spares that may never be.
  enum class Pages { kNow, kWhenUsed };
  /// `buffer_bytes` of ring memory (rounded up to chunks, at least 4). Error kUnavailable when the
  /// kernel refuses.
  static Result<Session> create(uint64_t buffer_bytes, uint32_t flags, Pages pages = Pages::kNow);
  Session(Session&& other) noexcept;
  Session& operator=(Session&&) = delete;
  ~Session();

  SessionHeader* header() const { return header_; }
  int fd() const { return fd_; }
  /// What the program under test opens (environment OPMETER_SESSION); valid while this process
  /// lives.
  std::string path() const;

 private:
  Session(int fd, SessionHeader* header) : fd_(fd), header_(header) {}
  int fd_;
  SessionHeader* header_;
};

/// Empties a session into a writer. Thread rule: one thread, which need not be the session's
/// creator.
class Drain {
 public:
  Drain(SessionHeader* header, trace::TraceWriter* writer);

  /// One pass over the full chunks, and now and then over those still being filled: looking at
  /// these costs their owners. Returns the number of slots taken. Also answers opm_flush and takes
  /// a clock reading now and then.
  uint64_t pass();
  /// Takes everything that was committed and brings it to the file.
  void flush();
  /// After the program's end: takes what is left, in chunks owned and full alike. Returns slots
  /// taken.
  uint64_t finish();
  trace::Trailer trailer() const;
  /// Threads seen so far, to look up their names: trace id -> kernel tid.
  const std::map<uint32_t, int64_t>& threads() const { return threads_; }
  void name_thread(uint32_t id, const std::string& name);

 private:
  struct ThreadProgress {
    uint32_t next_sequence = 0;
    uint32_t taken = 0;  ///< slots taken of the chunk with that sequence
  };

  uint64_t pass_over(bool partly_filled);
  uint64_t take(const Chunk& chunk, uint32_t from, uint32_t to);
  uint32_t take_payload(uint32_t thread, const Slot* slot, uint32_t available);

  SessionHeader* header_;
  trace::TraceWriter* writer_;
  std::map<uint32_t, ThreadProgress> progress_;
  std::map<uint32_t, int64_t> threads_;
  std::map<uint32_t, std::string> names_;
  std::vector<Chunk*> busy_;
  uint64_t last_clock_ns_ = 0;
  uint64_t last_partial_ns_ = 0;
};

/// The three clocks at one moment.
trace::ClockSync read_clocks();
/// Nanoseconds per tick, measured over `ms` milliseconds of busy waiting.
double calibrate_ns_per_tick(int ms);

}  // namespace opmeter::recorder

#endif  // OPMETER_PROFILER_RECORDER_DRAIN_H_
