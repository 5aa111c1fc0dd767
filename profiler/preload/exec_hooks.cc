// SPDX-License-Identifier: Apache-2.0
// The exec family, only to be counted: when the new program does not load the interposer (another
// environment, statically linked, set-id), nothing else would tell that recording ended there. Safe
// in a child of vfork: nothing but the real call, and two system calls. Zone a.
#include <alloca.h>
#include <errno.h>
#include <stdarg.h>
#include <unistd.h>

#include "profiler/preload/hooks.h"
#include "profiler/recorder/exec.h"

namespace opmeter::preload {
namespace {

/// `call` returns only when it has failed.
template <typename Function, typename... Arguments>
int counted(const char* path, Function function, Arguments... arguments) {
  if (function == nullptr) {
    errno = ENOSYS;
    return -1;
  }
  recorder::exec_begins(path);
  const int result = function(arguments...);
  recorder::exec_failed();
  return result;
}

/// Words of an execl call, with the null that ends them. `rest` is used up by it.
size_t count_words(const char* first, va_list rest) {
  size_t count = 1;
  for (const char* word = first; word != nullptr; word = va_arg(rest, const char*)) ++count;
  return count;
}

void take_words(const char* first, va_list rest, char** words) {
  for (const char* word = first; word != nullptr; word = va_arg(rest, const char*)) {
    *words++ = const_cast<char*>(word);
  }
  *words = nullptr;
}

}  // namespace
}  // namespace opmeter::preload

using namespace opmeter::preload;  // NOLINT: the hooks below must be global

// The words of a variadic call as an array on this frame, which lives as long as the exec needs it.
#define OPM_TAKE_WORDS(first, words)                                 \
  va_list rest;                                                      \
  va_start(rest, first);                                             \
  const size_t count = count_words(first, rest);                     \
  va_end(rest);                                                      \
  char** words = static_cast<char**>(alloca(count * sizeof(char*))); \
  va_start(rest, first);                                             \
  take_words(first, rest, words)

OPM_HOOK int execve(const char* path, char* const* words, char* const* environment) {
  const RealFunctions* next = real();
  return counted(path, next != nullptr ? next->execve : nullptr, path, words, environment);
}

OPM_HOOK int execv(const char* path, char* const* words) {
  const RealFunctions* next = real();
  return counted(path, next != nullptr ? next->execv : nullptr, path, words);
}

OPM_HOOK int execvp(const char* file, char* const* words) {
  const RealFunctions* next = real();
  return counted(file, next != nullptr ? next->execvp : nullptr, file, words);
}

OPM_HOOK int execvpe(const char* file, char* const* words, char* const* environment) {
  const RealFunctions* next = real();
  return counted(file, next != nullptr ? next->execvpe : nullptr, file, words, environment);
}

OPM_HOOK int fexecve(int fd, char* const* words, char* const* environment) {
  const RealFunctions* next = real();
  return counted("an open file", next != nullptr ? next->fexecve : nullptr, fd, words, environment);
}

OPM_HOOK int execl(const char* path, const char* first, ...) {
  OPM_TAKE_WORDS(first, words);
  va_end(rest);
  return execv(path, words);
}

OPM_HOOK int execlp(const char* file, const char* first, ...) {
  OPM_TAKE_WORDS(first, words);
  va_end(rest);
  return execvp(file, words);
}

OPM_HOOK int execle(const char* path, const char* first, ...) {
  OPM_TAKE_WORDS(first, words);
  char* const* environment = va_arg(rest, char* const*);
  va_end(rest);
  return execve(path, words, environment);
}
