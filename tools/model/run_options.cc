// SPDX-License-Identifier: Apache-2.0
// See run_options.h.
#include "tools/model/run_options.h"

#include <fmt/format.h>

#include "runtime/executor/executor.h"
#include "tools/cli/failure.h"

namespace opmeter::tools {

const char kRunNotes[] =
    R"(MODEL is a factory library (model.so), or --graph, --params and --lib together.

How runs are counted: without --warmup there are N runs in all; run 1 is the
first run, and the end of warm-up is found in what follows. With --warmup W
there are W runs that count as warm-up, the first run among them, and then N
runs that count as steady state. Latencies are those of the steady runs.

Inputs that --input does not give are random numbers in [0, 1) from --seed
(floating point) or zeros (integers), and a note says so.

Exit codes: 0 ok; 1 an output differs from --expect; 2 an option, input, shape
or device that does not exist; 3 a file is missing or damaged, or an operator
failed; 5 this build or machine cannot run it (another device).
)";

void add_run_options(Arguments& arguments, RunOptions& options) {
  arguments.text("MODEL", options.model, "", "factory library made by TVM");
  arguments.text("--graph", options.graph, "G.json", "graph of a model in three files");
  arguments.text("--params", options.params, "P.params", "its parameters");
  arguments.text("--lib", options.library, "L.so", "its operators");
  arguments.text("--device", options.device, "DEVICE", "cpu, cuda[:N] or opencl[:N] (default cpu)");
  arguments.choice("--pool", options.pool, "POOL", {"naive", "caching"},
                   "naive or caching (default caching)");
  arguments.number("--threads", options.threads, "N", 1, runtime::kMaxThreads,
                   "threads of the operators (default 1)");
  arguments.number("--warmup", options.warmup, "W", 0,
                   "this many runs are warm-up (default: found)");
  arguments.number("--runs", options.runs, "N", 1, "runs (default 100)");
  arguments.number("--seed", options.seed, "S", 0, "seed of random inputs (default 0)");
  arguments.list("--input", options.inputs, "NAME=FILE.npy", "an input; may be repeated");
  arguments.text("--output", options.output_dir, "DIR", "write outputs to DIR/output.I.npy");
  arguments.list("--expect", options.expects, "I=FILE.npy", "compare output I; may be repeated");
  arguments.number("--rtol", options.rtol, "R", "relative tolerance of --expect (default 1e-5)");
  arguments.number("--atol", options.atol, "A", "absolute tolerance of --expect (default 1e-6)");
}

void check_run_options(const Arguments& arguments, const RunOptions& options) {
  const bool three = !options.graph.empty() || !options.params.empty() || !options.library.empty();
  if (options.model.empty() && !three) arguments.fail("name a MODEL (model.so)");
  if (!options.model.empty() && three) {
    arguments.fail(
        fmt::format("'{}' and --graph, --params, --lib name two models; give one", options.model));
  }
  if (three && (options.graph.empty() || options.library.empty())) {
    arguments.fail("a model in three files needs --graph, --lib and, if it has any, --params");
  }
  const std::string& model = options.model;
  if (model.rfind("builtin:", 0) == 0) {
    throw Failure(input_error(model + ": this version has no built-in models; give a model.so"));
  }
  if (model.size() > 4 && model.substr(model.size() - 4) == ".tar") {
    throw Failure(input_error(
        model + ": this version does not load packages; unpack it and use --graph --params --lib"));
  }
}

std::vector<std::string> to_words(const RunOptions& options) {
  std::vector<std::string> words;
  const auto add = [&words](const char* option, const std::string& value) {
    if (!value.empty()) words.push_back(fmt::format("{}={}", option, value));
  };
  add("--graph", options.graph);
  add("--params", options.params);
  add("--lib", options.library);
  // What is as by default stays out: the words become the command of a report.
  const RunOptions defaults;
  if (options.device != defaults.device) add("--device", options.device);
  add("--pool", options.pool);
  if (options.threads != defaults.threads) add("--threads", std::to_string(options.threads));
  if (options.warmup) add("--warmup", std::to_string(*options.warmup));
  add("--runs", std::to_string(options.runs));
  if (options.seed != defaults.seed) add("--seed", std::to_string(options.seed));
  for (const std::string& input : options.inputs) add("--input", input);
  for (const std::string& expect : options.expects) add("--expect", expect);
  if (options.rtol != defaults.rtol) add("--rtol", fmt::format("{}", options.rtol));
  if (options.atol != defaults.atol) add("--atol", fmt::format("{}", options.atol));
  add("--output", options.output_dir);
  if (!options.model.empty()) {
    words.emplace_back("--");
    words.push_back(options.model);
  }
  return words;
}

std::pair<std::string, std::string> split_assignment(const std::string& text,
                                                     const std::string& option,
                                                     const std::string& form) {
  // Names may hold '=', as file names may; the last one before ".npy" would be a guess, so: first.
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw Failure(usage_error(fmt::format("{} {}: write {} {}", option, text, option, form)));
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

}  // namespace opmeter::tools
