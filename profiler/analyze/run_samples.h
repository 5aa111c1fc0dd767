// SPDX-License-Identifier: Apache-2.0
// Raw samples with the run that each belongs to: percentiles come from raw samples, and which runs
// count is known only after the last one. A trace has one sample for each execution of each op, so
// they are kept as bytes: two or three a sample instead of sixteen.
//
//     head = value << 2 | how        how: 0 the run of the sample before, 1 the run after it,
//     then, for how = 2: the run     2 another run
#ifndef OPMETER_PROFILER_ANALYZE_RUN_SAMPLES_H_
#define OPMETER_PROFILER_ANALYZE_RUN_SAMPLES_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace opmeter::analyze {

class RunSamples {
 public:
  /// Larger values (a hundred years in ns) are kept as this one: two bits are the head's.
  static constexpr uint64_t kMaxValue = UINT64_MAX >> 2;

  RunSamples() = default;
  RunSamples(RunSamples&&) noexcept = default;
  RunSamples& operator=(RunSamples&&) noexcept = default;
  RunSamples(const RunSamples& other) { *this = other; }
  RunSamples& operator=(const RunSamples& other) {
    if (this == &other) return *this;
    *this = RunSamples();
    other.each([this](uint32_t run, uint64_t value) { add(run, value); });
    return *this;
  }

  /// `run` 0 = outside runs.
  void add(uint32_t run, uint64_t value) {
    if (chunks_.empty() || chunks_.back().used + kLongestSample > capacity(chunks_.size() - 1)) {
      chunks_.push_back({std::make_unique<uint8_t[]>(capacity(chunks_.size())), 0});
    }
    Chunk& chunk = chunks_.back();
    uint8_t* at = chunk.bytes.get() + chunk.used;
    const uint64_t how = run == run_ ? 0 : run == run_ + 1 ? 1 : 2;
    at = put(at, std::min(value, kMaxValue) << 2 | how);
    if (how == 2) at = put(at, run);
    chunk.used = static_cast<uint32_t>(at - chunk.bytes.get());
    run_ = run;
    ++size_;
  }

  /// visit(run, value) in order.
  template <typename Visit>
  void each(Visit&& visit) const {
    uint32_t run = 0;
    for (const Chunk& chunk : chunks_) {
      const uint8_t* at = chunk.bytes.get();
      const uint8_t* const end = at + chunk.used;
      while (at != end) {
        const uint64_t head = take(at);
        const uint64_t how = head & 3;
        run = how == 2 ? static_cast<uint32_t>(take(at)) : run + static_cast<uint32_t>(how);
        visit(run, head >> 2);
      }
    }
  }

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

 private:
  // Two numbers of seven bits a byte: 10 bytes at most, and 5.
  static constexpr size_t kLongestSample = 16;

  struct Chunk {
    std::unique_ptr<uint8_t[]> bytes;
    uint32_t used = 0;
  };

  /// Small at first, because most ops of most traces have few samples.
  static size_t capacity(size_t chunk) { return size_t{64} << std::min<size_t>(chunk, 10); }

  static uint8_t* put(uint8_t* at, uint64_t value) {
    for (; value >= 128; value >>= 7) *at++ = static_cast<uint8_t>(value | 128);
    *at++ = static_cast<uint8_t>(value);
    return at;
  }
  static uint64_t take(const uint8_t*& at) {
    uint64_t value = *at & 127;
    for (int shift = 7; (*at++ & 128) != 0; shift += 7) value |= uint64_t{*at & 127u} << shift;
    return value;
  }

  std::vector<Chunk> chunks_;
  uint32_t run_ = 0;
  size_t size_ = 0;
};

}  // namespace opmeter::analyze

#endif  // OPMETER_PROFILER_ANALYZE_RUN_SAMPLES_H_
