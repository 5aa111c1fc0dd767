// SPDX-License-Identifier: Apache-2.0
// libunwind finds out whether an address can be read by writing a byte from there into a pipe that
// it keeps open. Two dangers for the program: its own descriptors would get other numbers, and once
// it has closed all descriptors and opened files, the byte would go into one of them. So the pipe
// gets numbers high up, and is looked at before libunwind may use it. Zone a.
#ifndef OPMETER_PROFILER_RECORDER_UNWINDER_PIPE_H_
#define OPMETER_PROFILER_RECORDER_UNWINDER_PIPE_H_

namespace opmeter::recorder {

/// pipe2 for libunwind.
int open_unwinder_pipe(int ends[2], int flags);

/// False when one of its descriptors is another file by now. Closed ones are no danger: libunwind
/// asks for a new pipe.
bool unwinder_pipe_is_safe();

}  // namespace opmeter::recorder

#endif  // OPMETER_PROFILER_RECORDER_UNWINDER_PIPE_H_
