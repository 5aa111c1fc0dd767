// SPDX-License-Identifier: Apache-2.0
// (module, address) -> function, file, line and inlined frames, offline: from DWARF where present,
// else the symbol table, else nothing (the caller prints module+offset). Reads local files only: no
// debuginfod, no network. A file that is not the recorded one (another build id) gives no names.
#ifndef OPMETER_PROFILER_SYMBOLIZE_SYMBOLIZER_H_
#define OPMETER_PROFILER_SYMBOLIZE_SYMBOLIZER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "profiler/trace/event.h"

namespace opmeter::symbolize {

/// One function at an address. Innermost first; all but the last are inlined into the next.
struct Symbol {
  std::string function;          ///< demangled; "" when unknown
  uint64_t function_offset = 0;  ///< bytes from the start of the function to the address
  std::string file;              ///< "" when unknown
  uint32_t line = 0;
  bool inlined = false;
};

/// Where separate debug files lie: DIR/.build-id/ab/cdef.debug and DIR/path/to/file.debug.
struct SymbolizerOptions {
  std::vector<std::string> debug_dirs = {"/usr/lib/debug"};
};

/// Keeps files open and answers cached. Thread rule: one thread.
class Symbolizer {
 public:
  explicit Symbolizer(SymbolizerOptions options = {});
  ~Symbolizer();
  Symbolizer(Symbolizer&&) noexcept;
  Symbolizer& operator=(Symbolizer&&) noexcept;

  /// What is at `address`, an ELF virtual address of `module` (run-time address minus bias; for a
  /// return address minus 1 too). Never empty: unknown is one Symbol without function. The
  /// reference lives as long as the Symbolizer.
  const std::vector<Symbol>& resolve(const trace::ModuleInfo& module, uint64_t address);

  /// One line for each module that was asked for and whose file gives no names, with the reason.
  std::vector<std::string> problems() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace opmeter::symbolize

#endif  // OPMETER_PROFILER_SYMBOLIZE_SYMBOLIZER_H_
