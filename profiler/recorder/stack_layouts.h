// SPDX-License-Identifier: Apache-2.0
// How stacks that start at the same place were laid out, so that the next one need not be walked.
//
// A walk (stack_walk.h) is decided by the unwind rule of each frame and by a few words: where the
// next return address lies follows from them. So two stacks with the same program counter and stack
// pointer at the start, whose frames have the same rules and whose deciding words are equal, have
// their return addresses in the same places, whatever these are. A layout is those places, rules
// and words. Looking at it means reading the return addresses, independently of each other, and
// comparing rules: the walk's own answer, at a fraction of its latency, for all call paths that
// differ only in where they were called from.
//
// Nothing is read that the walk would not read: places are looked at in the walk's order, and what
// lies on a page not yet touched only after all before it proved right. Zone a.
#ifndef OPMETER_PROFILER_RECORDER_STACK_LAYOUTS_H_
#define OPMETER_PROFILER_RECORDER_STACK_LAYOUTS_H_

#include <cstdint>

#include "profiler/recorder/recorder.h"

namespace opmeter::recorder {

/// The interned stack that starts here, if a known layout fits; else null: walk it, then tell.
StackNode* look_at_layouts(ThreadState* t, const WalkStart& start, uint32_t epoch);

/// Tells of a walk that was complete: `node` is what it found, t->frames and `log` what it read.
void remember_layout(ThreadState* t, const WalkStart& start, uint32_t epoch, const WalkLog& log,
                     StackNode* node);

}  // namespace opmeter::recorder

#endif  // OPMETER_PROFILER_RECORDER_STACK_LAYOUTS_H_
