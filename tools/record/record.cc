// SPDX-License-Identifier: Apache-2.0
#include "tools/record/record.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "profiler/recorder/clock.h"
#include "profiler/recorder/drain.h"
#include "tools/record/followers.h"
#include "tools/record/trace_facts.h"

namespace opmeter::tools {
namespace {

namespace fs = std::filesystem;

volatile sig_atomic_t g_forward_to = 0;
volatile sig_atomic_t g_interrupted = 0;
volatile sig_atomic_t g_flush = 0;

/// SIGINT and SIGQUIT from the terminal reach the program by its process group; others are passed
/// on.
void forward(int signal) {
  if (g_forward_to > 0) kill(static_cast<pid_t>(g_forward_to), signal);
}

void interrupt(int) { g_interrupted = 1; }
void ask_for_flush(int) { g_flush = 1; }

/// Signals while the program runs: the recorder must outlive it to drain what is left.
class SignalForwarding {
 public:
  SignalForwarding() {
    install(SIGINT, SIG_IGN, 0);
    install(SIGQUIT, SIG_IGN, 1);
    install(SIGTERM, forward, 2);
    install(SIGHUP, forward, 3);
    install(SIGXFSZ, SIG_IGN, 4);  // a file that may not grow is a write that fails
    install(SIGUSR2, ask_for_flush, 5);
  }
  ~SignalForwarding() {
    restore_in_child();
    g_forward_to = 0;
  }
  /// The program is gone, children that are followed may still run: any signal ends the wait.
  void program_ended() {
    g_forward_to = 0;
    struct sigaction action {};
    action.sa_handler = interrupt;
    for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP}) {
      sigaction(signal, &action, nullptr);
    }
  }
  void restore_in_child() const {
    const int signals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGXFSZ, SIGUSR2};
    for (int i = 0; i < 6; ++i) sigaction(signals[i], &old_[i], nullptr);
  }
  SignalForwarding(const SignalForwarding&) = delete;
  SignalForwarding& operator=(const SignalForwarding&) = delete;

 private:
  void install(int signal, void (*handler)(int), int slot) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(signal, &action, &old_[slot]);
  }
  struct sigaction old_[6]{};
};

void set_environment(const std::string& preload, const std::string& session) {
  const char* old = getenv("LD_PRELOAD");
  const std::string list = old != nullptr && *old != 0 ? preload + ":" + old : preload;
  setenv("LD_PRELOAD", list.c_str(), 1);
  setenv(recorder::kSessionEnv, session.c_str(), 1);
}

/// The file that execvp would start; "" when there is none.
std::string resolve_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), F_OK) == 0 ? name : "";
  const char* path = getenv("PATH");
  std::string rest = path != nullptr ? path : "/usr/bin:/bin";
  while (true) {
    const size_t colon = rest.find(':');
    std::string candidate = rest.substr(0, colon);
    candidate = (candidate.empty() ? "." : candidate) + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    if (colon == std::string::npos) return "";
    rest.erase(0, colon + 1);
  }
}

bool is_elf(const std::string& program) {
  std::ifstream in(program, std::ios::binary);
  char magic[SELFMAG] = {};
  in.read(magic, sizeof magic);
  return in && std::memcmp(magic, ELFMAG, SELFMAG) == 0;
}

/// The program that the kernel starts for a script's first line; "" when that has none.
std::string interpreter_of(const std::string& program) {
  const std::string line = read_first_line(program);
  if (!line.starts_with("#!")) return "";
  const size_t begin = line.find_first_not_of(" \t", 2);
  if (begin == std::string::npos) return "";
  return line.substr(begin, line.find_first_of(" \t", begin) - begin);
}

/// Why the dynamic loader did not load the interposer into `program`, as far as its file tells.
std::string why_not_recorded(const std::string& program) {
  struct stat st {};
  if (stat(program.c_str(), &st) == 0 && (st.st_mode & (S_ISUID | S_ISGID)) != 0) {
    return fmt::format("{} is a set-id program, for which the loader ignores LD_PRELOAD", program);
  }
  if (getxattr(program.c_str(), "security.capability", nullptr, 0) > 0) {
    return fmt::format("{} has file capabilities, with which the loader ignores LD_PRELOAD",
                       program);
  }
  if (const std::string interpreter = interpreter_of(program);
      !interpreter.empty() && interpreter_of(interpreter).empty()) {
    return fmt::format("{} is a script: {}", program, why_not_recorded(interpreter));
  }
  std::ifstream in(program, std::ios::binary);
  Elf64_Ehdr header{};
  in.read(reinterpret_cast<char*>(&header), sizeof header);
  if (!in || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return fmt::format("{} is no ELF program, and none came of it that loads the interposer",
                       program);
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64) {
    return fmt::format("{} is a 32-bit program and the interposer is a 64-bit library", program);
  }
#if defined(__x86_64__)
  constexpr Elf64_Half kOurMachine = EM_X86_64;
#else
  constexpr Elf64_Half kOurMachine = EM_AARCH64;
#endif
  if (header.e_machine != kOurMachine) {
    return fmt::format("{} is built for another machine (ELF machine {})", program,
                       header.e_machine);
  }
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    in.seekg(static_cast<std::streamoff>(header.e_phoff) + i * static_cast<int>(sizeof segment));
    in.read(reinterpret_cast<char*>(&segment), sizeof segment);
    if (!in) break;
    if (segment.p_type == PT_INTERP) {
      return fmt::format(
          "{} ended before the interposer was loaded, or it was started with another environment",
          program);
    }
  }
  return fmt::format("{} is statically linked: no loader, so LD_PRELOAD has no effect", program);
}

