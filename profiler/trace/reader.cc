// SPDX-License-Identifier: Apache-2.0
// Over 500 lines because the grammar is read in one place: blocks, the switch over definitions, events, the merge.
#include "profiler/trace/reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <queue>
#include <vector>

#include "profiler/trace/checksum.h"
#include "profiler/trace/codec.h"
#include "profiler/trace/format.h"

namespace opmeter::trace {
namespace {

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
constexpr bool kVerifyChecksums = false;  // let a fuzzer reach the decoders
#else
constexpr bool kVerifyChecksums = true;
#endif

/// Where a block's payload lies in the file.
struct BlockRef {
  const uint8_t* payload = nullptr;
  BlockHeader header{};
};

bool load_payload(const BlockRef& block, std::vector<uint8_t>& out) {
  out.resize(block.header.raw_bytes);
  if (block.header.codec == BlockCodec::kRaw) {
    if (block.header.stored_bytes != block.header.raw_bytes) return false;
    if (!out.empty()) std::memcpy(out.data(), block.payload, out.size());
    return true;
  }
  if (block.header.codec != BlockCodec::kZstd) return false;
  const size_t n =
      ZSTD_decompress(out.data(), out.size(), block.payload, block.header.stored_bytes);
  return ZSTD_isError(n) == 0 && n == out.size();
}

std::string take_string(ByteCursor& in) {
  size_t size = 0;
  const uint8_t* bytes = in.bytes(size);
  return bytes == nullptr ? std::string() : std::string(reinterpret_cast<const char*>(bytes), size);
}

uint32_t take_u32(ByteCursor& in) { return static_cast<uint32_t>(in.varint()); }

std::vector<TensorInfo> take_tensors(ByteCursor& in, uint64_t count) {
  std::vector<TensorInfo> tensors;
  for (uint64_t i = 0; i < count && !in.failed(); ++i) {
    TensorInfo t;
    t.name = take_string(in);
    const uint64_t ndim = in.varint();
    for (uint64_t d = 0; d < ndim && !in.failed(); ++d) t.shape.push_back(in.signed_varint());
    t.dtype_code = static_cast<uint8_t>(in.varint());
    t.dtype_bits = static_cast<uint8_t>(in.varint());
    t.dtype_lanes = static_cast<uint16_t>(in.varint());
    t.bytes = in.varint();
    if (!in.failed()) tensors.push_back(std::move(t));
  }
  return tensors;
}

/// Ticks to nanoseconds since the first clock reading, by the line through the first and the last
/// one.
class Clock {
 public:
  Clock() = default;
  Clock(const std::vector<ClockSync>& syncs, double fallback_ns_per_tick)
      : ns_per_tick_(fallback_ns_per_tick) {
    if (syncs.empty()) return;
    const auto by_ticks = [](const ClockSync& a, const ClockSync& b) { return a.ticks < b.ticks; };
    const auto [first, last] = std::minmax_element(syncs.begin(), syncs.end(), by_ticks);
    zero_ = first->ticks;
    // Shorter than this, the error of the two readings would weigh more than the start-up
    // calibration's.
    constexpr uint64_t kShortestNs = 20'000'000;
    if (last->ticks > first->ticks && last->monotonic_ns > first->monotonic_ns + kShortestNs) {
      ns_per_tick_ = static_cast<double>(last->monotonic_ns - first->monotonic_ns) /
                     static_cast<double>(last->ticks - first->ticks);
    }
  }
  uint64_t ns(uint64_t ticks) const {
    return ticks <= zero_
               ? 0
               : static_cast<uint64_t>(static_cast<double>(ticks - zero_) * ns_per_tick_ + 0.5);
  }
  double ns_per_tick() const { return ns_per_tick_; }

 private:
  uint64_t zero_ = 0;
  double ns_per_tick_ = 1.0;
};

}  // namespace

const ModuleInfo* Definitions::module_at(uint64_t address, uint32_t epoch) const {
  for (const auto& [id, module] : modules) {
    if (address >= module.begin && address < module.end && epoch >= module.first_epoch &&
        epoch <= module.last_epoch) {
      return &module;
    }
  }
  return nullptr;
}

struct TraceReader::Impl {
  std::string name;
  const uint8_t* bytes = nullptr;
  size_t size = 0;
  bool mapped = false;
  FileHeader header{};
  Definitions definitions;
  TraceQuality quality;
  std::map<uint32_t, std::vector<BlockRef>> event_blocks;  // by thread, in file order
  Clock clock;

  ~Impl() {
    if (mapped && size > 0) munmap(const_cast<uint8_t*>(bytes), size);
  }

