// SPDX-License-Identifier: Apache-2.0
// Told by the exec hooks, around the real call: how many programs this process has started in its
// own place, so that one which does not load the interposer is noticed. Zone a.
#ifndef OPMETER_PROFILER_RECORDER_EXEC_H_
#define OPMETER_PROFILER_RECORDER_EXEC_H_

namespace opmeter::recorder {

void exec_begins(const char* path);
/// The real call has returned.
void exec_failed();

}  // namespace opmeter::recorder

#endif  // OPMETER_PROFILER_RECORDER_EXEC_H_
