// Elementwise operators: arithmetic, comparisons, logic, activations, casts.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "exporters/onnx/lowerings/util.h"
#include "exporters/onnx/types.h"
#include "ir/rounded.h"

namespace slipway::exporters::onnx_out {
namespace {

using ir::Scalar;

constexpr double kInf = std::numeric_limits<double>::infinity();

// The input in the type the result is computed in.
V Self(LoweringContext& c) { return c.e.Cast(c.in("self"), c.compute_dtype()); }
V Num(LoweringContext& c, double v) { return c.e.Number(v, c.compute_dtype()); }

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

void Alias(LoweringContext& c) { c.Return(c.in("self")); }

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

template <Str op>
void Comparison(LoweringContext& c) {
  DType t = Promoted(c, "self", "other");
  V r = c.e.Op(op, {Operand(c, "self", t), Operand(c, "other", t)}, {}, DType::kBool, c.out_rank());
  c.Return(r);
}
void NotEqual(LoweringContext& c) {
  DType t = Promoted(c, "self", "other");
  c.Return(c.e.Not(c.e.Equal(Operand(c, "self", t), Operand(c, "other", t))));
}

V ToBool(LoweringContext& c, V x) { return c.e.Cast(x, DType::kBool); }
template <Str op>
void Logical(LoweringContext& c) {
  c.Return(c.e.Op(op, {ToBool(c, c.in("self")), ToBool(c, c.in("other"))}, {}, DType::kBool, c.out_rank()));
}
void LogicalNot(LoweringContext& c) { c.Return(c.e.Not(ToBool(c, c.in("self")))); }

// Bitwise on integers, logical on bool.
template <Str logical, Str bitwise>
void Bitwise(LoweringContext& c) {
  DType t = c.out_dtype();
  V a = Operand(c, "self", t), b = Operand(c, "other", t);
  c.Return(c.e.Op(ir::IsBool(t) ? std::string_view(logical) : std::string_view(bitwise), {a, b}, {}, t, c.out_rank()));
}
void BitwiseNot(LoweringContext& c) {
  V x = c.in("self");
  c.Return(ir::IsBool(x.dtype) ? c.e.Not(x) : c.e.Op("BitwiseNot", {x}));
}

// Shifts, in 64 bits. By less than nothing, or by as many bits as the type has or more, torch gives 0 to the left, the
// sign to the right.
std::optional<int64_t> ConstantShift(LoweringContext& c) {
  if (ir::Value* v = c.node().Get("other").value(); v && v->type().is_tensor()) return std::nullopt;
  const Scalar s = c.scalar("other");
  return s.kind == Scalar::kInt ? std::optional(s.i) : std::nullopt;
}
// ONNX shifts unsigned integers only; 0 <= b < 64, x >= 0 or any bits to the left.
V ShiftBits(LoweringContext& c, V x, V b, const char* direction) {
  V y = c.e.Op("BitShift", {c.e.Cast(x, DType::kUInt64), c.e.Cast(b, DType::kUInt64)},
               {{"direction", std::string(direction)}}, DType::kUInt64, std::max(x.rank, b.rank));
  return c.e.Cast(y, DType::kInt64);
}
void ShiftLeft(LoweringContext& c) {
  const DType t = c.out_dtype();
  const int64_t bits = static_cast<int64_t>(ir::BitSize(t));
  V a = c.e.Cast(Operand(c, "self", t), DType::kInt64);
  if (auto k = ConstantShift(c)) {
    const int64_t power = *k < 0 || *k >= bits ? 0 : static_cast<int64_t>(uint64_t{1} << *k);
    return c.Return(c.e.Cast(c.e.Mul(a, c.e.Integer(power, DType::kInt64)), t));
  }
  V b = c.e.Cast(Operand(c, "other", t), DType::kInt64), zero = c.e.I64Scalar(0);
  V inside = c.e.And(c.e.GreaterEqual(b, zero), c.e.Less(b, c.e.I64Scalar(bits)));
  V shifted = ShiftBits(c, a, c.e.Where(inside, b, zero), "LEFT");
  c.Return(c.e.Cast(c.e.Where(inside, shifted, zero), t));
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
void ShiftRight(LoweringContext& c) {
  const DType t = c.out_dtype();
  V a = c.e.Cast(Operand(c, "self", t), DType::kInt64), zero = c.e.I64Scalar(0), most = c.e.I64Scalar(63), b;
  if (auto k = ConstantShift(c)) {
    b = c.e.I64Scalar(*k < 0 || *k > 63 ? 63 : *k);
  } else {
    b = c.e.Cast(Operand(c, "other", t), DType::kInt64);
    b = c.e.Where(c.e.Less(b, zero), most, c.e.Min(b, most));
  }
  // Of negative numbers the complement is shifted.
  V ones = c.e.I64Scalar(-1), negative = c.e.Less(a, zero);
  if (!ir::Info(t).is_signed) return c.Return(c.e.Cast(ShiftBits(c, a, b, "RIGHT"), t));
  V y = ShiftBits(c, c.e.Where(negative, c.e.Sub(ones, a), a), b, "RIGHT");
  c.Return(c.e.Cast(c.e.Where(negative, c.e.Sub(ones, y), y), t));
}

V IsZero(LoweringContext& c, V x) { return c.e.Equal(x, c.e.Number(0, x.dtype)); }

// A divisor for remainders of integers: -1, by which the least number has no quotient and processors trap, becomes 1.
V SafeDivisor(LoweringContext& c, V b) {
  const bool known = c.e.Find(b) && c.e.Find(b)->bytes != std::string(c.e.Find(b)->bytes.size(), '\xff');
  if (known || !ir::Info(b.dtype).is_signed || ir::ByteSize(b.dtype) < 4) return b;
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
V TruncFloat(LoweringContext& c, V x) { return c.e.Mul(c.e.Op("Sign", {x}), c.e.Op("Floor", {c.e.Op("Abs", {x})})); }

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

// min(max(x, lo), hi), in the promoted type.
void Clamp(LoweringContext& c) {
  V x = Self(c);
  DType t = c.compute_dtype();
  if (c.has("min")) x = c.e.Max(x, Operand(c, "min", t));
  if (c.has("max")) x = c.e.Min(x, Operand(c, "max", t));
  c.Return(x);
}
bool IsF32Or64(DType t) { return t == DType::kFloat32 || t == DType::kFloat64; }
// Clip, which runtimes make part of the convolution before it, where that has the type.
V Between(LoweringContext& c, V x, V low, V high) {
  if (IsF32Or64(x.dtype)) return c.e.Op("Clip", {x, low, high});
  return c.e.Min(c.e.Max(x, low), high);
}
void Hardtanh(LoweringContext& c) {
  DType t = c.compute_dtype();
  c.Return(Between(c, Self(c), c.number(c.scalar("min_val"), t), c.number(c.scalar("max_val"), t)));
}

void Where(LoweringContext& c) {
  DType t = c.compute_dtype();
  c.Return(c.e.Where(ToBool(c, c.in("condition")), Operand(c, "self", t), Operand(c, "other", t)));
}
void MaskedFill(LoweringContext& c) {
  DType t = c.compute_dtype();
  V value = Operand(c, "value", t);
  V x = c.e.Cast(c.in("self"), t);
  c.Return(c.e.Where(ToBool(c, c.in("mask")), value, x));
}

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
  V both_inf = c.e.And(c.e.Equal(ax, num(kInf)), c.e.Equal(ay, num(kInf)));
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
  V safe = c.e.Where(c.e.Or(IsZero(c, m), c.e.Equal(m, c.e.Number(kInf, t))), c.e.Number(1, t), m);
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
  c.Return(c.e.Less(c.e.Op("Abs", {x}), c.e.Number(kInf, x.dtype)));
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
  r = c.e.Where(c.e.Equal(x, c.e.Number(kInf, x.dtype)), c.e.Number(pos, x.dtype), r);
  c.Return(c.e.Where(c.e.Equal(x, c.e.Number(-kInf, x.dtype)), c.e.Number(neg, x.dtype), r));
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
constexpr Row kRows[] = {
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
    {"aten.positive.default", Alias},
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
    {"aten.pow.Tensor_Tensor", PowOp, true, 0, IsFloatOrKnownPower}, {"aten.pow.Tensor_Scalar", PowOp, true},
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

    {"aten.eq.Tensor", Comparison<"Equal">}, {"aten.eq.Scalar", Comparison<"Equal">},
    {"aten.ne.Tensor", NotEqual}, {"aten.ne.Scalar", NotEqual},
    {"aten.not_equal.Tensor", NotEqual}, {"aten.not_equal.Scalar", NotEqual},
    {"aten.lt.Tensor", Comparison<"Less">}, {"aten.lt.Scalar", Comparison<"Less">},
    {"aten.le.Tensor", Comparison<"LessOrEqual">}, {"aten.le.Scalar", Comparison<"LessOrEqual">},
    {"aten.gt.Tensor", Comparison<"Greater">}, {"aten.gt.Scalar", Comparison<"Greater">},
    {"aten.ge.Tensor", Comparison<"GreaterOrEqual">}, {"aten.ge.Scalar", Comparison<"GreaterOrEqual">},
    {"aten.logical_and.default", Logical<"And">}, {"aten.logical_or.default", Logical<"Or">},
    {"aten.logical_xor.default", Logical<"Xor">}, {"aten.logical_not.default", LogicalNot},
    {"aten.bitwise_and.Tensor", Bitwise<"And", "BitwiseAnd">},
    {"aten.bitwise_and.Scalar", Bitwise<"And", "BitwiseAnd">},
    {"aten.bitwise_or.Tensor", Bitwise<"Or", "BitwiseOr">}, {"aten.bitwise_or.Scalar", Bitwise<"Or", "BitwiseOr">},
    {"aten.bitwise_xor.Tensor", Bitwise<"Xor", "BitwiseXor">},
    {"aten.bitwise_xor.Scalar", Bitwise<"Xor", "BitwiseXor">},
    {"aten.__and__.Tensor", Bitwise<"And", "BitwiseAnd">}, {"aten.__and__.Scalar", Bitwise<"And", "BitwiseAnd">},
    {"aten.__or__.Tensor", Bitwise<"Or", "BitwiseOr">}, {"aten.__or__.Scalar", Bitwise<"Or", "BitwiseOr">},
    {"aten.__xor__.Tensor", Bitwise<"Xor", "BitwiseXor">}, {"aten.__xor__.Scalar", Bitwise<"Xor", "BitwiseXor">},
    {"aten.bitwise_and.Scalar_Tensor", Bitwise<"And", "BitwiseAnd">},
    {"aten.bitwise_or.Scalar_Tensor", Bitwise<"Or", "BitwiseOr">},
    {"aten.bitwise_xor.Scalar_Tensor", Bitwise<"Xor", "BitwiseXor">},
    {"aten.bitwise_not.default", BitwiseNot},
    {"aten.__lshift__.Scalar", ShiftLeft}, {"aten.__lshift__.Tensor", ShiftLeft},
    {"aten.bitwise_left_shift.Tensor", ShiftLeft}, {"aten.bitwise_left_shift.Tensor_Scalar", ShiftLeft},
    {"aten.bitwise_left_shift.Scalar_Tensor", ShiftLeft}, {"aten.bitwise_right_shift.Scalar_Tensor", ShiftRight},
    {"aten.__rshift__.Scalar", ShiftRight}, {"aten.__rshift__.Tensor", ShiftRight},
    {"aten.bitwise_right_shift.Tensor", ShiftRight}, {"aten.bitwise_right_shift.Tensor_Scalar", ShiftRight},
    {"aten.where.self", Where}, {"aten.where.ScalarSelf", Where}, {"aten.where.ScalarOther", Where},
    {"aten.where.Scalar", Where},
    {"aten.masked_fill.Scalar", MaskedFill}, {"aten.masked_fill.Tensor", MaskedFill},

    {"aten.relu.default", Relu}, {"aten.relu6.default", Relu6}, {"aten.gelu.default", Gelu, true},
    {"aten.silu.default", Silu, true}, {"aten.leaky_relu.default", LeakyRelu}, {"aten.elu.default", Elu, true},
    {"aten.celu.default", Celu, true}, {"aten.selu.default", Selu},
    {"aten.hardtanh.default", Hardtanh}, {"aten.hardsigmoid.default", HardSigmoid, true},
    {"aten.hardswish.default", HardSwish, true}, {"aten.softplus.default", SoftplusOp, true},
    {"aten.mish.default", Mish, true}, {"aten.log_sigmoid.default", LogSigmoid, true},
    {"aten.hardshrink.default", Hardshrink}, {"aten.softshrink.default", Softshrink, true},
    {"aten.threshold.default", Threshold}, {"aten.prelu.default", Prelu, true},
    {"aten._prelu_kernel.default", Prelu, true},
    {"aten.glu.default", Glu, true},

    {"aten._to_copy.default", ToDtype}, {"aten.to.dtype", ToDtype}, {"aten.to.dtype_layout", ToDtype},
    {"aten.to.device", ToDtype}, {"aten.to.other", ToDtype}, {"aten.to.prim_Device", ToDtype},
    {"aten.type_as.default", ToDtype},
};
// clang-format on

}  // namespace

absl::Span<const Row> ElementwiseRows() { return kRows; }

}  // namespace slipway::exporters::onnx_out
