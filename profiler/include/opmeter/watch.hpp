// SPDX-License-Identifier: Apache-2.0
// watch.hpp: which allocations happen in a scope on this thread, asked inside the process itself
// (C++14). AllocationWatch is for any test framework; opmeter/gtest.hpp builds on it. Needs
// Opmeter's hooks in the process: link opmeter::hooks, or preload libopmeter_preload.so.
#ifndef OPMETER_WATCH_HPP_
#define OPMETER_WATCH_HPP_

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "opmeter/opmeter.hpp"

/// What libopmeter_symbols.so exports as "opm_symbolize_v1": calls `found` for each function at
/// `return_address`, inlined ones first; strings are "" where unknown and live as long as the call.
using opm_symbol_found = void (*)(void* user, const char* function, const char* file,
                                  std::uint32_t line);
using opm_symbolize_v1_fn = void (*)(const void* return_address, opm_symbol_found found,
                                     void* user);

namespace opmeter {

/// Whether the hooks are in this process and see its malloc and operator new; asked once. False
/// with them in the process means that another definition comes first: a sanitizer's, or an
/// allocator linked into the executable.
inline bool allocations_are_watched() {
  static const bool watched = [] {
    // Through volatile pointers: compilers leave out pairs whose block nobody uses.
    void* (*volatile c_allocate)(std::size_t) = std::malloc;
    void (*volatile c_release)(void*) = std::free;
    void* (*volatile cxx_allocate)(std::size_t) = ::operator new;
    void (*volatile cxx_release)(void*) = ::operator delete;
    opm_watch watch{};
    watch.struct_size = sizeof watch;
    if (!opm_watch_begin(&watch)) return false;
    c_release(c_allocate(1));
    cxx_release(cxx_allocate(1));
    opm_watch_end(&watch);
    return watch.calls == 2 && watch.frees == 2;
  }();
  return watched;
}

/// Why not, in one sentence.
inline const char* why_not_watched() {
  return opm_api_table == nullptr || opm_api_table->watch_begin == nullptr
             ? "Allocations cannot be seen: Opmeter's hooks are not in this process. Link "
               "opmeter::hooks, or run it with LD_PRELOAD=/path/to/libopmeter_preload.so."
             : "Allocations cannot be seen: Opmeter's hooks are in this process, but malloc or "
               "operator new is defined before them (by a sanitizer, or an allocator linked into "
               "the executable).";
}

namespace detail {

/// A function of a call stack, for people.
struct NamedFrame {
  std::string function;  ///< "" = unknown
  std::string place;     ///< file:line, or module+offset
};

inline opm_symbolize_v1_fn find_symbolizer() {
  // Beside the hooks' library; its libraries (elfutils) are wanted only when there is something to
  // say.
  void* ours = nullptr;
  Dl_info info;
  std::memcpy(&ours, &opm_api_table->watch_begin, sizeof ours);
  if (dladdr(ours, &info) == 0 || info.dli_fname == nullptr) return nullptr;
  std::string path = info.dli_fname;
  const std::string::size_type slash = path.rfind('/');
  path.replace(slash == std::string::npos ? 0 : slash + 1, std::string::npos,
               "libopmeter_symbols.so");
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* symbol = library == nullptr ? nullptr : dlsym(library, "opm_symbolize_v1");
  opm_symbolize_v1_fn function = nullptr;
  std::memcpy(&function, &symbol, sizeof function);
  return function;
}

inline void add_frame(void* frames, const char* function, const char* file, std::uint32_t line) {
  std::string place = file;
  if (line != 0) place += ":" + std::to_string(line);
  static_cast<std::vector<NamedFrame>*>(frames)->push_back({function, place});
}

/// What the loader knows: exported functions, else the module and the offset in it.
inline NamedFrame frame_by_loader(const void* return_address) {
  Dl_info info;
  const auto pc = reinterpret_cast<std::uintptr_t>(return_address) - 1;
  if (dladdr(reinterpret_cast<const void*>(pc), &info) == 0) return {"", "(unknown module)"};
  NamedFrame frame;
  if (info.dli_sname != nullptr) {
    int status = -1;
    char* name = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
    frame.function = status == 0 ? name : info.dli_sname;
    std::free(name);
  }
  char offset[32];
  std::snprintf(
      offset, sizeof offset, "+0x%llx",
      static_cast<unsigned long long>(pc - reinterpret_cast<std::uintptr_t>(info.dli_fbase)));
  const char* slash = std::strrchr(info.dli_fname, '/');
  frame.place = (slash == nullptr ? info.dli_fname : slash + 1) + std::string(offset);
  return frame;
}

inline std::vector<NamedFrame> name_frames(void* const* frames, std::uint32_t count) {
  static const opm_symbolize_v1_fn symbolize = find_symbolizer();
  std::vector<NamedFrame> named;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::size_t before = named.size();
    if (symbolize != nullptr) symbolize(frames[i], add_frame, &named);
    if (named.size() == before || (named.back().function.empty() && named.back().place.empty())) {
      named.resize(before);
      named.push_back(frame_by_loader(frames[i]));
    } else if (named.back().place.empty()) {
      named.back().place = frame_by_loader(frames[i]).place;
    }
  }
  return named;
}

inline bool begins_with(const std::string& text, const char* prefix) {
  return text.compare(0, std::strlen(prefix), prefix) == 0;
}

/// Of a chain of C++ library functions only the one that the program called says something.
inline bool is_library_internal(const std::string& function) {
  // A template's name begins with its return type: "void std::vector<...>::push_back(...)".
  const std::string name = function.substr(0, function.find('('));
  return begins_with(name, "std::") || begins_with(name, "__gnu_cxx::") ||
         begins_with(name, "void std::") || name.find(" std::") < name.find('<');
}

inline std::string shortened(std::string text, std::size_t limit) {
  if (text.size() <= limit) return text;
  text.resize(limit - 3);
  return text + "...";
}

inline std::string plural(std::uint64_t n, const char* one) {
  return std::to_string(n) + " " + one + (n == 1 ? "" : "s");
}

}  // namespace detail

