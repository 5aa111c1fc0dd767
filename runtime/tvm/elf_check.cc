// SPDX-License-Identifier: Apache-2.0
// elf_check.cc: headers and extents of an ELF file, read without mapping it (see elf_check.h).
#include "runtime/tvm/elf_check.h"

#include <elf.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <system_error>

namespace opmeter::runtime {
namespace {

#if defined(__x86_64__)
constexpr int kMachine = EM_X86_64;
constexpr const char* kMachineName = "x86-64";
#elif defined(__aarch64__)
constexpr int kMachine = EM_AARCH64;
constexpr const char* kMachineName = "AArch64";
#else
constexpr int kMachine = EM_NONE;
constexpr const char* kMachineName = "this machine";
#endif

/// Size of a readable regular file.
Result<std::uint64_t> regular_file_size(const std::string& path, const std::string& what) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    return input_error(path + ": cannot read " + what + ": " +
                       std::generic_category().message(errno));
  }
  if (!S_ISREG(info.st_mode)) return input_error(path + ": is not a file; give " + what);
  return static_cast<std::uint64_t>(info.st_size);
}

bool has_tar_magic(std::ifstream& file) {
  char magic[5] = {};
  file.clear();
  file.seekg(257);
  file.read(magic, sizeof magic);
  return file.gcount() == sizeof magic && std::memcmp(magic, "ustar", sizeof magic) == 0;
}

Error not_a_library(const std::string& path, std::ifstream& file, const char* head) {
  if (has_tar_magic(file)) {
    return input_error(path + ": is a tar package; unpack it and give --graph, --params and --lib");
  }
  if (head[0] == '{') {
    return input_error(path + ": looks like JSON, not a library; give --graph, --params and --lib");
  }
  return input_error(path +
                     ": is not an ELF shared library (wrong magic); give the .so that TVM's "
                     "export_library wrote");
}

}  // namespace

Status check_shared_library(const std::string& path) {
  const Result<std::uint64_t> size = regular_file_size(path, "the library");
  if (!size) return size.error();
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return input_error(path +
                       ": cannot open the library: " + std::generic_category().message(errno));
  }
  Elf64_Ehdr header{};
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  const bool short_file = file.gcount() != static_cast<std::streamsize>(sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return not_a_library(path, file, reinterpret_cast<const char*>(header.e_ident));
  }
  const auto cut = [&] {
    return input_error(path + ": the library is cut (" + std::to_string(*size) +
                       " bytes are there, its headers promise more); copy or export it again");
  };
  if (short_file) return cut();
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_machine != kMachine) {
    return input_error(path + ": is a library for another machine (ELF machine " +
                       std::to_string(header.e_machine) + "); compile the model for " +
                       kMachineName);
  }
  if (header.e_type == ET_REL) {
    return input_error(path + ": is an object file; link it with `cc -shared -o model.so` first");
  }
  if (header.e_type != ET_DYN) return input_error(path + ": is an ELF file but no shared library");

  const auto inside = [&](std::uint64_t offset, std::uint64_t bytes) {
    return offset <= *size && bytes <= *size - offset;
  };
  if (header.e_phentsize != sizeof(Elf64_Phdr) ||
      !inside(header.e_phoff, std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr)) ||
      !inside(header.e_shoff, std::uint64_t{header.e_shnum} * header.e_shentsize)) {
    return cut();
  }
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    file.clear();
    file.seekg(static_cast<std::streamoff>(header.e_phoff + i * sizeof segment));
    file.read(reinterpret_cast<char*>(&segment), sizeof segment);
    if (!file || (segment.p_type == PT_LOAD && !inside(segment.p_offset, segment.p_filesz))) {
      return cut();
    }
  }
  return {};
}

Result<std::string> read_file(const std::string& path, const std::string& what) {
  const Result<std::uint64_t> size = regular_file_size(path, what);
  if (!size) return size.error();
  std::ifstream file(path, std::ios::binary);
  std::string bytes(*size, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file) {
    return input_error(path + ": cannot read " + what + ": " +
                       std::generic_category().message(errno));
  }
  return bytes;
}

}  // namespace opmeter::runtime
