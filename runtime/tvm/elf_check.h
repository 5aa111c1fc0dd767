// SPDX-License-Identifier: Apache-2.0
// elf_check.h: looks at a file before dlopen does: the dynamic loader maps a cut library without
// complaint and the process dies later on a bus error, and its messages do not say what a user
// should do about a tar, an object file or JSON in the wrong place.
#ifndef OPMETER_RUNTIME_TVM_ELF_CHECK_H_
#define OPMETER_RUNTIME_TVM_ELF_CHECK_H_

#include <string>

#include "opmeter/result.h"

namespace opmeter::runtime {

/// Ok when `path` is a whole ELF shared library for this machine (kInput otherwise).
Status check_shared_library(const std::string& path);

/// A whole file as bytes. kInput names the file and the system's reason.
Result<std::string> read_file(const std::string& path, const std::string& what);

}  // namespace opmeter::runtime

#endif  // OPMETER_RUNTIME_TVM_ELF_CHECK_H_
