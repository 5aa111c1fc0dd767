// SPDX-License-Identifier: Apache-2.0
#include "profiler/symbolize/elf_file.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>

namespace opmeter::symbolize {

std::unique_ptr<ElfFile> ElfFile::open(const std::string& path) {
  elf_version(EV_CURRENT);
  // O_NONBLOCK: a path in a trace may name a pipe by now.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return nullptr;
  std::unique_ptr<ElfFile> file(new ElfFile);
  file->fd_ = fd;
  file->path_ = path;
  struct stat status {};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return nullptr;
  file->elf_ = elf_begin(fd, ELF_C_READ_MMAP, nullptr);
  if (file->elf_ == nullptr || elf_kind(file->elf_) != ELF_K_ELF) return nullptr;
  const void* bytes = nullptr;
  const ssize_t size = dwelf_elf_gnu_build_id(file->elf_, &bytes);
  for (ssize_t i = 0; i < size; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    const uint8_t byte = static_cast<const uint8_t*>(bytes)[i];
    file->build_id_ += kDigits[byte >> 4];
    file->build_id_ += kDigits[byte & 15];
  }
  return file;
}

ElfFile::~ElfFile() {
  if (dwarf_ != nullptr) dwarf_end(dwarf_);
  if (elf_ != nullptr) elf_end(elf_);
  if (fd_ >= 0) ::close(fd_);
}

Dwarf* ElfFile::dwarf() {
  if (!dwarf_tried_) {
    dwarf_tried_ = true;
    dwarf_ = dwarf_begin_elf(elf_, DWARF_C_READ, nullptr);
    // A stripped file yields an empty Dwarf: no unit, no names.
    Dwarf_CU* cu = nullptr;
    if (dwarf_ != nullptr &&
        dwarf_get_units(dwarf_, nullptr, &cu, nullptr, nullptr, nullptr, nullptr) != 0) {
      dwarf_end(dwarf_);
      dwarf_ = nullptr;
    }
  }
  return dwarf_;
}

std::vector<std::string> ElfFile::debug_paths(const std::vector<std::string>& debug_dirs) const {
  std::vector<std::string> paths = build_id_paths(build_id_, debug_dirs);
  GElf_Word crc = 0;
  const char* link = dwelf_elf_gnu_debuglink(elf_, &crc);
  if (link != nullptr && *link != '\0' && std::string(link).find('/') == std::string::npos) {
    const std::string folder = path_.substr(0, path_.rfind('/') + 1);
    paths.push_back(folder + link);
    paths.push_back(folder + ".debug/" + link);
    for (const std::string& dir : debug_dirs) paths.push_back(dir + folder + link);
  }
  return paths;
}

std::vector<std::string> build_id_paths(const std::string& build_id,
                                        const std::vector<std::string>& debug_dirs) {
  std::vector<std::string> paths;
  if (build_id.size() < 6) return paths;
  for (const std::string& dir : debug_dirs) {
    paths.push_back(dir + "/.build-id/" + build_id.substr(0, 2) + "/" + build_id.substr(2) +
                    ".debug");
  }
  return paths;
}

}  // namespace opmeter::symbolize
