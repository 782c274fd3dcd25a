// Quantized weights as tensors: any window of one holds the same numbers as the whole, also of parts of it and in other
// types; configurations; and what a set of tensors is refused for. The numbers of all formats are compared with torch's
// in tests/interop/quantized_checkpoints_test.py.
#include "weights/quantized/quantized.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "gtest/gtest.h"
#include "ir/sharded.h"
#include "weights/quantized/families.h"
#include "zip_builder.h"

namespace slipway::weights::quantized {
namespace {

using ir::DType;

template <typename T>
ir::TensorRef Tensor(DType dtype, std::vector<int64_t> sizes, const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return ir::OwnedTensor(dtype, std::move(sizes), std::move(bytes));
}

std::vector<int32_t> Words(std::mt19937& rng, int64_t count) {
  std::vector<int32_t> out(static_cast<size_t>(count));
  for (int32_t& w : out) w = static_cast<int32_t>(rng());
  return out;
}

std::vector<float> Floats(std::mt19937& rng, int64_t count) {
  std::uniform_real_distribution<float> number(-1, 1);
  std::vector<float> out(static_cast<size_t>(count));
  for (float& f : out) f = number(rng);
  return out;
}

ModelConfig ConfigOf(std::string_view quantization) {
  ModelConfig config;
  config.file = "config.json";
  config.document = std::make_shared<importers::json::Document>(*importers::json::Document::Parse(quantization));
  config.quantization = config.document->root();
  config.method = *config.Text("quant_method", "");
  return config;
}

// A layer of 64 inputs and `out` outputs, 4 bits in groups of 16.
ir::TensorSet Gptq(std::mt19937& rng, int64_t out) {
  ir::TensorSet set;
  set.tensors["m.qweight"] = Tensor(DType::kInt32, {8, out}, Words(rng, 8 * out));
  set.tensors["m.qzeros"] = Tensor(DType::kInt32, {4, out / 8}, Words(rng, 4 * out / 8));
  set.tensors["m.scales"] = Tensor(DType::kFloat32, {4, out}, Floats(rng, 4 * out));
  return set;
}
constexpr std::string_view kGptq = R"({"quant_method": "gptq", "bits": 4, "group_size": 16})";

std::vector<float> All(const ir::ShardedTensor& t, int64_t step) {
  auto reader = ir::ElementReader::Open(t);
  EXPECT_TRUE(reader.ok());
  std::vector<float> out;
  while (reader->left() > 0) {
    const auto bytes = reader->NextDense(step);
    const size_t at = out.size();
    out.resize(at + bytes.size() / sizeof(float));
    std::memcpy(out.data() + at, bytes.data(), bytes.size());
  }
  return out;
}

TEST(Quantized, AnyWindowHoldsTheSameNumbers) {
  std::mt19937 rng(1);
  const int64_t out = 1 << 17;  // several windows of the reader's, and of the weight's
  ir::TensorSet set = Gptq(rng, out);
  const auto found = Find(set, ConfigOf(kGptq), true);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_TRUE(found->has_value());
  EXPECT_EQ((*found)->title, "GPTQ 4 bits, group 16");
  EXPECT_EQ(Replace(**found, DType::kUnknown, nullptr, &set), 1);
  EXPECT_TRUE(set.tensors.empty());
  const ir::ShardedTensor& t = set.sharded.at("m.weight");
  EXPECT_EQ(t.sizes, (std::vector<int64_t>{out, 64}));
  EXPECT_EQ(t.whole(), nullptr);
  EXPECT_TRUE(ir::Validate(t).ok());

  const std::vector<float> all = All(t, t.numel());
  ASSERT_EQ(static_cast<int64_t>(all.size()), t.numel());
  EXPECT_EQ(All(t, 1000003), all);
  for (int i = 0; i < 50; ++i) {
    const int64_t from = static_cast<int64_t>(rng() % all.size());
    const int64_t count = std::min<int64_t>(1 + rng() % 5000, t.numel() - from);
    std::vector<float> part(static_cast<size_t>(count));
    t.derived->Read(from, count, reinterpret_cast<uint8_t*>(part.data()));
    ASSERT_EQ(std::memcmp(part.data(), all.data() + from, part.size() * sizeof(float)), 0) << from;
  }
  // Parts of a dimension, and of that part.
  const auto rows = ir::Narrow(t, 0, 7, 100);
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ(All(*rows, 33), std::vector<float>(all.begin() + 7 * 64, all.begin() + 107 * 64));
  const auto columns = ir::Narrow(*rows, 1, 10, 20);
  ASSERT_TRUE(columns.ok());
  EXPECT_EQ(columns->sizes, (std::vector<int64_t>{100, 20}));
  std::vector<float> wanted;
  for (int64_t r = 7; r < 107; ++r) wanted.insert(wanted.end(), all.begin() + r * 64 + 10, all.begin() + r * 64 + 30);
  EXPECT_EQ(All(*columns, 7), wanted);
  EXPECT_EQ(All(*columns, 5000), wanted);
}

TEST(Quantized, InAnotherType) {
  std::mt19937 rng(2);
  ir::TensorSet set = Gptq(rng, 8);
  const auto found = Find(set, ConfigOf(kGptq), true);
  ASSERT_TRUE(found.ok() && found->has_value());
  Replace(**found, DType::kFloat16, nullptr, &set);
  const ir::ShardedTensor& half = set.sharded.at("m.weight");
  EXPECT_EQ(half.dtype, DType::kFloat16);
  const ir::ShardedTensor full = half.In(DType::kFloat32);
  EXPECT_EQ(full.dtype, DType::kFloat32);
  EXPECT_EQ(half.In(DType::kInt8).dtype, DType::kFloat16);
  const std::vector<float> numbers = All(full, 512);
  std::vector<F16> halves(numbers.size());
  half.derived->Read(0, half.numel(), reinterpret_cast<uint8_t*>(halves.data()));
  for (size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(halves[i].bits, F16(numbers[i]).bits);
}

TEST(Quantized, WhatAProgramTakesStays) {
  std::mt19937 rng(3);
  ir::TensorSet set = Gptq(rng, 8);
  const auto found = Find(set, ConfigOf(kGptq), true);
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ(Replace(**found, DType::kFloat16, [](const Weight& w) { return w.parts.size() == 3; }, &set), 0);
  EXPECT_EQ(set.tensors.size(), 3u);
  EXPECT_TRUE(set.sharded.empty());
}

TEST(Quantized, NothingSaysSo) {
  std::mt19937 rng(4);
  const auto found = Find(Gptq(rng, 8), std::nullopt, true);
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->has_value());
}

TEST(Quantized, Refused) {
  std::mt19937 rng(5);
  const auto code = [&](std::string_view config, const ir::TensorSet& set) {
    return Find(set, ConfigOf(config), true).status().code();
  };
  ir::TensorSet set = Gptq(rng, 8);
  EXPECT_EQ(code(R"({"quant_method": "hqq"})", set), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(code(R"({"quant_method": "gptq", "bits": 4, "group_size": 16, "checkpoint_format": "marlin"})", set),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(code(R"({"quant_method": "gptq", "bits": 4, "group_size": 0})", set), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(R"({"quant_method": "gptq", "bits": "4"})", set), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(R"({"quant_method": "gptq", "bits": 4, "group_size": 32})", set), absl::StatusCode::kInvalidArgument);
  set.tensors["m.g_idx"] = Tensor(DType::kInt32, {64}, std::vector<int32_t>(64, 4));
  const auto found = Find(set, ConfigOf(kGptq), true);
  EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(found.status().message().find("m.g_idx"), std::string::npos);
}

TEST(Quantized, BitsAcrossWords) {
  // 0, 1, …, 10 of 3 bits each: the eleventh lies in two words.
  uint64_t stream = 0;
  for (uint64_t i = 0; i < 11; ++i) stream |= (i & 7) << (3 * i);
  uint8_t bytes[8];
  std::memcpy(bytes, &stream, sizeof bytes);
  for (uint32_t i = 0; i < 11; ++i) EXPECT_EQ(BitsAt(bytes, 1, 3 * i, 3), i & 7);
}

TEST(ModelConfig, LosesItsQuantization) {
  const auto without = WithoutQuantization(
      R"({"a": 1.5, "torch_dtype": "float16", "quantization_config": {"x": 1}, "b": {"quantization_config": 2},)"
      R"("text_config": {"dtype": "float16", "compression_config": {}, "c": [null, true]}})",
      DType::kBFloat16);
  ASSERT_TRUE(without.ok());
  EXPECT_EQ(*without, R"({"a":1.5,"torch_dtype":"bfloat16","b":{"quantization_config":2},)"
                      R"("text_config":{"dtype":"bfloat16","c":[null,true]}})"
                      "\n");
  EXPECT_FALSE(WithoutQuantization("[]", DType::kUnknown).ok());
  const auto with = WithQuantization(R"({"dtype": "float32", "quantization_config": null})", R"({"y":2})");
  ASSERT_TRUE(with.ok());
  EXPECT_EQ(*with, R"({"dtype":"float32","quantization_config":{"y":2}})"
                   "\n");
}

TEST(ModelConfig, OfAFolder) {
  const std::string folder = testing::TempPath("model_config");
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  const auto write = [&](const std::string& name, std::string_view text) {
    std::ofstream(folder + "/" + name) << text;
  };
  EXPECT_FALSE(ReadModelConfig(folder)->has_value());
  write("config.json", R"({"model_type": "x", "dtype": "bfloat16"})");
  EXPECT_FALSE(ReadModelConfig(folder)->has_value());
  write("quantize_config.json", R"({"bits": 4})");
  auto config = ReadModelConfig(folder);
  ASSERT_TRUE(config.ok() && config->has_value());
  EXPECT_EQ((*config)->method, "gptq");
  EXPECT_EQ((*config)->model_type, "x");
  EXPECT_EQ((*config)->dtype, DType::kBFloat16);
  EXPECT_EQ(*(*config)->Int("bits", 0), 4);
  write("config.json",
        R"({"text_config": {"quantization_config": {"quant_method": "awq"}, "torch_dtype": "float16"}})");
  config = ReadModelConfig(folder);
  ASSERT_TRUE(config.ok() && config->has_value());
  EXPECT_EQ((*config)->method, "awq");
  EXPECT_EQ((*config)->dtype, DType::kFloat16);
  write("config.json", "{");
  EXPECT_EQ(ReadModelConfig(folder).status().code(), absl::StatusCode::kInvalidArgument);
  write("config.json", R"({"quantization_config": 3})");
  EXPECT_EQ(ReadModelConfig(folder).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace slipway::weights::quantized
