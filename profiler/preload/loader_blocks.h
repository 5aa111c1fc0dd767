// SPDX-License-Identifier: Apache-2.0
// The one trace that the interposer's presence leaves in the program's own requests: glibc's loader
// sizes the table of thread-local blocks (the dtv, one calloc for each new thread stack) by the
// number of loaded modules with thread-local storage, and the interposer and its unwinder are two
// of them. Zone a.
#ifndef OPMETER_PROFILER_PRELOAD_LOADER_BLOCKS_H_
#define OPMETER_PROFILER_PRELOAD_LOADER_BLOCKS_H_

#include <cstddef>
#include <cstdint>

namespace opmeter::preload {

/// Finds the loader and counts our thread-local modules. Called once, from the constructor.
void loader_blocks_start();

/// The size that calloc(count, size), called from `caller`, would have had without us: smaller for
/// a dtv, else `bytes`.
uint64_t size_without_us(uint64_t bytes, size_t size, const void* caller);

}  // namespace opmeter::preload

#endif  // OPMETER_PROFILER_PRELOAD_LOADER_BLOCKS_H_
