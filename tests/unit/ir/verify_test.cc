// The verifier: a sound program passes, and each rule is broken once.
#include "ir/verify.h"

#include <string>

#include "gtest/gtest.h"
#include "ir/text.h"

namespace slipway::ir {
namespace {

std::string Verified(std::string_view text) {
  auto a = Parse(text);
  if (!a.ok()) return std::string(a.status().message());
  absl::Status s = Verify(*a->programs[0]);
  return s.ok() ? "ok" : std::string(s.message());
}

// The verdict on a graph of these lines over %x: f32[2,3] and %n: i64(s0).
std::string Body(const std::string& lines, const std::string& head = "") {
  return Verified("slipway.ir 1\n" + head + "graph main(%x: f32[2,3], %n: i64(s0)) {\n" + lines + "\n}\n");
}

void Expect(const std::string& verdict, const std::string& part) {
  EXPECT_NE(verdict.find(part), std::string::npos) << verdict;
}

TEST(Verify, TakesSoundPrograms) {
  EXPECT_EQ(Body("%y: f32[2,3] = aten.relu.default(self=%x)\nreturn %y"), "ok");
  EXPECT_EQ(Body("%y: f32[2,3] = aten.add.Tensor(self=%x, other=1)\nreturn %y"), "ok");
  EXPECT_EQ(Body("%y: f32[s0,3] = aten.expand.default(self=%x, size=[%n, 3])\nreturn %y"), "ok");
  EXPECT_EQ(Body("[%a: f32[1,3], %b: f32[1,3]] = aten.split.Tensor(self=%x, split_size=1)\nreturn %a"), "ok");
  EXPECT_EQ(Body("%y: f32[2,3] = unknown.op(whatever=[1, 2], f32)\nreturn %y, None, 5"), "ok");
}

TEST(Verify, ChecksArguments) {
  Expect(Body("%y: f32[2,3] = aten.relu.default()\nreturn %y"), "argument 'self' is missing");
  Expect(Body("%y: f32[2,3] = aten.relu.default(self=%x, other=1)\nreturn %y"), "has no argument 'other'");
  Expect(Body("%y: f32[2,3] = aten.relu.default(self=%x, self=%x)\nreturn %y"), "given twice");
  Expect(Body("%y: f32[2,3] = aten.relu.default(self=\"x\")\nreturn %y"), "argument 'self' does not fit Tensor");
  Expect(Body("%y: f32[2,3] = aten.relu.default(self=None)\nreturn %y"), "argument 'self' does not fit Tensor");
  Expect(Body("%y: f32[6] = aten.view.default(self=%x, size=[\"a\"])\nreturn %y"), "does not fit SymInt[]");
  Expect(Body("%y: f32[2,3] = aten.softmax.int(self=%x, dim=0.5)\nreturn %y"), "does not fit int");
  Expect(Body("%y: f32[2,3] = aten.add.Scalar(self=%x, other=%x)\nreturn %y"), "argument 'other' does not fit Scalar");
  Expect(Body("%y: f32[2] = aten.select.int(self=%x, dim=1, index=%x)\nreturn %y"), "does not fit SymInt");
  EXPECT_EQ(Body("%z: f32[] = aten.sum.default(self=%x)\n%y: f32[2,3] = aten.add.Scalar(self=%x, other=%z)\nreturn %y"),
            "ok");
  Expect(Body("%y: f32[2,3] = aten.softmax.int(self=%x, dim=0, dtype=strided)\nreturn %y"), "does not fit ScalarType?");
}

TEST(Verify, ChecksResults) {
  Expect(Body("%y: i64(s0) = aten.relu.default(self=%x)\nreturn %y"), "does not fit the return type Tensor");
  Expect(Body("%y: f32[2], %z: f32[2] = aten.relu.default(self=%x)\nreturn %y"), "2 results for 1 returns");
  Expect(Body("[%y: f32[2]] = aten.relu.default(self=%x)\nreturn %y"), "a list for return 0");
  Expect(Body("%y: none = aten.relu.default(self=%x)\nreturn %y"), "%y has no type");
  Expect(Body("%y: unknown[2] = aten.relu.default(self=%x)\nreturn %y"), "%y has no dtype");
}

TEST(Verify, ChecksSubgraphs) {
  const std::string cond =
      "%y: f32[2,3] = higher_order.cond(true, @a.0, @a.1, [%x])\nreturn %y\n}\n"
      "graph a.0(%x: f32[2,3]) { return %x }\n";
  EXPECT_EQ(Body(cond + "graph a.1(%x: f32[2,3]) { return %x"), "ok");
  Expect(Body(cond + "graph a.1() { return 1"), "a graph of 0 inputs gets 1 operands");
  Expect(Body(cond + "graph a.1(%x: f32[2,3]) { return"), "a graph of 0 outputs for 1 results");
  Expect(Body(cond + "graph a.1(%x: f32[2,3]) { %y: f32[2] = aten.relu.default()\n return %y"),
         "argument 'self' is missing");
  Expect(Body(cond + "graph a.1(%x: f16[2,3]) { return %x"), "operand 0 is f32[2,3], the graph says f16[2,3]");
  Expect(Body(cond + "graph a.1(%x: f32[2]) { return %x"), "operand 0 is f32[2,3], the graph says f32[2]");
  Expect(Body(cond + "graph a.1(%x: f32[2,4]) { return %x"), "operand 0 is f32[2,3], the graph says f32[2,4]");
  Expect(Body(cond + "graph a.1(%x: f32[2,3]) { %y: f32[3] = aten.sum.dim_IntList(self=%x, dim=[0])\nreturn %y"),
         "result 0 is f32[2,3], the graph says f32[3]");
  Expect(Body("%y: f32[2,3] = higher_order.cond(true, 1, 2, [%x])\nreturn %y"), "argument 1 is no graph");

  const std::string scan = "%y: f32[3], %z: f32[2,3] = higher_order.scan(@b.0, [%c], [%x], [])\nreturn %z\n}\n";
  const std::string carry = "%c: f32[3] = aten.sum.dim_IntList(self=%x, dim=[0])\n";
  EXPECT_EQ(Body(carry + scan + "graph b.0(%c: f32[3], %x: f32[3]) { return %c, %x"), "ok");
  Expect(Body(carry + scan + "graph b.0(%c: f32[3], %x: f32[2,3]) { return %c, %x"),
         "operand 1 is f32[2,3], the graph says f32[2,3]");
  Expect(Body(carry + scan + "graph b.0(%c: f32[3], %x: f64[3]) { return %c, %x"),
         "operand 1 is f32[2,3], the graph says f64[3]");
  Expect(Body("%c: f32[3] = aten.sum.dim_IntList(self=%x, dim=[0])\n%y: f32[3], %z: f32[4,3] = higher_order.scan(@b.0, "
              "[%c], [%x], [])\n"
              "return %z\n}\ngraph b.0(%c: f32[3], %x: f32[3]) { return %c, %x"),
         "result 1 has 4 rows, the first operand 2");
  Expect(Body("%y: f32[2,4] = higher_order.while_loop(@b.0, @b.1, [%x], [])\nreturn %y\n}\n"
              "graph b.0(%x: f32[2,3]) { return true }\ngraph b.1(%x: f32[2,3]) { %y: f32[2,4] = "
              "aten.tan.default(self=%x)\nreturn %y"),
         "carried value 0 is f32[2,4], the graph says f32[2,3]");
  Expect(Body("%y: f32[2,3] = higher_order.scan(@b.0, [], [3], [])\nreturn %y\n}\ngraph b.0(%x: f32[3]) { return %x"),
         "operand 0 is no tensor of a dimension");
}

TEST(Verify, ChecksForm) {
  const std::string line = "%y: f32[2,3] = aten.relu_.default(self=%x)\nreturn %y";
  EXPECT_EQ(Body(line), "ok");
  Expect(Body(line, "form functional\n"), "writes its arguments");
}

TEST(Verify, ChecksSignatures) {
  auto a =
      Parse("slipway.ir 1\nweights { $w: f32[4] @ splat(1.0) }\ngraph main(%w: f32[4] = parameter $w) { return %w }\n");
  ASSERT_TRUE(a.ok()) << a.status();
  Program& p = *a->programs[0];
  EXPECT_TRUE(Verify(p).ok());
  p.weights.at("w").dtype = DType::kInt32;
  Expect(std::string(Verify(p).message()), "weight 'w' is i32, input %w is f32");
  p.weights.at("w").dtype = DType::kFloat32;
  p.weights.at("w").offset = 4;
  Expect(std::string(Verify(p).message()), "weight 'w'");
  p.weights.clear();
  EXPECT_TRUE(Verify(p).ok());
  p.output_specs.clear();
  Expect(std::string(Verify(p).message()), "0 output specs for 1 outputs");
  p.output_specs.push_back({OutputSpec::kUserInputMutation, "nothing"});
  Expect(std::string(Verify(p).message()), "which is no input");
  p.input_specs.clear();
  Expect(std::string(Verify(p).message()), "0 input specs for 1 inputs");
}

TEST(Verify, ChecksSizes) {
  EXPECT_EQ(Body("%y: f32[0,1099511627776] = aten.relu.default(self=%x)\nreturn %y"), "ok");
  Expect(Body("%y: f32[1099511627776,2097152] = aten.relu.default(self=%x)\nreturn %y"),
         "more elements than can be counted");
  Program p;
  Value* w = p.graph->AddInput("w", Type::Tensor(DType::kFloat32, {p.syms->Symbol("s0"), 3}));
  p.input_specs.push_back({InputSpec::kParameter, "w"});
  p.weights["w"] = OwnedTensor(DType::kFloat32, {3}, std::string(12, '\0'));
  Expect(std::string(Verify(p).message()), "weight 'w' has other sizes than input %w");
  w->mutable_type().sizes = {3};
  EXPECT_EQ(Verify(p).message(), "");
}

TEST(Verify, ChecksOrderAndOwners) {
  auto a = Parse(
      "slipway.ir 1\ngraph main(%x: f32[2]) {\n  %y: f32[2] = aten.relu.default(self=%x)\n"
      "  %z: f32[2] = aten.neg.default(self=%y)\n  return %z\n}\n");
  ASSERT_TRUE(a.ok()) << a.status();
  Program& p = *a->programs[0];
  Graph& g = *p.graph;
  g.MoveBefore(g.last(), g.first());
  Expect(std::string(Verify(p).message()), "%y is used and not defined before");
  g.MoveBefore(g.last(), g.first());
  EXPECT_TRUE(Verify(p).ok());
  Graph other(&p);
  g.first()->SetArg("self", other.AddInput("x", Type::Tensor(DType::kFloat32, {2})));
  Expect(std::string(Verify(p).message()), "%x is used and not defined before");
  g.first()->SetArg("self", g.inputs()[0]);
  EXPECT_TRUE(Verify(p).ok());
}

}  // namespace
}  // namespace slipway::ir
