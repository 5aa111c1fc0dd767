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

/// rbp as the walk knows it: from the start, or from a saved word.
struct FramePointer {
  uint64_t value;
  int32_t word;  ///< in the log; -1 = from the start
};

class Reader {
 public:
  explicit Reader(WalkLog* log) : log_(log) {}

  uint64_t read(uint64_t address, WalkWord::Kind kind, int32_t from = -1) {
    const uint64_t value = *reinterpret_cast<const uint64_t*>(address);
    if (log_ != nullptr) {
      if (log_->used < log_->room) {
        log_->words[log_->used++] = {address, value, from, kind, kind != WalkWord::kSaved};
      } else {
        log_->overflow = true;
      }
    }
    return value;
  }
  FramePointer read_saved(uint64_t address, int32_t from) {
    const uint64_t value = read(address, WalkWord::kSaved, from);
    return {value, log_ == nullptr ? -1 : static_cast<int32_t>(log_->used) - 1};
  }
  /// The walk goes where `rbp` points: the word it came from, and the words that one's place
  /// depended on, decide.
  void use(FramePointer rbp) {
    if (log_ == nullptr) return;
    int32_t word = rbp.word;
    while (word >= 0 && !log_->words[word].used) {
      log_->words[word].used = true;
      word = log_->words[word].from;
      if (word == kFromStart) break;
      if (word < 0) return;
    }
    if (word < 0) log_->start_rbp_used = true;
  }
  void rule(uint32_t frame, const UnwindRule& rule) {
    if (log_ != nullptr && log_->rules != nullptr) log_->rules[frame] = pack(rule);
  }
  void signal_frame() {
    if (log_ != nullptr) log_->signal_frames = true;
  }

  /// WalkWord::from of a word that lies where the rbp of the start points.
  static constexpr int32_t kFromStart = -2;

 private:
  WalkLog* log_;
};

}  // namespace

Walk walk_stack(const WalkStart& start, void** frames, uint32_t max_frames, WalkLog* log) {
  Walk walk;
  Reader memory(log);
  uint64_t pc = start.pc, rsp = start.rsp;
  FramePointer rbp{start.rbp, -1};
  bool exact = false;
  for (;;) {
    if (pc == 0) break;  // the ABI's mark of the outermost frame
    if (walk.frames == max_frames) {
      walk.cut = true;
      break;
    }
    const UnwindRule rule = unwind_rule(pc, exact);
    memory.rule(walk.frames, rule);
    frames[walk.frames++] = reinterpret_cast<void*>(pc);
    const auto cfa_offset = static_cast<uint64_t>(int64_t{rule.cfa_offset});
    uint64_t cfa = 0;
    switch (rule.kind) {
      case UnwindRule::kEnd:
        walk.complete = true;
        return walk;
      case UnwindRule::kUnknown:
      case UnwindRule::kComplex:
        return walk;
      case UnwindRule::kSignal:
        memory.signal_frame();
        pc = memory.read(rsp + kContextRip, WalkWord::kReturn);
        rbp = memory.read_saved(rsp + kContextRbp, -1);
        rsp = memory.read(rsp + kContextRsp, WalkWord::kFixed);
        exact = true;
        continue;
      case UnwindRule::kFromRsp:
        cfa = rsp + cfa_offset;
        break;
      case UnwindRule::kFromRbp:
        memory.use(rbp);
        cfa = rbp.value + cfa_offset;
        break;
      case UnwindRule::kDerefRbp:
        memory.use(rbp);
        cfa = memory.read(rbp.value + cfa_offset, WalkWord::kFixed);
        break;
    }
    if (cfa <= rsp && !exact) return walk;  // a stack that grows the wrong way: let libunwind judge
    pc = memory.read(cfa - 8, WalkWord::kReturn);
    const auto rbp_offset = static_cast<uint64_t>(int64_t{rule.rbp_offset});
    if (rule.rbp == UnwindRule::kRbpAtCfa) {
      rbp = memory.read_saved(cfa + rbp_offset, -1);
    } else if (rule.rbp == UnwindRule::kRbpAtRbp) {
      rbp = memory.read_saved(rbp.value + rbp_offset, rbp.word < 0 ? Reader::kFromStart : rbp.word);
    }
    rsp = cfa;
    exact = false;
  }
  walk.complete = true;
  return walk;
}

#else

Walk walk_stack(const WalkStart&, void**, uint32_t, WalkLog*) { return {}; }

#endif

}  // namespace opmeter::recorder
