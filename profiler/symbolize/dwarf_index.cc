// SPDX-License-Identifier: Apache-2.0
#include "profiler/symbolize/dwarf_index.h"

#include <dwarf.h>

#include <algorithm>

#include "profiler/symbolize/symbol_table.h"

namespace opmeter::symbolize {
namespace {

constexpr int kDeepest = 256;  // nesting in damaged debug information

/// Linkage name demangled, else the plain name; follows abstract origins and specifications.
std::string function_name(Dwarf_Die* die) {
  for (const unsigned int name : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name, DW_AT_name}) {
    Dwarf_Attribute storage;
    const char* text = dwarf_formstring(dwarf_attr_integrate(die, name, &storage));
    if (text != nullptr && *text != '\0') return demangle(text);
  }
  return {};
}

uint64_t entry_of(Dwarf_Die* die, uint64_t fallback) {
  Dwarf_Addr low = 0;
  if (dwarf_entrypc(die, &low) == 0 || dwarf_lowpc(die, &low) == 0) return low;
  return fallback;
}

/// DW_AT_call_file and DW_AT_call_line: where an inlined function was called.
void set_call_site(Dwarf_Die* unit, Dwarf_Die* inlined, Symbol& caller) {
  Dwarf_Attribute storage;
  Dwarf_Word value = 0;
  if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &storage), &value) == 0) {
    caller.line = static_cast<uint32_t>(value);
  }
  Dwarf_Files* files = nullptr;
  size_t count = 0;
  if (dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &storage), &value) == 0 &&
      dwarf_getsrcfiles(unit, &files, &count) == 0 && value < count) {
    const char* path = dwarf_filesrc(files, static_cast<size_t>(value), nullptr, nullptr);
    if (path != nullptr) caller.file = path;
  }
}

bool holds(Dwarf_Die* die, uint64_t address) { return dwarf_haspc(die, address) == 1; }

/// The inlined calls that hold `address` below `parent`, outermost first.
void find_inlined(Dwarf_Die* parent, uint64_t address, std::vector<Dwarf_Die>& chain, int depth) {
  Dwarf_Die child;
  if (depth > kDeepest || dwarf_child(parent, &child) != 0) return;
  do {
    const int tag = dwarf_tag(&child);
    if (tag == DW_TAG_inlined_subroutine && holds(&child, address)) {
      chain.push_back(child);
      return find_inlined(&child, address, chain, depth + 1);
    }
    if (tag == DW_TAG_lexical_block || tag == DW_TAG_try_block || tag == DW_TAG_catch_block ||
        tag == DW_TAG_with_stmt) {
      // A block may have no range of its own although its content has.
      Dwarf_Addr low = 0;
      const bool ranged =
          dwarf_hasattr(&child, DW_AT_ranges) != 0 || dwarf_lowpc(&child, &low) == 0;
      if (ranged && !holds(&child, address)) continue;
      const size_t before = chain.size();
      find_inlined(&child, address, chain, depth + 1);
      if (chain.size() != before || ranged) return;
    }
  } while (dwarf_siblingof(&child, &child) == 0);
}

}  // namespace

