// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/stack_walk.h"

#include "profiler/recorder/unwind_rules.h"

namespace opmeter::recorder {

#if defined(__x86_64__)

namespace {

// Where the kernel's signal frame keeps registers: rsp points at the ucontext in the trampoline
// (struct ucontext: flags, link, stack = 40 bytes; then r8-r15, rdi, rsi, rbp, rbx, rdx, rax, rcx,
// rsp, rip).
constexpr uint64_t kContextRbp = 40 + 10 * 8, kContextRsp = 40 + 15 * 8, kContextRip = 40 + 16 * 8;

class WordLog {
 public:
  WordLog(WalkWord* words, uint32_t room, Walk& walk) : words_(words), room_(room), walk_(walk) {}
  uint64_t read(uint64_t address) {
    const uint64_t value = *reinterpret_cast<const uint64_t*>(address);
    if (walk_.words < room_)
      words_[walk_.words++] = {address, value};
    else
      walk_.words_overflow = true;
    return value;
  }

 private:
  WalkWord* words_;
  uint32_t room_;
  Walk& walk_;
};

}  // namespace

Walk walk_stack(const WalkStart& start, void** frames, uint32_t max_frames, WalkWord* words,
                uint32_t max_words) {
  Walk walk;
  WordLog log(words, max_words, walk);
  uint64_t pc = start.pc, rsp = start.rsp, rbp = start.rbp;
  bool exact = false;
  for (;;) {
    if (pc == 0) break;  // the ABI's mark of the outermost frame
    if (walk.frames == max_frames) {
      walk.cut = true;
      break;
    }
    frames[walk.frames++] = reinterpret_cast<void*>(pc);
    const UnwindRule rule = unwind_rule(pc, exact);
    uint64_t cfa = 0;
    switch (rule.kind) {
      case UnwindRule::kEnd:
        walk.complete = true;
        return walk;
      case UnwindRule::kUnknown:
      case UnwindRule::kComplex:
        return walk;
      case UnwindRule::kSignal: {
        pc = log.read(rsp + kContextRip);
        rbp = log.read(rsp + kContextRbp);
        rsp = log.read(rsp + kContextRsp);
        exact = true;
        continue;
      }
      case UnwindRule::kFromRsp:
        cfa = rsp + static_cast<uint64_t>(int64_t{rule.cfa_offset});
        break;
      case UnwindRule::kFromRbp:
        cfa = rbp + static_cast<uint64_t>(int64_t{rule.cfa_offset});
        break;
      case UnwindRule::kDerefRbp:
        cfa = log.read(rbp + static_cast<uint64_t>(int64_t{rule.cfa_offset}));
        break;
    }
    if (cfa <= rsp && !exact) return walk;  // a stack that grows the wrong way: let libunwind judge
    pc = log.read(cfa - 8);
    if (rule.rbp == UnwindRule::kRbpAtCfa)
      rbp = log.read(cfa + static_cast<uint64_t>(int64_t{rule.rbp_offset}));
    else if (rule.rbp == UnwindRule::kRbpAtRbp)
      rbp = log.read(rbp + static_cast<uint64_t>(int64_t{rule.rbp_offset}));
    rsp = cfa;
    exact = false;
  }
  walk.complete = true;
  return walk;
}

#else

Walk walk_stack(const WalkStart&, void**, uint32_t, WalkWord*, uint32_t) { return {}; }

#endif

}  // namespace opmeter::recorder
