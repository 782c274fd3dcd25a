// Construction, arithmetic, comparisons and products of complex numbers as pairs of reals, a rule for each operator.
#include <complex>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "ir/ops/op_table.h"
#include "ir/ops/rule.h"
#include "passes/complex/pairs.h"
#include "passes/decompose.h"
#include "passes/pass.h"

namespace slipway::passes {

using ir::Arg;
using ir::DType;
using ir::Scalar;
using ir::Type;
using ir::Value;
using ir::Values;

Pair ComplexContext::Of(Value* v) {
  if (auto it = pairs_.find(v); it != pairs_.end()) return it->second;
  if (ir::IsComplex(v->dtype())) {
    Unsupported(text::StrCat("complex value %", v->name(), " has no parts"));
    return {v, nullptr};
  }
  return {v, nullptr};
}

Pair ComplexContext::Operand(std::string_view name, DType real) {
  if (const Arg* a = node_.Find(name); a && a->value() && a->value()->type().is_tensor()) return Of(a->value());
  const Scalar s = scalar(name);
  if (s.kind == Scalar::kComplex) return {b.ScalarTensor(s.c.real(), real), b.ScalarTensor(s.c.imag(), real)};
  return {s.value ? b.ScalarTensor(s.value, real) : b.ScalarTensor(s.d, real), nullptr};
}

Value* ComplexContext::Im(const Pair& p) { return p.im ? p.im : b.Call("aten.zeros_like.default", {p.re}); }

Pair ComplexContext::Times(const Pair& x, const Pair& y) {
  if (!x.im && !y.im) return {Mul(x.re, y.re), nullptr};
  if (!x.im) return {Mul(x.re, y.re), Mul(x.re, y.im)};
  if (!y.im) return {Mul(x.re, y.re), Mul(x.im, y.re)};
  // A statement each: every compiler adds the nodes in this order.
  Value* ends = Mul(x.im, y.im);
  Value* re = Sub(Mul(x.re, y.re), ends);
  Value* inner = Mul(x.im, y.re);
  return {re, Add(Mul(x.re, y.im), inner)};
}

// (a+bi)/(c+di) with the divisor scaled to magnitude about 1, so that its square neither overflows nor vanishes.
Pair ComplexContext::Quotient(const Pair& x, const Pair& y) {
  if (!y.im) return {Div(x.re, y.re), x.im ? Div(x.im, y.re) : nullptr};
  Value* scale =
      b.Call("aten.maximum.default", {b.Call("aten.abs.default", {y.re}), b.Call("aten.abs.default", {y.im})});
  Pair s{Div(y.re, scale), Div(y.im, scale)};
  Value* norm = Mul(Add(Mul(s.re, s.re), Mul(s.im, s.im)), scale);
  Pair top = Times(x, {s.re, Neg(s.im)});
  return {Div(top.re, norm), Div(top.im, norm)};
}

namespace {

void ViewAsComplex(ComplexContext& c) {
  Value* x = c.tensor("self");
  c.Return({c.b.Call("aten.select.int", {x, -1, 0}), c.b.Call("aten.select.int", {x, -1, 1})});
}

void ViewAsReal(ComplexContext& c) {
  Pair x = c.in("self");
  c.Return(c.b.Call("aten.stack.default", {Values{x.re, c.Im(x)}, -1}));
}

void Real(ComplexContext& c) { c.Return(c.in("self").re); }
void Imag(ComplexContext& c) { c.Return(c.Im(c.in("self"))); }
void MakeComplex(ComplexContext& c) {
  Values parts = {c.tensor("real"), c.tensor("imag")};
  parts = c.b.CallMulti("aten.broadcast_tensors.default", {parts});
  if (c.b.ok()) c.Return({parts[0], parts[1]});
}

void Polar(ComplexContext& c) {
  Value *r = c.tensor("abs"), *angle = c.tensor("angle");
  c.Return({c.Mul(r, c.b.Call("aten.cos.default", {angle})), c.Mul(r, c.b.Call("aten.sin.default", {angle}))});
}

// To a complex dtype from any, or to a real one (which drops the imaginary part, as torch does with a warning).
void Convert(ComplexContext& c) {
  Pair x = c.in("self");
  const DType to = c.node().output()->dtype();
  if (ir::IsBool(to) && x.im) {
    return c.Return(c.b.Call("aten.logical_or.default",
                             {c.b.Call("aten.ne.Scalar", {x.re, 0}), c.b.Call("aten.ne.Scalar", {x.im, 0})}));
  }
  if (!ir::IsComplex(to)) return c.Return(c.b.Cast(x.re, to));
  c.Return({c.b.Cast(x.re, ir::ToReal(to)), x.im ? c.b.Cast(x.im, ir::ToReal(to)) : nullptr});
}

void Conj(ComplexContext& c) { c.Return(c.Conj(c.in("self"))); }
// The conjugate transpose of the last two dimensions.
void Adjoint(ComplexContext& c) {
  Pair x = c.Conj(c.in("self"));
  auto turned = [&](Value* v) { return v && v->rank() > 1 ? c.b.Call("aten.transpose.int", {v, -1, -2}) : v; };
  c.Return({turned(x.re), turned(x.im)});
}

void Same(ComplexContext& c) { c.Return(c.in("self")); }
void Fill(ComplexContext& c) {
  const Scalar s = c.scalar("fill_value");
  const ir::SymInts size = c.sym_ints("size");
  if (!s.is_constant()) return c.Unsupported("a complex fill of symbolic value");
  auto full = [&](double v) { return c.b.Full(size, v, c.real()); };
  if (s.kind == Scalar::kComplex)
    c.Return({full(s.c.real()), full(s.c.imag())});
  else
    c.Return(full(s.d));
}

// Of `self`'s or the stated size, by the argument "value", "fill_value" or nothing.
void FillOf(ComplexContext& c) {
  const ir::OpDef& op = c.node().op();
  const char* name = op.ArgIndex("fill_value") >= 0 ? "fill_value" : "value";
  const Pair p = c.Operand(name, c.real());
  const ir::SymInts size = op.ArgIndex("size") >= 0 ? c.sym_ints("size") : c.b.SizesOf(c.in("self").re);
  auto spread = [&](Value* v) { return c.b.Call("aten.expand.default", {c.b.Cast(v, c.real()), Arg(size)}); };
  c.Return({spread(p.re), p.im ? spread(p.im) : nullptr});
}

void ScalarOf(ComplexContext& c) { c.Return(c.Operand("s", c.real())); }
void MaskedFill(ComplexContext& c) {
  const Pair x = c.in("self"), value = c.Operand("value", c.real());
  Value* mask = c.tensor("mask");
  auto fill = [&](Value* v, Value* by) { return c.b.Call("aten.where.self", {mask, by, v}); };
  c.Return({fill(x.re, value.re), x.im || value.im ? fill(c.Im(x), c.Im(value)) : nullptr});
}

// The node on each part, with that part of its "value".
void ByValue(ComplexContext& c) {
  const ir::OpDef& op = c.node().op();
  const Pair x = c.in("self");
  const Arg& given = c.node().Get("value");
  Pair tensor;
  std::complex<double> number;
  if (given.value() && given.value()->type().is_tensor()) {
    tensor = c.Of(given.value());
  } else {
    const Scalar s = c.scalar("value");
    if (!s.is_constant()) return c.Unsupported("a value that is known at run time only");
    number = s.kind == Scalar::kComplex ? s.c : std::complex<double>(s.d, 0);
  }
  auto part = [&](Value* v, Value* value, double constant) {
    std::vector<Arg> args;
    for (const ir::ArgDef& a : op.args) args.push_back(c.node().Get(a.name));
    args[0] = v;
    args[static_cast<size_t>(op.ArgIndex("value"))] = tensor.re ? Arg(value) : Arg(constant);
    return c.b.Call(op.name, std::move(args));
  };
  c.Return({part(x.re, tensor.re, number.real()), part(c.Im(x), tensor.re ? c.Im(tensor) : nullptr, number.imag())});
}

// A real border around both parts; that of the imaginary one is zero.
void Pad(ComplexContext& c) {
  const ir::OpDef& op = c.node().op();
  const Pair x = c.in("self");
  auto pad = [&](Value* v, bool imaginary) {
    std::vector<Arg> args;
    for (const ir::ArgDef& a : op.args) args.push_back(c.node().Get(a.name));
    args[0] = v;
    if (imaginary && op.ArgIndex("value") >= 0) args[static_cast<size_t>(op.ArgIndex("value"))] = Arg();
    if (imaginary && op.base == "constant_pad_nd") args[static_cast<size_t>(op.ArgIndex("value"))] = Arg(0);
    return c.b.Call(op.name, std::move(args));
  };
  if (op.ArgIndex("value") >= 0 && c.has("value") && c.scalar("value").kind == Scalar::kComplex)
    return c.Unsupported("a complex border");
  c.Return({pad(x.re, false), x.im ? pad(x.im, true) : nullptr});
}

template <int kValue>
void FillConstant(ComplexContext& c) {
  c.Return(c.b.Full(c.sym_ints("size"), double{kValue}, c.real()));
}

template <int kValue>
void FillLike(ComplexContext& c) {
  c.Return(c.b.Full(c.b.SizesOf(c.tensor("self")), double{kValue}, c.real()));
}

template <bool kMinus>
void AddSub(ComplexContext& c) {
  Pair x = c.Operand("self", c.real()), y = c.Operand("other", c.real());
  const Scalar alpha = c.scalar("alpha");
  if (!alpha.is_constant()) return c.Unsupported("a symbolic alpha");
  if (alpha.kind == Scalar::kComplex)
    y = c.Times(y, c.Operand("alpha", c.real()));
  else if (alpha.d != 1)
    y = c.Scale(y, c.b.ScalarTensor(alpha.d, c.real()));
  auto join = [&](Value* a, Value* b) { return kMinus ? c.Sub(a, b) : c.Add(a, b); };
  // A part that is missing has the other's sizes only when the sizes do not broadcast.
  c.Return({join(x.re, y.re), x.im || y.im ? join(c.Im(x), c.Im(y)) : nullptr});
}

void Multiply(ComplexContext& c) {
  Pair p = c.Times(c.Operand("self", c.real()), c.Operand("other", c.real()));
  c.Return(p);
}

void Divide(ComplexContext& c) {
  if (c.has("rounding_mode")) return c.Unsupported("complex division with rounding_mode");
  c.Return(c.Quotient(c.Operand("self", c.real()), c.Operand("other", c.real())));
}

void Square(ComplexContext& c) {
  Pair x = c.in("self");
  c.Return(c.Times(x, x));
}

Value* Hypot(ComplexContext& c, const Pair& x) {
  return x.im ? c.b.Call("aten.hypot.default", {x.re, x.im}) : c.b.Call("aten.abs.default", {x.re});
}

Value* Angle(ComplexContext& c, const Pair& x) { return c.b.Call("aten.atan2.default", {c.Im(x), x.re}); }
void Abs(ComplexContext& c) { c.Return(Hypot(c, c.in("self"))); }
void AngleOf(ComplexContext& c) { c.Return(Angle(c, c.in("self"))); }
// z / |z|, and 0 at 0.
void Sgn(ComplexContext& c) {
  Pair x = c.in("self");
  Value* r = Hypot(c, x);
  Value* safe = c.b.Call("aten.where.ScalarSelf", {c.b.Call("aten.eq.Scalar", {r, 0}), 1.0, r});
  safe = c.b.Cast(safe, c.real());
  c.Return({c.Div(x.re, safe), x.im ? c.Div(x.im, safe) : nullptr});
}

Pair Exp(ComplexContext& c, const Pair& x) {
  Value* r = c.b.Call("aten.exp.default", {x.re});
  if (!x.im) return {r, nullptr};
  return {c.Mul(r, c.b.Call("aten.cos.default", {x.im})), c.Mul(r, c.b.Call("aten.sin.default", {x.im}))};
}

Pair Log(ComplexContext& c, const Pair& x) { return {c.b.Call("aten.log.default", {Hypot(c, x)}), Angle(c, x)}; }
void ExpOf(ComplexContext& c) { c.Return(Exp(c, c.in("self"))); }
void LogOf(ComplexContext& c) { c.Return(Log(c, c.in("self"))); }
// The principal root, by half the angle.
void Sqrt(ComplexContext& c) {
  Pair x = c.in("self");
  Value* r = c.b.Call("aten.sqrt.default", {Hypot(c, x)});
  Value* half = c.Mul(Angle(c, x), c.b.ScalarTensor(0.5, c.real()));
  c.Return({c.Mul(r, c.b.Call("aten.cos.default", {half})), c.Mul(r, c.b.Call("aten.sin.default", {half}))});
}

// sin(a+bi) = sin a cosh b + i cos a sinh b; cos(a+bi) = cos a cosh b - i sin a sinh b (DLMF 4.21.37, 4.21.38).
template <bool kSine>
void SinCos(ComplexContext& c) {
  Pair x = c.in("self");
  Value *s = c.b.Call("aten.sin.default", {x.re}), *k = c.b.Call("aten.cos.default", {x.re});
  Value *sh = c.b.Call("aten.sinh.default", {c.Im(x)}), *ch = c.b.Call("aten.cosh.default", {c.Im(x)});
  if (kSine)
    c.Return({c.Mul(s, ch), c.Mul(k, sh)});
  else
    c.Return({c.Mul(k, ch), c.Neg(c.Mul(s, sh))});
}

template <bool kEqual>
void Compare(ComplexContext& c) {
  const DType real = ir::ToReal(c.tensor("self")->dtype());
  Pair x = c.Operand("self", real), y = c.Operand("other", real);
  const char* op = kEqual ? "aten.eq.Tensor" : "aten.ne.Tensor";
  Value* re = c.b.Call(op, {x.re, y.re});
  if (!x.im && !y.im) return c.Return(re);
  c.Return(c.b.Call(kEqual ? "aten.logical_and.default" : "aten.logical_or.default",
                    {re, c.b.Call(op, {c.Im(x), c.Im(y)})}));
}

void IsReal(ComplexContext& c) {
  Pair x = c.in("self");
  if (x.im) return c.Return(c.b.Call("aten.eq.Scalar", {x.im, 0}));
  c.Return(c.b.Call("aten.full_like.default", {x.re, true}, {{"dtype", DType::kBool}}));
}

// A test that holds when it holds for either part, or for both.
template <bool kBoth>
void Test(ComplexContext& c) {
  Pair x = c.in("self");
  Value* re = c.b.Call(c.node().op_name(), {x.re});
  if (!x.im) return c.Return(re);
  c.Return(c.b.Call(kBoth ? "aten.logical_and.default" : "aten.logical_or.default",
                    {re, c.b.Call(c.node().op_name(), {x.im})}));
}

// where(condition, self, other)
void Where(ComplexContext& c) {
  Value* condition = c.tensor("condition");
  Pair x = c.Operand("self", c.real()), y = c.Operand("other", c.real());
  auto pick = [&](Value* a, Value* b) { return c.b.Call("aten.where.self", {condition, a, b}); };
  c.Return({pick(x.re, y.re), x.im || y.im ? pick(c.Im(x), c.Im(y)) : nullptr});
}

template <typename F>
void Bilinear(ComplexContext& c, Pair x, Pair y, F f) {
  Value* re = f(x.re, y.re);
  if (x.im && y.im) re = c.Sub(re, f(x.im, y.im));
  Value* im = nullptr;
  if (y.im) im = f(x.re, y.im);
  if (x.im) im = im ? c.Add(im, f(x.im, y.re)) : f(x.im, y.re);
  c.Return({re, im});
}

void MatMul(ComplexContext& c) {
  const ir::OpDef& op = c.node().op();
  Bilinear(c, c.in(op.args[0].name), c.in(op.args[1].name),
           [&](Value* a, Value* b) { return c.b.Call(op.name, {a, b}); });
}

// beta self + alpha (x y), or self + x y where there are no factors.
void AddProduct(ComplexContext& c, std::string_view product) {
  const ir::OpDef& op = c.node().op();
  Bilinear(c, c.in(op.args[1].name), c.in(op.args[2].name),
           [&](Value* a, Value* b) { return c.b.Call(product, {a, b}); });
  Pair p = c.Of(c.node().output());
  auto scaled = [&](Pair x, const char* name) {
    const Scalar s = c.scalar(name);
    return s.is_constant() && s.kind != Scalar::kComplex && s.d == 1 ? x : c.Times(x, c.Operand(name, c.real()));
  };
  p = scaled(p, "alpha");
  Pair self = scaled(c.in("self"), "beta");
  c.Return({c.Add(p.re, self.re), p.im || self.im ? c.Add(c.Im(p), c.Im(self)) : nullptr});
}

void Addmm(ComplexContext& c) { AddProduct(c, "aten.mm.default"); }
void Addmv(ComplexContext& c) { AddProduct(c, "aten.mv.default"); }
void Baddbmm(ComplexContext& c) { AddProduct(c, "aten.bmm.default"); }
void Addr(ComplexContext& c) { AddProduct(c, "aten.outer.default"); }
// Products with a bias: linear layers and convolutions.
void WithBias(ComplexContext& c) {
  const ir::OpDef& op = c.node().op();
  const bool linear = op.base == "linear";
  Bilinear(c, c.in("input"), c.in("weight"), [&](Value* x, Value* w) {
    std::vector<Arg> args;
    for (const ir::ArgDef& a : op.args) args.push_back(c.node().Get(a.name));
    args[static_cast<size_t>(op.ArgIndex("input"))] = x;
    args[static_cast<size_t>(op.ArgIndex("weight"))] = w;
    args[static_cast<size_t>(op.ArgIndex("bias"))] = Arg();
    return c.b.Call(op.name, std::move(args));
  });
  Value* given = c.opt_tensor("bias");
  if (!given) return;
  Pair y = c.Of(c.node().output()), bias = c.Of(given);
  auto add = [&](Value* to, Value* v) {
    if (!linear) {
      const ir::Value* w = c.tensor("weight");
      ir::Ints sizes(static_cast<size_t>(w->rank()) - 1, 1);
      sizes[0] = -1;
      v = c.b.Call("aten.reshape.default", {v, std::move(sizes)});
    }
    return c.Add(to, v);
  };
  c.Return({add(y.re, bias.re), bias.im ? add(c.Im(y), bias.im) : y.im});
}

// The sum of conj(x) y along a dim.
void Vecdot(ComplexContext& c) {
  const ir::OpDef& op = c.node().op();
  Pair x = c.in(op.args[0].name), y = c.in(op.args[1].name);
  Pair p = c.Times(c.Conj(x), y);
  const int64_t dim = op.ArgIndex("dim") >= 0 ? c.i("dim") : -1;
  auto sum = [&](Value* v) { return c.b.Call("aten.sum.dim_IntList", {v, ir::Ints{dim}}); };
  c.Return({sum(p.re), p.im ? sum(p.im) : nullptr});
}

// |x - y| <= atol + rtol |y|, and equal ones.
void IsClose(ComplexContext& c) {
  Pair x = c.in("self"), y = c.in("other");
  if (c.flag("equal_nan")) return c.Unsupported("equal_nan of complex numbers");
  auto real = [&](Value* v) { return c.b.Cast(v, ir::ToReal(c.tensor("self")->dtype())); };
  Value* error = Hypot(c, {c.Sub(x.re, y.re), c.Sub(c.Im(x), c.Im(y))});
  Value* allowed = c.b.Call("aten.add.Scalar", {c.b.Call("aten.mul.Scalar", {Hypot(c, y), c.f("rtol")}), c.f("atol")});
  Value* near = c.b.Call("aten.logical_and.default", {c.b.Call("aten.isfinite.default", {error}),
                                                      c.b.Call("aten.le.Tensor", {real(error), real(allowed)})});
  Value* same = c.b.Call("aten.logical_and.default",
                         {c.b.Call("aten.eq.Tensor", {x.re, y.re}), c.b.Call("aten.eq.Tensor", {c.Im(x), c.Im(y)})});
  c.Return(c.b.Call("aten.logical_or.default", {same, near}));
}

void Einsum(ComplexContext& c) {
  const Values operands = c.tensors("tensors");
  if (operands.size() != 2) return c.Unsupported("einsum of complex operands other than two");
  Bilinear(c, c.Of(operands[0]), c.Of(operands[1]), [&](Value* a, Value* b) {
    return c.b.CallTyped("aten.einsum.default", {c.str("equation"), Values{a, b}}, {},
                         {Type::Tensor(c.real(), c.node().output()->sizes())})[0];
  });
}

// clang-format off
constexpr ComplexRule kArithmeticRules[] = {
    {"aten.view_as_complex", ViewAsComplex}, {"aten.view_as_real", ViewAsReal}, {"aten.view_as_real_copy", ViewAsReal},
    {"aten.view_as_complex_copy", ViewAsComplex}, {"aten.real", Real}, {"aten.imag", Imag},
    {"aten.complex", MakeComplex}, {"aten.polar", Polar}, {"aten.conj", Conj}, {"aten._conj", Conj},
    {"aten.conj_physical", Conj}, {"aten._conj_physical", Conj}, {"aten._conj_copy", Conj},
    {"aten.resolve_conj", Same}, {"aten.mH", Adjoint},
    {"aten.adjoint", Adjoint}, {"aten.matrix_H", Adjoint},
    {"aten.resolve_neg", Same}, {"aten._to_copy", Convert}, {"aten.to", Convert}, {"aten.type_as", Convert},
    {"prims.convert_element_type", Convert}, {"aten.full", Fill}, {"aten.zeros", FillConstant<0>},
    {"aten.ones", FillConstant<1>}, {"aten.zeros_like", FillLike<0>}, {"aten.ones_like", FillLike<1>},
    {"aten.add", AddSub<false>}, {"aten.sub", AddSub<true>}, {"aten.mul", Multiply}, {"aten.div", Divide},
    {"aten.true_divide", Divide}, {"aten.square", Square}, {"aten.abs", Abs},
    {"aten.absolute", Abs}, {"aten.angle", AngleOf}, {"aten.sgn", Sgn}, {"aten.exp", ExpOf}, {"aten.log", LogOf},
    {"aten.sqrt", Sqrt}, {"aten.sin", SinCos<true>}, {"aten.cos", SinCos<false>},
    {"aten.eq", Compare<true>}, {"aten.ne", Compare<false>}, {"aten.isreal", IsReal}, {"aten.isnan", Test<false>},
    {"aten.isinf", Test<false>}, {"aten.isfinite", Test<true>}, {"aten.where.self", Where}, {"aten.mm", MatMul},
    {"aten.bmm", MatMul}, {"aten.matmul", MatMul}, {"aten.mv", MatMul}, {"aten.dot", MatMul}, {"aten.outer", MatMul},
    {"aten.einsum", Einsum}, {"aten.addmm", Addmm}, {"aten.addmv", Addmv}, {"aten.baddbmm", Baddbmm},
    {"aten.addr", Addr},
    {"aten.linear", WithBias}, {"aten.conv1d", WithBias}, {"aten.conv2d", WithBias}, {"aten.conv3d", WithBias},
    {"aten.conv_transpose1d", WithBias}, {"aten.conv_transpose2d", WithBias}, {"aten.conv_transpose3d", WithBias},
    {"aten.convolution", WithBias}, {"aten.inner", MatMul}, {"aten.kron", MatMul}, {"aten.linalg_matmul", MatMul},
    {"aten.ger", MatMul},
    {"aten.vdot", Vecdot}, {"aten.linalg_vecdot", Vecdot}, {"aten.isclose", IsClose},
    {"aten.full_like", FillOf}, {"aten.new_full", FillOf}, {"aten.fill", FillOf}, {"aten.new_zeros", FillConstant<0>},
    {"aten.new_ones", FillConstant<1>}, {"aten.scalar_tensor", ScalarOf}, {"aten.masked_fill", MaskedFill},
    {"aten.index_fill", ByValue},
    {"aten.scatter.value", ByValue}, {"aten.where", Where}, {"aten.pad", Pad},
    {"aten.constant_pad_nd", Pad}, {"aten.reflection_pad1d", Pad}, {"aten.reflection_pad2d", Pad},
    {"aten.replication_pad1d", Pad},
    {"aten.replication_pad2d", Pad},
};
// clang-format on

}  // namespace

absl::Span<const ComplexRule> ComplexArithmeticRules() { return kArithmeticRules; }

}  // namespace slipway::passes
