// SPDX-License-Identifier: Apache-2.0
// library.cc: dlopen, context slots and symbols of one compiled library (see library.h).
#include "runtime/tvm/library.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <cstring>

#include "runtime/tvm/elf_check.h"
#include "runtime/tvm/packed_registry.h"
#include "runtime/tvm/text.h"

namespace opmeter::runtime {
namespace {

/// Open libraries by dlopen handle: opening a file twice gives the same handle, and its one
/// __tvm_module_ctx must stay valid until the last user is gone.
struct OpenLibraries {
  std::mutex mutex;
  std::map<void*, std::weak_ptr<Library>> by_handle;
};

OpenLibraries& open_libraries() {
  static OpenLibraries& libraries = *new OpenLibraries;  // Never destroyed: see cpu_device().
  return libraries;
}

struct SegmentSearch {
  std::uintptr_t address;
  std::uintptr_t end;
};

int find_segment(dl_phdr_info* info, std::size_t, void* data) {
  auto* search = static_cast<SegmentSearch*>(data);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const std::uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    if (search->address < begin || search->address >= begin + segment.p_filesz) continue;
    search->end = begin + segment.p_filesz;
    return 1;
  }
  return 0;
}

/// Bytes of the mapped file from `start` to the end of its segment; 0 when it is in none.
std::uint64_t bytes_to_segment_end(const void* start) {
  SegmentSearch search{reinterpret_cast<std::uintptr_t>(start), 0};
  if (dl_iterate_phdr(find_segment, &search) == 0) return 0;
  return search.end - search.address;
}

/// Interfaces that share nothing with 0.5-0.20 except some names.
Status check_interface(void* handle, const std::string& path) {
  for (const char* name :
       {"__tvm_ffi__library_ctx", "__tvm_ffi_library_ctx", "__tvm_ffi__library_bin",
        "__tvm_ffi_library_bin", "__TVMFFIFunctionCall", "__TVMFFIErrorSetRaisedFromCStr"}) {
    if (dlsym(handle, name) != nullptr) {
      return input_error(
          path + ": was compiled by TVM 0.21 or later (it exports " + name +
          "), whose operators have another interface; compile with TVM 0.19 or older");
    }
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<Library>> Library::open(const std::string& path) {
  if (Status status = check_shared_library(path); !status) return status.error();
  // Without a slash dlopen would search the system's folders instead.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  OpenLibraries& libraries = open_libraries();
  const std::lock_guard lock(libraries.mutex);
  // RTLD_LOCAL: slots are weak symbols, and two global models would share one set.
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return input_error(one_line(path + ": cannot be loaded: " + dlerror()));
  }
  const auto known = libraries.by_handle.find(handle);
  if (known != libraries.by_handle.end()) {
    if (std::shared_ptr<Library> shared = known->second.lock()) {
      dlclose(handle);  // The shared Library holds its own count.
      return shared;
    }
  }
  if (Status status = check_interface(handle, path); !status) {
    dlclose(handle);
    return status.error();
  }
  std::shared_ptr<Library> library(new Library(path, handle));
  library->bind_slots();
  libraries.by_handle[handle] = library;
  return library;
}

Library::~Library() {
  OpenLibraries& libraries = open_libraries();
  const std::lock_guard lock(libraries.mutex);
  // Another thread may have opened the file again between the last release and this lock; then the
  // entry is already its.
  const auto entry = libraries.by_handle.find(handle_);
  if (entry != libraries.by_handle.end() && entry->second.expired()) {
    libraries.by_handle.erase(entry);
  }
  dlclose(handle_);
}

void* Library::symbol(const char* name) const { return dlsym(handle_, name); }

TvmFunction Library::function(const std::string& name) const {
  return reinterpret_cast<TvmFunction>(symbol(name.c_str()));
}

void Library::bind_slots() {
  const auto bind = [this](const char* name, void* value) {
    if (void* slot = symbol(name)) std::memcpy(slot, &value, sizeof value);
  };
  bind("__tvm_module_ctx", this);
  bind("__TVMFuncCall", reinterpret_cast<void*>(&TVMFuncCall));
  bind("__TVMAPISetLastError", reinterpret_cast<void*>(&TVMAPISetLastError));
  bind("__TVMBackendGetFuncFromEnv", reinterpret_cast<void*>(&TVMBackendGetFuncFromEnv));
  bind("__TVMBackendAllocWorkspace", reinterpret_cast<void*>(&TVMBackendAllocWorkspace));
  bind("__TVMBackendFreeWorkspace", reinterpret_cast<void*>(&TVMBackendFreeWorkspace));
  bind("__TVMBackendParallelLaunch", reinterpret_cast<void*>(&TVMBackendParallelLaunch));
  bind("__TVMBackendParallelBarrier", reinterpret_cast<void*>(&TVMBackendParallelBarrier));
}

Result<std::span<const std::byte>> Library::blob() const {
  const auto* start = static_cast<const std::byte*>(symbol("__tvm_dev_mblob"));
  if (start == nullptr) return std::span<const std::byte>{};
  const std::uint64_t available = bytes_to_segment_end(start);
  std::uint64_t size = 0;
  if (available >= sizeof size) std::memcpy(&size, start, sizeof size);
  if (available < sizeof size || size > available - sizeof size) {
    return input_error(path_ + ": __tvm_dev_mblob claims " + std::to_string(size) +
                       " bytes, more than the library holds; it is damaged, export it again");
  }
  return std::span<const std::byte>(start + sizeof size, static_cast<std::size_t>(size));
}

bool Library::may_request_workspaces() const {
  return symbol("__TVMBackendAllocWorkspace") != nullptr;
}

bool Library::may_launch_tasks() const { return symbol("__TVMBackendParallelLaunch") != nullptr; }

PackedFunction* Library::packed(const std::string& name) {
  const std::lock_guard lock(packed_mutex_);
  if (const auto known = packed_.find(name); known != packed_.end()) return known->second.get();
  if (const TvmFunction own = function(name)) {
    auto handle = std::make_unique<PackedFunction>(PackedFunction{own, nullptr});
    return packed_.emplace(name, std::move(handle)).first->second.get();
  }
  return find_packed(name);
}

}  // namespace opmeter::runtime
