// SPDX-License-Identifier: Apache-2.0
// Does recording work here? One child process answers for the interposer, the unwinder and the
// symbols: it allocates a block of a telling size below functions of known names.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "profiler/symbolize/symbolizer.h"
#include "profiler/trace/reader.h"
#include "tools/cli/failure.h"
#include "tools/doctor/checks.h"
#include "tools/record/record.h"

namespace opmeter::tools {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kProbeBytes = 123457;  // a prime that nothing else asks for
constexpr int kProbeDepth = 3;

/// Keeps calls calls and the block allocated.
[[gnu::noinline]] void use(void* block) { asm volatile("" : : "r"(block) : "memory"); }

[[gnu::noinline]] void doctor_probe_inner() {
  void* block = std::malloc(kProbeBytes);
  use(block);
  std::free(block);
}
[[gnu::noinline]] void doctor_probe_middle() {
  doctor_probe_inner();
  use(nullptr);  // no tail call
}
[[gnu::noinline]] void doctor_probe_outer() {
  doctor_probe_middle();
  use(nullptr);
}

/// A trace in a directory of its own, gone at the end.
class ScratchTrace {
 public:
  ScratchTrace() {
    std::error_code error;
    std::string name = (fs::temp_directory_path(error) / "opmeter-doctor-XXXXXX").string();
    if (error || mkdtemp(name.data()) == nullptr) {
      throw Failure(unavailable_error("no directory for temporary files; set TMPDIR"));
    }
    directory_ = name;
  }
  ~ScratchTrace() {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }
  ScratchTrace(const ScratchTrace&) = delete;
  ScratchTrace& operator=(const ScratchTrace&) = delete;
  std::string path() const { return (directory_ / "probe.opm").string(); }

 private:
  fs::path directory_;
};

/// The functions of a stack, innermost first, with what is known of where.
std::vector<symbolize::Symbol> symbols_of(const trace::Definitions& definitions, uint32_t id) {
  std::vector<symbolize::Symbol> symbols;
  const auto stack = definitions.stacks.find(id);
  if (stack == definitions.stacks.end()) return symbols;
  symbolize::Symbolizer symbolizer;
  for (const uint64_t address : stack->second.frames) {
    const trace::ModuleInfo* module = definitions.module_at(address - 1, stack->second.epoch);
    if (module == nullptr) {
      symbols.emplace_back();
      continue;
    }
    for (const symbolize::Symbol& symbol :
         symbolizer.resolve(*module, address - 1 - module->bias)) {
      symbols.push_back(symbol);
    }
  }
  return symbols;
}

Check check_unwinder(const trace::Definitions& definitions, uint32_t id,
                     const std::vector<symbolize::Symbol>& symbols) {
  Check check{.name = "unwinder", .status = CheckStatus::kOk, .detail = "", .fix = ""};
  const auto stack = definitions.stacks.find(id);
  const size_t frames = stack == definitions.stacks.end() ? 0 : stack->second.frames.size();
  const bool cut = frames != 0 && stack->second.cut;
  size_t depth = 0;
  for (const symbolize::Symbol& symbol : symbols) {
    depth += symbol.function.find("doctor_probe_") != std::string::npos ? 1 : 0;
  }
  // Names may be missing (a stripped build); then the number of frames must do.
  if (cut || frames <= kProbeDepth || (depth != 0 && depth < kProbeDepth)) {
    check.status = CheckStatus::kMissing;
    check.fix = "report this machine's architecture and compiler: stacks are incomplete here";
  }
  check.detail = fmt::format("{} frames{}, {} of the {} known functions in them", frames,
                             cut ? ", cut" : "", depth, kProbeDepth);
  return check;
}

Check check_symbols(const std::vector<symbolize::Symbol>& symbols) {
  Check check{.name = "symbols", .status = CheckStatus::kOk, .detail = "", .fix = ""};
  for (const symbolize::Symbol& symbol : symbols) {
    if (symbol.function.find("doctor_probe_inner") == std::string::npos) continue;
    if (symbol.line != 0) {
      check.detail = fmt::format("functions, files and lines ({}:{})",
                                 fs::path(symbol.file).filename().string(), symbol.line);
    } else {
      check.status = CheckStatus::kWarn;
      check.detail = "functions, but no lines: this build has no debug information";
      check.fix = "build with cmake --preset release, or your program with -g, to see lines";
    }
    return check;
  }
  check.status = CheckStatus::kWarn;
  check.detail = "this executable is stripped, so its own functions have no names";
  check.fix = "keep the symbols of what you profile (no strip, or separate debug files)";
  return check;
}

}  // namespace

int probe_main() {
  doctor_probe_outer();
  return kExitOk;
}

std::vector<Check> recording_checks() {
  Check preload{.name = "preload", .status = CheckStatus::kMissing, .detail = "", .fix = ""};
  const Result<std::string> library = find_preload_library();
  if (!library) {
    preload.detail = library.error().message;
    preload.fix = "build the target opmeter_preload, or set OPMETER_PRELOAD";
    return {preload};
  }
  const ScratchTrace scratch;
  RecordOptions options;
  options.command = {fs::read_symlink("/proc/self/exe").string(), "doctor", "--probe"};
  options.output = scratch.path();
  options.buffer_bytes = 4 << 20;
  options.discard_stdout = true;
  const Result<RecordOutcome> outcome = record(options);
  if (!outcome) {
    preload.detail = outcome.error().message;
    preload.fix = "see the message; containers may limit shared memory";
    return {preload};
  }
  if (!outcome->recorded || outcome->exit_code != 0) {
    preload.detail = outcome->note.empty()
                         ? fmt::format("a child under it exited with {}", outcome->exit_code)
                         : outcome->note;
    preload.fix = "the loader must honour LD_PRELOAD and /proc must be mounted";
    return {preload};
  }
  const trace::TraceReader reader = value_or_fail(trace::TraceReader::open(scratch.path()));
  trace::EventStream events = reader.events();
  uint32_t stack = 0;
  bool seen = false;
  for (trace::Event event; events.next(event);) {
    if (event.kind != trace::EventKind::kAlloc || event.bytes != kProbeBytes) continue;
    seen = true;
    stack = event.stack;
  }
  if (!seen || !reader.quality().complete) {
    preload.detail = "a child was recorded, but not completely";
    preload.fix = "report it with the output of opmeter doctor -v";
    return {preload};
  }
  preload.status = CheckStatus::kOk;
  preload.detail = fmt::format("recorded {} events of a child", outcome->events);
  const std::vector<symbolize::Symbol> symbols = symbols_of(reader.definitions(), stack);
  return {preload, check_unwinder(reader.definitions(), stack, symbols), check_symbols(symbols)};
}

}  // namespace opmeter::tools
