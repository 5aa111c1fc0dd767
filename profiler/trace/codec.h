// SPDX-License-Identifier: Apache-2.0
// Bytes of the trace format: varints, strings and definition payloads, for both sides of the seam.
// The encoder half runs inside the preload library (zone a): no malloc, no exceptions, no std
// containers.
#ifndef OPMETER_PROFILER_TRACE_CODEC_H_
#define OPMETER_PROFILER_TRACE_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace opmeter::trace {

/// Tags of definition records. Each is varint tag, varint length, payload: unknown ones are
/// skipped. Numbers are final.
enum class DefinitionTag : uint8_t {
  kInfo = 1,          ///< string key, string value
  kThread = 2,        ///< id, tid, string name (a later one replaces an earlier one)
  kModule = 3,        ///< id, first epoch, bias, begin, end, string path, bytes build id
  kModuleUnload = 4,  ///< id (0 = every module so far), last epoch
  kStack =
      5,  ///< id, epoch, flags (1 = cut), count, shared, zigzag deltas (see docs/trace-format.md)
  kGraph = 6,  ///< id, string name
  kOp = 7,     ///< id, graph, index, name, kind, device type, device id, inputs, outputs, tensors
  kPool = 8,   ///< id, string name, domain, device type, device id
  kClock = 9,  ///< ticks, monotonic ns, realtime ns
  kMark = 10,  ///< thread, ticks, string text
  kCommand = 11,  ///< count, strings
};

constexpr uint64_t zigzag(int64_t v) {
  return (static_cast<uint64_t>(v) << 1) ^ static_cast<uint64_t>(v >> 63);
}
constexpr int64_t unzigzag(uint64_t v) {
  return static_cast<int64_t>(v >> 1) ^ -static_cast<int64_t>(v & 1);
}
/// Difference of two unsigned words as a signed one, modulo 2^64 (never undefined).
constexpr int64_t wrapping_delta(uint64_t now, uint64_t before) {
  return static_cast<int64_t>(now - before);
}

inline constexpr size_t kMaxVarintBytes = 10;

/// Appends the LEB128 form of `v` at `out` (room for kMaxVarintBytes) and returns the end.
inline uint8_t* put_varint(uint8_t* out, uint64_t v) {
  while (v >= 0x80) {
    *out++ = static_cast<uint8_t>(v | 0x80);
    v >>= 7;
  }
  *out++ = static_cast<uint8_t>(v);
  return out;
}

/// Writes into a fixed buffer; past the end it only remembers that something did not fit.
class ByteSink {
 public:
  ByteSink(uint8_t* begin, size_t size) : begin_(begin), cursor_(begin), end_(begin + size) {}

  void varint(uint64_t v) {
    if (static_cast<size_t>(end_ - cursor_) < kMaxVarintBytes) {
      overflow_ = true;
      return;
    }
    cursor_ = put_varint(cursor_, v);
  }
  void signed_varint(int64_t v) { varint(zigzag(v)); }
  void bytes(const void* data, size_t size) {
    varint(size);
    if (overflow_ || static_cast<size_t>(end_ - cursor_) < size) {
      overflow_ = true;
      return;
    }
    if (size != 0) std::memcpy(cursor_, data, size);
    cursor_ += size;
  }
  /// A C string, at most `limit` bytes of it; null counts as "".
  void string(const char* text, size_t limit = 4096) {
    bytes(text, text == nullptr ? 0 : strnlen(text, limit));
  }

  const uint8_t* data() const { return begin_; }
  size_t size() const { return static_cast<size_t>(cursor_ - begin_); }
  bool overflow() const { return overflow_; }

 private:
  uint8_t* begin_;
  uint8_t* cursor_;
  uint8_t* end_;
  bool overflow_ = false;
};

/// Reads with bounds checks; after the first failure every read gives 0 and failed() stays true.
class ByteCursor {
 public:
  ByteCursor(const uint8_t* begin, size_t size) : cursor_(begin), end_(begin + size) {}

  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (cursor_ == end_) return fail();
      const uint8_t byte = *cursor_++;
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    return fail();
  }
  int64_t signed_varint() { return unzigzag(varint()); }
  uint8_t byte() { return cursor_ == end_ ? static_cast<uint8_t>(fail()) : *cursor_++; }
  /// A length-prefixed run of bytes; null with size 0 on failure.
  const uint8_t* bytes(size_t& size) {
    const uint64_t n = varint();
    if (failed_ || n > remaining()) {
      size = 0;
      fail();
      return nullptr;
    }
    size = static_cast<size_t>(n);
    const uint8_t* at = cursor_;
    cursor_ += size;
    return at;
  }

  size_t remaining() const { return static_cast<size_t>(end_ - cursor_); }
  bool at_end() const { return cursor_ == end_; }
  bool failed() const { return failed_; }

 private:
  uint64_t fail() {
    failed_ = true;
    cursor_ = end_;
    return 0;
  }
  const uint8_t* cursor_;
  const uint8_t* end_;
  bool failed_ = false;
};

// Payload layouts that both the recorder and TraceWriter produce.

inline void encode_module(ByteSink& sink, uint32_t id, uint32_t epoch, uint64_t bias,
                          uint64_t begin, uint64_t end, const char* path, const uint8_t* build_id,
                          size_t build_id_size) {
  sink.varint(id);
  sink.varint(epoch);
  sink.varint(bias);
  sink.varint(begin);
  sink.varint(end);
  sink.string(path);
  sink.bytes(build_id, build_id_size);
}

inline void encode_op_head(ByteSink& sink, uint32_t id, uint32_t graph, int32_t index,
                           const char* name, const char* kind, int32_t device_type,
                           int32_t device_id, uint32_t inputs, uint32_t outputs) {
  sink.varint(id);
  sink.varint(graph);
  sink.signed_varint(index);
  sink.string(name);
  sink.string(kind);
  sink.signed_varint(device_type);
  sink.signed_varint(device_id);
  sink.varint(inputs);
  sink.varint(outputs);
}

inline void encode_tensor(ByteSink& sink, const char* name, const int64_t* shape, uint32_t ndim,
                          uint8_t code, uint8_t bits, uint16_t lanes, uint64_t bytes) {
  sink.string(name, 512);
  sink.varint(ndim);
  for (uint32_t i = 0; i < ndim; ++i) sink.signed_varint(shape[i]);
  sink.varint(code);
  sink.varint(bits);
  sink.varint(lanes);
  sink.varint(bytes);
}

inline void encode_pool(ByteSink& sink, uint32_t id, const char* name, int32_t domain,
                        int32_t device_type, int32_t device_id) {
  sink.varint(id);
  sink.string(name);
  sink.signed_varint(domain);
  sink.signed_varint(device_type);
  sink.signed_varint(device_id);
}

}  // namespace opmeter::trace

#endif  // OPMETER_PROFILER_TRACE_CODEC_H_
