// Copies of programs and regions of graphs (ir/clone.h).
#include "ir/clone.h"

#include "base/text.h"
#include "gtest/gtest.h"
#include "ir/equal.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace slipway::ir {
namespace {

std::unique_ptr<Program> Program1() {
  auto a = Parse(R"(slipway.ir 1
dims { B = 2..8 positive }
weights { $w: f32[2] @ splat(2.0)  $v: f32[2] @ splat(3.0) }
graph main(%w: f32[2] = parameter $w, %v: f32[2] = parameter $v, %x: f32[B,2]) {
  %a: f32[B,2] = aten.mul.Tensor(self=%x, other=%w)
  %b: f32[B,2] = aten.relu.default(self=%a)
  %c: f32[B,2] = aten.add.Tensor(self=%b, other=%v)
  %d: f32[B] = aten.sum.dim_IntList(self=%c, dim=[1])
  %n: i64(B*2 + 1) = _operator.add(a=1, b=2)
  return %d, %b
}
)");
  EXPECT_TRUE(a.ok()) << a.status();
  return std::move(a->programs[0]);
}

TEST(Clone, EqualsAndIsIndependent) {
  auto p = Program1();
  auto copy = Clone(*p);
  std::string why;
  EXPECT_TRUE(Equal(*p, *copy, &why)) << why;
  EXPECT_EQ(copy->syms->range("B"), (SymRange{2, 8}));
  // Symbols of the copy are its own.
  copy->syms->Symbol("C");
  EXPECT_FALSE(p->syms->FindSymbol("C"));
  copy->graph->Rename(copy->graph->FindValue("a"), "renamed");
  EXPECT_NE(p->graph->FindValue("a"), nullptr);
}

// Expressions that cannot be written down (too large) are copied as well, different ones as different ones.
TEST(Clone, CopiesOpaqueSizes) {
  auto p = Program1();
  Sym s = *p->syms->FindSymbol("B"), large = s;
  for (int i = 0; i < 400; ++i) large = FloorDiv(large * 3 + 1, 2);
  ASSERT_TRUE(large.is_too_large());
  p->graph->inputs()[2]->mutable_type().sizes[0] = large;
  auto copy = Clone(*p);
  EXPECT_TRUE(copy->graph->inputs()[2]->sizes()[0].is_too_large());
  EXPECT_FALSE(copy->graph->inputs()[2]->sizes()[0] == *copy->syms->FindSymbol("B"));
}

TEST(Clone, RegionsKnowWhatCrossesTheirBorder) {
  auto p = Program1();
  const Graph& g = *p->graph;
  Value *a = g.FindValue("a"), *b = g.FindValue("b"), *c = g.FindValue("c");
  Region r = RegionOf(g, {b->producer(), c->producer()});
  EXPECT_EQ(r.inputs, (Values{a, g.FindValue("v")}));
  EXPECT_EQ(r.outputs, (Values{b, c})) << "%b is a result of the graph";
  r = RegionThatComputes(g, {c}, {b});
  EXPECT_EQ(r.nodes, (std::vector<Node*>{c->producer()}));
  r = RegionThatComputes(g, {c});
  EXPECT_EQ(r.nodes.size(), 3u);
}

TEST(Clone, ExtractsARegionAsAProgram) {
  auto p = Program1();
  const Graph& g = *p->graph;
  Value *b = g.FindValue("b"), *d = g.FindValue("d");
  auto part = Extract(*p, RegionThatComputes(g, {d}, {b}), {d});
  EXPECT_TRUE(Verify(*part).ok()) << Verify(*part);
  ASSERT_EQ(part->graph->inputs().size(), 2u);
  EXPECT_EQ(part->input_specs[0].kind, InputSpec::kUser);
  EXPECT_EQ(part->input_specs[1].target, "v");
  EXPECT_TRUE(part->weights.contains("v"));
  EXPECT_FALSE(part->weights.contains("w"));
  EXPECT_EQ(part->syms->range("B"), (SymRange{2, 8}));
  EXPECT_EQ(part->graph->node_count(), 2u);
}

}  // namespace
}  // namespace slipway::ir
