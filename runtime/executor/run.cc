// SPDX-License-Identifier: Apache-2.0
// run.cc: the loop. Four versions of it are compiled, with and without marks, with tensors per run
// or at load, so that what is off costs nothing. An op's span:
//
//   op_push | request outputs | kernel_begin  call (workspaces)  kernel_end | release dead tensors
//   | op_pop
#include <utility>

#include "runtime/executor/executor_impl.h"
#include "runtime/tvm/text.h"

namespace opmeter::runtime {

Status Executor::run() { return impl_->run(); }

Status Executor::Impl::run() {
  const BackendScope scope(context);
  clear_last_error();
  has_outputs = false;
  const bool marked = opm_enabled() != 0;
  const OpCall* failed = nullptr;
  if (marked) {
    opm_run_begin(graph_id);
    failed = tensors_per_run ? run_calls<true, true>() : run_calls<true, false>();
    opm_run_end();
  } else {
    failed = tensors_per_run ? run_calls<false, true>() : run_calls<false, false>();
  }
  if (failed != nullptr) return run_error(*failed);
  has_outputs = true;
  return {};
}

/// Null, or the call that failed; then everything the run took is back.
template <bool kMarked, bool kPerRun>
const OpCall* Executor::Impl::run_calls() {
  if constexpr (kPerRun) release_outputs();
  for (const OpCall& call : calls) {
    if constexpr (kMarked) opm_op_push(op_ids[call.op]);
    bool ok = true;
    if constexpr (kPerRun) ok = acquire(layout.ops[call.op]);
    if (ok) [[likely]] {
      // Operators before 0.7 do not write the result type.
      TvmValue result;
      int result_code = kCodeNull;
      if constexpr (kMarked) opm_kernel_begin();
      ok = call.function(call.args, call.type_codes, call.num_args, &result, &result_code,
                         nullptr) == 0;
      if constexpr (kMarked) opm_kernel_end();
    }
    if (!ok) [[unlikely]] {
      clean_up_after_failure();
      if constexpr (kMarked) opm_op_pop();
      return &call;
    }
    if constexpr (kPerRun) {
      for (const std::uint32_t place : layout.ops[call.op].release) release(place);
    }
    if constexpr (kMarked) opm_op_pop();
  }
  return nullptr;
}

bool Executor::Impl::acquire(const OpLayout& op) {
  for (const std::uint32_t place : op.acquire) {
    void* block = pool->alloc_tensor(layout.places[place].size_bytes);
    if (block == nullptr) {
      set_last_error("no memory for its output of " +
                     std::to_string(layout.places[place].size_bytes) + " bytes");
      return false;
    }
    places[place].block = block;
    point_place(place, block);
  }
  return true;
}

void Executor::Impl::release(std::uint32_t place) {
  PlaceState& state = places[place];
  if (state.block == nullptr) return;
  if (SharedBlock* shared = std::exchange(state.shared, nullptr)) {
    shared->drop();
  } else {
    pool->free_tensor(state.block, layout.places[place].size_bytes);
  }
  state.block = nullptr;
}

void Executor::Impl::release_outputs() {
  for (const EntryRef& head : model->graph.heads) {
    release(layout.place_of_entry[model->graph.entry_id(head)]);
  }
}

void Executor::Impl::clean_up_after_failure() {
  if (tensors_per_run) {
    for (std::uint32_t place = 0; place < places.size(); ++place) release(place);
  }
  // A failing operator returns past its own releases, on every thread that it used; the workers are
  // idle by now.
  for (Slot slot = 0; slot < static_cast<Slot>(options.threads); ++slot) {
    while (void* block = pool->last_workspace(slot)) pool->free_workspace(slot, block);
  }
}

Error Executor::Impl::run_error(const OpCall& call) const {
  const OpInfo& op = ops[call.op];
  const std::string text =
      *last_error() != '\0' ? last_error() : "it returned an error without a text";
  return input_error(one_line(model->source + ": operator " + std::to_string(op.index) + " \"" +
                                  op.name + "\" (" + op.func + ") failed: " + text,
                              3000));
}

}  // namespace opmeter::runtime
