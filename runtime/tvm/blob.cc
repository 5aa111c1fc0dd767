// SPDX-License-Identifier: Apache-2.0
// blob.cc: the entries of __tvm_dev_mblob (see blob.h). A dmlc stream: u64 count, then per entry a
// string key and the payload that the key implies.
#include "runtime/tvm/blob.h"

#include <array>
#include <string_view>

#include "runtime/tvm/byte_reader.h"
#include "runtime/tvm/text.h"

namespace opmeter::runtime {
namespace {

struct KnownMaker {
  std::string_view key;
  std::string_view what;
};

// Kinds that cannot be skipped: what makes them, and so what to change when compiling.
constexpr std::array<KnownMaker, 17> kMakers = {{
    {"hip", "target rocm"},
    {"hsaco", "target rocm"},
    {"vulkan", "target vulkan"},
    {"metal", "target metal"},
    {"webgpu", "target webgpu"},
    {"hexagon", "target hexagon"},
    {"dnnl_json", "partitioning for DNNL (BYOC)"},
    {"tensorrt", "partitioning for TensorRT (BYOC)"},
    {"coreml", "partitioning for Core ML (BYOC)"},
    {"clml", "partitioning for CLML (BYOC)"},
    {"arm_compute_lib", "partitioning for Arm Compute Library (BYOC)"},
    {"VMExecutable", "the Relay VM executor (compile with executor graph)"},
    {"relax.Executable", "Relax (TVM 0.20 and later; its VM is not supported)"},
    {"relax.VMExecutable", "Relax (TVM 0.20 and later; its VM is not supported)"},
    {"stackvm", "target stackvm"},
    {"c", "target c, not yet compiled"},
    {"ext_dev", "target ext_dev"},
}};

class BlobParser {
 public:
  BlobParser(std::span<const std::byte> bytes, const std::string& where)
      : reader_(bytes), where_(where) {}

  Result<Blob> parse() {
    const std::uint64_t count = reader_.read_count(8);
    if (reader_.failed()) return cut();
    for (position_ = 0; position_ < count; ++position_) {
      entry_offset_ = reader_.offset();
      key_ = reader_.read_string();
      if (reader_.failed()) return cut();
      if (Status status = read_payload(); !status) return status.error();
      if (reader_.failed()) return cut();
      blob_.keys.push_back(key_);
    }
    if (reader_.remaining() != 0) {
      return fail(std::to_string(reader_.remaining()) + " bytes follow the last entry");
    }
    if (Status status = check_tree(); !status) return status.error();
    return std::move(blob_);
  }

 private:
  Error fail(const std::string& what) const {
    return input_error(one_line(where_ + ": __tvm_dev_mblob: " + what));
  }
  Error fail_entry(const std::string& what) const {
    return fail("entry " + std::to_string(position_) + " \"" + one_line(key_, 60) + "\" at byte " +
                std::to_string(entry_offset_) + ": " + what);
  }
  Error cut() const {
    return fail("the data ends inside entry " + std::to_string(position_) +
                "; the library is cut or damaged, export it again");
  }

  Status read_payload() {
    if (key_ == "_lib") {
      if (has_library_) return fail_entry("stands there twice");
      has_library_ = true;
      return {};
    }
    if (key_ == "_import_tree") return read_tree();
    if (key_ == "GraphExecutorFactory" || key_ == "GraphRuntimeFactory") return read_factory();
    if (key_ == "cuda" || key_ == "opencl") return read_device_module();
    if (key_ == "metadata" || key_ == "const_loader") return read_constants();
    if (key_ == "metadata_module") return {};
    if (key_ == "AotExecutorFactory") {
      return fail_entry("this is an AOT executor library; compile the model with executor graph");
    }
    if (key_ == "static_library") {
      reader_.read_string();
      read_strings();
      return {};
    }
    for (const KnownMaker& maker : kMakers) {
      if (maker.key == key_) {
        return fail_entry("made by " + std::string(maker.what) +
                          "; this runtime cannot load it: compile for target llvm");
      }
    }
    return fail_entry(
        "unknown kind of module; compile for target llvm with executor graph, without "
        "external code generators");
  }

