// Functionalization on graphs built by hand: what replaces in-place nodes, when views are made again, what is refused.
#include <string>

#include "base/text.h"
#include "gtest/gtest.h"
#include "ir/builder.h"
#include "ir/ops/op_table.h"
#include "passes/pass.h"

namespace slipway::passes {
namespace {

using ir::Arg;
using ir::DType;
using ir::Type;
using ir::Value;

Type Tensor(ir::Sizes sizes, DType dtype = DType::kFloat32) {
  Type t = Type::Tensor(dtype, std::move(sizes));
  ir::Sym step = 1;
  t.strides.resize(t.sizes.size());
  for (int d = t.rank() - 1; d >= 0; --d) {
    t.strides[d] = step;
    step = step * t.sizes[d];
  }
  t.strides_known = true;
  return t;
}

Type Transposed(Type t) {
  std::swap(t.sizes[0], t.sizes[1]);
  std::swap(t.strides[0], t.strides[1]);
  return t;
}

struct Fixture : testing::Test {
  ir::Program p;
  ir::Builder b{*p.graph, nullptr, nullptr};

  Value* Input(const char* name, Type t, ir::InputSpec::Kind kind = ir::InputSpec::kUser) {
    ir::InputSpec spec;
    spec.kind = kind;
    if (kind != ir::InputSpec::kUser) spec.target = text::StrCat("m.", name);
    p.input_specs.push_back(std::move(spec));
    return p.graph->AddInput(name, std::move(t));
  }
  Value* Call(std::string_view op, std::vector<Arg> args, Type t) {
    Value* v = b.CallTyped(op, std::move(args), {}, {std::move(t)})[0];
    EXPECT_TRUE(b.ok()) << b.status();
    return v;
  }
  void Output(Value* v) {
    p.graph->outputs.emplace_back(v);
    p.output_specs.emplace_back();
  }
  // "op(values) op(values) -> values", constants left out.
  std::string Run() {
    absl::Status s = Functionalize(p);
    if (!s.ok()) return std::string(s.message());
    EXPECT_EQ(p.form, ir::Form::kFunctional);
    std::string out;
    auto names = [](const Arg& a, std::string* to) {
      a.ForEachValue([&](const Value* v) { text::StrAppend(to, to->empty() ? "" : ",", v->name()); });
    };
    for (const ir::Node* n : *p.graph) {
      std::string args;
      for (const ir::NamedArg& a : n->args()) names(a.arg, &args);
      text::StrAppend(&out, n->output()->name(), "=", n->op().base, "(", args, ") ");
    }
    std::string results;
    for (const Arg& a : p.graph->outputs) names(a, &results);
    return text::StrCat(out, "-> ", results);
  }
};

TEST_F(Fixture, GraphsWithoutWritesStayAsTheyAre) {
  Value* x = Input("x", Tensor({2, 3}));
  Value* v = Call("aten.view.default", {x, Arg(ir::Ints{6})}, Tensor({6}));
  Output(Call("aten.relu.default", {v}, Tensor({6})));
  EXPECT_EQ(Run(), "view=view(x) relu=relu(view) -> relu");
}

TEST_F(Fixture, AWriteToAViewReachesTheBaseAndOtherViews) {
  Value* x = Input("x", Tensor({4, 6}));
  Value* y = Call("aten.relu.default", {x}, Tensor({4, 6}));
  Value* a = Call("aten.select.int", {y, 0, 1}, Tensor({6}));
  Value* c = Call("aten.view.default", {y, Arg(ir::Ints{24})}, Tensor({24}));
  Output(Call("aten.add_.Tensor", {a, Arg(1)}, Tensor({6})));
  Output(c);
  Output(y);
  EXPECT_EQ(Run(),
            "relu=relu(x) select=select(relu) view=view(relu) add=add(select) "
            "select_scatter=select_scatter(relu,add) view_1=view(select_scatter) -> add,view_1,select_scatter");
}

TEST_F(Fixture, ViewsAreMadeAgainOnlyWhereTheyAreUsed) {
  Value* x = Input("x", Tensor({4}));
  Value* y = Call("aten.relu.default", {x}, Tensor({4}));
  Value* v = Call("aten.slice.Tensor", {y, 0, 0, 2}, Tensor({2}));
  for (int i = 0; i < 3; ++i) Call("aten.mul_.Tensor", {y, Arg(2)}, Tensor({4}));
  Output(Call("aten.neg.default", {v}, Tensor({2})));
  EXPECT_EQ(Run(),
            "relu=relu(x) slice=slice(relu) mul=mul(relu) mul_1=mul(mul) mul_2=mul(mul_1) slice_1=slice(mul_2) "
            "neg=neg(slice_1) -> neg");
}

TEST_F(Fixture, TheResultHasTheDtypeOfSelf) {
  Value* x = Input("x", Tensor({4}, DType::kFloat16));
  Value* y = Input("y", Tensor({4}));
  Value* z = Call("aten.relu.default", {x}, Tensor({4}, DType::kFloat16));
  Output(Call("aten.add_.Tensor", {z, y}, Tensor({4}, DType::kFloat16)));
  EXPECT_EQ(Run(), "relu=relu(x) add=add(relu,y) _to_copy=_to_copy(add) -> _to_copy");
  EXPECT_EQ(p.graph->outputs[0].value()->dtype(), DType::kFloat16);
}

TEST_F(Fixture, WrittenInputsAreTheFirstOutputs) {
  Value* n = Input("n", Tensor({}, DType::kInt64), ir::InputSpec::kBuffer);
  Value* x = Input("x", Tensor({4}));
  Output(Call("aten.mul_.Tensor", {x, Arg(2)}, Tensor({4})));
  Call("aten.add_.Tensor", {n, Arg(1)}, Tensor({}, DType::kInt64));
  EXPECT_EQ(Run(), "mul=mul(x) add=add(n) -> add,mul,mul");
  ASSERT_EQ(p.output_specs.size(), 3u);
  EXPECT_EQ(p.output_specs[0].kind, ir::OutputSpec::kBufferMutation);
  EXPECT_EQ(p.output_specs[0].target, "m.n");
  EXPECT_EQ(p.output_specs[1].kind, ir::OutputSpec::kUserInputMutation);
  EXPECT_EQ(p.output_specs[1].target, "x");
  EXPECT_EQ(DropMutations(p), (std::vector<std::string>{"m.n", "x"}));
  EXPECT_EQ(p.graph->outputs.size(), 1u);
}

TEST_F(Fixture, ReshapeOfContiguousMemoryIsAView) {
  Value* x = Input("x", Tensor({4, 6}));
  Value* y = Call("aten.relu.default", {x}, Tensor({4, 6}));
  Value* r = Call("aten.reshape.default", {y, Arg(ir::Ints{24})}, Tensor({24}));
  Call("aten.exp_.default", {r}, Tensor({24}));
  Output(y);
  EXPECT_EQ(Run(), "relu=relu(x) reshape=reshape(relu) exp=exp(reshape) reshape_1=reshape(exp) -> reshape_1");
}

TEST_F(Fixture, ReshapeOfTransposedMemoryIsACopy) {
  Value* x = Input("x", Tensor({4, 6}));
  Value* y = Call("aten.relu.default", {x}, Tensor({4, 6}));
  Value* t = Call("aten.t.default", {y}, Transposed(Tensor({4, 6})));
  Value* r = Call("aten.reshape.default", {t, Arg(ir::Ints{24})}, Tensor({24}));
  Call("aten.exp_.default", {r}, Tensor({24}));
  Output(y);
  EXPECT_EQ(Run(), "relu=relu(x) t=t(relu) reshape=reshape(t) exp=exp(reshape) -> relu");
}

TEST_F(Fixture, UnknownSharingMattersOnlyWhenSeen) {
  Type unknown = Tensor({4, 6});
  unknown.strides_known = false;
  Value* x = Input("x", Tensor({4, 6}));
  Value* y = Call("aten.relu.default", {x}, unknown);
  Value* r = Call("aten.reshape.default", {y, Arg(ir::Ints{24})}, Tensor({24}));
  Output(Call("aten.exp_.default", {r}, Tensor({24})));
  EXPECT_EQ(Run(), "relu=relu(x) reshape=reshape(relu) exp=exp(reshape) -> exp");
}

TEST_F(Fixture, UnknownSharingThatIsSeenIsRefused) {
  Type unknown = Tensor({4, 6});
  unknown.strides_known = false;
  Value* x = Input("x", Tensor({4, 6}));
  Value* y = Call("aten.relu.default", {x}, unknown);
  Value* r = Call("aten.reshape.default", {y, Arg(ir::Ints{24})}, Tensor({24}));
  Call("aten.exp_.default", {r}, Tensor({24}));
  Output(y);
  EXPECT_TRUE(text::Contains(Run(), "aten.reshape.default"));
}

TEST_F(Fixture, StridedViewsAreToldOfTheirBase) {
  Value* x = Input("x", Tensor({4, 6}));
  Value* y = Call("aten.relu.default", {x}, Transposed(Tensor({4, 6})));
  Type row = Tensor({4});
  row.storage_offset = 1;
  row.strides = {6};
  Value* s = Call("aten.select.int", {y, 0, 1}, row);
  Output(Call("aten.as_strided.default", {s, Arg(ir::Ints{2}), Arg(ir::Ints{6})}, Tensor({2})));
  EXPECT_EQ(Run(),
            "relu=relu(x) select=select(relu) permute=permute(relu) as_strided=as_strided(permute) -> as_strided");
  EXPECT_EQ(*p.graph->last()->Get("storage_offset").get<int64_t>(), 1);
}

TEST_F(Fixture, ARunAwayChainIsRefusedNotFollowed) {
  Value* x = Input("x", Tensor({4}));
  Value* y = Call("aten.relu.default", {x}, Tensor({4}));
  Value* v = y;
  for (int i = 0; i < 3000; ++i) v = Call("aten.alias.default", {v}, Tensor({4}));
  for (int i = 0; i < 3000; ++i) {
    Call("aten.add_.Tensor", {y, Arg(1)}, Tensor({4}));
    Call("aten.relu.default", {v}, Tensor({4}));
  }
  Output(v);
  EXPECT_TRUE(text::Contains(Run(), "too many views"));
}

TEST_F(Fixture, WhatCannotBeExpressedIsRefusedByName) {
  Value* x = Input("x", Tensor({4}));
  Value* y = Call("aten.relu.default", {x}, Tensor({4}));
  Type windows = Tensor({2, 3});
  windows.strides = {1, 1};
  Value* v = Call("aten.unfold.default", {y, 0, 3, 1}, windows);
  Call("aten.add_.Tensor", {v, Arg(1)}, windows);
  Output(y);
  EXPECT_TRUE(text::Contains(Run(), "aten.unfold.default"));
}

}  // namespace
}  // namespace slipway::passes
