// SPDX-License-Identifier: Apache-2.0
// --follow: each child process records into a session of its own. `opmeter record` keeps a few
// spare ones in the table of the main program's session; a child takes one, wherever in the tree it
// stands. Zone a.
#ifndef OPMETER_PROFILER_RECORDER_FOLLOW_H_
#define OPMETER_PROFILER_RECORDER_FOLLOW_H_

#include "profiler/recorder/recorder.h"

namespace opmeter::recorder {

/// Maps a session file. Null when it cannot be opened or is none of ours.
SessionHeader* map_session(const char* path);

/// Takes a spare session for the calling process. Waits a bounded time for one; null when there is
/// none, or when the recording process cannot be reached (another user, another /proc).
SessionHeader* claim_session(SessionHeader* root);

/// For an exec'ed image: the session that this process took before the exec, else a new one.
SessionHeader* session_of_this_process(SessionHeader* root);

/// Writes into the ring what the recording process may be too late to read from /proc: command and
/// parent.
void describe_child(ThreadState* t);

}  // namespace opmeter::recorder

#endif  // OPMETER_PROFILER_RECORDER_FOLLOW_H_
