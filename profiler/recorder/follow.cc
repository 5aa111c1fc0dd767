// SPDX-License-Identifier: Apache-2.0
#include "profiler/recorder/follow.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstring>

#include "profiler/recorder/internal.h"

namespace opmeter::recorder {
namespace {

constexpr uint64_t kLongestWaitNs = 2'000'000'000;
constexpr size_t kPathBytes = 64;

/// Decimal digits of `value` at `out`; returns the end.
char* put_number(char* out, uint32_t value) {
  char digits[10];
  int n = 0;
  do digits[n++] = static_cast<char>('0' + value % 10);
  while ((value /= 10) != 0);
  while (n > 0) *out++ = digits[--n];
  return out;
}

char* put_text(char* out, const char* text) {
  const size_t length = std::strlen(text);
  std::memcpy(out, text, length);
  return out + length;
}

/// This process's id where the recording process would look for it: the id that /proc shows. A
/// process in a pid namespace of its own has another one for itself.
int32_t own_pid() {
  char digits[16];
  const long n = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self", digits, sizeof digits);
  int32_t pid = 0;
  for (long i = 0; i < n && digits[i] >= '0' && digits[i] <= '9'; ++i) {
    pid = pid * 10 + (digits[i] - '0');
  }
  return pid;
}

SessionHeader* map_slot(const SessionHeader* root, int32_t fd) {
  char path[kPathBytes];
  char* end = put_text(path, "/proc/");
  end = put_number(end, static_cast<uint32_t>(root->recorder_pid));
  end = put_text(end, "/fd/");
  end = put_number(end, static_cast<uint32_t>(fd));
  *end = 0;
  return map_session(path);
}

/// One look at the table. `reachable` becomes false when a session is there but cannot be mapped.
SessionHeader* try_claim(SessionHeader* root, int32_t pid, bool& reachable) {
  for (FollowSlot& slot : root->follow) {
    const int32_t fd = slot.fd.load(std::memory_order_acquire);
    if (fd <= 0 || slot.pid.load(std::memory_order_relaxed) != 0) continue;
    // Mapped first: a slot once taken cannot be given back, the recording process may have seen it.
    SessionHeader* session = map_slot(root, fd);
    if (session == nullptr) {
      reachable = slot.fd.load(std::memory_order_acquire) != fd;  // or it was gone by then
      if (!reachable) return nullptr;
      continue;
    }
    int32_t nobody = 0;
    if (slot.fd.load(std::memory_order_acquire) == fd &&
        slot.pid.compare_exchange_strong(nobody, pid)) {
      session->owner_pid.store(pid);
      return session;
    }
    unmap(session, session_bytes(session->chunk_count));
  }
  return nullptr;
}

void define_info(ThreadState* t, const char* key, const char* value) {
  trace::ByteSink sink(t->payload, sizeof t->payload);
  sink.string(key);
  sink.string(value);
  record_payload(t, trace::DefinitionTag::kInfo, sink.data(), sink.size());
}

/// Bytes read of a file, at most `room`.
size_t read_file(const char* path, char* out, size_t room) {
  const int fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
  if (fd < 0) return 0;
  size_t have = 0;
  while (have < room) {
    const long n = syscall(SYS_read, fd, out + have, room - have);
    if (n <= 0) break;
    have += static_cast<size_t>(n);
  }
  syscall(SYS_close, fd);
  return have;
}

}  // namespace

SessionHeader* map_session(const char* path) {
  const int fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC));
  if (fd < 0) return nullptr;
  struct stat st;
  size_t bytes = 0;
  void* at = nullptr;
  if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
      static_cast<size_t>(st.st_size) >= kHeaderBytes) {
    bytes = static_cast<size_t>(st.st_size);
    at = map_file(fd, bytes);
  }
  syscall(SYS_close, fd);
  if (at == nullptr) return nullptr;
  auto* header = static_cast<SessionHeader*>(at);
  if (header->magic == kSessionMagic && bytes == session_bytes(header->chunk_count)) return header;
  unmap(at, bytes);
  return nullptr;
}

SessionHeader* claim_session(SessionHeader* root) {
  const int32_t pid = own_pid();
  if (pid <= 0) return nullptr;
  const uint64_t deadline = clock_ns(CLOCK_MONOTONIC) + kLongestWaitNs;
  bool reachable = true;
  do {
    if (SessionHeader* session = try_claim(root, pid, reachable)) return session;
    if (!reachable) return nullptr;
    const timespec pause{0, 200'000};
    nanosleep(&pause, nullptr);
  } while (root->stopped.load() == 0 && clock_ns(CLOCK_MONOTONIC) < deadline);
  return nullptr;
}

SessionHeader* session_of_this_process(SessionHeader* root) {
  const int32_t pid = own_pid();
  for (FollowSlot& slot : root->follow) {
    if (pid > 0 && slot.pid.load(std::memory_order_acquire) == pid) {
      return map_slot(root, slot.fd.load(std::memory_order_acquire));
    }
  }
  return claim_session(root);
}

void describe_child(ThreadState* t) {
  // The frame buffer is free between two walks.
  auto* words = reinterpret_cast<char*>(t->frames);
  size_t size = read_file("/proc/self/cmdline", words, sizeof t->frames - 1);
  if (size != 0 && words[size - 1] != 0) words[size++] = 0;  // cut, or a title set by the program
  uint64_t count = 0;
  for (size_t i = 0; i < size; ++i) count += words[i] == 0;
  if (count != 0) {
    trace::ByteSink sink(t->payload, sizeof t->payload);
    sink.varint(count);
    for (const char* word = words; word < words + size; word += std::strlen(word) + 1) {
      sink.string(word);
    }
    if (!sink.overflow()) {
      record_payload(t, trace::DefinitionTag::kCommand, sink.data(), sink.size());
    }
  }
  char digits[16];
  *put_number(digits, static_cast<uint32_t>(syscall(SYS_getppid))) = 0;
  define_info(t, "parent_pid", digits);
}

}  // namespace opmeter::recorder
