// Functions of one element, casts.
#include "exporters/onnx/lowerings/elementwise.h"

#include <cmath>
#include <limits>

#include "exporters/onnx/lowerings/data.h"
#include "exporters/onnx/lowerings/util.h"
#include "exporters/onnx/types.h"
#include "ir/rounded.h"

namespace slipway::exporters::onnx_out {

namespace {}  // namespace

V Self(LoweringContext& c) { return c.e.Cast(c.in("self"), c.compute_dtype()); }
V Num(LoweringContext& c, double v) { return c.e.Number(v, c.compute_dtype()); }

namespace {

template <Str op>
void Unary(LoweringContext& c) {
  c.Return(c.e.Op(op, {Self(c)}));
}

// One node where the op keeps the type and integers are themselves (ceil, floor, trunc of ints).
template <Str op>
void FloatOnly(LoweringContext& c) {
  V x = c.in("self");
  c.Return(ir::IsFloating(x.dtype) ? c.e.Op(op, {x}) : c.e.Op("Identity", {x}));
}

void Positive(LoweringContext& c) { c.Return(c.in("self")); }

void Rsqrt(LoweringContext& c) { c.Return(c.e.Op("Reciprocal", {c.e.Op("Sqrt", {Self(c)})})); }
void Square(LoweringContext& c) {
  V x = Self(c);
  c.Return(c.e.Mul(x, x));
}

void Exp2(LoweringContext& c) { c.Return(c.e.Pow(Num(c, 2), Self(c))); }
// exp(x) - 1 without cancellation near zero (ONNX has none): tanh(x/2) (exp(x) + 1) is exact to rounding.
void Expm1(LoweringContext& c) {
  V x = Self(c), one = Num(c, 1);
  V small = c.e.Mul(c.e.Op("Tanh", {c.e.Mul(x, Num(c, 0.5))}), c.e.Add(c.e.Op("Exp", {x}), one));
  V plain = c.e.Sub(c.e.Op("Exp", {x}), one);
  c.Return(c.e.Where(c.e.Less(c.e.Op("Abs", {x}), one), small, plain));
}

// log(1 + x) without cancellation (Kahan): x log(u) / (u - 1) with u = 1 + x rounded.
V Log1pOf(LoweringContext& c, V x) {
  V one = c.e.Number(1, x.dtype);
  V u = c.e.Add(one, x);
  V d = c.e.Sub(u, one);
  V log = c.e.Op("Log", {u});
  V zero = IsZero(c, d);
  V ratio = c.e.Div(c.e.Mul(log, x), c.e.Where(zero, one, d));
  V inf = c.e.Op("IsInf", {u}, {}, DType::kBool);
  return c.e.Where(zero, x, c.e.Where(inf, log, ratio));
}

void Log1p(LoweringContext& c) { c.Return(Log1pOf(c, Self(c))); }
void Log2(LoweringContext& c) { c.Return(c.e.Mul(c.e.Op("Log", {Self(c)}), Num(c, 1.4426950408889634))); }
void Log10(LoweringContext& c) { c.Return(c.e.Mul(c.e.Op("Log", {Self(c)}), Num(c, 0.4342944819032518))); }
void Atan2(LoweringContext& c) {
  DType t = c.compute_dtype();
  V y = Operand(c, "self", t), x = Operand(c, "other", t);
  auto num = [&](double v) { return c.e.Number(v, t); };
  // The sign of y, with -0 negative: 1/y tells for zeros.
  V y_neg = c.e.Or(c.e.Less(y, num(0)), c.e.And(IsZero(c, y), c.e.Less(c.e.Op("Reciprocal", {y}), num(0))));
  V x_neg = c.e.Or(c.e.Less(x, num(0)), c.e.And(IsZero(c, x), c.e.Less(c.e.Op("Reciprocal", {x}), num(0))));
  V ax = c.e.Op("Abs", {x}), ay = c.e.Op("Abs", {y});
  V both_inf = c.e.And(c.e.Equal(ax, num(kInfinity)), c.e.Equal(ay, num(kInfinity)));
  V both_zero = c.e.And(IsZero(c, ax), IsZero(c, ay));
  V q = c.e.Op("Atan", {c.e.Div(ay, ax)});
  q = c.e.Where(both_inf, num(M_PI_4), c.e.Where(both_zero, num(0), q));
  q = c.e.Where(x_neg, c.e.Sub(num(M_PI), q), q);
  c.Return(c.e.Where(y_neg, c.e.Op("Neg", {q}), q));
}

void Hypot(LoweringContext& c) {
  // Scaled by the larger magnitude, so that squares neither overflow nor vanish.
  DType t = c.compute_dtype();
  V a = c.e.Op("Abs", {Operand(c, "self", t)}), b = c.e.Op("Abs", {Operand(c, "other", t)});
  V m = c.e.Max(a, b);
  V safe = c.e.Where(c.e.Or(IsZero(c, m), c.e.Equal(m, c.e.Number(kInfinity, t))), c.e.Number(1, t), m);
  V x = c.e.Div(a, safe), y = c.e.Div(b, safe);
  c.Return(c.e.Mul(c.e.Op("Sqrt", {c.e.Add(c.e.Mul(x, x), c.e.Mul(y, y))}), safe));
}

void Sinc(LoweringContext& c) {
  V px = c.e.Mul(Self(c), Num(c, M_PI));
  V zero = IsZero(c, px);
  V safe = c.e.Where(zero, Num(c, 1), px);
  c.Return(c.e.Where(zero, Num(c, 1), c.e.Div(c.e.Op("Sin", {safe}), safe)));
}

void Logit(LoweringContext& c) {
  V x = Self(c);
  if (auto eps = c.opt_f("eps")) x = c.e.Min(c.e.Max(x, Num(c, *eps)), Num(c, 1 - *eps));
  c.Return(c.e.Op("Log", {c.e.Div(x, c.e.Sub(Num(c, 1), x))}));
}

void Xlogy(LoweringContext& c) {
  DType t = c.compute_dtype();
  V x = Operand(c, "self", t), y = Operand(c, "other", t);
  V r = c.e.Mul(x, c.e.Op("Log", {y}));
  r = c.e.Where(IsZero(c, x), c.e.Number(0, t), r);
  c.Return(c.e.Where(c.e.Op("IsNaN", {y}, {}, DType::kBool), c.e.Add(y, x), r));
}

void Xlog1py(LoweringContext& c) {
  DType t = c.compute_dtype();
  V x = Operand(c, "self", t), y = Operand(c, "other", t);
  V r = c.e.Mul(x, Log1pOf(c, y));
  r = c.e.Where(IsZero(c, x), c.e.Number(0, t), r);
  c.Return(c.e.Where(c.e.Op("IsNaN", {y}, {}, DType::kBool), c.e.Add(y, x), r));
}

// log(exp(a) + exp(b)) in base e or 2.
void LogAddExpBase(LoweringContext& c, double ln_base) {
  DType t = c.compute_dtype();
  V a = Operand(c, "self", t), b = Operand(c, "other", t);
  V m = c.e.Max(a, b);
  V d = c.e.Op("Abs", {c.e.Sub(a, b)});
  V e = ln_base == 1 ? c.e.Op("Neg", {d}) : c.e.Mul(d, c.e.Number(-ln_base, t));
  V l = Log1pOf(c, c.e.Op("Exp", {e}));
  if (ln_base != 1) l = c.e.Div(l, c.e.Number(ln_base, t));
  V same_inf = c.e.And(c.e.Equal(a, b), c.e.Op("IsInf", {a}, {}, DType::kBool));
  c.Return(c.e.Where(same_inf, a, c.e.Add(m, l)));
}

void LogAddExp(LoweringContext& c) { LogAddExpBase(c, 1); }
void LogAddExp2(LoweringContext& c) { LogAddExpBase(c, 0.6931471805599453); }
void Sgn(LoweringContext& c) {
  V x = c.in("self");
  if (ir::IsBool(x.dtype)) return c.Return(c.e.Op("Identity", {x}));
  c.Return(c.e.Op("Sign", {x}));
}

void Abs(LoweringContext& c) {
  V x = c.in("self");
  c.Return(ir::IsBool(x.dtype) ? c.e.Op("Identity", {x}) : c.e.Op("Abs", {x}));
}

void SignBit(LoweringContext& c) {
  V x = c.in("self");
  if (ir::IsBool(x.dtype)) return c.Return(c.e.Less(c.e.Cast(x, DType::kInt32), c.e.Integer(0, DType::kInt32)));
  V zero = c.e.Number(0, x.dtype);
  V neg = c.e.Less(x, zero);
  if (ir::IsFloating(x.dtype)) neg = c.e.Or(neg, c.e.And(IsZero(c, x), c.e.Less(c.e.Op("Reciprocal", {x}), zero)));
  c.Return(neg);
}

void Copysign(LoweringContext& c) {
  DType t = c.compute_dtype();
  V a = c.e.Op("Abs", {Operand(c, "self", t)}), b = Operand(c, "other", t);
  V zero = c.e.Number(0, t);
  V neg = c.e.Or(c.e.Less(b, zero), c.e.And(IsZero(c, b), c.e.Less(c.e.Op("Reciprocal", {b}), zero)));
  c.Return(c.e.Where(neg, c.e.Op("Neg", {a}), a));
}

void Heaviside(LoweringContext& c) {
  DType t = c.compute_dtype();
  V x = Operand(c, "self", t), v = Operand(c, "values", t);
  V zero = c.e.Number(0, t);
  V r = c.e.Where(c.e.Greater(x, zero), c.e.Number(1, t), zero);
  c.Return(c.e.Where(c.e.Equal(x, zero), v, r));
}

void Trunc(LoweringContext& c) {
  V x = c.in("self");
  c.Return(ir::IsFloating(x.dtype) ? TruncFloat(c, x) : c.e.Op("Identity", {x}));
}

void Frac(LoweringContext& c) {
  V x = c.in("self");
  c.Return(c.e.Sub(x, TruncFloat(c, x)));
}

void RoundDecimals(LoweringContext& c) {
  V x = c.in("self");
  int64_t k = c.i("decimals");
  if (!ir::IsFloating(x.dtype)) return c.Return(c.e.Op("Identity", {x}));
  if (k == 0) return c.Return(c.e.Op("Round", {x}));
  V scale = c.e.Number(std::pow(10.0, std::abs(static_cast<double>(k))), x.dtype);
  V up = k > 0 ? c.e.Mul(x, scale) : c.e.Div(x, scale);
  V r = c.e.Op("Round", {up});
  c.Return(k > 0 ? c.e.Div(r, scale) : c.e.Mul(r, scale));
}

void IsNan(LoweringContext& c) {
  V x = c.in("self");
  if (!ir::IsFloating(x.dtype)) return c.Return(c.e.Not(c.e.Equal(x, x)));
  c.Return(c.e.Op("IsNaN", {x}, {}, DType::kBool));
}

void IsInfBy(LoweringContext& c, bool negative, bool positive) {
  V x = c.in("self");
  if (!ir::IsFloating(x.dtype)) return c.Return(c.e.Not(c.e.Equal(x, x)));
  c.Return(c.e.Op("IsInf", {x}, {{"detect_negative", int64_t{negative}}, {"detect_positive", int64_t{positive}}},
                  DType::kBool));
}

void IsInf(LoweringContext& c) { IsInfBy(c, true, true); }
void IsPosInf(LoweringContext& c) { IsInfBy(c, false, true); }
void IsNegInf(LoweringContext& c) { IsInfBy(c, true, false); }
void IsFinite(LoweringContext& c) {
  V x = c.in("self");
  if (!ir::IsFloating(x.dtype)) return c.Return(c.e.Equal(x, x));
  c.Return(c.e.Less(c.e.Op("Abs", {x}), c.e.Number(kInfinity, x.dtype)));
}

void NanToNum(LoweringContext& c) {
  V x = c.in("self");
  if (!ir::IsFloating(x.dtype)) return c.Return(c.e.Op("Identity", {x}));
  DType declared = c.out_dtype();
  double max = declared == DType::kFloat16    ? 65504.0
               : declared == DType::kBFloat16 ? 3.3895313892515355e38
               : declared == DType::kFloat64  ? std::numeric_limits<double>::max()
                                              : static_cast<double>(std::numeric_limits<float>::max());
  double nan = c.opt_f("nan").value_or(0), pos = c.opt_f("posinf").value_or(max),
         neg = c.opt_f("neginf").value_or(-max);
  V r = c.e.Where(c.e.Op("IsNaN", {x}, {}, DType::kBool), c.e.Number(nan, x.dtype), x);
  r = c.e.Where(c.e.Equal(x, c.e.Number(kInfinity, x.dtype)), c.e.Number(pos, x.dtype), r);
  c.Return(c.e.Where(c.e.Equal(x, c.e.Number(-kInfinity, x.dtype)), c.e.Number(neg, x.dtype), r));
}

void ScaleBy(LoweringContext& c, double k) { c.Return(c.e.Mul(Self(c), Num(c, k))); }
void Deg2Rad(LoweringContext& c) { ScaleBy(c, M_PI / 180); }
void Rad2Deg(LoweringContext& c) { ScaleBy(c, 180 / M_PI); }
void Ldexp(LoweringContext& c) {
  DType t = c.compute_dtype();
  c.Return(c.e.Mul(Operand(c, "self", t), c.e.Pow(c.e.Number(2, t), Operand(c, "other", t))));
}

void FloatPower(LoweringContext& c) {
  c.Return(c.e.Pow(Operand(c, "self", DType::kFloat64), Operand(c, "exponent", DType::kFloat64)));
}

// dtype conversion. Out-of-range floats to integers are undefined in torch as well.
void ToDtype(LoweringContext& c) {
  V x = c.raw(c.tensor("self"));
  DType to = c.out_dtype();
  if (x.dtype == to) return c.Return(x);
  if (ir::IsIntegral(to) && ir::ByteSize(to) < 4 && ir::IsFloating(x.dtype)) x = c.e.Cast(x, DType::kInt64);
  c.Return(c.e.Cast(x, to));
}

// clang-format off
constexpr Row kElementwiseRows[] = {
    {"aten.abs.default", Abs},
    {"aten.neg.default", Unary<"Neg">},
    {"aten.exp.default", Unary<"Exp">},
    {"aten.log.default", Unary<"Log">},
    {"aten.sqrt.default", Unary<"Sqrt">},
    {"aten.reciprocal.default", Unary<"Reciprocal">},
    {"aten.rsqrt.default", Rsqrt, true},
    {"aten.sin.default", Unary<"Sin">}, {"aten.cos.default", Unary<"Cos">}, {"aten.tan.default", Unary<"Tan">},
    {"aten.asin.default", Unary<"Asin">}, {"aten.acos.default", Unary<"Acos">}, {"aten.atan.default", Unary<"Atan">},
    {"aten.sinh.default", Unary<"Sinh">}, {"aten.cosh.default", Unary<"Cosh">}, {"aten.tanh.default", Unary<"Tanh">},
    {"aten.asinh.default", Unary<"Asinh">}, {"aten.acosh.default", Unary<"Acosh">},
    {"aten.atanh.default", Unary<"Atanh">},
    {"aten.sigmoid.default", Unary<"Sigmoid">}, {"aten.special_expit.default", Unary<"Sigmoid">},
    {"aten.erf.default", Unary<"Erf">}, {"aten.special_erf.default", Unary<"Erf">},
    {"aten.sign.default", Sgn}, {"aten.sgn.default", Sgn},
    {"aten.positive.default", Positive},
    {"aten.ceil.default", FloatOnly<"Ceil">}, {"aten.floor.default", FloatOnly<"Floor">},
    {"aten.round.default", FloatOnly<"Round">}, {"aten.round.decimals", RoundDecimals, true},
    {"aten.trunc.default", Trunc, true}, {"aten.fix.default", Trunc, true}, {"aten.frac.default", Frac, true},
    {"aten.square.default", Square, true}, {"aten.exp2.default", Exp2}, {"aten.special_exp2.default", Exp2},
    {"aten.expm1.default", Expm1, true}, {"aten.special_expm1.default", Expm1, true},
    {"aten.log1p.default", Log1p, true}, {"aten.special_log1p.default", Log1p, true},
    {"aten.log2.default", Log2, true}, {"aten.log10.default", Log10, true},
    {"aten.atan2.default", Atan2, true}, {"aten.hypot.default", Hypot, true},
    {"aten.sinc.default", Sinc, true}, {"aten.special_sinc.default", Sinc, true},
    {"aten.logit.default", Logit, true}, {"aten.special_logit.default", Logit, true},
    {"aten.xlogy.Tensor", Xlogy, true}, {"aten.xlogy.Scalar_Self", Xlogy, true},
    {"aten.xlogy.Scalar_Other", Xlogy, true},
    {"aten.special_xlogy.default", Xlogy, true},
    {"aten.special_xlog1py.default", Xlog1py, true}, {"aten.special_xlog1py.self_scalar", Xlog1py, true},
    {"aten.special_xlog1py.other_scalar", Xlog1py, true},
    {"aten.logaddexp.default", LogAddExp, true}, {"aten.logaddexp2.default", LogAddExp2, true},
    {"aten.signbit.default", SignBit}, {"aten.copysign.Tensor", Copysign}, {"aten.copysign.Scalar", Copysign},
    {"aten.heaviside.default", Heaviside},
    {"aten.isnan.default", IsNan}, {"aten.isinf.default", IsInf}, {"aten.isfinite.default", IsFinite},
    {"aten.isposinf.default", IsPosInf}, {"aten.isneginf.default", IsNegInf},
    {"aten.nan_to_num.default", NanToNum},
    {"aten.deg2rad.default", Deg2Rad, true}, {"aten.rad2deg.default", Rad2Deg, true},
    {"aten.ldexp.Tensor", Ldexp, true},
    {"aten.float_power.Tensor_Tensor", FloatPower}, {"aten.float_power.Tensor_Scalar", FloatPower},
    {"aten.float_power.Scalar", FloatPower},

    {"aten._to_copy.default", ToDtype}, {"aten.to.dtype", ToDtype}, {"aten.to.dtype_layout", ToDtype},
    {"aten.to.device", ToDtype}, {"aten.to.other", ToDtype}, {"aten.to.prim_Device", ToDtype},
    {"aten.type_as.default", ToDtype},
};
// clang-format on

}  // namespace

absl::Span<const Row> ElementwiseRows() { return kElementwiseRows; }

}  // namespace slipway::exporters::onnx_out