/// The program was recorded until it started `path` in its place, and nothing came of that.
std::string why_recording_ended(const std::string& path) {
  const std::string program = resolve_program(path);
  return fmt::format("nothing recorded of {}, which replaced the program, because {}", path,
                     program.empty() ? "its file is gone" : why_not_recorded(program));
}

/// Waits for the child, draining meanwhile. Returns the wait status.
int drain_until_exit(pid_t child, recorder::Drain& drain, Followers* followers) {
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  uint64_t next_names_ns = 0;
  int pause_ms = 1;
  int status = 0;
  for (;;) {
    const pid_t done = waitpid(child, &status, WNOHANG);
    if (done == child || (done < 0 && errno != EINTR)) break;
    uint64_t taken = drain.pass();
    if (g_flush != 0) {  // what was recorded until now is to be read now
      g_flush = 0;
      drain.flush();
    }
    if (followers != nullptr) taken += followers->pass();
    // Thread names may be set after the first allocation: look again now and then.
    const uint64_t now = recorder::clock_ns(CLOCK_MONOTONIC);
    if (now >= next_names_ns) {
      next_names_ns = now + 100'000'000;
      refresh_thread_names(drain, child);
    }
    if (taken > 1000) {
      pause_ms = 1;
      continue;
    }
    if (pidfd >= 0) {
      pollfd wait{pidfd, POLLIN, 0};
      poll(&wait, 1, pause_ms);
    } else {
      usleep(static_cast<useconds_t>(pause_ms) * 1000);
    }
    // Children wait for a spare session: look more often.
    pause_ms = taken == 0 ? std::min(pause_ms * 2, followers != nullptr ? 2 : 8) : 1;
  }
  if (pidfd >= 0) close(pidfd);
  return status;
}

}  // namespace

Result<std::string> find_preload_library() {
  constexpr const char* kName = "libopmeter_preload.so";
  if (const char* named = getenv("OPMETER_PRELOAD"); named != nullptr && *named != 0) {
    if (access(named, R_OK) == 0) return std::string(named);
    return unavailable_error(
        fmt::format("cannot read {} (from OPMETER_PRELOAD): {}", named, std::strerror(errno)));
  }
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  for (const char* place : {"../lib", "../lib/opmeter", "."}) {
    const fs::path candidate = (self.parent_path() / place / kName).lexically_normal();
    if (fs::exists(candidate, error)) return candidate.string();
  }
  return unavailable_error(fmt::format(
      "cannot find {} beside {}; build it (cmake --build) or name it in OPMETER_PRELOAD", kName,
      self.string()));
}

uint32_t session_flags(const RecordOptions& options) {
  uint32_t flags = 0;
  if (options.free_stacks) flags |= recorder::kFreeStacks;
  if (options.no_stacks) flags |= recorder::kNoStacks;
  if (options.frame_pointers) flags |= recorder::kFramePointers;
  if (options.verify_stacks) flags |= recorder::kVerifyStacks;
  if (options.time_calls) flags |= recorder::kTimeCalls;
  if (options.scope_runs) flags |= recorder::kScopeRuns;
  if (options.op_faults) flags |= recorder::kOpFaults;
  if (options.maps) flags |= recorder::kMapCalls;
  if (options.follow) flags |= recorder::kFollow;
  return flags;
}

