// Recipes by name, observers on numbers whose range is known, and which values of small programs become integers.
// tests/interop/pt2e_quantizer_test.py compares all of it with torchao.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/text.h"
#include "gtest/gtest.h"
#include "ir/text.h"
#include "quantizer/pt2e/annotate.h"
#include "quantizer/pt2e/fold_norms.h"
#include "quantizer/pt2e/observers.h"
#include "quantizer/pt2e/recipe.h"
#include "quantizer/pt2e/rewrite.h"

namespace slipway::quantizer::pt2e {
namespace {

TEST(Recipe, NamesAreReadAndPrinted) {
  for (std::string_view name :
       {"pt2e-x86", "pt2e-x86:per-tensor", "pt2e-x86:reduce-range,observer=min-max,match=operators",
        "pt2e-x86:reduce-range,dynamic", "pt2e-xnnpack", "pt2e-xnnpack:per-channel,observer=moving-average"}) {
    const auto recipe = ParseRecipe(name);
    ASSERT_TRUE(recipe.ok()) << recipe.status();
    EXPECT_EQ(ShortName(*recipe), name);
  }
  EXPECT_EQ(ShortName(*ParseRecipe(" pt2e_x86 : observer=histogram , match=modules ")), "pt2e-x86");
  EXPECT_TRUE(IsRecipe("pt2e_x86:what"));
  EXPECT_FALSE(IsRecipe("int8-dynamic"));
  for (std::string_view name : {"pt2e", "pt2e-x86:", "pt2e-x86:per-channel", "pt2e-xnnpack:reduce-range",
                                "pt2e-x86:observer", "pt2e-x86:observer=", "pt2e-x86:per-tensor=", "pt2e-x86:,",
                                "pt2e-x86:dynamic,observer=min-max", "pt2e-xnnpack:dynamic"})
    EXPECT_EQ(ParseRecipe(name).status().code(), absl::StatusCode::kInvalidArgument) << name;
  EXPECT_EQ(RecipeNames()[0].keys,
            "per-tensor, reduce-range, dynamic, observer=histogram|min-max|moving-average, match=modules|operators");
}

Parameters Observed(Recipe::Observer kind, const std::vector<std::vector<float>>& tensors, const Recipe& recipe = {}) {
  const auto observer = ActivationObserver::Make(kind);
  for (const std::vector<float>& t : tensors) EXPECT_TRUE(observer->Add(t.data(), static_cast<int64_t>(t.size())).ok());
  return observer->Finish(recipe.activations()).value();
}

TEST(Observers, ScalesOfExtremes) {
  const Parameters both = Observed(Recipe::Observer::kMinMax, {{-1, 0.5}, {2}, {}});
  EXPECT_EQ(both.scale, 3.0f / 255);
  EXPECT_EQ(both.zero_point, 85);
  // Zero is always a number; scales are not below 2^-12.
  EXPECT_EQ(Observed(Recipe::Observer::kMinMax, {{3, 4}}).scale, 4.0f / 255);
  EXPECT_EQ(Observed(Recipe::Observer::kMinMax, {{0}}).scale, 0x1p-12f);
  const Parameters average = Observed(Recipe::Observer::kMovingAverage, {{0, 1}, {0, 2}});
  EXPECT_EQ(average.scale, (1 + 0.01f * 1) / 255);
  const Recipe xnnpack = *ParseRecipe("pt2e-xnnpack");
  EXPECT_EQ(Observed(Recipe::Observer::kMinMax, {{-1, 2}}, xnnpack).zero_point, -43);
}

TEST(Observers, HistogramCutsOffWhatIsRare) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(100000);
  for (float& v : x) v = normal(random);
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  const float all = (*high - *low) / 255, cut = Observed(Recipe::Observer::kHistogram, {x}).scale;
  EXPECT_EQ(Observed(Recipe::Observer::kMinMax, {x}).scale, all);
  EXPECT_LT(cut, 0.95f * all);
  EXPECT_GT(cut, 0.5f * all);
  // In which order the ranges grow matters little.
  EXPECT_NEAR(Observed(Recipe::Observer::kHistogram, {{-1, 1}, x, {2, 3}}).scale,
              Observed(Recipe::Observer::kHistogram, {x, {2, 3}, {-1, 1}}).scale, 0.02);
}

TEST(Observers, WhatHasNoRange) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kMax = std::numeric_limits<float>::max();
  for (const auto kind : {Recipe::Observer::kHistogram, Recipe::Observer::kMinMax, Recipe::Observer::kMovingAverage}) {
    const auto observer = ActivationObserver::Make(kind);
    const bool histogram = kind == Recipe::Observer::kHistogram;
    EXPECT_FALSE(observer->Finish(Recipe().activations()).ok());
    EXPECT_FALSE(observer->Add(&kNan, 1).ok());
    const float infinite[] = {1, kInf, -kInf};
    EXPECT_EQ(observer->Add(infinite, 3).ok(), histogram);
    const float infinite_and_nan[] = {kInf, kNan};
    EXPECT_FALSE(observer->Add(infinite_and_nan, 2).ok());
    const float wide[] = {-kMax, kMax};
    EXPECT_EQ(observer->Add(wide, 2).ok(), !histogram);
  }
  EXPECT_EQ(Observed(Recipe::Observer::kHistogram, {{1, kInf}}).scale,
            Observed(Recipe::Observer::kHistogram, {{1}}).scale);
}

