// Loops that decompositions build: what is laid out straight, what becomes a loop, and that it is a valid program.
#include "passes/decompositions/loop_builder.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "ir/verify.h"

namespace slipway::passes {
namespace {

using ir::Type;

// A program of one node, whose decomposition a test builds by hand.
class LoopTest : public testing::Test {
 protected:
  LoopTest() : b_(*program_.graph, nullptr, nullptr) {
    program_.form = ir::Form::kFunctional;
    n_ = program_.syms->Symbol("n");
    x_ = Input("x", {n_, 3});
    y_ = Input("y", {3});
    b_.Call("aten.relu.default", {x_});
    node_ = program_.graph->last();
  }
  Value* Input(std::string name, ir::Sizes sizes) {
    program_.input_specs.push_back({});
    return program_.graph->AddInput(std::move(name), Type::Tensor(DType::kFloat32, std::move(sizes)));
  }
  // x + y, `count` times; the nodes of each name.
  int Nodes(std::string_view op, IntOrValue count, bool backwards = false) {
    Decomposer d(*node_, false);
    Values end = For(d, count, {x_}, [&](LoopStep& s) { s.state = {s.d.Add(s.state[0], s(y_))}; }, backwards);
    EXPECT_TRUE(d.ok() && d.b.ok()) << d.b.status().message();
    EXPECT_EQ(end.size(), 1u);
    EXPECT_EQ(end[0]->type().ToString(), x_->type().ToString());
    program_.graph->outputs = {end[0]};
    program_.output_specs.resize(1);
    absl::Status s = ir::Verify(program_);
    EXPECT_TRUE(s.ok()) << s.message();
    int found = 0;
    for (ir::Node* n : *program_.graph) found += n->op_name() == op;
    return found;
  }

  ir::Program program_;
  ir::Builder b_;
  ir::Sym n_;
  Value *x_, *y_;
  ir::Node* node_;
};

TEST_F(LoopTest, NoStepGivesTheStart) { EXPECT_EQ(Nodes("aten.add.Tensor", 0), 0); }
TEST_F(LoopTest, FewStepsAreLaidOut) {
  EXPECT_EQ(Nodes("aten.add.Tensor", 2), 2);
  EXPECT_EQ(Nodes("higher_order.while_loop", 1), 0);
}
TEST_F(LoopTest, ManyStepsLoop) {
  EXPECT_EQ(Nodes("higher_order.while_loop", 50), 1);
  EXPECT_EQ(Nodes("aten.add.Tensor", 50), 0);
}
TEST_F(LoopTest, UnknownCountsLoop) {
  Value* count = ir::Builder(*program_.graph, node_, nullptr).Call("aten.sym_size.int", {x_, 0});
  EXPECT_EQ(Nodes("higher_order.while_loop", count), 1);
  EXPECT_EQ(Nodes("higher_order.while_loop", count, /*backwards=*/true), 2);
}

TEST_F(LoopTest, CapturesEachOuterValueOnce) {
  Decomposer d(*node_, false);
  Values end = For(d, 9, {x_}, [&](LoopStep& s) {
    EXPECT_EQ(s(y_), s(y_));
    EXPECT_EQ(s(s(y_)), s(y_));
    s.state = {s.d.Mul(s.d.Add(s.state[0], s(y_)), s(y_))};
  });
  ir::Node* loop = end[0]->producer();
  ASSERT_EQ(loop->op_name(), "higher_order.while_loop");
  const Values& captured = *loop->At(3).get<Values>();  // the count, which comes first, and y
  ASSERT_EQ(captured.size(), 2u);
  EXPECT_EQ(captured[1], y_);
}

TEST_F(LoopTest, RefusesAStepThatChangesTypes) {
  Decomposer d(*node_, false);
  For(d, 9, {x_}, [&](LoopStep& s) { s.state = {s.d.b.Cast(s.state[0], DType::kFloat64)}; });
  EXPECT_TRUE(text::Contains(std::string(d.b.status().message()), "changes the type"));
}

TEST_F(LoopTest, ErrorsOfAStepComeOut) {
  Decomposer d(*node_, false);
  For(d, 9, {x_}, [&](LoopStep& s) { s.d.Unsupported("this"); });
  EXPECT_FALSE(d.ok());
}

}  // namespace
}  // namespace slipway::passes
