// SPDX-License-Identifier: Apache-2.0
// How the library comes to life: its constructor (the linker marks the library to be initialised
// first, so that the allocations of other libraries' constructors are seen), the annotation table,
// and the one loader hook. Zone a.
#include "profiler/preload/hooks.h"
#include "profiler/preload/loader_blocks.h"

namespace {

__attribute__((constructor(101))) void start_recording(int, char**, char** environment) {
  (void)opmeter::preload::real();
  opmeter::preload::loader_blocks_start();
  (void)opmeter::recorder::start(environment);
}

}  // namespace

OPM_HOOK const opm_api* opm_api_v1() { return opmeter::recorder::api_table(); }

// Hooking dlclose changes nothing for its caller (unlike dlopen, whose search path depends on who
// calls); it tells when addresses begin to mean other code.
OPM_HOOK int dlclose(void* handle) {
  const opmeter::preload::RealFunctions* next = opmeter::preload::real();
  if (next == nullptr || next->dlclose == nullptr) return -1;
  const int result = next->dlclose(handle);
  if (result == 0) opmeter::recorder::module_unloaded();
  return result;
}
