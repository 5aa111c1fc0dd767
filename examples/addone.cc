// SPDX-License-Identifier: Apache-2.0
// addone.cc: calls a single compiled operator from C++, without a graph: open the library, find the
// function, pass tensors, check the answer. Usage: addone LIBRARY.so
#include <cstdio>

#include "runtime/executor/backend.h"
#include "runtime/executor/tensor.h"
#include "runtime/tvm/library.h"

namespace rt = opmeter::runtime;

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: addone LIBRARY.so (for example tests/data/tvm/addone_09.so)\n");
    return 2;
  }
  const opmeter::Result<std::shared_ptr<rt::Library>> library = rt::Library::open(argv[1]);
  if (!library) {
    std::fprintf(stderr, "addone: %s\n", library.error().message.c_str());
    return static_cast<int>(library.error().kind);
  }
  const rt::TvmFunction addone = (*library)->function("addone");
  if (addone == nullptr) {
    std::fprintf(stderr, "addone: %s has no function addone\n", argv[1]);
    return 3;
  }

  constexpr std::int64_t kLength = 10;
  const DLDataType float32{kDLFloat, 32, 1};
  opmeter::Result<rt::Tensor> x = rt::Tensor::create({kLength}, float32);
  opmeter::Result<rt::Tensor> y = rt::Tensor::create({kLength}, float32);
  if (!x || !y) return 3;
  for (std::size_t i = 0; i < kLength; ++i) x->as<float>()[i] = static_cast<float>(i);

  DLTensor x_view = x->view();
  DLTensor y_view = y->view();
  rt::TvmValue args[2];
  args[0].v_handle = &x_view;
  args[1].v_handle = &y_view;
  int type_codes[2] = {rt::kCodeTensor, rt::kCodeTensor};
  rt::TvmValue result{};
  int result_code = rt::kCodeNull;
  if (addone(args, type_codes, 2, &result, &result_code, nullptr) != 0) {
    std::fprintf(stderr, "addone: %s\n", rt::last_error());
    return 3;
  }
  for (std::size_t i = 0; i < kLength; ++i) {
    const float got = y->as<float>()[i];
    const float want = static_cast<float>(i) + 1;
    if (got != want) {
      std::fprintf(stderr, "addone: y[%zu] is %g, not %g\n", i, static_cast<double>(got),
                   static_cast<double>(want));
      return 1;
    }
  }
  std::printf("addone: %d values are right\n", static_cast<int>(kLength));
  return 0;
}
