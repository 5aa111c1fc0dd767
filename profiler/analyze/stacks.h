// SPDX-License-Identifier: Apache-2.0
// Gives the stacks of a report their frames: module, function, file and line, inlined frames
// expanded, Opmeter's own innermost frames removed.
#ifndef OPMETER_PROFILER_ANALYZE_STACKS_H_
#define OPMETER_PROFILER_ANALYZE_STACKS_H_

#include <string>
#include <vector>

#include "profiler/analyze/analyze.h"
#include "profiler/trace/event.h"
#include "reports/model.h"

namespace opmeter::analyze {

/// Fills Stack::frames and Stack::cut of every stack, quality.unresolved_frames (frames without a
/// function) and quality.symbol_problems.
void resolve_stacks(const trace::Definitions& definitions, const AnalyzeOptions& options,
                    reports::Report& report);

/// True for frames that belong to the profiler: its library, the annotation calls, the pool
/// decorator.
bool is_own_frame(const reports::Frame& frame);

/// Why known code allocates, from the frames of a stack without Opmeter's own: "thread_team" (a
/// runtime's thread pool), "thread_local" (a thread's own storage), "packed_call" (TVM's calling
/// convention); "" when unknown.
std::string cause_of(const std::vector<reports::Frame>& frames);

}  // namespace opmeter::analyze

#endif  // OPMETER_PROFILER_ANALYZE_STACKS_H_