/// Watches the calling thread from its constructor to stop(), or to its destructor. Other threads,
/// also those that the scope starts, are not seen. Needs no memory of its own: it holds room for
/// the first kDescribed allocations with their stacks, about 9 KB on the stack.
class AllocationWatch {
 public:
  static constexpr std::uint32_t kDescribed = 32;

  AllocationWatch() {
    watch_.struct_size = sizeof watch_;
    watch_.capacity = kDescribed;
    watch_.allocations = allocations_;
    open_ = allocations_are_watched() && opm_watch_begin(&watch_);
    possible_ = open_;
  }
  ~AllocationWatch() { stop(); }
  AllocationWatch(const AllocationWatch&) = delete;
  AllocationWatch& operator=(const AllocationWatch&) = delete;

  void stop() noexcept {
    if (open_) opm_watch_end(&watch_);
    open_ = false;
  }
  /// False = nothing was watched, and the counts mean nothing: why_not_watched().
  bool possible() const noexcept { return possible_; }

  std::uint64_t allocations() const noexcept { return watch_.calls; }
  std::uint64_t bytes() const noexcept { return watch_.bytes; }
  std::uint64_t failed() const noexcept { return watch_.failed; }
  std::uint64_t frees() const noexcept { return watch_.frees; }
  /// allocations() as the hooks saw them, and the first of them in detail.
  const opm_watch& details() const noexcept { return watch_; }

  /// Size, entry point and call stack of each different allocation, the first `most` of them; call
  /// it after stop(), because it allocates. Stacks end before functions that begin with
  /// `framework`, such as "testing::".
  std::string describe(const char* framework = nullptr, std::size_t most = 8) const {
    std::string text;
    std::size_t shown = 0;
    std::uint64_t told = 0;
    for (std::uint32_t i = 0; i < watch_.described; ++i) {
      std::uint64_t times = 0;
      bool first = true;
      for (std::uint32_t j = 0; j < watch_.described; ++j) {
        if (!same(allocations_[i], allocations_[j])) continue;
        first = first && j >= i;
        ++times;
      }
      if (!first) continue;
      if (shown++ == most) break;
      told += times;
      append(text, allocations_[i], times, framework);
    }
    const std::uint64_t all = watch_.calls + watch_.failed;
    if (told < all) text += "  and " + std::to_string(all - told) + " more\n";
    return text;
  }

 private:
  static bool same(const opm_allocation& a, const opm_allocation& b) {
    return a.bytes == b.bytes && a.failed == b.failed && a.frame_count == b.frame_count &&
           std::strcmp(a.entry_point, b.entry_point) == 0 &&
           std::memcmp(a.frames, b.frames, a.frame_count * sizeof a.frames[0]) == 0;
  }

  /// A template's name begins with its return type: "void testing::internal::...".
  static bool is_framework(const std::string& name, const char* framework) {
    if (detail::begins_with(name, "__libc_start_")) return true;
    if (framework == nullptr) return false;
    return detail::begins_with(name, framework) ||
           detail::begins_with(name.substr(name.find(' ') + 1), framework);
  }

  static void append(std::string& text, const opm_allocation& a, std::uint64_t times,
                     const char* framework) {
    constexpr std::size_t kMostFrames = 12, kLongestName = 100;
    text += std::string("  ") + a.entry_point + " of " + detail::plural(a.bytes, "byte") +
            (a.failed != 0 ? ", refused" : "") +
            (times > 1 ? ", " + std::to_string(times) + " times" : "") + "\n";
    const std::vector<detail::NamedFrame> frames = detail::name_frames(a.frames, a.frame_count);
    std::size_t lines = 0;
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const std::string& name = frames[i].function;
      if (is_framework(name, framework)) break;
      if (i + 1 < frames.size() && detail::is_library_internal(name) &&
          detail::is_library_internal(frames[i + 1].function)) {
        continue;
      }
      if (lines++ == kMostFrames) {
        text += "      ...\n";
        break;
      }
      text += "      " + (name.empty() ? "" : detail::shortened(name, kLongestName) + "  ") +
              frames[i].place + "\n";
    }
    if (a.frame_count == 0) text += "      (no call stack)\n";
  }

  opm_watch watch_{};
  bool open_ = false;
  bool possible_ = false;
  opm_allocation allocations_[kDescribed];
};

}  // namespace opmeter

#endif  // OPMETER_WATCH_HPP_
