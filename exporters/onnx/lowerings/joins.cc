// Operators of ONNX that its importer takes apart (importers/onnx/lowerings/*.cc) and that a program that was an ONNX
// model is written with again. Each row recognises what the importer writes; what it is made of goes where nothing else
// reads it.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "exporters/onnx/lowerings/util.h"
#include "ir/ops/args.h"

namespace slipway::exporters::onnx_out {
namespace {

using ir::ArgReader;
using ir::Node;
using ir::Value;

// The node of this operator that a value is the result of; null for others.
const Node* Made(const Value* v, std::string_view op) {
  const Node* n = v ? v->producer() : nullptr;
  return n && n->op_name() == op ? n : nullptr;
}
Value* Operand(const Node* n, std::string_view name) { return n ? n->Get(name).value() : nullptr; }

// A Scalar argument that is known; NaN for others, which equals nothing.
double Number(const Node* n, std::string_view name) {
  if (!n) return std::nan("");
  const auto s = ArgReader(*n).opt_scalar(name);
  return s && s->is_constant() && s->kind != ir::Scalar::kComplex ? s->d : std::nan("");
}
bool Is(const Node* n, std::string_view name, double number) { return Number(n, name) == number; }

// ---- Activations

bool IsF32(const Node& n) { return n.output(0)->dtype() == DType::kFloat32; }

template <Str op>
void JoinedUnary(LoweringContext& c) {
  c.Return(c.e.Op(op, {c.in("self")}));
}

bool IsPlainSoftplus(const Node& n) { return IsF32(n) && Is(&n, "beta", 1); }

void JoinedCelu(LoweringContext& c) { c.Return(c.e.Op("Celu", {c.in("self")}, {{"alpha", c.scalar("alpha").d}})); }

bool IsScaledElu(const Node& n) { return IsF32(n) && Is(&n, "input_scale", 1) && !Is(&n, "scale", 1); }
void JoinedSelu(LoweringContext& c) {
  c.Return(c.e.Op("Selu", {c.in("self")}, {{"alpha", c.scalar("alpha").d}, {"gamma", c.scalar("scale").d}}));
}

bool IsThresholdOfZero(const Node& n) { return IsF32(n) && Is(&n, "value", 0); }
void ThresholdedRelu(LoweringContext& c) {
  c.Return(c.e.Op("ThresholdedRelu", {c.in("self")}, {{"alpha", c.scalar("threshold").d}}));
}

// clamp(x * alpha + beta, 0, 1)
const Node* AddOf(const Node& clamp) { return Made(Operand(&clamp, "self"), "aten.add.Scalar"); }
const Node* MulOf(const Node& clamp) { return Made(Operand(AddOf(clamp), "self"), "aten.mul.Scalar"); }
bool IsHardSigmoid(const Node& n) {
  const Node* mul = MulOf(n);
  return IsF32(n) && mul && Is(&n, "min", 0) && Is(&n, "max", 1) && Is(AddOf(n), "alpha", 1) &&
         std::isfinite(Number(AddOf(n), "other")) && std::isfinite(Number(mul, "other")) &&
         Operand(mul, "self")->dtype() == DType::kFloat32;
}
void JoinedHardSigmoid(LoweringContext& c) {
  const Node* mul = MulOf(c.node());
  c.Return(c.e.Op("HardSigmoid", {c.value(Operand(mul, "self"))},
                  {{"alpha", Number(mul, "other")}, {"beta", Number(AddOf(c.node()), "other")}}));
}

// x / (|x| + 1)
bool IsSoftsign(const Node& n) {
  const Node* add = Made(Operand(&n, "other"), "aten.add.Scalar");
  const Node* abs = Made(Operand(add, "self"), "aten.abs.default");
  return IsF32(n) && abs && Is(add, "other", 1) && Is(add, "alpha", 1) && Operand(abs, "self") == Operand(&n, "self");
}

// x >= 0 ? x : x * slope
bool IsPRelu(const Node& n) {
  const Value* x = Operand(&n, "self");
  const Node *at_least = Made(Operand(&n, "condition"), "aten.ge.Scalar"),
             *mul = Made(Operand(&n, "other"), "aten.mul.Tensor");
  return IsF32(n) && at_least && mul && Is(at_least, "other", 0) && Operand(at_least, "self") == x &&
         Operand(mul, "self") == x && Operand(mul, "other") && Operand(mul, "other")->dtype() == DType::kFloat32 &&
         x->sizes() == n.output(0)->sizes();
}
void PRelu(LoweringContext& c) {
  c.Return(c.e.Op("PRelu", {c.in("self"), c.value(Operand(Operand(&c.node(), "other")->producer(), "other"))}));
}

// ---- Reductions

// A sum over dims, in the type of its elements.
bool IsSum(const Node* n) {
  if (!n || n->op_name() != "aten.sum.dim_IntList") return false;
  const Value* x = Operand(n, "self");
  const auto dims = ArgReader(*n).opt_ints("dim");
  return dims && !dims->empty() && x->rank() > 0 && x->dtype() == n->output(0)->dtype();
}
// What is squared, or nothing.
Value* Squared(const Value* v) {
  const Node* mul = Made(v, "aten.mul.Tensor");
  Value* x = Operand(mul, "self");
  return x && x == Operand(mul, "other") ? x : nullptr;
}
// The reduction of a tensor as this sum's.
V ReduceAs(LoweringContext& c, std::string_view op, const Node& sum, Value* of) {
  ArgReader args(sum);
  V x = c.value(of);
  Ints axes;
  for (int d : args.dims("dim", x.rank)) axes.push_back(d);
  return c.e.Reduce(op, x, std::move(axes), args.b("keepdim"));
}

bool IsSumSquare(const Node& n) { return IsSum(&n) && Squared(Operand(&n, "self")); }
void SumSquare(LoweringContext& c) {
  c.Return(ReduceAs(c, "ReduceSumSquare", c.node(), Squared(Operand(&c.node(), "self"))));
}
bool IsL1(const Node& n) { return IsSum(&n) && Made(Operand(&n, "self"), "aten.abs.default"); }
void L1(LoweringContext& c) {
  c.Return(ReduceAs(c, "ReduceL1", c.node(), Operand(Operand(&c.node(), "self")->producer(), "self")));
}
bool IsL2(const Node& n) {
  const Value* sum = Operand(&n, "self");
  return sum && IsF32(n) && IsSum(sum->producer()) && Squared(Operand(sum->producer(), "self"));
}
void L2(LoweringContext& c) {
  const Node& sum = *Operand(&c.node(), "self")->producer();
  c.Return(ReduceAs(c, "ReduceL2", sum, Squared(Operand(&sum, "self"))));
}
bool IsLogSum(const Node& n) {
  const Value* sum = Operand(&n, "self");
  return sum && IsF32(n) && IsSum(sum->producer());
}
void LogSum(LoweringContext& c) {
  const Node& sum = *Operand(&c.node(), "self")->producer();
  c.Return(ReduceAs(c, "ReduceLogSum", sum, Operand(&sum, "self")));
}

// ---- Indices that count from the end, too

// index < 0 ? index + size : index
Value* FromEnd(const Value* v) {
  const Node* where = Made(v, "aten.where.self");
  Value* index = Operand(where, "other");
  const Node *less = Made(Operand(where, "condition"), "aten.lt.Scalar"),
             *add = Made(Operand(where, "self"), "aten.add.Scalar");
  return index && less && add && Is(less, "other", 0) && Operand(less, "self") == index && Operand(add, "self") == index
             ? index
             : nullptr;
}
// Along a dim whose size is what is added: the importer's nodes; others may add something else.
bool IndexFromEnd(const Node& n) {
  const Value *x = Operand(&n, "self"), *at = Operand(&n, "index");
  if (!FromEnd(at) || x->rank() == 0 || at->rank() != x->rank()) return false;
  ArgReader args(n);
  const ir::Sym size = x->sizes()[static_cast<size_t>(args.dim("dim", x->rank()))];
  const auto added = ArgReader(*Operand(at->producer(), "self")->producer()).scalar("other");
  return added.kind == ir::Scalar::kInt ? size == ir::Sym(added.i)
                                        : added.kind == ir::Scalar::kValue && added.value->type().expr == size;
}
V IndexOperand(LoweringContext& c) { return c.value(FromEnd(Operand(&c.node(), "index"))); }

void GatherElements(LoweringContext& c) {
  V x = c.in("self");
  c.Return(c.e.Op("GatherElements", {x, IndexOperand(c)}, {{"axis", int64_t{c.dim("dim", x.rank)}}}));
}

bool IsScatter(const Node& n) {
  return IndexFromEnd(n) && Operand(&n, "src") && Operand(&n, "src")->sizes() == Operand(&n, "index")->sizes() &&
         Operand(&n, "src")->dtype() == n.output(0)->dtype();
}
void JoinedScatterElements(LoweringContext& c) {
  V x = c.in("self");
  c.Return(c.e.Op("ScatterElements", {x, IndexOperand(c), c.in("src")}, {{"axis", int64_t{c.dim("dim", x.rank)}}}));
}

constexpr Row kJoinRows[] = {
    {"aten.celu.default", JoinedCelu, false, 0, IsF32},
    {"aten.clamp.default", JoinedHardSigmoid, false, 0, IsHardSigmoid},
    {"aten.div.Tensor", JoinedUnary<"Softsign">, false, 0, IsSoftsign},
    {"aten.elu.default", JoinedSelu, false, 0, IsScaledElu},
    {"aten.gather.default", GatherElements, false, 0, IndexFromEnd},
    {"aten.log.default", LogSum, false, 0, IsLogSum},
    {"aten.mish.default", JoinedUnary<"Mish">, false, 0, IsF32},
    {"aten.scatter.src", JoinedScatterElements, false, 0, IsScatter},
    {"aten.softplus.default", JoinedUnary<"Softplus">, false, 0, IsPlainSoftplus},
    {"aten.sqrt.default", L2, false, 0, IsL2},
    {"aten.sum.dim_IntList", SumSquare, false, 0, IsSumSquare},
    {"aten.sum.dim_IntList", L1, false, 0, IsL1},
    {"aten.threshold.default", ThresholdedRelu, false, 0, IsThresholdOfZero},
    {"aten.where.self", PRelu, false, 0, IsPRelu},
};

}  // namespace

absl::Span<const Row> JoinRows() { return kJoinRows; }

}  // namespace slipway::exporters::onnx_out
