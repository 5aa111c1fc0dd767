// SPDX-License-Identifier: Apache-2.0
// blob_fuzz.cc: any bytes as the module blob of a library: an error of one line or its entries.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "runtime/tvm/blob.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace opmeter::runtime;
  const opmeter::Result<Blob> blob = parse_blob(std::as_bytes(std::span(data, size)), "fuzz.so");
  if (!blob && blob.error().message.find('\n') != std::string::npos) std::abort();
  return 0;
}
