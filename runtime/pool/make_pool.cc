// SPDX-License-Identifier: Apache-2.0
// make_pool.cc: the one place that knows the pools by name.
#include "opmeter/opmeter.h"
#include "runtime/pool/caching_pool.h"
#include "runtime/pool/naive_pool.h"
#include "runtime/pool/tracing_pool.h"
#include "runtime/tvm/text.h"

namespace opmeter::runtime {

Result<std::unique_ptr<Pool>> make_pool(std::string_view kind, Device& device, Slot slots) {
  std::unique_ptr<Pool> pool;
  if (kind == "naive") {
    pool = std::make_unique<NaivePool>(device, slots);
  } else if (kind == "caching") {
    pool = std::make_unique<CachingPool>(device, slots);
  } else {
    return usage_error("unknown pool \"" + one_line(kind, 60) + "\"; use naive or caching");
  }
  if (opm_enabled()) pool = std::make_unique<TracingPool>(std::move(pool));
  return pool;
}

}  // namespace opmeter::runtime
