// Which tensor each weight of a program takes, by names alone: no values are looked at.
#include "weights/sources.h"

#include <memory>
#include <string>
#include <vector>

#include "base/text.h"
#include "gtest/gtest.h"
#include "ir/text.h"

namespace slipway::weights {
namespace {

// An embedding, a layer and a head of the embedding's type; all without values, and buffer $f persistent or not.
std::unique_ptr<ir::Program> Model(const std::string& before, bool tied = false) {
  auto archive = ir::Parse(text::StrCat(R"(slipway.ir 1
graph main(
  %e: f32[9,4] = parameter $)",
                                        before, R"(embed.weight,
  %w: f32[4,4] = parameter $)",
                                        before, R"(layers.0.weight,
  %h: f32[9,4] = parameter $)",
                                        before, R"(head.weight,
  %x: i64[2],
) {
  %a: f32[2,4] = aten.embedding.default(weight=%)",
                                        tied ? "h" : "e", R"(, indices=%x)
  %b: f32[2,4] = aten.linear.default(input=%a, weight=%w)
  %c: f32[2,9] = aten.linear.default(input=%b, weight=%h)
  return %c
}
)"));
  EXPECT_TRUE(archive.ok()) << archive.status();
  return archive.ok() ? std::move(archive->programs[0]) : nullptr;
}

GivenTensors Given(const std::vector<std::string>& names) {
  GivenTensors given;
  for (const std::string& name : names) {
    ir::ShardedTensor t;
    t.dtype = ir::DType::kFloat32;
    t.sizes = name.find("layers") == name.npos ? std::vector<int64_t>{9, 4} : std::vector<int64_t>{4, 4};
    given.emplace(name, std::move(t));
  }
  return given;
}

std::string Taken(const ir::Program& p, const GivenTensors& given, const SourceOptions& options = {}) {
  auto sources = FindSources(p, given, options);
  if (!sources.ok()) return std::string(sources.status().message());
  std::vector<std::string> parts;
  for (const auto& [name, from] : sources->given) parts.push_back(text::StrCat(name, "=", from));
  for (const std::string& name : sources->missing) parts.push_back(text::StrCat(name, "?"));
  return text::Join(parts, " ");
}

TEST(Sources, TheSameNames) {
  EXPECT_EQ(Taken(*Model(""), Given({"embed.weight", "layers.0.weight", "head.weight", "more"})),
            "embed.weight=embed.weight head.weight=head.weight layers.0.weight=layers.0.weight");
}

TEST(Sources, OneBeginningForAnother) {
  const GivenTensors given = Given({"model.embed.weight", "model.layers.0.weight", "model.head.weight"});
  EXPECT_EQ(Taken(*Model(""), given),
            "embed.weight=model.embed.weight head.weight=model.head.weight layers.0.weight=model.layers.0.weight");
  EXPECT_EQ(Taken(*Model("a.b."), given),
            "a.b.embed.weight=model.embed.weight a.b.head.weight=model.head.weight "
            "a.b.layers.0.weight=model.layers.0.weight");
  // Exact names come first, where they are all there.
  EXPECT_EQ(Taken(*Model("model."), given),
            "model.embed.weight=model.embed.weight model.head.weight=model.head.weight "
            "model.layers.0.weight=model.layers.0.weight");
}

TEST(Sources, Wrappers) {
  EXPECT_EQ(Taken(*Model(""), Given({"embed.weight", "layers.0._orig_mod.weight", "_orig_mod.head.weight"})),
            "embed.weight=embed.weight head.weight=_orig_mod.head.weight layers.0.weight=layers.0._orig_mod.weight");
  // Names that are one without wrappers stay two.
  EXPECT_EQ(Taken(*Model(""), Given({"embed.weight", "_orig_mod.embed.weight", "layers.0.weight"})),
            "embed.weight=embed.weight layers.0.weight=layers.0.weight head.weight?");
}

TEST(Sources, TwoBeginningsAreNone) {
  std::vector<std::string> names;
  for (const char* before : {"ema.", "net."})
    for (const char* name : {"embed.weight", "layers.0.weight", "head.weight"})
      names.push_back(text::StrCat(before, name));
  EXPECT_EQ(
      Taken(*Model(""), Given(names)),
      "the names fit in several ways: 'ema.NAME' there is 'NAME' of the program; 'net.NAME' there is 'NAME' of the "
      "program");
  // Sizes tell which.
  GivenTensors given = Given(names);
  given.at("ema.layers.0.weight").sizes = {5, 4};
  EXPECT_EQ(Taken(*Model(""), given),
            "embed.weight=net.embed.weight head.weight=net.head.weight layers.0.weight=net.layers.0.weight");
}

TEST(Sources, ABeginningMustGiveAllNames) {
  EXPECT_EQ(Taken(*Model(""), Given({"model.embed.weight", "model.layers.0.weight"})),
            "embed.weight? head.weight? layers.0.weight?");
  EXPECT_EQ(Taken(*Model(""), Given({"embed.weight", "layers.0.weight", "other.weight"})),
            "embed.weight=embed.weight layers.0.weight=layers.0.weight head.weight?");
}

TEST(Sources, Tied) {
  const GivenTensors given = Given({"embed.weight", "layers.0.weight"});
  // torch.export reads one of two names.
  EXPECT_EQ(Taken(*Model("", true), given),
            "embed.weight=embed.weight head.weight=embed.weight layers.0.weight=layers.0.weight");
  EXPECT_EQ(Taken(*Model("", true), Given({"head.weight", "layers.0.weight"})),
            "embed.weight=head.weight head.weight=head.weight layers.0.weight=layers.0.weight");
  EXPECT_EQ(Taken(*Model("m.", true), given),
            "m.embed.weight=embed.weight m.head.weight=embed.weight m.layers.0.weight=layers.0.weight");
  // Else the checkpoint has to say so.
  EXPECT_EQ(Taken(*Model(""), given), "embed.weight=embed.weight layers.0.weight=layers.0.weight head.weight?");
  EXPECT_EQ(Taken(*Model(""), given, {.tied_embeddings = true}),
            "embed.weight=embed.weight head.weight=embed.weight layers.0.weight=layers.0.weight");
  EXPECT_EQ(Taken(*Model(""), Given({"head.weight", "layers.0.weight"}), {.tied_embeddings = true}),
            "head.weight=head.weight layers.0.weight=layers.0.weight embed.weight?");
}

TEST(Sources, ARenameIsProposedWhereOnlyOneFits) {
  const auto p = Model("");
  EXPECT_EQ(RenameThatFits(*p, Given({"embed.weight", "layers.0.weight", "out.weight"}), {"head.weight"}),
            "^out\\.=>head.");
  EXPECT_EQ(RenameThatFits(*p, Given({"embed.weight", "layers.0.weight", "a.weight", "b.weight"}), {"head.weight"}),
            "");
  EXPECT_EQ(RenameThatFits(*p, Given({"embed.weight", "layers.0.weight"}), {"head.weight"}), "");
}

// What a hostile file makes the search cost.
TEST(Sources, ManyNames) {
  std::vector<std::string> names;
  for (int i = 0; i < 30000; ++i) names.push_back(text::StrCat("a.", i, ".embed.weight"));
  std::string deep;
  for (int i = 0; i < 20000; ++i) deep += "a.";
  EXPECT_NE(Taken(*Model(deep), Given(names)).find("head.weight?"), std::string::npos);
}

}  // namespace
}  // namespace slipway::weights
