// SPDX-License-Identifier: Apache-2.0
// library.h: one shared library compiled by TVM: opened, its context slots bound to this runtime,
// its functions found by name. Slots are plain variables of the library, so all users in the
// process share one Library per file and calls find their executor through the calling thread.
#ifndef OPMETER_RUNTIME_TVM_LIBRARY_H_
#define OPMETER_RUNTIME_TVM_LIBRARY_H_

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "opmeter/result.h"
#include "runtime/tvm/c_abi.h"

namespace opmeter::runtime {

/// Thread rule: any thread.
class Library {
 public:
  /// Opens (or shares, when it is open already) a library. Errors (kInput): missing, cut, not an
  /// ELF library of this machine, or made by a TVM whose operators have another interface (0.21+).
  static Result<std::shared_ptr<Library>> open(const std::string& path);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const std::string& path() const { return path_; }
  /// Null when the library exports no such symbol.
  void* symbol(const char* name) const;
  TvmFunction function(const std::string& name) const;
  /// The bytes of __tvm_dev_mblob without its length; empty when there is none. kInput when its
  /// length leaves the library.
  Result<std::span<const std::byte>> blob() const;
  /// False proves that no operator of the library ever asks for a workspace.
  bool may_request_workspaces() const;
  /// False proves that no operator of the library ever starts parallel tasks.
  bool may_launch_tasks() const;

  /// Handle for generated code that calls `name`: the library's own function, else a registered
  /// packed function, else null. Lives as long as the library.
  PackedFunction* packed(const std::string& name);

 private:
  Library(std::string path, void* handle) : path_(std::move(path)), handle_(handle) {}
  void bind_slots();

  std::string path_;
  void* handle_;
  std::mutex packed_mutex_;
  std::map<std::string, std::unique_ptr<PackedFunction>> packed_;
};

}  // namespace opmeter::runtime

#endif  // OPMETER_RUNTIME_TVM_LIBRARY_H_
