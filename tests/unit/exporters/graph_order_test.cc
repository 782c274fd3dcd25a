// What lowerings emit comes in one order and under one set of names, whichever way they emitted it.
#include "exporters/onnx/graph_order.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace slipway::exporters::onnx_out {
namespace {

// The text of the graph that two calls of lowerings emit, and its constants.
std::string Emitted(const std::function<V(Emitter& e, V x)>& first, const std::function<V(Emitter& e, V x)>& second) {
  onnx::GraphProto graph;
  EmitterShared shared;
  Emitter e(&graph, &shared);
  V v = {e.UniqueName("x"), DType::kFloat32, 1};
  for (const auto& lower : {first, second}) {
    shared.rule = shared.rule_results.size();
    e.SetScope("", shared.rule == 1 ? "a" : "b");
    shared.rule_results.emplace_back();
    v = lower(e, v);
    shared.rule_results[shared.rule] = {v.name};
  }
  graph.add_output()->set_name(v.name);
  OrderGraph(&graph, &shared);
  std::string text = graph.DebugString();
  for (const std::string& key : shared.constant_order) text += shared.constants[key].second.DebugString();
  return text;
}

V Same(Emitter&, V x) { return x; }

TEST(GraphOrder, OfArguments) {
  const std::string one = Emitted(
      [](Emitter& e, V x) {
        V left = e.Mul(x, e.Number(2, x.dtype)), right = e.Op("Exp", {x});
        return e.Sub(left, right);
      },
      Same);
  EXPECT_EQ(one, Emitted(
                     [](Emitter& e, V x) {
                       V right = e.Op("Exp", {x}), two = e.Number(2, x.dtype);
                       e.Number(3, x.dtype);  // which nothing reads
                       return e.Sub(e.Mul(x, two), right);
                     },
                     Same));
  EXPECT_LT(one.find("Mul"), one.find("Exp"));
}

TEST(GraphOrder, CallsStayInTheirOrder) {
  const std::string text = Emitted([](Emitter& e, V x) { return e.Op("Exp", {x}); },
                                   [](Emitter& e, V x) { return e.Add(e.Op("Neg", {V{"x", x.dtype, 1}}), x); });
  EXPECT_LT(text.find("Exp"), text.find("Neg"));
}

// A result is used by a later call, too.
TEST(GraphOrder, OfWhatIsShared) {
  const auto last = [](Emitter& e, V x) { return e.Mul(x, e.Op("Exp", {V{"x", x.dtype, 1}})); };
  const std::string one = Emitted(
      [](Emitter& e, V x) {
        V neg = e.Op("Neg", {x});
        e.Op("Exp", {x});
        return neg;
      },
      last);
  EXPECT_EQ(one, Emitted(
                     [](Emitter& e, V x) {
                       e.Op("Exp", {x});
                       return e.Op("Neg", {x});
                     },
                     last));
}

TEST(GraphOrder, OfGraphsInside) {
  const auto branch = [](bool swapped) {
    return Emitted(
        [&](Emitter& e, V x) {
          onnx::GraphProto inner;
          Emitter inside(&inner, e.shared());
          inside.SetScope("", "c");
          V left = swapped ? V() : inside.Op("Sin", {x});
          V right = inside.Op("Cos", {x});
          if (swapped) left = inside.Op("Sin", {x});
          inner.add_output()->set_name(inside.Sub(left, right).name);
          V condition = e.BoolConst(true);
          return e.Control("If", {condition}, {{"then_branch", inner}}, {x.dtype})[0];
        },
        Same);
  };
  EXPECT_EQ(branch(false), branch(true));
}

}  // namespace
}  // namespace slipway::exporters::onnx_out
