// SPDX-License-Identifier: Apache-2.0
// A library whose inlined calls, plain functions and local labels symbolize_test looks up. Built
// with -O2 -g, stripped of everything but .dynsym, and with its debug information set apart. The
// marked lines are found by the test through their marks.
#include <cstddef>

#if defined(__x86_64__)
#define FIXTURE_HERE "leaq 0(%%rip), %0"
#elif defined(__aarch64__)
#define FIXTURE_HERE "adr %0, ."
#endif

namespace fixture {

volatile int sink = 0;

__attribute__((always_inline)) inline const void* here(int amount) {
  sink = amount;
  const void* address = nullptr;
  asm volatile(FIXTURE_HERE : "=r"(address));  // MARK innermost
  return address;
}

__attribute__((always_inline)) inline const void* middle(int amount) {
  return here(amount + 1);  // MARK middle
}

/// An address inside here() inlined into middle() inlined into this.
__attribute__((noinline, visibility("default"))) const void* outer(int amount) {
  const void* address = middle(amount * 2);  // MARK outer
  sink = amount;
  return address;
}

/// An address inside a function that only .symtab knows.
__attribute__((noinline)) static const void* hidden_function() {
  const void* address = nullptr;
  asm volatile(FIXTURE_HERE : "=r"(address));
  return address;
}

template <typename T>
struct Wrapper {
  __attribute__((noinline)) static const void* call(T value) {
    const auto lambda = [value]() __attribute__((noinline)) {
      sink = static_cast<int>(value);
      const void* address = nullptr;
      asm volatile(FIXTURE_HERE : "=r"(address));
      return address;
    };
    return lambda();
  }
};

}  // namespace fixture

extern "C" {
__attribute__((visibility("default"))) const void* fixture_inlined() { return fixture::outer(3); }
__attribute__((visibility("default"))) const void* fixture_hidden() {
  return fixture::hidden_function();
}
__attribute__((visibility("default"))) const void* fixture_lambda() {
  return fixture::Wrapper<long>::call(5);
}
}