Result<RecordOutcome> record(const RecordOptions& options) {
  Result<std::string> preload = find_preload_library();
  if (!preload) return preload.error();
  if (preload->find_first_of(": ") != std::string::npos) {
    return unavailable_error(fmt::format(
        "the loader cannot take a path with spaces or colons: {}; install Opmeter elsewhere",
        *preload));
  }
  RecordOutcome outcome;
  const std::string program = resolve_program(options.command.front());
  if (program.empty()) {
    outcome.exit_code = 127;
    outcome.note = fmt::format("{}: command not found", options.command.front());
    return outcome;
  }
  if (!options.output.empty() && !options.force && fs::exists(options.output)) {
    return usage_error(
        fmt::format("{} exists; use -f to replace it or -o to name another", options.output));
  }
  SignalForwarding signals;  // from here on: the session's file counts against RLIMIT_FSIZE too
  Result<recorder::Session> session =
      recorder::Session::create(options.buffer_bytes, session_flags(options));
  if (!session) return session.error();
  session->header()->sample_bytes = options.sample_bytes;
  const double ns_per_tick = recorder::calibrate_ns_per_tick(5);

  // The child waits on this pipe until the output file, whose name may hold its pid, could be
  // created; after that the close-on-exec write end of the second one reports an exec that failed.
  int go[2], failed[2];
  if (pipe2(go, O_CLOEXEC) != 0)
    return unavailable_error(fmt::format("pipe: {}", std::strerror(errno)));
  if (pipe2(failed, O_CLOEXEC) != 0) {
    const std::string why = std::strerror(errno);
    close(go[0]);
    close(go[1]);
    return unavailable_error(fmt::format("pipe: {}", why));
  }
  std::optional<Followers> followers;
  if (options.follow) {
    followers.emplace(session->header(), options, ns_per_tick);
    if (const Status spare = followers->start(); !spare) return spare.error();
  }
  const std::string session_path = session->path();
  const pid_t child = fork();
  if (child == 0) {
    signals.restore_in_child();
    close(go[1]);
    char ready = 0;
    if (read(go[0], &ready, 1) != 1) _exit(125);
    if (options.discard_stdout) {
      const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
      dup2(null, STDOUT_FILENO);
    }
    set_environment(*preload, session_path);
    std::vector<char*> argv;
    for (const std::string& arg : options.command) argv.push_back(const_cast<char*>(arg.c_str()));
    argv.push_back(nullptr);
    execv(program.c_str(), argv.data());
    // What execvp does with a script that does not name its interpreter, but not with binaries of
    // other machines.
    if (errno == ENOEXEC && !is_elf(program)) execvp(argv[0], argv.data());
    const int error = errno;
    (void)!write(failed[1], &error, sizeof error);
    _exit(error == ENOENT ? 127 : 126);
  }
  close(go[0]);
  close(failed[1]);
  if (child < 0) {
    const std::string why = std::strerror(errno);
    close(go[1]);
    close(failed[0]);
    return unavailable_error(fmt::format("cannot start {}: {}", options.command.front(), why));
  }
  g_forward_to = child;

  outcome.output = expand_output(options.output, child);
  Result<trace::TraceWriter> writer = trace::TraceWriter::create(outcome.output);
  if (!writer) {
    close(go[1]);  // the child reads end of file and leaves
    close(failed[0]);
    waitpid(child, nullptr, 0);
    return writer.error();
  }
  set_up_writer(*writer, options, ns_per_tick);
  writer->define_command(options.command);
  define_facts(*writer, options, child, ns_per_tick);
  recorder::Drain drain(session->header(), &*writer);
  (void)!write(go[1], "g", 1);
  close(go[1]);

  const int status = drain_until_exit(child, drain, followers ? &*followers : nullptr);
  drain.finish();
  int exec_error = 0;
  const bool exec_failed = read(failed[0], &exec_error, sizeof exec_error) == sizeof exec_error;
  close(failed[0]);

  outcome.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  writer->define_info("exit_code", std::to_string(outcome.exit_code));
  if (WIFSIGNALED(status)) writer->define_info("exit_signal", std::to_string(WTERMSIG(status)));
  const trace::Trailer trailer = drain.trailer();
  const Status finished = writer->finish(trailer);
  outcome.events = writer->events_written();
  outcome.file_bytes = writer->bytes_written();
  outcome.lost_events = trailer.lost_events;
  outcome.stacks_verified = session->header()->stacks_verified.load();
  outcome.stacks_different = session->header()->stacks_different.load();
  outcome.stacks_by_libunwind = session->header()->stacks_by_libunwind.load();
  outcome.recorded = session->header()->images.load() != 0;
  if (exec_failed) {
    outcome.note =
        fmt::format("cannot run {}: {}", options.command.front(), std::strerror(exec_error));
    unlink(outcome.output.c_str());
  } else if (!finished) {
    outcome.note = finished.error().message;
  } else if (!outcome.recorded) {
    outcome.note = "nothing recorded because " + why_not_recorded(program);
  } else if (session->header()->clock_forbidden.load() != 0) {
    outcome.note =
        "recording ended when the program forbade itself the time stamp counter "
        "(strict seccomp or PR_SET_TSC)";
  } else if (session->header()->execs.load() >= session->header()->images.load()) {
    outcome.note = why_recording_ended(session->header()->exec_path);
  }
  outcome.children_unrecorded = session->header()->children_unrecorded.load();
  outcome.followed = options.follow;
  if (followers) {
    signals.program_ended();
    while (!g_interrupted && followers->running()) {
      if (followers->pass() == 0) usleep(2000);
    }
    outcome.children = followers->finish();
  }
  return outcome;
}

}  // namespace opmeter::tools
