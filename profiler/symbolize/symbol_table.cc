// SPDX-License-Identifier: Apache-2.0
#include "profiler/symbolize/symbol_table.h"

#include <cxxabi.h>
#include <gelf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace opmeter::symbolize {

std::string demangle(const char* name) {
  // Names of this length come from damaged files; the demangler may need exponential time on them.
  constexpr size_t kLongest = 16 * 1024;
  if (name == nullptr) return {};
  if (std::strncmp(name, "_Z", 2) != 0 || std::strlen(name) > kLongest) return name;
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  if (text == nullptr) return name;
  std::string result = text;
  std::free(text);
  return result;
}

void SymbolTable::add(Elf* elf) {
  Elf_Scn* full = nullptr;
  Elf_Scn* dynamic = nullptr;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) continue;
    // A separate debug file keeps .dynsym's header without its content.
    if (header.sh_type == SHT_SYMTAB) full = section;
    if (header.sh_type == SHT_DYNSYM) dynamic = section;
  }
  if (full != nullptr) add_section(elf, full);
  if (full == nullptr && dynamic != nullptr) add_section(elf, dynamic);
}

void SymbolTable::add_section(Elf* elf, Elf_Scn* section) {
  GElf_Shdr header;
  Elf_Data* data = elf_getdata(section, nullptr);
  if (gelf_getshdr(section, &header) == nullptr || data == nullptr || header.sh_entsize == 0) {
    return;
  }
  const size_t count = static_cast<size_t>(header.sh_size / header.sh_entsize);
  for (size_t i = 0; i < count; ++i) {
    GElf_Sym symbol;
    if (gelf_getsym(data, static_cast<int>(i), &symbol) == nullptr) break;
    const int type = GELF_ST_TYPE(symbol.st_info);
    if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) continue;
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx == SHN_ABS || symbol.st_value == 0) {
      continue;
    }
    if (symbol.st_shndx < SHN_LORESERVE) {
      GElf_Shdr target;
      Elf_Scn* code = elf_getscn(elf, symbol.st_shndx);
      if (code == nullptr || gelf_getshdr(code, &target) == nullptr) continue;
      if ((target.sh_flags & SHF_EXECINSTR) == 0) continue;
    }
    const char* name = elf_strptr(elf, header.sh_link, symbol.st_name);
    if (name == nullptr || *name == '\0') continue;
    // Longer-lived names first: global before weak before local; sized before labels.
    int rank = symbol.st_size != 0 ? 4 : 0;
    if (GELF_ST_BIND(symbol.st_info) == STB_GLOBAL) rank += 2;
    if (GELF_ST_BIND(symbol.st_info) == STB_WEAK) rank += 1;
    entries_.push_back({symbol.st_value, symbol.st_value + symbol.st_size, name, rank});
  }
}

void SymbolTable::finish() {
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    if (a.begin != b.begin) return a.begin < b.begin;
    if (a.rank != b.rank) return a.rank > b.rank;
    return std::strcmp(a.name, b.name) < 0;
  });
  const auto same = [](const Entry& a, const Entry& b) { return a.begin == b.begin; };
  entries_.erase(std::unique(entries_.begin(), entries_.end(), same), entries_.end());
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].end != entries_[i].begin) continue;
    entries_[i].end = i + 1 < entries_.size() ? entries_[i + 1].begin : entries_[i].begin + 4096;
  }
}

const SymbolTable::Entry* SymbolTable::find(uint64_t address) const {
  auto above = std::upper_bound(entries_.begin(), entries_.end(), address,
                                [](uint64_t a, const Entry& entry) { return a < entry.begin; });
  // A local label may begin inside a function and end before the address: look back a little.
  for (int tries = 0; tries < 16 && above != entries_.begin(); ++tries) {
    --above;
    if (address < above->end) return &*above;
  }
  return nullptr;
}

}  // namespace opmeter::symbolize