  Status read();
  void note(std::string text) {
    if (quality.note.empty()) quality.note = std::move(text);
  }
  bool block_at(size_t offset, BlockRef& block) const;
  void read_block(const BlockRef& block, size_t offset, std::vector<uint8_t>& scratch,
                  bool& trailer);
  bool read_definitions(const std::vector<uint8_t>& payload);
  bool read_definition(DefinitionTag tag, ByteCursor& in, std::vector<uint64_t>& previous_frames);
};

bool TraceReader::Impl::block_at(size_t offset, BlockRef& block) const {
  if (offset > size || size - offset < sizeof(BlockHeader)) return false;
  std::memcpy(&block.header, bytes + offset, sizeof(BlockHeader));
  if (block.header.magic != kBlockMagic) return false;
  if (block.header.stored_bytes > size - offset - sizeof(BlockHeader)) return false;
  if (block.header.raw_bytes > kMaxBlockBytes) return false;
  block.payload = bytes + offset + sizeof(BlockHeader);
  return !kVerifyChecksums || block_checksum(block.header, block.payload,
                                             block.header.stored_bytes) == block.header.checksum;
}

bool TraceReader::Impl::read_definition(DefinitionTag tag, ByteCursor& in,
                                        std::vector<uint64_t>& previous_frames) {
  switch (tag) {
    case DefinitionTag::kInfo: {
      std::string key = take_string(in);
      std::string value = take_string(in);
      if (!in.failed()) definitions.info[std::move(key)] = std::move(value);
      break;
    }
    case DefinitionTag::kThread: {
      ThreadInfo t;
      t.id = take_u32(in);
      t.tid = in.signed_varint();
      t.name = take_string(in);
      if (!in.failed()) definitions.threads[t.id] = std::move(t);
      break;
    }
    case DefinitionTag::kModule: {
      ModuleInfo m;
      m.id = take_u32(in);
      m.first_epoch = take_u32(in);
      m.bias = in.varint();
      m.begin = in.varint();
      m.end = in.varint();
      m.path = take_string(in);
      size_t n = 0;
      const uint8_t* id = in.bytes(n);
      for (size_t i = 0; i < n; ++i) m.build_id += fmt::format("{:02x}", id[i]);
      if (!in.failed()) definitions.modules[m.id] = std::move(m);
      break;
    }
    case DefinitionTag::kModuleUnload: {
      const uint32_t id = take_u32(in);
      const uint32_t last_epoch = take_u32(in);
      if (in.failed()) break;
      for (auto& [module_id, module] : definitions.modules) {
        // Id 0 = the process image was replaced: everything mapped until then.
        const bool ends = id == 0 ? module.first_epoch <= last_epoch : module_id == id;
        if (ends && module.last_epoch == UINT32_MAX) module.last_epoch = last_epoch;
      }
      break;
    }
    case DefinitionTag::kStack: {
      StackInfo s;
      s.id = take_u32(in);
      s.epoch = take_u32(in);
      s.cut = (in.varint() & 1) != 0;
      const uint64_t count = in.varint();
      const uint64_t shared = in.varint();
      if (in.failed() || shared > count || shared > previous_frames.size() ||
          count - shared > in.remaining()) {
        return false;
      }
      uint64_t last = 0;
      for (uint64_t i = 0; i < count - shared; ++i) {
        last += static_cast<uint64_t>(in.signed_varint());
        s.frames.push_back(last);
      }
      s.frames.insert(s.frames.end(), previous_frames.end() - static_cast<ptrdiff_t>(shared),
                      previous_frames.end());
      previous_frames = s.frames;
      if (!in.failed()) definitions.stacks[s.id] = std::move(s);
      break;
    }
    case DefinitionTag::kGraph: {
      GraphInfo g;
      g.id = take_u32(in);
      g.name = take_string(in);
      if (!in.failed()) definitions.graphs[g.id] = std::move(g);
      break;
    }
    case DefinitionTag::kOp: {
      OpInfo op;
      op.id = take_u32(in);
      op.graph = take_u32(in);
      op.index = static_cast<int32_t>(in.signed_varint());
      op.name = take_string(in);
      op.kind = take_string(in);
      op.device_type = static_cast<int32_t>(in.signed_varint());
      op.device_id = static_cast<int32_t>(in.signed_varint());
      const uint64_t inputs = in.varint();
      const uint64_t outputs = in.varint();
      op.inputs = take_tensors(in, inputs);
      op.outputs = take_tensors(in, outputs);
      if (!in.failed()) definitions.ops[op.id] = std::move(op);
      break;
    }
    case DefinitionTag::kPool: {
      PoolInfo p;
      p.id = take_u32(in);
      p.name = take_string(in);
      p.domain = static_cast<int32_t>(in.signed_varint());
      p.device_type = static_cast<int32_t>(in.signed_varint());
      p.device_id = static_cast<int32_t>(in.signed_varint());
      if (!in.failed()) definitions.pools[p.id] = std::move(p);
      break;
    }
    case DefinitionTag::kClock: {
      ClockSync c;
      c.ticks = in.varint();
      c.monotonic_ns = in.varint();
      c.realtime_ns = in.varint();
      if (!in.failed()) definitions.clocks.push_back(c);
      break;
    }
    case DefinitionTag::kMark: {
      MarkInfo m;
      m.thread = take_u32(in);
      m.ticks = in.varint();
      m.text = take_string(in);
      if (!in.failed()) definitions.marks.push_back(std::move(m));
      break;
    }
    case DefinitionTag::kCommand: {
      const uint64_t count = in.varint();
      std::vector<std::string> argv;
      for (uint64_t i = 0; i < count && !in.failed(); ++i) argv.push_back(take_string(in));
      if (!in.failed()) definitions.command = std::move(argv);
      break;
    }
    default:
      return true;  // from a newer writer: its length was read, its meaning is not needed here
  }
  return !in.failed();
}

bool TraceReader::Impl::read_definitions(const std::vector<uint8_t>& payload) {
  ByteCursor in(payload.data(), payload.size());
  std::vector<uint64_t> previous_frames;
  while (!in.at_end()) {
    const uint64_t tag = in.varint();
    size_t n = 0;
    const uint8_t* at = in.bytes(n);
    if (in.failed()) return false;
    ByteCursor record(at, n);
    if (tag > UINT8_MAX) continue;
    if (!read_definition(static_cast<DefinitionTag>(tag), record, previous_frames)) return false;
  }
  return true;
}

void TraceReader::Impl::read_block(const BlockRef& block, size_t offset,
                                   std::vector<uint8_t>& scratch, bool& trailer) {
  const auto damaged = [&](const char* what) {
    ++quality.damaged_blocks;
    note(fmt::format("{} at byte {} does not decode", what, offset));
  };
  if (block.header.type == BlockType::kEvents) {
    // Only the head is needed now; the whole is decoded when a stream reaches it.
    if (!load_payload(block, scratch)) return damaged("event block");
    ByteCursor in(scratch.data(), scratch.size());
    const uint32_t thread = take_u32(in);
    in.varint();
    const uint64_t count = in.varint();
    if (in.failed() || count > in.remaining()) return damaged("event block");
    quality.events += count;
    event_blocks[thread].push_back(block);
    return;
  }
  if (!load_payload(block, scratch)) return damaged("block");
  if (block.header.type == BlockType::kDefinitions) {
    if (!read_definitions(scratch)) damaged("definition block");
  } else if (block.header.type == BlockType::kTrailer) {
    ByteCursor in(scratch.data(), scratch.size());
    quality.lost_events = in.varint();
    quality.overhead_samples = in.varint();
    quality.overhead_ticks = in.varint();
    in.varint();  // events written: quality.events counts what is really there
    in.varint();
    if (in.failed()) return damaged("trailer");
    trailer = true;
  }
}

Status TraceReader::Impl::read() {
  quality.file_bytes = size;
  if (size < sizeof(FileHeader) || std::memcmp(bytes, kFileMagic, sizeof kFileMagic) != 0) {
    return input_error(fmt::format("{}: not an Opmeter trace ({}); make one with `opmeter record`",
                                   name,
                                   size == 0                   ? "the file is empty"
                                   : size < sizeof(FileHeader) ? "shorter than its header"
                                                               : "wrong magic"));
  }
  std::memcpy(&header, bytes, sizeof header);
  if (kVerifyChecksums && header_checksum(&header) != header.checksum) {
    return input_error(fmt::format("{}: the trace header is damaged; record again", name));
  }
  if (header.major != kVersionMajor || header.minor > kVersionMinor) {
    return input_error(
        fmt::format("{}: trace format {}.{}, this opmeter reads {}.{}; use a newer opmeter", name,
                    header.major, header.minor, kVersionMajor, kVersionMinor));
  }
  if (header.header_bytes < sizeof header || header.header_bytes > size) {
    return input_error(fmt::format("{}: the trace header is damaged; record again", name));
  }

  size_t offset = header.header_bytes;
  uint64_t expected = 0;
  bool trailer = false;
  std::vector<uint8_t> scratch;
  while (offset < size) {
    BlockRef block;
    if (!block_at(offset, block)) {
      // Damage or a cut: look for the next block that proves itself by its checksum.
      size_t next = offset + 1;
      BlockRef found;
      for (;; ++next) {
        const void* at = size - next < sizeof(BlockHeader)
                             ? nullptr
                             : memmem(bytes + next, size - next, &kBlockMagic, sizeof kBlockMagic);
        if (at == nullptr) {
          next = size;
          break;
        }
        next = static_cast<size_t>(static_cast<const uint8_t*>(at) - bytes);
        if (block_at(next, found)) break;
      }
      ++quality.damaged_blocks;
      note(next == size
               ? fmt::format("cut at byte {} of {}: what follows is unreadable", offset, size)
               : fmt::format("damaged between bytes {} and {}", offset, next));
      offset = next;
      continue;
    }
    if (block.header.sequence > expected) {
      const uint64_t missing = block.header.sequence - expected;
      // A damaged stretch has been counted as one block already; more may have stood in it.
      quality.damaged_blocks = std::max(quality.damaged_blocks, missing);
      note(fmt::format("{} block(s) missing before byte {}", missing, offset));
    }
    expected = block.header.sequence + 1;
    read_block(block, offset, scratch, trailer);
    offset += sizeof(BlockHeader) + block.header.stored_bytes;
  }
  if (!trailer) note("the recording did not end properly: no trailer");
  quality.complete = trailer && quality.damaged_blocks == 0;

  double fallback = 1.0;
  if (const auto it = definitions.info.find("ns_per_tick"); it != definitions.info.end()) {
    const double value = std::strtod(it->second.c_str(), nullptr);
    if (value > 0 && value < 1e6) fallback = value;
  }
  clock = Clock(definitions.clocks, fallback);
  quality.ns_per_tick = clock.ns_per_tick();
  for (MarkInfo& mark : definitions.marks) mark.time_ns = clock.ns(mark.ticks);
  return {};
}

// ---------------------------------------------------------------------------------------------------------------

namespace {

/// The events of one thread, decoded block by block.
class ThreadEvents {
 public:
  ThreadEvents(uint32_t thread, const std::vector<BlockRef>* blocks)
      : thread_(thread), blocks_(blocks) {}

