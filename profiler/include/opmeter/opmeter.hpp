// SPDX-License-Identifier: Apache-2.0
// opmeter.hpp: scope guards over opmeter.h. Each guard opens in its constructor and closes in its
// destructor.
#ifndef OPMETER_OPMETER_HPP_
#define OPMETER_OPMETER_HPP_

#include "opmeter/opmeter.h"

namespace opmeter {

/// One op execution on this thread: opens before outputs are requested, closes after releases.
class OpScope {
 public:
  explicit OpScope(opm_op op) noexcept { opm_op_push(op); }
  ~OpScope() { opm_op_pop(); }
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;
};

/// The kernel call inside an OpScope.
class KernelScope {
 public:
  KernelScope() noexcept { opm_kernel_begin(); }
  ~KernelScope() { opm_kernel_end(); }
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;
};

/// One graph execution on this thread.
class RunScope {
 public:
  explicit RunScope(opm_graph graph) noexcept { opm_run_begin(graph); }
  ~RunScope() { opm_run_end(); }
  RunScope(const RunScope&) = delete;
  RunScope& operator=(const RunScope&) = delete;
};

/// Works for the run and op of another thread, taken there with opm_context_get().
class ContextScope {
 public:
  explicit ContextScope(opm_context context) noexcept { opm_context_attach(context); }
  ~ContextScope() { opm_context_detach(); }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
};

/// No allocation of this thread is expected while it lives: a recording holds each as a violation.
/// (A test that is to fail by itself uses opmeter/gtest.hpp.)
class ForbidAllocations {
 public:
  ForbidAllocations() noexcept { opm_forbid_alloc_begin(); }
  ~ForbidAllocations() { opm_forbid_alloc_end(); }
  ForbidAllocations(const ForbidAllocations&) = delete;
  ForbidAllocations& operator=(const ForbidAllocations&) = delete;
};

}  // namespace opmeter

#endif  // OPMETER_OPMETER_HPP_
