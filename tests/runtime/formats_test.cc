// SPDX-License-Identifier: Apache-2.0
// formats_test.cc: graph JSON, .params and types: quirks that are honoured, damage that is named.
#include <gtest/gtest.h>

#include <cstring>

#include "runtime/tvm/byte_reader.h"
#include "runtime/tvm/dtype.h"
#include "runtime/tvm/graph_json.h"
#include "runtime/tvm/params.h"
#include "tests/runtime/graphs.h"

namespace opmeter::runtime {
namespace {

std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string sample() {
  return GraphText().input("x").op("y", "add_one", "[0,0,0]").text("[1,0,0]");
}

TEST(GraphJson, ReadsNodesEntriesAndHeads) {
  const Result<Graph> graph = parse_graph_json(sample(), "g.json");
  ASSERT_TRUE(graph.ok()) << graph.error().message;
  EXPECT_EQ(graph->nodes.size(), 2u);
  EXPECT_EQ(graph->nodes[1].func_name, "add_one");
  EXPECT_EQ(graph->entries[1].size_bytes, 16u);
  EXPECT_EQ(graph->heads[0].node, 1u);
}

TEST(GraphJson, TakesTheQuirksThatRealGraphsHave) {
  const std::string text = sample();
  for (const std::string& quirk : {
           with(text, "[0,0,0]", "[0,0]"),                       // no version
           with(text, "\"attrs\":{\"func", "\"attr\":{\"func"),  // old spelling
           with(text, "\"inputs\":[]", "\"inputs\":[],\"control_deps\":[]"),
           with(text, "\"func_name\"", "\"hash\":\"1f\",\"func_name\""),  // extra attribute
           with(text, "\"dltype\"", "\"dtype\":[\"list_int\",[0,0]],\"dltype\""),  // NNVM
           with(text, "\"dltype\"", "\"device_index\":[\"list_int\",[1,1]],\"dltype\""),
           with(text, "\"dltype\"",
                "\"storage_scope\":[\"list_str\",[\"\",\"global\"]],\"dltype\""),
           text.substr(0, text.size() - 1) + ",\"metadata\":{\"a\":1},\"whatever\":2}",
       }) {
    const Result<Graph> graph = parse_graph_json(quirk, "g.json");
    EXPECT_TRUE(graph.ok()) << graph.error().message << "\n" << quirk;
  }
}

TEST(GraphJson, NamesWhatIsWrong) {
  const std::string text = sample();
  struct Bad {
    std::string text;
    std::string part;
  };
  for (const Bad& bad : {
           Bad{"", "not JSON"},
           Bad{text.substr(0, text.size() / 2), "not JSON"},
           Bad{"[]", "not an object"},
           Bad{"{}", "\"nodes\" is missing"},
           Bad{with(text, "\"heads\"", "\"tails\""), "unknown key \"tails\""},
           Bad{with(text, "\"name\":\"y\"", "\"name\":\"y\",\"colour\":1"),
               "unknown key \"colour\""},
           Bad{with(text, "\"dltype\"", "\"colour\":[\"list_str\",[]],\"dltype\""),
               "unknown key \"colour\""},
           Bad{with(text, "tvm_op", "conv2d"), "op \"conv2d\""},
           Bad{with(text, "\"func_name\":\"add_one\",", ""), "\"func_name\" is missing"},
           Bad{with(text, "\"flatten_data\":\"0\"", "\"flatten_data\":\"maybe\""), "flatten_data"},
           Bad{with(text, "\"num_inputs\":\"1\"", "\"num_inputs\":\"2\""), "num_inputs says 2"},
           Bad{with(text, "\"num_outputs\":\"1\"", "\"num_outputs\":\"2\""), "node_row_ptr"},
           Bad{with(text, "[[0,0,0]]", "[[7,0,0]]"), "names no tensor"},
           Bad{with(text, "[[0,0,0]]", "[[1,0,0]]"), "runs later"},
           Bad{with(text, "[[0,0,0]]", "[[0,1,0]]"), "names no tensor"},
           Bad{with(text, "[[1,0,0]]", "[[9,0,0]]"), "output [9, 0]"},
           Bad{with(text, "\"arg_nodes\":[0]", "\"arg_nodes\":[1]"), "arg_nodes"},
           Bad{with(text, "\"arg_nodes\":[0]", "\"arg_nodes\":[]"), "not in arg_nodes"},
           Bad{with(text, "\"node_row_ptr\":[0,1,2]", "\"node_row_ptr\":[0,2,1]"), "node_row_ptr"},
           Bad{with(text, "\"float32\"", "\"float33\""), "\"float33\""},
           Bad{with(text, "[4],[4]", "[4]"), "\"shape\" has 1 values for 2"},
           Bad{with(text, "[4],[4]", "[4],[-1]"), "extent"},
           Bad{with(text, "[4],[4]", "[4],[9223372036854775807]"), "does not fit"},
           Bad{with(text, "[4],[4]", "[4],[18446744073709551615]"), "extent"},
           Bad{with(text, "[\"list_int\",[0,1]]", "[\"list_int\",[0,-1]]"), "below 0"},
           Bad{with(text, "add_one", "__nop\",\"x\":\"\n"), "not JSON"},
       }) {
    const Result<Graph> graph = parse_graph_json(bad.text, "g.json");
    ASSERT_FALSE(graph.ok()) << bad.part;
    EXPECT_EQ(graph.error().kind, ErrorKind::kInput);
    EXPECT_NE(graph.error().message.find(bad.part), std::string::npos) << graph.error().message;
    EXPECT_EQ(graph.error().message.rfind("g.json: ", 0), 0u);
    EXPECT_EQ(graph.error().message.find('\n'), std::string::npos);
  }
}

TEST(GraphJson, ANopMustKeepTheSize) {
  const std::string text = GraphText()
                               .input("x")
                               .op("r", "__nop", "[0,0,0]", {.storage_id = 0, .shape = "[8]"})
                               .text("[1,0,0]");
  const Result<Graph> graph = parse_graph_json(text, "g.json");
  ASSERT_FALSE(graph.ok());
  EXPECT_NE(graph.error().message.find("from 16 to 32 bytes"), std::string::npos);
}

std::string u64(std::uint64_t value) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &value, 8);
  return bytes;
}

