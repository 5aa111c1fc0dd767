// SPDX-License-Identifier: Apache-2.0
#include "profiler/trace/writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "profiler/trace/checksum.h"
#include "profiler/trace/event_encoder.h"
#include "profiler/trace/format.h"

namespace opmeter::trace {
namespace {

constexpr size_t kSmallestCompressed = 64;  // below, a frame's own bytes eat the gain
/// All threads' unwritten columns together: beyond, every thread's block is written early.
constexpr size_t kMostBufferedBytes = 64u << 20;
constexpr uint64_t kEventsBetweenChecks = 1u << 16;
constexpr size_t kDefinitionBlockBytes = 64 * 1024;
constexpr int kZstdLevel = 1;

void append_varint(std::vector<uint8_t>& out, uint64_t v) {
  uint8_t buffer[kMaxVarintBytes];
  out.insert(out.end(), buffer, put_varint(buffer, v));
}

void append_string(std::vector<uint8_t>& out, const std::string& text) {
  append_varint(out, text.size());
  out.insert(out.end(), text.begin(), text.end());
}

std::vector<uint8_t> bytes_of_hex(const std::string& hex) {
  std::vector<uint8_t> out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(static_cast<uint8_t>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  }
  return out;
}

}  // namespace

struct TraceWriter::Impl {
  int fd = -1;
  std::string path;
  std::vector<uint8_t>* memory = nullptr;
  Status status;
  uint64_t sequence = 0;
  uint64_t bytes_written = 0;
  uint64_t events_written = 0;
  std::vector<uint8_t> definitions;
  std::vector<uint64_t> previous_frames;  // of the last stack in the definitions block
  std::unordered_map<uint32_t, EventEncoder> threads;
  // Events come in runs of one thread: the encoder of the last one is kept at hand (map nodes do
  // not move).
  uint32_t current_thread = 0;
  EventEncoder* current = nullptr;
  unsigned tick_shift = 0;
  uint64_t unchecked_events = 0;
  uint64_t limit = 0;
  bool keep_last = false, full = false, shortened = false;
  struct BlockPlace {
    uint64_t offset;
    uint32_t bytes;
    BlockType type;
  };
  std::vector<BlockPlace> blocks;  // of the file; kept when it is bounded
  std::vector<uint8_t> scratch, compressed;
  ZSTD_CCtx* zstd = ZSTD_createCCtx();

  ~Impl() {
    if (fd >= 0) close(fd);
    ZSTD_freeCCtx(zstd);
  }

  void put(const void* data, size_t size) {
    if (!status) return;
    bytes_written += size;
    const auto* bytes = static_cast<const uint8_t*>(data);
    if (memory != nullptr) {
      memory->insert(memory->end(), bytes, bytes + size);
      return;
    }
    while (size > 0) {
      const ssize_t n = ::write(fd, bytes, size);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        status = input_error(fmt::format("cannot write {}: {}; the trace ends {} bytes in", path,
                                         n == 0 ? "no space" : std::strerror(errno),
                                         bytes_written - size));
        return;
      }
      bytes += n;
      size -= static_cast<size_t>(n);
    }
  }

  void put_file_header() {
    FileHeader header{};
    std::memcpy(header.magic, kFileMagic, sizeof kFileMagic);
    header.major = kVersionMajor;
    header.minor = kVersionMinor;
    header.header_bytes = sizeof header;
    header.checksum = header_checksum(&header);
    put(&header, sizeof header);
  }

  /// Appends the payload to `compressed` if it got smaller; returns the bytes appended, or 0.
  size_t compress(const uint8_t* payload, size_t size) {
    if (size < kSmallestCompressed) return 0;
    const size_t at = compressed.size();
    compressed.resize(at + ZSTD_compressBound(size));
    const size_t n = ZSTD_compressCCtx(zstd, compressed.data() + at, compressed.size() - at,
                                       payload, size, kZstdLevel);
    const bool smaller = ZSTD_isError(n) == 0 && n < size;
    compressed.resize(at + (smaller ? n : 0));
    return smaller ? n : 0;
  }

  void put_block(BlockType type, BlockCodec codec, const uint8_t* stored, size_t stored_bytes,
                 size_t raw_bytes) {
    BlockHeader header{};
    header.magic = kBlockMagic;
    header.type = type;
    header.codec = codec;
    header.stored_bytes = static_cast<uint32_t>(stored_bytes);
    header.raw_bytes = static_cast<uint32_t>(raw_bytes);
    header.sequence = sequence++;
    if (limit != 0) {
      blocks.push_back({bytes_written, static_cast<uint32_t>(sizeof header + stored_bytes), type});
    }
    header.checksum = block_checksum(header, stored, stored_bytes);
    put(&header, sizeof header);
    put(stored, stored_bytes);
  }

