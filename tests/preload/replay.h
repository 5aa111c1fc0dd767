// SPDX-License-Identifier: Apache-2.0
// The slow, obvious checker of an event stream: plays it against a set of live addresses and counts
// what cannot happen in a program that uses its allocator rightly.
#ifndef OPMETER_TESTS_PRELOAD_REPLAY_H_
#define OPMETER_TESTS_PRELOAD_REPLAY_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "profiler/trace/event.h"

namespace opmeter {

struct Replay {
  std::map<uint64_t, uint64_t> live;  ///< address -> bytes
  uint64_t alloc_on_live = 0;         ///< a block was handed out that somebody still had
  uint64_t unknown_free = 0;          ///< a block was given back that nobody had
  uint64_t allocations = 0, frees = 0;
  std::string first_trouble;
};

inline Replay replay(const std::vector<trace::Event>& events) {
  using trace::EventKind;
  Replay r;
  std::map<uint32_t, std::map<uint64_t, uint64_t>> moving;  // thread -> blocks inside a realloc
  const auto trouble = [&r](const trace::Event& e, const char* what, uint64_t address) {
    if (r.first_trouble.empty()) {
      r.first_trouble = std::string(what) + " at " + std::to_string(address) + ", thread " +
                        std::to_string(e.thread) + ", " + std::to_string(e.time_ns) + " ns";
    }
  };
  const auto take = [&](const trace::Event& e, uint64_t address) {
    const auto at = r.live.find(address);
    if (at == r.live.end()) {
      ++r.unknown_free;
      trouble(e, "free of an unknown block", address);
      return uint64_t{0};
    }
    const uint64_t bytes = at->second;
    r.live.erase(at);
    return bytes;
  };
  const auto put = [&](const trace::Event& e, uint64_t address, uint64_t bytes) {
    if (!r.live.emplace(address, bytes).second) {
      ++r.alloc_on_live;
      trouble(e, "allocation on a live block", address);
      r.live[address] = bytes;
    }
  };
  for (const trace::Event& e : events) {
    switch (e.kind) {
      case EventKind::kAlloc:
        if (e.address == 0) break;
        ++r.allocations;
        put(e, e.address, e.bytes);
        break;
      case EventKind::kFree:
        ++r.frees;
        take(e, e.address);
        break;
      case EventKind::kReallocBegin:
        // From here on the allocator may hand the address out again.
        if (e.old_address != 0) moving[e.thread][e.old_address] = take(e, e.old_address);
        break;
      case EventKind::kReallocEnd: {
        auto& mine = moving[e.thread];
        const auto old = mine.find(e.old_address);
        if (e.address == 0 && old != mine.end()) put(e, e.old_address, old->second);  // it failed
        if (old != mine.end()) mine.erase(old);
        if (e.address == 0) break;
        ++r.allocations;
        if (e.old_address != 0) ++r.frees;
        put(e, e.address, e.bytes);
        break;
      }
      case EventKind::kExec:
        r.live.clear();
        moving.clear();
        break;
      default:
        break;
    }
  }
  return r;
}

}  // namespace opmeter

#endif  // OPMETER_TESTS_PRELOAD_REPLAY_H_
