// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/modules.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <time.h>

#include <atomic>
#include <cstring>

#include "profiler/recorder/stack_capture.h"

// glibc >= 2.35; weak: older C libraries do without.
extern "C" int _dl_find_object(void* address, struct dl_find_object* result) __attribute__((weak));

namespace opmeter::recorder {
namespace {

constexpr size_t kMaxModules = 8192;
constexpr size_t kMaxPath = 1024;
constexpr size_t kNamesBytes = size_t{4} << 20;

/// What a forked child says about a module again; follows in memory: path, then build id.
struct Naming {
  uint32_t build_id_bytes;
  uint32_t path_bytes;  ///< with its final zero

  const char* path() const { return reinterpret_cast<const char*>(this + 1); }
  const uint8_t* build_id() const { return reinterpret_cast<const uint8_t*>(path() + path_bytes); }
};

struct Module {
  uint64_t bias, begin, end;
  uint64_t name_hash;
  uint32_t id;
  uint32_t seen;         ///< number of the scan that last found it
  const Naming* naming;  ///< null: no memory was left for it
};

struct ModuleTable {
  Module modules[kMaxModules];
  size_t count;
  uint32_t scan;
  unsigned long long adds, subs;
  size_t names_used;
  alignas(8) uint8_t names[kNamesBytes];  ///< touched as far as used
};

ModuleTable* g_table = nullptr;
std::atomic_flag g_busy = ATOMIC_FLAG_INIT;
bool g_held_for_fork = false;    // only the thread that holds g_busy touches it
bool g_loader_may_hang = false;  // in a forked child
bool g_table_whole = true;       // no other thread was changing it when this process was forked
uint64_t g_own_begin = 0, g_own_end = 0;
uint64_t g_unwinder_begin = 0, g_unwinder_end = 0;

/// Of the name as the loader lists it: a path made absolute would change with the working
/// directory.
uint64_t hash_name(const dl_phdr_info& info) {
  uint64_t h = 0xcbf29ce484222325u;
  for (const char* c = info.dlpi_name; c != nullptr && *c != 0; ++c) {
    h = (h ^ static_cast<unsigned char>(*c)) * 0x100000001b3u;
  }
  return h;
}

struct Extent {
  uint64_t begin = UINT64_MAX, end = 0;
};

Extent extent_of(const dl_phdr_info& info) {
  Extent e;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& p = info.dlpi_phdr[i];
    if (p.p_type != PT_LOAD) continue;
    const uint64_t begin = info.dlpi_addr + p.p_vaddr;
    if (begin < e.begin) e.begin = begin;
    if (begin + p.p_memsz > e.end) e.end = begin + p.p_memsz;
  }
  return e;
}

/// The descriptor of NT_GNU_BUILD_ID; null when the module has none.
const uint8_t* build_id_of(const dl_phdr_info& info, size_t& size) {
  size = 0;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& p = info.dlpi_phdr[i];
    if (p.p_type != PT_NOTE) continue;
    const auto* at = reinterpret_cast<const uint8_t*>(info.dlpi_addr + p.p_vaddr);
    const uint8_t* end = at + p.p_memsz;
    while (static_cast<size_t>(end - at) >= sizeof(ElfW(Nhdr))) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof note);
      const uint8_t* name = at + sizeof note;
      const uint8_t* desc = name + ((note.n_namesz + 3u) & ~3u);
      if (desc > end || note.n_descsz > static_cast<size_t>(end - desc)) break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
          std::memcmp(name, "GNU", 4) == 0) {
        size = note.n_descsz;
        return desc;
      }
      at = desc + ((note.n_descsz + 3u) & ~3u);
    }
  }
  return nullptr;
}

const Naming* keep_naming(const char* path, const uint8_t* build_id, size_t build_id_bytes) {
  const size_t path_bytes = std::strlen(path) + 1;
  const size_t bytes = (sizeof(Naming) + path_bytes + build_id_bytes + 7) & ~size_t{7};
  if (g_table->names_used + bytes > kNamesBytes) return nullptr;
  auto* naming = reinterpret_cast<Naming*>(g_table->names + g_table->names_used);
  g_table->names_used += bytes;
  naming->build_id_bytes = static_cast<uint32_t>(build_id_bytes);
  naming->path_bytes = static_cast<uint32_t>(path_bytes);
  std::memcpy(naming + 1, path, path_bytes);
  if (build_id_bytes != 0) {
    std::memcpy(reinterpret_cast<uint8_t*>(naming + 1) + path_bytes, build_id, build_id_bytes);
  }
  return naming;
}