std::string one_param() {
  const std::string array = u64(0xDD5E40F096B4A13F) + u64(0) + std::string("\1\0\0\0\0\0\0\0", 8) +
                            std::string("\1\0\0\0", 4) + std::string("\2\x20\1\0", 4) + u64(2) +
                            u64(8) + std::string("\0\0\x80\x3f\0\0\0\x40", 8);
  return u64(0xF7E58D4F05049CB7) + u64(0) + u64(1) + u64(2) + "p0" + u64(1) + array;
}

Result<std::vector<NamedTensor>> params_of(const std::string& bytes) {
  return parse_params(std::as_bytes(std::span(bytes)), "m.params");
}

TEST(Params, ReadsNamesAndAlignedArrays) {
  const auto params = params_of(one_param());
  ASSERT_TRUE(params.ok()) << params.error().message;
  ASSERT_EQ(params->size(), 1u);
  EXPECT_EQ((*params)[0].name, "p0");
  EXPECT_EQ((*params)[0].tensor.as<float>()[1], 2.0f);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>((*params)[0].tensor.data()) % kTensorAlignment, 0u);
}

TEST(Params, EveryCutIsAnErrorThatNamesTheFile) {
  const std::string whole = one_param();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto params = params_of(whole.substr(0, size));
    ASSERT_FALSE(params.ok()) << size;
    EXPECT_EQ(params.error().message.rfind("m.params: ", 0), 0u);
  }
  EXPECT_NE(params_of(whole + "x").error().message.find("follow the last"), std::string::npos);
}

TEST(Params, DamageIsNamed) {
  struct Bad {
    std::size_t at;
    char value;
    std::string part;
  };
  const std::size_t array = 8 * 4 + 2 + 8;
  for (const Bad& bad : {Bad{0, 'x', "wrong magic"}, Bad{array, 'x', "no array begins"},
                         Bad{array + 16, 2, "not the CPU"}, Bad{array + 24, 99, "99 dimensions"},
                         Bad{array + 29, 64, "16 is right"}, Bad{array + 39, 127, "does not fit"},
                         Bad{16, 7, "damaged"}}) {
    std::string bytes = one_param();
    bytes[bad.at] = bad.value;
    const auto params = params_of(bytes);
    ASSERT_FALSE(params.ok()) << bad.part;
    EXPECT_NE(params.error().message.find(bad.part), std::string::npos) << params.error().message;
  }
}

TEST(Dtype, RoundTripsTvmsSpellings) {
  for (const char* text :
       {"float32", "int8", "uint16", "bfloat16", "float32x4", "bool", "handle", "int4"}) {
    const std::optional<DLDataType> type = parse_dtype(text);
    ASSERT_TRUE(type.has_value()) << text;
    EXPECT_EQ(dtype_name(*type), text);
  }
  EXPECT_EQ(dtype_name(*parse_dtype("float")), "float32");
  for (const char* text : {"floats", "int0", "float32x", "float999", "complex64", "int8x0"}) {
    EXPECT_FALSE(parse_dtype(text).has_value()) << text;
  }
}

TEST(Dtype, CountsBytesAsTvmDoes) {
  EXPECT_EQ(element_bytes({kDLUInt, 1, 1}), 1u);
  EXPECT_EQ(element_bytes({kDLInt, 4, 1}), 1u);
  EXPECT_EQ(element_bytes({kDLFloat, 16, 3}), 6u);
  EXPECT_EQ(shape_bytes({}, {kDLFloat, 32, 1}), 4u);
  EXPECT_FALSE(shape_bytes(std::vector<std::int64_t>{1ll << 40, 1ll << 40}, {kDLFloat, 32, 1}));
}

TEST(ByteReader, FailsOnceAndStaysFailed) {
  const std::string bytes = u64(3) + "abc";
  ByteReader reader(std::as_bytes(std::span(bytes)));
  EXPECT_EQ(reader.read_string(), "abc");
  EXPECT_EQ(reader.read<std::uint8_t>(), 0);
  EXPECT_TRUE(reader.failed());
  ByteReader count(std::as_bytes(std::span(bytes)));
  EXPECT_EQ(count.read_count(2), 0u) << "3 items of 2 bytes do not fit in 3 bytes";
  EXPECT_TRUE(count.failed());
}

}  // namespace
}  // namespace opmeter::runtime
