// What a rewrite has built comes in one order and under one set of names, whichever way it was built.
#include "passes/node_order.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "ir/text.h"
#include "ir/verify.h"
#include "passes/decompositions/loop_builder.h"

namespace slipway::passes {
namespace {

// The text of a program whose node is replaced by what `build` makes of its input, a vector.
std::string Built(const std::function<Value*(Decomposer& d, Value* x)>& build) {
  ir::Program program;
  program.form = ir::Form::kFunctional;
  program.input_specs.push_back({.target = "x"});
  Value* x = program.graph->AddInput("x", ir::Type::Tensor(DType::kFloat32, {3}));
  ir::Builder(*program.graph, nullptr, nullptr).Call("aten.relu.default", {x});
  ir::Node* node = program.graph->last();
  Decomposer d(*node, false);
  Value* y = build(d, x);
  EXPECT_TRUE(d.ok() && d.b.ok()) << d.b.status().message();
  OrderNodes(*program.graph, nullptr, node, {y});
  ReplaceNode(node, {y});
  program.graph->outputs = {y};
  program.output_specs.push_back({.target = "y"});
  const absl::Status valid = ir::Verify(program);
  EXPECT_TRUE(valid.ok()) << valid.message();
  return ir::Print(program);
}

TEST(NodeOrder, OfArguments) {
  const std::string text = Built([](Decomposer& d, Value* x) {
    Value *left = d.Mul(x, 2), *right = d.Mul(x, 3);
    return d.Sub(left, right);
  });
  EXPECT_EQ(text, Built([](Decomposer& d, Value* x) {
              Value *right = d.Mul(x, 3), *left = d.Mul(x, 2);
              return d.Sub(left, right);
            }));
  const size_t first = text.find("2)"), second = text.find("3)");
  EXPECT_LT(first, second) << text;
}

TEST(NodeOrder, WithoutWhatNothingNeeds) {
  EXPECT_EQ(Built([](Decomposer& d, Value* x) { return d.Mul(x, 2); }), Built([](Decomposer& d, Value* x) {
              d.Add(d.Unary("exp", x), 1);
              return d.Mul(x, 2);
            }));
}

// Bodies of loops, and the order in which they capture values.
TEST(NodeOrder, OfLoops) {
  const auto loop = [](bool swapped) {
    return Built([&](Decomposer& d, Value* x) {
      Value* low = swapped ? nullptr : d.Unary("sin", x);
      Value* high = d.Unary("cos", x);
      if (swapped) low = d.Unary("sin", x);
      return For(d, 9, {x}, [&](LoopStep& s) {
        Value* left = swapped ? nullptr : s.d.Mul(s.state[0], s(low));
        Value* right = s.d.Mul(s.state[0], s(high));
        if (swapped) left = s.d.Mul(s.state[0], s(low));
        s.state = {s.d.Sub(left, right)};
      })[0];
    });
  };
  EXPECT_EQ(loop(false), loop(true));
}

}  // namespace
}  // namespace slipway::passes