  bool next(Event& event) {
    while (left_ == 0) {
      if (next_block_ == blocks_->size()) return false;
      start_block((*blocks_)[next_block_++]);
    }
    if (decode(event)) {
      --left_;
      return true;
    }
    left_ = 0;
    return next(event);
  }

 private:
  void start_block(const BlockRef& block) {
    left_ = 0;
    if (!load_payload(block, payload_)) return;
    cursor_ = ByteCursor(payload_.data(), payload_.size());
    cursor_.varint();  // thread
    ticks_ = cursor_.varint();
    left_ = cursor_.varint();
    if (cursor_.failed()) left_ = 0;
    address_ = 0;
    stack_ = 0;
  }

  bool decode(Event& event) {
    const uint8_t head = cursor_.byte();
    event = Event{};
    event.kind = static_cast<EventKind>(head & 31);
    event.flags = static_cast<uint8_t>(head >> 5);
    event.thread = thread_;
    const uint8_t fields = event_fields(event.kind);
    if (fields == 255) return false;
    ticks_ += static_cast<uint64_t>(cursor_.signed_varint());
    event.ticks = ticks_;
    if (fields & kFieldAddress) event.address = take_address();
    if (fields & kFieldOldAddress) event.old_address = take_address();
    if (fields & kFieldBytes) event.bytes = cursor_.varint();
    if (fields & kFieldStack) {
      stack_ += static_cast<uint32_t>(cursor_.signed_varint());
      event.stack = stack_;
    }
    if (fields & kFieldRef) event.ref = static_cast<uint32_t>(cursor_.varint());
    if (fields & kFieldApi) event.api = static_cast<uint16_t>(cursor_.varint());
    if (fields & kFieldRun) event.run = cursor_.varint();
    return !cursor_.failed();
  }