DwarfIndex::DwarfIndex(Dwarf* dwarf) {
  Dwarf_CU* cu = nullptr;
  uint8_t type = 0;
  Dwarf_Die die;
  Dwarf_Die split;
  while (dwarf_get_units(dwarf, cu, &cu, nullptr, &type, &die, &split) == 0) {
    if (type == DW_UT_type || type == DW_UT_split_type || type == DW_UT_partial) continue;
    auto unit = std::make_unique<Unit>();
    unit->die = die;
    unit->functions = type == DW_UT_skeleton && split.addr != nullptr ? split : die;
    const size_t before = ranges_.size();
    add_ranges(&unit->die, units_.size(), ranges_);
    if (ranges_.size() == before) {
      // A unit without ranges of its own: its functions have them.
      index_functions(*unit, &unit->functions, 0);
      unit->indexed = true;
      for (const Range& range : unit->ranges) {
        ranges_.push_back({range.begin, range.end, units_.size()});
      }
      std::sort(unit->ranges.begin(), unit->ranges.end(),
                [](const Range& a, const Range& b) { return a.begin < b.begin; });
    }
    units_.push_back(std::move(unit));
  }
  std::sort(ranges_.begin(), ranges_.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
}

DwarfIndex::~DwarfIndex() = default;

void DwarfIndex::add_ranges(Dwarf_Die* die, size_t item, std::vector<Range>& ranges) {
  Dwarf_Addr base = 0;
  Dwarf_Addr begin = 0;
  Dwarf_Addr end = 0;
  ptrdiff_t offset = 0;
  while ((offset = dwarf_ranges(die, offset, &base, &begin, &end)) > 0) {
    // Functions that the linker removed keep a range at 0.
    if (begin != 0 && end > begin) ranges.push_back({begin, end, item});
  }
}

const DwarfIndex::Range* DwarfIndex::lookup(const std::vector<Range>& ranges, uint64_t address) {
  auto above = std::upper_bound(ranges.begin(), ranges.end(), address,
                                [](uint64_t a, const Range& range) { return a < range.begin; });
  for (int tries = 0; tries < 32 && above != ranges.begin(); ++tries) {
    --above;
    if (address < above->end) return &*above;
  }
  return nullptr;
}

void DwarfIndex::index_functions(Unit& unit, Dwarf_Die* parent, int depth) {
  Dwarf_Die child;
  if (depth > kDeepest || dwarf_child(parent, &child) != 0) return;
  do {
    switch (dwarf_tag(&child)) {
      case DW_TAG_subprogram: {
        const size_t before = unit.ranges.size();
        add_ranges(&child, unit.function_dies.size(), unit.ranges);
        if (unit.ranges.size() != before) unit.function_dies.push_back(child);
        index_functions(unit, &child, depth + 1);  // members of local classes, lambdas
        break;
      }
      case DW_TAG_namespace:
      case DW_TAG_class_type:
      case DW_TAG_structure_type:
      case DW_TAG_union_type:
      case DW_TAG_module:
      case DW_TAG_lexical_block:
      case DW_TAG_inlined_subroutine:
        index_functions(unit, &child, depth + 1);
        break;
      default:
        break;
    }
  } while (dwarf_siblingof(&child, &child) == 0);
}

std::vector<Symbol> DwarfIndex::find(uint64_t address) {
  const Range* in_unit = lookup(ranges_, address);
  if (in_unit == nullptr) return {};
  Unit& unit = *units_[in_unit->item];
  if (!unit.indexed) {
    index_functions(unit, &unit.functions, 0);
    std::sort(unit.ranges.begin(), unit.ranges.end(),
              [](const Range& a, const Range& b) { return a.begin < b.begin; });
    unit.indexed = true;
  }

  Symbol here;  // file and line of the innermost code
  if (Dwarf_Line* line = dwarf_getsrc_die(&unit.die, address); line != nullptr) {
    int number = 0;
    const char* path = dwarf_linesrc(line, nullptr, nullptr);
    if (path != nullptr) here.file = path;
    if (dwarf_lineno(line, &number) == 0 && number > 0) here.line = static_cast<uint32_t>(number);
  }

  const Range* in_function = lookup(unit.ranges, address);
  if (in_function == nullptr) return {here};
  Dwarf_Die function = unit.function_dies[in_function->item];
  std::vector<Dwarf_Die> chain;  // outermost first
  find_inlined(&function, address, chain, 0);

  std::vector<Symbol> symbols;
  for (size_t i = chain.size(); i > 0; --i) {
    Dwarf_Die* inlined = &chain[i - 1];
    here.function = function_name(inlined);
    here.function_offset = address - std::min(address, entry_of(inlined, address));
    here.inlined = true;
    symbols.push_back(here);
    here = {};
    set_call_site(&unit.functions, inlined, here);
  }
  here.function = function_name(&function);
  here.function_offset = address - std::min(address, entry_of(&function, in_function->begin));
  symbols.push_back(here);
  return symbols;
}

}  // namespace opmeter::symbolize
