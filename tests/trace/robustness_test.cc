// SPDX-License-Identifier: Apache-2.0
// A trace of a small program, cut at every block border and at random places, and with flipped
// bits: reading it both ways and analysing it must end, and what it then says is right or says that
// something is missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstring>
#include <random>

#include "profiler/analyze/analyze.h"
#include "profiler/analyze/invariants.h"
#include "profiler/trace/format.h"
#include "profiler/trace/reader.h"
#include "profiler/trace/writer.h"
#include "tests/analyze/scenario.h"

namespace opmeter::trace {
namespace {

/// Runs with ops and workspaces, a worker with the run's context, a thread without; blocks that are
/// freed, grown and kept.
std::vector<uint8_t> small_trace() {
  analyze::Scenario s;
  std::mt19937_64 random(21);
  uint64_t next = 0x10000;
  std::vector<uint64_t> live;
  const auto heap_work = [&](uint32_t thread) {
    for (auto i = random() % 4; i-- > 0;) {
      if (random() % 3 != 0 || live.empty()) {
        live.push_back(next += 64);
        s.alloc(next, random() % 3000, static_cast<uint32_t>(1 + random() % 5), thread);
      } else if (random() % 2 == 0) {
        s.free(live.back(), thread);
        live.pop_back();
      } else {
        s.realloc(live.back(), next + 64, random() % 5000, thread);
        live.back() = next += 64;
      }
    }
  };
  for (int run = 0; run < 12; ++run) {
    const uint64_t id = s.run_begin();
    for (uint32_t op = 1; op <= 2; ++op) {
      s.push(op);
      s.pool_alloc(1, 0x1000 + op * 0x100, 100);
      s.attach(id, op, 2);
      heap_work(1);
      heap_work(2);
      heap_work(3);
      s.detach(2);
      s.pool_free(1, 0x1000 + op * 0x100);
      s.pop();
    }
    s.run_end();
    heap_work(1);
  }

  std::vector<uint8_t> file;
  TraceWriter writer = TraceWriter::to_memory(&file);
  writer.define_command({"small"});
  writer.define_info("pid", "42");
  for (const auto& [id, graph] : s.definitions.graphs) writer.define(graph);
  for (const auto& [id, op] : s.definitions.ops) writer.define(op);
  for (const auto& [id, pool] : s.definitions.pools) writer.define(pool);
  for (uint32_t id = 1; id <= 5; ++id) {
    writer.define(StackInfo{id, 0, false, {0x1000 + id, 0x2000, 0x3000}});
  }
  writer.define(ClockSync{0, 0, 1'700'000'000'000'000'000});
  writer.define(ClockSync{1'000'000'000, 1'000'000'000, 1'700'000'001'000'000'000});
  size_t n = 0;
  for (const Event& event : s.events) {
    writer.event(event);
    if (++n % 90 == 0) {
      EXPECT_TRUE(writer.flush());
    }
  }
  EXPECT_TRUE(writer.finish({}));
  return file;
}

std::vector<size_t> block_borders(const std::vector<uint8_t>& file) {
  std::vector<size_t> borders;
  for (size_t at = sizeof(FileHeader); at < file.size();) {
    borders.push_back(at);
    BlockHeader header;
    std::memcpy(&header, file.data() + at, sizeof header);
    at += sizeof header + header.stored_bytes;
  }
  return borders;
}

/// What a reader of a report would take for the truth.
struct Truth {
  std::array<reports::DomainCounts, reports::kPhases> phases{};
  uint64_t runs = 0, peak = 0, live = 0, temporary = 0, unknown = 0, events = 0;
  std::vector<std::pair<std::string, reports::DomainCounts>> ops;
  std::vector<std::pair<uint32_t, uint64_t>> stacks;
  friend bool operator==(const Truth&, const Truth&) = default;
};

Truth truth_of(const reports::Report& report) {
  Truth truth{.phases = report.phases,
              .runs = report.runs.count,
              .peak = report.alloc.live_peak_bytes,
              .live = report.alloc.live_end_bytes,
              .temporary = report.alloc.temporary_calls,
              .unknown = report.alloc.freed_unknown,
              .events = report.quality.events,
              .ops = {},
              .stacks = {}};
  for (const reports::Op& op : report.ops) truth.ops.emplace_back(op.name, op.total);
  for (const reports::Stack& stack : report.stacks) {
    truth.stacks.emplace_back(stack.id, stack.bytes);
  }
  return truth;
}

uint64_t mix(uint64_t sum, const Event& e) {
  for (const uint64_t field : {uint64_t{e.thread}, e.ticks, e.address, e.bytes, e.run,
                               static_cast<uint64_t>(e.kind), uint64_t{e.stack}, uint64_t{e.ref}}) {
    sum = (sum ^ field) * 0x9e3779b97f4a7c15ULL;
  }
  return sum;
}

class Robustness : public testing::Test {
 protected:
  /// Reads and analyses; empty = fine, else what is wrong.
  std::string judge(const uint8_t* bytes, size_t size) {
    Result<TraceReader> reader = TraceReader::from_bytes(bytes, size, "mutant");
    if (!reader) return one_line(reader.error());
    uint64_t one_by_one = 0, in_batches = 0, events = 0, in_batch_events = 0;
    EventStream stream = reader->events();
    for (Event event; stream.next(event); ++events) one_by_one = mix(one_by_one, event);
    EventStream batches = reader->events();
    for (auto batch = batches.next_batch(); !batch.empty(); batch = batches.next_batch()) {
      for (const Event& event : batch) in_batches = mix(in_batches, event);
      in_batch_events += batch.size();
    }
    if (events != in_batch_events || one_by_one != in_batches) return "two ways, two streams";
    analyze::AnalyzeOptions options;
    options.all = true;
    options.symbolize = false;
    const Result<reports::Report> report = analyze::analyze(*reader, options);
    if (!report) return one_line(report.error());
    ++reported_;
    if (const auto violations = analyze::check_invariants(*report); !violations.empty()) {
      return "invariant: " + violations.front();
    }
    if (report->quality.complete && truth_of(*report) != truth_) return "a silent wrong total";
    if (!report->quality.complete) ++incomplete_;
    return {};
  }

