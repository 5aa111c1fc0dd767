// SPDX-License-Identifier: Apache-2.0
// Tells the allocator's own calls from those of the program that arrive while an allocator runs (in
// a signal handler, a new_handler): by the module that the call came from. Zone a.
#include <link.h>
#include <sys/auxv.h>

#include <atomic>
#include <cstring>

#include "profiler/preload/guard.h"
#include "profiler/preload/real.h"

namespace opmeter::preload {
namespace {

struct Range {
  std::atomic<uintptr_t> begin, end;
};

constexpr size_t kMaxRanges = 16;
constinit Range g_ranges[kMaxRanges] = {};
constinit std::atomic<size_t> g_count{0};

void add_range(uintptr_t begin, uintptr_t end) {
  const size_t at = g_count.fetch_add(1, std::memory_order_relaxed);
  if (at >= kMaxRanges) return;
  g_ranges[at].begin.store(begin, std::memory_order_relaxed);
  g_ranges[at].end.store(end, std::memory_order_release);  // empty until here
}

struct Extent {
  uintptr_t begin = UINTPTR_MAX, end = 0;
};

Extent extent_of(const dl_phdr_info& info) {
  Extent e;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& p = info.dlpi_phdr[i];
    if (p.p_type != PT_LOAD) continue;
    const uintptr_t at = info.dlpi_addr + p.p_vaddr;
    e.begin = at < e.begin ? at : e.begin;
    e.end = at + p.p_memsz > e.end ? at + p.p_memsz : e.end;
  }
  return e;
}

bool is_runtime(const dl_phdr_info& info) {
  if (info.dlpi_addr == getauxval(AT_BASE)) return true;  // the loader
  if (info.dlpi_name == nullptr) return false;
  for (const char* name : {"/libc.so.6", "/libpthread.so.0", "/libstdc++.so.6", "/libc++.so.1",
                           "/libc++abi.so.1", "/libunwind.so.8"}) {
    if (std::strstr(info.dlpi_name, name) != nullptr) return true;
  }
  return false;
}

int visit_runtime(dl_phdr_info* info, size_t, void*) {
  const Extent e = extent_of(*info);
  const auto self = reinterpret_cast<uintptr_t>(&visit_runtime);
  if (is_runtime(*info) || (self >= e.begin && self < e.end)) add_range(e.begin, e.end);
  return 0;
}

int visit_holder(dl_phdr_info* info, size_t, void* function) {
  const Extent e = extent_of(*info);
  const auto at = reinterpret_cast<uintptr_t>(function);
  if (at < e.begin || at >= e.end) return 0;
  add_range(e.begin, e.end);
  return 1;
}

}  // namespace

void allocator_code_start() {
  dl_iterate_phdr(visit_runtime, nullptr);
  void* symbol = nullptr;
  const auto next = real()->malloc;
  std::memcpy(&symbol, &next, sizeof symbol);
  add_allocator_code(symbol);
}

void add_allocator_code(const void* function) {
  if (function == nullptr || is_allocator_code(reinterpret_cast<uintptr_t>(function))) return;
  dl_iterate_phdr(visit_holder, const_cast<void*>(function));
}

bool is_allocator_code(uintptr_t pc) {
  const size_t known = g_count.load(std::memory_order_acquire);
  for (size_t i = 0; i < (known < kMaxRanges ? known : kMaxRanges); ++i) {
    if (pc < g_ranges[i].end.load(std::memory_order_acquire) &&
        pc >= g_ranges[i].begin.load(std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

}  // namespace opmeter::preload
