// SPDX-License-Identifier: Apache-2.0
// DWARF of one file by address: which compilation unit, which function, which inlined calls, which
// line. Built from the units' own ranges, because .debug_aranges is missing in clang's output; the
// functions of a unit are indexed when one of its addresses is first asked for.
#ifndef OPMETER_PROFILER_SYMBOLIZE_DWARF_INDEX_H_
#define OPMETER_PROFILER_SYMBOLIZE_DWARF_INDEX_H_

#include <elfutils/libdw.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "profiler/symbolize/symbolizer.h"

namespace opmeter::symbolize {

class DwarfIndex {
 public:
  /// `dwarf` must outlive the index.
  explicit DwarfIndex(Dwarf* dwarf);
  ~DwarfIndex();

  /// Innermost first. Empty when no unit holds the address; one Symbol without function but with
  /// file and line when the unit has no function there (assembler).
  std::vector<Symbol> find(uint64_t address);

 private:
  struct Range {
    uint64_t begin = 0, end = 0;
    size_t item = 0;  ///< index into units_ or Unit::function_dies
  };
  struct Unit {
    Dwarf_Die die;        ///< has the ranges and the lines
    Dwarf_Die functions;  ///< has the functions: `die`, or the split unit's
    bool indexed = false;
    std::vector<Dwarf_Die> function_dies;
    std::vector<Range> ranges;
  };

  static void add_ranges(Dwarf_Die* die, size_t item, std::vector<Range>& ranges);
  static const Range* lookup(const std::vector<Range>& ranges, uint64_t address);
  static void index_functions(Unit& unit, Dwarf_Die* parent, int depth);

  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<Range> ranges_;
};

}  // namespace opmeter::symbolize

#endif  // OPMETER_PROFILER_SYMBOLIZE_DWARF_INDEX_H_
