// SPDX-License-Identifier: Apache-2.0
// Known numbers of allocations by every family, for allocators that are not glibc's: 1000 by new,
// 500 by new[], 300 by aligned new, 700 by malloc, 200 by calloc, 100 by realloc, sizes by family.
#include <cstdlib>
#include <new>

static void* volatile sink;

int main() {
  void* p;
  for (int i = 0; i < 1000; ++i) {
    sink = p = ::operator new(1013);
    ::operator delete(p);
  }
  for (int i = 0; i < 500; ++i) {
    sink = p = ::operator new[](1019);
    ::operator delete[](p);
  }
  for (int i = 0; i < 300; ++i) {
    sink = p = ::operator new (1021, std::align_val_t{128});
    ::operator delete (p, std::align_val_t{128});
  }
  for (int i = 0; i < 700; ++i) {
    sink = p = std::malloc(1031);
    std::free(p);
  }
  for (int i = 0; i < 200; ++i) {
    sink = p = std::calloc(1, 1033);
    std::free(p);
  }
  for (int i = 0; i < 100; ++i) {
    sink = p = std::realloc(std::malloc(1039), 4099);
    std::free(p);
  }
  return 0;
}