TEST(Observers, WeightsByChannelAndWhole) {
  const std::vector<float> w = {1, -2, 0.5, 0.25, 0, 0};
  const Integers integers = Recipe().weights();
  WeightObserver channels(3, 6);
  ASSERT_TRUE(channels.Add(w.data(), 0, 3).ok());  // in parts that are no whole channels
  ASSERT_TRUE(channels.Add(w.data() + 3, 3, 3).ok());
  EXPECT_EQ(channels.Scales(integers), (std::vector<float>{2 / 127.5f, 0.5f / 127.5f, 0x1p-12f}));
  WeightObserver whole(1, 6);
  ASSERT_TRUE(whole.Add(w.data(), 0, 6).ok());
  EXPECT_EQ(whole.Scales(integers), (std::vector<float>{2 / 127.5f}));
  int8_t codes[6];
  Quantize(w.data(), 6, 2 / 127.5f, 0, integers, codes);
  EXPECT_EQ(std::vector<int>(codes, codes + 6), (std::vector<int>{64, -127, 32, 16, 0, 0}));  // with 1 / scale
  const float x[] = {-1, 0, 1.5, 9};
  uint8_t unsigned_codes[4];
  Quantize(x, 4, 0.5, 1, Recipe().activations(), reinterpret_cast<int8_t*>(unsigned_codes));
  EXPECT_EQ(std::vector<int>(unsigned_codes, unsigned_codes + 4), (std::vector<int>{0, 1, 4, 19}));
}

ir::Archive Parsed(std::string_view graph) {
  auto archive = ir::Parse(text::StrCat(R"(slipway.ir 1
program "p"
form functional
weights {
  $w: f32[4,4,1,1] @ random(seed=1)
  $b: f32[4] @ random(seed=2)
  $v: f32[4] @ splat(0.25)
}
graph main(%w: f32[4,4,1,1] = parameter $w, %b: f32[4] = parameter $b, %v: f32[4] = buffer $v, %x: f32[1,4,6,6]) {
)",
                                        graph, "}\n"));
  EXPECT_TRUE(archive.ok()) << archive.status();
  return *std::move(archive);
}

// "user:value" of activations and "user=weight", "->value" of results, sorted; and groups.
struct Marks {
  std::vector<std::string> edges;
  std::vector<std::vector<std::string>> groups;
};
Marks MarksOf(const ir::Program& p, std::string_view recipe, const Selection& selection = {}) {
  const Annotations a = Annotate(p, *ParseRecipe(recipe), selection);
  Marks out;
  for (const Annotations::Edge& e : a.edges)
    out.edges.push_back(text::StrCat(e.user->output()->name(), e.weight ? "=" : ":", e.value->name()));
  for (const ir::Value* v : a.results) out.edges.push_back(text::StrCat("->", v->name()));
  std::sort(out.edges.begin(), out.edges.end());
  for (const ActivationGroup& g : GroupActivations(*p.graph, a)) {
    out.groups.emplace_back();
    for (const ir::Value* v : g.values) out.groups.back().push_back(v->name());
  }
  return out;
}
using Names = std::vector<std::string>;

constexpr std::string_view kResidual = R"(
  %c: f32[1,4,6,6] = aten.conv2d.default(input=%x, weight=%w, bias=%b)
  %s: f32[1,4,6,6] = aten.add.Tensor(self=%c, other=%x)
  %r: f32[1,4,6,6] = aten.relu.default(self=%s)
  %m: f32[1,4,3,3] = aten.max_pool2d.default(self=%r, kernel_size=[2, 2])
  %k: f32[1,8,3,3] = aten.cat.default(tensors=[%m, %m], dim=1)
  %t: f32[1,8,3,3] = aten.tanh.default(self=%m)
  return %k
)";