  uint64_t take_address() {
    address_ += static_cast<uint64_t>(cursor_.signed_varint());
    return address_;
  }

  uint32_t thread_;
  const std::vector<BlockRef>* blocks_;
  size_t next_block_ = 0;
  std::vector<uint8_t> payload_;
  ByteCursor cursor_{nullptr, 0};
  uint64_t left_ = 0;
  uint64_t ticks_ = 0;
  uint64_t address_ = 0;
  uint32_t stack_ = 0;
};

}  // namespace

struct EventStream::Impl {
  struct Source {
    ThreadEvents events;
    Event head;
    uint64_t key = 0;  ///< ticks that never go back within a thread: its own order always holds
  };
  std::vector<Source> sources;
  const Clock* clock = nullptr;
  // Sources by (key, thread order); rebuilt only when the head source stops being the earliest.
  std::vector<size_t> heap;

  bool later(size_t a, size_t b) const {
    return sources[a].key != sources[b].key ? sources[a].key > sources[b].key : a > b;
  }
  void push(size_t source) {
    heap.push_back(source);
    std::push_heap(heap.begin(), heap.end(), [this](size_t a, size_t b) { return later(a, b); });
  }
  size_t pop() {
    std::pop_heap(heap.begin(), heap.end(), [this](size_t a, size_t b) { return later(a, b); });
    const size_t source = heap.back();
    heap.pop_back();
    return source;
  }
  bool refill(Source& s) {
    if (!s.events.next(s.head)) return false;
    s.key = std::max(s.key, s.head.ticks);
    return true;
  }
  std::vector<Event> batch;
  size_t current = SIZE_MAX;  // kept out of the heap: runs of one thread cost no heap work
};

EventStream::EventStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EventStream::EventStream(EventStream&&) noexcept = default;
EventStream& EventStream::operator=(EventStream&&) noexcept = default;
EventStream::~EventStream() = default;

bool EventStream::next(Event& event) {
  Impl& impl = *impl_;
  if (impl.current != SIZE_MAX) {
    Impl::Source& s = impl.sources[impl.current];
    if (!impl.refill(s)) {
      impl.current = SIZE_MAX;
    } else if (!impl.heap.empty() && impl.later(impl.current, impl.heap.front())) {
      impl.push(impl.current);
      impl.current = SIZE_MAX;
    }
  }
  if (impl.current == SIZE_MAX) {
    if (impl.heap.empty()) return false;
    impl.current = impl.pop();
  }
  event = impl.sources[impl.current].head;
  event.time_ns = impl.clock->ns(event.ticks);
  return true;
}

std::span<const Event> EventStream::next_batch() {
  constexpr size_t kBatch = 1024;
  std::vector<Event>& batch = impl_->batch;
  batch.resize(kBatch);
  size_t n = 0;
  while (n < kBatch && next(batch[n])) ++n;
  return {batch.data(), n};
}

TraceReader::TraceReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TraceReader::TraceReader(TraceReader&&) noexcept = default;
TraceReader& TraceReader::operator=(TraceReader&&) noexcept = default;
TraceReader::~TraceReader() = default;

Result<TraceReader> TraceReader::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat st {};
  if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    const std::string why = fd < 0 ? std::strerror(errno) : "not a regular file";
    if (fd >= 0) close(fd);
    return input_error(fmt::format("cannot read trace {}: {}", path, why));
  }
  auto impl = std::make_unique<Impl>();
  impl->name = path;
  impl->size = static_cast<size_t>(st.st_size);
  if (impl->size > 0) {
    void* at = mmap(nullptr, impl->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED) {
      close(fd);
      return input_error(fmt::format("cannot read trace {}: {}", path, std::strerror(errno)));
    }
    impl->bytes = static_cast<const uint8_t*>(at);
    impl->mapped = true;
  }
  close(fd);
  if (Status status = impl->read(); !status) return status.error();
  return TraceReader(std::move(impl));
}

Result<TraceReader> TraceReader::from_bytes(const uint8_t* bytes, size_t size,
                                            const std::string& name) {
  auto impl = std::make_unique<Impl>();
  impl->name = name;
  impl->bytes = bytes;
  impl->size = size;
  if (Status status = impl->read(); !status) return status.error();
  return TraceReader(std::move(impl));
}

const Definitions& TraceReader::definitions() const { return impl_->definitions; }
const TraceQuality& TraceReader::quality() const { return impl_->quality; }
int TraceReader::version_major() const { return impl_->header.major; }
int TraceReader::version_minor() const { return impl_->header.minor; }

EventStream TraceReader::events() const {
  auto stream = std::make_unique<EventStream::Impl>();
  stream->clock = &impl_->clock;
  for (const auto& [thread, blocks] : impl_->event_blocks) {
    stream->sources.push_back({ThreadEvents(thread, &blocks), Event{}, 0});
  }
  for (size_t i = 0; i < stream->sources.size(); ++i) {
    if (stream->refill(stream->sources[i])) stream->push(i);
  }
  return EventStream(std::move(stream));
}

}  // namespace opmeter::trace
