// SPDX-License-Identifier: Apache-2.0
// Allocates from stacks that deceive unwinders which guess: frames of varying size under one return
// address, realigned frames, exceptions, longjmp, handlers on an alternate stack, switched
// contexts. argv[1] = rounds.
#include <alloca.h>
#include <ucontext.h>

#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

void* volatile sink;

[[gnu::noinline]] void leaf(size_t bytes) {
  sink = std::malloc(bytes);
  std::free(sink);
}

[[gnu::noinline]] void with_alloca(size_t bytes, int depth) {
  auto* room = static_cast<volatile char*>(alloca(bytes));
  room[0] = 1;
  if (depth > 0) with_alloca(bytes * 3 % 509 + 16, depth - 1);
  leaf(64 + bytes % 7);
  room[bytes - 1] = 2;
}

struct alignas(64) Wide {
  double values[16];
};

[[gnu::noinline]] void realigned(int depth) {
  Wide wide{};
  wide.values[depth % 16] = depth;
  if (depth > 0) realigned(depth - 1);
  leaf(80);
  asm volatile("" ::"r"(&wide) : "memory");
}

[[gnu::noinline]] void throwing(int depth) {
  const std::string heap(100, 'x');
  if (depth == 0) throw std::string(200, 'y');
  throwing(depth - 1);
}

std::jmp_buf g_jump;

volatile bool g_land = true;  // always true, which a compiler need not know

[[gnu::noinline]] void jumping(int depth) {
  leaf(96);
  if (depth == 0) {
    if (g_land) std::longjmp(g_jump, 1);
  } else {
    jumping(depth - 1);
  }
  leaf(97);
}

[[gnu::noinline]] void jump_and_land(int depth) {
  if (setjmp(g_jump) == 0) jumping(depth);
}

// Two functions that reach one leaf through the same frame sizes: only the return addresses differ.
[[gnu::noinline]] void twin_a(unsigned path, int depth);
[[gnu::noinline]] void twin_b(unsigned path, int depth);
void twins(unsigned path, int depth) {
  if (depth == 0)
    leaf(112);
  else if (path & 1)
    twin_a(path >> 1, depth - 1);
  else
    twin_b(path >> 1, depth - 1);
}
void twin_a(unsigned path, int depth) {
  twins(path, depth);
  asm volatile("");
}
void twin_b(unsigned path, int depth) {
  twins(path, depth);
  asm volatile("" ::: "memory");
}

void on_signal(int) { leaf(128); }  // raised synchronously, outside malloc

ucontext_t g_main, g_other;

void other_stack() {
  for (int i = 0;; ++i) {
    with_alloca(32 + static_cast<size_t>(i % 5), 2);
    swapcontext(&g_other, &g_main);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 100;

  static char alternate[64 * 1024];
  stack_t stack{};
  stack.ss_sp = alternate;
  stack.ss_size = sizeof alternate;
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &action, nullptr);

  static char coroutine[128 * 1024];
  getcontext(&g_other);
  g_other.uc_stack.ss_sp = coroutine;
  g_other.uc_stack.ss_size = sizeof coroutine;
  g_other.uc_link = nullptr;
  makecontext(&g_other, other_stack, 0);

  for (int i = 0; i < rounds; ++i) {
    with_alloca(16 + static_cast<size_t>(i % 97), i % 9);
    realigned(i % 7);
    try {
      throwing(i % 5);
    } catch (const std::string& e) {
      leaf(e.size());
    }
    jump_and_land(i % 6);
    twins(static_cast<unsigned>(i) * 2654435761u, 12);
    raise(SIGUSR1);
    swapcontext(&g_main, &g_other);
  }
  std::puts("done");
  return 0;
}
