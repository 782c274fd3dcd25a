// Functions and reductions of complex numbers as pairs of reals: elementary functions by formulas that neither overflow
// nor cancel where the result does not (DLMF 4; Kahan, Branch cuts for complex elementary functions), with torch's
// values on branch cuts and at zero; products, variances and norms.
#include <cmath>
#include <limits>
#include <numbers>

#include "base/text.h"
#include "ir/ops/op_table.h"
#include "passes/complex/pairs.h"
#include "passes/float_constants.h"

namespace slipway::passes {
namespace {

using ir::Arg;
using ir::DType;
using ir::IntOrValue;
using ir::Scalar;
using ir::Type;
using ir::Value;
using ir::Values;

// ---- Arithmetic of pairs

Value* Call(ComplexContext& c, const char* op, Value* x) {
  return c.b.Call(text::StrCat("aten.", op, ".default"), {x});
}
Value* Number(ComplexContext& c, double v, Value* like) { return c.b.ScalarTensor(v, like->dtype()); }
Value* Plus(ComplexContext& c, Value* x, double v) { return c.Add(x, Number(c, v, x)); }
Value* By(ComplexContext& c, Value* x, double v) { return c.Mul(x, Number(c, v, x)); }
Value* Square(ComplexContext& c, Value* x) { return c.Mul(x, x); }
Value* Is(ComplexContext& c, const char* comparison, Value* x, double v) {
  return c.b.Call(text::StrCat("aten.", comparison, ".Scalar"), {x, v});
}
Value* Where(ComplexContext& c, Value* condition, Value* x, Value* y) {
  return c.b.Call("aten.where.self", {condition, x, y});
}
Value* Atan2(ComplexContext& c, Value* y, Value* x) { return c.b.Call("aten.atan2.default", {y, x}); }
Value* Size(ComplexContext& c, const Pair& z) {
  return z.im ? c.b.Call("aten.hypot.default", {z.re, z.im}) : Call(c, "abs", z.re);
}
Pair Sum(ComplexContext& c, const Pair& x, const Pair& y) {
  return {c.Add(x.re, y.re), x.im && y.im ? c.Add(x.im, y.im) : x.im || y.im ? c.Add(c.Im(x), c.Im(y)) : nullptr};
}
Pair Difference(ComplexContext& c, const Pair& x, const Pair& y) {
  return Sum(c, x, {c.Neg(y.re), y.im ? c.Neg(y.im) : nullptr});
}
Pair Plus(ComplexContext& c, const Pair& z, double v) { return {Plus(c, z.re, v), z.im}; }
Pair By(ComplexContext& c, const Pair& z, double v) { return {By(c, z.re, v), z.im ? By(c, z.im, v) : nullptr}; }
Pair Opposite(ComplexContext& c, const Pair& z) { return {c.Neg(z.re), z.im ? c.Neg(z.im) : nullptr}; }
Pair TimesI(ComplexContext& c, const Pair& z) { return {c.Neg(c.Im(z)), z.re}; }
Pair OverI(ComplexContext& c, const Pair& z) { return {c.Im(z), c.Neg(z.re)}; }

Value* IsZero(ComplexContext& c, const Pair& z) {
  Value* re = Is(c, "eq", z.re, 0);
  return z.im ? c.b.Call("aten.logical_and.default", {re, Is(c, "eq", z.im, 0)}) : re;
}
// 1/z; of zero torch gives inf + nan i.
Pair Inverse(ComplexContext& c, const Pair& z) {
  Pair q = c.Quotient({Number(c, 1, z.re), nullptr}, z);
  if (!q.im) return q;
  Value* zero = IsZero(c, z);
  return {Where(c, zero, Number(c, kInf, q.re), q.re), Where(c, zero, Number(c, kNan, q.re), q.im)};
}

// ---- Functions of z = a + bi

Pair ComplexExp(ComplexContext& c, const Pair& z) {
  Value *size = Call(c, "exp", z.re), *b = c.Im(z);
  return {c.Mul(size, Call(c, "cos", b)), c.Mul(size, Call(c, "sin", b))};
}
Pair ComplexLog(ComplexContext& c, const Pair& z) { return {Call(c, "log", Size(c, z)), Atan2(c, c.Im(z), z.re)}; }
// Of the half plane to the right, from the part that does not cancel.
Pair Root(ComplexContext& c, const Pair& z) {
  Value* b = c.Im(z);
  Value* larger = Call(c, "sqrt", By(c, c.Add(Call(c, "abs", z.re), Size(c, {z.re, b})), 0.5));
  Value* none = Is(c, "eq", larger, 0);
  Value* smaller = c.Div(b, Where(c, none, Number(c, 1, larger), By(c, larger, 2)));
  Value* right = Is(c, "ge", z.re, 0);
  return {Where(c, right, larger, Call(c, "abs", smaller)),
          Where(c, right, smaller, c.b.Call("aten.copysign.Tensor", {larger, b}))};
}
Pair Rsqrt(ComplexContext& c, const Pair& z) { return Inverse(c, Root(c, z)); }
Pair Exp2(ComplexContext& c, const Pair& z) { return ComplexExp(c, By(c, z, std::numbers::ln2)); }
Pair Log2(ComplexContext& c, const Pair& z) { return By(c, ComplexLog(c, z), std::numbers::log2e); }
Pair Log10(ComplexContext& c, const Pair& z) { return By(c, ComplexLog(c, z), std::numbers::log10e); }
// exp(a) cos b - 1 = expm1(a) cos b - 2 sin(b/2)^2
Pair Expm1(ComplexContext& c, const Pair& z) {
  Value *b = c.Im(z), *half = Call(c, "sin", By(c, b, 0.5));
  return {c.Sub(c.Mul(Call(c, "expm1", z.re), Call(c, "cos", b)), By(c, Square(c, half), 2)),
          c.Mul(Call(c, "exp", z.re), Call(c, "sin", b))};
}
// Near zero log|1 + z| = log1p(a (a + 2) + b^2) / 2.
Pair Log1p(ComplexContext& c, const Pair& z) {
  Pair log = ComplexLog(c, Plus(c, z, 1));
  Value* near = By(c, Call(c, "log1p", c.Add(c.Mul(z.re, Plus(c, z.re, 2)), Square(c, c.Im(z)))), 0.5);
  return {Where(c, Is(c, "lt", Size(c, z), 0.5), near, log.re), log.im};
}
Pair Sinh(ComplexContext& c, const Pair& z) {
  return {c.Mul(Call(c, "sinh", z.re), Call(c, "cos", c.Im(z))), c.Mul(Call(c, "cosh", z.re), Call(c, "sin", c.Im(z)))};
}
Pair Cosh(ComplexContext& c, const Pair& z) {
  return {c.Mul(Call(c, "cosh", z.re), Call(c, "cos", c.Im(z))), c.Mul(Call(c, "sinh", z.re), Call(c, "sin", c.Im(z)))};
}
// (t + i s c (1 - t^2)) / (c^2 + t^2 s^2) with t = tanh a, s = sin b, c = cos b; 1 - t^2 as 1 / cosh(a)^2.
Pair Tanh(ComplexContext& c, const Pair& z) {
  Value *t = Call(c, "tanh", z.re), *s = Call(c, "sin", c.Im(z)), *k = Call(c, "cos", c.Im(z));
  Value* below = c.Add(Square(c, k), Square(c, c.Mul(t, s)));
  Value* cosh = Call(c, "cosh", z.re);
  return {c.Div(t, below), c.Div(c.Div(c.Div(c.Mul(s, k), cosh), cosh), below)};
}
Pair Tan(ComplexContext& c, const Pair& z) { return OverI(c, Tanh(c, TimesI(c, z))); }
// 1 / (1 + exp(-z)), or exp(z) / (1 + exp(z)) to the left: exp of what is not positive.
Pair Sigmoid(ComplexContext& c, const Pair& z) {
  Value* left = Is(c, "lt", z.re, 0);
  Value* b = c.Im(z);
  Pair e = ComplexExp(c, {c.Neg(Call(c, "abs", z.re)), Where(c, left, b, c.Neg(b))});
  Pair top = {Where(c, left, e.re, Number(c, 1, e.re)), Where(c, left, e.im, Number(c, 0, e.im))};
  return c.Quotient(top, Plus(c, e, 1));
}
Pair Silu(ComplexContext& c, const Pair& z) { return c.Times(z, Sigmoid(c, z)); }
Pair Asin(ComplexContext& c, const Pair& z) {
  Pair a = Root(c, Plus(c, Opposite(c, z), 1)), b = Root(c, Plus(c, z, 1));
  return {Atan2(c, z.re, c.Sub(c.Mul(a.re, b.re), c.Mul(a.im, b.im))),
          Call(c, "asinh", c.Sub(c.Mul(a.re, b.im), c.Mul(a.im, b.re)))};
}
Pair Acos(ComplexContext& c, const Pair& z) {
  Pair a = Root(c, Plus(c, Opposite(c, z), 1)), b = Root(c, Plus(c, z, 1));
  return {By(c, Atan2(c, a.re, b.re), 2), Call(c, "asinh", c.Sub(c.Mul(b.re, a.im), c.Mul(b.im, a.re)))};
}
Pair Acosh(ComplexContext& c, const Pair& z) {
  Pair a = Root(c, Plus(c, z, -1)), b = Root(c, Plus(c, z, 1));
  return {Call(c, "asinh", c.Add(c.Mul(a.re, b.re), c.Mul(a.im, b.im))), By(c, Atan2(c, a.im, b.re), 2)};
}
Pair Asinh(ComplexContext& c, const Pair& z) { return TimesI(c, Asin(c, OverI(c, z))); }
Pair Atanh(ComplexContext& c, const Pair& z) {
  Value *a = Call(c, "abs", z.re), *b = c.Im(z), *bb = Square(c, b), *rest = Plus(c, c.Neg(a), 1);
  Value* re =
      c.Mul(Call(c, "sign", z.re), By(c, Call(c, "log1p", c.Div(By(c, a, 4), c.Add(Square(c, rest), bb))), 0.25));
  return {re, By(c, Atan2(c, By(c, b, 2), c.Sub(c.Mul(rest, Plus(c, a, 1)), bb)), 0.5)};
}
Pair Atan(ComplexContext& c, const Pair& z) { return OverI(c, Atanh(c, TimesI(c, z))); }
// sin(pi z) / (pi z), 1 at 0.
Pair Sinc(ComplexContext& c, const Pair& z) {
  Pair p = By(c, z, std::numbers::pi);
  Pair sine = OverI(c, Sinh(c, TimesI(c, p)));
  Value* zero = IsZero(c, p);
  Value* one = Number(c, 1, p.re);
  Pair q = c.Quotient(sine, {Where(c, zero, one, p.re), c.Im(p)});
  return {Where(c, zero, one, q.re), Where(c, zero, Number(c, 0, p.re), q.im)};
}

template <Pair (*kFunction)(ComplexContext&, const Pair&)>
void Function(ComplexContext& c) {
  c.Return(kFunction(c, c.in("self")));
}

// ---- Powers

// exp(w log z); of 0 it is 0 where w has a positive real part, infinite where that is negative, else nothing.
Pair GeneralPower(ComplexContext& c, const Pair& z, const Pair& w) {
  Pair p = ComplexExp(c, c.Times(w, ComplexLog(c, z)));
  Value* zero = IsZero(c, z);
  Value *nothing = Number(c, kNan, p.re), *null = Number(c, 0, p.re), *up = Is(c, "gt", w.re, 0);
  return {Where(c, zero, Where(c, up, null, Where(c, Is(c, "lt", w.re, 0), Number(c, kInf, p.re), nothing)), p.re),
          Where(c, zero, Where(c, up, null, nothing), p.im)};
}
constexpr int kMaxProducts = 8;  // of one number by itself
void PowScalar(ComplexContext& c) {
  const Scalar e = c.scalar("exponent");
  Pair z = c.Operand("self", c.real());
  if (!e.is_constant()) return c.Unsupported("an exponent that is known at run time only");
  const std::complex<double> w = e.kind == Scalar::kComplex ? e.c : std::complex<double>(e.d, 0);
  if (w.imag() == 0) {
    const double k = std::fabs(w.real());
    if (k == 0) return c.Return(Pair{c.b.Call("aten.ones_like.default", {z.re}), nullptr});
    if (w.real() == 0.5) return c.Return(Root(c, z));
    if (w.real() == -0.5) return c.Return(Rsqrt(c, z));
    if (k <= kMaxProducts && k == std::floor(k)) {
      Pair y = z;
      for (int i = 1; i < static_cast<int>(k); ++i) y = c.Times(y, z);
      return c.Return(w.real() < 0 ? Inverse(c, y) : y);
    }
  }
  c.Return(GeneralPower(c, z, {Number(c, w.real(), z.re), Number(c, w.imag(), z.re)}));
}
void Pow(ComplexContext& c) { c.Return(GeneralPower(c, c.Operand("self", c.real()), c.Operand("exponent", c.real()))); }
void FloatPower(ComplexContext& c) {
  auto wide = [&](Pair p) { return Pair{c.b.Cast(p.re, c.real()), p.im ? c.b.Cast(p.im, c.real()) : nullptr}; };
  c.Return(GeneralPower(c, wide(c.Operand("self", c.real())), wide(c.Operand("exponent", c.real()))));
}

// ---- Of three operands

template <bool kDivide>
void AddC(ComplexContext& c) {
  Pair x = c.in("tensor1"), y = c.in("tensor2");
  c.Return(Sum(c, c.in("self"), c.Times(c.Operand("value", c.real()), kDivide ? c.Quotient(x, y) : c.Times(x, y))));
}
void Lerp(ComplexContext& c) {
  Pair x = c.in("self");
  c.Return(Sum(c, x, c.Times(c.Operand("weight", c.real()), Difference(c, c.in("end"), x))));
}
void Rsub(ComplexContext& c) {
  c.Return(
      Difference(c, c.Operand("other", c.real()), c.Times(c.Operand("self", c.real()), c.Operand("alpha", c.real()))));
}

// log(exp(x) + exp(y)), the one of the larger real part in front: the imaginary part goes on from that one's.
void LogAddExp(ComplexContext& c) {
  Pair x = c.in("self"), y = c.in("other");
  Value* first = c.b.Call("aten.ge.Tensor", {x.re, y.re});
  auto pick = [&](const Pair& p, const Pair& q) {
    return Pair{Where(c, first, p.re, q.re), Where(c, first, c.Im(p), c.Im(q))};
  };
  const Pair larger = pick(x, y);
  c.Return(Sum(c, larger, Log1p(c, ComplexExp(c, Difference(c, pick(y, x), larger)))));
}

// ---- Reductions

// The node's operator again, its first argument another.
Value* Again(ComplexContext& c, Value* first, std::string_view op_name = {}) {
  const ir::OpDef& op = c.node().op();
  std::vector<Arg> args = {first};
  for (size_t i = 1; i < op.args.size(); ++i) {
    const DType* d = c.node().Get(op.args[i].name).get<DType>();
    args.push_back(d && ir::IsComplex(*d) ? Arg(ir::ToReal(*d)) : c.node().Get(op.args[i].name));
  }
  return c.b.Call(op_name.empty() ? std::string_view(op.name) : op_name, std::move(args));
}
// What only depends on |z|: norms of vectors.
void OfSize(ComplexContext& c) { c.Return(Again(c, Size(c, c.in("self")))); }
void MatrixNorm(ComplexContext& c) {
  const Arg* ord = c.node().Find("ord");
  const Scalar order = ord && !ord->is_none() && !ord->get<std::string>() ? c.scalar("ord") : Scalar();
  const bool singular = (ord && ord->get<std::string>() && *ord->get<std::string>() == "nuc") ||
                        (order.is_constant() && std::fabs(order.d) == 2);
  if (singular && !(c.node().op().base == "linalg_norm" && c.in("self").re->rank() == 1))
    return c.Unsupported("norms by singular values");
  const char* self = c.node().op().args[0].name.c_str();
  c.Return(Again(c, Size(c, c.in(self))));
}
void Dist(ComplexContext& c) {
  Value* size = Size(c, Difference(c, c.in("self"), c.in("other")));
  c.Return(c.b.Call("aten.norm.Scalar", {size, c.node().Get("p")}));
}
// x of a x = b, and the inverse: of the real matrix [[re, -im], [im, re]].
Value* Blocks(ComplexContext& c, const Pair& a) {
  Value* im = c.Im(a);
  Value* above = c.b.Call("aten.cat.default", {Values{a.re, c.Neg(im)}, -1});
  return c.b.Call("aten.cat.default", {Values{above, c.b.Call("aten.cat.default", {Values{im, a.re}, -1})}, -2});
}
Value* Part(ComplexContext& c, Value* x, int dim, IntOrValue n, bool second) {
  return c.b.Call("aten.slice.Tensor", {x, dim, second ? Arg(n) : Arg(0), second ? Arg() : Arg(n)});
}
void Solve(ComplexContext& c) {
  Pair a = c.in("A"), b = c.in("B");
  if (!c.flag("left")) return c.Unsupported("x a = b of complex numbers");
  const int vector = b.re->rank() == 1 && a.re->rank() == 2;
  if (!vector && b.re->rank() != a.re->rank()) return c.Unsupported("a right side of another rank");
  const int dim = vector ? -1 : -2;
  Value* x =
      c.b.Call("aten.linalg_solve.default", {Blocks(c, a), c.b.Call("aten.cat.default", {Values{b.re, c.Im(b)}, dim})});
  const IntOrValue n = c.b.Size(b.re, b.re->rank() + dim);
  c.Return({Part(c, x, dim, n, false), Part(c, x, dim, n, true)});
}
void Inv(ComplexContext& c) {
  Pair a = c.in(c.node().op().args[0].name);
  if (a.re->rank() < 2) return c.Fail("of less than 2 dims");
  const IntOrValue n = c.b.Size(a.re, a.re->rank() - 1);
  Value* x = Part(c, c.b.Call("aten.linalg_inv.default", {Blocks(c, a)}), -1, n, false);
  c.Return({Part(c, x, -2, n, false), Part(c, x, -2, n, true)});
}

// What only depends on which numbers are zero.
Value* NonZero(ComplexContext& c, const Pair& z) {
  Value* re = Is(c, "ne", z.re, 0);
  return z.im ? c.b.Call("aten.logical_or.default", {re, Is(c, "ne", z.im, 0)}) : re;
}
void OfNonZero(ComplexContext& c) { c.Return(Again(c, NonZero(c, c.in("self")))); }
void OfTwoNonZero(ComplexContext& c) {
  c.Return(c.b.Call(c.node().op_name(), {NonZero(c, c.in("self")), NonZero(c, c.in("other"))}));
}
// The variances of both parts, added up.
template <bool kRoot, bool kMean>
void Variance(ComplexContext& c) {
  Pair x = c.in("self");
  const std::string op = text::StrCat("aten.var.", c.node().op().overload);
  Value* v = c.Add(Again(c, x.re, op), Again(c, c.Im(x), op));
  if (kRoot) v = Call(c, "sqrt", v);
  c.Return(v);
  if (!kMean || c.node().outputs().size() < 2 || !c.node().output(1)) return;
  auto mean = [&](Value* part) {
    const ir::OpDef& own = c.node().op();
    if (own.ArgIndex("dim") < 0 || !c.has("dim")) {
      Value* all = Call(c, "mean", part);
      if (own.ArgIndex("keepdim") < 0 || !c.flag("keepdim")) return all;
      return c.b.Call("aten.reshape.default", {all, ir::Ints(static_cast<size_t>(part->rank()), 1)});
    }
    return c.b.Call("aten.mean.dim",
                    {part, c.node().Get("dim"), own.ArgIndex("keepdim") >= 0 ? Arg(c.flag("keepdim")) : Arg(false)});
  };
  c.ReturnAt(1, {mean(x.re), x.im ? mean(x.im) : nullptr});
}

// Products along a dim, every one of them: slipway.complex_cumprod.
Pair RunningProduct(ComplexContext& c, const Pair& z, int dim) {
  const Type type = Type::Tensor(z.re->dtype(), z.re->sizes());
  Values y = c.b.CallTyped("slipway.complex_cumprod.default", {z.re, c.Im(z), dim}, {}, {type, type});
  return {y[0], y[1]};
}
Pair Floating(ComplexContext& c, const Pair& z) {
  return {c.b.Cast(z.re, c.real()), z.im ? c.b.Cast(z.im, c.real()) : nullptr};
}
void Cumprod(ComplexContext& c) {
  Pair z = Floating(c, c.in("self"));
  c.Return(z.re->rank() == 0 ? z : RunningProduct(c, z, c.dim("dim", z.re->rank())));
}
Pair Product(ComplexContext& c, Pair z, int dim) {
  constexpr int64_t kMaxHalvings = 4096;  // elements
  auto each = [&](const Pair& p, auto&& f) { return Pair{f(p.re), p.im ? f(p.im) : nullptr}; };
  auto cut = [&](const Pair& p, int64_t from, std::optional<int64_t> to, int64_t step) {
    return each(p,
                [&](Value* v) { return c.b.Call("aten.slice.Tensor", {v, dim, from, to ? Arg(*to) : Arg(), step}); });
  };
  auto n = z.re->sizes()[dim].constant();
  if (n && *n >= 1 && *n <= kMaxHalvings) {  // pairs of neighbours, then pairs of those
    while (*n > 1) {
      const int64_t even = *n / 2 * 2;
      Pair halved = c.Times(cut(z, 0, even, 2), cut(z, 1, even, 2));
      if (*n % 2) {
        Pair last = cut(z, even, std::nullopt, 1);
        halved = {c.b.Call("aten.cat.default", {Values{halved.re, last.re}, dim}),
                  halved.im ? c.b.Call("aten.cat.default", {Values{halved.im, c.Im(last)}, dim}) : nullptr};
      }
      z = halved, n = (*n + 1) / 2;
    }
    return z;
  }
  ir::SymInts one = c.b.SizesOf(z.re);
  one[static_cast<size_t>(dim)] = 1;
  auto after = [&](Value* v, double first) {
    return c.b.Call("aten.cat.default", {Values{c.b.Full(one, first, v->dtype()), v}, dim});
  };
  z = RunningProduct(c, {after(z.re, 1), after(c.Im(z), 0)}, dim);
  return cut(z, -1, std::nullopt, 1);
}
void Prod(ComplexContext& c) {
  Pair z = Floating(c, c.in("self"));
  const bool all = c.node().op().ArgIndex("dim") < 0;
  if (z.re->rank() == 0) return c.Return(z);
  auto each = [&](const char* op, std::vector<Arg> args) {
    auto f = [&](Value* v) {
      if (!v) return v;
      args[0] = v;
      return c.b.Call(op, args);
    };
    z = {f(z.re), f(z.im)};
  };
  if (all) each("aten.reshape.default", {Arg(), ir::Ints{-1}});
  const int dim = all ? 0 : c.dim("dim", z.re->rank());
  z = Product(c, z, dim);
  if (all || !c.flag("keepdim")) each("aten.squeeze.dim", {Arg(), dim});
  c.Return(z);
}
void LogSumExp(ComplexContext& c) {
  Pair z = c.in("self");
  const std::vector<int> dims = c.dims("dim", z.re->rank());
  const ir::Ints over(dims.begin(), dims.end());
  Value* most = c.b.Call("aten.amax.default", {z.re, over, true});
  most = Where(c, Call(c, "isfinite", most), most, Number(c, 0, most));
  Pair e = ComplexExp(c, {c.Sub(z.re, most), c.Im(z)});
  auto sum = [&](Value* v) { return c.b.Call("aten.sum.dim_IntList", {v, over, true}); };
  Pair log = ComplexLog(c, {sum(e.re), sum(e.im)});
  log.re = c.Add(log.re, most);
  if (!c.flag("keepdim") && !over.empty()) {
    auto squeezed = [&](Value* v) { return c.b.Call("aten.squeeze.dims", {v, over}); };
    log = {squeezed(log.re), squeezed(log.im)};
  }
  c.Return(log);
}

// clang-format off
constexpr ComplexRule kFunctionRules[] = {
    {"aten.rsqrt", Function<Rsqrt>}, {"aten.reciprocal", Function<Inverse>}, {"aten.logaddexp", LogAddExp},
    {"aten.linalg_solve", Solve},
    {"aten.linalg_inv", Inv}, {"aten.inverse", Inv}, {"aten.exp2", Function<Exp2>},
    {"aten.special_exp2", Function<Exp2>}, {"aten.log2", Function<Log2>},
    {"aten.log10", Function<Log10>}, {"aten.expm1", Function<Expm1>}, {"aten.special_expm1", Function<Expm1>},
    {"aten.log1p", Function<Log1p>},
    {"aten.special_log1p", Function<Log1p>}, {"aten.sinh", Function<Sinh>}, {"aten.cosh", Function<Cosh>},
    {"aten.tanh", Function<Tanh>},
    {"aten.tan", Function<Tan>}, {"aten.sigmoid", Function<Sigmoid>}, {"aten.special_expit", Function<Sigmoid>},
    {"aten.silu", Function<Silu>},
    {"aten.asin", Function<Asin>}, {"aten.arcsin", Function<Asin>},
    {"aten.acos", Function<Acos>}, {"aten.arccos", Function<Acos>}, {"aten.atan", Function<Atan>},
    {"aten.arctan", Function<Atan>},
    {"aten.asinh", Function<Asinh>}, {"aten.arcsinh", Function<Asinh>}, {"aten.acosh", Function<Acosh>},
    {"aten.arccosh", Function<Acosh>},
    {"aten.atanh", Function<Atanh>}, {"aten.arctanh", Function<Atanh>}, {"aten.sinc", Function<Sinc>},
    {"aten.special_sinc", Function<Sinc>},
    {"aten.pow.Tensor_Scalar", PowScalar}, {"aten.pow.Tensor_Tensor", Pow}, {"aten.pow.Scalar", Pow},
    {"aten.float_power", FloatPower},
    {"aten.addcmul", AddC<false>}, {"aten.addcdiv", AddC<true>}, {"aten.lerp", Lerp}, {"aten.rsub", Rsub},
    {"aten.linalg_vector_norm", OfSize}, {"aten.norm", OfSize}, {"aten.frobenius_norm", OfSize},
    {"aten.linalg_norm", MatrixNorm},
    {"aten.linalg_matrix_norm", MatrixNorm}, {"aten.dist", Dist}, {"aten.any", OfNonZero}, {"aten.all", OfNonZero},
    {"aten.count_nonzero", OfNonZero}, {"aten.nonzero", OfNonZero}, {"aten.argwhere", OfNonZero},
    {"aten.logical_not", OfNonZero},
    {"aten.logical_and", OfTwoNonZero}, {"aten.logical_or", OfTwoNonZero}, {"aten.logical_xor", OfTwoNonZero},
    {"aten.var", Variance<false, false>}, {"aten.std", Variance<true, false>}, {"aten.var_mean", Variance<false, true>},
    {"aten.std_mean", Variance<true, true>}, {"aten.prod", Prod}, {"aten.cumprod", Cumprod},
    {"aten.logsumexp", LogSumExp},
    {"aten.special_logsumexp", LogSumExp},
};
// clang-format on

}  // namespace

absl::Span<const ComplexRule> ComplexFunctionRules() { return kFunctionRules; }

}  // namespace slipway::passes
