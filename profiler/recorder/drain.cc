// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/drain.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "profiler/recorder/clock.h"

namespace opmeter::recorder {

using trace::Event;
using trace::EventKind;

Result<Session> Session::create(uint64_t buffer_bytes, uint32_t flags, Pages pages) {
  const auto chunks = static_cast<uint32_t>(
      std::clamp<uint64_t>((buffer_bytes + kChunkBytes - 1) / kChunkBytes, 4, 1u << 16));
  const size_t bytes = session_bytes(chunks);
  const int fd = memfd_create("opmeter-session", MFD_CLOEXEC);
  const auto grow = pages == Pages::kNow ? posix_fallocate64 : [](int file, off64_t, off64_t size) {
    return ftruncate64(file, size) == 0 ? 0 : errno;
  };
  const int error = fd < 0 ? errno : grow(fd, 0, static_cast<off64_t>(bytes));
  if (error != 0) {
    const std::string why = std::strerror(error);
    if (fd >= 0) close(fd);
    return unavailable_error(fmt::format(
        "cannot get {} MiB of shared memory: {}; try a smaller --buffer", bytes >> 20, why));
  }
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    const std::string why = std::strerror(errno);
    close(fd);
    return unavailable_error(
        fmt::format("cannot map {} MiB of shared memory: {}", bytes >> 20, why));
  }
  auto* header = new (at) SessionHeader{};
  header->chunk_count = chunks;
  header->flags = flags;
  header->recorder_pid = getpid();
  header->magic = kSessionMagic;
  return Session(fd, header);
}

Session::Session(Session&& other) noexcept : fd_(other.fd_), header_(other.header_) {
  other.fd_ = -1;
  other.header_ = nullptr;
}

Session::~Session() {
  if (header_ != nullptr) munmap(header_, session_bytes(header_->chunk_count));
  if (fd_ >= 0) close(fd_);
}

std::string Session::path() const { return fmt::format("/proc/{}/fd/{}", getpid(), fd_); }

trace::ClockSync read_clocks() {
  // The reading with the shortest bracket of ticks is the truest of a few.
  trace::ClockSync best;
  uint64_t best_span = UINT64_MAX;
  for (int i = 0; i < 8; ++i) {
    const uint64_t before = ticks_now();
    const uint64_t monotonic = clock_ns(CLOCK_MONOTONIC);
    const uint64_t realtime = clock_ns(CLOCK_REALTIME);
    const uint64_t after = ticks_now();
    if (after - before < best_span) {
      best_span = after - before;
      best = {before + (after - before) / 2, monotonic, realtime};
    }
  }
  return best;
}

double calibrate_ns_per_tick(int ms) {
  const trace::ClockSync first = read_clocks();
  trace::ClockSync last = first;
  while (last.monotonic_ns - first.monotonic_ns < static_cast<uint64_t>(ms) * 1'000'000) {
    last = read_clocks();
  }
  return static_cast<double>(last.monotonic_ns - first.monotonic_ns) /
         static_cast<double>(last.ticks - first.ticks);
}

Drain::Drain(SessionHeader* header, trace::TraceWriter* writer) : header_(header), writer_(writer) {
  writer_->define(read_clocks());
}

uint32_t Drain::take_payload(uint32_t thread, const Slot* slot, uint32_t available) {
  const auto tag = static_cast<trace::DefinitionTag>(slot->address);
  const uint64_t slots = 1 + (slot->bytes + sizeof(Slot) - 1) / sizeof(Slot);
  if (slots > available) return available;  // cannot be: committed as a whole
  const auto* data = reinterpret_cast<const uint8_t*>(slot + 1);
  if (tag == trace::DefinitionTag::kStack) {
    trace::StackInfo stack;
    uint64_t flags = 0;
    std::memcpy(&stack.id, data, 4);
    std::memcpy(&stack.epoch, data + 4, 4);
    std::memcpy(&flags, data + 8, 8);
    stack.cut = (flags & 1) != 0;
    stack.frames.resize((slot->bytes - 16) / 8);
    std::memcpy(stack.frames.data(), data + 16, stack.frames.size() * 8);
    writer_->define(stack);
  } else {
    if (tag == trace::DefinitionTag::kThread) {
      trace::ByteCursor in(data, slot->bytes);
      in.varint();
      threads_[thread] = in.signed_varint();
    }
    writer_->define_raw(tag, data, slot->bytes);
  }
  return static_cast<uint32_t>(slots);
}

