// SPDX-License-Identifier: Apache-2.0
// What must hold in every complete report (AnalyzeOptions::all): the views add up to the same
// totals. A pure checker for tests; it shares no code with the folding it judges.
#ifndef OPMETER_PROFILER_ANALYZE_INVARIANTS_H_
#define OPMETER_PROFILER_ANALYZE_INVARIANTS_H_

#include <string>
#include <vector>

#include "reports/model.h"

namespace opmeter::analyze {

/// One sentence for each invariant that the report violates; empty when all hold. Per domain: total
/// = sum over phases = over ops (with pseudo-ops) = over sizes = over stacks = over threads; first
/// run and steady sums agree with the phases; distributions ascend; backing is part of calls.
std::vector<std::string> check_invariants(const reports::Report& report);

}  // namespace opmeter::analyze

#endif  // OPMETER_PROFILER_ANALYZE_INVARIANTS_H_
