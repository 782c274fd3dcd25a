// Elementwise arithmetic written as formulas: what decompositions of special functions are made of.
//
//   Expr x = Input(d, "self");
//   Result(d, Where(x < 0.0, Exp(x) * 2.0, 1.0 / x));
//
// Special functions are computed in binary64 whatever the operand's type: their formulas cancel and overflow on the
// way, and one rounding at the end is what a library function of the narrow type gives.
#ifndef SLIPWAY_PASSES_DECOMPOSITIONS_SPECIAL_EXPRESSION_H_
#define SLIPWAY_PASSES_DECOMPOSITIONS_SPECIAL_EXPRESSION_H_

#include <functional>
#include <string_view>

#include "absl/types/span.h"
#include "ir/ops/op_table.h"
#include "passes/decompose.h"
#include "passes/decompositions/special/tables.h"

namespace slipway::passes {

// A tensor and the builder that writes what is computed from it. Not owned; valid while the builder is.
struct Expr {
  ir::Builder* b = nullptr;
  Value* v = nullptr;

  DType dtype() const { return v->dtype(); }
  Expr Call(std::string_view op, std::vector<Arg> more = {}) const;  // "exp" -> aten.exp.default
  Expr Cast(DType t) const { return {b, b->Cast(v, t)}; }
  Expr Like(double number) const;  // a 0-d tensor of this dtype
};

Expr operator+(Expr x, Expr y);
Expr operator+(Expr x, double y);
Expr operator-(Expr x, Expr y);
Expr operator-(Expr x, double y);
Expr operator-(double x, Expr y);
Expr operator-(Expr x);
Expr operator*(Expr x, Expr y);
Expr operator*(Expr x, double y);
Expr operator/(Expr x, Expr y);
Expr operator/(Expr x, double y);
Expr operator/(double x, Expr y);
inline Expr operator+(double x, Expr y) { return y + x; }
inline Expr operator*(double x, Expr y) { return y * x; }
// Comparisons and logic give bool tensors.
Expr operator<(Expr x, Expr y);
Expr operator<(Expr x, double y);
Expr operator>(Expr x, double y);
Expr operator<=(Expr x, double y);
Expr operator>=(Expr x, double y);
Expr Equal(Expr x, Expr y);
Expr Equal(Expr x, double y);
Expr operator&(Expr x, Expr y);
Expr operator|(Expr x, Expr y);
Expr operator!(Expr x);
Expr Where(Expr c, Expr x, Expr y);
Expr Where(Expr c, Expr x, double y);
Expr Where(Expr c, double x, Expr y);

inline Expr Exp(Expr x) { return x.Call("exp"); }
inline Expr Log(Expr x) { return x.Call("log"); }
inline Expr Log1p(Expr x) { return x.Call("log1p"); }
inline Expr Expm1(Expr x) { return x.Call("expm1"); }
inline Expr Sqrt(Expr x) { return x.Call("sqrt"); }
inline Expr Sin(Expr x) { return x.Call("sin"); }
inline Expr Cos(Expr x) { return x.Call("cos"); }
inline Expr Abs(Expr x) { return x.Call("abs"); }
inline Expr Sign(Expr x) { return x.Call("sign"); }
inline Expr Floor(Expr x) { return x.Call("floor"); }
inline Expr Round(Expr x) { return x.Call("round"); }
inline Expr IsNan(Expr x) { return x.Call("isnan"); }
inline Expr IsInf(Expr x) { return x.Call("isinf"); }
Expr Pow(Expr x, double y);
Expr Pow(Expr x, Expr y);
Expr Pow(double x, Expr y);

// The polynomial with these coefficients, highest power first, at t.
Expr Horner(absl::Span<const double> terms, Expr t);
// The fit at u.
Expr Eval(const Fit& fit, Expr u);

// An argument, tensor or number, as torch promotes it for the node's first result and from there in binary64.
Expr Input(Decomposer& d, std::string_view name);
inline Expr Input(Decomposer& d) { return Input(d, d.node().op().args[0].name); }
// The same in the type torch computes in: f32 for f16 and bf16.
Expr NarrowInput(Decomposer& d, std::string_view name);
// Makes x the node's result, in its type.
void Result(Decomposer& d, Expr x);

// Repeats `step` while `again` holds (checked first). Both get the carried values, then the captured ones; `step` gives
// the next carried values, whose types must stay the same, `again` a 0-d bool tensor.
using Exprs = std::vector<Expr>;
Exprs While(ir::Builder& b, const Exprs& carried, const Exprs& captured, const std::function<Expr(const Exprs&)>& again,
            const std::function<Exprs(const Exprs&)>& step);
// x and y in the shape they broadcast to.
std::pair<Expr, Expr> Broadcast(Expr x, Expr y);

}  // namespace slipway::passes

#endif  // SLIPWAY_PASSES_DECOMPOSITIONS_SPECIAL_EXPRESSION_H_
