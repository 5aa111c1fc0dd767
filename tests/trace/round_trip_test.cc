// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>

#include "profiler/trace/codec.h"
#include "profiler/trace/reader.h"
#include "tests/trace/random_life.h"
#include "tests/trace/sample_trace.h"

namespace opmeter::trace {
namespace {

std::vector<Event> read_all(const TraceReader& reader) {
  std::vector<Event> events;
  EventStream stream = reader.events();
  for (Event e; stream.next(e);) events.push_back(e);
  return events;
}

void expect_equal(const Event& got, const Event& want) {
  EXPECT_EQ(got.kind, want.kind);
  EXPECT_EQ(got.ticks, want.ticks);
  EXPECT_EQ(got.thread, want.thread);
  EXPECT_EQ(got.address, want.address);
  EXPECT_EQ(got.old_address, want.old_address);
  EXPECT_EQ(got.bytes, want.bytes);
  EXPECT_EQ(got.run, want.run);
  EXPECT_EQ(got.stack, want.stack);
  EXPECT_EQ(got.ref, want.ref);
  EXPECT_EQ(got.api, want.api);
  EXPECT_EQ(got.flags, want.flags);
}

TEST(TraceRoundTrip, WhateverTheModelExpectsWhatWasWrittenComesBack) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    // More than a block holds.
    const std::vector<Event> want = random_life(seed, seed == 1 ? 300'000 : 50'000, 7);
    std::vector<uint8_t> file;
    TraceWriter writer = TraceWriter::to_memory(&file);
    writer.define(ClockSync{0, 1, 1});
    for (const Event& e : want) writer.event(e);
    ASSERT_TRUE(writer.finish({}));
    Result<TraceReader> reader = TraceReader::from_bytes(file.data(), file.size(), "life");
    ASSERT_TRUE(reader);
    const std::vector<Event> got = read_all(*reader);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      SCOPED_TRACE(i);
      expect_equal(got[i], want[i]);
      EXPECT_EQ(got[i].duration, want[i].duration);
      if (HasFailure()) return;
    }
    EXPECT_TRUE(reader->quality().complete) << reader->quality().note;
  }
}

TEST(TraceRoundTrip, CoarseTicksLoseNothingButTheirLowBitsAndNeverTheOrder) {
  std::vector<Event> want = random_life(9, 20'000, 1);
  std::vector<uint8_t> file;
  TraceWriter writer = TraceWriter::to_memory(&file);
  writer.set_tick_shift(5);
  for (const Event& e : want) writer.event(e);
  ASSERT_TRUE(writer.finish({}));
  Result<TraceReader> reader = TraceReader::from_bytes(file.data(), file.size(), "coarse");
  ASSERT_TRUE(reader);
  const std::vector<Event> got = read_all(*reader);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    const uint64_t ticks = got[i].ticks;
    ASSERT_LE(ticks, want[i].ticks);
    ASSERT_LT(want[i].ticks - ticks, 32u);
    if (want[i].kind == EventKind::kOpPush || want[i].kind == EventKind::kFaults) {
      ASSERT_EQ(ticks, want[i].ticks);
    }
    if (i > 0) {
      ASSERT_GE(ticks, got[i - 1].ticks);
    }
    ASSERT_EQ(got[i].address, want[i].address);
  }
  EXPECT_EQ(coarse_tick_shift(0.4), 5u);
  EXPECT_EQ(coarse_tick_shift(1.0), 4u);
  EXPECT_EQ(coarse_tick_shift(10.0), 0u);
}

TEST(TraceRoundTrip, AmongEqualTicksWhatReleasesComesFirst) {
  std::vector<uint8_t> file;
  TraceWriter writer = TraceWriter::to_memory(&file);
  Event alloc;
  alloc.kind = EventKind::kAlloc;
  alloc.thread = 1;
  alloc.ticks = 100;
  alloc.address = 64;
  alloc.bytes = 8;
  Event free = alloc;
  free.kind = EventKind::kFree;
  free.thread = 2;
  free.bytes = 0;
  writer.event(alloc);
  writer.event(free);
  ASSERT_TRUE(writer.finish({}));
  Result<TraceReader> reader = TraceReader::from_bytes(file.data(), file.size(), "tie");
  ASSERT_TRUE(reader);
  const std::vector<Event> got = read_all(*reader);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[0].kind, EventKind::kFree);
}

TEST(TraceRoundTrip, EveryEventKindComesBackWithAllItsFieldsInOrderOfTime) {
  for (const size_t flush_every : {size_t{0}, size_t{1}, size_t{4}}) {
    const std::vector<uint8_t> file = sample_file(flush_every);
    Result<TraceReader> reader = TraceReader::from_bytes(file.data(), file.size(), "sample");
    ASSERT_TRUE(reader) << reader.error().message;
    const std::vector<Event> want = sample_events();
    const std::vector<Event> got = read_all(*reader);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      SCOPED_TRACE(i);
      expect_equal(got[i], want[i]);
    }
    EXPECT_TRUE(reader->quality().complete) << reader->quality().note;
    EXPECT_EQ(reader->quality().lost_events, 12u);
    EXPECT_EQ(reader->quality().overhead_ticks, 90u);
    EXPECT_EQ(reader->quality().events, want.size());
  }
}