uint64_t Drain::take(const Chunk& chunk, uint32_t from, uint32_t to) {
  const uint32_t thread = chunk.header.thread;
  constexpr size_t kBatch = 128;  // fits the first-level cache
  Event batch[kBatch];
  size_t n = 0;
  uint32_t i = from;
  while (i < to) {
    const Slot& slot = chunk.slots[i];
    if (slot.kind == kPayloadKind) {
      i += take_payload(thread, &slot, to - i);
      continue;
    }
    if (n == kBatch) {
      writer_->events(batch, n);
      n = 0;
    }
    Event& e = batch[n++];
    e = Event{};
    e.thread = thread;
    e.ticks = slot.ticks;
    e.kind = static_cast<EventKind>(slot.kind);
    e.flags = slot.flags;
    e.api = slot.api;
    e.bytes = slot.bytes;
    const bool has_continuation = i + 1 < to && chunk.slots[i + 1].kind == kContinuation;
    switch (e.kind) {
      case EventKind::kAlloc:
      case EventKind::kFree:
      case EventKind::kPoolAlloc:
      case EventKind::kMapAlloc:
      case EventKind::kReallocEnd:
        e.address = slot.address;
        e.stack = slot.stack_or_ref;
        if (has_continuation) {
          e.ref = chunk.slots[i + 1].stack_or_ref;
          e.old_address = chunk.slots[i + 1].address;
          e.duration =
              static_cast<uint32_t>(std::min<uint64_t>(chunk.slots[i + 1].ticks, UINT32_MAX));
        }
        break;
      case EventKind::kReallocBegin:
        e.old_address = slot.address;
        break;
      case EventKind::kRunBegin:
      case EventKind::kRunEnd:
      case EventKind::kContextAttach:
      case EventKind::kResync:
        e.run = slot.address;
        e.ref = slot.stack_or_ref;
        break;
      default:
        e.address = slot.address;
        e.ref = slot.stack_or_ref;
        break;
    }
    i += has_continuation ? 2 : 1;
  }
  writer_->events(batch, n);
  return to - from;
}

uint64_t Drain::pass_over(bool partly_filled) {
  Chunk* chunks = session_chunks(header_);
  // By thread and sequence: the order in which a thread filled its chunks is the order of its
  // events.
  busy_.clear();
  for (uint32_t i = 0; i < header_->chunk_count; ++i) {
    const ChunkState state = chunks[i].header.state.load(std::memory_order_acquire);
    if (state == ChunkState::kFull || (state == ChunkState::kOwned && partly_filled)) {
      busy_.push_back(&chunks[i]);
    }
  }
  std::sort(busy_.begin(), busy_.end(), [](const Chunk* a, const Chunk* b) {
    return a->header.thread != b->header.thread ? a->header.thread < b->header.thread
                                                : a->header.sequence < b->header.sequence;
  });
  uint64_t taken = 0;
  for (Chunk* chunk : busy_) {
    // State first: nothing is committed after "full".
    const ChunkState state = chunk->header.state.load(std::memory_order_acquire);
    const uint32_t committed = chunk->header.committed.load(std::memory_order_acquire);
    if (committed == 0 && state != ChunkState::kFull) continue;  // its head may not be written yet
    ThreadProgress& progress = progress_[chunk->header.thread];
    if (chunk->header.sequence != progress.next_sequence)
      continue;  // its predecessor was not seen yet
    taken += take(*chunk, progress.taken, committed);
    progress.taken = committed;
    if (state == ChunkState::kFull) {
      ++progress.next_sequence;
      progress.taken = 0;
      chunk->header.committed.store(0, std::memory_order_relaxed);
      chunk->header.state.store(ChunkState::kFree, std::memory_order_release);
      header_->next_chunk.store(static_cast<uint32_t>(chunk - chunks), std::memory_order_relaxed);
    }
  }
  return taken;
}

uint64_t Drain::pass() {
  // Requests that stand before the pass are answered after it.
  const uint64_t flush_requested = header_->flush_requested.load(std::memory_order_acquire);
  const bool flush_wanted = flush_requested > header_->flush_done.load(std::memory_order_relaxed);
  header_->drain_beats.fetch_add(1, std::memory_order_relaxed);
  const uint64_t now = clock_ns(CLOCK_MONOTONIC);
  constexpr uint64_t kPartialPeriodNs = 10'000'000, kClockPeriodNs = 500'000'000;
  const bool partly_filled = flush_wanted || now - last_partial_ns_ > kPartialPeriodNs;
  if (partly_filled) last_partial_ns_ = now;
  const uint64_t taken = pass_over(partly_filled);
  if (writer_->full()) header_->stopped.store(kFileFull, std::memory_order_relaxed);
  if (now - last_clock_ns_ > kClockPeriodNs) {
    writer_->define(read_clocks());
    last_clock_ns_ = now;
  }
  if (flush_wanted) {
    (void)writer_->flush();
    header_->flush_done.store(flush_requested, std::memory_order_release);
  }
  return taken;
}

void Drain::flush() {
  pass_over(true);
  (void)writer_->flush();
}

uint64_t Drain::finish() {
  uint64_t taken = 0;
  for (uint64_t n = 1; n != 0;) {
    n = pass_over(true);
    taken += n;
  }
  writer_->define(read_clocks());
  return taken;
}

void Drain::name_thread(uint32_t id, const std::string& name) {
  std::string& known = names_[id];
  if (known == name) return;
  known = name;
  writer_->define(trace::ThreadInfo{id, threads_[id], name});
}

trace::Trailer Drain::trailer() const {
  return {header_->lost_events.load(), header_->overhead_samples.load(),
          header_->overhead_ticks.load()};
}

}  // namespace opmeter::recorder
