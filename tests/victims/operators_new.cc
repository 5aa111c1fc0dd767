// SPDX-License-Identifier: Apache-2.0
// Every replaceable form of operator new and delete once, each with a prime size of its own; a
// throwing new that throws.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <new>

static void* volatile sink;

int main() {
  using std::align_val_t;
  using std::nothrow;
  void* p;
  sink = p = ::operator new(20021);
  ::operator delete(p);
  sink = p = ::operator new[](20023);
  ::operator delete[](p);
  sink = p = ::operator new(20029, nothrow);
  ::operator delete(p, nothrow);
  sink = p = ::operator new[](20047, nothrow);
  ::operator delete[](p, nothrow);
  sink = p = ::operator new (20051, align_val_t{64});
  ::operator delete (p, align_val_t{64});
  sink = p = ::operator new[](20063, align_val_t{64});
  ::operator delete[](p, align_val_t{64});
  sink = p = ::operator new (20071, align_val_t{128}, nothrow);
  ::operator delete (p, align_val_t{128}, nothrow);
  sink = p = ::operator new[](20089, align_val_t{128}, nothrow);
  ::operator delete[](p, align_val_t{128}, nothrow);
  sink = p = ::operator new(20101);
  ::operator delete (p, std::size_t{20101});
  sink = p = ::operator new[](20107);
  ::operator delete[](p, std::size_t{20107});
  sink = p = ::operator new (20113, align_val_t{64});
  ::operator delete (p, std::size_t{20113}, align_val_t{64});
  sink = p = ::operator new[](20117, align_val_t{64});
  ::operator delete[](p, std::size_t{20117}, align_val_t{64});

  // An exception through the hook: recording goes on afterwards.
  volatile std::size_t huge = static_cast<std::size_t>(PTRDIFF_MAX) - 4096;
  int caught = 0;
  for (int i = 0; i < 3; ++i) {
    try {
      sink = ::operator new(huge);
    } catch (const std::bad_alloc&) {
      ++caught;
    }
  }
  sink = p = ::operator new(20123);
  ::operator delete(p);
  std::printf("%d\n", caught);
  return caught == 3 ? 0 : 1;
}
