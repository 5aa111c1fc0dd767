// SPDX-License-Identifier: Apache-2.0
// opmeter.h through the whole recorder: what tests/victims/annotated.c says arrives as it was said.
#include "tests/preload/recorded.h"

namespace opmeter {
namespace {

using trace::Event;
using trace::EventKind;

TEST(Annotations, EveryCallOfTheHeaderReachesTheTraceFromPieAndNonPiePrograms) {
  for (const char* program : {"annotated", "annotated_no_pie"}) {
    SCOPED_TRACE(program);
    const Recorded r = record_program({victim(program)});
    ASSERT_EQ(r.outcome.exit_code, 0) << "10 = the program did not find opm_api_v1";
    const trace::Definitions& d = r.reader->definitions();
    ASSERT_EQ(d.ops.size(), 2u);
    const trace::OpInfo& op = d.ops.begin()->second;
    EXPECT_EQ(op.name, "first");
    EXPECT_EQ(op.kind, "kind_a");
    ASSERT_EQ(op.inputs.size(), 1u);
    EXPECT_EQ(op.inputs[0].shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(op.inputs[0].bytes, 24u);
    EXPECT_EQ(d.graphs.begin()->second.name, "toy");
    EXPECT_EQ(d.pools.begin()->second.name, "toy pool");
    EXPECT_EQ(d.info.at("model"), "toy");
    ASSERT_EQ(d.marks.size(), 1u);
    EXPECT_EQ(d.marks[0].text, "all runs done");

    const std::vector<Event> runs = r.of_kind(EventKind::kRunBegin);
    ASSERT_EQ(runs.size(), 3u);
    EXPECT_EQ(runs[0].run, 1u);
    EXPECT_EQ(runs[2].run, 3u);
    EXPECT_EQ(runs[0].api, 1) << "announced as warm-up";
    EXPECT_EQ(runs[1].api, 2) << "announced as steady";
    EXPECT_EQ(r.of_kind(EventKind::kRunEnd).size(), 3u);
    EXPECT_EQ(r.of_kind(EventKind::kOpPush).size(), 6u);
    EXPECT_EQ(r.of_kind(EventKind::kOpPop).size(), 6u);
    EXPECT_EQ(r.of_kind(EventKind::kKernelBegin).size(), 3u);
    EXPECT_EQ(r.of_kind(EventKind::kForbidBegin).size(), 3u);
    EXPECT_EQ(r.of_kind(EventKind::kSpanStart).size(), 1u);
    EXPECT_EQ(r.of_kind(EventKind::kSpanStart)[0].bytes, 7u) << "the stream";

    const std::vector<Event> attached = r.of_kind(EventKind::kContextAttach);
    ASSERT_EQ(attached.size(), 3u);
    EXPECT_EQ(attached[1].run, 2u);
    EXPECT_EQ(attached[1].ref, d.ops.rbegin()->first);
    EXPECT_NE(attached[1].thread, runs[0].thread);

    const std::vector<Event> served = r.of_kind(EventKind::kPoolAlloc);
    ASSERT_EQ(served.size(), 3u);
    EXPECT_EQ(served[0].bytes, 1000u);
    EXPECT_NE(served[0].stack, 0u);
    const std::vector<Event> backing = r.allocations_of(4096);
    ASSERT_EQ(backing.size(), 1u);
    EXPECT_EQ(backing[0].flags & trace::kBacking, trace::kBacking);
    EXPECT_EQ(backing[0].ref, served[0].ref);
    for (const Event& e : r.allocations_of(107)) EXPECT_EQ(e.flags & trace::kBacking, 0);
    EXPECT_EQ(r.allocations_of(301).size(), 3u);
    EXPECT_EQ(r.allocations_of(113).size(), 3u);
  }
}

TEST(Annotations, WithoutAProfilerTheProgramRunsAndNothingIsConnected) {
  const int status = std::system((victim("annotated") + " > /dev/null").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 10);
}

}  // namespace
}  // namespace opmeter
