// Arithmetic of two operands: sums, products, divisions, powers, extrema, clamps.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "exporters/onnx/lowerings/elementwise.h"
#include "exporters/onnx/lowerings/util.h"
#include "exporters/onnx/types.h"
#include "ir/rounded.h"

namespace slipway::exporters::onnx_out {

using ir::Scalar;

namespace {

// An operand as `t`, in rows that compute in f32 for f16 and bf16: rounded to the result's dtype first, as torch does
// with numbers and 0-d tensors but in products and quotients.
V RoundedOperand(LoweringContext& c, std::string_view name, DType t) {
  return c.e.Cast(Operand(c, name, ir::IsLowPrecision(c.out_dtype()) ? c.out_dtype() : t), t);
}

// Whether torch multiplies f16 or bf16 `t` by, or divides it by, what `t` has not: a number or a 0-d tensor, which it
// takes in f32.
bool HasWideFactor(LoweringContext& c, DType t) {
  const ir::Value* self = c.node().Get("self").value();
  if (!ir::IsLowPrecision(t) || !self || !self->type().is_tensor() || self->dtype() != t) return false;
  if (const ir::Value* v = c.node().Get("other").value(); v && v->type().is_tensor())
    return v->rank() == 0 && v->dtype() != t;
  const Scalar number = c.scalar("other");
  if (!number.is_constant() || number.kind == Scalar::kComplex) return number.kind == Scalar::kValue;
  const double f = static_cast<float>(number.d);
  return f == f && f != ir::Rounded(f, t);
}

// self + alpha·other: of f16 and bf16, alpha is rounded and the product is not.
template <Str op>
V WithAlpha(LoweringContext& c, std::string_view first, std::string_view second, std::string_view scaled) {
  const DType t = c.compute_dtype(), wide = Widened(t);
  auto operand = [&](std::string_view name) {
    V x = RoundedOperand(c, name, wide);
    return name == scaled ? c.e.Mul(x, c.e.Cast(c.number(c.scalar("alpha"), t), wide)) : x;
  };
  V a = operand(first), b = operand(second);
  return c.e.Cast(c.e.OpN(op, {a, b}, {}, {wide})[0], t);
}

bool HasAlpha(LoweringContext& c) {
  if (!c.has("alpha")) return false;
  const Scalar alpha = c.scalar("alpha");
  return !(alpha.is_constant() && alpha.d == 1 && alpha.kind != Scalar::kComplex);
}

template <Str op>
void Binary(LoweringContext& c) {
  DType t = c.compute_dtype();
  if (HasAlpha(c)) return c.Return(WithAlpha<op>(c, "self", "other", "other"));
  const std::string_view name(op);
  const DType wide = (name == "Mul" || name == "Div") && HasWideFactor(c, t) ? DType::kFloat32 : t;
  V a = Operand(c, "self", wide), b = Operand(c, "other", wide);
  c.Return(c.e.Cast(c.e.OpN(op, {a, b}, {}, {wide})[0], t));
}

// cat(-a, b) * s as cat(a, b) * (s with its first part negated), where s is spread over the other: rotary positions,
// whose sines all heads and layers share. Empty for other products.
V RotatedProduct(LoweringContext& c, std::string_view turned, std::string_view sines) {
  ir::Value *x = c.node().Get(turned).value(), *s = c.node().Get(sines).value();
  const ir::Node* cat = x && x->type().is_tensor() ? x->producer() : nullptr;
  if (!cat || cat->op_name() != "aten.cat.default" || x->users().size() != 1 || !s || !s->type().is_tensor()) return {};
  if (!ir::IsFloating(x->dtype()) || s->dtype() != x->dtype() || s->rank() < 1 || s->rank() > x->rank()) return {};
  bool spread = s->rank() < x->rank();
  for (int d = 1; d <= s->rank(); ++d)
    spread = spread || (s->sizes()[s->rank() - d].is(1) && !x->sizes()[x->rank() - d].is(1));
  ir::ArgReader of(*cat);
  const ir::Values parts = of.tensors("tensors");
  if (!spread || !of.ok() || parts.size() != 2 || of.dim("dim", x->rank()) != x->rank() - 1) return {};
  const ir::Node* neg = parts[0]->producer();
  if (!neg || neg->op_name() != "aten.neg.default" || parts[0]->dtype() != x->dtype() ||
      parts[1]->dtype() != x->dtype())
    return {};
  const auto first = parts[0]->sizes().back().constant(), all = s->sizes().back().constant();
  if (!first || !all || *all > 4096 || *first > *all || !x->sizes().back().is(*all)) return {};
  std::vector<double> signs(static_cast<size_t>(*all), 1);
  std::fill_n(signs.begin(), *first, -1);
  V factor = c.e.Mul(c.value(s), c.e.Numbers(std::move(signs), s->dtype(), {*all}));
  return c.e.Mul(c.e.Concat({c.value(neg->Get("self").value()), c.value(parts[1])}, x->rank() - 1), factor);
}

void Mul(LoweringContext& c) {
  for (const auto& [turned, sines] : {std::pair("self", "other"), std::pair("other", "self")})
    if (V y = RotatedProduct(c, turned, sines)) return c.Return(y);
  Binary<"Mul">(c);
}

bool IsMade(const ir::Value* v, std::initializer_list<std::string_view> ops) {
  const ir::Node* n = v && v->type().is_tensor() ? v->producer() : nullptr;
  return n && std::find(ops.begin(), ops.end(), n->op_name()) != ops.end();
}

// Whether the two halves of each row are equal, bit for bit; false for more numbers than are looked at.
bool HalvesOfRowsAreEqual(const ir::TensorRef& t) {
  constexpr uint64_t kMostBytes = uint64_t{16} << 20;
  if (t.sizes.empty() || t.sizes.back() < 2 || t.sizes.back() % 2 || ir::ByteSize(t.dtype) == 0) return false;
  const absl::StatusOr<std::string> bytes = ir::ReadDense(t, kMostBytes);
  if (!bytes.ok()) return false;  // whoever writes it says why
  const size_t half = static_cast<size_t>(t.sizes.back()) / 2 * static_cast<size_t>(ir::ByteSize(t.dtype));
  for (size_t row = 0; row + 2 * half <= bytes->size(); row += 2 * half)
    if (std::memcmp(bytes->data() + row, bytes->data() + row + half, half) != 0) return false;
  return true;
}

// Whether the two halves of the last dim are equal, as of angles that are joined with themselves: what makes `v` says
// so, or its numbers, where they are the program's (a short one for fixed sizes).
bool HalvesAreEqual(LoweringContext& c, const ir::Value* v) {
  constexpr int kMostSteps = 16;
  for (int steps = 0; steps < kMostSteps && v && v->type().is_tensor() && v->rank() > 0; ++steps) {
    if (!v->producer()) {
      const ir::TensorRef* numbers = c.graph().numbers ? c.graph().numbers(v) : nullptr;
      return numbers && HalvesOfRowsAreEqual(*numbers);
    }
    if (IsMade(v, {"aten.cat.default"})) {
      ir::ArgReader of(*v->producer());
      const ir::Values parts = of.tensors("tensors");
      return of.ok() && parts.size() == 2 && parts[0] == parts[1] && of.dim("dim", v->rank()) == v->rank() - 1;
    }
    const bool number =
        IsMade(v, {"aten.mul.Scalar"}) || (IsMade(v, {"aten.mul.Tensor"}) && !v->producer()->Get("other").value());
    if (IsMade(v, {"aten.unsqueeze.default"})) {
      ir::ArgReader of(*v->producer());
      if (of.dim("dim", v->rank()) == v->rank() - 1 || !of.ok()) return false;
    } else if (!number && !IsMade(v, {"aten.cos.default", "aten.sin.default"})) {
      return false;
    }
    v = v->producer()->Get("self").value();
  }
  return false;
}

// Whether v is x[..., from:to] of the last dim, whose size is `all`.
bool IsPart(const ir::Value* v, const ir::Value* x, int64_t from, int64_t to, int64_t all) {
  if (!IsMade(v, {"aten.slice.Tensor"}) || v->producer()->Get("self").value() != x || !v->sizes().back().is(to - from))
    return false;
  ir::ArgReader of(*v->producer());
  const bool last = of.dim("dim", x->rank()) == x->rank() - 1;
  const int64_t *start = v->producer()->Get("start").get<int64_t>(), *end = v->producer()->Get("end").get<int64_t>();
  return of.ok() && last && (start ? *start : 0) == from && std::min(end ? *end : all, all) == to && of.i("step") == 1;
}

// x * cos + cat(-x's second half, x's first half) * sin as RotaryEmbedding, which opset 23 has: x is (batch, heads,
// length, features), cos and sin are (batch, 1, length, features), their halves equal. onnxruntime 1.31 runs it in less
// time than what it is made of (a Llama of 4
// layers, one thread: 0.97 of the whole run with 128 tokens, 0.99 with 512). Empty for other sums.
V RotaryPositions(LoweringContext& c) {
  if (c.e.opset() < 23 || c.compute_dtype() != DType::kFloat32) return {};
  const ir::Arg alpha = c.has("alpha") ? c.node().Get("alpha") : ir::Arg();
  if (const int64_t* times = alpha.get<int64_t>(); !alpha.is_none() && (!times || *times != 1)) return {};
  for (const auto& [first, second] : {std::pair("self", "other"), std::pair("other", "self")}) {
    const ir::Value *straight = c.node().Get(first).value(), *turned = c.node().Get(second).value();
    if (!IsMade(straight, {"aten.mul.Tensor"}) || !IsMade(turned, {"aten.mul.Tensor"})) continue;
    ir::Value *x = straight->producer()->Get("self").value(), *cos = straight->producer()->Get("other").value();
    ir::Value *halves = turned->producer()->Get("self").value(), *sin = turned->producer()->Get("other").value();
    if (!x || !cos || !sin || !IsMade(halves, {"aten.cat.default"}) || x->rank() != 4) continue;
    const auto all = x->sizes()[3].constant();
    if (!all || *all < 2 || *all % 2 || x->dtype() != DType::kFloat32) continue;
    bool fits = true;
    for (const ir::Value* angle : {cos, sin})
      fits = fits && angle->rank() == 4 && angle->dtype() == DType::kFloat32 && angle->sizes()[1].is(1) &&
             angle->sizes()[3].is(*all) && ir::ProvablyEqual(angle->sizes()[0], x->sizes()[0]) &&
             ir::ProvablyEqual(angle->sizes()[2], x->sizes()[2]);
    ir::ArgReader of(*halves->producer());
    const ir::Values parts = of.tensors("tensors");
    if (!fits || !of.ok() || parts.size() != 2 || of.dim("dim", 4) != 3 || !IsMade(parts[0], {"aten.neg.default"}))
      continue;
    if (!IsPart(parts[0]->producer()->Get("self").value(), x, *all / 2, *all, *all) ||
        !IsPart(parts[1], x, 0, *all / 2, *all))
      continue;
    if (!HalvesAreEqual(c, cos) || !HalvesAreEqual(c, sin)) continue;  // the last: it may read numbers
    const auto half = [&](ir::Value* angle) {
      return c.e.Slice(c.e.Squeeze(c.value(angle), {1}), {0}, {*all / 2}, {2});
    };
    return c.e.Op("RotaryEmbedding", {c.value(x), half(cos), half(sin)});
  }
  return {};
}

void Add(LoweringContext& c) {
  if (V y = RotaryPositions(c)) return c.Return(y);
  Binary<"Add">(c);
}

void Rsub(LoweringContext& c) {
  if (HasAlpha(c)) return c.Return(WithAlpha<"Sub">(c, "other", "self", "self"));
  DType t = c.compute_dtype();
  V a = Operand(c, "self", t), b = Operand(c, "other", t);
  c.Return(c.e.Sub(b, a));
}

V FloorDivInt(LoweringContext& c, V a, V b) {
  // ONNX Div truncates; one less where the remainder is non-zero and the signs differ.
  V q = c.e.Div(a, b);
  V r = c.e.Sub(a, c.e.Mul(q, b));
  V zero = c.e.Integer(0, a.dtype);
  V fix =
      c.e.And(c.e.Not(c.e.Equal(r, zero)), c.e.Op("Xor", {c.e.Less(r, zero), c.e.Less(b, zero)}, {}, DType::kBool, -1));
  return c.e.Sub(q, c.e.Cast(fix, a.dtype));
}

}  // namespace

V IsZero(LoweringContext& c, V x) { return c.e.Equal(x, c.e.Number(0, x.dtype)); }

namespace {

// A divisor for remainders of integers: -1, by which the least number has no quotient and processors trap, becomes 1.
// A model of ONNX's has none such.
V SafeDivisor(LoweringContext& c, V b) {
  const bool known = c.e.Find(b) && c.e.Find(b)->bytes != std::string(c.e.Find(b)->bytes.size(), '\xff');
  if (known || c.e.shared()->from_onnx || !ir::Info(b.dtype).is_signed || ir::ByteSize(b.dtype) < 4) return b;
  return c.e.Where(c.e.Equal(b, c.e.Integer(-1, b.dtype)), c.e.Integer(1, b.dtype), b);
}

// Python's modulo: the result has the sign of the divisor.
V Remainder(LoweringContext& c, V a, V b) {
  if (!ir::IsFloating(a.dtype)) b = SafeDivisor(c, b);
  if (!ir::IsFloating(a.dtype)) return c.e.Op("Mod", {a, b}, {}, a.dtype, c.out_rank());
  V r = c.e.Op("Mod", {a, b}, {{"fmod", int64_t{1}}}, a.dtype, c.out_rank());
  V zero = c.e.Number(0, a.dtype);
  V fix = c.e.And(c.e.Not(c.e.Equal(r, zero)),
                  c.e.Op("Xor", {c.e.Less(r, zero), c.e.Less(b, zero)}, {}, DType::kBool, c.out_rank()));
  return c.e.Where(fix, c.e.Add(r, b), r);
}

void RemainderOp(LoweringContext& c) {
  DType t = c.compute_dtype();
  c.Return(Remainder(c, RoundedOperand(c, "self", t), RoundedOperand(c, "other", t)));
}

void Fmod(LoweringContext& c) {
  DType t = c.compute_dtype();
  V a = Operand(c, "self", t), b = Operand(c, "other", t);
  if (ir::IsFloating(t)) return c.Return(c.e.Op("Mod", {a, b}, {{"fmod", int64_t{1}}}, t, c.out_rank()));
  // ONNX Runtime computes fmod of integers in binary64; Div truncates exactly.
  b = SafeDivisor(c, b);
  c.Return(c.e.Sub(a, c.e.Mul(c.e.Div(a, b), b)));
}

// torch's floor division of floats (c10/util/generic_math.h): from the exact remainder, not floor(a / b).
V FloorDivFloat(LoweringContext& c, V a, V b) {
  V mod = c.e.Op("Mod", {a, b}, {{"fmod", int64_t{1}}}, a.dtype, c.out_rank());
  V zero = c.e.Number(0, a.dtype), one = c.e.Number(1, a.dtype);
  V div = c.e.Div(c.e.Sub(a, mod), b);
  V differ = c.e.And(c.e.Not(c.e.Equal(mod, zero)),
                     c.e.Op("Xor", {c.e.Less(b, zero), c.e.Less(mod, zero)}, {}, DType::kBool, c.out_rank()));
  div = c.e.Where(differ, c.e.Sub(div, one), div);
  V floor = c.e.Op("Floor", {div});
  floor = c.e.Where(c.e.Greater(c.e.Sub(div, floor), c.e.Number(0.5, a.dtype)), c.e.Add(floor, one), floor);
  V exact = c.e.Div(a, b);
  floor = c.e.Where(IsZero(c, div), c.e.Mul(zero, exact), floor);
  return c.e.Where(IsZero(c, b), exact, floor);
}

}  // namespace

V TruncFloat(LoweringContext& c, V x) { return c.e.Mul(c.e.Op("Sign", {x}), c.e.Op("Floor", {c.e.Op("Abs", {x})})); }

namespace {

void DivMode(LoweringContext& c) {
  auto mode = c.opt_str("rounding_mode");
  DType t = c.compute_dtype();
  V a = Operand(c, "self", t), b = Operand(c, "other", t);
  if (!mode) return c.Return(c.e.Div(a, b));
  bool floating = ir::IsFloating(t);
  if (*mode == "floor") return c.Return(floating ? FloorDivFloat(c, a, b) : FloorDivInt(c, a, b));
  if (*mode == "trunc") {
    V quotient = c.e.Div(a, b);
    // torch rounds it to the result's type first.
    if (c.out_dtype() != t && ir::IsLowPrecision(c.out_dtype()))
      quotient = c.e.Cast(c.e.Cast(quotient, c.out_dtype()), t);
    return c.Return(floating ? TruncFloat(c, quotient) : quotient);
  }
  c.Unsupported("rounding_mode '" + *mode + "'");
}

void FloorDivide(LoweringContext& c) {
  DType t = c.compute_dtype();
  V a = Operand(c, "self", t), b = Operand(c, "other", t);
  c.Return(ir::IsFloating(t) ? FloorDivFloat(c, a, b) : FloorDivInt(c, a, b));
}

// Integers to a power that is not known are multiplied in a loop: their decomposition.
bool IsFloatOrKnownPower(const ir::Node& n) {
  return !n.output() || ir::IsFloating(n.output()->dtype()) || n.Get("exponent").is<int64_t>();
}

void PowOp(LoweringContext& c) {
  DType t = c.compute_dtype();
  const ir::Arg& e = c.node().Get("exponent");
  if (ir::IsFloating(t)) {
    double k = e.get<double>() ? *e.get<double>() : e.get<int64_t>() ? static_cast<double>(*e.get<int64_t>()) : NAN;
    V x = RoundedOperand(c, "self", t);
    if (k == 2) return c.Return(c.e.Mul(x, x));
    if (k == 0.5) return c.Return(c.e.Op("Sqrt", {x}));
    if (k == 1) return c.Return(x);
    if (k == -1) return c.Return(c.e.Op("Reciprocal", {x}));
    return c.Return(c.e.Pow(x, RoundedOperand(c, "exponent", t)));
  }
  const int64_t* k = e.get<int64_t>();
  if (!k || *k < 0) return c.Fail("a negative power of integers");
  V x = Operand(c, "self", t);
  if (*k <= 8) {
    V r = *k == 0 ? c.e.Op("Sub", {c.e.Add(x, c.e.Integer(1, t)), x}) : x;
    for (int64_t i = 1; i < *k; ++i) r = c.e.Mul(r, x);
    return c.Return(r);
  }
  // By squares, in 64 bits: overflow wraps as it does in torch, and cut off it is that of the narrower type.
  V square = c.e.Cast(x, DType::kInt64), power;
  for (uint64_t bits = static_cast<uint64_t>(*k); bits != 0; bits >>= 1) {
    if (bits & 1) power = power ? c.e.Mul(power, square) : square;
    if (bits > 1) square = c.e.Mul(square, square);
  }
  c.Return(c.e.Cast(power, t));
}

// NaN in either operand gives NaN. ONNX Runtime's Max and Min propagate it.
template <Str op>
void Extremum(LoweringContext& c) {
  DType t = c.compute_dtype();
  c.Return(c.e.OpN(op, {Operand(c, "self", t), Operand(c, "other", t)}, {}, {t})[0]);
}

void MaximumBoolSafe(LoweringContext& c) {
  if (ir::IsBool(c.out_dtype())) return Bitwise<"Or", "Max">(c);
  Extremum<"Max">(c);
}

void MinimumBoolSafe(LoweringContext& c) {
  if (ir::IsBool(c.out_dtype())) return Bitwise<"And", "Min">(c);
  Extremum<"Min">(c);
}

// The other operand where one is NaN.
template <Str op>
void FExtremum(LoweringContext& c) {
  DType t = c.compute_dtype();
  V a = Operand(c, "self", t), b = Operand(c, "other", t);
  if (ir::IsBool(t)) return c.Return(c.e.Op(std::string_view(op) == "Max" ? "Or" : "And", {a, b}, {}, t, c.out_rank()));
  V r = c.e.OpN(op, {a, b}, {}, {t})[0];
  if (ir::IsFloating(t)) {
    r = c.e.Where(c.e.Op("IsNaN", {a}, {}, DType::kBool), b, r);
    r = c.e.Where(c.e.Op("IsNaN", {b}, {}, DType::kBool), a, r);
  }
  c.Return(r);
}

// min(max(x, lo), hi), in the promoted type: Clip, which runtimes make part of the convolution before it, where the
// limits are numbers and it has the type.
void Clamp(LoweringContext& c) {
  V x = Self(c);
  DType t = c.compute_dtype();
  V low = c.has("min") ? Operand(c, "min", t) : V{}, high = c.has("max") ? Operand(c, "max", t) : V{};
  if (IsF32Or64(t) && (!low || low.rank == 0) && (!high || high.rank == 0))
    return c.Return(c.e.Op("Clip", high ? std::vector<V>{x, low, high} : std::vector<V>{x, low}));
  if (low) x = c.e.Max(x, low);
  if (high) x = c.e.Min(x, high);
  c.Return(x);
}

}  // namespace

bool IsF32Or64(DType t) { return t == DType::kFloat32 || t == DType::kFloat64; }
V Between(LoweringContext& c, V x, V low, V high) {
  if (IsF32Or64(x.dtype)) return c.e.Op("Clip", {x, low, high});
  return c.e.Min(c.e.Max(x, low), high);
}

namespace {

// Addition of a scaled product or quotient: self + value * (t1 op t2).
template <Str op>
void AddC(LoweringContext& c) {
  DType t = c.compute_dtype();
  V p = c.e.OpN(op, {c.e.Cast(c.in("tensor1"), t), c.e.Cast(c.in("tensor2"), t)}, {}, {t})[0];
  Scalar value = c.scalar("value");
  if (!(value.is_constant() && value.d == 1)) p = c.e.Mul(c.number(value, t), p);
  c.Return(c.e.Add(c.e.Cast(c.in("self"), t), p));
}

void Lerp(LoweringContext& c) {
  // torch: weight < 0.5 ? a + w (b - a) : b - (b - a)(1 - w). The two agree but for rounding.
  DType t = c.compute_dtype();
  V a = c.in("self"), b = c.in("end"), w = Operand(c, "weight", t);
  V d = c.e.Sub(b, a);
  V low = c.e.Add(a, c.e.Mul(w, d));
  V high = c.e.Sub(b, c.e.Mul(d, c.e.Sub(c.e.Number(1, t), w)));
  V small = c.e.Less(c.e.Op("Abs", {w}), c.e.Number(0.5, t));
  c.Return(c.e.Where(small, low, high));
}

// clang-format off
constexpr Row kArithmeticRows[] = {
    {"aten.add.Tensor", Add}, {"aten.add.Scalar", Binary<"Add">},
    {"aten.sub.Tensor", Binary<"Sub">}, {"aten.sub.Scalar", Binary<"Sub">},
    {"aten.subtract.Tensor", Binary<"Sub">}, {"aten.subtract.Scalar", Binary<"Sub">},
    {"aten.mul.Tensor", Mul}, {"aten.mul.Scalar", Binary<"Mul">},
    {"aten.multiply.Tensor", Mul}, {"aten.multiply.Scalar", Binary<"Mul">},
    {"aten.div.Tensor", Binary<"Div">}, {"aten.div.Scalar", Binary<"Div">},
    {"aten.divide.Tensor", Binary<"Div">}, {"aten.divide.Scalar", Binary<"Div">},
    {"aten.true_divide.Tensor", Binary<"Div">}, {"aten.true_divide.Scalar", Binary<"Div">},
    {"aten.rsub.Tensor", Rsub}, {"aten.rsub.Scalar", Rsub},
    {"aten.div.Tensor_mode", DivMode, true}, {"aten.div.Scalar_mode", DivMode, true},
    {"aten.divide.Tensor_mode", DivMode, true}, {"aten.divide.Scalar_mode", DivMode, true},
    {"aten.floor_divide.default", FloorDivide, true}, {"aten.floor_divide.Scalar", FloorDivide, true},
    {"aten.remainder.Tensor", RemainderOp, true}, {"aten.remainder.Scalar", RemainderOp, true},
    {"aten.remainder.Scalar_Tensor", RemainderOp, true},
    {"aten.fmod.Tensor", Fmod}, {"aten.fmod.Scalar", Fmod},
    {"aten.pow.Tensor_Tensor", PowOp, kUnlessKept, 0, IsFloatOrKnownPower},
    {"aten.pow.Tensor_Scalar", PowOp, kUnlessKept},
    {"aten.pow.Scalar", PowOp, true, 0, IsFloatOrKnownPower},
    {"aten.maximum.default", MaximumBoolSafe}, {"aten.minimum.default", MinimumBoolSafe},
    {"aten.max.other", MaximumBoolSafe}, {"aten.min.other", MinimumBoolSafe},
    {"aten.fmax.default", FExtremum<"Max">}, {"aten.fmin.default", FExtremum<"Min">},
    {"aten.clamp.default", Clamp}, {"aten.clamp.Tensor", Clamp}, {"aten.clip.default", Clamp},
    {"aten.clip.Tensor", Clamp},
    {"aten.clamp_min.default", Clamp}, {"aten.clamp_min.Tensor", Clamp},
    {"aten.clamp_max.default", Clamp}, {"aten.clamp_max.Tensor", Clamp},
    {"aten.lerp.Scalar", Lerp, true}, {"aten.lerp.Tensor", Lerp, true},
    {"aten.addcmul.default", AddC<"Mul">, true}, {"aten.addcdiv.default", AddC<"Div">, true},
};
// clang-format on

}  // namespace

absl::Span<const Row> ArithmeticRows() { return kArithmeticRows; }

}  // namespace slipway::exporters::onnx_out
