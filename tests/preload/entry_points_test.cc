// SPDX-License-Identifier: Apache-2.0
#include "tests/preload/recorded.h"

namespace opmeter {
namespace {

using trace::AllocApi;
using trace::Event;
using trace::EventKind;

TEST(EntryPoints, EachOfTheMallocFamilyIsFoundOnceWithTheSizeThatWasAskedFor) {
  const Recorded r = record_program({victim("entry_points")});
  ASSERT_EQ(r.outcome.exit_code, 0);
  ASSERT_TRUE(r.reader->quality().complete) << r.reader->quality().note;
  EXPECT_EQ(r.outcome.lost_events, 0u);
  struct Row {
    uint64_t bytes;
    AllocApi api;
  };
  for (const Row& row : std::vector<Row>{{10007, AllocApi::kMalloc},
                                         {10029, AllocApi::kCalloc},
                                         {10037, AllocApi::kRealloc},
                                         {20011, AllocApi::kRealloc},
                                         {10039, AllocApi::kRealloc},
                                         {10073, AllocApi::kReallocarray},
                                         {10061, AllocApi::kPosixMemalign},
                                         {10112, AllocApi::kAlignedAlloc},
                                         {10067, AllocApi::kMemalign},
                                         {10069, AllocApi::kValloc},
                                         {10079, AllocApi::kPvalloc},
                                         {10091, AllocApi::kMalloc},
                                         {10144, AllocApi::kAlignedAlloc},
                                         {12, AllocApi::kMalloc},
                                         {10099, AllocApi::kMalloc}}) {
    SCOPED_TRACE(row.bytes);
    const std::vector<Event> found = r.allocations_of(row.bytes);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(static_cast<AllocApi>(found[0].api), row.api);
    EXPECT_NE(found[0].stack, 0u);
    // Each block is given back exactly once (10037 and 20011 by the realloc that follows them).
    size_t ends = 0;
    for (const Event& e : r.events) {
      if (e.ticks < found[0].ticks) continue;
      if (e.kind == EventKind::kFree && e.address == found[0].address) ++ends;
      if (e.kind == EventKind::kReallocBegin && e.old_address == found[0].address) ++ends;
    }
    EXPECT_GE(ends, 1u);
  }
  EXPECT_EQ(r.allocations_of(0).size(), 1u);  // malloc(0)
}

TEST(EntryPoints, FailingCallsAreMarkedAndAFailedReallocKeepsItsBlock) {
  const Recorded r = record_program({victim("entry_points")});
  std::vector<uint64_t> failed;
  for (const Event& e : r.events) {
    const bool allocates = e.kind == EventKind::kAlloc || e.kind == EventKind::kReallocEnd;
    if (allocates && e.address == 0) failed.push_back(e.bytes);
  }
  const uint64_t huge = static_cast<uint64_t>(PTRDIFF_MAX) - 4096;
  EXPECT_EQ(failed, (std::vector<uint64_t>{huge, SIZE_MAX, huge}));
  const std::vector<Event> kept = r.allocations_of(10093);
  ASSERT_EQ(kept.size(), 1u);
  size_t frees = 0;
  for (const Event& e : r.of_kind(EventKind::kFree)) {
    frees += e.address == kept[0].address && e.ticks > kept[0].ticks;
  }
  EXPECT_GE(frees, 1u);
}

TEST(EntryPoints, SizedReleasesAreRecordedUnderTheirOwnNames) {
  const Recorded r = record_program({victim("entry_points")});
  size_t sized = 0, aligned_sized = 0;
  for (const Event& e : r.of_kind(EventKind::kFree)) {
    sized += static_cast<AllocApi>(e.api) == AllocApi::kFreeSized;
    aligned_sized += static_cast<AllocApi>(e.api) == AllocApi::kFreeAlignedSized;
  }
  EXPECT_EQ(sized, 1u);
  EXPECT_EQ(aligned_sized, 1u);
}

TEST(EntryPoints, EachFormOfOperatorNewIsFoundOnceAndItsMallocIsNotCountedAgain) {
  const Recorded r = record_program({victim("operators_new")});
  ASSERT_EQ(r.outcome.exit_code, 0);
  for (const auto& [bytes, api] : std::map<uint64_t, AllocApi>{{20021, AllocApi::kNew},
                                                               {20023, AllocApi::kNewArray},
                                                               {20029, AllocApi::kNew},
                                                               {20047, AllocApi::kNewArray},
                                                               {20051, AllocApi::kNew},
                                                               {20063, AllocApi::kNewArray},
                                                               {20071, AllocApi::kNew},
                                                               {20089, AllocApi::kNewArray},
                                                               {20101, AllocApi::kNew},
                                                               {20107, AllocApi::kNewArray},
                                                               {20113, AllocApi::kNew},
                                                               {20117, AllocApi::kNewArray},
                                                               {20123, AllocApi::kNew}}) {
    SCOPED_TRACE(bytes);
    const std::vector<Event> found = r.allocations_of(bytes);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(static_cast<AllocApi>(found[0].api), api);
    size_t frees = 0;
    for (const Event& e : r.of_kind(EventKind::kFree)) {
      if (e.address == found[0].address && e.ticks >= found[0].ticks) {
        ++frees;
        const auto how = static_cast<AllocApi>(e.api);
        EXPECT_TRUE(how == AllocApi::kDelete || how == AllocApi::kDeleteArray || frees > 1);
      }
    }
    EXPECT_GE(frees, 1u);
  }
}

TEST(EntryPoints, AThrowingNewIsCountedAsFailedAndRecordingGoesOn) {
  const Recorded r = record_program({victim("operators_new")});
  size_t failed = 0;
  for (const Event& e : r.of_kind(EventKind::kAlloc)) {
    failed += e.address == 0 && e.bytes == static_cast<uint64_t>(PTRDIFF_MAX) - 4096;
  }
  EXPECT_EQ(failed, 3u);
  EXPECT_EQ(r.allocations_of(20123).size(), 1u);
}

}  // namespace
}  // namespace opmeter
