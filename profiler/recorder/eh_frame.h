// SPDX-License-Identifier: Apache-2.0
// Reads the call frame information of the module that holds an address: binary search in
// .eh_frame_hdr, then the CIE and FDE programs up to the address (DWARF 5 section 6.4, LSB core
// "Exception Frames"). Zone a; x86-64 only.
#ifndef OPMETER_PROFILER_RECORDER_EH_FRAME_H_
#define OPMETER_PROFILER_RECORDER_EH_FRAME_H_

#include <cstdint>

#include "profiler/recorder/unwind_rules.h"

namespace opmeter::recorder {

/// The rule of a frame whose program counter is `pc`, looked up at `address` (`pc` - 1 for a return
/// address, so that a call that ends its function is found in it). kUnknown when no module or no
/// FDE covers it.
UnwindRule read_unwind_rule(uint64_t pc, uint64_t address);

}  // namespace opmeter::recorder

#endif  // OPMETER_PROFILER_RECORDER_EH_FRAME_H_
