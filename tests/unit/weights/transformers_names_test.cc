// Names in transformers' model classes: rules of the class, of its parts and of what config.json chooses for them.
#include "weights/transformers_names.h"

#include <string>
#include <string_view>

#include "base/text.h"
#include "gtest/gtest.h"

namespace slipway::weights {
namespace {

// The name; "+" behind it where values change, "unknown" for a model that is.
std::string Loaded(std::string_view config, std::string_view name) {
  const auto names = TransformersNames::For(config);
  if (!names.ok()) return std::string(names.status().message());
  if (!*names) return "unknown";
  const TransformersNames::Loaded loaded = (*names)->Load(name);
  return loaded.name + (loaded.converted ? "+" : "");
}

std::string OfClass(std::string_view name) { return text::StrCat(R"({"architectures": [")", name, R"("]})"); }

TEST(TransformersNames, Experts) {
  const std::string qwen = OfClass("Qwen3MoeForCausalLM");
  EXPECT_EQ(Loaded(qwen, "model.layers.0.mlp.experts.7.gate_proj.weight"), "model.layers.0.mlp.experts.gate_up_proj+");
  EXPECT_EQ(Loaded(qwen, "model.layers.0.mlp.gate.weight"), "model.layers.0.mlp.gate.weight");
  const std::string mixtral = OfClass("MixtralForCausalLM");
  EXPECT_EQ(Loaded(mixtral, "model.layers.0.block_sparse_moe.gate.weight"), "model.layers.0.mlp.gate.weight");
  EXPECT_EQ(Loaded(mixtral, "model.layers.0.block_sparse_moe.experts.1.w2.weight"),
            "model.layers.0.mlp.experts.down_proj+");
}

TEST(TransformersNames, PrefixOfTheBaseModel) {
  const std::string vit = OfClass("ViTForImageClassification");
  EXPECT_EQ(Loaded(vit, "vit.encoder.layer.3.attention.attention.query.weight"),
            "vit.layers.3.attention.q_proj.weight");
  EXPECT_EQ(Loaded(vit, "encoder.layer.3.attention.attention.query.weight"), "vit.layers.3.attention.q_proj.weight");
  EXPECT_EQ(Loaded(vit, "classifier.weight"), "classifier.weight");
  EXPECT_EQ(Loaded(OfClass("ViTModel"), "vit.encoder.layer.3.output.dense.weight"), "layers.3.mlp.fc2.weight");
  EXPECT_EQ(Loaded(OfClass("BertModel"), "bert.pooler.dense.weight"), "pooler.dense.weight");
  EXPECT_EQ(Loaded(OfClass("BloomForCausalLM"), "h.0.mlp.dense_h_to_4h.weight"),
            "transformer.h.0.mlp.dense_h_to_4h.weight");
}

TEST(TransformersNames, OfAModelTypeAlone) {
  EXPECT_EQ(Loaded(R"({"model_type": "bert"})", "bert.pooler.dense.weight"), "pooler.dense.weight");
  EXPECT_EQ(Loaded(R"({"architectures": ["Dots1ForCausalLM"], "model_type": "dots1"})",
                   "model.layers.0.mlp.experts.7.up_proj.weight"),
            "model.layers.0.mlp.experts.gate_up_proj+");
}

// Qwen2-VL's names before and after its language model had a name of its own: look-ahead.
TEST(TransformersNames, WhatIsNotToStandBeforeOrBehind) {
  const std::string qwen = OfClass("Qwen2VLForConditionalGeneration");
  EXPECT_EQ(Loaded(qwen, "model.layers.0.mlp.up_proj.weight"), "model.language_model.layers.0.mlp.up_proj.weight");
  EXPECT_EQ(Loaded(qwen, "model.language_model.layers.0.mlp.up_proj.weight"),
            "model.language_model.layers.0.mlp.up_proj.weight");
  EXPECT_EQ(Loaded(qwen, "visual.blocks.0.attn.proj.weight"), "model.visual.blocks.0.attn.proj.weight");
  const std::string dino = OfClass("DINOv3ViTModel");
  EXPECT_EQ(Loaded(dino, "layer.0.mlp.up_proj.weight"), "model.layer.0.mlp.up_proj.weight");
  EXPECT_EQ(Loaded(dino, "model.layer.0.mlp.up_proj.weight"), "model.layer.0.mlp.up_proj.weight");
}

// The language model of LLaVA is what config.json says: the rules of its class count under its path.
TEST(TransformersNames, PartsThatTheConfigurationChooses) {
  const std::string_view name = "language_model.model.layers.0.mlp.experts.1.up_proj.weight";
  const auto llava = [](std::string_view type) {
    return text::StrCat(R"({"architectures": ["LlavaForConditionalGeneration"], "text_config": {"model_type": ")", type,
                        R"("}})");
  };
  EXPECT_EQ(Loaded(llava("qwen3_moe"), name), "model.language_model.layers.0.mlp.experts.gate_up_proj+");
  EXPECT_EQ(Loaded(llava("llama"), name), "model.language_model.layers.0.mlp.experts.1.up_proj.weight");
}

TEST(TransformersNames, WhatIsNoLinear) {
  const auto is_other = [](std::string_view config, std::string_view name) {
    return TransformersNames::For(config).value().value().IsOther(name);
  };
  EXPECT_TRUE(is_other(OfClass("SamModel"), "mask_decoder.iou_token.weight"));
  EXPECT_FALSE(is_other(OfClass("SamModel"), "mask_decoder.iou_token.bias"));
  EXPECT_FALSE(is_other(OfClass("SamModel"), "mask_decoder.iou_prediction_head.proj_in.weight"));
  EXPECT_TRUE(is_other(OfClass("Qwen3MoeForCausalLM"), "model.layers.17.mlp.gate.weight"));
  EXPECT_FALSE(is_other(OfClass("Qwen3MoeForCausalLM"), "model.layers.17.mlp.gate_proj.weight"));
  // Of the class that config.json chooses for a part.
  const std::string_view gate = "model.language_model.layers.1.mlp.gate.weight";
  const std::string_view moe =
      R"({"architectures": ["LlavaForConditionalGeneration"], "text_config": {"model_type": "qwen3_moe"}})";
  EXPECT_TRUE(is_other(moe, gate));
  EXPECT_FALSE(is_other(OfClass("LlavaForConditionalGeneration"), gate));
}

TEST(TransformersNames, UnknownAndMalformed) {
  EXPECT_EQ(Loaded(OfClass("MyModel"), "a.weight"), "unknown");
  EXPECT_EQ(Loaded("{}", "a.weight"), "unknown");
  EXPECT_EQ(Loaded(R"({"architectures": [3], "model_type": []})", "a.weight"), "unknown");
  EXPECT_EQ(Loaded(OfClass("DoryForCausalLM"), "a.weight"), "unknown") << "a rule that the table cannot state";
  EXPECT_NE(Loaded("[]", "a.weight").find("expected an object"), std::string::npos);
  EXPECT_TRUE(TransformersNames::Version().starts_with("transformers 5."));
}

}  // namespace
}  // namespace slipway::weights