void define_module(ThreadState* t, Module& module, const char* path, const uint8_t* build_id,
                   size_t build_id_bytes) {
  module.id = session()->next_module.fetch_add(1, std::memory_order_relaxed) + 1;
  trace::ByteSink sink(t->payload, sizeof t->payload);
  trace::encode_module(sink, module.id, session()->epoch.load(std::memory_order_relaxed),
                       module.bias, module.begin, module.end, path, build_id, build_id_bytes);
  if (!sink.overflow()) record_payload(t, trace::DefinitionTag::kModule, sink.data(), sink.size());
}

/// The module's path, absolute where it can be told: the executable has no name in the loader's
/// list, and a library opened by a relative path is listed by it, which means nothing to a report
/// made elsewhere.
const char* path_of(const dl_phdr_info& info, char (&buffer)[kMaxPath]) {
  const char* name = info.dlpi_name;
  if (name == nullptr || *name == 0) {
    const ssize_t n = readlink("/proc/self/exe", buffer, sizeof buffer - 1);
    buffer[n > 0 ? n : 0] = 0;
    return buffer;
  }
  if (std::strcmp(name, "linux-vdso.so.1") == 0) return "[vdso]";
  if (*name == '/' || std::strchr(name, '/') == nullptr) return name;
  const long cwd = syscall(SYS_getcwd, buffer, sizeof buffer);  // with its final zero
  const size_t length = strnlen(name, kMaxPath);
  if (cwd <= 0 || static_cast<size_t>(cwd) + length + 1 > sizeof buffer) return name;
  buffer[cwd - 1] = '/';
  std::memcpy(buffer + cwd, name, length + 1);
  return buffer;
}

Module* find_module(const Extent& extent, uint64_t name_hash) {
  for (size_t i = 0; i < g_table->count; ++i) {
    Module& m = g_table->modules[i];
    if (m.begin == extent.begin && m.end == extent.end && m.name_hash == name_hash) return &m;
  }
  return nullptr;
}

/// First pass of a scan: marks what is still there.
int visit_known(dl_phdr_info* info, size_t, void*) {
  if (Module* m = find_module(extent_of(*info), hash_name(*info))) {
    m->seen = g_table->scan;
  }
  return 0;
}

/// Second pass: defines what is new.
int visit_new(dl_phdr_info* info, size_t, void* data) {
  ModuleTable& table = *g_table;
  table.adds = info->dlpi_adds;
  table.subs = info->dlpi_subs;
  const Extent extent = extent_of(*info);
  const uint64_t hash = hash_name(*info);
  if (extent.end == 0 || table.count == kMaxModules || find_module(extent, hash) != nullptr)
    return 0;
  Module& m = table.modules[table.count++];
  m = {info->dlpi_addr, extent.begin, extent.end, hash, 0, table.scan, nullptr};
  const auto self = reinterpret_cast<uint64_t>(&visit_new);
  if (self >= m.begin && self < m.end) {
    g_own_begin = m.begin;
    g_own_end = m.end;
  }
  if (g_unwinder_end == 0 && info->dlpi_name != nullptr &&
      std::strstr(info->dlpi_name, "/libunwind.so.") != nullptr) {
    g_unwinder_begin = m.begin;
    g_unwinder_end = m.end;
  }
  char buffer[kMaxPath];
  const char* path = path_of(*info, buffer);
  size_t build_id_bytes = 0;
  const uint8_t* build_id = build_id_of(*info, build_id_bytes);
  m.naming = keep_naming(path, build_id, build_id_bytes);
  define_module(static_cast<ThreadState*>(data), m, path, build_id, build_id_bytes);
  return 0;
}

