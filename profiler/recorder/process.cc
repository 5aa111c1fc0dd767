// SPDX-License-Identifier: Apache-2.0
// A process begins to record: its first image, an exec'ed one, a forked child. Connects each to its
// session.
#include <pthread.h>

#include <cstring>
#include <new>

#include "profiler/recorder/exec.h"
#include "profiler/recorder/follow.h"
#include "profiler/recorder/internal.h"
#include "profiler/recorder/modules.h"
#include "profiler/recorder/selection.h"
#include "profiler/recorder/stack_capture.h"

namespace opmeter::recorder {
namespace {

constinit Gate g_closed{};

/// The value of kSessionEnv; null when there is none.
const char* session_path(const char* const* environment) {
  constexpr size_t kNameLength = sizeof kSessionEnv - 1;
  const char* path = nullptr;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    if (std::strncmp(*environment, kSessionEnv, kNameLength) == 0 &&
        (*environment)[kNameLength] == '=') {
      path = *environment + kNameLength + 1;
    }
  }
  return path == nullptr || *path == 0 ? nullptr : path;
}

/// The previous image of this process left its chunks behind: hand them to the drain.
void bury_previous_image() {
  Chunk* chunks = session_chunks(g_session);
  for (uint32_t i = 0; i < g_session->chunk_count; ++i) {
    ChunkState owned = ChunkState::kOwned;
    chunks[i].header.state.compare_exchange_strong(owned, ChunkState::kFull);
  }
}

constinit SessionHeader* g_root = nullptr;  ///< the main program's session, ours or an ancestor's
using Facts = void (*)();
constinit Facts g_facts = nullptr;

void open_gate() {
  constexpr uint32_t kNotPlain =
      kFreeStacks | kNoStacks | kVerifyStacks | kFramePointers | kTimeCalls | kScopeRuns;
  g_gate->plainly.store((g_session->flags & kNotPlain) == 0 && g_session->sample_bytes == 0,
                        std::memory_order_relaxed);
  g_gate->recording.store(true, std::memory_order_relaxed);
}

/// Recording begins: in a process's first image, in one that was exec'ed, in a forked child.
void begin(bool forked) {
  t_tls.busy = true;
  const bool first = g_session->images.fetch_add(1) == 0;
  if (!first) bury_previous_image();
  open_gate();
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
    forked ? modules_restart(t) : modules_refresh(t);
    if (g_session != g_root) describe_child(t);
  }
  t_tls.busy = false;
  if (g_facts != nullptr) g_facts();
}

void before_fork() {
  const KeepErrno keep;
  if (!recording() || (g_root->flags & kFollow) == 0) return;
  g_root->forks_pending.fetch_add(1);
  modules_before_fork();
}

void after_fork_in_parent() { modules_after_fork(); }

/// Only the thread that forked exists here; whatever others held stays held.
void after_fork_in_child() {
  const KeepErrno keep;
  // The rings are the parent's. A signal handler that forks may return into the parent's half
  // written event: that must go nowhere.
  const size_t chunks = session_bytes(g_session->chunk_count) - kHeaderBytes;
  replace_by_private_pages(session_chunks(g_session), chunks);
  modules_after_fork();
  thread_states_restart();
  const bool wanted = (g_root->flags & kFollow) != 0 && g_root->stopped.load() == 0;
  SessionHeader* session = wanted ? claim_session(g_root) : nullptr;
  if (wanted) g_root->forks_pending.fetch_sub(1);
  if (session == nullptr) {
    g_root->children_unrecorded.fetch_add(1);
    return;  // the gate is closed: the kernel wiped its page
  }
  g_session = session;
  stacks_restart();
  selection_restart();
  begin(true);
}

}  // namespace

constinit Gate* g_gate = &g_closed;

void close_gate() {
  g_gate->plainly.store(false, std::memory_order_relaxed);
  g_gate->recording.store(false, std::memory_order_relaxed);
}
constinit SessionHeader* g_session = nullptr;

bool start(const char* const* environment, void (*facts)()) {
  const KeepErrno keep;
  const char* path = session_path(environment);
  g_root = path == nullptr ? nullptr : map_session(path);
  if (g_root == nullptr) return false;
  const auto pid = static_cast<int32_t>(syscall(SYS_getpid));
  int32_t owner = 0;
  if (g_root->owner_pid.compare_exchange_strong(owner, pid) || owner == pid) {
    g_session = g_root;
  } else {  // a child, or another program that got the environment
    if ((g_root->flags & kFollow) != 0) g_session = session_of_this_process(g_root);
    if (g_session == nullptr) {
      g_root->children_unrecorded.fetch_add(1);
      unmap(g_root, session_bytes(g_root->chunk_count));
      return false;
    }
  }
  void* gate = map_pages(4096);
  if (gate == nullptr || !modules_start() || !stacks_start()) return false;
  if (selective() && !selection_start()) return false;
  madvise(gate, 4096, MADV_WIPEONFORK);
  g_gate = new (gate) Gate{};
  thread_states_start();
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  g_facts = facts;
  begin(false);
  return true;
}

namespace {

/// Not so in a child of vfork, which calls exec on its own behalf in this process's memory.
bool is_owner() {
  return recording() && g_session->owner_pid.load(std::memory_order_relaxed) ==
                            static_cast<int32_t>(syscall(SYS_getpid));
}

}  // namespace

void exec_begins(const char* path) {
  const KeepErrno keep;
  if (path == nullptr || !is_owner()) return;
  const size_t length = strnlen(path, sizeof g_session->exec_path - 1);
  std::memcpy(g_session->exec_path, path, length);
  g_session->exec_path[length] = 0;
  g_session->execs.fetch_add(1);
}

void exec_failed() {
  const KeepErrno keep;
  if (is_owner()) g_session->execs.fetch_sub(1);
}

void clock_forbidden() {
  if (!is_owner()) return;
  g_session->clock_forbidden.store(1);
  close_gate();
}

void clock_allowed() {
  if (g_session == nullptr || g_session->clock_forbidden.load() == 0) return;
  g_session->clock_forbidden.store(0);
  open_gate();
}

}  // namespace opmeter::recorder
