// SPDX-License-Identifier: Apache-2.0
// Which executables and libraries are mapped where, and since which unload. Zone a.
#ifndef OPMETER_PROFILER_RECORDER_MODULES_H_
#define OPMETER_PROFILER_RECORDER_MODULES_H_

#include "profiler/recorder/recorder.h"

namespace opmeter::recorder {

bool modules_start();

/// Around a fork. Before: keeps other threads from being in the loader's list for us, because a
/// child inherits the loader's lock as it is; waits a bounded time for one that is.
void modules_before_fork();
void modules_after_fork();
/// In a child that records: defines anew, in its own session, what the parent knew. Does not ask
/// the loader: a thread of the parent may have been in its list, and the lock on that is held for
/// ever here. It is asked again once the child has loaded or unloaded something itself.
void modules_restart(ThreadState* t);

/// For a stack never seen: as modules_refresh, but a forked child asks the loader only when a frame
/// lies in a module that the parent did not know.
void modules_refresh_for(ThreadState* t, void* const* frames, uint32_t count);

/// Defines modules that appeared since the last call. When one disappeared, the unload epoch of the
/// session grows: an address may mean other code from now on. Skips when another thread is at it
/// (never waits: the loader's lock is taken inside). Cheap when nothing was loaded or unloaded.
void modules_refresh(ThreadState* t);

/// True for an address inside libunwind: what it asks of malloc while it walks for us is not the
/// program's.
bool is_unwinder_code(const void* address);

/// True for an address inside this library.
bool is_own_code(const void* address);

}  // namespace opmeter::recorder

#endif  // OPMETER_PROFILER_RECORDER_MODULES_H_