  void put_block(BlockType type, const std::vector<uint8_t>& payload) {
    if (!status) return;
    compressed.clear();
    if (const size_t n = compress(payload.data(), payload.size()); n != 0) {
      put_block(type, BlockCodec::kZstd, compressed.data(), n, payload.size());
    } else {
      put_block(type, BlockCodec::kRaw, payload.data(), payload.size(), payload.size());
    }
  }

  void put_definitions() {
    if (definitions.empty()) return;
    put_block(BlockType::kDefinitions, definitions);
    definitions.clear();
    previous_frames.clear();
  }

  void put_events(EventEncoder& encoder, bool release = false) {
    if (encoder.count() == 0) return;
    put_definitions();
    if (status) {
      scratch.clear();
      compressed.clear();
      const EventBlockHead& head = encoder.head();
      for (const uint64_t field :
           {head.thread, head.index, head.first_event, head.count, head.base_ticks, head.tick_shift,
            head.run, head.op, head.depth}) {
        append_varint(scratch, field);
      }
      size_t columns = 0, raw = 0;
      for (size_t c = 0; c < kColumns; ++c) {
        columns += encoder.column(static_cast<Column>(c)).size() != 0 ? 1 : 0;
      }
      append_varint(scratch, columns);
      for (size_t c = 0; c < kColumns; ++c) {
        const ColumnBuffer& column = encoder.column(static_cast<Column>(c));
        if (column.size() == 0) continue;
        size_t stored = compress(column.data(), column.size());
        if (stored == 0) {
          stored = column.size();
          compressed.insert(compressed.end(), column.data(), column.data() + stored);
        }
        append_varint(scratch, c);
        append_varint(scratch, column.size());
        append_varint(scratch, stored);
        raw += column.size();
      }
      scratch.insert(scratch.end(), compressed.begin(), compressed.end());
      put_block(BlockType::kEvents, BlockCodec::kColumns, scratch.data(), scratch.size(), raw);
    }
    events_written += encoder.count();
    encoder.restart(release);
    if (limit != 0 && bytes_written > limit && status) keep_last ? shorten() : stop();
  }

  /// Events of a block such that a bounded file holds many blocks.
  uint64_t bounded_block() const {
    return std::clamp<uint64_t>(limit / 64 / 4, 1024, kMaxBlockEvents);
  }

  void stop() {
    full = true;
    define_text("stopped_at", std::to_string(limit));
  }

  /// Writes the file anew with all definitions and the latest events, half the limit of them, so
  /// that each byte is copied once or twice at most.
  void shorten() {
    const std::string next = path + ".part";
    const int to = ::open(next.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    struct stat st {};
    if (to < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
      status =
          input_error(fmt::format("cannot keep {} within its bound: {}; give a regular file "
                                  "in a writable folder",
                                  path, to < 0 ? std::strerror(errno) : "not a regular file"));
      if (to >= 0) close(to);
      return;
    }
    size_t first = blocks.size();
    uint64_t kept = 0;
    while (first > 0) {
      const BlockPlace& block = blocks[first - 1];
      if (block.type == BlockType::kEvents) {
        if (kept != 0 && kept + block.bytes > limit / 2) break;
        kept += block.bytes;
      }
      --first;
    }
    const int from = std::exchange(fd, to);
    std::vector<BlockPlace> old = std::exchange(blocks, {});
    bytes_written = sequence = 0;
    put_file_header();
    std::vector<uint8_t> bytes;
    for (size_t i = 0; i < old.size() && status; ++i) {
      if (i < first && old[i].type == BlockType::kEvents) continue;
      bytes.resize(old[i].bytes);
      if (::pread(from, bytes.data(), bytes.size(), static_cast<off_t>(old[i].offset)) !=
          static_cast<ssize_t>(bytes.size())) {
        status = input_error(fmt::format("cannot read {} back: {}", path, std::strerror(errno)));
        break;
      }
      BlockHeader header{};
      std::memcpy(&header, bytes.data(), sizeof header);
      blocks.push_back({bytes_written, old[i].bytes, header.type});
      header.sequence = sequence++;
      header.checksum = block_checksum(header, bytes.data() + sizeof header, header.stored_bytes);
      std::memcpy(bytes.data(), &header, sizeof header);
      put(bytes.data(), bytes.size());
    }
    close(from);
    if (status && ::rename(next.c_str(), path.c_str()) != 0) {
      status = input_error(fmt::format("cannot replace {}: {}", path, std::strerror(errno)));
    }
    if (!std::exchange(shortened, true)) define_text("kept_last", std::to_string(limit));
  }

  void define_text(const std::string& key, const std::string& value) {
    std::vector<uint8_t> payload;
    append_string(payload, key);
    append_string(payload, value);
    define(DefinitionTag::kInfo, payload);
  }

  void put_all_events(bool release) {
    if (full) return;
    std::vector<uint32_t> order;  // by id: a file must not depend on hash order
    for (const auto& [thread, encoder] : threads) order.push_back(thread);
    std::sort(order.begin(), order.end());
    for (const uint32_t thread : order) put_events(threads.at(thread), release);
  }

  void check_memory() {
    unchecked_events = 0;
    size_t buffered = 0;
    for (const auto& [thread, encoder] : threads) buffered += encoder.bytes();
    if (buffered > kMostBufferedBytes) put_all_events(true);
  }

  void define(DefinitionTag tag, const uint8_t* payload, size_t size) {
    if (definitions.size() + size > kDefinitionBlockBytes) put_definitions();
    append_varint(definitions, static_cast<uint64_t>(tag));
    append_varint(definitions, size);
    definitions.insert(definitions.end(), payload, payload + size);
  }
  void define(DefinitionTag tag, const std::vector<uint8_t>& payload) {
    define(tag, payload.data(), payload.size());
  }
};

TraceWriter::TraceWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TraceWriter::TraceWriter(TraceWriter&&) noexcept = default;
TraceWriter& TraceWriter::operator=(TraceWriter&&) noexcept = default;
TraceWriter::~TraceWriter() = default;

Result<TraceWriter> TraceWriter::create(const std::string& path) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (impl->fd < 0) {
    return input_error(fmt::format("cannot create trace file {}: {}; choose another with -o", path,
                                   std::strerror(errno)));
  }
  impl->put_file_header();
  return TraceWriter(std::move(impl));
}

