// SPDX-License-Identifier: Apache-2.0
// Over 500 lines because the grammar is read in one place: blocks, the switch over definitions,
// events, the merge.
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
#include <functional>
#include <vector>

#include "profiler/trace/checksum.h"
#include "profiler/trace/codec.h"
#include "profiler/trace/event_decoder.h"
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

/// An event block to be decoded later: small, there may be a million.
struct EventBlock {
  const uint8_t* payload = nullptr;
  uint32_t bytes = 0;
  uint64_t base_ticks = 0;
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
  uint32_t duration_ns(uint32_t ticks) const {
    const double ns = static_cast<double>(ticks) * ns_per_tick_ + 0.5;
    return ns < UINT32_MAX ? static_cast<uint32_t>(ns) : UINT32_MAX;
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
  std::map<uint32_t, std::vector<EventBlock>> event_blocks;  // by thread, in file order
  bool kept_last = false;  ///< earlier blocks were left out on purpose
  Clock clock;

  ~Impl() {
    if (mapped && size > 0) munmap(const_cast<uint8_t*>(bytes), size);
  }

  /// Bytes that have been read and are not needed soon: a long trace must not fill the memory. What
  /// is asked for again comes back from the file.
  void give_back(const uint8_t* at, size_t count) const {
    if (!mapped) return;
    constexpr uintptr_t kPage = 4096;
    const uintptr_t begin = (reinterpret_cast<uintptr_t>(at) + kPage - 1) & ~(kPage - 1);
    const uintptr_t end = (reinterpret_cast<uintptr_t>(at) + count) & ~(kPage - 1);
    if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }

  Status read();
  /// The first of what is wrong.
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
    EventBlockHead head;
    size_t columns_at = 0;
    if (block.header.codec != BlockCodec::kColumns ||
        !read_event_block_head(block.payload, block.header.stored_bytes, head, columns_at)) {
      return damaged("event block");
    }
    quality.events += head.count;
    event_blocks[static_cast<uint32_t>(head.thread)].push_back(
        {block.payload, block.header.stored_bytes, head.base_ticks});
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
        fmt::format("{}: trace format {}.{}, this opmeter reads {}.0 to {}.{}; {}", name,
                    header.major, header.minor, kVersionMajor, kVersionMajor, kVersionMinor,
                    header.major == 0 ? "it is from before the first release: record again"
                                      : "use a newer opmeter"));
  }
  if (header.header_bytes < sizeof header || header.header_bytes > size) {
    return input_error(fmt::format("{}: the trace header is damaged; record again", name));
  }

  size_t offset = header.header_bytes;
  uint64_t expected = 0;
  bool trailer = false;
  std::vector<uint8_t> scratch;
  constexpr size_t kGiveBackBytes = 32u << 20;
  size_t kept = 0;
  while (offset < size) {
    if (offset - kept >= kGiveBackBytes) {
      give_back(bytes + kept, offset - kept);
      kept = offset;
    }
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
    if (block.header.sequence < expected) {
      // Twice, or behind its successors: to use it would count its events twice or too late.
      ++quality.damaged_blocks;
      note(fmt::format("a block out of order at byte {}", offset));
      offset += sizeof(BlockHeader) + block.header.stored_bytes;
      continue;
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
  kept_last = definitions.info.contains("kept_last");
  clock = Clock(definitions.clocks, fallback);
  quality.ns_per_tick = clock.ns_per_tick();
  for (MarkInfo& mark : definitions.marks) mark.time_ns = clock.ns(mark.ticks);
  return {};
}

// ---------------------------------------------------------------------------------------------------------------

namespace {

/// What allocates comes last among events of the same tick: a release by one thread lets another
/// have the block, and coarse ticks cannot tell.
bool is_acquisition(EventKind kind) {
  return kind == EventKind::kAlloc || kind == EventKind::kReallocEnd ||
         kind == EventKind::kPoolAlloc;
}

struct FreeZstd {
  void operator()(ZSTD_DCtx* zstd) const { ZSTD_freeDCtx(zstd); }
};

}  // namespace

/// Merges threads: each is a source whose next events are decoded ahead, a batch at a time.
struct EventStream::Impl {
  struct Order {
    uint64_t ticks = 0;  ///< never goes back within a thread: its own order always holds
    bool acquires = false;
    uint32_t source = 0;
    bool operator>(const Order& other) const {
      if (ticks != other.ticks) return ticks > other.ticks;
      if (acquires != other.acquires) return acquires;
      return source > other.source;
    }
  };
  struct Source {
    const std::vector<EventBlock>* blocks = nullptr;
    uint32_t thread = 0;
    size_t next_block = 0;
    bool started = false;
    uint64_t seen = 0;  ///< events of the thread up to here, lost ones included
    std::unique_ptr<EventDecoder> decoder;
    std::vector<Event> events;  ///< decoded
    size_t at = 0, end = 0;     ///< those not yet given
    uint64_t ticks = 0;         ///< the latest that was decoded
  };

  TraceReader::Impl* reader = nullptr;
  std::vector<Source> sources;
  std::vector<Order> heap;  ///< the sources but the current one, by their next event
  uint32_t current = UINT32_MAX;
  std::unique_ptr<ZSTD_DCtx, FreeZstd> zstd{ZSTD_createDCtx()};
  std::span<const Event> pending;  ///< what next() has not given yet

  static constexpr size_t kBatch = 512;

  Order order(uint32_t source) const {
    const Source& s = sources[source];
    return {s.events[s.at].ticks, is_acquisition(s.events[s.at].kind), source};
  }
  void push(const Order& order) {
    heap.push_back(order);
    std::push_heap(heap.begin(), heap.end(), std::greater<>{});
  }
  Order pop() {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>{});
    const Order order = heap.back();
    heap.pop_back();
    return order;
  }
  void damaged(const Source& s) {
    TraceQuality& quality = reader->quality;
    ++quality.damaged_blocks;
    quality.complete = false;
    reader->note(fmt::format("a block of events of thread {} does not decode", s.thread));
  }
  /// What a reader must know before a block that does not follow the one before.
  void put_gap(Source& s, const EventBlockHead& head) {
    const bool on_purpose = s.seen == 0 && reader->kept_last;
    Event event;
    event.thread = s.thread;
    event.ticks = head.base_ticks;
    if (!on_purpose) {
      event.kind = EventKind::kLost;
      event.bytes = head.first_event - s.seen;
      s.events[s.end++] = event;
    }
    event.kind = EventKind::kResync;
    event.bytes = 0;
    event.run = head.run;
    event.ref = static_cast<uint32_t>(head.op);
    event.api = static_cast<uint16_t>(std::min<uint64_t>(head.depth, UINT16_MAX));
    s.events[s.end++] = event;
  }
  /// False at the end of the thread's events.
  bool refill(Source& s) {
    s.at = s.end = 0;
    if (!s.decoder) s.decoder = std::make_unique<EventDecoder>();
    s.events.resize(kBatch);
    while (s.end == 0) {
      if (s.decoder->left() == 0) {
        if (s.next_block == s.blocks->size()) {
          s.decoder.reset();
          s.events = {};
          return false;
        }
        if (s.next_block > 0) {
          const EventBlock& done = (*s.blocks)[s.next_block - 1];
          reader->give_back(done.payload, done.bytes);
        }
        const EventBlock& block = (*s.blocks)[s.next_block++];
        if (!s.decoder->open(block.payload, block.bytes, zstd.get())) {
          damaged(s);
          continue;
        }
        const EventBlockHead& head = s.decoder->head();
        if (head.first_event > s.seen) put_gap(s, head);
        s.seen = head.first_event;
      }
      const size_t n = s.decoder->decode(s.events.data() + s.end, kBatch - s.end);
      s.end += n;
      s.seen += n;
      if (n == 0) {  // sense ends here
        s.decoder->skip();
        damaged(s);
      }
    }
    const Clock& clock = reader->clock;
    for (size_t i = 0; i < s.end; ++i) {
      Event& event = s.events[i];
      event.time_ns = clock.ns(event.ticks);
      if (event.flags & kTimed) event.duration = clock.duration_ns(event.duration);
      s.ticks = event.ticks = std::max(s.ticks, event.ticks);
    }
    return true;
  }
};

