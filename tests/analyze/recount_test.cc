// SPDX-License-Identifier: Apache-2.0
// Random programs: analyze against a naive recount of the same event list, and every invariant.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "profiler/analyze/invariants.h"
#include "tests/analyze/scenario.h"

namespace opmeter::analyze {
namespace {

using reports::Phase;
using reports::Report;
using testing::IsEmpty;
using Kind = trace::EventKind;

/// One caller, two workers; ops nest; blocks are freed, grown or leaked at random.
Scenario random_program(uint64_t seed) {
  std::mt19937_64 random(seed);
  Scenario s;
  s.op(3, "dense");
  std::vector<uint64_t> live;
  std::vector<uint64_t> pool_live;
  uint64_t next = 0x1000;
  const auto heap_work = [&](uint32_t thread, int steps) {
    for (int i = 0; i < steps; ++i) {
      const auto stack = static_cast<uint32_t>(1 + random() % 6);
      const auto pick = random() % 6;
      if (pick < 3 || live.empty()) {
        s.alloc(random() % 50 == 0 ? 0 : (live.push_back(next), next), random() % 5000, stack,
                thread);
        next += 16;
      } else if (pick < 5) {
        const size_t victim = random() % live.size();
        s.free(live[victim], thread);
        live.erase(live.begin() + static_cast<ptrdiff_t>(victim));
      } else {
        const size_t victim = random() % live.size();
        const uint64_t old = live[victim];
        const bool moves = random() % 2 == 0;
        s.realloc(old, moves ? next : old, random() % 9000, thread);
        if (moves) {
          live[victim] = next;
          next += 16;
        }
      }
    }
  };
  heap_work(1, 20);
  const int runs = static_cast<int>(2 + random() % 30);
  for (int r = 0; r < runs; ++r) {
    const uint64_t run = s.run_begin();
    heap_work(1, static_cast<int>(random() % 3));
    for (uint32_t op = 1; op <= 3; ++op) {
      s.push(op);
      s.attach(run, op, 2);
      if (random() % 3 == 0) {
        s.pool_alloc(1, next, random() % 700);
        pool_live.push_back(next);
        next += 16;
      }
      heap_work(1, static_cast<int>(random() % 4));
      heap_work(2, static_cast<int>(random() % 3));
      heap_work(3, static_cast<int>(random() % 2));  // inferred
      if (!pool_live.empty() && random() % 2 == 0) {
        s.pool_free(1, pool_live.back());
        pool_live.pop_back();
      }
      s.detach(2);
      s.pop();
    }
    s.run_end();
    heap_work(1, static_cast<int>(random() % 3));
  }
  return s;
}

struct Naive {
  uint64_t calls = 0, bytes = 0, frees = 0, failed = 0;
  uint64_t live = 0, peak = 0;
  std::map<std::string, uint64_t> calls_by_op;
  std::map<uint32_t, uint64_t> calls_by_thread;
  uint64_t first_run_calls = 0;
};

/// Knows this program's shape: one caller (thread 1), one open run at most.
Naive recount(const Scenario& s) {
  Naive n;
  std::map<uint64_t, uint64_t> live;
  std::vector<uint32_t> ops;
  uint32_t lent = 0;
  uint64_t run = 0, runs_seen = 0;
  const auto name = [&](uint32_t thread) -> std::string {
    const std::map<uint32_t, std::string> names = {{1, "conv"}, {2, "relu"}, {3, "dense"}};
    if (thread == 2 && lent != 0) return names.at(lent);
    if (run == 0) return "(outside)";
    return ops.empty() ? "(executor)" : names.at(ops.back());
  };
  const auto allocate = [&](const trace::Event& e) {
    ++n.calls;
    n.bytes += e.bytes;
    ++n.calls_by_op[name(e.thread)];
    ++n.calls_by_thread[e.thread];
    if (run != 0 && runs_seen == 1) ++n.first_run_calls;
    n.live += e.bytes;
    live[e.address] = e.bytes;
  };
  for (const trace::Event& e : s.events) {
    switch (e.kind) {
      case Kind::kRunBegin:
        run = e.run;
        ++runs_seen;
        break;
      case Kind::kRunEnd:
        run = 0;
        break;
      case Kind::kOpPush:
        ops.push_back(e.ref);
        break;
      case Kind::kOpPop:
        ops.pop_back();
        break;
      case Kind::kContextAttach:
        lent = e.ref;
        break;
      case Kind::kContextDetach:
        lent = 0;
        break;
      case Kind::kAlloc:
        if (e.address == 0) {
          ++n.failed;
          break;
        }
        allocate(e);
        break;
      case Kind::kFree:
        ++n.frees;
        n.live -= live.at(e.address);
        live.erase(e.address);
        break;
      case Kind::kReallocEnd: {
        ++n.frees;
        const uint64_t old = live.at(e.old_address);
        const bool moved = e.address != e.old_address;
        if (!moved) n.live -= old;
        live.erase(e.old_address);
        allocate(e);
        n.peak = std::max(n.peak, n.live);
        if (moved) n.live -= old;
        break;
      }
      default:
        break;
    }
    n.peak = std::max(n.peak, n.live);
  }
  return n;
}

TEST(Recount, RandomProgramsAgreeWithANaiveCountAndKeepEveryInvariant) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    const Scenario s = random_program(seed);
    const Naive naive = recount(s);
    const Report report = s.report();
    ASSERT_THAT(check_invariants(report), IsEmpty());
    EXPECT_EQ(report.alloc.total.calls, naive.calls);
    EXPECT_EQ(report.alloc.total.bytes, naive.bytes);
    EXPECT_EQ(report.alloc.total.frees, naive.frees);
    EXPECT_EQ(report.alloc.total.failed, naive.failed);
    EXPECT_EQ(report.alloc.live_end_bytes, naive.live);
    EXPECT_EQ(report.alloc.live_peak_bytes, naive.peak);
    EXPECT_EQ(report.alloc.first_run.calls, naive.first_run_calls);
    EXPECT_EQ(report.alloc.freed_unknown, 0u);
    for (const auto& op : report.ops) {
      const auto found = naive.calls_by_op.find(op.name);
      EXPECT_EQ(op.alloc.total.calls, found == naive.calls_by_op.end() ? 0 : found->second)
          << op.name;
    }
    for (const auto& thread : report.threads) {
      if (thread.domain != reports::Domain::kHeap) continue;
      const auto found = naive.calls_by_thread.find(thread.id);
      EXPECT_EQ(thread.calls, found == naive.calls_by_thread.end() ? 0 : found->second);
    }
  }
}