TEST(Annotate, X86FusesResidualBlocksAndPropagates) {
  const ir::Archive archive = Parsed(kResidual);
  const ir::Program& p = *archive.programs[0];
  const Marks marks = MarksOf(p, "pt2e-x86");
  EXPECT_EQ(marks.edges, (Names{"->k", "->m", "c:x", "c=w", "k:m", "m:r", "s:x"}));
  EXPECT_EQ(marks.groups, (std::vector<Names>{{"x"}, {"r", "m", "k"}}));
}

TEST(Annotate, ExcludedNodesAndTheirPatternsStay) {
  const ir::Archive archive = Parsed(kResidual);
  const ir::Program& p = *archive.programs[0];
  Selection selection;
  selection.excluded = [](const ir::Node& n) { return n.op_name() == "aten.relu.default"; };
  // As with torchao's set_module_name_qconfig: a ReLU alone is no pattern.
  EXPECT_EQ(MarksOf(p, "pt2e-x86", selection).edges.size(), 7u);
  selection.excluded = [](const ir::Node& n) { return n.op_name() == "aten.conv2d.default"; };
  EXPECT_TRUE(MarksOf(p, "pt2e-x86", selection).edges.empty());
  selection.excluded = [](const ir::Node& n) { return n.op_name() == "aten.max_pool2d.default"; };
  EXPECT_EQ(MarksOf(p, "pt2e-x86", selection).edges, (Names{"c:x", "c=w", "s:x"}));
}

TEST(Annotate, XnnpackQuantizesResults) {
  const ir::Archive archive = Parsed(kResidual);
  const Marks marks = MarksOf(*archive.programs[0], "pt2e-xnnpack");
  EXPECT_EQ(marks.edges, (Names{"->c", "->k", "->m", "->r", "c:x", "c=w", "k:m", "m:r", "s:c", "s:x"}));
  EXPECT_EQ(marks.groups, (std::vector<Names>{{"x"}, {"c"}, {"r", "m", "k"}}));
}

TEST(Annotate, OriginsDecideUnlessOperatorsDo) {
  ir::Archive archive = Parsed(kResidual);
  const ir::Program& p = *archive.programs[0];
  auto source = std::make_shared<ir::Source>();
  source->nn_module_stack = "k,,Net;k_conv,conv,my.layers.Conv2d";
  p.graph->first()->set_source(source);
  EXPECT_TRUE(MarksOf(p, "pt2e-x86").edges.empty());
  EXPECT_EQ(MarksOf(p, "pt2e-x86:match=operators").edges.size(), 7u);
  Selection selection;
  selection.included = [](const ir::Node& n) { return n.op_name() == "aten.conv2d.default"; };
  EXPECT_EQ(MarksOf(p, "pt2e-x86", selection).edges.size(), 7u);
  auto strict = std::make_shared<ir::Source>(*source);
  strict->other = {{"source_fn_stack", "f,my.fn;conv2d,torch.conv2d"}};
  p.graph->first()->set_source(strict);
  EXPECT_EQ(MarksOf(p, "pt2e-x86").edges.size(), 7u);
}

TEST(Annotate, ProductsOfTensorsOfTheSameSizes) {
  const ir::Archive archive = Parsed(R"(
  %m: f32[1,4,6,6] = aten.mul.Tensor(self=%x, other=%x)
  %n: f32[1,4,6,6] = aten.mul.Tensor(self=%m, other=2.0)
  %v1: f32[4,1,1] = aten.view.default(self=%v, size=[4, 1, 1])
  %o: f32[1,4,6,6] = aten.mul.Tensor(self=%n, other=%v1)
  return %o
)");
  EXPECT_EQ(MarksOf(*archive.programs[0], "pt2e-x86").edges, (Names{"m:x"}));
}

constexpr std::string_view kNorm =
    "bias=None, running_mean=%v, running_var=%v, training=false, momentum=0.1, eps=1e-5, cudnn_enabled=false";

