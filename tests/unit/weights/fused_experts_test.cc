// Experts one by one become the fused tensor: where each lies in it, and what is left alone.
#include "weights/fused_experts.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/text.h"
#include "gtest/gtest.h"
#include "ir/text.h"

namespace slipway::weights {
namespace {

std::unique_ptr<ir::Program> Model(const std::string& weight) {
  auto archive = ir::Parse(text::StrCat("slipway.ir 1\ngraph main(\n  %w: f32[2,4,3] = parameter $", weight, R"(,
) {
  %a: f32[2,4,3] = aten.relu.default(self=%w)
  return %a
}
)"));
  EXPECT_TRUE(archive.ok()) << archive.status();
  return archive.ok() ? std::move(archive->programs[0]) : nullptr;
}

// A matrix whose elements count from `first` on.
ir::ShardedTensor Matrix(float first, int64_t rows = 2, int64_t columns = 3) {
  std::string bytes(static_cast<size_t>(rows * columns) * sizeof(float), '\0');
  for (int64_t i = 0; i < rows * columns; ++i) {
    const float value = first + static_cast<float>(i);
    std::memcpy(bytes.data() + i * static_cast<int64_t>(sizeof(float)), &value, sizeof(float));
  }
  return ir::OwnedTensor(ir::DType::kFloat32, {rows, columns}, std::move(bytes));
}

std::vector<float> Values(const ir::ShardedTensor& t) {
  auto reader = ir::ElementReader::Open(t);
  EXPECT_TRUE(reader.ok()) << reader.status();
  std::vector<float> out;
  while (reader.ok() && reader->left() > 0) {
    const auto bytes = reader->NextDense(reader->left());
    const size_t at = out.size();
    out.resize(at + bytes.size() / sizeof(float));
    std::memcpy(out.data() + at, bytes.data(), bytes.size());
  }
  return out;
}

TEST(FuseExperts, GateAboveUpExpertByExpert) {
  for (const auto& [gate, up] : {std::pair("gate_proj", "up_proj"), std::pair("w1", "w3"), std::pair("fc1", "fc3")}) {
    GivenTensors given;
    for (int e = 0; e < 2; ++e) {
      given[text::StrCat("m.experts.", e, ".", gate, ".weight")] = Matrix(static_cast<float>(100 * e));
      given[text::StrCat("m.experts.", e, ".", up, ".weight")] = Matrix(static_cast<float>(100 * e + 50));
    }
    std::vector<std::string> notes;
    FuseExperts(*Model("x.m.experts.gate_up_proj"), &given, &notes);
    ASSERT_EQ(given.size(), 1u);
    const ir::ShardedTensor& fused = given.at("m.experts.gate_up_proj");
    EXPECT_EQ(fused.sizes, (std::vector<int64_t>{2, 4, 3}));
    EXPECT_EQ(Values(fused), (std::vector<float>{0,   1,   2,   3,   4,   5,   50,  51,  52,  53,  54,  55,
                                                 100, 101, 102, 103, 104, 105, 150, 151, 152, 153, 154, 155}));
    EXPECT_EQ(notes, std::vector<std::string>{"--weights: 4 tensors of experts are fused into 1"});
  }
}

TEST(FuseExperts, WhatIsLeftAlone) {
  const auto stays = [](const std::string& weight, GivenTensors given) {
    const size_t before = given.size();
    std::vector<std::string> notes;
    FuseExperts(*Model(weight), &given, &notes);
    return notes.empty() && given.size() == before;
  };
  const GivenTensors whole = {{"experts.0.w2.weight", {}},  // no module that experts are in
                              {"m.experts.0.w2.weight", Matrix(0)},
                              {"m.experts.1.w2.weight", Matrix(6)}};
  EXPECT_FALSE(stays("m.experts.down_proj", whole));
  EXPECT_TRUE(stays("m.experts.0.w2.weight", whole));  // a program of modules
  auto given = whole;
  given["m.experts.down_proj"] = Matrix(0);
  EXPECT_TRUE(stays("m.experts.down_proj", given));
  given = whole;
  given["m.experts.3.w2.weight"] = Matrix(0);  // and no second one
  EXPECT_TRUE(stays("m.experts.down_proj", given));
  given = whole;
  given["m.experts.1.w2.weight"] = Matrix(0, 3, 2);
  EXPECT_TRUE(stays("m.experts.down_proj", given));
  given = whole;
  given["m.experts.1.w2.weight"].dtype = ir::DType::kFloat16;
  EXPECT_TRUE(stays("m.experts.down_proj", given));
  given = whole;
  given.emplace("m.experts.01.w2.weight", given.extract("m.experts.1.w2.weight").mapped());
  EXPECT_FALSE(stays("m.experts.down_proj", given));  // one expert
  EXPECT_TRUE(stays("m.experts.gate_up_proj", whole));
}

}  // namespace
}  // namespace slipway::weights
