// SPDX-License-Identifier: Apache-2.0
// Writes a synthetic trace of any length (synthetic_load.h):
//   synthetic_trace FILE EVENTS [--threads N] [--live N] [--stacks N] [--random-sizes] [--runs]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "bench/synthetic_load.h"

int main(int argc, char** argv) {
  opmeter::bench::SyntheticOptions options;
  const auto usage = [] {
    std::fprintf(stderr,
                 "usage: synthetic_trace FILE EVENTS [--threads N] [--live N] [--stacks N] "
                 "[--random-sizes] [--runs]\n");
    return 2;
  };
  if (argc < 3) return usage();
  const double events = std::strtod(argv[2], nullptr);  // 1e9 is a number of events, too
  if (!(events >= 1)) return usage();
  for (int i = 3; i < argc; ++i) {
    const std::string word = argv[i];
    uint32_t* number = word == "--threads"  ? &options.threads
                       : word == "--live"   ? &options.live_blocks
                       : word == "--stacks" ? &options.stacks
                                            : nullptr;
    if (number != nullptr && i + 1 < argc) {
      *number = static_cast<uint32_t>(std::strtoul(argv[++i], nullptr, 10));
      if (*number == 0) return usage();
    } else if (word == "--random-sizes") {
      options.random_sizes = true;
    } else if (word == "--runs") {
      options.runs = true;
    } else {
      return usage();
    }
  }
  auto writer = opmeter::trace::TraceWriter::create(argv[1]);
  if (!writer) {
    std::fprintf(stderr, "%s\n", writer.error().message.c_str());
    return 3;
  }
  const opmeter::Status status =
      opmeter::bench::write_synthetic(writer.value(), options, static_cast<uint64_t>(events));
  if (!status) {
    std::fprintf(stderr, "%s\n", status.error().message.c_str());
    return 3;
  }
  std::printf("%llu events, %llu bytes\n",
              static_cast<unsigned long long>(writer->events_written()),
              static_cast<unsigned long long>(writer->bytes_written()));
  return 0;
}
