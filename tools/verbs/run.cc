// SPDX-License-Identifier: Apache-2.0
// `opmeter run`: executes a model and prints what came out and how long it took. It is also the
// program that `opmeter profile` records, so its loop allocates nothing of its own.
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "opmeter/opmeter.h"
#include "profiler/analyze/dist.h"
#include "profiler/analyze/warmup.h"
#include "reports/json.h"
#include "runtime/executor/executor.h"
#include "runtime/executor/model.h"
#include "runtime/npy.h"
#include "runtime/tvm/dtype.h"
#include "tools/cli/arguments.h"
#include "tools/cli/console.h"
#include "tools/cli/failure.h"
#include "tools/cli/verb.h"
#include "tools/model/inputs.h"
#include "tools/model/outputs.h"
#include "tools/model/run_options.h"

namespace opmeter::tools {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

uint64_t ns_between(Clock::time_point begin, Clock::time_point end) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count());
}

/// "cpu", "cuda:1" to a device. Throws Failure for a word that is no device.
DLDevice parse_device(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  int ordinal = 0;
  bool valid = true;
  if (colon != std::string::npos) {
    const char* const begin = text.data() + colon + 1;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(begin, end, ordinal);
    valid = begin != end && rest == end && error == std::errc{} && ordinal >= 0;
  }
  if (valid && kind == "cpu") return {kDLCPU, ordinal};
  if (valid && kind == "cuda") return {kDLCUDA, ordinal};
  if (valid && kind == "opencl") return {kDLOpenCL, ordinal};
  throw Failure(usage_error(fmt::format("--device {}: write cpu, cuda[:N] or opencl[:N]", text)));
}

/// Checks before anything is loaded: what the user can put right at once.
DLDevice check_device(const std::string& text) {
  const DLDevice device = parse_device(text);
  if (device.device_type != kDLCPU) {
    throw Failure(unavailable_error(fmt::format(
        "--device {}: this build runs models on the CPU only; use --device cpu", text)));
  }
  if (device.device_id != 0) {
    throw Failure(usage_error(fmt::format("--device {}: the only CPU device is cpu:0", text)));
  }
  return device;
}

struct Timing {
  std::vector<uint64_t> run_ns;  ///< every run in order
  uint64_t warmup = 0;           ///< runs that are not steady, the first one included
  bool warmup_detected = false;
};

/// The measured loop: no allocation between the first and the last run.
Timing execute(runtime::Executor& executor, const RunOptions& options) {
  const uint64_t given_warmup = options.warmup.value_or(0);
  Timing timing;
  timing.run_ns.resize(given_warmup + options.runs);
  if (options.warmup) opm_phase(given_warmup > 0 ? OPM_PHASE_WARMUP : OPM_PHASE_STEADY);
  for (uint64_t i = 0; i < timing.run_ns.size(); ++i) {
    if (options.warmup && i == given_warmup) opm_phase(OPM_PHASE_STEADY);
    const Clock::time_point begin = Clock::now();
    const Status ran = executor.run();
    timing.run_ns[i] = ns_between(begin, Clock::now());
    if (!ran) throw Failure(ran.error());
  }
  if (options.warmup) {
    timing.warmup = std::max<uint64_t>(given_warmup, 1);
  } else {
    std::vector<analyze::WarmupSample> later;
    for (size_t i = 1; i < timing.run_ns.size(); ++i) later.push_back({timing.run_ns[i], 0});
    timing.warmup = 1 + analyze::detect_warmup(later).warmup_runs;
    timing.warmup_detected = true;
  }
  return timing;
}

struct Output {
  std::string shape, dtype, sha256;
  std::optional<Comparison> comparison;
  bool ok = true;
};

/// Checksums, files and comparisons of all outputs. Throws Failure.
std::vector<Output> look_at_outputs(const runtime::Executor& executor, const RunOptions& options,
                                    const std::vector<Expectation>& expectations) {
  std::vector<Output> outputs;
  if (!options.output_dir.empty()) {
    std::error_code error;
    fs::create_directories(options.output_dir, error);
    if (error) {
      throw Failure(input_error(fmt::format("cannot create {}: {}; name another with --output",
                                            options.output_dir, error.message())));
    }
  }
  for (uint32_t i = 0; i < executor.outputs().size(); ++i) {
    const DLTensor tensor = value_or_fail(executor.output(i));
    Output output{.shape = runtime::shape_name(runtime::extents(tensor)),
                  .dtype = runtime::dtype_name(tensor.dtype),
                  .sha256 = sha256(tensor),
                  .comparison = std::nullopt};
    if (!options.output_dir.empty()) {
      const fs::path file = fs::path(options.output_dir) / fmt::format("output.{}.npy", i);
      check(runtime::write_npy(file.string(), tensor));
    }
    for (const Expectation& expectation : expectations) {
      if (expectation.output != i) continue;
      output.comparison = compare(tensor, expectation.tensor.view(), options.rtol, options.atol);
      if (!output.comparison) {
        throw Failure(usage_error(fmt::format(
            "--expect {}: outputs of dtype {} cannot be compared; leave it out", i, output.dtype)));
      }
      output.ok = output.comparison->outside == 0;
    }
    outputs.push_back(std::move(output));
  }
  return outputs;
}

struct RunResult {
  const runtime::Executor& executor;
  const RunOptions& options;
  const std::vector<InputSource>& inputs;
  const Timing& timing;
  const std::vector<Output>& outputs;
  uint64_t load_ns;
  reports::Dist latency;
};