TEST(TraceRoundTrip, EveryDefinitionComesBack) {
  const std::vector<uint8_t> file = sample_file();
  Result<TraceReader> reader = TraceReader::from_bytes(file.data(), file.size(), "sample");
  ASSERT_TRUE(reader);
  const Definitions& got = reader->definitions();
  const Definitions want = sample_definitions();
  EXPECT_EQ(got.command, want.command);
  EXPECT_EQ(got.info, want.info);
  ASSERT_EQ(got.stacks.size(), want.stacks.size());
  for (const auto& [id, s] : want.stacks) {
    EXPECT_EQ(got.stacks.at(id).frames, s.frames);
    EXPECT_EQ(got.stacks.at(id).cut, s.cut);
    EXPECT_EQ(got.stacks.at(id).epoch, s.epoch);
  }
  const OpInfo& op = got.ops.at(5);
  EXPECT_EQ(op.name, "conv");
  EXPECT_EQ(op.kind, "fused_conv");
  EXPECT_EQ(op.index, 3);
  ASSERT_EQ(op.inputs.size(), 1u);
  EXPECT_EQ(op.inputs[0].shape, (std::vector<int64_t>{1, 3, 64, 64}));
  ASSERT_EQ(op.outputs.size(), 2u);
  EXPECT_EQ(op.outputs[0].dtype_lanes, 4);
  EXPECT_EQ(op.outputs[1].shape, std::vector<int64_t>{0});
  EXPECT_EQ(got.pools.at(1).name, "caching");
  EXPECT_EQ(got.threads.at(2).name, "opm-worker-1");
  EXPECT_EQ(got.threads.at(2).tid, 4243);
  EXPECT_EQ(got.modules.at(1).build_id, "00ff17");
  ASSERT_EQ(got.marks.size(), 1u);
  EXPECT_EQ(got.marks[0].text, "half way");
}

TEST(TraceRoundTrip, AModuleIsFoundByAddressAndUnloadEpoch) {
  const Definitions d = sample_definitions();
  EXPECT_EQ(d.module_at(0x2000, 3)->id, 1u);
  EXPECT_EQ(d.module_at(0x2fff, 4)->id, 2u);
  EXPECT_EQ(d.module_at(0x3000, 4), nullptr);
}

TEST(TraceRoundTrip, TicksBecomeNanosecondsByTheLineThroughTheClockReadings) {
  const std::vector<uint8_t> file = sample_file();  // 100 000 ticks are 100 000 000 ns
  Result<TraceReader> reader = TraceReader::from_bytes(file.data(), file.size(), "sample");
  ASSERT_TRUE(reader);
  EXPECT_DOUBLE_EQ(reader->quality().ns_per_tick, 1000.0);
  EXPECT_EQ(read_all(*reader)[0].time_ns, 7000u);
  EXPECT_EQ(reader->definitions().marks[0].time_ns, 1'000'000u);
}

TEST(TraceRoundTrip, ManyThreadsMergeByTimeLikeAStableSort) {
  std::mt19937_64 random(7);
  std::vector<Event> all;
  std::vector<uint64_t> clock(9, 0);
  for (int i = 0; i < 200'000; ++i) {
    Event e;
    e.kind = EventKind::kAlloc;
    e.thread = static_cast<uint32_t>(random() % 8 + 1);
    e.ticks = clock[e.thread] += random() % 1000;
    e.address = random();
    e.bytes = random() >> (random() % 64);
    e.stack = static_cast<uint32_t>(random());
    all.push_back(e);
  }
  std::vector<uint8_t> file;
  TraceWriter writer = TraceWriter::to_memory(&file);
  for (const Event& e : all) writer.event(e);
  ASSERT_TRUE(writer.finish({}));
  std::stable_sort(all.begin(), all.end(), [](const Event& a, const Event& b) {
    return a.ticks != b.ticks ? a.ticks < b.ticks : a.thread < b.thread;
  });
  Result<TraceReader> reader = TraceReader::from_bytes(file.data(), file.size(), "many");
  ASSERT_TRUE(reader);
  const std::vector<Event> got = read_all(*reader);
  ASSERT_EQ(got.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(got[i].ticks, all[i].ticks) << i;
    ASSERT_EQ(got[i].address, all[i].address) << i;
    ASSERT_EQ(got[i].bytes, all[i].bytes) << i;
  }
}

TEST(Codec, VarintsAndZigzagRoundTripAtTheirEdges) {
  for (const uint64_t v :
       {uint64_t{0}, uint64_t{127}, uint64_t{128}, uint64_t{1} << 63, UINT64_MAX}) {
    uint8_t buffer[kMaxVarintBytes];
    const uint8_t* end = put_varint(buffer, v);
    ByteCursor in(buffer, static_cast<size_t>(end - buffer));
    EXPECT_EQ(in.varint(), v);
    EXPECT_TRUE(in.at_end());
    EXPECT_FALSE(in.failed());
  }
  for (const int64_t v : {int64_t{0}, int64_t{-1}, INT64_MAX, INT64_MIN})
    EXPECT_EQ(unzigzag(zigzag(v)), v);
}

TEST(Codec, ASinkThatIsFullSaysSoAndWritesNothingBeyondItsEnd) {
  uint8_t buffer[16] = {};
  ByteSink sink(buffer, 12);
  sink.string("0123456789abcdef");
  EXPECT_TRUE(sink.overflow());
  EXPECT_EQ(buffer[12], 0);
}

}  // namespace
}  // namespace opmeter::trace
