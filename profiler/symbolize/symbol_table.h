// SPDX-License-Identifier: Apache-2.0
// Functions of an ELF file by address, from .symtab or, in a stripped file, .dynsym.
#ifndef OPMETER_PROFILER_SYMBOLIZE_SYMBOL_TABLE_H_
#define OPMETER_PROFILER_SYMBOLIZE_SYMBOL_TABLE_H_

#include <libelf.h>

#include <cstdint>
#include <string>
#include <vector>

namespace opmeter::symbolize {

class SymbolTable {
 public:
  struct Entry {
    uint64_t begin = 0;
    uint64_t end = 0;       ///< exclusive; of symbols without a size: where the next one begins
    const char* name = "";  ///< mangled; lives as long as the Elf
    int rank = 0;           ///< of several names for one address the highest is shown
  };

  /// Adds the functions of .symtab, or of .dynsym where there is no .symtab.
  void add(Elf* elf);
  /// Sorts; call once, after the last add.
  void finish();
  bool empty() const { return entries_.empty(); }
  /// The function that holds `address`; null when none does.
  const Entry* find(uint64_t address) const;

 private:
  void add_section(Elf* elf, Elf_Scn* section);
  std::vector<Entry> entries_;
};

/// C++ name for a reader; the name itself where it is not mangled.
std::string demangle(const char* name);

}  // namespace opmeter::symbolize

#endif  // OPMETER_PROFILER_SYMBOLIZE_SYMBOL_TABLE_H_
