// SPDX-License-Identifier: Apache-2.0
// Format version 1 stays readable for ever: tests/data/trace/v1.trace was written when it was
// frozen, v1.txt says what it holds. Neither is ever written again; a new major version adds files.
// (OPMETER_WRITE_GOLDEN=DIR writes such a pair from the present code, for that occasion.)
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "profiler/trace/reader.h"
#include "tests/trace/random_life.h"
#include "tests/trace/sample_trace.h"

namespace opmeter::trace {
namespace {

std::string dump(const TraceReader& reader) {
  std::string out = fmt::format("version {}.{}\n", reader.version_major(), reader.version_minor());
  const Definitions& d = reader.definitions();
  for (const std::string& arg : d.command) out += fmt::format("command '{}'\n", arg);
  for (const auto& [key, value] : d.info) out += fmt::format("info {} = {}\n", key, value);
  for (const auto& [id, m] : d.modules) {
    out += fmt::format("module {} {} '{}' {:x} {:x} {:x} {} {}\n", id, m.path, m.build_id, m.bias,
                       m.begin, m.end, m.first_epoch, m.last_epoch);
  }
  for (const auto& [id, s] : d.stacks) {
    out += fmt::format("stack {} {} {}", id, s.epoch, s.cut);
    for (const uint64_t frame : s.frames) out += fmt::format(" {:x}", frame);
    out += '\n';
  }
  for (const auto& [id, g] : d.graphs) out += fmt::format("graph {} {}\n", id, g.name);
  for (const auto& [id, o] : d.ops) {
    out += fmt::format("op {} {} {} {} {} {} {}\n", id, o.graph, o.index, o.name, o.kind,
                       o.device_type, o.device_id);
    for (const auto* list : {&o.inputs, &o.outputs}) {
      for (const TensorInfo& t : *list) {
        out += fmt::format("  tensor {} {} {} {} {}", t.name, t.dtype_code, t.dtype_bits,
                           t.dtype_lanes, t.bytes);
        for (const int64_t extent : t.shape) out += fmt::format(" {}", extent);
        out += '\n';
      }
    }
  }
  for (const auto& [id, p] : d.pools) {
    out += fmt::format("pool {} {} {} {} {}\n", id, p.name, p.domain, p.device_type, p.device_id);
  }
  for (const auto& [id, t] : d.threads) out += fmt::format("thread {} {} {}\n", id, t.tid, t.name);
  for (const MarkInfo& m : d.marks) {
    out += fmt::format("mark {} {} {} {}\n", m.thread, m.ticks, m.time_ns, m.text);
  }
  for (const ClockSync& c : d.clocks) {
    out += fmt::format("clock {} {} {}\n", c.ticks, c.monotonic_ns, c.realtime_ns);
  }
  EventStream stream = reader.events();
  for (Event e; stream.next(e);) {
    out += fmt::format("{} {} {} {} {:x} {:x} {} {} {} {} {} {} {}\n", static_cast<int>(e.kind),
                       e.flags, e.ticks, e.time_ns, e.address, e.old_address, e.bytes, e.run,
                       e.thread, e.stack, e.ref, e.api, e.duration);
  }
  const TraceQuality& q = reader.quality();
  out +=
      fmt::format("lost {} damaged {} complete {} samples {} ticks {} events {}\n", q.lost_events,
                  q.damaged_blocks, q.complete, q.overhead_samples, q.overhead_ticks, q.events);
  return out;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(GoldenTrace, AFileOfVersion1ReadsAsItDidWhenTheVersionWasFrozen) {
  const std::string folder = OPMETER_TEST_DATA "/trace/";
  if (const char* to = std::getenv("OPMETER_WRITE_GOLDEN")) {
    std::vector<uint8_t> bytes = sample_file(4, [](TraceWriter& writer) {
      writer.set_tick_shift(3);
      for (const Event& e : random_life(42, 1500, 3)) writer.event(e);
    });
    std::ofstream(std::string(to) + "/v1.trace", std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    Result<TraceReader> reader = TraceReader::from_bytes(bytes.data(), bytes.size(), "golden");
    ASSERT_TRUE(reader);
    std::ofstream(std::string(to) + "/v1.txt") << dump(*reader);
  }
  Result<TraceReader> reader = TraceReader::open(folder + "v1.trace");
  ASSERT_TRUE(reader) << reader.error().message;
  const std::string got = dump(*reader), want = read_file(folder + "v1.txt");
  ASSERT_FALSE(want.empty());
  // Not EXPECT_EQ: the difference of two long texts helps nobody.
  size_t at = 0, line = 1;
  for (; at < got.size() && at < want.size() && got[at] == want[at]; ++at) line += got[at] == '\n';
  EXPECT_TRUE(got == want) << "first difference in line " << line;
}

}  // namespace
}  // namespace opmeter::trace
