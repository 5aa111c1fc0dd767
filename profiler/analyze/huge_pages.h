// SPDX-License-Identifier: Apache-2.0
// Memory for large tables that are used at random places: asks for huge pages, because with small
// ones every access costs a walk through the page tables besides.
#ifndef OPMETER_PROFILER_ANALYZE_HUGE_PAGES_H_
#define OPMETER_PROFILER_ANALYZE_HUGE_PAGES_H_

#include <sys/mman.h>

#include <cstddef>
#include <new>

namespace opmeter::analyze {

/// An allocator for standard containers. What is small comes from operator new as ever.
template <typename T>
struct HugePages {
  using value_type = T;
  static constexpr size_t kPage = size_t{2} << 20;

  HugePages() = default;
  template <typename U>
  HugePages(const HugePages<U>&) {}

  T* allocate(size_t n) {
    const size_t bytes = n * sizeof(T);
    const size_t alignment = alignment_of(bytes);
    void* at = ::operator new (bytes, std::align_val_t{alignment});
    if (alignment == kPage) madvise(at, bytes, MADV_HUGEPAGE);  // a wish: no harm if refused
    return static_cast<T*>(at);
  }
  void deallocate(T* at, size_t n) {
    const size_t bytes = n * sizeof(T);
    ::operator delete (at, bytes, std::align_val_t{alignment_of(bytes)});
  }

  friend bool operator==(const HugePages&, const HugePages&) { return true; }

 private:
  static size_t alignment_of(size_t bytes) { return bytes >= 2 * kPage ? kPage : alignof(T); }
};

}  // namespace opmeter::analyze

#endif  // OPMETER_PROFILER_ANALYZE_HUGE_PAGES_H_