/// Reads the loader's counters from the first object only.
int visit_counters(dl_phdr_info* info, size_t, void* data) {
  auto* counters = static_cast<unsigned long long*>(data);
  counters[0] = info->dlpi_adds;
  counters[1] = info->dlpi_subs;
  return 1;
}

/// What the first pass did not find is gone; addresses mean other code from the next epoch on.
void retire_missing(ThreadState* t) {
  ModuleTable& table = *g_table;
  size_t kept = 0;
  uint32_t last = 0;
  for (size_t i = 0; i < table.count; ++i) {
    const Module m = table.modules[i];
    if (m.seen == table.scan) {
      table.modules[kept++] = m;
      continue;
    }
    if (last == 0) last = session()->epoch.fetch_add(1, std::memory_order_acq_rel);
    trace::ByteSink sink(t->payload, sizeof t->payload);
    sink.varint(m.id);
    sink.varint(last);
    record_payload(t, trace::DefinitionTag::kModuleUnload, sink.data(), sink.size());
  }
  table.count = kept;
  if (last != 0) stacks_flush();
}

}  // namespace

namespace {

/// In a module that the loader has and the table has not. Takes no lock.
bool is_new_code(const void* address) {
  const auto at = reinterpret_cast<uint64_t>(address) - 1;
  for (size_t i = 0; i < g_table->count; ++i) {
    if (at >= g_table->modules[i].begin && at < g_table->modules[i].end) return false;
  }
  dl_find_object found;
  return _dl_find_object(reinterpret_cast<void*>(at), &found) == 0;
}

}  // namespace

bool modules_start() {
  g_table = static_cast<ModuleTable*>(map_pages(sizeof(ModuleTable)));
  return g_table != nullptr;
}

void modules_before_fork() {
  constexpr int kTries = 500;
  const timespec pause{0, 100'000};
  for (int i = 0; i < kTries; ++i) {
    if (!g_busy.test_and_set(std::memory_order_acquire)) {
      g_held_for_fork = true;
      return;
    }
    nanosleep(&pause, nullptr);
  }
}

void modules_after_fork() {
  g_table_whole = g_held_for_fork;
  if (!g_held_for_fork) return;
  g_held_for_fork = false;
  g_busy.clear(std::memory_order_release);
}

void modules_restart(ThreadState* t) {
  g_busy.clear(std::memory_order_release);
  if (!g_table_whole) g_table->count = g_table->scan = 0;
  g_loader_may_hang = g_table_whole && _dl_find_object != nullptr;
  for (size_t i = 0; i < g_table->count; ++i) {
    Module& m = g_table->modules[i];
    if (m.naming == nullptr) continue;
    define_module(t, m, m.naming->path(), m.naming->build_id(), m.naming->build_id_bytes);
  }
  if (!g_loader_may_hang) modules_refresh(t);  // an old C library: there is no other way to know
}

void modules_refresh_for(ThreadState* t, void* const* frames, uint32_t count) {
  if (g_table == nullptr) return;
  if (g_loader_may_hang) {
    bool loaded = false;
    for (uint32_t i = 0; i < count && !loaded; ++i) loaded = is_new_code(frames[i]);
    if (!loaded) return;
    g_loader_may_hang = false;  // the child's own dlopen went through
  }
  modules_refresh(t);
}

void modules_refresh(ThreadState* t) {
  g_loader_may_hang = false;
  if (g_table == nullptr || g_busy.test_and_set(std::memory_order_acquire)) return;
  unsigned long long counters[2] = {0, 0};
  dl_iterate_phdr(visit_counters, counters);
  if (g_table->scan == 0 || counters[0] != g_table->adds || counters[1] != g_table->subs) {
    ++g_table->scan;
    dl_iterate_phdr(visit_known, nullptr);
    retire_missing(t);
    dl_iterate_phdr(visit_new, t);
  }
  g_busy.clear(std::memory_order_release);
}

bool is_unwinder_code(const void* address) {
  const auto a = reinterpret_cast<uint64_t>(address);
  return a >= g_unwinder_begin && a < g_unwinder_end;
}

bool is_own_code(const void* address) {
  const auto a = reinterpret_cast<uint64_t>(address);
  return a >= g_own_begin && a < g_own_end;
}

}  // namespace opmeter::recorder
