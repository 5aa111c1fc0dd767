// SPDX-License-Identifier: Apache-2.0
#include "tools/record/followers.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <utility>

#include "profiler/recorder/clock.h"
#include "profiler/recorder/drain.h"
#include "tools/record/trace_facts.h"

namespace opmeter::tools {
namespace {

constexpr size_t kSpares = 8;
/// A part of the main program's buffer, but enough for a chunk for each of 64 threads.
constexpr uint64_t kShareOfBuffer = 4, kLeastBytes = 4u << 20;
constexpr uint64_t kNamesPeriodNs = 100'000'000;
/// For a child that was forked or spawned and has not taken a session yet: one that waits for a
/// spare is known of; one between exec and its first instruction is not.
constexpr uint64_t kGraceNs = 200'000'000, kPendingGraceNs = 2'500'000'000;

}  // namespace

/// A session, from spare to closed file.
struct Followers::Child {
  explicit Child(recorder::Session s) : session(std::move(s)) {}
  ~Child() {
    if (pidfd >= 0) close(pidfd);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool gone() const {
    if (pidfd >= 0) {
      pollfd ended{pidfd, POLLIN, 0};
      return poll(&ended, 1, 0) == 1;
    }
    return kill(outcome.pid, 0) != 0 && errno == ESRCH;
  }
  void close_file() {
    if (!drain) return;
    drain->finish();
    const trace::Trailer trailer = drain->trailer();
    if (const Status written = writer->finish(trailer); !written) {
      outcome.note = written.error().message;
    }
    outcome.events = writer->events_written();
    outcome.lost_events = trailer.lost_events;
  }

  recorder::Session session;
  std::optional<trace::TraceWriter> writer;
  std::optional<recorder::Drain> drain;
  ChildOutcome outcome;
  uint64_t order = 0;
  int pidfd = -1;
  uint64_t next_names_ns = 0;
};

Followers::Followers(recorder::SessionHeader* root, const RecordOptions& options,
                     double ns_per_tick)
    : root_(root), options_(options), ns_per_tick_(ns_per_tick), slots_(recorder::kFollowSlots) {}

Followers::~Followers() = default;

Status Followers::start() {
  put_spares_out();
  if (slots_[0] != nullptr) return {};
  return unavailable_error("cannot get shared memory for child processes; leave --follow out");
}

void Followers::put_spares_out() {
  size_t spare = 0;
  for (const auto& child : slots_) spare += child != nullptr && child->outcome.pid == 0;
  const uint64_t bytes = std::max(options_.buffer_bytes / kShareOfBuffer, kLeastBytes);
  for (size_t i = 0; i < slots_.size() && spare < kSpares; ++i) {
    if (slots_[i] != nullptr) continue;
    Result<recorder::Session> session =
        recorder::Session::create(bytes, root_->flags, recorder::Session::Pages::kWhenUsed);
    if (!session) return;  // children wait; the next pass tries again
    session->header()->sample_bytes = options_.sample_bytes;
    slots_[i] = std::make_unique<Child>(std::move(*session));
    root_->follow[i].pid.store(0);
    root_->follow[i].fd.store(slots_[i]->session.fd(), std::memory_order_release);
    ++spare;
  }
}

/// A name with the child's process id that this recording has not used: ids come again.
std::string Followers::free_name(int32_t pid) const {
  std::string wanted = options_.output;
  if (!wanted.empty() && wanted.find("%p") == std::string::npos) wanted += ".%p";
  const std::string name = expand_output(wanted, pid);
  std::string free = name;
  for (int n = 2; names_.contains(free); ++n) free = fmt::format("{}-{}", name, n);
  return free;
}

void Followers::welcome(size_t slot, int32_t pid) {
  Child& child = *slots_[slot];
  child.outcome.pid = pid;
  child.outcome.output = free_name(pid);
  child.order = order_++;
  // A child that is gone already leaves no process to open; its events are in the session.
  child.pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (!options_.force && std::filesystem::exists(child.outcome.output)) {
    child.outcome.note = fmt::format("{} exists: process {} was not recorded; use -f to replace it",
                                     child.outcome.output, pid);
    child.session.header()->stopped.store(1);
    return;
  }
  Result<trace::TraceWriter> writer = trace::TraceWriter::create(child.outcome.output);
  if (!writer) {
    child.outcome.note = writer.error().message;
    child.session.header()->stopped.store(1);
    return;
  }
  names_.insert(child.outcome.output);
  child.writer.emplace(std::move(*writer));
  set_up_writer(*child.writer, options_, ns_per_tick_);
  child.writer->define_command(options_.command);  // a forked copy of it, until it says more
  define_facts(*child.writer, options_, pid, ns_per_tick_);
  child.drain.emplace(child.session.header(), &*child.writer);
}

uint64_t Followers::pass() {
  uint64_t taken = 0;
  const uint64_t now = recorder::clock_ns(CLOCK_MONOTONIC);
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i] == nullptr) continue;
    Child& child = *slots_[i];
    if (child.outcome.pid == 0) {
      const int32_t pid = root_->follow[i].pid.load(std::memory_order_acquire);
      if (pid == 0) continue;
      welcome(i, pid);
    }
    const bool gone = child.gone();  // before the pass: what it wrote until then is in the rings
    if (child.drain) {
      taken += child.drain->pass();
      if (now >= child.next_names_ns && !gone) {
        child.next_names_ns = now + kNamesPeriodNs;
        refresh_thread_names(*child.drain, child.outcome.pid);
      }
    }
    if (!gone) continue;
    child.close_file();
    root_->follow[i].fd.store(0);
    root_->follow[i].pid.store(0);
    finished_.emplace_back(child.order, child.outcome);
    slots_[i] = nullptr;
  }
  put_spares_out();
  return taken;
}

bool Followers::running() {
  const bool some = std::any_of(slots_.begin(), slots_.end(), [](const auto& child) {
    return child != nullptr && child->outcome.pid != 0;
  });
  const uint64_t now = recorder::clock_ns(CLOCK_MONOTONIC);
  if (some) {
    alone_since_ns_ = 0;
    return true;
  }
  if (alone_since_ns_ == 0) alone_since_ns_ = now;
  const uint64_t grace = root_->forks_pending.load() != 0 ? kPendingGraceNs : kGraceNs;
  return now - alone_since_ns_ < grace;
}

std::vector<ChildOutcome> Followers::finish() {
  root_->stopped.store(1);  // who still waits for a session gives up
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i] == nullptr || slots_[i]->outcome.pid == 0) continue;
    Child& child = *slots_[i];
    child.session.header()->stopped.store(1);
    child.outcome.still_running = true;
    child.close_file();
    finished_.emplace_back(child.order, child.outcome);
    slots_[i] = nullptr;
  }
  std::sort(finished_.begin(), finished_.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ChildOutcome> outcomes;
  for (auto& [order, outcome] : finished_) outcomes.push_back(std::move(outcome));
  return outcomes;
}

}  // namespace opmeter::tools
