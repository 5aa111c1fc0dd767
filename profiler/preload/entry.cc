// SPDX-License-Identifier: Apache-2.0
// How the library comes to life: its constructor (the linker marks the library to be initialised
// first, so that the allocations of other libraries' constructors are seen), the annotation table,
// and the two hooks of calls that change what recording stands on: code addresses, the clock. Zone
// a.
#include <dlfcn.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "profiler/preload/hooks.h"
#include "profiler/preload/loader_blocks.h"
#include "profiler/recorder/exec.h"
#include "profiler/recorder/stack_capture.h"
#include "profiler/recorder/unwinder_pipe.h"
#include "profiler/recorder/watch.h"

namespace {

/// File name of the library that the program's malloc comes from; null when that cannot be told.
const char* find_allocator() {
  void* symbol = nullptr;
  const auto next = opmeter::preload::real()->malloc;
  std::memcpy(&symbol, &next, sizeof symbol);
  Dl_info info;
  if (dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return nullptr;
  const char* slash = std::strrchr(info.dli_fname, '/');
  return slash == nullptr ? info.dli_fname : slash + 1;
}

/// Which library the program's malloc comes from: what a pool costs depends on it. Looked up once:
/// a forked child must not need the loader's lock for it.
void note_allocator() {
  static constinit const char* name = nullptr;
  const opm_api* api = opmeter::recorder::api_table();
  if (name == nullptr) name = find_allocator();
  if (api != nullptr && name != nullptr) api->info("allocator", name);
}

__attribute__((constructor(101))) void start_recording(int, char**, char** environment) {
  (void)opmeter::preload::real();
  opmeter::preload::loader_blocks_start();
  opmeter::preload::allocator_code_start();
  opmeter::recorder::start(environment, note_allocator);
}

}  // namespace

OPM_HOOK const opm_api* opm_api_v1() { return opmeter::recorder::api_table(); }

// Hooking dlclose changes nothing for its caller (unlike dlopen, whose search path depends on who
// calls); it tells when addresses begin to mean other code.
OPM_HOOK int dlclose(void* handle) {
  const opmeter::preload::RealFunctions* next = opmeter::preload::real();
  if (next == nullptr || next->dlclose == nullptr) return -1;
  const int result = next->dlclose(handle);
  if (result == 0) {
    opmeter::recorder::watch_module_unloaded();
    opmeter::recorder::module_unloaded();
  }
  return result;
}

OPM_HOOK int prctl(int option, ...) {
  va_list rest;
  va_start(rest, option);
  unsigned long values[4];
  for (unsigned long& value : values) value = va_arg(rest, unsigned long);
  va_end(rest);
  const opmeter::preload::RealFunctions* next = opmeter::preload::real();
  if (next == nullptr || next->prctl == nullptr) {
    errno = ENOSYS;
    return -1;
  }
  // Strict seccomp forbids the counter too, along with nearly every system call.
  const bool forbids = (option == PR_SET_SECCOMP && values[0] == SECCOMP_MODE_STRICT) ||
                       (option == PR_SET_TSC && values[0] == PR_TSC_SIGSEGV);
  if (forbids) opmeter::recorder::clock_forbidden();
  const int result = next->prctl(option, values[0], values[1], values[2], values[3]);
  if (forbids && result != 0) opmeter::recorder::clock_allowed();
  return result;
}

// For libunwind's own pipe, and only while it works for us: see unwinder_pipe.h.
OPM_HOOK int pipe2(int ends[2], int flags) {
  if (opmeter::recorder::inside_unwinder()) {
    return opmeter::recorder::open_unwinder_pipe(ends, flags);
  }
  return static_cast<int>(syscall(SYS_pipe2, ends, flags));
}
