// Operators of Expr as ATen nodes. Numbers beside tensors are converted so that no operand is promoted by accident.
#include "passes/decompositions/special/expression.h"

#include "base/text.h"
#include "passes/decompositions/loop_builder.h"

namespace slipway::passes {
namespace {

Expr Tensor(std::string_view op, Expr x, Expr y) {
  return {x.b, x.b->Call(text::StrCat("aten.", op, ".Tensor"), {x.v, y.v})};
}
// A number beside a tensor of t: integers stay integers.
Arg NumberFor(DType t, double y) { return ir::IsFloating(t) ? Arg(y) : Arg(static_cast<int64_t>(y)); }
Expr Scalar(std::string_view op, Expr x, double y) {
  return {x.b, x.b->Call(text::StrCat("aten.", op, ".Scalar"), {x.v, NumberFor(x.dtype(), y)})};
}

}  // namespace

Expr Expr::Call(std::string_view op, std::vector<Arg> more) const {
  more.insert(more.begin(), v);
  return {b, b->Call(text::StrCat("aten.", op, ".default"), std::move(more))};
}
Expr Expr::Like(double number) const { return {b, b->ScalarTensor(NumberFor(dtype(), number), dtype())}; }

Expr operator+(Expr x, Expr y) { return Tensor("add", x, y); }
Expr operator+(Expr x, double y) { return Scalar("add", x, y); }
Expr operator-(Expr x, Expr y) { return Tensor("sub", x, y); }
Expr operator-(Expr x, double y) { return Scalar("sub", x, y); }
Expr operator-(double x, Expr y) { return Scalar("rsub", y, x); }
Expr operator-(Expr x) { return x.Call("neg"); }
Expr operator*(Expr x, Expr y) { return Tensor("mul", x, y); }
Expr operator*(Expr x, double y) { return Scalar("mul", x, y); }
Expr operator/(Expr x, Expr y) { return Tensor("div", x, y); }
Expr operator/(Expr x, double y) { return Scalar("div", x, y); }
Expr operator/(double x, Expr y) { return x == 1 ? y.Call("reciprocal") : y.Like(x) / y; }
Expr operator<(Expr x, Expr y) { return Tensor("lt", x, y); }
Expr operator<(Expr x, double y) { return Scalar("lt", x, y); }
Expr operator>(Expr x, double y) { return Scalar("gt", x, y); }
Expr operator<=(Expr x, double y) { return Scalar("le", x, y); }
Expr operator>=(Expr x, double y) { return Scalar("ge", x, y); }
Expr Equal(Expr x, Expr y) { return Tensor("eq", x, y); }
Expr Equal(Expr x, double y) { return Scalar("eq", x, y); }
Expr operator&(Expr x, Expr y) { return x.Call("logical_and", {y.v}); }
Expr operator|(Expr x, Expr y) { return x.Call("logical_or", {y.v}); }
Expr operator!(Expr x) { return x.Call("logical_not"); }
Expr Where(Expr c, Expr x, Expr y) { return {c.b, c.b->Call("aten.where.self", {c.v, x.v, y.v})}; }
Expr Where(Expr c, Expr x, double y) { return Where(c, x, x.Like(y)); }
Expr Where(Expr c, double x, Expr y) { return Where(c, y.Like(x), y); }
Expr Pow(Expr x, double y) { return {x.b, x.b->Call("aten.pow.Tensor_Scalar", {x.v, y})}; }
Expr Pow(Expr x, Expr y) { return {x.b, x.b->Call("aten.pow.Tensor_Tensor", {x.v, y.v})}; }
Expr Pow(double x, Expr y) { return Pow(y.Like(x), y); }

Expr Horner(absl::Span<const double> terms, Expr t) {
  if (terms.size() == 1) return t * 0.0 + terms[0];
  Expr sum = t * terms[0] + terms[1];
  for (double term : terms.subspan(2)) sum = sum * t + term;
  return sum;
}
Expr Eval(const Fit& fit, Expr u) {
  const double width = fit.high - fit.low, middle = fit.high + fit.low;
  if (width == 2 && middle == 0) return Horner(fit.terms, u);
  return Horner(fit.terms, u * (2 / width) - middle / width);
}

Expr NarrowInput(Decomposer& d, std::string_view name) {
  const DType t = d.compute_dtype();
  const Arg& a = d.node().Get(name);
  if (Value* v = a.value(); v && v->type().is_tensor()) return {&d.b, d.b.Cast(d.in(name), t)};
  return {&d.b, d.b.ScalarTensor(a, t)};
}
Expr Input(Decomposer& d, std::string_view name) { return NarrowInput(d, name).Cast(DType::kFloat64); }
void Result(Decomposer& d, Expr x) { d.Return(d.b.Cast(x.v, d.compute_dtype())); }

Exprs While(ir::Builder& b, const Exprs& carried, const Exprs& captured, const std::function<Expr(const Exprs&)>& again,
            const std::function<Exprs(const Exprs&)>& step) {
  Exprs all = carried;
  all.insert(all.end(), captured.begin(), captured.end());
  Values start = {again(all).v};
  for (const Expr& e : carried) start.push_back(e.v);
  Values end = WhileLoop(b, start, [&](ir::Graph& body, const Values& inputs, Captures& in) {
    ir::Builder inner(body, nullptr, b.before() ? b.before()->source() : nullptr);
    Exprs now, outer;
    for (size_t k = 1; k < inputs.size(); ++k) now.push_back({&inner, inputs[k]});
    for (const Expr& e : captured) outer.push_back({&inner, in(e.v)});
    now.insert(now.end(), outer.begin(), outer.end());
    Exprs next = step(now);
    Values out;
    for (const Expr& e : next) out.push_back(e.v);
    next.insert(next.end(), outer.begin(), outer.end());
    out.insert(out.begin(), again(next).v);
    b.SetStatus(inner.status());
    return out;
  });
  Exprs out;
  for (size_t k = 1; k < end.size(); ++k) out.push_back({&b, end[k]});
  return out;
}

std::pair<Expr, Expr> Broadcast(Expr x, Expr y) {
  Values both = x.b->CallMulti("aten.broadcast_tensors.default", {Values{x.v, y.v}});
  return {{x.b, both[0]}, {x.b, both[1]}};
}

}  // namespace slipway::passes
