// SPDX-License-Identifier: Apache-2.0
// backend.h: what the calling thread works for while library code runs. The TVMBackend* functions
// (backend.cc) find pool and threads through it, so two executors that share one library, and its
// one set of slots, stay apart. Also the thread's last error text.
#ifndef OPMETER_RUNTIME_EXECUTOR_BACKEND_H_
#define OPMETER_RUNTIME_EXECUTOR_BACKEND_H_

#include <dlpack/dlpack.h>

#include <string_view>

#include "runtime/pool/pool.h"

namespace opmeter::runtime {

class ThreadPool;

struct ThreadContext {
  Pool* pool = nullptr;
  ThreadPool* threads = nullptr;
  Slot slot = 0;
  bool in_parallel = false;  ///< inside a task: a second launch would wait for itself
};

/// Null outside of runs, tasks and BackendScopes.
extern constinit thread_local ThreadContext* current_context;

/// Makes `context` the thread's own while it lives; needed to call library functions directly.
class BackendScope {
 public:
  explicit BackendScope(ThreadContext& context) noexcept : previous_(current_context) {
    current_context = &context;
  }
  ~BackendScope() { current_context = previous_; }
  BackendScope(const BackendScope&) = delete;
  BackendScope& operator=(const BackendScope&) = delete;

 private:
  ThreadContext* previous_;
};

/// The thread's last error as library code or this runtime set it; valid until the next one.
/// Setting copies (cut at 2 KiB) and never calls the heap.
const char* last_error() noexcept;
void set_last_error(std::string_view text) noexcept;
void clear_last_error() noexcept;

}  // namespace opmeter::runtime

#endif  // OPMETER_RUNTIME_EXECUTOR_BACKEND_H_
