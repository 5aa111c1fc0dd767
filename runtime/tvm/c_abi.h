// SPDX-License-Identifier: Apache-2.0
// c_abi.h: the C interface between a library compiled by TVM 0.5 to 0.20 and whatever runs it:
// value union, type codes, operator signature and the functions that library code calls back
// (defined in executor/backend.cc). Binary facts only; never export a name that starts with __TVM,
// or a library's own slot variables would bind to it.
#ifndef OPMETER_RUNTIME_TVM_C_ABI_H_
#define OPMETER_RUNTIME_TVM_C_ABI_H_

#include <dlpack/dlpack.h>

#include <cstdint>

namespace opmeter::runtime {

union TvmValue {
  std::int64_t v_int64;
  double v_float64;
  void* v_handle;
  const char* v_str;
  DLDataType v_type;
  DLDevice v_device;
};
static_assert(sizeof(TvmValue) == 8);
static_assert(sizeof(DLTensor) == 48);

/// Argument type codes; equal in 0.5 to 0.20.
enum TypeCode : int {
  kCodeInt = 0,
  kCodeFloat = 2,
  kCodeHandle = 3,
  kCodeNull = 4,
  kCodeDataType = 5,
  kCodeDevice = 6,
  kCodeTensor = 7,
  kCodeString = 11,
};

/// An operator. 0 = ok; -1 = error, its text set through TVMAPISetLastError. Libraries before 0.7
/// take 3 arguments; calling them with 6 is safe on x86-64 SysV and AArch64.
using TvmFunction = int (*)(TvmValue* args, int* type_codes, int num_args, TvmValue* ret,
                            int* ret_type_code, void* resource_handle);

/// What a parallel task gets; generated code reads num_task at offset 8.
struct TvmParallelEnv {
  void* sync_handle;
  std::int32_t num_task;
};
using TvmParallelTask = int (*)(int task_id, TvmParallelEnv* env, void* closure);

/// What a packed function handle (from TVMBackendGetFuncFromEnv) points at. Opaque to libraries.
struct PackedFunction {
  TvmFunction call;
  void* resource_handle;
};

}  // namespace opmeter::runtime

#define OPMETER_TVM_EXPORT __attribute__((visibility("default")))

// Called by library code, through slots or (target c, system-lib) as undefined symbols.
extern "C" {
OPMETER_TVM_EXPORT int TVMFuncCall(void* function, opmeter::runtime::TvmValue* args,
                                   int* type_codes, int num_args, opmeter::runtime::TvmValue* ret,
                                   int* ret_type_code);
OPMETER_TVM_EXPORT void TVMAPISetLastError(const char* text);
OPMETER_TVM_EXPORT int TVMBackendGetFuncFromEnv(void* module_context, const char* name,
                                                void** function);
/// Null = error. The block is 128-aligned and belongs to the calling thread.
OPMETER_TVM_EXPORT void* TVMBackendAllocWorkspace(int device_type, int device_id,
                                                  std::uint64_t size_bytes, int dtype_code_hint,
                                                  int dtype_bits_hint);
OPMETER_TVM_EXPORT int TVMBackendFreeWorkspace(int device_type, int device_id, void* block);
/// num_task 0 = one per thread of the executor.
OPMETER_TVM_EXPORT int TVMBackendParallelLaunch(opmeter::runtime::TvmParallelTask task,
                                                void* closure, int num_task);
OPMETER_TVM_EXPORT int TVMBackendParallelBarrier(int task_id,
                                                 opmeter::runtime::TvmParallelEnv* env);
}

#endif  // OPMETER_RUNTIME_TVM_C_ABI_H_
