// Edits of the minifier on small programs: what stays, what takes its place, and that the verifier takes all that comes
// out.
#include "minifier/edit.h"

#include "driver/minify/check.h"
#include "gtest/gtest.h"
#include "ir/clone.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "minifier/search.h"

namespace slipway::minifier {
namespace {

constexpr char kProgram[] = R"(slipway.ir 1
dims { B = 1..64 positive }
weights { $w: f32[8,8] @ random(seed=3) }
graph main(
  %w: f32[8,8] = parameter $w,
  %x: f32[B,8],
) {
  %a: f32[B,8] = aten.sin.default(self=%x)
  %b: f32[B,8] = aten.mm.default(self=%a, mat2=%w)
  %size: i64(B) = aten.sym_size.int(self=%b, dim=0)
  %c: f32[B,2,4] = aten.view.default(self=%b, size=[%size, 2, 4])
  %d: f32[B,2,4] = aten.softmax.int(self=%c, dim=-1)
  return %d
}
)";

std::unique_ptr<ir::Program> Parse(const char* text = kProgram) {
  auto archive = ir::Parse(text);
  EXPECT_TRUE(archive.ok()) << archive.status();
  return std::move(archive->programs[0]);
}

// The graph afterwards, "operator(operands)" a node, then the outputs.
std::string After(ir::Program& p, const Edit& edit) {
  if (absl::Status s = edit(p); !s.ok()) return text::StrCat("error: ", s.message());
  if (absl::Status s = ir::Verify(p); !s.ok()) return text::StrCat("invalid: ", s.message());
  std::string out;
  for (const ir::Node* n : *p.graph) {
    std::vector<std::string> operands;
    for (const ir::NamedArg& a : n->args()) a.arg.ForEachValue([&](ir::Value* v) { operands.push_back(v->name()); });
    text::StrAppend(&out, n->output()->name(), "=", n->op_name(), "(", text::Join(operands, ","), ") ");
  }
  for (const ir::Arg& a : p.graph->outputs) text::StrAppend(&out, "-> ", a.value() ? a.value()->name() : "", " ");
  for (const ir::Value* v : p.graph->inputs()) text::StrAppend(&out, "; ", v->name(), " ", v->type().ToString());
  return out;
}

class EditTest : public testing::Test {
 protected:
  std::unique_ptr<ir::Program> p_ = Parse();
  StandIns names_{*p_};
};

TEST_F(EditTest, KeepsNodesWithInputsForTheOthers) {
  EXPECT_EQ(After(*p_, KeepNodes({4}, Joint::kCut, &names_)), "d=aten.softmax.int(in_5) -> d ; in_5 f32[B,2,4]");
  EXPECT_TRUE(p_->weights.empty());
  EXPECT_EQ(names_.ValueOf("in_5"), "c");
  EXPECT_EQ(names_.ValueOf("x"), "x");
  EXPECT_EQ(names_.ValueOf("in_99"), "");
}

TEST_F(EditTest, WhatNothingUsesIsAnOutput) {
  EXPECT_EQ(After(*p_, KeepNodes({0, 1}, Joint::kCut, &names_)),
            "a=aten.sin.default(x) b=aten.mm.default(a,w) -> b ; w f32[8,8]; x f32[B,8]");
}

TEST_F(EditTest, BypassesOperandsOfTheSameType) {
  // a has the type of x, and b that of a: the view reads x.
  EXPECT_EQ(After(*p_, KeepNodes({2, 3}, Joint::kBypass, &names_)),
            "size=aten.sym_size.int(x) c=aten.view.default(x,size) -> c ; x f32[B,8]");
}

TEST_F(EditTest, TakesNodesApart) {
  EXPECT_EQ(After(*p_, KeepNodes({0, 1, 4}, Joint::kApart, &names_)),
            "a=aten.sin.default(x) b=aten.mm.default(in_2,w) d=aten.softmax.int(in_5) -> d -> a -> b ; w f32[8,8]; x "
            "f32[B,8]; in_2 f32[B,8]; in_5 f32[B,2,4]");
}

TEST_F(EditTest, PinsSymbolsAndWhatIsComputedOfThem) {
  EXPECT_EQ(After(*p_, PinSymbols({{"B", 3}})),
            "a=aten.sin.default(x) b=aten.mm.default(a,w) c=aten.view.default(b) d=aten.softmax.int(c) -> d ; w "
            "f32[8,8]; x f32[3,8]");
}

TEST_F(EditTest, ShrinksSizesWithTheirMultiples) {
  ASSERT_TRUE(PinSymbols({{"B", 3}})(*p_).ok());
  // 8 = 2 · 4 in the view, which changes alike: the last size is no multiple of 8 and stays, so that nothing fits.
  EXPECT_TRUE(After(*ir::Clone(*p_), ReplaceSize(8, 2, true)).starts_with("error"));
  EXPECT_EQ(After(*p_, ReplaceSize(4, 2, true)),
            "a=aten.sin.default(x) b=aten.mm.default(a,w) c=aten.view.default(b) d=aten.softmax.int(c) -> d ; w "
            "f32[4,4]; x f32[3,4]");
  EXPECT_EQ(p_->weights.at("w").sizes, (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(p_->graph->last()->output()->type().ToString(), "f32[3,2,2]");
}

TEST_F(EditTest, MakesWeightsByARule) {
  ASSERT_EQ(After(*p_, ReplaceWeights({"w"}, false)).find("error"), std::string::npos);
  EXPECT_EQ(std::get<ir::Splat>(p_->weights.at("w").storage->bytes).value, 0.5);
}

TEST(Edit, HoistsBodiesWithTheirWeights) {
  auto p = Parse(R"(slipway.ir 1
weights { $w: f32[4] @ splat(2.0) }
graph main(%w: f32[4] = parameter $w, %p: bool[], %x: f32[4]) {
  [%c: f32[4]] = higher_order.cond(%p, @then, @else, [%x, %w])
  return %c
}
graph then(%x: f32[4], %y: f32[4]) {
  %1: f32[4] = aten.mul.Tensor(self=%x, other=%y)
  %2: f32[4] = aten.sin.default(self=%1)
  return %2
}
graph else(%x: f32[4], %y: f32[4]) {
  %1: f32[4] = aten.add.Tensor(self=%x, other=%y)
  return %1
}
)");
  ASSERT_EQ(NestedGraphs(*p).size(), 2u);
  auto copy = ir::Clone(*p);
  EXPECT_EQ(After(*copy, RemoveNested(NestedGraphs(*p)[0], {0, 1})),
            "c=higher_order.cond(p,x,w) -> c ; w f32[4]; p bool[]; x f32[4]");
  EXPECT_EQ(FindGraph(*copy, NestedGraphs(*p)[0])->node_count(), 0u);
  EXPECT_EQ(After(*p, Hoist(NestedGraphs(*p)[0])),
            "1=aten.mul.Tensor(x,y) 2=aten.sin.default(1) -> 2 ; x f32[4]; y f32[4]");
  EXPECT_EQ(p->input_specs[1].kind, ir::InputSpec::kParameter);
  EXPECT_EQ(p->weights.size(), 1u);
}

// Fails where the program has all of some operators.
class Having : public Oracle {
 public:
  Having(std::unique_ptr<ir::Program> p, std::vector<std::string> ops) : best_(std::move(p)), ops_(std::move(ops)) {}
  absl::StatusOr<std::optional<size_t>> FirstThatFails(const std::vector<Edit>& edits, std::string_view) override {
    for (size_t i = 0; i < edits.size(); ++i) {
      auto copy = ir::Clone(*best_);
      if (!edits[i](*copy).ok()) continue;
      EXPECT_TRUE(ir::Verify(*copy).ok()) << ir::Verify(*copy);
      if (ir::Print(*copy) == ir::Print(*best_)) continue;
      ++asked;
      std::string text = ir::Print(*copy);
      bool all = true;
      for (const std::string& op : ops_) all &= text::Contains(text, op);
      if (!all) continue;
      best_ = std::move(copy);
      return i;
    }
    return std::nullopt;
  }
  const ir::Program& best() const override { return *best_; }
  int asked = 0;

 private:
  std::unique_ptr<ir::Program> best_;
  std::vector<std::string> ops_;
};

TEST(Search, FindsOneOfManyNodesInLogarithmicallyManyQuestions) {
  std::string text = "slipway.ir 1\ngraph main(%x: f32[8]) {\n";
  for (int i = 0; i < 1000; ++i)
    text::StrAppend(&text, "  %n", i, ": f32[8] = aten.", i == 737 ? "relu" : "sin", ".default(self=%",
                    i == 0 ? "x" : text::StrCat("n", i - 1), ")\n");
  text += "  return %n999\n}\n";
  Having oracle(Parse(text.c_str()), {"aten.relu"});
  const StandIns names(oracle.best());
  ASSERT_TRUE(Search(oracle, names, {}).ok());
  EXPECT_EQ(oracle.best().graph->node_count(), 1u);
  EXPECT_LE(oracle.asked, 16);
}

TEST(Search, EndsWhereNothingGoes) {
  Having oracle(Parse(), {"aten.sin", "aten.mm", "aten.view", "aten.softmax", "f32[B,2,4]", "in_"});
  const StandIns names(oracle.best());
  ASSERT_TRUE(Search(oracle, names, {{{"B", 2}}}).ok());
  EXPECT_EQ(oracle.best().graph->node_count(), 4u);
}

TEST(Normalized, LeavesSizesAndPathsOut) {
  const auto normalized = [](const char* s) { return driver::Normalized(s, "scratch/x"); };
  EXPECT_EQ(normalized("a view of [s6, 4, 8*Max(1, s76//5)] as (s6*4, 32) fails"), "a view of # as # fails");
  EXPECT_EQ(normalized("a view of [2, 4, 8] as (8, 8) fails"), "a view of # as # fails");
  EXPECT_EQ(normalized("no function for <Map object at 0x7f00a1> in scratch/x/model.pt2"),
            "no function for <Map object at #> in {}model.pt#");
  EXPECT_EQ(normalized("no function for op='aten.foo', overload='default'"),
            "no function for op='aten.foo', overload='default'");
}

}  // namespace
}  // namespace slipway::minifier
