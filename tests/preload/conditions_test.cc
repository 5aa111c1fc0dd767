// SPDX-License-Identifier: Apache-2.0
// Hard conditions: signals, small stacks, locks of the C library held by others, system calls
// refused, descriptors and environments taken away, programs that do not load the interposer.
#include <dlfcn.h>
#include <elf.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "tests/preload/recorded.h"
#include "tests/preload/replay.h"

namespace opmeter {
namespace {

using trace::Event;
using trace::EventKind;

TEST(Signals, AHandlerThatAllocatesInAnyMomentNeverHangsAndEachOfItsAllocationsIsRecorded) {
  const Recorded r = record_behind(victim("toy_allocator.so"), {victim("signals"), "150"});
  ASSERT_EQ(r.outcome.exit_code, 0);
  std::istringstream out(r.out);
  std::string word;
  size_t handled = 0, pairs = 0;
  out >> word >> handled >> word >> pairs;
  EXPECT_GT(handled, 100u);
  // A third level (a handler that interrupts the recording of a handler) is lost and counted.
  const size_t lost = r.outcome.lost_events;
  EXPECT_LE(lost, handled / 10);
  EXPECT_GE(r.allocations_of(7013).size() + lost, handled);
  EXPECT_LE(r.allocations_of(7013).size(), handled);
  EXPECT_EQ(r.allocations_of(7001).size(), pairs);
  // Some interrupted the recorder itself: they have a ring of their own.
  std::set<uint32_t> rings;
  for (const Event& e : r.allocations_of(7013)) rings.insert(e.thread);
  EXPECT_EQ(rings.size(), 2u);
  EXPECT_EQ(replay(r.events).alloc_on_live, 0u) << replay(r.events).first_trouble;
}

TEST(Signals, ErrnoMasksRoundingModeAndWaitedSignalsAreLeftAlone) {
  const Recorded r = record_program({victim("signals"), "state"});
  EXPECT_EQ(r.outcome.exit_code, 0);
  EXPECT_EQ(r.allocations_of(7001).size(), 20000u);
}

TEST(Threads, AllocationsInEveryRoundOfKeyDestructorsAreRecorded) {
  const Recorded r = record_program({victim("threads"), "destructors"});
  EXPECT_EQ(r.outcome.exit_code, 0);
  EXPECT_EQ(r.allocations_of(1013).size(), 400u);
  EXPECT_EQ(r.outcome.lost_events, 0u);
}

TEST(Threads, AThreadThatOutlivesMainIsRecordedToItsEnd) {
  const Recorded r = record_program({victim("threads"), "outlives-main"});
  EXPECT_EQ(r.outcome.exit_code, 5);
  EXPECT_EQ(r.allocations_of(1009).size(), 1000u);
}

TEST(Threads, StacksOf16KiBSufficeWithFullCallStacks) {
  const Recorded r = record_program({victim("threads"), "little-stack"});
  EXPECT_EQ(r.outcome.exit_code, 0);
  const std::vector<Event> found = r.allocations_of(1019);
  ASSERT_EQ(found.size(), 800u);
  size_t deepest = 0;
  for (const Event& e : found) {
    EXPECT_FALSE(r.stack(e.stack).cut);
    deepest = std::max(deepest, r.stack(e.stack).frames.size());
  }
  EXPECT_GE(deepest, 42u);
}

TEST(Threads, MoreThreadsThanASmallBufferHasChunksLoseNothingSilently) {
  tools::RecordOptions options;
  options.buffer_bytes = 64u * 64 * 1024;
  const Recorded r = record_program({victim("threads"), "many"}, options);
  EXPECT_EQ(r.outcome.exit_code, 0);
  EXPECT_GE(r.allocations_of(1021).size() + r.outcome.lost_events, 2000u);
  EXPECT_EQ(r.reader->quality().lost_events, r.outcome.lost_events);
}

struct Lock {
  std::vector<std::string> words;
};
void PrintTo(const Lock& lock, std::ostream* out) { *out << lock.words.front(); }
class Locks : public testing::TestWithParam<Lock> {};

TEST_P(Locks, HeldByOtherThreadsNeverHangAnAllocation) {
  std::vector<std::string> command = {victim("locks")};
  for (const std::string& word : GetParam().words) command.push_back(word);
  const Recorded r = record_program(command);
  EXPECT_EQ(r.outcome.exit_code, 0) << "142: the watchdog";
  EXPECT_GT(r.allocations_of(3001).size(), 100u);
  EXPECT_EQ(r.outcome.lost_events, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, Locks,
                         testing::Values(Lock{{"loader", victim("plugin.so")}}, Lock{{"stdio"}},
                                         Lock{{"iterate"}}),
                         [](const auto& row) { return row.param.words.front(); });

TEST(Loading, AConstructorOfPriority101InAnEarlierLibraryIsRecordedOnce) {
  const Recorded r = record_program({victim("early_constructor"), "3"});
  EXPECT_EQ(r.outcome.exit_code, 0);
  EXPECT_EQ(r.allocations_of(10223).size(), 1u);
  EXPECT_EQ(r.allocations_of(1013).size(), 1u);
}

TEST(Loading, AllocatorsMixedByDeepbindDoNotCrashAndWhatPassesUnseenIsFreedAsUnknown) {
  const Recorded r = record_program({victim("deepbind"), victim("plugin.so")});
  EXPECT_EQ(r.outcome.exit_code, 0);
  EXPECT_EQ(r.allocations_of(10243).size(), 100u);
  EXPECT_TRUE(r.allocations_of(10211).empty());
  EXPECT_EQ(r.allocations_of(20483).size(), 1u);
  const Replay played = replay(r.events);
  EXPECT_EQ(played.alloc_on_live, 0u);
  EXPECT_EQ(played.unknown_free, 101u) << "100 frees and the block that realloc took";
}

TEST(Loading, AProgramWithALibunwindOfItsOwnRunsAndIsRecorded) {
  const std::string program = victim("own_unwinder");
  if (!std::filesystem::exists(program)) GTEST_SKIP() << "no static libunwind to link";
  const Recorded r = record_program({program});
  EXPECT_EQ(r.outcome.exit_code, 0);
  const std::vector<Event> found = r.allocations_of(10253);
  ASSERT_EQ(found.size(), 100u);
  for (const Event& e : found) EXPECT_GE(r.stack(e.stack).frames.size(), 12u);
}

TEST(Loading, AddressesOfAnUnloadedLibraryAreNamedByItAndThoseOfItsSuccessorByThat) {
  const ScratchFolder folder;
  const std::string first = folder.file("first.so"), second = folder.file("second.so");
  std::filesystem::copy_file(victim("plugin.so"), first);
  std::filesystem::copy_file(victim("plugin.so"), second);
  const Recorded r = record_program({victim("reload"), first, second});
  ASSERT_TRUE(r.outcome.exit_code == 0 || r.outcome.exit_code == 77) << r.outcome.exit_code;
  for (const auto& [bytes, library] :
       std::map<uint64_t, std::string>{{10289, first}, {10301, second}}) {
    const std::vector<Event> found = r.allocations_of(bytes);
    ASSERT_EQ(found.size(), 1u);
    const trace::StackInfo& stack = r.stack(found[0].stack);
    const trace::ModuleInfo* module = r.module_of(stack.frames.front(), stack.epoch);
    ASSERT_NE(module, nullptr);
    EXPECT_EQ(module->path, library);
  }
  if (r.outcome.exit_code == 77) GTEST_SKIP() << "the loader chose another address";
}

TEST(Loading, TheInterposerOpenedLateWithoutASessionDoesNothing) {
  void* handle = dlopen(OPMETER_PRELOAD_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  void* symbol = dlsym(handle, "opm_api_v1");
  const void* (*api)() = nullptr;
  std::memcpy(&api, &symbol, sizeof symbol);
  ASSERT_NE(api, nullptr);
  (void)api();  // may serve the program's own watches; it records nothing
  symbol = dlsym(handle, "malloc");
  void* (*its_malloc)(size_t) = nullptr;
  std::memcpy(&its_malloc, &symbol, sizeof symbol);
  void* block = its_malloc(100);
  ASSERT_NE(block, nullptr);
  free(block);  // the C library's: the hook had passed the call on
}

TEST(Stacks, BelowAFunctionWithoutUnwindTablesAreWholeOrFlaggedAsCut) {
  const Recorded r = record_program({victim("no_tables")});
  EXPECT_EQ(r.outcome.exit_code, 0);
  const std::vector<Event> found = r.allocations_of(10303);
  ASSERT_EQ(found.size(), 10u);
  for (const Event& e : found) {
    const trace::StackInfo& stack = r.stack(e.stack);
    EXPECT_GE(stack.frames.size(), 4u) << "below(), enter()";
    EXPECT_TRUE(stack.cut || stack.frames.size() >= 4 + 1 + 11 + 1)
        << stack.frames.size() << " frames, and nothing says that some are missing";
  }
}

struct Refusal {
  const char* how;
  size_t in_thread;
};
void PrintTo(const Refusal& row, std::ostream* out) { *out << row.how; }
class Refused : public testing::TestWithParam<Refusal> {};

TEST_P(Refused, SystemCallsThatTheKernelRefusesTheProgramDoNotStopTheRecording) {
  const Recorded r = record_program({victim("refused"), GetParam().how});
  if (r.outcome.exit_code == 77) GTEST_SKIP() << "seccomp is not to be had here";
  EXPECT_EQ(r.outcome.exit_code, 0) << "159: the recorder made a call that kills";
  EXPECT_EQ(r.allocations_of(1009).size(), 1000u);
  EXPECT_EQ(r.allocations_of(1013).size(), GetParam().in_thread);
  EXPECT_EQ(r.outcome.lost_events, 0u);
}

INSTANTIATE_TEST_SUITE_P(AllWays, Refused,
                         testing::Values(Refusal{"eperm", 500}, Refusal{"kill", 500}),
                         [](const auto& row) { return std::string(row.param.how); });

TEST(TakenAway, TheClockByStrictSeccompEndsTheRecordingAndNotTheProgram) {
  const Recorded r = record_program({victim("refused"), "strict"});
  if (r.outcome.exit_code == 77) GTEST_SKIP() << "seccomp is not to be had here";
  EXPECT_EQ(r.outcome.exit_code, 0);
  EXPECT_EQ(r.allocations_of(1009).size(), 10u) << "until then";
  EXPECT_NE(r.outcome.note.find("time stamp counter"), std::string::npos) << r.outcome.note;
}

TEST(TakenAway, AllDescriptorsClosedByCloseRangeLoseNothing) {
  const Recorded r = record_program({victim("leaves"), "close-range"});
  if (r.outcome.exit_code == 77) GTEST_SKIP() << "no close_range in this kernel";
  EXPECT_EQ(r.outcome.exit_code, 0);
  EXPECT_EQ(r.allocations_of(1009).size(), 1000u);
}

TEST(TakenAway, DescriptorsThatTheProgramReusesGetNoByteOfOurs) {
  const ScratchFolder folder;
  const std::string file = folder.file("its-own");
  const Recorded r = record_program({victim("no_tables"), file});
  EXPECT_EQ(r.outcome.exit_code, 0);
  EXPECT_EQ(r.allocations_of(10303).size(), 10u);
  EXPECT_EQ(std::filesystem::file_size(file), 0u);
}

TEST(TakenAway, TheProgramsDescriptorsHaveTheirUsualNumbers) {
  const std::string bare = "exec 3>&- 4>&-; exec " + victim("leaves") + " descriptors";
  const Recorded r = record_program({"/bin/sh", "-c", bare});
  EXPECT_EQ(r.allocations_of(1009).size(), 1000u);
  const ScratchFolder folder;
  const std::string unrecorded = "/bin/sh -c '" + bare + "' > " + folder.file("out");
  ASSERT_EQ(std::system(unrecorded.c_str()), 0);  // NOLINT: the shell is wanted
  std::ifstream in(folder.file("out"));
  std::string line;
  std::getline(in, line);
  EXPECT_EQ(r.out, line + "\n");
}

TEST(Nested, ARecordingInsideARecordingKeepsBothTracesApart) {
  const ScratchFolder folder;
  const std::string inner = folder.file("inner.opm");
  const Recorded outer = record_program(
      {OPMETER_COMMAND, "record", "-q", "-o", inner, "--", victim("leaves"), "descriptors"});
  EXPECT_EQ(outer.outcome.exit_code, 0);
  Recorded recorded;
  read_trace(inner, recorded);
  EXPECT_EQ(recorded.allocations_of(1009).size(), 1000u);
  // The recorder in the middle may itself ask for a block of that size, but not a thousand times.
  EXPECT_LT(outer.allocations_of(1009).size(), 100u);
  EXPECT_EQ(outer.reader->definitions().command.front(), OPMETER_COMMAND);
}

TEST(TakenAway, AnExecIntoAnEmptyEnvironmentIsNamedAsTheEndOfTheRecording) {
  const Recorded r = record_program({victim("leaves"), "environment"});
  EXPECT_EQ(r.outcome.exit_code, 0);
  EXPECT_EQ(r.allocations_of(1009).size(), 1000u) << "what came before the exec";
  EXPECT_NE(r.outcome.note.find("nothing recorded of " + victim("leaves")), std::string::npos)
      << r.outcome.note;
  EXPECT_NE(r.outcome.note.find("environment"), std::string::npos) << r.outcome.note;
}

TEST(TakenAway, AnExecThatFailsChangesNothing) {
  const Recorded r = record_program({victim("leaves"), "exec-fails"});
  EXPECT_EQ(r.outcome.exit_code, 0);
  EXPECT_EQ(r.allocations_of(1009).size(), 1000u);
  EXPECT_EQ(r.outcome.note, "");
}

TEST(TakenAway, EnvDashIIsNamedToo) {
  const Recorded r = record_program({"/usr/bin/env", "-i", victim("leaves"), "again"});
  EXPECT_EQ(r.outcome.exit_code, 0);
  EXPECT_NE(r.outcome.note.find("nothing recorded of " + victim("leaves")), std::string::npos)
      << r.outcome.note;
}

/// Why nothing came of a program that is another kind of file.
std::string note_of(const std::string& program) { return record_program({program}).outcome.note; }

TEST(OtherPrograms, AScriptIsRecordedThroughItsInterpreterAndOneOfAStaticInterpreterExplained) {
  const ScratchFolder folder;
  const std::string script = folder.file("script");
  std::ofstream(script) << "#!/bin/sh\nexit 4\n";
  chmod(script.c_str(), 0755);
  const Recorded r = record_program({script});
  EXPECT_EQ(r.outcome.exit_code, 4);
  EXPECT_TRUE(r.outcome.recorded);

  const std::string odd = folder.file("odd");
  std::ofstream(odd) << "#! " << victim("static_program") << "\n";
  chmod(odd.c_str(), 0755);
  const std::string note = note_of(odd);
  EXPECT_NE(note.find("is a script"), std::string::npos) << note;
  EXPECT_NE(note.find("statically linked"), std::string::npos) << note;
}

TEST(OtherPrograms, ASetIdProgramRunsAndItIsSaidWhyNothingWasRecorded) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a program of another user";
  const ScratchFolder folder;
  chmod(std::filesystem::path(folder.file("x")).parent_path().c_str(), 0755);
  const std::string program = folder.file("set-id");
  std::filesystem::copy_file(victim("leaves"), program);
  ASSERT_EQ(chown(program.c_str(), 65534, 65534), 0);
  ASSERT_EQ(chmod(program.c_str(), 04755), 0);
  const Recorded r = record_program({program, "again"});
  EXPECT_EQ(r.outcome.exit_code, 0);
  if (r.outcome.recorded) GTEST_SKIP() << "set-id bits have no effect here";
  EXPECT_NE(r.outcome.note.find("set-id"), std::string::npos) << r.outcome.note;
}

/// The smallest program of 32 bits: exit(0) through int 0x80.
std::string tiny_elf32(Elf32_Half machine) {
  const unsigned char code[] = {0xb8, 1, 0, 0, 0, 0x31, 0xdb, 0xcd, 0x80};
  Elf32_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS32;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_EXEC;
  header.e_machine = machine;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof header;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(Elf32_Phdr);
  header.e_phnum = 1;
  constexpr Elf32_Addr kBase = 0x08048000;
  constexpr Elf32_Word kSize = sizeof(Elf32_Ehdr) + sizeof(Elf32_Phdr) + sizeof code;
  header.e_entry = kBase + kSize - sizeof code;
  Elf32_Phdr load{PT_LOAD, 0, kBase, kBase, kSize, kSize, PF_R | PF_X, 0x1000};
  std::string file(reinterpret_cast<const char*>(&header), sizeof header);
  file.append(reinterpret_cast<const char*>(&load), sizeof load);
  return file.append(reinterpret_cast<const char*>(code), sizeof code);
}

TEST(OtherPrograms, A32BitProgramIsExplainedAndOneOfAnotherMachineCannotBeRun) {
  const ScratchFolder folder;
  const std::string small = folder.file("small");
  std::ofstream(small) << tiny_elf32(EM_386);
  chmod(small.c_str(), 0755);
  setenv("OPMETER_PRELOAD", OPMETER_PRELOAD_LIBRARY, 1);
  tools::RecordOptions options;
  options.command = {small};
  options.output = folder.file("t.opm");
  const Result<tools::RecordOutcome> ran = tools::record(options);
  ASSERT_TRUE(ran);
  if (ran->exit_code == 0) {
    EXPECT_NE(ran->note.find("32-bit"), std::string::npos) << ran->note;
  } else {  // a kernel without 32-bit programs
    EXPECT_EQ(ran->exit_code, 126);
    EXPECT_NE(ran->note.find("cannot run"), std::string::npos) << ran->note;
  }
  const std::string other = folder.file("other");
  std::ofstream(other) << tiny_elf32(EM_S390);
  chmod(other.c_str(), 0755);
  options.command = {other};
  options.force = true;
  const Result<tools::RecordOutcome> refused = tools::record(options);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->exit_code, 126);
  EXPECT_NE(refused->note.find(other), std::string::npos) << refused->note;
}

TEST(Output, AFileThatMayNotGrowIsAFailedWriteAndTheProgramKeepsItsExitCode) {
  const ScratchFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    const rlimit little{300 << 10, 300 << 10};
    setrlimit(RLIMIT_FSIZE, &little);
    setenv("OPMETER_PRELOAD", OPMETER_PRELOAD_LIBRARY, 1);
    tools::RecordOptions options;
    options.command = {victim("races")};
    options.buffer_bytes = 256 << 10;  // its shared memory counts against the limit too
    options.output = folder.file("t.opm");
    const Result<tools::RecordOutcome> outcome = tools::record(options);
    _exit(outcome && outcome->exit_code == 0 && outcome->note.find("t.opm") != std::string::npos
              ? 0
              : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace opmeter
