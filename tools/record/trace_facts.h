// SPDX-License-Identifier: Apache-2.0
// What a trace file says about its process beside events: names, versions, the machine.
#ifndef OPMETER_TOOLS_RECORD_TRACE_FACTS_H_
#define OPMETER_TOOLS_RECORD_TRACE_FACTS_H_

#include <sys/types.h>

#include <string>

#include "profiler/recorder/drain.h"
#include "profiler/trace/writer.h"
#include "tools/record/record.h"

namespace opmeter::tools {

/// The output file's name: "%p" stands for the process id; "" = opmeter.%p.opm.
std::string expand_output(const std::string& wanted, pid_t pid);

/// Time resolution and bound of a new trace file.
void set_up_writer(trace::TraceWriter& writer, const RecordOptions& options, double ns_per_tick);

/// Of the machine, of Opmeter and of how it was asked to record.
void define_facts(trace::TraceWriter& writer, const RecordOptions& options, pid_t pid,
                  double ns_per_tick);

/// "" when there is no such file.
std::string read_first_line(const std::string& path);

/// Threads may be named after their first allocation: looks again, through /proc.
void refresh_thread_names(recorder::Drain& drain, pid_t pid);

}  // namespace opmeter::tools

#endif  // OPMETER_TOOLS_RECORD_TRACE_FACTS_H_