TraceWriter TraceWriter::to_memory(std::vector<uint8_t>* out) {
  auto impl = std::make_unique<Impl>();
  impl->memory = out;
  impl->put_file_header();
  return TraceWriter(std::move(impl));
}

unsigned coarse_tick_shift(double ns_per_tick) {
  unsigned shift = 0;
  while (shift < 8 && ns_per_tick * static_cast<double>(2u << shift) <= kCoarseNs) ++shift;
  return shift;
}

void TraceWriter::set_tick_shift(unsigned shift) {
  impl_->tick_shift = std::min(shift, 8u);
  for (auto& [thread, encoder] : impl_->threads) encoder.set_tick_shift(impl_->tick_shift);
}

void TraceWriter::event(const Event& event) { events(&event, 1); }

void TraceWriter::events(const Event* events, size_t count) {
  Impl& impl = *impl_;
  if (count == 0 || impl.full) return;
  const uint32_t thread = events->thread;
  if (impl.current == nullptr || impl.current_thread != thread) {
    impl.current = &impl.threads.try_emplace(thread, thread).first->second;
    impl.current_thread = thread;
    impl.current->set_tick_shift(impl.tick_shift);
  }
  EventEncoder& encoder = *impl.current;
  for (size_t i = 0; i < count; ++i) {
    encoder.add(events[i]);
    if (encoder.full() || (impl.limit != 0 && encoder.count() >= impl.bounded_block())) {
      impl.put_events(encoder);
    }
    if (impl.full) return;
  }
  impl.unchecked_events += count;
  if (events[count - 1].kind == EventKind::kThreadExit) impl.put_events(encoder, true);
  if (impl.unchecked_events >= kEventsBetweenChecks) impl.check_memory();
}

void TraceWriter::define(const ModuleInfo& module) {
  const std::vector<uint8_t> build_id = bytes_of_hex(module.build_id);
  std::vector<uint8_t> payload(module.path.size() + build_id.size() + 128);
  ByteSink sink(payload.data(), payload.size());
  encode_module(sink, module.id, module.first_epoch, module.bias, module.begin, module.end,
                module.path.c_str(), build_id.data(), build_id.size());
  define_raw(DefinitionTag::kModule, payload.data(), sink.size());
}

void TraceWriter::define(const StackInfo& stack) {
  // Outer frames shared with the stack before are not repeated: stacks of one program agree in
  // their roots.
  if (impl_->definitions.size() + stack.frames.size() * kMaxVarintBytes > kDefinitionBlockBytes) {
    impl_->put_definitions();
  }
  std::vector<uint64_t>& previous = impl_->previous_frames;
  size_t shared = 0;
  while (shared < previous.size() && shared < stack.frames.size() &&
         previous[previous.size() - 1 - shared] == stack.frames[stack.frames.size() - 1 - shared]) {
    ++shared;
  }
  std::vector<uint8_t> payload;
  append_varint(payload, stack.id);
  append_varint(payload, stack.epoch);
  append_varint(payload, stack.cut ? 1 : 0);
  append_varint(payload, stack.frames.size());
  append_varint(payload, shared);
  uint64_t last = 0;
  for (size_t i = 0; i < stack.frames.size() - shared; ++i) {
    append_varint(payload, zigzag(wrapping_delta(stack.frames[i], last)));
    last = stack.frames[i];
  }
  impl_->define(DefinitionTag::kStack, payload);
  previous = stack.frames;
}

