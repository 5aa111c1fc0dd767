// SPDX-License-Identifier: Apache-2.0
// libopmeter_symbols.so: names the frames of a running process for failure messages. A library of
// its own, opened by opmeter/watch.hpp when there is something to say, so that programs that watch
// allocations do not link elfutils. Exports one C function; its contract is in that header.
#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "profiler/symbolize/symbolizer.h"

namespace {

namespace sym = opmeter::symbolize;

/// The module that is mapped at an address. The executable has no name in the loader's list.
bool find_module(const void* address, opmeter::trace::ModuleInfo& module) {
  Dl_info info;
  link_map* map = nullptr;
  void* extra = nullptr;
  if (dladdr1(address, &info, &extra, RTLD_DL_LINKMAP) == 0 || extra == nullptr) return false;
  map = static_cast<link_map*>(extra);
  std::error_code error;
  module.path = *map->l_name != 0 ? map->l_name
                                  : std::filesystem::read_symlink("/proc/self/exe", error).string();
  module.bias = map->l_addr;
  module.begin = reinterpret_cast<uint64_t>(info.dli_fbase);
  return true;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void opm_symbolize_v1(
    const void* return_address, void (*found)(void*, const char*, const char*, uint32_t),
    void* user) {
  static std::mutex one_at_a_time;
  static sym::Symbolizer symbolizer;
  // By place and path: another library may be loaded where one was.
  static std::map<std::pair<uint64_t, std::string>, opmeter::trace::ModuleInfo> modules;
  const std::lock_guard lock(one_at_a_time);
  const auto pc = reinterpret_cast<uint64_t>(return_address) - 1;
  opmeter::trace::ModuleInfo here;
  if (!find_module(reinterpret_cast<const void*>(pc), here)) return;
  auto [known, added] = modules.try_emplace({here.begin, here.path}, here);
  if (added) known->second.id = static_cast<uint32_t>(modules.size());
  const opmeter::trace::ModuleInfo& module = known->second;
  for (const sym::Symbol& symbol : symbolizer.resolve(module, pc - module.bias)) {
    found(user, symbol.function.c_str(), symbol.file.c_str(), symbol.line);
  }
}