TEST(FoldNorms, TakesWhatIsOfOneLayer) {
  ir::Archive archive = Parsed(text::StrCat(R"(
  %c: f32[1,4,6,6] = aten.conv2d.default(input=%x, weight=%w)
  %n: f32[1,4,6,6] = aten.batch_norm.default(input=%c, weight=%b, )",
                                            kNorm, R"()
  %d: f32[1,4,6,6] = aten.conv2d.default(input=%n, weight=%w)
  %e: f32[1,4,6,6] = aten.batch_norm.default(input=%d, weight=None, )",
                                            kNorm, R"()
  %f: f32[1,4,6,6] = aten.batch_norm.default(input=%e, weight=None, )",
                                            kNorm, R"()
  return %f
)"));
  ir::Program& p = *archive.programs[0];
  const auto numbers = [&](std::string_view name) {
    const std::string bytes = ir::ReadDense(p.weights.at(std::string(name))).value();
    std::vector<float> x(bytes.size() / sizeof(float));
    std::memcpy(x.data(), bytes.data(), bytes.size());
    return x;
  };
  const std::vector<float> before = numbers("w"), gamma = numbers("b");
  ASSERT_TRUE(FoldNorms(p, [](ir::DType t, const std::vector<int64_t>& sizes, const std::string& bytes) {
                return absl::StatusOr<ir::TensorRef>(ir::OwnedTensor(t, sizes, bytes));
              }).ok());
  int norms = 0;
  for (const ir::Node* n : *p.graph) norms += n->op_name() == "aten.batch_norm.default";
  EXPECT_EQ(norms, 1);  // the second behind one convolution
  // Two convolutions share w: each has its own now.
  const ir::Node* first = p.graph->first();
  const std::string name = WeightName(p, first->Get("weight").value());
  EXPECT_NE(name, WeightName(p, first->next()->Get("weight").value()));
  const std::vector<float> after = numbers(name);
  const float root = 1 / std::sqrt(0.25f + 1e-5f);
  for (size_t i = 0; i < after.size(); ++i) EXPECT_EQ(after[i], before[i] * (gamma[i / 4] * root));
  const std::vector<float> bias = numbers(WeightName(p, first->Get("bias").value()));
  for (size_t i = 0; i < bias.size(); ++i) EXPECT_EQ(bias[i], (0 - 0.25f) * root * gamma[i]);
}

TEST(FoldNorms, LeavesLayersThatOthersRead) {
  ir::Archive archive = Parsed(text::StrCat(R"(
  %c: f32[1,4,6,6] = aten.conv2d.default(input=%x, weight=%w)
  %n: f32[1,4,6,6] = aten.batch_norm.default(input=%c, weight=%b, )",
                                            kNorm, R"()
  %s: f32[1,4,6,6] = aten.add.Tensor(self=%c, other=%n)
  return %s
)"));
  ir::Program& p = *archive.programs[0];
  const size_t nodes = p.graph->node_count();
  ASSERT_TRUE(FoldNorms(p, [](ir::DType, const std::vector<int64_t>&, const std::string&) {
                return absl::StatusOr<ir::TensorRef>(absl::InternalError("nothing is stored"));
              }).ok());
  EXPECT_EQ(p.graph->node_count(), nodes);
}

TEST(Rewrite, EachAnnotatedReaderHasItsOwnDequantize) {
  ir::Archive archive = Parsed(kResidual);
  ir::Program& p = *archive.programs[0];
  const Recipe recipe;
  const Annotations a = Annotate(p, recipe, {});
  QuantizedValues values;
  for (const ActivationGroup& g : GroupActivations(*p.graph, a))
    for (const ir::Value* v : g.values) values.activations[v] = {{0.5f}, 3, std::nullopt};
  for (const ir::Value* v : WeightsOf(*p.graph, a))
    values.weights[v] = {{1, 2, 3, 4}, 0, ir::OwnedTensor(ir::DType::kInt8, {4, 4, 1, 1}, std::string(16, '\1'))};
  ASSERT_TRUE(Rewrite(p, a, recipe, values).ok());
  ir::RemoveUnreadWeights(p);
  EXPECT_FALSE(p.weights.contains("w"));
  EXPECT_FALSE(p.weights.contains("v"));
  EXPECT_TRUE(p.weights.contains("w_qdata") && p.weights.contains("w_scale") && p.weights.contains("w_zero_point"));
  int quantize = 0, dequantize = 0, by_channel = 0;
  for (const ir::Node* n : *p.graph) {
    quantize += n->op_name() == "quantized_decomposed.quantize_per_tensor.default";
    dequantize += n->op_name() == "quantized_decomposed.dequantize_per_tensor.default";
    by_channel += n->op_name() == "quantized_decomposed.dequantize_per_channel.default";
  }
  EXPECT_EQ(quantize, 4);    // x, r, m, k
  EXPECT_EQ(dequantize, 6);  // of x for the convolution and the sum, r, m for cat and for tanh, k
  EXPECT_EQ(by_channel, 1);
  const ir::Value* out = p.graph->outputs[0].value();
  ASSERT_TRUE(out && out->producer());
  EXPECT_EQ(out->producer()->op_name(), "quantized_decomposed.dequantize_per_tensor.default");
}

}  // namespace
}  // namespace slipway::quantizer::pt2e