EventStream::EventStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EventStream::EventStream(EventStream&&) noexcept = default;
EventStream& EventStream::operator=(EventStream&&) noexcept = default;
EventStream::~EventStream() = default;

std::span<const Event> EventStream::next_batch() {
  Impl& impl = *impl_;
  for (;;) {
    if (impl.current != UINT32_MAX) {
      Impl::Source& s = impl.sources[impl.current];
      if (s.at == s.end && !impl.refill(s)) {
        impl.current = UINT32_MAX;
      } else if (!impl.heap.empty() && impl.order(impl.current) > impl.heap.front()) {
        impl.push(impl.order(impl.current));
        impl.current = UINT32_MAX;
      }
    }
    if (impl.current == UINT32_MAX) {
      if (impl.heap.empty()) return {};
      impl.current = impl.pop().source;
      Impl::Source& s = impl.sources[impl.current];
      if (!s.started) {  // it stood in the heap by the time of its first block
        s.started = true;
        continue;
      }
    }
    // A run of this thread, up to where another comes first.
    Impl::Source& s = impl.sources[impl.current];
    const size_t begin = s.at++;
    if (impl.heap.empty()) {
      s.at = s.end;
    } else {
      const Impl::Order& other = impl.heap.front();
      while (s.at < s.end && !(impl.order(impl.current) > other)) ++s.at;
    }
    return {s.events.data() + begin, s.at - begin};
  }
}

bool EventStream::next(Event& event) {
  std::span<const Event>& pending = impl_->pending;
  if (pending.empty()) pending = next_batch();
  if (pending.empty()) return false;
  event = pending.front();
  pending = pending.subspan(1);
  return true;
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
  stream->reader = impl_.get();
  for (const auto& [thread, blocks] : impl_->event_blocks) {
    EventStream::Impl::Source source;
    source.blocks = &blocks;
    source.thread = thread;
    stream->push({blocks.front().base_ticks, false, static_cast<uint32_t>(stream->sources.size())});
    stream->sources.push_back(std::move(source));
  }
  return EventStream(std::move(stream));
}

}  // namespace opmeter::trace
