// SPDX-License-Identifier: Apache-2.0
// A new_handler that allocates, and allocations in a catch block: both arrive while the interposer
// may believe that an operator new still runs.
#include <cstdint>
#include <cstdlib>
#include <new>

static void* volatile sink;
static int handled = 0;

static void give_way() {
  sink = std::malloc(10271);
  if (++handled == 2) throw std::bad_alloc();
}

[[gnu::noinline]] static void deeper(int levels) {
  volatile char room[256];
  room[0] = static_cast<char>(levels);
  if (levels > 0) {
    deeper(levels - 1);
  } else {
    sink = std::malloc(10273);
  }
  room[1] = room[0];
}

int main() {
  std::set_new_handler(give_way);
  volatile std::size_t huge = static_cast<std::size_t>(PTRDIFF_MAX) - 4096;
  try {
    sink = ::operator new(huge);
  } catch (const std::bad_alloc&) {
    deeper(20);  // below the frame of the operator new that threw
  }
  return handled == 2 ? 0 : 1;
}
