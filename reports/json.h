// SPDX-License-Identifier: Apache-2.0
// Report and TraceInfo as JSON: "opmeter.report/1" (docs/report.schema.json) and "opmeter.info/1".
// Keys in a fixed order, numbers exact, absent percentiles null.
#ifndef OPMETER_REPORTS_JSON_H_
#define OPMETER_REPORTS_JSON_H_

#include <nlohmann/json.hpp>
#include <string>

#include "reports/info.h"
#include "reports/model.h"

namespace opmeter::reports {

nlohmann::ordered_json to_json_value(const Report& report);
nlohmann::ordered_json to_json_value(const TraceInfo& info);
nlohmann::ordered_json to_json_value(const Dist& dist);
nlohmann::ordered_json to_json_value(const Counts& counts);
nlohmann::ordered_json to_json_value(const PerRun& per_run);

/// One document, indented by two, with a final newline. Bytes that are not UTF-8 (paths, names of
/// threads) become U+FFFD.
std::string to_json(const Report& report);
std::string to_json(const TraceInfo& info);
std::string dump_json(const nlohmann::ordered_json& value);

}  // namespace opmeter::reports

#endif  // OPMETER_REPORTS_JSON_H_
