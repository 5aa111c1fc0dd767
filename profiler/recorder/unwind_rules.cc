// SPDX-License-Identifier: Apache-2.0
// The cache of unwind rules.
#include "profiler/recorder/unwind_rules.h"

#include <atomic>

#include "profiler/recorder/eh_frame.h"
#include "profiler/recorder/os.h"

#if defined(__x86_64__)

namespace opmeter::recorder {

std::atomic<RuleEntry*> g_rules{nullptr};

namespace {

constexpr uint64_t kBusy = 1;  // no code lies at address 1

RuleEntry* g_tables[2] = {nullptr, nullptr};
std::atomic<int> g_flushes{0};

}  // namespace

PackedRule pack(const UnwindRule& r) {
  constexpr uint64_t kMask = (1u << 26) - 1;
  return uint64_t{r.kind} | uint64_t{r.rbp} << 3 |
         (static_cast<uint64_t>(r.cfa_offset) & kMask) << 6 |
         (static_cast<uint64_t>(r.rbp_offset) & kMask) << 32;
}

namespace {

UnwindRule unpack(PackedRule word) {
  UnwindRule r;
  r.kind = static_cast<UnwindRule::Kind>(word & 7);
  r.rbp = static_cast<UnwindRule::Saved>(word >> 3 & 3);
  // Sign extension of the 26-bit fields.
  r.cfa_offset = static_cast<int32_t>(static_cast<uint32_t>(word >> 6) << 6) >> 6;
  r.rbp_offset = static_cast<int32_t>(static_cast<uint32_t>(word >> 32) << 6) >> 6;
  return r;
}

}  // namespace

bool unwind_rules_start() {
  for (RuleEntry*& table : g_tables)
    table = static_cast<RuleEntry*>(map_pages(kRuleEntries * sizeof(RuleEntry)));
  if (g_tables[0] == nullptr || g_tables[1] == nullptr) return false;
  g_rules.store(g_tables[0], std::memory_order_release);
  return true;
}

void unwind_rules_flush() {
  // The other table is cleared and takes over; a walk that still reads the old one sees old rules
  // whole, as it would have a moment earlier.
  RuleEntry* next = g_tables[(g_flushes.fetch_add(1) + 1) & 1];
  madvise(next, kRuleEntries * sizeof(RuleEntry), MADV_DONTNEED);
  g_rules.store(next, std::memory_order_release);
}

UnwindRule unwind_rule(uint64_t pc, bool exact) {
  RuleEntry* table = g_rules.load(std::memory_order_acquire);
  if (table == nullptr) return {};
  const uint64_t key = pc | (exact ? uint64_t{1} << 63 : 0);
  size_t at = rule_place(pc);
  for (size_t i = 0; i < kRuleProbes; ++i, at = (at + 1) & (kRuleEntries - 1)) {
    RuleEntry& entry = table[at];
    uint64_t found = entry.key.load(std::memory_order_acquire);
    if (found == key) {
      const PackedRule word = entry.rule.load(std::memory_order_acquire);
      if (entry.key.load(std::memory_order_relaxed) == key) return unpack(word);
      break;  // flushed under our hands
    }
    if (found != 0) continue;
    const UnwindRule rule = read_unwind_rule(pc, exact ? pc : pc - 1);
    if (rule.kind != UnwindRule::kUnknown &&  // code that is unknown now may be known later (a JIT
                                              // registers it)
        entry.key.compare_exchange_strong(found, kBusy, std::memory_order_acq_rel)) {
      entry.rule.store(pack(rule), std::memory_order_release);
      entry.key.store(key, std::memory_order_release);
    }
    return rule;
  }
  return read_unwind_rule(pc, exact ? pc : pc - 1);
}

}  // namespace opmeter::recorder

#else

namespace opmeter::recorder {

std::atomic<RuleEntry*> g_rules{nullptr};
PackedRule pack(const UnwindRule&) { return 0; }
bool unwind_rules_start() { return true; }
void unwind_rules_flush() {}
UnwindRule unwind_rule(uint64_t, bool) { return {}; }

}  // namespace opmeter::recorder

#endif  // __x86_64__
