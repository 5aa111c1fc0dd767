// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/eh_frame.h"

#include <dlfcn.h>
#include <link.h>

#include <cstring>

#if defined(__x86_64__)

// glibc >= 2.35: lock-free look-up of the object that holds an address. Weak: older C libraries do
// without.
extern "C" int _dl_find_object(void* address, struct dl_find_object* result) __attribute__((weak));

namespace opmeter::recorder {
namespace {

constexpr uint64_t kRbp = 6, kRsp = 7, kRip = 16;

/// A cursor over trusted memory: a loaded module's own unwind tables.
struct Reader {
  const uint8_t* at;

  template <typename T>
  T fixed() {
    T value;
    std::memcpy(&value, at, sizeof value);
    at += sizeof value;
    return value;
  }
  uint64_t uleb() {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const uint8_t byte = *at++;
      if (shift < 64) value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
  }
  int64_t sleb() {
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte;
    do {
      byte = *at++;
      if (shift < 64) value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      shift += 7;
    } while ((byte & 0x80) != 0);
    if (shift < 64 && (byte & 0x40) != 0) value |= ~uint64_t{0} << shift;
    return static_cast<int64_t>(value);
  }
  /// A pointer in one of the DW_EH_PE encodings; ok = false for one that is not in use on x86-64
  /// Linux.
  uint64_t encoded(uint8_t encoding, uint64_t data_base, bool& ok) {
    const auto here = reinterpret_cast<uint64_t>(at);
    uint64_t value;
    switch (encoding & 0x0f) {
      case 0x00:
      case 0x04:
      case 0x0c:
        value = fixed<uint64_t>();
        break;
      case 0x01:
        value = uleb();
        break;
      case 0x02:
        value = fixed<uint16_t>();
        break;
      case 0x03:
        value = fixed<uint32_t>();
        break;
      case 0x09:
        value = static_cast<uint64_t>(sleb());
        break;
      case 0x0a:
        value = static_cast<uint64_t>(int64_t{fixed<int16_t>()});
        break;
      case 0x0b:
        value = static_cast<uint64_t>(int64_t{fixed<int32_t>()});
        break;
      default:
        ok = false;
        return 0;
    }
    switch (encoding & 0x70) {
      case 0x00:
        break;
      case 0x10:
        value += here;
        break;
      case 0x30:
        value += data_base;
        break;
      default:
        ok = false;
    }
    if ((encoding & 0x80) != 0) ok = false;  // indirect
    return value;
  }
};

struct Cie {
  uint64_t code_align = 1;
  int64_t data_align = -8;
  uint64_t ra_register = kRip;
  uint8_t pointer_encoding = 0;
  bool has_augmentation_data = false;
  bool signal = false;
  const uint8_t* program = nullptr;
  const uint8_t* end = nullptr;
};

bool read_cie(const uint8_t* at, Cie& cie) {
  Reader in{at};
  const auto length = in.fixed<uint32_t>();
  if (length == 0 || length == 0xffffffff) return false;
  cie.end = in.at + length;
  if (in.fixed<uint32_t>() != 0) return false;
  const auto version = in.fixed<uint8_t>();
  if (version != 1 && version != 3) return false;
  const char* augmentation = reinterpret_cast<const char*>(in.at);
  in.at += std::strlen(augmentation) + 1;
  cie.code_align = in.uleb();
  cie.data_align = in.sleb();
  cie.ra_register = version == 1 ? in.fixed<uint8_t>() : in.uleb();
  bool ok = true;
  if (*augmentation == 'z') {
    cie.has_augmentation_data = true;
    const uint64_t size = in.uleb();
    const uint8_t* program = in.at + size;
    for (const char* c = augmentation + 1; *c != 0; ++c) {
      if (*c == 'R') {
        cie.pointer_encoding = in.fixed<uint8_t>();
      } else if (*c == 'P') {
        // The personality routine: only its length matters; indirect is fine here.
        const auto encoding = in.fixed<uint8_t>();
        in.encoded(encoding & 0x7f, 0, ok);
      } else if (*c == 'L') {
        in.fixed<uint8_t>();
      } else if (*c == 'S') {
        cie.signal = true;
      } else if (*c != 'B') {
        break;
      }
    }
    in.at = program;
  } else if (*augmentation != 0) {
    return false;
  }
  cie.program = in.at;
  return ok;
}

/// Where the caller's value of a register is.
struct RegisterRule {
  enum Kind : uint8_t { kSame, kAtCfa, kAtRbp, kUndefined, kOther } kind = kSame;
  int64_t offset = 0;
};

struct RowState {
  enum CfaKind : uint8_t { kRegister, kDerefRbp, kPlt, kOther } cfa_kind = kRegister;
  uint64_t cfa_register = kRsp;
  int64_t cfa_offset = 8;
  RegisterRule rbp, ra;
};

/// The expressions that compilers and linkers really emit for a CFA; anything else is kOther.
void read_cfa_expression(const uint8_t* at, uint64_t size, RowState& row) {
  Reader in{at};
  row.cfa_kind = RowState::kOther;
  constexpr uint8_t kBreg0 = 0x70, kDeref = 0x06;
  if (size >= 3 && *in.at == kBreg0 + kRbp) {
    ++in.at;
    row.cfa_offset = in.sleb();
    if (in.at == at + size - 1 && *in.at == kDeref) row.cfa_kind = RowState::kDerefRbp;
    return;
  }
  // The linker's table of PLT stubs: rsp + 8 + ((rip & 15) >= 11) * 8.
  static constexpr uint8_t kPltExpression[] = {0x77, 8,    0x80, 0,    0x3f, 0x1a,
                                               0x3b, 0x2a, 0x33, 0x24, 0x22};
  static constexpr uint8_t kPltIbtExpression[] = {0x77, 8,    0x80, 0,    0x3f, 0x1a,
                                                  0x39, 0x2a, 0x33, 0x24, 0x22};
  if (size == sizeof kPltExpression) {
    if (std::memcmp(at, kPltExpression, size) == 0) {
      row.cfa_kind = RowState::kPlt;
      row.cfa_offset = 11;
    } else if (std::memcmp(at, kPltIbtExpression, size) == 0) {
      row.cfa_kind = RowState::kPlt;
      row.cfa_offset = 9;
    }
  }
}

/// Runs a CIE's or FDE's program until `location` passes `target`. False = an instruction that is
/// not understood.
bool run_program(const uint8_t* at, const uint8_t* end, const Cie& cie, uint64_t location,
                 uint64_t target, const RowState& initial, RowState& row) {
  constexpr int kRemembered = 8;
  RowState remembered[kRemembered];
  int depth = 0;
  Reader in{at};
  const auto set = [&](uint64_t reg, RegisterRule rule) {
    if (reg == kRbp) row.rbp = rule;
    if (reg == cie.ra_register) row.ra = rule;
  };
  const auto scaled = [&](uint64_t n) { return static_cast<int64_t>(n) * cie.data_align; };
  while (in.at < end) {
    const auto op = in.fixed<uint8_t>();
    const uint8_t low = op & 0x3f;
    switch (op & 0xc0) {
      case 0x40:  // advance_loc
        location += low * cie.code_align;
        if (location > target) return true;
        continue;
      case 0x80:  // offset
        set(low, {RegisterRule::kAtCfa, scaled(in.uleb())});
        continue;
      case 0xc0:  // restore
        if (low == kRbp) row.rbp = initial.rbp;
        if (low == cie.ra_register) row.ra = initial.ra;
        continue;
      default:
        break;
    }
    switch (op) {
      case 0x00:
        break;      // nop
      case 0x01: {  // set_loc
        bool ok = true;
        location = in.encoded(cie.pointer_encoding, 0, ok);
        if (!ok) return false;
        if (location > target) return true;
        break;
      }
      case 0x02:
      case 0x03:
      case 0x04: {  // advance_loc1, 2, 4
        const uint64_t delta = op == 0x02   ? in.fixed<uint8_t>()
                               : op == 0x03 ? in.fixed<uint16_t>()
                                            : in.fixed<uint32_t>();
        location += delta * cie.code_align;
        if (location > target) return true;
        break;
      }
      case 0x05: {  // offset_extended
        const uint64_t reg = in.uleb();
        set(reg, {RegisterRule::kAtCfa, scaled(in.uleb())});
        break;
      }
      case 0x06: {  // restore_extended
        const uint64_t reg = in.uleb();
        if (reg == kRbp) row.rbp = initial.rbp;
        if (reg == cie.ra_register) row.ra = initial.ra;
        break;
      }
      case 0x07:
        set(in.uleb(), {RegisterRule::kUndefined, 0});
        break;
      case 0x08:
        set(in.uleb(), {RegisterRule::kSame, 0});
        break;
      case 0x09: {  // register
        const uint64_t reg = in.uleb();
        in.uleb();
        set(reg, {RegisterRule::kOther, 0});
        break;
      }
      case 0x0a:
        if (depth == kRemembered) return false;
        remembered[depth++] = row;
        break;
      case 0x0b:
        if (depth == 0) return false;
        row = remembered[--depth];
        break;
      case 0x0c:  // def_cfa
        row.cfa_kind = RowState::kRegister;
        row.cfa_register = in.uleb();
        row.cfa_offset = static_cast<int64_t>(in.uleb());
        break;
      case 0x0d:
        row.cfa_kind = RowState::kRegister;
        row.cfa_register = in.uleb();
        break;
      case 0x0e:
        row.cfa_offset = static_cast<int64_t>(in.uleb());
        break;
      case 0x0f: {  // def_cfa_expression
        const uint64_t size = in.uleb();
        read_cfa_expression(in.at, size, row);
        in.at += size;
        break;
      }
      case 0x10:
      case 0x16: {  // expression, val_expression
        const uint64_t reg = in.uleb();
        const uint64_t size = in.uleb();
        RegisterRule rule{RegisterRule::kOther, 0};
        if (op == 0x10 && size >= 2 && *in.at == 0x70 + kRbp) {
          Reader expression{in.at + 1};
          rule.offset = expression.sleb();
          if (expression.at == in.at + size) rule.kind = RegisterRule::kAtRbp;
        }
        set(reg, rule);
        in.at += size;
        break;
      }
      case 0x11: {  // offset_extended_sf
        const uint64_t reg = in.uleb();
        set(reg, {RegisterRule::kAtCfa, in.sleb() * cie.data_align});
        break;
      }
      case 0x12:
        row.cfa_kind = RowState::kRegister;
        row.cfa_register = in.uleb();
        row.cfa_offset = in.sleb() * cie.data_align;
        break;
      case 0x13:
        row.cfa_offset = in.sleb() * cie.data_align;
        break;
      case 0x14:
      case 0x15: {  // val_offset, val_offset_sf
        const uint64_t reg = in.uleb();
        in.uleb();
        set(reg, {RegisterRule::kOther, 0});
        break;
      }
      case 0x2e:
        in.uleb();
        break;  // GNU_args_size
      default:
        return false;
    }
  }
  return true;
}

UnwindRule complex_rule() {
  UnwindRule rule;
  rule.kind = UnwindRule::kComplex;
  return rule;
}

constexpr bool fits(int64_t offset) { return offset > -(1 << 25) && offset < (1 << 25); }

UnwindRule rule_of(const RowState& row, const Cie& cie, uint64_t pc) {
  UnwindRule rule;
  if (cie.signal) {
    rule.kind = UnwindRule::kSignal;
    return rule;
  }
  if (row.ra.kind == RegisterRule::kUndefined) {
    rule.kind = UnwindRule::kEnd;
    return rule;
  }
  if (row.ra.kind != RegisterRule::kAtCfa || row.ra.offset != -8 || !fits(row.cfa_offset))
    return complex_rule();
  rule.cfa_offset = static_cast<int32_t>(row.cfa_offset);
  switch (row.cfa_kind) {
    case RowState::kRegister:
      if (row.cfa_register == kRsp)
        rule.kind = UnwindRule::kFromRsp;
      else if (row.cfa_register == kRbp)
        rule.kind = UnwindRule::kFromRbp;
      else
        return complex_rule();
      break;
    case RowState::kDerefRbp:
      rule.kind = UnwindRule::kDerefRbp;
      break;
    case RowState::kPlt:
      rule.kind = UnwindRule::kFromRsp;
      rule.cfa_offset = (pc & 15) >= static_cast<uint64_t>(row.cfa_offset) ? 16 : 8;
      break;
    case RowState::kOther:
      return complex_rule();
  }
  switch (row.rbp.kind) {
    case RegisterRule::kSame:
    case RegisterRule::kUndefined:
      rule.rbp = UnwindRule::kRbpSame;
      break;
    case RegisterRule::kAtCfa:
      rule.rbp = UnwindRule::kRbpAtCfa;
      break;
    case RegisterRule::kAtRbp:
      rule.rbp = UnwindRule::kRbpAtRbp;
      break;
    case RegisterRule::kOther:
      return complex_rule();
  }
  if (!fits(row.rbp.offset)) return complex_rule();
  rule.rbp_offset = static_cast<int32_t>(row.rbp.offset);
  return rule;
}

/// The FDE that covers `address` by the sorted table of .eh_frame_hdr; null when there is none.
const uint8_t* find_fde(const uint8_t* header, uint64_t address) {
  Reader in{header};
  if (in.fixed<uint8_t>() != 1) return nullptr;
  const auto frame_encoding = in.fixed<uint8_t>();
  const auto count_encoding = in.fixed<uint8_t>();
  const auto table_encoding = in.fixed<uint8_t>();
  const auto base = reinterpret_cast<uint64_t>(header);
  bool ok = true;
  in.encoded(frame_encoding, base, ok);
  const uint64_t count = in.encoded(count_encoding, base, ok);
  if (!ok || count == 0 || table_encoding != 0x3b) return nullptr;
  struct Entry {
    int32_t location, fde;
  };
  const uint8_t* table = in.at;
  const auto target = static_cast<int64_t>(address - base);
  uint64_t low = 0, high = count;  // first entry beyond the target
  while (low < high) {
    const uint64_t middle = (low + high) / 2;
    Entry entry;
    std::memcpy(&entry, table + middle * sizeof entry, sizeof entry);
    if (entry.location <= target)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == 0) return nullptr;
  Entry entry;
  std::memcpy(&entry, table + (low - 1) * sizeof entry, sizeof entry);
  return header + entry.fde;
}

const uint8_t* eh_frame_header_of(uint64_t address) {
  if (_dl_find_object == nullptr) return nullptr;
  dl_find_object found;
  if (_dl_find_object(reinterpret_cast<void*>(address), &found) != 0) return nullptr;
  return static_cast<const uint8_t*>(found.dlfo_eh_frame);
}

}  // namespace

UnwindRule read_unwind_rule(uint64_t pc, uint64_t address) {
  const uint8_t* header = eh_frame_header_of(address);
  if (header == nullptr) return {};
  const uint8_t* fde = find_fde(header, address);
  if (fde == nullptr) return {};
  Reader in{fde};
  const auto length = in.fixed<uint32_t>();
  if (length == 0 || length == 0xffffffff) return {};
  const uint8_t* end = in.at + length;
  const uint8_t* cie_field = in.at;
  const auto cie_distance = in.fixed<uint32_t>();
  Cie cie;
  if (!read_cie(cie_field - cie_distance, cie)) return complex_rule();
  bool ok = true;
  const uint64_t begin = in.encoded(cie.pointer_encoding, 0, ok);
  const uint64_t range = in.encoded(cie.pointer_encoding & 0x0f, 0, ok);
  if (!ok) return complex_rule();
  if (address < begin || address - begin >= range) return {};  // a gap between functions
  if (cie.has_augmentation_data) {
    const uint64_t size = in.uleb();
    in.at += size;
  }
  RowState initial, row;
  if (!run_program(cie.program, cie.end, cie, 0, UINT64_MAX, initial, row)) return complex_rule();
  initial = row;
  if (!run_program(in.at, end, cie, begin, address, initial, row)) return complex_rule();
  return rule_of(row, cie, pc);
}

}  // namespace opmeter::recorder

#endif  // __x86_64__
