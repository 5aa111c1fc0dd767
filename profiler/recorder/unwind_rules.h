// SPDX-License-Identifier: Apache-2.0
// How to step from a frame to its caller, by program counter, compiled from the module's .eh_frame
// (DWARF call frame information, as the x86-64 psABI has it). One rule is two machine words, so
// that a walk is a look-up and a few loads a frame. Zone a; x86-64 only.
#ifndef OPMETER_PROFILER_RECORDER_UNWIND_RULES_H_
#define OPMETER_PROFILER_RECORDER_UNWIND_RULES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace opmeter::recorder {

/// One step. With CFA = the stack pointer after return: the return address is at CFA - 8; the
/// caller's stack pointer is the CFA; the caller's rbp is as now, or in memory.
struct UnwindRule {
  enum Kind : uint8_t {
    kUnknown = 0,  ///< no unwind information: ask libunwind for the whole stack
    kFromRsp = 1,  ///< CFA = rsp + cfa_offset
    kFromRbp = 2,  ///< CFA = rbp + cfa_offset
    kDerefRbp =
        3,        ///< CFA = *(rbp + cfa_offset): a realigned frame keeps its argument pointer there
    kSignal = 4,  ///< a signal trampoline: rip, rsp and rbp lie in the ucontext at rsp
    kEnd = 5,     ///< the outermost frame: no return address
    kComplex = 6,  ///< real, but beyond this table: ask libunwind for the whole stack
  };
  enum Saved : uint8_t {
    kRbpSame = 0,   ///< the caller's rbp is the present one
    kRbpAtCfa = 1,  ///< it is at CFA + rbp_offset
    kRbpAtRbp = 2,  ///< it is at rbp + rbp_offset
  };
  Kind kind = kUnknown;
  Saved rbp = kRbpSame;
  int32_t cfa_offset = 0;  ///< |offset| < 2^25
  int32_t rbp_offset = 0;
};

bool unwind_rules_start();

/// A rule in one word: equal words, equal steps. 0 = unknown.
using PackedRule = uint64_t;
PackedRule pack(const UnwindRule& rule);

/// The process-wide cache: open addressing; entries are added and never changed until a flush.
struct RuleEntry {
  std::atomic<uint64_t> key;  ///< pc, top bit = exact; 0 = empty; 1 = being written
  std::atomic<PackedRule> rule;
};
inline constexpr unsigned kRuleBits = 17;
inline constexpr size_t kRuleEntries = size_t{1} << kRuleBits;
inline constexpr size_t kRuleProbes = 16;
extern std::atomic<RuleEntry*> g_rules;

inline size_t rule_place(uint64_t pc) {
  return ((pc ^ pc >> 17) * 0x9E3779B97F4A7C15u) >> (64 - kRuleBits);
}
/// The cached rule of the instruction before the return address `pc`; 0 when it is not cached. A
/// walk that only asks whether a rule is still the expected one need not wait for its turn.
inline PackedRule cached_rule(const RuleEntry* table, uint64_t pc) {
  size_t at = rule_place(pc);
  for (size_t i = 0; i < kRuleProbes; ++i, at = (at + 1) & (kRuleEntries - 1)) {
    const uint64_t key = table[at].key.load(std::memory_order_acquire);
    if (key == pc) [[likely]]
      return table[at].rule.load(std::memory_order_relaxed);
    if (key == 0) break;
  }
  return 0;
}

/// The rule of the instruction at `pc - 1` (`pc` is a return address), or of `pc` itself when
/// `exact` (an interrupted frame). Cached for the process.
UnwindRule unwind_rule(uint64_t pc, bool exact);

/// Forgets every rule: addresses may mean other code now.
void unwind_rules_flush();

}  // namespace opmeter::recorder

#endif  // OPMETER_PROFILER_RECORDER_UNWIND_RULES_H_
