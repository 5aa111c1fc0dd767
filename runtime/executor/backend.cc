// SPDX-License-Identifier: Apache-2.0
// backend.cc: the C functions that compiled operators call back (see c_abi.h for the interface and
// backend.h for how they find their executor). No exception leaves them; the hot two, workspaces,
// are one thread-local load and one virtual call.
#include "runtime/executor/backend.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "runtime/executor/thread_pool.h"
#include "runtime/tvm/c_abi.h"
#include "runtime/tvm/dtype.h"
#include "runtime/tvm/library.h"
#include "runtime/tvm/packed_registry.h"

namespace opmeter::runtime {
namespace {

constexpr std::size_t kErrorBytes = 2048;
// Plain bytes: no destructor, no heap, usable on any thread at any time.
constinit thread_local char error_text[kErrorBytes] = {};

/// kept out of the hot functions
__attribute__((cold, noinline)) int fail(const char* text) noexcept {
  set_last_error(text);
  return -1;
}

__attribute__((cold, noinline)) void fail_workspace(int device_type, int device_id,
                                                    std::uint64_t size_bytes) noexcept {
  char text[256];
  if (current_context == nullptr) {
    std::snprintf(text, sizeof text,
                  "a workspace of %llu bytes was requested outside of a run; call the function "
                  "through an Executor or inside a BackendScope",
                  static_cast<unsigned long long>(size_bytes));
  } else if (device_type != kDLCPU || device_id != 0) {
    std::snprintf(
        text, sizeof text,
        "a workspace on device type %d:%d was requested, but this runtime drives cpu:0 only; "
        "compile the model for the CPU",
        device_type, device_id);
  } else {
    std::snprintf(text, sizeof text, "no memory for a workspace of %llu bytes",
                  static_cast<unsigned long long>(size_bytes));
  }
  set_last_error(text);
}

bool serves(const ThreadContext* context, int device_type, int device_id) noexcept {
  return context != nullptr && device_type == kDLCPU && device_id == 0;
}

}  // namespace

constinit thread_local ThreadContext* current_context = nullptr;

const char* last_error() noexcept { return error_text; }

void clear_last_error() noexcept { error_text[0] = '\0'; }

void set_last_error(std::string_view text) noexcept {
  const std::size_t length = std::min(text.size(), kErrorBytes - 1);
  // memmove: the text may be the buffer itself.
  std::memmove(error_text, text.data(), length);
  error_text[length] = '\0';
}

}  // namespace opmeter::runtime

using opmeter::runtime::current_context;
using opmeter::runtime::ThreadContext;

extern "C" {

int TVMFuncCall(void* function, opmeter::runtime::TvmValue* args, int* type_codes, int num_args,
                opmeter::runtime::TvmValue* ret, int* ret_type_code) {
  if (function == nullptr) return opmeter::runtime::fail("TVMFuncCall: null function handle");
  const auto* packed = static_cast<const opmeter::runtime::PackedFunction*>(function);
  return packed->call(args, type_codes, num_args, ret, ret_type_code, packed->resource_handle);
}

void TVMAPISetLastError(const char* text) {
  opmeter::runtime::set_last_error(text != nullptr ? text : "");
}

int TVMBackendGetFuncFromEnv(void* module_context, const char* name, void** function) {
  auto* library = static_cast<opmeter::runtime::Library*>(module_context);
  opmeter::runtime::PackedFunction* packed =
      library != nullptr ? library->packed(name) : opmeter::runtime::find_packed(name);
  if (packed == nullptr) {
    const std::string where = library != nullptr ? library->path() : "the library";
    opmeter::runtime::set_last_error("packed function \"" + std::string(name) +
                                     "\" is neither in " + where +
                                     " nor in this runtime; compile the operator without it (a "
                                     "schedule for target llvm that calls "
                                     "no tvm.contrib or extern function)");
    return -1;
  }
  *function = packed;
  return 0;
}

void* TVMBackendAllocWorkspace(int device_type, int device_id, std::uint64_t size_bytes,
                               int /*dtype_code_hint*/, int /*dtype_bits_hint*/) {
  const ThreadContext* context = current_context;
  if (opmeter::runtime::serves(context, device_type, device_id)) [[likely]] {
    void* block = context->pool->alloc_workspace(context->slot, size_bytes);
    if (block != nullptr) [[likely]]
      return block;
  }
  opmeter::runtime::fail_workspace(device_type, device_id, size_bytes);
  return nullptr;
}

int TVMBackendFreeWorkspace(int device_type, int device_id, void* block) {
  const ThreadContext* context = current_context;
  if (opmeter::runtime::serves(context, device_type, device_id) &&
      context->pool->free_workspace(context->slot, block)) [[likely]] {
    return 0;
  }
  return opmeter::runtime::fail(
      "a workspace was released that this thread does not hold; the operator releases twice, or on "
      "another thread than it requested");
}

int TVMBackendParallelLaunch(opmeter::runtime::TvmParallelTask task, void* closure, int num_task) {
  ThreadContext* context = current_context;
  if (context == nullptr || context->threads == nullptr) {
    // A function called directly from C++: one task, on this thread.
    if (num_task > 1) {
      return opmeter::runtime::fail("a parallel launch outside of a run has one thread only");
    }
    return opmeter::runtime::run_single_task(task, closure);
  }
  return context->threads->launch(task, closure, num_task);
}

int TVMBackendParallelBarrier(int task_id, opmeter::runtime::TvmParallelEnv* env) {
  return opmeter::runtime::ThreadPool::barrier(task_id, env);
}

}  // extern "C"
