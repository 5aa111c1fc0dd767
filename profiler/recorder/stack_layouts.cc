// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/stack_layouts.h"

#include <cstring>
#include <utility>

#include "profiler/recorder/stack_table.h"
#include "profiler/recorder/unwind_rules.h"

namespace opmeter::recorder {
namespace {

constexpr size_t kAreaBytes = 8u << 20;  // address space per thread; touched as far as used
constexpr uint64_t kPage = 4096;
constexpr uint32_t kGroup = 16;  // frames that are looked at before a doubt may stop it
constexpr uint8_t kMostTrust = 3;

/// Frames and words up to here can be read without a fault once all before are proven.
struct Group {
  uint32_t frames_end, words_end;
};

struct FixedWord {
  uint64_t address, value;
};

}  // namespace

/// Arrays lie in the thread's area, in this order.
struct LayoutArrays {
  uint64_t* places;   ///< of the return address of frame i; [0] unused
  PackedRule* rules;  ///< of frame i; [0] unused: it follows from the start
  FixedWord* words;
  Group* groups;

  LayoutArrays(uint8_t* at, uint32_t frames, uint32_t words_count)
      : places(reinterpret_cast<uint64_t*>(at)),
        rules(places + frames),
        words(reinterpret_cast<FixedWord*>(rules + frames)),
        groups(reinterpret_cast<Group*>(words + words_count)) {}
  static size_t bytes(uint32_t frames, uint32_t words, uint32_t groups) {
    return frames * 2 * sizeof(uint64_t) + words * sizeof(FixedWord) + groups * sizeof(Group);
  }
};

namespace {

uint64_t word_at(uint64_t address) { return *reinterpret_cast<const uint64_t*>(address); }

StackLayout* layout_set(ThreadState* t, const WalkStart& start) {
  const uint64_t h = (start.rsp ^ start.pc << 7) * 0x9E3779B97F4A7C15u;
  return t->layouts + (h >> 40 & (kLayoutSets - 1)) * kLayoutWays;
}

bool words_hold(const FixedWord* w, const FixedWord* end) {
  uint64_t different = 0;
  for (; w != end; ++w) different |= word_at(w->address) ^ w->value;
  return different == 0;
}

/// Is it the same stack as last time?
bool is_last(const StackLayout& layout, const LayoutArrays& a) {
  const uint64_t* last = reinterpret_cast<const uint64_t*>(layout.last->frames());
  uint32_t frame = 1, word = 0;
  for (uint32_t g = 0; g < layout.groups; ++g) {
    const Group group = a.groups[g];
    uint64_t different = 0;
    for (; word < group.words_end; ++word) {
      different |= word_at(a.words[word].address) ^ a.words[word].value;
    }
    for (; frame + 4 <= group.frames_end; frame += 4) {
      different |= word_at(a.places[frame]) ^ last[frame];
      different |= word_at(a.places[frame + 1]) ^ last[frame + 1];
      different |= word_at(a.places[frame + 2]) ^ last[frame + 2];
      different |= word_at(a.places[frame + 3]) ^ last[frame + 3];
    }
    for (; frame < group.frames_end; ++frame) different |= word_at(a.places[frame]) ^ last[frame];
    if (different != 0) return false;
  }
  return true;
}

/// Does it have this layout? Fills t->frames and the hash.
bool fits(ThreadState* t, const StackLayout& layout, const LayoutArrays& a, StackHash& hash) {
  const RuleEntry* rules = g_rules.load(std::memory_order_acquire);
  if (rules == nullptr) return false;
  t->frames[0] = reinterpret_cast<void*>(layout.start.pc);
  hash.add(0, layout.start.pc);
  uint32_t frame = 1, word = 0;
  for (uint32_t g = 0; g < layout.groups; ++g) {
    const Group group = a.groups[g];
    if (!words_hold(a.words + word, a.words + group.words_end)) return false;
    uint64_t different = 0;
    for (; frame < group.frames_end; ++frame) {
      const uint64_t pc = word_at(a.places[frame]);
      t->frames[frame] = reinterpret_cast<void*>(pc);
      hash.add(frame, pc);
      different |= cached_rule(rules, pc) ^ a.rules[frame];
    }
    if (different != 0) return false;
    word = group.words_end;
  }
  return true;
}

/// This thread's way to nodes it has met: the process-wide table is larger than any cache.
StackNode* intern_nearby(ThreadState* t, uint32_t frames, uint32_t epoch, uint64_t hash) {
  StackNode*& near = t->nearby[hash >> 20 & (kNearbyStacks - 1)];
  if (near != nullptr && near->hash == hash && near->count == frames && near->epoch == epoch &&
      !near->cut && std::memcmp(near->frames(), t->frames, frames * sizeof(void*)) == 0) {
    return near;
  }
  StackNode* node = intern_stack(t, t->frames, frames, epoch, false, hash);
  if (node != nullptr) near = node;
  return node;
}

}  // namespace

StackNode* look_at_layouts(ThreadState* t, const WalkStart& start, uint32_t epoch) {
  StackLayout* set = layout_set(t, start);
  for (uint32_t way = 0; way < kLayoutWays; ++way) {
    StackLayout& layout = set[way];
    if (layout.last == nullptr || layout.start.pc != start.pc || layout.start.rsp != start.rsp ||
        layout.epoch != epoch || (layout.uses_rbp && layout.start.rbp != start.rbp)) {
      continue;
    }
    const LayoutArrays a(layout.arrays, layout.frames, layout.words);
    StackNode* node = nullptr;
    if (layout.trust > 0 || layout.only_last) {
      if (is_last(layout, a)) {
        node = layout.last;
        layout.trust = kMostTrust;
      } else if (layout.trust > 0) {
        --layout.trust;
      }
    }
    if (node == nullptr && !layout.only_last) {
      StackHash hash;
      if (fits(t, layout, a, hash)) {
        node = intern_nearby(t, layout.frames, epoch, hash.finish(layout.frames, epoch, false));
        if (node != nullptr && node->epoch == epoch) {
          if (node == layout.last && layout.trust < kMostTrust) ++layout.trust;
          layout.last = node;
        }
      }
    }
    if (node != nullptr) {
      if (way != 0) std::swap(set[0], layout);
      return node;
    }
  }
  return nullptr;
}

void remember_layout(ThreadState* t, const WalkStart& start, uint32_t epoch, const WalkLog& log,
                     StackNode* node) {
  if (log.overflow || node == nullptr || node->epoch != epoch) return;
  // Where a group ends: at a page not yet touched, or after some frames.
  const auto begins_group = [](const WalkWord& word, const WalkWord* before, uint32_t frames) {
    return before == nullptr || word.address / kPage != before->address / kPage || frames == kGroup;
  };
  uint32_t words = 0, groups = 0, frames = 1, in_group = 0;
  const WalkWord* before = nullptr;
  for (uint32_t i = 0; i < log.used; ++i) {
    const WalkWord& word = log.words[i];
    if (!word.used) continue;
    if (word.address % sizeof(uint64_t) != 0) return;  // might lie across two pages
    if (begins_group(word, before, in_group)) {
      ++groups;
      in_group = 0;
    }
    // The address of the last frame's caller may be no frame: the null that ends the stack.
    if (word.kind == WalkWord::kReturn && frames < node->count) {
      ++frames;
      ++in_group;
    } else {
      ++words;
    }
    before = &word;
  }
  if (frames != node->count) return;

  StackLayout* set = layout_set(t, start);
  StackLayout& layout = set[kLayoutWays - 1];  // the least recently used makes room
  const size_t bytes = LayoutArrays::bytes(frames, words, groups);
  if (bytes > layout.room) {
    if (t->layout_area == nullptr) t->layout_area = static_cast<uint8_t*>(map_pages(kAreaBytes));
    const size_t room = (bytes + 127) & ~size_t{127};
    if (t->layout_area == nullptr || room > kAreaBytes) return;
    if (t->layout_used + room > kAreaBytes) {  // used up: every layout starts anew
      std::memset(static_cast<void*>(t->layouts), 0, sizeof t->layouts);
      t->layout_used = 0;
    }
    layout.arrays = t->layout_area + t->layout_used;
    layout.room = static_cast<uint32_t>(room);
    t->layout_used += room;
  }
  const LayoutArrays a(layout.arrays, frames, words);
  uint32_t frame = 1, word_at = 0, group = 0;
  in_group = 0;
  before = nullptr;
  for (uint32_t i = 0; i < log.used; ++i) {
    const WalkWord& word = log.words[i];
    if (!word.used) continue;
    if (begins_group(word, before, in_group)) {
      if (before != nullptr) a.groups[group++] = {frame, word_at};
      in_group = 0;
    }
    if (word.kind == WalkWord::kReturn && frame < frames) {
      a.places[frame] = word.address;
      a.rules[frame] = log.rules[frame];
      ++frame;
      ++in_group;
    } else {
      a.words[word_at++] = {word.address, word.value};
    }
    before = &word;
  }
  if (before != nullptr) a.groups[group++] = {frame, word_at};
  layout.start = start;
  layout.epoch = epoch;
  layout.frames = frames;
  layout.words = words;
  layout.groups = groups;
  layout.uses_rbp = log.start_rbp_used;
  // After a signal frame the next rule is that of an interrupted instruction, not of a call.
  layout.only_last = log.signal_frames;
  layout.trust = 1;
  layout.last = node;
  std::swap(set[0], layout);
}

}  // namespace opmeter::recorder