  std::vector<std::string> read_strings() {
    std::vector<std::string> strings(reader_.read_count(8));
    for (std::string& text : strings) text = reader_.read_string();
    return strings;
  }

  Status read_tree() {
    if (!blob_.import_row_ptr.empty()) return fail_entry("stands there twice");
    blob_.import_row_ptr.resize(reader_.read_count(8));
    for (std::uint64_t& value : blob_.import_row_ptr) value = reader_.read<std::uint64_t>();
    blob_.import_children.resize(reader_.read_count(8));
    for (std::uint64_t& value : blob_.import_children) value = reader_.read<std::uint64_t>();
    return {};
  }

  Status read_factory() {
    ModelFactory factory;
    factory.key = key_;
    factory.graph_json = reader_.read_string();
    const std::uint64_t count = reader_.read<std::uint64_t>();
    std::vector<std::string> names = read_strings();
    if (reader_.failed()) return {};
    if (count != names.size()) {
      return fail_entry(std::to_string(names.size()) + " names for " + std::to_string(count) +
                        " parameters");
    }
    for (std::string& name : names) {
      Result<Tensor> tensor = read_ndarray(reader_, name);
      if (!tensor) return fail_entry(tensor.error().message);
      factory.params.push_back({std::move(name), std::move(tensor).value()});
    }
    factory.module_name = reader_.read_string();
    blob_.factories.push_back(std::move(factory));
    return {};
  }

  Status read_device_module() {
    DeviceModule module;
    module.key = key_;
    module.format = reader_.read_string();
    const std::uint64_t functions = reader_.read_count(8 + 8 + 8 + 8);
    for (std::uint64_t i = 0; i < functions && !reader_.failed(); ++i) {
      module.kernels.emplace_back(reader_.read_string());
      reader_.read_string();  // FunctionInfo.name repeats the key of the map.
      reader_.take(reader_.read_count(4) * 4);
      read_strings();
    }
    module.code_bytes = reader_.read_string().size();
    blob_.device_modules.push_back(std::move(module));
    return {};
  }

  /// Constants are skipped; a symbol that wants them needs TVM's object system.
  Status read_constants() {
    read_strings();
    const std::uint64_t arrays = reader_.read_count(8);
    for (std::uint64_t i = 0; i < arrays; ++i) {
      Result<Tensor> tensor = read_ndarray(reader_, "constant " + std::to_string(i));
      if (!tensor) return fail_entry(tensor.error().message);
    }
    const std::vector<std::string> symbols = read_strings();
    const std::uint64_t lists = reader_.read_count(8);
    for (std::uint64_t i = 0; i < lists && !reader_.failed(); ++i) read_strings();
    if (!symbols.empty() && !reader_.failed()) {
      return fail_entry(
          "external module \"" + one_line(symbols.front(), 60) +
          "\" wants constants as TVM objects; compile without external code generators");
    }
    return {};
  }

  Status check_tree() const {
    const std::vector<std::uint64_t>& row = blob_.import_row_ptr;
    if (row.empty()) return {};
    std::uint64_t modules = 0;
    for (const std::string& key : blob_.keys) modules += key != "_import_tree" ? 1u : 0u;
    bool ok =
        row.size() == modules + 1 && row.front() == 0 && row.back() == blob_.import_children.size();
    for (std::size_t i = 1; i < row.size(); ++i) ok = ok && row[i - 1] <= row[i];
    for (const std::uint64_t child : blob_.import_children) ok = ok && child < modules;
    if (!ok)
      return fail("the import tree does not fit its " + std::to_string(modules) + " modules");
    return {};
  }

  ByteReader reader_;
  const std::string& where_;
  Blob blob_;
  bool has_library_ = false;
  std::uint64_t position_ = 0;
  std::size_t entry_offset_ = 0;
  std::string key_;
};

}  // namespace

Result<Blob> parse_blob(std::span<const std::byte> bytes, const std::string& where) {
  return BlobParser(bytes, where).parse();
}

}  // namespace opmeter::runtime