std::string as_json(const RunResult& result) {
  nlohmann::ordered_json json;
  json["schema"] = "opmeter.run/1";
  json["model"] = result.executor.model().source;
  json["pool"] = result.options.pool;
  json["device"] = runtime::device_name(result.executor.options().device);
  json["threads"] = result.options.threads;
  json["inputs"] = nlohmann::ordered_json::array();
  for (const InputSource& input : result.inputs) {
    json["inputs"].push_back({{"name", input.name},
                              {"shape", input.shape},
                              {"dtype", input.dtype},
                              {"source", input.source}});
  }
  json["outputs"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < result.outputs.size(); ++i) {
    const Output& output = result.outputs[i];
    nlohmann::ordered_json entry = {{"index", i},
                                    {"shape", result.executor.outputs()[i].shape},
                                    {"dtype", output.dtype},
                                    {"sha256", output.sha256}};
    if (output.comparison) {
      entry["max_abs_diff"] = output.comparison->max_abs_diff;  // infinity becomes null
      entry["ok"] = output.ok;
    }
    json["outputs"].push_back(std::move(entry));
  }
  json["runs"] = {{"count", result.timing.run_ns.size()},
                  {"warmup", result.timing.warmup - 1},
                  {"warmup_detected", result.timing.warmup_detected}};
  json["load_ns"] = result.load_ns;
  json["first_run_ns"] = result.timing.run_ns.front();
  json["latency_ns"] = reports::to_json_value(result.latency);
  return reports::dump_json(json);
}

std::string number_or_dash(const std::optional<double>& ns) { return ns ? human_time(*ns) : "-"; }

std::string as_text(const RunResult& result) {
  const runtime::Executor& executor = result.executor;
  std::string text =
      fmt::format("{}  pool {}  {}  {} thread{}\n", executor.model().name, result.options.pool,
                  runtime::device_name(executor.options().device), result.options.threads,
                  result.options.threads == 1 ? "" : "s");
  for (size_t i = 0; i < result.outputs.size(); ++i) {
    const Output& output = result.outputs[i];
    text += fmt::format("output {}  {} {}\n  sha256 {}\n", i, output.dtype, output.shape,
                        output.sha256);
    if (output.comparison) {
      text += fmt::format("  {}: {} of {} elements outside, largest difference {:.3g}\n",
                          output.ok ? "as expected" : "NOT as expected", output.comparison->outside,
                          output.comparison->elements, output.comparison->max_abs_diff);
    }
  }
  const reports::Dist& d = result.latency;
  text += fmt::format("load {}, first run {}", human_time(static_cast<double>(result.load_ns)),
                      human_time(static_cast<double>(result.timing.run_ns.front())));
  if (result.timing.warmup > 1) {
    text += fmt::format(", {} more run{} of warm-up", result.timing.warmup - 1,
                        result.timing.warmup == 2 ? "" : "s");
  }
  text += fmt::format("\nlatency of {} steady run{}: min {}  p50 {}  p90 {}\n", d.n,
                      d.n == 1 ? "" : "s", number_or_dash(d.min), number_or_dash(d.p50),
                      number_or_dash(d.p90));
  text += fmt::format("  p99 {}  max {}  mean {}\n", number_or_dash(d.p99), number_or_dash(d.max),
                      number_or_dash(d.mean));
  return text;
}

}  // namespace

int run_main(const VerbArgs& args) {
  CommonOptions common;
  RunOptions options;
  Arguments arguments("run", "run MODEL [options]",
                      "Executes a model and prints checksums of its outputs, and its latency.");
  add_run_options(arguments, options);
  arguments.add_common(common, kJson);
  arguments.set_notes(kRunNotes);
  if (!arguments.parse(args)) return kExitOk;
  check_run_options(arguments, options);

  const DLDevice device = check_device(options.device);
  const runtime::ModelPtr model = value_or_fail(
      options.model.empty()
          ? runtime::load_model(runtime::ModelFiles{options.graph, options.params, options.library})
          : runtime::load_model(options.model));
  const std::unique_ptr<runtime::Executor> executor = value_or_fail(runtime::Executor::create(
      model, {.pool = options.pool, .threads = options.threads, .device = device}));
  if (common.verbose) {
    say(fmt::format("{}: {}, {} operators, {} of parameters", model->source, model->format,
                    executor->ops().size(), human_bytes(model->param_bytes())));
  }
  const std::vector<Expectation> expectations = read_expectations(*executor, options.expects);
  const std::vector<InputSource> inputs = set_inputs(*executor, options.inputs, options.seed);

  const Timing timing = execute(*executor, options);

  const std::vector<Output> outputs = look_at_outputs(*executor, options, expectations);
  reports::Dist latency;
  if (timing.warmup < timing.run_ns.size()) {
    latency = analyze::summarize(std::vector<uint64_t>(
        timing.run_ns.begin() + static_cast<std::ptrdiff_t>(timing.warmup), timing.run_ns.end()));
  }
  if (!common.quiet) {
    for (const InputSource& input : inputs) {
      if (!input.made_up) continue;
      say(fmt::format(
          "input '{}' was not given: {}", input.name,
          input.source == "random" ? fmt::format("random, seed {}", options.seed) : "zeros"));
    }
  }
  const RunResult result{
      *executor, options, inputs, timing, outputs, model->load_ns + executor->create_ns(), latency};
  write_result(common.json ? as_json(result) : as_text(result), "", false);

  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].ok) continue;
    const Comparison& comparison = *outputs[i].comparison;
    throw Failure(kExitGateFailed,
                  fmt::format("output {} is not as expected: {} of {} elements outside rtol {:g}, "
                              "atol {:g}, largest difference {:.3g}",
                              i, comparison.outside, comparison.elements, options.rtol,
                              options.atol, comparison.max_abs_diff));
  }
  return kExitOk;
}

}  // namespace opmeter::tools
