// SPDX-License-Identifier: Apache-2.0
// npy_test.cc: .npy files of every version and type come in, go out and are refused with a reason.
#include "runtime/npy.h"

#include <gtest/gtest.h>

#include <cstring>

#include "runtime/tvm/dtype.h"
#include "tests/runtime/graphs.h"

namespace opmeter::runtime {
namespace {

std::string npy(const std::string& header, const std::string& data, char version = 1) {
  std::string text = "\x93NUMPY";
  text += version;
  text += '\0';
  text += static_cast<char>(header.size() & 0xff);
  text += static_cast<char>(header.size() >> 8);
  if (version > 1) text += std::string(2, '\0');
  return text + header + data;
}

Result<Tensor> parse(const std::string& bytes) {
  return parse_npy(std::as_bytes(std::span(bytes)), "a.npy");
}

TEST(Npy, ReadsEveryVersion) {
  for (const char version : {'\1', '\2', '\3'}) {
    const Result<Tensor> tensor =
        parse(npy("{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }\n",
                  std::string(8, '\0'), version));
    ASSERT_TRUE(tensor.ok()) << tensor.error().message;
    EXPECT_EQ(tensor->size_bytes(), 8u);
    EXPECT_EQ(dtype_name(tensor->dtype()), "int32");
  }
}

TEST(Npy, WritesAndReadsBackEveryType) {
  const TempFolder folder;
  for (const char* name : {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
                           "uint64", "float16", "float32", "float64"}) {
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{}, {3}, {2, 3}, {0, 4}, {1, 1, 1, 1}}) {
      Result<Tensor> tensor = Tensor::create(shape, *parse_dtype(name));
      for (std::size_t i = 0; i < tensor->size_bytes(); ++i) {
        static_cast<unsigned char*>(tensor->data())[i] = static_cast<unsigned char>(i + 1);
      }
      const std::string path = folder.path() + "/a.npy";
      const Status status = write_npy(path, tensor->view());
      ASSERT_TRUE(status.ok()) << status.error().message;
      Result<Tensor> back = read_npy(path);
      ASSERT_TRUE(back.ok()) << back.error().message;
      EXPECT_TRUE(
          std::equal(shape.begin(), shape.end(), back->shape().begin(), back->shape().end()));
      EXPECT_TRUE(same_dtype(back->dtype(), tensor->dtype())) << name;
      EXPECT_EQ(std::memcmp(back->data(), tensor->data(), tensor->size_bytes()), 0);
    }
  }
}

TEST(Npy, RefusesWithAReason) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1)}";
  struct Bad {
    std::string bytes;
    std::string part;
  };
  for (const Bad& bad : {
           Bad{"", "wrong magic"},
           Bad{"PK\3\4 something", "wrong magic"},
           Bad{npy(good, "", 9), "version 9"},
           Bad{npy(good, "1234567"), "7 bytes"},
           Bad{npy(good, "123456789"), "9 bytes"},
           Bad{npy(good, "").substr(0, 20), "header is cut"},
           Bad{npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", "1234"), "\">f4\""},
           Bad{npy("{'descr': '<U3', 'fortran_order': False, 'shape': (1,)}", "1234"), "\"<U3\""},
           Bad{npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", "12345678"),
               "\"<c8\""},
           Bad{npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1)}", "1234"), "Fortran"},
           Bad{npy("{'descr': '<f4', 'shape': (1,)}", "1234"), "damaged"},
           Bad{npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "1234"),
               "damaged"},
           Bad{npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", ""), "does not fit"},
       }) {
    const Result<Tensor> tensor = parse(bad.bytes);
    ASSERT_FALSE(tensor.ok()) << bad.part;
    EXPECT_NE(tensor.error().message.find(bad.part), std::string::npos) << tensor.error().message;
    EXPECT_EQ(tensor.error().kind, ErrorKind::kInput);
  }
  EXPECT_NE(read_npy("/nowhere/a.npy").error().message.find("No such file"), std::string::npos);
}

TEST(Npy, CannotWriteWhatNumpyCannotRead) {
  Result<Tensor> tensor = Tensor::create({2}, {kDLBfloat, 16, 1});
  EXPECT_EQ(write_npy("/tmp/never.npy", tensor->view()).error().kind, ErrorKind::kUsage);
  Result<Tensor> fine = Tensor::create({2}, {kDLFloat, 32, 1});
  EXPECT_EQ(write_npy("/nowhere/a.npy", fine->view()).error().kind, ErrorKind::kInput);
}

}  // namespace
}  // namespace opmeter::runtime