  static std::string one_line(const Error& error) {
    if (error.kind != ErrorKind::kInput) return "an error of another kind: " + error.message;
    return error.message.empty() || error.message.find('\n') != std::string::npos
               ? "not one line: " + error.message
               : std::string();
  }

  void SetUp() override {
    // Each reading asks for large tables: from the heap, not from the system each time.
    mallopt(M_MMAP_THRESHOLD, 64 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    analyze::AnalyzeOptions options;
    options.all = true;
    options.symbolize = false;
    const auto reader = TraceReader::from_bytes(file_.data(), file_.size(), "whole");
    ASSERT_TRUE(reader);
    const auto report = analyze::analyze(*reader, options);
    ASSERT_TRUE(report);
    ASSERT_TRUE(report->quality.complete);
    truth_ = truth_of(*report);
    ASSERT_GT(truth_.phases[1][0].calls, 0u);
  }

  const std::vector<uint8_t> file_ = small_trace();
  Truth truth_;
  size_t reported_ = 0, incomplete_ = 0;
};

TEST_F(Robustness, TheWholeTraceIsJudgedFine) {
  EXPECT_EQ(judge(file_.data(), file_.size()), "");
  EXPECT_EQ(incomplete_, 0u);
  EXPECT_GE(block_borders(file_).size(), 10u);
}

TEST_F(Robustness, CutAtEveryBlockBorderAndAround) {
  for (const size_t border : block_borders(file_)) {
    for (const size_t size : {border - 1, border, border + 1, border + sizeof(BlockHeader)}) {
      EXPECT_EQ(judge(file_.data(), size), "") << size;
    }
  }
  EXPECT_EQ(incomplete_, reported_) << "a cut trace was called complete";
}

TEST_F(Robustness, CutAtTenThousandRandomPlaces) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i) {
    const size_t size = random() % file_.size();
    ASSERT_EQ(judge(file_.data(), size), "") << size;
  }
  EXPECT_EQ(incomplete_, reported_) << "a cut trace was called complete";
  EXPECT_GT(reported_, 5000u) << "most cuts leave something to read";
}

TEST_F(Robustness, TenThousandFlippedBits) {
  std::mt19937_64 random(2);
  std::vector<uint8_t> file = file_;
  for (int i = 0; i < 10'000; ++i) {
    const size_t bit = random() % (file.size() * 8);
    const auto mask = static_cast<uint8_t>(1u << bit % 8);
    file[bit / 8] ^= mask;
    ASSERT_EQ(judge(file.data(), file.size()), "") << "bit " << bit;
    file[bit / 8] ^= mask;
  }
  EXPECT_GT(reported_, 9000u) << "a flipped bit costs its block, not the trace";
}

TEST_F(Robustness, BlocksLostTwiceOrOutOfOrder) {
  const std::vector<size_t> borders = block_borders(file_);
  const auto block = [&](size_t i) {
    const size_t end = i + 1 < borders.size() ? borders[i + 1] : file_.size();
    return std::vector<uint8_t>(file_.begin() + static_cast<ptrdiff_t>(borders[i]),
                                file_.begin() + static_cast<ptrdiff_t>(end));
  };
  for (size_t i = 0; i + 1 < borders.size(); ++i) {
    for (const std::vector<size_t>& instead :
         {std::vector<size_t>{}, std::vector<size_t>{i, i}, std::vector<size_t>{i + 1, i}}) {
      std::vector<uint8_t> file(file_.begin(), file_.begin() + static_cast<ptrdiff_t>(borders[i]));
      for (const size_t n : instead) {
        const std::vector<uint8_t> bytes = block(n);
        file.insert(file.end(), bytes.begin(), bytes.end());
      }
      const bool swapped = instead.size() == 2 && instead[0] != instead[1];
      for (size_t n = i + (swapped ? 2 : 1); n < borders.size(); ++n) {
        const std::vector<uint8_t> bytes = block(n);
        file.insert(file.end(), bytes.begin(), bytes.end());
      }
      EXPECT_EQ(judge(file.data(), file.size()), "") << "block " << i
                                                     << (instead.empty() ? " lost"
                                                         : swapped       ? " late"
                                                                         : " twice");
    }
  }
}

}  // namespace
}  // namespace opmeter::trace
