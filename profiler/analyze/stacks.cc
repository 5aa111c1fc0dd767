// SPDX-License-Identifier: Apache-2.0
#include "profiler/analyze/stacks.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <unordered_map>

#include "profiler/symbolize/symbolizer.h"

namespace opmeter::analyze {
namespace {

/// Frames of one call address, innermost first.
using Frames = std::vector<reports::Frame>;

class FrameSource {
 public:
  FrameSource(const trace::Definitions& definitions, const AnalyzeOptions& options)
      : definitions_(definitions),
        enabled_(options.symbolize),
        symbolizer_({.debug_dirs = options.debug_dirs}) {}

  const Frames& at(uint64_t return_address, uint32_t epoch) {
    const auto [found, added] = by_epoch_[epoch].try_emplace(return_address);
    if (added) found->second = make(return_address, epoch);
    return found->second;
  }
  std::vector<std::string> problems() const { return symbolizer_.problems(); }

 private:
  Frames make(uint64_t return_address, uint32_t epoch) {
    // The call is the instruction before the return address, which may belong to the next function.
    const uint64_t call = return_address == 0 ? 0 : return_address - 1;
    reports::Frame base;
    base.module_offset = call;
    const trace::ModuleInfo* module = definitions_.module_at(call, epoch);
    if (module == nullptr) return {base};  // code made at run time, or a module nobody announced
    base.module = module->path;
    base.module_offset = call - module->bias;
    base.build_id = module->build_id;
    if (!enabled_) return {base};
    Frames frames;
    for (const symbolize::Symbol& symbol : symbolizer_.resolve(*module, base.module_offset)) {
      reports::Frame frame = base;
      frame.function = symbol.function;
      frame.function_offset = symbol.function_offset;
      frame.file = symbol.file;
      frame.line = symbol.line;
      frame.inlined = symbol.inlined;
      frames.push_back(std::move(frame));
    }
    return frames;
  }

  const trace::Definitions& definitions_;
  bool enabled_;
  symbolize::Symbolizer symbolizer_;
  std::unordered_map<uint32_t, std::unordered_map<uint64_t, Frames>> by_epoch_;
};

std::string_view file_of(const reports::Frame& frame) {
  const std::string_view module = frame.module;
  return module.substr(module.rfind('/') + 1);
}

/// The C and C++ libraries allocate on behalf of whoever called them.
bool is_library_frame(const reports::Frame& frame) {
  const std::string_view file = file_of(frame);
  return file.starts_with("libc.so") || file.starts_with("libc-") ||
         file.starts_with("libstdc++.so") || file.starts_with("libpthread");
}

}  // namespace

/// Why code that is known allocates, by the frame that asked: what stands further out only tells
/// who is served by it.
std::string cause_of(const std::vector<reports::Frame>& frames) {
  for (const reports::Frame& frame : frames) {
    const std::string_view function = frame.function;
    const auto is = [&](std::initializer_list<std::string_view> prefixes) {
      return std::any_of(prefixes.begin(), prefixes.end(),
                         [&](std::string_view prefix) { return function.starts_with(prefix); });
    };
    if (is({"__tls_get_addr", "_dl_allocate_tls", "tls_get_addr_tail", "allocate_dtv_entry",
            "__cxa_thread_atexit", "dmlc::ThreadLocalStore<"})) {
      return "thread_local";
    }
    if (file_of(frame).starts_with("libgomp.so") || file_of(frame).starts_with("libomp.so") ||
        is({"gomp_", "GOMP_parallel", "tvm::runtime::ThreadPool::", "tvm::runtime::SpscTaskQueue::",
            "tvm::runtime::ParallelLauncher::", "tvm::runtime::threading::ThreadGroup::",
            "std::thread::_M_start_thread", "TVMBackendParallelLaunch"}) ||
        function.ends_with("pthread_create") || is({"pthread_create"})) {
      return "thread_team";
    }
    if (is({"tvm::runtime::PackedFunc", "tvm::runtime::TVMRetValue::", "tvm::runtime::TVMArgs",
            "TVMFuncCall"})) {
      return "packed_call";
    }
    // Templates of the standard library are the program's own code, expanded into it.
    if (!frame.inlined && !is_library_frame(frame) &&
        !is({"std::", "__gnu_cxx::", "operator new"})) {
      return {};
    }
  }
  return {};
}

bool is_own_frame(const reports::Frame& frame) {
  if (file_of(frame).starts_with("libopmeter_preload.so")) return true;
  const std::string_view function = frame.function;
  return function.starts_with("opm_pool_") ||
         function.starts_with("opmeter::runtime::TracingPool::");
}

void resolve_stacks(const trace::Definitions& definitions, const AnalyzeOptions& options,
                    reports::Report& report) {
  FrameSource source(definitions, options);
  uint64_t unresolved = 0;
  for (reports::Stack& stack : report.stacks) {
    const auto found = definitions.stacks.find(stack.id);
    if (found == definitions.stacks.end()) continue;
    stack.cut = found->second.cut;
    for (const uint64_t address : found->second.frames) {
      const Frames& frames = source.at(address, found->second.epoch);
      stack.frames.insert(stack.frames.end(), frames.begin(), frames.end());
    }
    const auto first_of_the_program =
        std::find_if_not(stack.frames.begin(), stack.frames.end(), is_own_frame);
    stack.frames.erase(stack.frames.begin(), first_of_the_program);
    if (stack.cause.empty()) stack.cause = cause_of(stack.frames);
    unresolved += static_cast<uint64_t>(
        std::count_if(stack.frames.begin(), stack.frames.end(),
                      [](const reports::Frame& frame) { return frame.function.empty(); }));
  }
  report.quality.unresolved_frames = unresolved;
  report.quality.symbol_problems = source.problems();
}

}  // namespace opmeter::analyze
