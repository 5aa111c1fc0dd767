// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/selection.h"

#include <atomic>

#include "profiler/recorder/internal.h"

namespace opmeter::recorder {
namespace {

/// The blocks that were recorded and live: a hash table of cache-line buckets, lock-free. A full
/// bucket makes the table say "known" of everything from then on: too many releases are recorded,
/// never too few.
class KnownBlocks {
 public:
  bool start() {
    if (buckets_ == nullptr) {
      buckets_ = static_cast<Bucket*>(map_pages(kBuckets * sizeof(Bucket)));
    }
    return buckets_ != nullptr;
  }
  void clear() {
    if (buckets_ != nullptr) madvise(buckets_, kBuckets * sizeof(Bucket), MADV_DONTNEED);
    overflowed_.store(false, std::memory_order_relaxed);
  }
  void insert(uint64_t key) {
    for (std::atomic<uint64_t>& entry : bucket(key).entries) {
      uint64_t empty = 0;
      if (entry.load(std::memory_order_relaxed) == 0 &&
          entry.compare_exchange_strong(empty, key, std::memory_order_relaxed)) {
        return;
      }
    }
    overflowed_.store(true, std::memory_order_relaxed);
  }
  bool remove(uint64_t key) {
    for (std::atomic<uint64_t>& entry : bucket(key).entries) {
      uint64_t expected = key;
      if (entry.load(std::memory_order_relaxed) == key &&
          entry.compare_exchange_strong(expected, 0, std::memory_order_relaxed)) {
        return true;
      }
    }
    return overflowed_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr size_t kBuckets = size_t{1} << 18;  // 2 Mi entries; touched only where used
  struct alignas(64) Bucket {
    std::atomic<uint64_t> entries[8];
  };
  Bucket& bucket(uint64_t key) {
    return buckets_[(key >> 4 ^ key >> 60) * 0x9E3779B97F4A7C15u >> (64 - 18)];
  }
  Bucket* buckets_ = nullptr;
  std::atomic<bool> overflowed_{false};
};

constinit KnownBlocks g_known;
constinit std::atomic<uint32_t> g_open_runs{0};

bool scoped_out() {
  return (g_session->flags & kScopeRuns) != 0 && g_open_runs.load(std::memory_order_relaxed) == 0;
}

/// Natural logarithm of x in (0, 1]: the library links no libm.
double log_of(double x) {
  int exponent = 0;
  uint64_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  exponent = static_cast<int>(bits >> 52) - 1023;
  bits = (bits & 0xFFFFFFFFFFFFFu) | 0x3FF0000000000000u;
  double m;
  __builtin_memcpy(&m, &bits, sizeof m);  // in [1, 2)
  const double y = (m - 1) / (m + 1), y2 = y * y;
  double sum = 0, power = y;
  for (int k = 1; k < 20; k += 2, power *= y2) sum += power / k;
  return 2 * sum + exponent * 0.6931471805599453;
}

/// Bytes to the next point: exponential with the mean that was asked for.
int64_t next_distance(ThreadState* t) {
  if (t->random == 0) {
    t->random = (uint64_t{t->id} * 0x9E3779B97F4A7C15u ^ ticks_now()) | 1;
  }
  t->random ^= t->random >> 12;
  t->random ^= t->random << 25;
  t->random ^= t->random >> 27;
  const uint64_t r = t->random * 0x2545F4914F6CDD1Du;
  const double u = (static_cast<double>(r >> 11) + 0.5) * 0x1p-53;
  return static_cast<int64_t>(-log_of(u) * static_cast<double>(g_session->sample_bytes)) + 1;
}

bool hit(ThreadState* t, uint64_t bytes) {
  constexpr uint64_t kLargest = uint64_t{1} << 62;
  if (t->sample_left == 0) t->sample_left = next_distance(t);
  t->sample_left -= static_cast<int64_t>(bytes == 0 ? 1 : bytes < kLargest ? bytes : kLargest);
  if (t->sample_left > 0) return false;
  t->sample_left = next_distance(t);  // a Poisson process has no memory
  return true;
}

}  // namespace

bool select_alloc(ThreadState* t, uint64_t key, uint64_t bytes) {
  if (scoped_out()) return false;
  if (g_session->sample_bytes != 0 && !hit(t, bytes)) return false;
  if (key != 0) g_known.insert(key);
  return true;
}

bool select_free(uint64_t key) {
  const bool known = g_known.remove(key);
  return known || (g_session->sample_bytes == 0 && !scoped_out());
}

bool in_scope(uint64_t key) {
  if (scoped_out()) return false;
  if ((g_session->flags & kScopeRuns) != 0) g_known.insert(key);
  return true;
}

bool scope_had(uint64_t key) {
  if ((g_session->flags & kScopeRuns) == 0) return true;
  return g_known.remove(key) || !scoped_out();
}

void run_opened() { g_open_runs.fetch_add(1, std::memory_order_relaxed); }
void run_closed() { g_open_runs.fetch_sub(1, std::memory_order_relaxed); }

void selection_restart() {
  g_open_runs.store(0, std::memory_order_relaxed);
  g_known.clear();
}

bool selection_start() { return g_known.start(); }

}  // namespace opmeter::recorder
