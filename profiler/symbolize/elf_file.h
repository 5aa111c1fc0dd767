// SPDX-License-Identifier: Apache-2.0
// An ELF file opened for reading, with its build id and the places where its separate debug file
// may lie. Owns the descriptor, the Elf and the Dwarf.
#ifndef OPMETER_PROFILER_SYMBOLIZE_ELF_FILE_H_
#define OPMETER_PROFILER_SYMBOLIZE_ELF_FILE_H_

#include <elfutils/libdw.h>
#include <libelf.h>

#include <memory>
#include <string>
#include <vector>

namespace opmeter::symbolize {

class ElfFile {
 public:
  /// Null when `path` is no readable regular ELF file.
  static std::unique_ptr<ElfFile> open(const std::string& path);
  ~ElfFile();
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;

  Elf* elf() const { return elf_; }
  const std::string& path() const { return path_; }
  /// Hex, "" when the file has none.
  const std::string& build_id() const { return build_id_; }
  /// Null when there is no DWARF in this very file.
  Dwarf* dwarf();

  /// Paths to try for the separate debug file, best first.
  std::vector<std::string> debug_paths(const std::vector<std::string>& debug_dirs) const;

 private:
  ElfFile() = default;
  std::string path_;
  std::string build_id_;
  int fd_ = -1;
  Elf* elf_ = nullptr;
  Dwarf* dwarf_ = nullptr;
  bool dwarf_tried_ = false;
};

/// DIR/.build-id/ab/cdef.debug for every directory; none for a build id that is too short.
std::vector<std::string> build_id_paths(const std::string& build_id,
                                        const std::vector<std::string>& debug_dirs);

}  // namespace opmeter::symbolize

#endif  // OPMETER_PROFILER_SYMBOLIZE_ELF_FILE_H_
