// SPDX-License-Identifier: Apache-2.0
#ifndef OPMETER_TESTS_TRACE_RANDOM_LIFE_H_
#define OPMETER_TESTS_TRACE_RANDOM_LIFE_H_

#include <random>
#include <utility>
#include <vector>

#include "profiler/trace/event.h"

namespace opmeter::trace {

/// A thread's life as programs and allocators produce it, with all that a model may stumble over.
inline std::vector<Event> random_life(uint64_t seed, size_t count, uint32_t thread) {
  std::mt19937_64 random(seed);
  std::vector<Event> events;
  std::vector<std::pair<uint64_t, uint64_t>> live, freed;
  uint64_t ticks = 1'000'000, next_address = 0x555555550000;
  uint64_t pending_old = 0;
  for (size_t i = 0; i < count; ++i) {
    Event e;
    e.thread = thread;
    e.ticks = ticks += random() % (random() % 50 == 0 ? 100'000 : 300);
    const auto site = static_cast<uint32_t>(random() % 300);
    switch (random() % 16) {
      case 0:
        e.kind = EventKind::kReallocBegin;
        e.old_address = pending_old = live.empty() ? 64 : live[random() % live.size()].first;
        e.bytes = random() % 5000;
        break;
      case 1:
        e.kind = EventKind::kReallocEnd;
        e.old_address = random() % 8 == 0 ? random() : pending_old;
        e.address = random() % 3 == 0 ? pending_old : random() % 5 == 0 ? 0 : next_address += 4096;
        e.bytes = random() % 5000;
        e.stack = site;
        e.api = 3;
        break;
      case 2:
        e.kind = EventKind::kOpPush;
        e.ref = random() % 4 == 0 ? static_cast<uint32_t>(random()) : static_cast<uint32_t>(i % 7);
        break;
      case 3:
        e.kind = EventKind::kFaults;
        e.address = random();
        e.bytes = i;
        break;
      case 4:
      case 5:
      case 6:
      case 7:
      case 8:
        e.kind = random() % 4 == 0 ? EventKind::kPoolFree : EventKind::kFree;
        if (e.kind == EventKind::kFree) e.api = random() % 10 == 0 ? 15 : 5;
        if (random() % 20 == 0 || live.empty()) {
          e.address = random();  // from nowhere
        } else {
          const size_t at = random() % 3 == 0 ? live.size() - 1 : random() % live.size();
          e.address = live[at].first;
          freed.push_back(live[at]);
          live.erase(live.begin() + static_cast<ptrdiff_t>(at));
        }
        if (random() % 50 == 0) e.ref = 3;
        break;
      default:
        e.kind = random() % 4 == 0 ? EventKind::kPoolAlloc : EventKind::kAlloc;
        e.stack = random() % 40 == 0 ? static_cast<uint32_t>(random()) : site;
        e.bytes = random() % 3 == 0 ? random() >> (random() % 64) : site * 24;
        if (!freed.empty() && random() % 2 == 0) {
          e.address = freed.back().first;
          freed.pop_back();
        } else {
          e.address = next_address += (e.bytes % 5000 + 23) & ~uint64_t{15};
        }
        if (random() % 60 == 0) e.address = random() % 2 == 0 ? 0 : random();
        if (e.address != 0) live.emplace_back(e.address, e.bytes);
        if (e.kind == EventKind::kAlloc) e.api = random() % 10 == 0 ? 2 : 1;
        if (random() % 30 == 0) {
          e.flags = kTimed;
          e.duration = static_cast<uint32_t>(random());
        }
    }
    events.push_back(e);
  }
  return events;
}

}  // namespace opmeter::trace

#endif  // OPMETER_TESTS_TRACE_RANDOM_LIFE_H_
