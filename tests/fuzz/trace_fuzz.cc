// SPDX-License-Identifier: Apache-2.0
// Any bytes as a trace file: the reader must answer with an error or with events, never with a crash. In fuzzing builds
// checksums are not verified, so that mutations reach the decoders.
#include <cstddef>
#include <cstdint>

#include "profiler/trace/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  opmeter::Result<opmeter::trace::TraceReader> reader =
      opmeter::trace::TraceReader::from_bytes(data, size, "fuzz");
  if (!reader) return 0;
  opmeter::trace::EventStream stream = reader->events();
  uint64_t sum = 0;
  for (opmeter::trace::Event event; stream.next(event);) sum += event.bytes;
  for (const auto& [id, stack] : reader->definitions().stacks) {
    for (const uint64_t frame : stack.frames) {
      sum += reader->definitions().module_at(frame, stack.epoch) != nullptr;
    }
  }
  return sum == UINT64_MAX ? -1 : 0;  // uses the sum; -1 only keeps such an input out of the corpus
}
