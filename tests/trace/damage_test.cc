// SPDX-License-Identifier: Apache-2.0
// A damaged or cut file is read up to the damage and around it, and says so.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "profiler/trace/reader.h"
#include "tests/trace/sample_trace.h"

namespace opmeter::trace {
namespace {

/// What stands in a gap is told apart from what was written: the sample loses twelve events itself.
size_t count_events(const TraceReader& reader) {
  size_t n = 0;
  bool gap = false;
  EventStream stream = reader.events();
  for (Event e; stream.next(e);) {
    const bool after_gap = gap;
    gap = e.kind == EventKind::kLost && e.bytes != 12;
    if (!gap && !(after_gap && e.kind == EventKind::kResync)) ++n;
  }
  return n;
}

TEST(DamagedTrace, EveryPossibleCutIsReadUpToTheCutAndNeverCalledComplete) {
  const std::vector<uint8_t> file = sample_file(3);
  size_t most = 0;
  for (size_t size = 32; size < file.size(); ++size) {
    Result<TraceReader> reader = TraceReader::from_bytes(file.data(), size, "cut");
    ASSERT_TRUE(reader) << size;
    EXPECT_FALSE(reader->quality().complete) << size;
    EXPECT_FALSE(reader->quality().note.empty()) << size;
    const size_t n = count_events(*reader);
    EXPECT_EQ(n, reader->quality().events);
    EXPECT_GE(n, most) << "a longer prefix lost events";
    most = n;
  }
  EXPECT_EQ(most, sample_events().size());
}

TEST(DamagedTrace, AFlippedBitCostsItsBlockAndNoOther) {
  const std::vector<uint8_t> whole = sample_file(3);
  for (size_t at = 32; at < whole.size(); at += 5) {
    std::vector<uint8_t> file = whole;
    file[at] ^= 0x10;
    Result<TraceReader> reader = TraceReader::from_bytes(file.data(), file.size(), "flipped");
    ASSERT_TRUE(reader) << at;
    EXPECT_FALSE(reader->quality().complete) << at;
    EXPECT_GE(reader->quality().damaged_blocks, 1u) << at;
    EXPECT_GE(count_events(*reader) + 3, sample_events().size())
        << "byte " << at << " cost more than its block";
  }
}

TEST(DamagedTrace, ARemovedBlockIsNoticedByItsSequenceNumber) {
  const std::vector<uint8_t> whole = sample_file(3);
  // The second block starts after the first; cut it out exactly.
  const auto block_size = [&](size_t at) {
    uint32_t stored = 0;
    std::memcpy(&stored, whole.data() + at + 8, 4);
    return size_t{32} + stored;
  };
  const size_t second = 32 + block_size(32);
  std::vector<uint8_t> file(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(second));
  file.insert(file.end(), whole.begin() + static_cast<ptrdiff_t>(second + block_size(second)),
              whole.end());
  Result<TraceReader> reader = TraceReader::from_bytes(file.data(), file.size(), "gap");
  ASSERT_TRUE(reader);
  EXPECT_FALSE(reader->quality().complete);
  EXPECT_EQ(reader->quality().damaged_blocks, 1u);
}

TEST(DamagedTrace, AGapSaysHowMuchIsMissingAndWhatTheThreadWasDoing) {
  const auto write = [](std::vector<uint8_t>* file, bool whole) {
    TraceWriter writer = TraceWriter::to_memory(file);
    Event e;
    e.thread = 4;
    const auto add = [&](EventKind kind, uint64_t run, uint32_t ref) {
      e.kind = kind;
      e.run = run;
      e.ref = ref;
      ++e.ticks;
      writer.event(e);
    };
    add(EventKind::kRunBegin, 9, 1);
    add(EventKind::kOpPush, 0, 5);
    add(EventKind::kOpPush, 0, 6);
    (void)writer.flush();
    const size_t begin = file->size();
    add(EventKind::kKernelBegin, 0, 0);
    add(EventKind::kKernelEnd, 0, 0);
    (void)writer.flush();
    if (!whole) file->erase(file->begin() + static_cast<ptrdiff_t>(begin), file->end());
    add(EventKind::kOpPop, 0, 0);
    (void)writer.finish({});
  };
  std::vector<uint8_t> file;
  write(&file, false);
  Result<TraceReader> reader = TraceReader::from_bytes(file.data(), file.size(), "gap");
  ASSERT_TRUE(reader);
  EXPECT_FALSE(reader->quality().complete);
  std::vector<Event> got;
  EventStream stream = reader->events();
  for (Event e; stream.next(e);) got.push_back(e);
  ASSERT_EQ(got.size(), 6u);
  EXPECT_EQ(got[3].kind, EventKind::kLost);
  EXPECT_EQ(got[3].bytes, 2u);
  EXPECT_EQ(got[4].kind, EventKind::kResync);
  EXPECT_EQ(got[4].run, 9u);
  EXPECT_EQ(got[4].ref, 6u);
  EXPECT_EQ(got[4].api, 2u);
  EXPECT_EQ(got[5].kind, EventKind::kOpPop);
}

TEST(DamagedTrace, WhatIsNotATraceIsRefusedInOneLine) {
  const std::vector<uint8_t> good = sample_file();
  std::vector<uint8_t> future = good;
  future[8] = 9;
  std::vector<uint8_t> text(100, 'x');
  for (const auto& [bytes, word] : std::vector<std::pair<std::vector<uint8_t>, std::string>>{
           {{}, "empty"}, {{1, 2, 3}, "shorter"}, {text, "magic"}, {future, "damaged"}}) {
    Result<TraceReader> reader = TraceReader::from_bytes(bytes.data(), bytes.size(), "bad.opm");
    ASSERT_FALSE(reader);
    EXPECT_EQ(reader.error().kind, ErrorKind::kInput);
    EXPECT_NE(reader.error().message.find(word), std::string::npos) << reader.error().message;
    EXPECT_NE(reader.error().message.find("bad.opm"), std::string::npos);
    EXPECT_EQ(reader.error().message.find('\n'), std::string::npos);
  }
  EXPECT_FALSE(TraceReader::open("/no/such/file.opm"));
  EXPECT_FALSE(TraceReader::open("/tmp"));
}

TEST(DamagedTrace, AWriterOnAFullDeviceReportsItAndGoesOn) {
  Result<TraceWriter> writer = TraceWriter::create("/dev/full");
  ASSERT_TRUE(writer);
  for (const Event& e : sample_events()) writer->event(e);
  const Status status = writer->finish({});
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("/dev/full"), std::string::npos);
  EXPECT_FALSE(TraceWriter::create("/no/such/folder/x.opm"));
}

}  // namespace
}  // namespace opmeter::trace
