// Graph surgery: order, use lists, names, cloning.
#include "ir/graph.h"
#include "ir/clone.h"

#include "gtest/gtest.h"
#include "ir/ops/op_table.h"
#include "ir/verify.h"

namespace slipway::ir {
namespace {

class GraphTest : public testing::Test {
 protected:
  Program p_;
  Graph& g_ = *p_.graph;
  Value* x_ = Input("x");

  Value* Input(std::string name) {
    p_.input_specs.emplace_back();
    return g_.AddInput(std::move(name), Type::Tensor(DType::kFloat32, {2}));
  }
  Value* Unary(const char* op, Value* v, const char* name, Node* before = nullptr) {
    Node* n = g_.Insert(GetOp(op), {{"self", Arg(v)}}, before);
    return g_.AddOutput(n, name, v->type());
  }
  void Return(std::vector<Arg> outputs) {
    p_.output_specs.assign(outputs.size(), {});
    g_.outputs = std::move(outputs);
  }
  std::string Order() const {
    std::string out;
    for (const Node* n : g_) out += (out.empty() ? "" : " ") + std::string(n->op().base);
    return out;
  }
};

TEST_F(GraphTest, InsertsInOrder) {
  Value* a = Unary("aten.relu.default", x_, "a");
  Unary("aten.neg.default", a, "b");
  Unary("aten.abs.default", x_, "c", a->producer());
  EXPECT_EQ(Order(), "abs relu neg");
  EXPECT_EQ(g_.node_count(), 3u);
  Return({Arg(a)});
  EXPECT_TRUE(Verify(p_).ok()) << Verify(p_);
}

TEST_F(GraphTest, KeepsUseLists) {
  Value* a = Unary("aten.relu.default", x_, "a");
  Node* cat = g_.Insert(GetOp("aten.cat.default"), {{"tensors", Arg(Values{a, x_, a})}});
  Value* y = g_.AddOutput(cat, "y", Type::Tensor(DType::kFloat32, {6}));
  Return({Arg(y)});
  EXPECT_EQ(a->users().size(), 2u);
  EXPECT_EQ(x_->users().size(), 2u);
  cat->SetArg("tensors", Values{a, x_, x_});
  EXPECT_EQ(a->users().size(), 1u);
  EXPECT_TRUE(Verify(p_).ok()) << Verify(p_);
  g_.ReplaceAllUses(a, x_);
  EXPECT_TRUE(a->users().empty());
  EXPECT_EQ(*cat->Find("tensors")->get<Values>(), (Values{x_, x_, x_}));
  cat->SetArg("dim", 0);
  EXPECT_EQ(*cat->Get("dim").get<int64_t>(), 0);
  cat->RemoveArg("dim");
  EXPECT_EQ(cat->Find("dim"), nullptr);
  EXPECT_EQ(*cat->Get("dim").get<int64_t>(), 0) << "the schema's default";
  EXPECT_TRUE(Verify(p_).ok()) << Verify(p_);
}

TEST_F(GraphTest, ReplacesInOutputs) {
  Value* a = Unary("aten.relu.default", x_, "a");
  Return({Arg(a), Arg(Values{a, nullptr})});
  EXPECT_TRUE(g_.IsOutput(a));
  g_.ReplaceAllUses(a, x_);
  EXPECT_FALSE(g_.IsOutput(a));
  EXPECT_EQ(g_.outputs[0].value(), x_);
  EXPECT_EQ(*g_.outputs[1].get<Values>(), (Values{x_, nullptr}));
}

TEST_F(GraphTest, ErasesWhileIterating) {
  for (int i = 0; i < 5; ++i) Unary("aten.relu.default", x_, "a");
  for (Node* n : g_) g_.Erase(n);
  EXPECT_EQ(g_.node_count(), 0u);
  EXPECT_EQ(g_.first(), nullptr);
  EXPECT_TRUE(x_->users().empty());
}

TEST_F(GraphTest, NamesAreDistinct) {
  Value* a = Unary("aten.relu.default", x_, "a");
  Value* b = Unary("aten.relu.default", x_, "a");
  EXPECT_EQ(a->name(), "a");
  EXPECT_NE(b->name(), "a");
  EXPECT_EQ(g_.FindValue(b->name()), b);
  g_.Rename(b, "c");
  EXPECT_EQ(g_.FindValue("c"), b);
  g_.Rename(b, "a");
  EXPECT_NE(b->name(), "a");
  g_.Erase(a->producer());
  EXPECT_EQ(g_.FindValue("a"), nullptr);
  EXPECT_NE(Unary("aten.relu.default", x_, "")->name(), "");
}

TEST_F(GraphTest, MovesNodes) {
  Value* a = Unary("aten.relu.default", x_, "a");
  Value* b = Unary("aten.neg.default", x_, "b");
  Value* c = Unary("aten.abs.default", x_, "c");
  g_.MoveBefore(c->producer(), a->producer());
  EXPECT_EQ(Order(), "abs relu neg");
  g_.MoveBefore(a->producer(), nullptr);
  EXPECT_EQ(Order(), "abs neg relu");
  g_.MoveBefore(b->producer(), b->producer());
  EXPECT_EQ(Order(), "abs neg relu");
  Return({Arg(a), Arg(b), Arg(c)});
  EXPECT_TRUE(Verify(p_).ok()) << Verify(p_);
}

TEST_F(GraphTest, RemovesInputs) {
  Value* y = Input("y");
  g_.RemoveInput(0);
  p_.input_specs.pop_back();
  EXPECT_EQ(y->index(), 0);
  EXPECT_EQ(g_.FindValue("x"), nullptr);
  EXPECT_TRUE(Verify(p_).ok()) << Verify(p_);
}

TEST_F(GraphTest, ClonesWithSubgraphs) {
  auto sub = std::make_shared<Graph>(&p_);
  Value* in = sub->AddInput("i", x_->type());
  sub->outputs = {Arg(sub->AddOutput(sub->Insert(GetOp("aten.neg.default"), {{"self", Arg(in)}}), "o", in->type()))};
  Node* cond =
      g_.Insert(GetOp("higher_order.cond"), {{"", Arg(true)}, {"", Arg(sub)}, {"", Arg(sub)}, {"", Arg(Values{x_})}});
  Value* y = g_.AddOutput(cond, "y", x_->type());
  Return({Arg(y)});
  ASSERT_TRUE(Verify(p_).ok()) << Verify(p_);
  GraphCopier copier(&p_);
  copier.CopyNode(*cond, g_);
  ASSERT_EQ(g_.node_count(), 2u);
  EXPECT_EQ(copier.values.at(y)->producer(), g_.last());
  EXPECT_NE(g_.last()->At(1).get<SubGraph>()->get(), sub.get());
  EXPECT_EQ(g_.last()->At(1).get<SubGraph>()->get(), g_.last()->At(2).get<SubGraph>()->get())
      << "a shared body stays shared";
  EXPECT_TRUE(Verify(p_).ok()) << Verify(p_);
}

TEST_F(GraphTest, RemovesUnreadWeights) {
  const auto weight = [&](const char* name, const char* value_name) {
    return AddWeight(p_, InputSpec::kParameter, name, OwnedTensor(DType::kFloat32, {2}, std::string(8, '\0')),
                     value_name);
  };
  Value* read = Unary("aten.relu.default", weight("read", "a"), "y");
  weight("unread", "b");
  Value* returned = weight("returned", "c");
  weight("updated", "d");
  p_.input_specs.push_back({InputSpec::kParameter, "read"});  // an input of its own for the same weight
  g_.AddInput("e", x_->type());
  Return({Arg(read), Arg(returned), Arg(read)});
  p_.output_specs[2] = {OutputSpec::kBufferMutation, "updated"};
  RemoveUnreadWeights(p_);
  std::vector<std::string> targets;
  for (const InputSpec& s : p_.input_specs) targets.push_back(s.target);
  EXPECT_EQ(targets, (std::vector<std::string>{"", "read", "returned", "updated"})) << "the user's input stays";
  EXPECT_EQ(g_.inputs().size(), targets.size());
  EXPECT_EQ(g_.inputs().back()->name(), "d");
  EXPECT_EQ(g_.inputs().back()->index(), 3);
  EXPECT_TRUE(p_.weights.contains("read"));
  EXPECT_FALSE(p_.weights.contains("unread"));
  EXPECT_EQ(p_.weights.size(), 3u);
  EXPECT_TRUE(Verify(p_).ok()) << Verify(p_);
}

TEST(ArgTest, ListsWithoutSymbolsAreInts) {
  EXPECT_EQ(*Arg(SymInts{1, 2}).get<Ints>(), (Ints{1, 2}));
  EXPECT_TRUE(Arg(static_cast<Value*>(nullptr)).is_none());
  Program p;
  Value* n = p.graph->AddInput("n", Type::SymInt(p.syms->Symbol("s0")));
  Arg a(SymInts{1, n});
  ASSERT_TRUE(a.is<SymInts>());
  int uses = 0;
  a.ForEachValue([&](Value* v) { uses += v == n; });
  EXPECT_EQ(uses, 1);
}

TEST(SourceTest, DescribesItself) {
  Source s;
  EXPECT_EQ(s.Describe(), "");
  s.nn_module_stack = "a,L['self'],M;b,L['self'].layers.3.mlp,MLP";
  EXPECT_EQ(s.Describe(), "layers.3.mlp");
  s.stack_trace = "File \"/a/one.py\", line 1, in f\n  x\nFile \"/b/two.py\", line 180, in g\n  y\n";
  EXPECT_EQ(s.Describe(), "layers.3.mlp (two.py:180)");
  s.nn_module_stack = "a,L['self'],M";
  EXPECT_EQ(s.Describe(), "two.py:180");
}

}  // namespace
}  // namespace slipway::ir
