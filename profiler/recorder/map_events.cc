// SPDX-License-Identifier: Apache-2.0
// Events of domain map: what the program asks of the kernel past its allocator. A mapping is a
// range and may go in parts; whoever reads the trace keeps the books of ranges. Zone a.
#include "profiler/recorder/internal.h"
#include "profiler/recorder/stack_capture.h"

namespace opmeter::recorder {

bool recording_maps() { return recording() && (g_session->flags & kMapCalls) != 0; }

void record_map_alloc(ThreadState* t, const void* hook_frame, AllocApi api, uint64_t address,
                      uint64_t bytes) {
  const KeepErrno keep;
  const uint64_t now = ticks_now();
  const uint32_t stack = (g_session->flags & kNoStacks) != 0 ? 0 : capture_stack(t, hook_frame);
  record_map(t, EventKind::kMapAlloc, api, now, address, bytes, stack);
}

void record_map_free(ThreadState* t, AllocApi api, uint64_t before, uint64_t address,
                     uint64_t bytes) {
  const KeepErrno keep;
  record_map(t, EventKind::kMapFree, api, before, address, bytes, 0);
}

}  // namespace opmeter::recorder
