// SPDX-License-Identifier: Apache-2.0
// Five small programs whose heap traffic is the same in every run, for the comparison with
// memcheck's totals.
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

/// Growing and shrinking reallocs, strings, stdio.
int text() {
  char* line = nullptr;
  size_t room = 0;
  size_t total = 0;
  FILE* self =
      fopen("/proc/self/maps", "r");  // content varies, so it is not read: only the buffer counts
  if (self != nullptr) fclose(self);
  for (int i = 1; i < 400; ++i) {
    char number[16];
    snprintf(number, sizeof number, "%d", i * i);
    char* copy = strdup(number);
    const size_t n = strlen(copy);
    if (total + n + 1 > room) line = static_cast<char*>(realloc(line, room = 2 * room + n + 1));
    memcpy(line + total, copy, n + 1);
    total += n;
    free(copy);
  }
  line = static_cast<char*>(realloc(line, total + 1));
  printf("%zu\n", total);
  free(line);
  return 0;
}

/// Containers, exceptions, shared ownership.
int containers() {
  std::map<int, std::string> words;
  for (int i = 0; i < 500; ++i)
    words[i * 7919 % 1009] = std::string(static_cast<size_t>(i % 90), 'x');
  std::vector<std::shared_ptr<std::vector<double>>> rows;
  for (size_t i = 0; i < 64; ++i) rows.push_back(std::make_shared<std::vector<double>>(i * 17));
  int caught = 0;
  for (int i = 0; i < 10; ++i) {
    try {
      throw std::string(100, 'e');
    } catch (const std::string& e) {
      caught += static_cast<int>(e.size());
    }
  }
  printf("%zu %zu %d\n", words.size(), rows.size(), caught);
  return 0;
}

/// Aligned blocks of every kind, kept in a list and freed in another order.
int aligned() {
  std::vector<void*> blocks;
  for (size_t i = 1; i <= 200; ++i) {
    void* p = nullptr;
    if (posix_memalign(&p, 64, i * 100) == 0) blocks.push_back(p);
    blocks.push_back(aligned_alloc(128, i * 128));
    blocks.push_back(memalign(32, i * 3));
    blocks.push_back(calloc(i, 11));
    blocks.push_back(reallocarray(nullptr, i, 13));
  }
  std::sort(blocks.begin(), blocks.end());
  for (void* p : blocks) free(p);
  printf("%zu\n", blocks.size());
  return 0;
}

/// Two threads that allocate, hand blocks over and free each other's.
int threads() {
  std::vector<void*> first(1000), second(1000);
  const auto fill = [](std::vector<void*>& list, size_t scale) {
    for (size_t i = 0; i < list.size(); ++i) list[i] = malloc(i * scale + 1);
  };
  const auto drop = [](std::vector<void*>& list) {
    for (void*& p : list) p = realloc(p, 77);
    for (void* p : list) free(p);
  };
  std::thread a(fill, std::ref(first), 3), b(fill, std::ref(second), 5);
  a.join();
  b.join();
  std::thread c(drop, std::ref(second)), d(drop, std::ref(first));
  c.join();
  d.join();
  puts("threads");
  return 0;
}

/// Many sizes, zero included, leaks included.
int leaks() {
  unsigned state = 12345;
  void* kept[64] = {};
  for (int i = 0; i < 20000; ++i) {
    state = state * 1103515245u + 12345u;
    const size_t slot = state >> 26;
    free(kept[slot]);
    kept[slot] = malloc((state >> 10) % 5000);
  }
  puts("leaks");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string which = argc > 1 ? argv[1] : "";
  if (which == "text") return text();
  if (which == "containers") return containers();
  if (which == "aligned") return aligned();
  if (which == "threads") return threads();
  if (which == "leaks") return leaks();
  return 2;
}
