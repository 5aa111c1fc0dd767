// SPDX-License-Identifier: Apache-2.0
#include "profiler/preload/loader_blocks.h"

#include <link.h>
#include <sys/auxv.h>

#include <cstring>

namespace opmeter::preload {
namespace {

constexpr size_t kDtvEntryBytes = 2 * sizeof(void*);  // glibc's dtv_t

constinit uintptr_t g_loader_begin = 0;
constinit uintptr_t g_loader_end = 0;
constinit uint64_t g_our_bytes = 0;

int visit(dl_phdr_info* info, size_t, void*) {
  uintptr_t begin = UINTPTR_MAX, end = 0;
  bool has_tls = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& p = info->dlpi_phdr[i];
    has_tls = has_tls || p.p_type == PT_TLS;
    if (p.p_type != PT_LOAD) continue;
    const uintptr_t at = info->dlpi_addr + p.p_vaddr;
    begin = at < begin ? at : begin;
    end = at + p.p_memsz > end ? at + p.p_memsz : end;
  }
  if (info->dlpi_addr == getauxval(AT_BASE)) {
    g_loader_begin = begin;
    g_loader_end = end;
  }
  const auto self = reinterpret_cast<uintptr_t>(&visit);
  const bool ours =
      (self >= begin && self < end) ||
      (info->dlpi_name != nullptr && std::strstr(info->dlpi_name, "/libunwind.so.8") != nullptr);
  if (ours && has_tls) g_our_bytes += kDtvEntryBytes;
  return 0;
}

}  // namespace

void loader_blocks_start() { dl_iterate_phdr(visit, nullptr); }

uint64_t size_without_us(uint64_t bytes, size_t size, const void* caller) {
  const auto at = reinterpret_cast<uintptr_t>(caller);
  const bool is_dtv = size == kDtvEntryBytes && at >= g_loader_begin && at < g_loader_end;
  return is_dtv && bytes > g_our_bytes ? bytes - g_our_bytes : bytes;
}

}  // namespace opmeter::preload
