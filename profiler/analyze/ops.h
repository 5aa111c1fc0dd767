// SPDX-License-Identifier: Apache-2.0
// The rows of the report's ops: what the slots of one op add up to, over all graphs and phases.
// Part of fold.
#ifndef OPMETER_PROFILER_ANALYZE_OPS_H_
#define OPMETER_PROFILER_ANALYZE_OPS_H_

#include <string>
#include <unordered_map>
#include <vector>

#include "profiler/analyze/ledger.h"
#include "profiler/trace/event.h"
#include "reports/model.h"

namespace opmeter::analyze {

/// Calls and bytes of a set of runs, from groups of them.
class PerRunSum {
 public:
  void add(const RunGroup& group);
  /// Over `runs` runs: those never added had no calls.
  reports::PerRun per_run(uint64_t runs) const;

 private:
  RunGroup all_;
};

/// Names of ops, pseudo-ops included: "(executor)", "(outside)", "(unnamed)", "(op 7)" when the
/// trace lost the definition of op 7.
class OpNames {
 public:
  explicit OpNames(const trace::Definitions& definitions) : definitions_(definitions) {}
  std::string of(uint32_t op) const;

 private:
  const trace::Definitions& definitions_;
};

/// Rows by op id, in the report's order: by graph and execution order, pseudo-ops last.
class OpRows {
 public:
  explicit OpRows(std::vector<std::pair<uint32_t, reports::Op>> rows);
  reports::Op& at(uint32_t op) { return rows_[by_op_.at(op)].second; }
  template <typename Visit>
  void each(Visit&& visit) {
    for (auto& [op, row] : rows_) visit(row);
  }
  std::vector<reports::Op> take();

 private:
  std::vector<std::pair<uint32_t, reports::Op>> rows_;
  std::unordered_map<uint32_t, size_t> by_op_;
};

/// Every declared op and every op that was pushed; "(outside)" always, "(executor)" when there were
/// runs. Latencies are those of steady runs, or of all spans when the trace has no runs at all.
OpRows fold_ops(const Ledger& ledger, const trace::Definitions& definitions,
                const std::vector<PhaseTable>& tables, const OpNames& names,
                const reports::Runs& runs);

/// "2026-11-30T23:59:59Z" of the first clock reading, or what the recorder wrote; "" when unknown.
std::string started_at(const trace::Definitions& definitions);

/// DLPack's device type as a word: "cpu:0", "cuda:1", ...
std::string device_name(int32_t device_type, int32_t device_id);
/// DLPack's dtype as numpy would say it: "float32", "int8", "bool".
std::string dtype_name(uint8_t code, uint8_t bits, uint16_t lanes);

}  // namespace opmeter::analyze

#endif  // OPMETER_PROFILER_ANALYZE_OPS_H_
