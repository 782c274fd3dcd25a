// Activations.
#include <string>

#include "exporters/onnx/lowerings/elementwise.h"
#include "exporters/onnx/lowerings/util.h"
#include "exporters/onnx/types.h"
#include "ir/rounded.h"

namespace slipway::exporters::onnx_out {

namespace {

void Hardtanh(LoweringContext& c) {
  DType t = c.compute_dtype();
  c.Return(Between(c, Self(c), c.number(c.scalar("min_val"), t), c.number(c.scalar("max_val"), t)));
}

void Gelu(LoweringContext& c) {
  std::string approximate = c.str("approximate");
  if (c.e.opset() >= 20) return c.Return(c.e.Op("Gelu", {Self(c)}, {{"approximate", approximate}}));
  V x = Self(c);
  if (approximate == "tanh") {
    V x3 = c.e.Mul(c.e.Mul(x, x), x);
    V inner = c.e.Mul(Num(c, 0.7978845608028654), c.e.Add(x, c.e.Mul(Num(c, 0.044715), x3)));
    return c.Return(c.e.Mul(c.e.Mul(Num(c, 0.5), x), c.e.Add(Num(c, 1), c.e.Op("Tanh", {inner}))));
  }
  V erf = c.e.Op("Erf", {c.e.Mul(x, Num(c, 0.7071067811865476))});
  c.Return(c.e.Mul(c.e.Mul(x, Num(c, 0.5)), c.e.Add(erf, Num(c, 1))));
}

void Silu(LoweringContext& c) {
  V x = Self(c);
  c.Return(c.e.Mul(x, c.e.Op("Sigmoid", {x})));
}

void Relu(LoweringContext& c) {
  V x = c.in("self");
  c.Return(ir::IsFloating(x.dtype) ? c.e.Op("Relu", {x}) : c.e.Max(x, c.e.Integer(0, x.dtype)));
}

void LeakyRelu(LoweringContext& c) {
  c.Return(c.e.Op("LeakyRelu", {Self(c)}, {{"alpha", c.scalar("negative_slope").d}}));
}

void Elu(LoweringContext& c) {
  // x > 0 ? scale x : alpha scale (exp(input_scale x) - 1)
  V x = Self(c);
  double alpha = c.scalar("alpha").d, scale = c.scalar("scale").d, in = c.scalar("input_scale").d;
  if (scale == 1 && in == 1) return c.Return(c.e.Op("Elu", {x}, {{"alpha", alpha}}));
  V neg =
      c.e.Mul(Num(c, alpha * scale), c.e.Sub(c.e.Op("Exp", {c.e.Mul(c.e.Min(x, Num(c, 0)), Num(c, in))}), Num(c, 1)));
  c.Return(c.e.Where(c.e.Greater(x, Num(c, 0)), c.e.Mul(x, Num(c, scale)), neg));
}

void Celu(LoweringContext& c) {
  double alpha = c.scalar("alpha").d;
  V x = Self(c);
  V neg = c.e.Mul(Num(c, alpha), c.e.Sub(c.e.Op("Exp", {c.e.Div(c.e.Min(x, Num(c, 0)), Num(c, alpha))}), Num(c, 1)));
  c.Return(c.e.Where(c.e.Greater(x, Num(c, 0)), x, neg));
}

void Selu(LoweringContext& c) {
  c.Return(c.e.Op("Selu", {Self(c)},
                  {{"alpha", 1.6732632423543772848170429916717}, {"gamma", 1.0507009873554804934193349852946}}));
}

// The operators' slope of 1/6 is f32.
void HardSigmoid(LoweringContext& c) {
  V x = Self(c);
  if (x.dtype == DType::kFloat32) return c.Return(c.e.Op("HardSigmoid", {x}, {{"alpha", 1.0 / 6}, {"beta", 0.5}}));
  c.Return(c.e.Div(Between(c, c.e.Add(x, Num(c, 3)), Num(c, 0), Num(c, 6)), Num(c, 6)));
}

void HardSwish(LoweringContext& c) {
  V x = Self(c);
  if (x.dtype == DType::kFloat32) return c.Return(c.e.Op("HardSwish", {x}));
  c.Return(c.e.Div(c.e.Mul(x, Between(c, c.e.Add(x, Num(c, 3)), Num(c, 0), Num(c, 6))), Num(c, 6)));
}

void Relu6(LoweringContext& c) { c.Return(Between(c, Self(c), Num(c, 0), Num(c, 6))); }
V Softplus(LoweringContext& c, V x) {
  // log(1 + exp(x)) without overflow: max(x, 0) + log(1 + exp(-|x|)).
  V zero = c.e.Number(0, x.dtype), one = c.e.Number(1, x.dtype);
  return c.e.Add(c.e.Max(x, zero), c.e.Op("Log", {c.e.Add(one, c.e.Op("Exp", {c.e.Op("Neg", {c.e.Op("Abs", {x})})}))}));
}

void SoftplusOp(LoweringContext& c) {
  double beta = c.scalar("beta").d, threshold = c.scalar("threshold").d;
  V x = Self(c);
  V bx = beta == 1 ? x : c.e.Mul(x, Num(c, beta));
  V soft = Softplus(c, bx);
  if (beta != 1) soft = c.e.Div(soft, Num(c, beta));
  c.Return(c.e.Where(c.e.Greater(bx, Num(c, threshold)), x, soft));
}

void Mish(LoweringContext& c) {
  V x = Self(c);
  c.Return(c.e.Mul(x, c.e.Op("Tanh", {Softplus(c, x)})));
}

void LogSigmoid(LoweringContext& c) {
  V x = Self(c);
  c.Return(c.e.Op("Neg", {Softplus(c, c.e.Op("Neg", {x}))}));
}

void Hardshrink(LoweringContext& c) {
  V x = Self(c);
  double l = c.scalar("lambd").d;
  // NaN is kept: it is neither within nor outside.
  V inside = c.e.And(c.e.GreaterEqual(x, Num(c, -l)), c.e.LessEqual(x, Num(c, l)));
  c.Return(c.e.Where(inside, Num(c, 0), x));
}

void Softshrink(LoweringContext& c) {
  V x = Self(c);
  double l = c.scalar("lambd").d;
  V shrunk = c.e.Where(c.e.Greater(x, Num(c, l)), c.e.Sub(x, Num(c, l)), c.e.Mul(x, Num(c, 0)));
  c.Return(c.e.Where(c.e.Less(x, Num(c, -l)), c.e.Add(x, Num(c, l)), shrunk));
}

void Threshold(LoweringContext& c) {
  DType t = c.compute_dtype();
  V x = c.in("self");
  // torch compares with the number in f32.
  const DType wide = Widened(t);
  c.Return(c.e.Where(c.e.LessEqual(c.e.Cast(x, wide), c.number(c.scalar("threshold"), wide)),
                     c.number(c.scalar("value"), t), x));
}

void Prelu(LoweringContext& c) {
  // The weight is per channel (dim 1) or one for all.
  ir::Value* x = c.tensor("self");
  V w = c.in("weight"), v = c.in("self");
  if (w.rank == 1 && x->rank() > 2) {
    Ints axes;
    for (int d = 1; d < x->rank() - 1; ++d) axes.push_back(d);
    w = c.e.Unsqueeze(w, axes);
  } else if (x->rank() <= 1 && w.rank == 1) {
    w = c.e.Reshape(w, Ints{});
  }
  c.Return(c.e.Where(c.e.Greater(v, c.e.Number(0, v.dtype)), v, c.e.Mul(w, v)));
}

void Glu(LoweringContext& c) {
  V x = c.in("self");
  int d = c.dim("dim", x.rank);
  auto parts = c.e.OpN("Split", {x}, {{"axis", int64_t{d}}, {"num_outputs", int64_t{2}}}, {x.dtype, x.dtype});
  c.Return(c.e.Mul(parts[0], c.e.Op("Sigmoid", {parts[1]})));
}

// clang-format off
constexpr Row kActivationRows[] = {
    {"aten.relu.default", Relu}, {"aten.relu6.default", Relu6}, {"aten.gelu.default", Gelu, kUnlessKept},
    {"aten.silu.default", Silu, true}, {"aten.leaky_relu.default", LeakyRelu}, {"aten.elu.default", Elu, true},
    {"aten.celu.default", Celu, true}, {"aten.selu.default", Selu},
    {"aten.hardtanh.default", Hardtanh}, {"aten.hardsigmoid.default", HardSigmoid, true},
    {"aten.hardswish.default", HardSwish, true}, {"aten.softplus.default", SoftplusOp, true},
    {"aten.mish.default", Mish, true}, {"aten.log_sigmoid.default", LogSigmoid, true},
    {"aten.hardshrink.default", Hardshrink}, {"aten.softshrink.default", Softshrink, true},
    {"aten.threshold.default", Threshold}, {"aten.prelu.default", Prelu, true},
    {"aten._prelu_kernel.default", Prelu, true},
    {"aten.glu.default", Glu, true},
};
// clang-format on

}  // namespace

absl::Span<const Row> ActivationRows() { return kActivationRows; }

}  // namespace slipway::exporters::onnx_out
