// SPDX-License-Identifier: Apache-2.0
#include "profiler/symbolize/symbolizer.h"

#include <map>
#include <unordered_map>

#include "profiler/symbolize/dwarf_index.h"
#include "profiler/symbolize/elf_file.h"
#include "profiler/symbolize/symbol_table.h"

namespace opmeter::symbolize {
namespace {

/// The files of one module and what they answered.
struct Module {
  std::unique_ptr<ElfFile> file;   // null: missing or not the recorded one
  std::unique_ptr<ElfFile> debug;  // separate debug file
  std::unique_ptr<DwarfIndex> dwarf;
  SymbolTable symbols;
  std::string problem;
  std::unordered_map<uint64_t, std::vector<Symbol>> answers;
};

bool same_build(const ElfFile& file, const std::string& build_id) {
  return build_id.empty() || file.build_id() == build_id;
}

}  // namespace

struct Symbolizer::Impl {
  SymbolizerOptions options;
  // By (path, build id): the same file mapped twice, or replaced meanwhile, stays apart.
  std::map<std::pair<std::string, std::string>, Module> modules;

  Module& module(const trace::ModuleInfo& info);
  void load(const trace::ModuleInfo& info, Module& module) const;
  static std::vector<Symbol> find(Module& module, uint64_t address);
};

Symbolizer::Symbolizer(SymbolizerOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
}
Symbolizer::~Symbolizer() = default;
Symbolizer::Symbolizer(Symbolizer&&) noexcept = default;
Symbolizer& Symbolizer::operator=(Symbolizer&&) noexcept = default;

Module& Symbolizer::Impl::module(const trace::ModuleInfo& info) {
  const auto [found, added] = modules.try_emplace({info.path, info.build_id});
  if (added) load(info, found->second);
  return found->second;
}

void Symbolizer::Impl::load(const trace::ModuleInfo& info, Module& module) const {
  if (info.path.empty() || info.path.front() == '[') {
    module.problem = (info.path.empty() ? "a module without a name" : info.path) + ": no file";
    return;
  }
  module.file = ElfFile::open(info.path);
  if (module.file == nullptr) {
    module.problem = info.path + ": cannot be read as an ELF file";
  } else if (!same_build(*module.file, info.build_id)) {
    const std::string& now = module.file->build_id();
    module.problem = info.path + ": is another build now (build id " +
                     (now.empty() ? "none" : now.substr(0, 12)) + ", recorded " +
                     info.build_id.substr(0, 12) + ")";
    module.file.reset();
  }
  const bool own_dwarf = module.file != nullptr && module.file->dwarf() != nullptr;
  if (!own_dwarf) {
    const std::vector<std::string> paths = module.file != nullptr
                                               ? module.file->debug_paths(options.debug_dirs)
                                               : build_id_paths(info.build_id, options.debug_dirs);
    for (const std::string& path : paths) {
      auto debug = ElfFile::open(path);
      // .gnu_debuglink may lead to another version's file: where build ids exist they must agree.
      const std::string& wanted = module.file != nullptr ? module.file->build_id() : info.build_id;
      if (debug == nullptr || !same_build(*debug, wanted)) continue;
      module.debug = std::move(debug);
      module.problem.clear();
      break;
    }
  }
  Dwarf* dwarf = own_dwarf                 ? module.file->dwarf()
                 : module.debug != nullptr ? module.debug->dwarf()
                                           : nullptr;
  if (dwarf != nullptr) module.dwarf = std::make_unique<DwarfIndex>(dwarf);
  if (module.debug != nullptr) module.symbols.add(module.debug->elf());
  if (module.file != nullptr) module.symbols.add(module.file->elf());
  module.symbols.finish();
  if (module.problem.empty() && module.dwarf == nullptr && module.symbols.empty()) {
    module.problem = info.path + ": has neither debug information nor symbols";
  }
}

std::vector<Symbol> Symbolizer::Impl::find(Module& module, uint64_t address) {
  std::vector<Symbol> symbols;
  if (module.dwarf != nullptr) symbols = module.dwarf->find(address);
  if (symbols.empty()) symbols.emplace_back();
  Symbol& outermost = symbols.back();
  if (outermost.function.empty()) {
    if (const SymbolTable::Entry* entry = module.symbols.find(address)) {
      outermost.function = demangle(entry->name);
      outermost.function_offset = address - entry->begin;
    }
  }
  return symbols;
}

const std::vector<Symbol>& Symbolizer::resolve(const trace::ModuleInfo& module, uint64_t address) {
  Module& loaded = impl_->module(module);
  const auto [found, added] = loaded.answers.try_emplace(address);
  if (added) found->second = Impl::find(loaded, address);
  return found->second;
}

std::vector<std::string> Symbolizer::problems() const {
  std::vector<std::string> lines;
  for (const auto& [key, module] : impl_->modules) {
    if (!module.problem.empty()) lines.push_back(module.problem);
  }
  return lines;
}

}  // namespace opmeter::symbolize
