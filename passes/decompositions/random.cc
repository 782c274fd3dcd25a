// Distributions made of uniform, normal and integer random numbers. torch's own sequence is never that of another
// runtime: what holds is the distribution.
#include <cmath>
#include <limits>
#include <numbers>

#include "passes/decompositions/util.h"

namespace slipway::passes {
namespace {

DType RealOf(DType t) { return t == DType::kFloat64 ? t : DType::kFloat32; }

// As many as `like` has elements, in [0, 1).
Value* Uniform(Decomposer& d, Value* like) {
  return d.b.Call("aten.rand_like.default", {like}, {{"dtype", RealOf(like->dtype())}});
}
// ... in (0, 1]: for logarithms.
Value* Positive(Decomposer& d, Value* like) { return d.Rsub(Uniform(d, like), 1); }
Value* Normal(Decomposer& d, Value* like) {
  return d.b.Call("aten.randn_like.default", {like}, {{"dtype", RealOf(like->dtype())}});
}
void Give(Decomposer& d, Value* v) { d.Return(d.b.Cast(v, d.compute_dtype())); }

void UniformBetween(Decomposer& d) {
  const double from = d.f("from"), to = d.f("to");
  Give(d, d.Add(d.Mul(Uniform(d, d.in("self")), to - from), from));
}
void NormalFunctional(Decomposer& d) { Give(d, d.Add(d.Mul(Normal(d, d.in("self")), d.f("std")), d.f("mean"))); }
void NormalOfNumbers(Decomposer& d) {
  Value* x = d.b.Call("aten.randn.default", {Arg(d.sym_ints("size"))}, {{"dtype", d.compute_dtype()}});
  Give(d, d.Add(d.Mul(x, d.f("std")), d.f("mean")));
}
// A mean and a deviation of which one at least is a tensor.
void NormalOfTensors(Decomposer& d) {
  auto is_tensor = [&](const char* name) {
    Value* v = d.node().Get(name).value();
    return v && v->type().is_tensor();
  };
  const bool mean = is_tensor("mean"), deviation = is_tensor("std");
  Value* like = mean && deviation ? d.Add(d.in("mean"), d.in("std")) : d.in(mean ? "mean" : "std");
  Value* x = Normal(d, like);
  x = d.Mul(x, deviation ? Arg(d.in("std")) : Arg(d.f("std")));
  Give(d, d.Add(x, mean ? Arg(d.in("mean")) : Arg(d.f("mean"))));
}
void Bernoulli(Decomposer& d) { Give(d, d.Cmp("lt", Uniform(d, d.in("self")), d.in("self"))); }
void BernoulliOfNumber(Decomposer& d) { Give(d, d.Cmp("lt", Uniform(d, d.in("self")), d.f("p"))); }
void BernoulliOfTensor(Decomposer& d) { Give(d, d.Cmp("lt", Uniform(d, d.in("self")), d.in("p"))); }
void Exponential(Decomposer& d) {
  Give(d, d.Div(d.Unary("neg", d.Unary("log", Positive(d, d.in("self")))), d.f("lambd")));
}
void Cauchy(Decomposer& d) {
  Value* angle = d.Mul(d.Sub(Uniform(d, d.in("self")), 0.5), std::numbers::pi);
  Give(d, d.Add(d.Mul(d.Unary("tan", angle), d.f("sigma")), d.f("median")));
}
void LogNormal(Decomposer& d) {
  Give(d, d.Unary("exp", d.Add(d.Mul(Normal(d, d.in("self")), d.f("std")), d.f("mean"))));
}
// The number of trials up to the first success.
void Geometric(Decomposer& d) {
  Value* trials = d.Unary("ceil", d.Div(d.Unary("log", Positive(d, d.in("self"))), std::log1p(-d.f("p"))));
  Give(d, ClampMin(d, trials, 1));
}
void RandPerm(Decomposer& d) {
  SymInts size = {d.sym("n")};
  Value* keys = d.b.Call("aten.rand.default", {Arg(std::move(size))}, {{"dtype", DType::kFloat64}});
  d.Return(d.b.Cast(d.b.Call("aten.argsort.default", {keys}), d.out_type().dtype));
}
// Whole numbers below `to`, or of all that the type counts without gaps.
void WholeNumbers(Decomposer& d) {
  const DType t = d.out_type().dtype;
  const int bits = static_cast<int>(ir::BitSize(t));
  auto most = [&]() -> int64_t {
    if (t == DType::kFloat64) return (int64_t{1} << 53) + 1;
    if (t == DType::kFloat32) return (int64_t{1} << 24) + 1;
    if (t == DType::kFloat16) return (int64_t{1} << 11) + 1;
    if (t == DType::kBFloat16) return (int64_t{1} << 8) + 1;
    if (ir::IsBool(t)) return 2;
    return bits == 64 ? std::numeric_limits<int64_t>::max() : int64_t{1} << (ir::Info(t).is_signed ? bits - 1 : bits);
  };
  const int64_t from = Declares(d, "from") ? d.i("from") : 0;
  const int64_t to = Declares(d, "to") ? d.opt_i("to").value_or(most()) : most();
  d.Return(d.b.Call("aten.randint_like.low_dtype", {d.tensor("self"), from, to}, {{"dtype", t}}));
}
// A bound that is a tensor.
void RandIntBelow(Decomposer& d) {
  Value* like = d.tensor("self");
  Value* high = d.b.Cast(d.tensor("high"), DType::kFloat64);
  Value* u = d.b.Call("aten.rand_like.default", {like}, {{"dtype", DType::kFloat64}});
  d.Return(d.b.Cast(d.b.Cast(d.Unary("floor", d.Mul(u, high)), DType::kInt64), d.out_type().dtype));
}
// With replacement the cumulative sum is inverted; without, the first arrivals at rates p win.
void Multinomial(Decomposer& d) {
  Value* p = d.in("self");
  const int last = p->rank() - 1;
  if (!d.flag("replacement")) {
    Value* rates = d.Div(p, d.Unary("neg", d.Unary("log", Positive(d, p))));
    return d.Return(d.b.CallMulti("aten.topk.default", {rates, Arg(d.sym("num_samples")), last})[1]);
  }
  Value* sums = d.b.Call("aten.cumsum.default", {p, last});
  Value* total = Slice(d, sums, last, -1);
  SymInts sizes;
  for (int k = 0; k < last; ++k) sizes.push_back(d.b.Size(p, k));
  sizes.push_back(d.sym("num_samples"));
  Value* u = d.Mul(d.b.Call("aten.rand.default", {Arg(std::move(sizes))}, {{"dtype", p->dtype()}}), total);
  Value* at = d.b.Call("aten.searchsorted.Tensor", {sums, u}, {{"right", true}});
  // where rounding leads past the end
  d.Return(d.b.Call("aten.clamp_max.default", {at, Arg(d.b.Sub(d.b.Size(p, last), 1))}));
}

constexpr DecomposeRow kRandomRows[] = {
    {"aten.uniform.default", UniformBetween},
    {"aten.normal_functional.default", NormalFunctional},
    {"aten.normal.float_float", NormalOfNumbers},
    {"aten.normal.Tensor_float", NormalOfTensors},
    {"aten.normal.float_Tensor", NormalOfTensors},
    {"aten.normal.Tensor_Tensor", NormalOfTensors},
    {"aten.bernoulli.default", Bernoulli},
    {"aten.bernoulli.p", BernoulliOfNumber},
    {"aten.bernoulli.Tensor", BernoulliOfTensor},
    {"aten.exponential.default", Exponential},
    {"aten.cauchy.default", Cauchy},
    {"aten.log_normal.default", LogNormal},
    {"aten.geometric.default", Geometric},
    {"aten.randperm.default", RandPerm, false},
    {"aten.randperm.generator", RandPerm, false},
    {"aten.random.default", WholeNumbers, false},
    {"aten.random.from", WholeNumbers, false},
    {"aten.random.to", WholeNumbers, false},
    {"aten.randint_like.Tensor", RandIntBelow, false},
    {"aten.multinomial.default", Multinomial},
};

}  // namespace

absl::Span<const DecomposeRow> RandomDecompositions() { return kRandomRows; }

}  // namespace slipway::passes
