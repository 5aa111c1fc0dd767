// SPDX-License-Identifier: Apache-2.0
// What the program does that ends its recording. Told by hooks. Zone a.
#ifndef OPMETER_PROFILER_RECORDER_EXEC_H_
#define OPMETER_PROFILER_RECORDER_EXEC_H_

namespace opmeter::recorder {

/// Around the real exec call: how many programs this process has started in its own place, so that
/// one which does not load the interposer is noticed.
void exec_begins(const char* path);
/// The real call has returned.
void exec_failed();

/// Before the program forbids itself the time stamp counter, by itself or by strict seccomp: to
/// read it would end the program. Nothing is recorded from here on.
void clock_forbidden();
/// The real call has failed.
void clock_allowed();

}  // namespace opmeter::recorder

#endif  // OPMETER_PROFILER_RECORDER_EXEC_H_
