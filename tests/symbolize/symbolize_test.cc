// SPDX-License-Identifier: Apache-2.0
// Names of addresses in a library as built, stripped, and with its debug information elsewhere.
#include <dlfcn.h>
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "profiler/symbolize/elf_file.h"
#include "profiler/symbolize/symbol_table.h"
#include "profiler/symbolize/symbolizer.h"

namespace opmeter::symbolize {
namespace {

namespace fs = std::filesystem;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

fs::path fixture(const std::string& name) { return fs::path(OPMETER_FIXTURES) / name; }

uint32_t marked_line(const std::string& mark) {
  std::ifstream source(OPMETER_FIXTURE_SOURCE);
  std::string line;
  for (uint32_t number = 1; std::getline(source, line); ++number) {
    if (line.find("// MARK " + mark) != std::string::npos) return number;
  }
  return 0;
}

/// The module as the recorder describes it, and the address that one of its functions returns.
struct Loaded {
  explicit Loaded(const fs::path& path) {
    handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      ADD_FAILURE() << dlerror();
      return;
    }
    link_map* map = nullptr;
    dlinfo(handle, RTLD_DI_LINKMAP, &map);
    module.path = path.string();
    module.bias = map->l_addr;
    const auto file = ElfFile::open(module.path);
    module.build_id = file == nullptr ? "" : file->build_id();
  }
  ~Loaded() {
    if (handle != nullptr) dlclose(handle);
  }
  /// As an ELF address, one less than the address the code took, as callers do for return
  /// addresses.
  uint64_t address(const char* function) const {
    void* symbol = dlsym(handle, function);
    if (symbol == nullptr) {
      ADD_FAILURE() << function;
      return 0;
    }
    const auto get = reinterpret_cast<const void* (*)()>(symbol);
    return reinterpret_cast<uint64_t>(get()) - module.bias - 1;
  }
  uint64_t entry(const char* function) const {
    return reinterpret_cast<uint64_t>(dlsym(handle, function)) - module.bias;
  }
  void* handle = nullptr;
  trace::ModuleInfo module;
};

void expect_inlined_chain(const std::vector<Symbol>& symbols) {
  ASSERT_EQ(symbols.size(), 3u);
  EXPECT_EQ(symbols[0].function, "fixture::here(int)");
  EXPECT_TRUE(symbols[0].inlined);
  EXPECT_THAT(symbols[0].file, EndsWith("fixture.cc"));
  EXPECT_EQ(symbols[0].line, marked_line("innermost"));
  EXPECT_EQ(symbols[1].function, "fixture::middle(int)");
  EXPECT_TRUE(symbols[1].inlined);
  EXPECT_EQ(symbols[1].line, marked_line("middle"));
  EXPECT_EQ(symbols[2].function, "fixture::outer(int)");
  EXPECT_FALSE(symbols[2].inlined);
  EXPECT_EQ(symbols[2].line, marked_line("outer"));
  EXPECT_THAT(symbols[2].file, EndsWith("fixture.cc"));
}

TEST(Symbolize, InlinedCallsAreExpandedInnermostFirstWithTheirCallSites) {
  const Loaded library(fixture("libfixture_debug.so"));
  Symbolizer symbolizer;
  expect_inlined_chain(symbolizer.resolve(library.module, library.address("fixture_inlined")));
  EXPECT_THAT(symbolizer.problems(), IsEmpty());
}

TEST(Symbolize, AUnitOfClangWithoutArangesIsFoundToo) {
  if (!fs::exists(fixture("libfixture_clang.so"))) GTEST_SKIP() << "no clang++ on this machine";
  const Loaded library(fixture("libfixture_clang.so"));
  Symbolizer symbolizer;
  expect_inlined_chain(symbolizer.resolve(library.module, library.address("fixture_inlined")));
}

TEST(Symbolize, LambdasInTemplatesHaveTheirOwnFunction) {
  const Loaded library(fixture("libfixture_debug.so"));
  Symbolizer symbolizer;
  const auto& symbols = symbolizer.resolve(library.module, library.address("fixture_lambda"));
  ASSERT_EQ(symbols.size(), 1u);
  EXPECT_THAT(symbols[0].function, HasSubstr("fixture::Wrapper<long>::call(long)"));
  EXPECT_THAT(symbols[0].function, HasSubstr("lambda"));
}

TEST(Symbolize, TheOffsetIsCountedFromTheFunctionsStart) {
  const Loaded library(fixture("libfixture_debug.so"));
  Symbolizer symbolizer;
  const uint64_t entry = library.entry("fixture_hidden");
  const auto& symbols = symbolizer.resolve(library.module, entry + 1);
  EXPECT_EQ(symbols.back().function, "fixture_hidden");
  EXPECT_EQ(symbols.back().function_offset, 1u);
}

TEST(Symbolize, WithoutDwarfTheSymbolTableNamesTheFunction) {
  const Loaded library(fixture("libfixture_symtab.so"));
  Symbolizer symbolizer;
  const auto& symbols = symbolizer.resolve(library.module, library.address("fixture_hidden"));
  ASSERT_EQ(symbols.size(), 1u);
  EXPECT_EQ(symbols[0].function, "fixture::hidden_function()");
  EXPECT_EQ(symbols[0].file, "");
  EXPECT_FALSE(symbols[0].inlined);
}

TEST(Symbolize, AStrippedLibraryStillHasItsExportedNames) {
  const Loaded library(fixture("libfixture_dynsym.so"));
  Symbolizer symbolizer;
  const auto& exported = symbolizer.resolve(library.module, library.address("fixture_inlined"));
  EXPECT_EQ(exported.back().function, "fixture::outer(int)");
  const auto& hidden = symbolizer.resolve(library.module, library.address("fixture_hidden"));
  EXPECT_EQ(hidden.back().function, "") << "no exported function is there";
}

TEST(Symbolize, TheSeparateDebugFileIsFoundByItsLink) {
  const Loaded library(fixture("libfixture_linked.so"));
  Symbolizer symbolizer;
  expect_inlined_chain(symbolizer.resolve(library.module, library.address("fixture_inlined")));
}

TEST(Symbolize, TheSeparateDebugFileIsFoundByItsBuildIdEvenWhenTheLibraryIsGone) {
  Loaded library(fixture("libfixture_dynsym.so"));
  ASSERT_GT(library.module.build_id.size(), 6u);
  const fs::path folder = fs::path(testing::TempDir()) / "opmeter-symbolize-debug";
  const fs::path place = folder / ".build-id" / library.module.build_id.substr(0, 2);
  fs::create_directories(place);
  fs::copy_file(fixture("libfixture_debug.so"),
                place / (library.module.build_id.substr(2) + ".debug"),
                fs::copy_options::overwrite_existing);
  const uint64_t address = library.address("fixture_inlined");
  library.module.path = "/nonexistent/libfixture.so";
  Symbolizer symbolizer({.debug_dirs = {folder.string()}});
  expect_inlined_chain(symbolizer.resolve(library.module, address));
  EXPECT_THAT(symbolizer.problems(), IsEmpty());
  fs::remove_all(folder);
}

TEST(Symbolize, AFileOfAnotherBuildGivesNoNamesAndSaysSo) {
  Loaded library(fixture("libfixture_debug.so"));
  library.module.build_id = "00112233445566778899aabbccddeeff00112233";
  Symbolizer symbolizer;
  const auto& symbols = symbolizer.resolve(library.module, library.address("fixture_inlined"));
  ASSERT_EQ(symbols.size(), 1u);
  EXPECT_EQ(symbols[0].function, "");
  ASSERT_EQ(symbolizer.problems().size(), 1u);
  EXPECT_THAT(symbolizer.problems()[0], HasSubstr("is another build now"));
}

TEST(Symbolize, WhatIsNoReadableElfFileGivesNoNamesAndSaysSo) {
  for (const char* path : {"/nonexistent/lib.so", "/dev/null", "/", OPMETER_FIXTURE_SOURCE}) {
    Symbolizer symbolizer;
    trace::ModuleInfo module;
    module.path = path;
    const auto& symbols = symbolizer.resolve(module, 0x1234);
    ASSERT_EQ(symbols.size(), 1u);
    EXPECT_EQ(symbols[0].function, "");
    EXPECT_THAT(symbolizer.problems(), testing::ElementsAre(StartsWith(path)));
  }
}

TEST(Symbolize, ADamagedFileIsReadWithoutHarm) {
  std::ifstream in(fixture("libfixture_debug.so"), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const Loaded library(fixture("libfixture_debug.so"));
  const uint64_t address = library.address("fixture_inlined");
  const fs::path damaged = fs::path(testing::TempDir()) / "opmeter-symbolize-damaged.so";
  const auto ask = [&](const std::string& bytes) {
    std::ofstream(damaged, std::ios::binary) << bytes;
    trace::ModuleInfo module;
    module.path = damaged.string();
    Symbolizer symbolizer;
    EXPECT_FALSE(symbolizer.resolve(module, address).empty());
  };
  for (size_t size = 0; size < whole.size(); size += whole.size() / 23 + 1) {
    ask(whole.substr(0, size));
  }
  for (size_t at = 64; at < whole.size(); at += 97) {
    std::string bytes = whole;
    for (size_t i = at; i < std::min(at + 8, bytes.size()); ++i) bytes[i] = '\xff';
    ask(bytes);
  }
  fs::remove(damaged);
}

TEST(Demangle, LeavesWhatIsNotMangledAndSurvivesNonsense) {
  EXPECT_EQ(demangle("malloc"), "malloc");
  EXPECT_EQ(demangle("_ZN7opmeter3fooEv"), "opmeter::foo()");
  EXPECT_EQ(demangle("_Znot_a_name"), "_Znot_a_name");
  EXPECT_EQ(demangle(nullptr), "");
  const std::string endless = "_Z" + std::string(100'000, 'N');
  EXPECT_EQ(demangle(endless.c_str()), endless);
}

}  // namespace
}  // namespace opmeter::symbolize