void TraceWriter::define(const GraphInfo& graph) {
  std::vector<uint8_t> payload;
  append_varint(payload, graph.id);
  append_string(payload, graph.name);
  impl_->define(DefinitionTag::kGraph, payload);
}

void TraceWriter::define(const OpInfo& op) {
  std::vector<uint8_t> payload(32 * 1024);
  ByteSink sink(payload.data(), payload.size());
  encode_op_head(sink, op.id, op.graph, op.index, op.name.c_str(), op.kind.c_str(), op.device_type,
                 op.device_id, static_cast<uint32_t>(op.inputs.size()),
                 static_cast<uint32_t>(op.outputs.size()));
  for (const std::vector<TensorInfo>* list : {&op.inputs, &op.outputs}) {
    for (const TensorInfo& t : *list) {
      encode_tensor(sink, t.name.c_str(), t.shape.data(), static_cast<uint32_t>(t.shape.size()),
                    t.dtype_code, t.dtype_bits, t.dtype_lanes, t.bytes);
    }
  }
  define_raw(DefinitionTag::kOp, payload.data(), sink.size());
}

void TraceWriter::define(const PoolInfo& pool) {
  std::vector<uint8_t> payload(pool.name.size() + 128);
  ByteSink sink(payload.data(), payload.size());
  encode_pool(sink, pool.id, pool.name.c_str(), pool.domain, pool.device_type, pool.device_id);
  define_raw(DefinitionTag::kPool, payload.data(), sink.size());
}

void TraceWriter::define(const ThreadInfo& thread) {
  std::vector<uint8_t> payload;
  append_varint(payload, thread.id);
  append_varint(payload, zigzag(thread.tid));
  append_string(payload, thread.name);
  impl_->define(DefinitionTag::kThread, payload);
}

void TraceWriter::define(const ClockSync& clock) {
  std::vector<uint8_t> payload;
  append_varint(payload, clock.ticks);
  append_varint(payload, clock.monotonic_ns);
  append_varint(payload, clock.realtime_ns);
  impl_->define(DefinitionTag::kClock, payload);
}

void TraceWriter::define_info(const std::string& key, const std::string& value) {
  impl_->define_text(key, value);
}

void TraceWriter::set_limit(uint64_t bytes, bool keep_last) {
  impl_->limit = bytes;
  impl_->keep_last = keep_last;
}

bool TraceWriter::full() const { return impl_->full; }

void TraceWriter::define_command(const std::vector<std::string>& argv) {
  std::vector<uint8_t> payload;
  append_varint(payload, argv.size());
  for (const std::string& arg : argv) append_string(payload, arg);
  impl_->define(DefinitionTag::kCommand, payload);
}

void TraceWriter::define_mark(uint32_t thread, uint64_t ticks, const std::string& text) {
  std::vector<uint8_t> payload;
  append_varint(payload, thread);
  append_varint(payload, ticks);
  append_string(payload, text);
  impl_->define(DefinitionTag::kMark, payload);
}

void TraceWriter::define_module_unload(uint32_t id, uint32_t last_epoch) {
  std::vector<uint8_t> payload;
  append_varint(payload, id);
  append_varint(payload, last_epoch);
  impl_->define(DefinitionTag::kModuleUnload, payload);
}

void TraceWriter::define_raw(DefinitionTag tag, const uint8_t* payload, size_t size) {
  impl_->define(tag, payload, size);
}

Status TraceWriter::flush() {
  impl_->put_definitions();
  impl_->put_all_events(false);
  return impl_->status;
}

Status TraceWriter::finish(const Trailer& trailer) {
  (void)flush();
  std::vector<uint8_t> payload;
  for (const uint64_t v : {trailer.lost_events, trailer.overhead_samples, trailer.overhead_ticks,
                           impl_->events_written, impl_->sequence}) {
    append_varint(payload, v);
  }
  impl_->put_block(BlockType::kTrailer, payload);
  if (impl_->fd >= 0) {
    if (::close(impl_->fd) != 0 && impl_->status) {
      impl_->status =
          input_error(fmt::format("cannot finish {}: {}", impl_->path, std::strerror(errno)));
    }
    impl_->fd = -1;
  }
  return impl_->status;
}

Status TraceWriter::status() const { return impl_->status; }
uint64_t TraceWriter::events_written() const { return impl_->events_written; }
uint64_t TraceWriter::bytes_written() const { return impl_->bytes_written; }

}  // namespace opmeter::trace