TEST(Recount, CuttingListsChangesNoTotal) {
  const Scenario s = random_program(5);
  AnalyzeOptions few;
  few.top = 1;
  size_t i = 0;
  const Report cut = analyze_events(
      s.definitions, {},
      [&](trace::Event& e) {
        if (i == s.events.size()) return false;
        e = s.events[i++];
        return true;
      },
      few);
  const Report all = s.report();
  EXPECT_LT(cut.stacks.size(), all.stacks.size() + 1);
  EXPECT_EQ(cut.alloc.total, all.alloc.total);
  EXPECT_EQ(cut.ops.size(), all.ops.size());
  // What an op refers to is there.
  std::set<std::pair<reports::Domain, uint32_t>> present;
  for (const auto& stack : cut.stacks) present.insert({stack.domain, stack.id});
  for (const auto& op : cut.ops) {
    for (const auto& ref : op.top_stacks) {
      EXPECT_TRUE(present.contains({ref.domain, ref.stack}));
    }
  }
}

TEST(Recount, ABrokenReportIsFoundOut) {
  Report report = random_program(9).report();
  ASSERT_THAT(check_invariants(report), IsEmpty());
  Report broken = report;
  ++broken.ops.back().total[0].calls;
  EXPECT_THAT(check_invariants(broken), testing::Not(IsEmpty()));
  broken = report;
  broken.stacks.pop_back();
  EXPECT_THAT(check_invariants(broken), testing::Not(IsEmpty()));
  broken = report;
  ++broken.phases[3][0].bytes;
  EXPECT_THAT(check_invariants(broken), testing::Not(IsEmpty()));
}

}  // namespace
}  // namespace opmeter::analyze
