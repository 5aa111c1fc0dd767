// SPDX-License-Identifier: Apache-2.0
// Connects a process to its session, and an exec'ed image to that of the image before.
#include <fcntl.h>
#include <sys/stat.h>

#include <cstring>
#include <new>

#include "profiler/recorder/internal.h"
#include "profiler/recorder/modules.h"
#include "profiler/recorder/stack_capture.h"

namespace opmeter::recorder {
namespace {

constinit Gate g_closed{};

/// Maps the session file named in the environment. Null when there is none or it is not ours.
SessionHeader* map_session(const char* const* environment) {
  constexpr size_t kNameLength = sizeof kSessionEnv - 1;
  const char* path = nullptr;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    if (std::strncmp(*environment, kSessionEnv, kNameLength) == 0 &&
        (*environment)[kNameLength] == '=') {
      path = *environment + kNameLength + 1;
    }
  }
  if (path == nullptr || *path == 0) return nullptr;
  const int fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC));
  if (fd < 0) return nullptr;
  struct stat st;
  void* at = nullptr;
  if (fstat(fd, &st) == 0 && static_cast<size_t>(st.st_size) >= kHeaderBytes) {
    at = map_file(fd, static_cast<size_t>(st.st_size));
  }
  syscall(SYS_close, fd);
  if (at == nullptr) return nullptr;
  auto* header = static_cast<SessionHeader*>(at);
  if (header->magic == kSessionMagic &&
      static_cast<size_t>(st.st_size) == session_bytes(header->chunk_count)) {
    return header;
  }
  unmap(at, static_cast<size_t>(st.st_size));
  return nullptr;
}

/// The previous image of this process left its chunks behind: hand them to the drain.
void bury_previous_image() {
  Chunk* chunks = session_chunks(g_session);
  for (uint32_t i = 0; i < g_session->chunk_count; ++i) {
    ChunkState owned = ChunkState::kOwned;
    chunks[i].header.state.compare_exchange_strong(owned, ChunkState::kFull);
  }
}

}  // namespace

constinit Gate* g_gate = &g_closed;
constinit SessionHeader* g_session = nullptr;

SessionHeader* session() { return g_session; }
bool recording() { return g_gate->recording.load(std::memory_order_relaxed); }

bool start(const char* const* environment) {
  const KeepErrno keep;
  g_session = map_session(environment);
  if (g_session == nullptr) return false;
  const auto pid = static_cast<int32_t>(syscall(SYS_getpid));
  int32_t owner = 0;
  const bool first = g_session->owner_pid.compare_exchange_strong(owner, pid);
  if (!first && owner != pid) return false;  // a child or another program of the same environment
  void* gate = map_pages(4096);
  if (gate == nullptr || !modules_start() || !stacks_start()) return false;
  madvise(gate, 4096, MADV_WIPEONFORK);
  thread_states_start();
  g_gate = new (gate) Gate{};

  t_tls.busy = true;
  if (!first) bury_previous_image();
  g_session->images.fetch_add(1);
  g_gate->recording.store(true, std::memory_order_relaxed);
  if (ThreadState* t = attach_thread(); t != nullptr) {
    if (!first) {
      record_event(t, EventKind::kExec, 0, 0, 0);
      const uint32_t last = g_session->epoch.fetch_add(1);
      uint8_t buffer[32];
      trace::ByteSink sink(buffer, sizeof buffer);
      sink.varint(0);  // every module
      sink.varint(last);
      record_payload(t, trace::DefinitionTag::kModuleUnload, sink.data(), sink.size());
    }
    modules_refresh(t);
  }
  t_tls.busy = false;
  return true;
}

}  // namespace opmeter::recorder
