// Arithmetic, comparisons and logic, element by element. ONNX's operands have one type, so ATen's promotion has nothing
// to do.
#include <algorithm>
#include <string_view>
#include <utility>

#include "importers/onnx/lowering.h"
#include "importers/onnx/lowerings/elements.h"

namespace slipway::importers::onnx_in {
namespace {

template <const char* op>
void Unary(Call& c) {
  c.Give(c.b.Call(op, {c.in(0)}));
}
// The two operands of a node. A dim of at most one element, as x[i:i + 1] has where i is data, is one of one element
// beside any that is larger: only so do they broadcast.
std::pair<Value*, Value*> Operands(Call& c) {
  Value* xs[] = {c.in(0), c.in(1)};
  for (int k = 0; k < 2; ++k) {
    Value *x = xs[k], *other = xs[1 - k];
    const auto is_one = [&](int d) {
      const ir::Sym size = x->sizes()[static_cast<size_t>(d)];
      const int at = d + other->rank() - x->rank();
      return at >= 0 && !size.is_constant() && RangeOf(size).max == 1 &&
             RangeOf(other->sizes()[static_cast<size_t>(at)]).min > 1;
    };
    bool any = false;
    for (int d = 0; d < x->rank(); ++d) any |= is_one(d);
    if (!any) continue;
    SymInts sizes;
    for (int d = 0; d < x->rank(); ++d) sizes.push_back(is_one(d) ? IntOrValue(1) : c.b.Size(x, d));
    xs[k] = c.b.Call("aten.reshape.default", {x, Arg(sizes)});
  }
  return {xs[0], xs[1]};
}

template <const char* op>
void Binary(Call& c) {
  const auto [x, y] = Operands(c);
  c.Give(c.b.Call(op, {x, y}));
}

// Two lists of known elements pair by pair, one of which may be one element. Nothing where they do not fit.
template <typename F>
std::optional<Elements> Pairwise(const std::optional<Elements>& a, const std::optional<Elements>& b, DType dtype,
                                 F of) {
  if (!a || !b || (a->values.size() != b->values.size() && a->values.size() != 1 && b->values.size() != 1))
    return std::nullopt;
  const size_t n = a->values.size() == 1 ? b->values.size() : a->values.size();
  Elements out{.dtype = dtype, .scalar = a->scalar && b->scalar};
  for (size_t i = 0; i < n; ++i)
    out.values.push_back(of(a->values[a->values.size() == 1 ? 0 : i], b->values[b->values.size() == 1 ? 0 : i]));
  return out;
}
// The same where all are constants; results are of the first list's type, or of `dtype`.
std::optional<Elements> OfConstantLists(Call& c, int64_t (*number)(int64_t, int64_t),
                                        std::optional<DType> dtype = std::nullopt) {
  const auto a = c.elements(0), b = c.elements(1);
  if (!a || !b || !IsConstant(*a) || !IsConstant(*b) || c.input_count() != 2) return std::nullopt;
  return Pairwise(a, b, dtype.value_or(a->dtype),
                  [&](const IntOrValue& x, const IntOrValue& y) { return IntOrValue(number(x.constant, y.constant)); });
}

void Neg(Call& c) {
  if (auto e = c.elements(0)) {
    for (IntOrValue& x : e->values) x = c.b.Sub(0, x);
    return c.Give(*std::move(e));
  }
  c.Give(c.b.Call("aten.neg.default", {c.in(0)}));
}

// On elements where both are known, else on tensors.
using OfInts = IntOrValue (ir::Builder::*)(IntOrValue, IntOrValue);
template <const char* op, OfInts of_ints>
void BinaryOfSizes(Call& c) {
  const auto a = c.elements(0), b = c.elements(1);
  const auto of = [&](const IntOrValue& x, const IntOrValue& y) { return (c.b.*of_ints)(x, y); };
  if (auto e = Pairwise(a, b, a ? a->dtype : DType::kInt64, of)) return c.Give(*std::move(e));
  Binary<op>(c);
}

// Truths of elements that hold whatever the sizes are: what models ask of sizes before they choose a branch or a shape.
template <const char* op, ir::SymKind relation>
void Compare(Call& c) {
  const auto a = c.elements(0), b = c.elements(1);
  bool known = true;
  const auto of = [&](const IntOrValue& x, const IntOrValue& y) {
    const ir::Sym truth = ir::Relation(relation, ir::ExprOf(x), ir::ExprOf(y));
    known = known && truth.kind() == ir::SymKind::kBool;
    return IntOrValue(known ? int64_t{truth.bool_value()} : 0);
  };
  if (auto e = Pairwise(a, b, DType::kBool, of); e && known) return c.Give(*std::move(e));
  Binary<op>(c);
}
using OfConstants = int64_t (*)(int64_t, int64_t);
template <const char* op, OfConstants of_constants>
void Logic(Call& c) {
  if (auto e = OfConstantLists(c, of_constants, DType::kBool)) return c.Give(*std::move(e));
  Binary<op>(c);
}
int64_t Both(int64_t a, int64_t b) { return a && b; }
int64_t Either(int64_t a, int64_t b) { return a || b; }

#define NAME(id, text) constexpr char id[] = text
NAME(kAdd, "aten.add.Tensor");
NAME(kSub, "aten.sub.Tensor");
NAME(kMul, "aten.mul.Tensor");
NAME(kAbs, "aten.abs.default");
NAME(kExp, "aten.exp.default");
NAME(kLog, "aten.log.default");
NAME(kSqrt, "aten.sqrt.default");
NAME(kReciprocal, "aten.reciprocal.default");
NAME(kFloor, "aten.floor.default");
NAME(kCeil, "aten.ceil.default");
NAME(kRound, "aten.round.default");
NAME(kSign, "aten.sign.default");
NAME(kErf, "aten.erf.default");
NAME(kSin, "aten.sin.default");
NAME(kCos, "aten.cos.default");
NAME(kTan, "aten.tan.default");
NAME(kAsin, "aten.asin.default");
NAME(kAcos, "aten.acos.default");
NAME(kAtan, "aten.atan.default");
NAME(kSinh, "aten.sinh.default");
NAME(kCosh, "aten.cosh.default");
NAME(kAsinh, "aten.asinh.default");
NAME(kAcosh, "aten.acosh.default");
NAME(kAtanh, "aten.atanh.default");
NAME(kIsNan, "aten.isnan.default");
NAME(kNot, "aten.logical_not.default");
NAME(kAnd, "aten.logical_and.default");
NAME(kOr, "aten.logical_or.default");
NAME(kXor, "aten.logical_xor.default");
NAME(kEqual, "aten.eq.Tensor");
NAME(kLess, "aten.lt.Tensor");
NAME(kLessEqual, "aten.le.Tensor");
NAME(kGreater, "aten.gt.Tensor");
NAME(kGreaterEqual, "aten.ge.Tensor");
NAME(kBitAnd, "aten.bitwise_and.Tensor");
NAME(kBitOr, "aten.bitwise_or.Tensor");
NAME(kBitXor, "aten.bitwise_xor.Tensor");
NAME(kBitNot, "aten.bitwise_not.default");
NAME(kMaximum, "aten.maximum.default");
NAME(kMinimum, "aten.minimum.default");
#undef NAME

void Not(Call& c) {
  auto e = c.elements(0);
  if (!e || e->dtype != DType::kBool) return Unary<kNot>(c);
  for (IntOrValue& x : e->values) x = int64_t{x.constant == 0};
  c.Give(*std::move(e));
}

// Quotients of integers are rounded towards zero.
void Div(Call& c) {
  const auto a = c.elements(0), b = c.elements(1);
  if (a && b && b->values.size() == 1 && !b->values[0].value && b->values[0].constant > 0) {
    // Sizes, which are not negative; constants may be.
    Elements out{.dtype = a->dtype, .scalar = a->scalar && b->scalar};
    for (const IntOrValue& x : a->values)
      out.values.push_back(x.value ? c.b.FloorDiv(x, b->values[0]) : IntOrValue(x.constant / b->values[0].constant));
    return c.Give(std::move(out));
  }
  const auto [x, y] = Operands(c);
  c.Give(ir::IsFloating(x->dtype()) ? c.b.Call("aten.div.Tensor", {x, y})
                                    : c.b.Call("aten.div.Tensor_mode", {x, y}, {{"rounding_mode", "trunc"}}));
}

void Mod(Call& c) {
  const auto divisor = c.elements(1);
  if (c.integer("fmod", 0) == 0 && divisor && IsConstant(*divisor) &&
      std::all_of(divisor->values.begin(), divisor->values.end(), [](const IntOrValue& x) { return x.constant > 0; }))
    if (auto e = OfConstantLists(c, [](int64_t a, int64_t b) { return (a % b + b) % b; })) return c.Give(*std::move(e));
  c.Give(c.b.Call(c.integer("fmod", 0) != 0 ? "aten.fmod.Tensor" : "aten.remainder.Tensor", {c.in(0), c.in(1)}));
}

// The result has the base's type.
void Pow(Call& c) {
  Value *x = c.in(0), *y = c.in(1);
  if (const auto exponent = c.number(1))
    return c.Give(c.b.Cast(c.b.Call("aten.pow.Tensor_Scalar", {x, *exponent}), x->dtype()));
  c.Give(c.b.Cast(c.b.Call("aten.pow.Tensor_Tensor", {x, y}), x->dtype()));
}

// Of any number of operands.
template <const char* op>
void Fold(Call& c) {
  const Values xs = c.ins();
  if (xs.empty()) return c.Wrong("no operands");
  Value* out = xs[0];
  for (size_t i = 1; i < xs.size(); ++i) out = c.b.Call(op, {out, xs[i]});
  c.Give(out);
}
void Max(Call& c) {
  if (auto e = OfConstantLists(c, [](int64_t a, int64_t b) { return std::max(a, b); })) return c.Give(*std::move(e));
  Fold<kMaximum>(c);
}
void Min(Call& c) {
  if (auto e = OfConstantLists(c, [](int64_t a, int64_t b) { return std::min(a, b); })) return c.Give(*std::move(e));
  Fold<kMinimum>(c);
}
void Mean(Call& c) {
  Fold<kAdd>(c);
  if (c.ok()) c.Give(c.b.Call("aten.div.Scalar", {c.results()[0].tensor, static_cast<int64_t>(c.input_count())}));
}

// Of known elements by known truths, as torch.onnx chooses the sizes of expand().
std::optional<Elements> ChosenElements(Call& c) {
  const auto truth = c.elements(0), a = c.elements(1), b = c.elements(2);
  if (!truth || !IsConstant(*truth) || !a || !b || a->values.empty() || b->values.empty()) return std::nullopt;
  const size_t n = std::max({truth->values.size(), a->values.size(), b->values.size()});
  Elements out{.dtype = a->dtype, .scalar = truth->scalar && a->scalar && b->scalar};
  for (const size_t size : {truth->values.size(), a->values.size(), b->values.size()})
    if (size != n && size != 1) return std::nullopt;
  const auto at = [](const Elements& e, size_t i) { return e.values[e.values.size() == 1 ? 0 : i]; };
  for (size_t i = 0; i < n; ++i) out.values.push_back(at(at(*truth, i).constant != 0 ? *a : *b, i));
  return out;
}

void Where(Call& c) {
  if (auto e = ChosenElements(c)) return c.Give(*std::move(e));
  c.Give(c.b.Call("aten.where.self", {c.in(0), c.in(1), c.in(2)}));
}

void IsInf(Call& c) {
  Value* x = c.in(0);
  const bool negative = c.integer("detect_negative", 1) != 0, positive = c.integer("detect_positive", 1) != 0;
  if (negative && positive) return c.Give(c.b.Call("aten.isinf.default", {x}));
  if (negative) return c.Give(c.b.Call("aten.isneginf.default", {x}));
  if (positive) return c.Give(c.b.Call("aten.isposinf.default", {x}));
  c.Give(c.b.Full(c.b.SizesOf(x), Arg(false), DType::kBool));
}

void BitShift(Call& c) {
  const std::string direction = c.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") return c.Wrong("direction is neither LEFT nor RIGHT");
  c.Give(c.b.Call(direction == "LEFT" ? "aten.bitwise_left_shift.Tensor" : "aten.bitwise_right_shift.Tensor",
                  {c.in(0), c.in(1)}));
}

// Limits were attributes before opset 11 and are tensors since.
void Clip(Call& c) {
  Value* x = c.in(0);
  Arg low, high;
  if (c.opset < 11) {
    if (c.has_attribute("min")) low = Arg(c.real("min", 0));
    if (c.has_attribute("max")) high = Arg(c.real("max", 0));
  } else if (const auto a = c.number(1), b = c.number(2); (!c.has(1) || a) && (!c.has(2) || b)) {
    const auto arg = [&](double v) { return ir::IsFloating(x->dtype()) ? Arg(v) : Arg(static_cast<int64_t>(v)); };
    if (a) low = arg(*a);
    if (b) high = arg(*b);
  } else {
    Value *l = c.opt_in(1), *h = c.opt_in(2);
    return c.Give(c.b.Call("aten.clamp.Tensor", {x, l ? Arg(l) : Arg(), h ? Arg(h) : Arg()}));
  }
  c.Give(low.is_none() && high.is_none() ? x : c.b.Call("aten.clamp.default", {x, low, high}));
}

constexpr Row kArithmeticRows[] = {
    {"Abs", Unary<kAbs>},
    {"Acos", Unary<kAcos>},
    {"Acosh", Unary<kAcosh>},
    {"Add", BinaryOfSizes<kAdd, &ir::Builder::Add>, 7},
    {"And", Logic<kAnd, Both>, 7},
    {"Asin", Unary<kAsin>},
    {"Asinh", Unary<kAsinh>},
    {"Atan", Unary<kAtan>},
    {"Atanh", Unary<kAtanh>},
    {"BitShift", BitShift, 1, nullptr, Always},
    {"BitwiseAnd", Binary<kBitAnd>},
    {"BitwiseNot", Unary<kBitNot>},
    {"BitwiseOr", Binary<kBitOr>},
    {"BitwiseXor", Binary<kBitXor>},
    {"Ceil", Unary<kCeil>},
    {"Clip", Clip, 6},
    {"Cos", Unary<kCos>},
    {"Cosh", Unary<kCosh>},
    {"Div", Div, 7},
    {"Equal", Compare<kEqual, ir::SymKind::kEq>, 7},
    {"Erf", Unary<kErf>},
    {"Exp", Unary<kExp>},
    {"Floor", Unary<kFloor>},
    {"Greater", Compare<kGreater, ir::SymKind::kGt>, 7},
    {"GreaterOrEqual", Compare<kGreaterEqual, ir::SymKind::kGe>},
    {"IsInf", IsInf},
    {"IsNaN", Unary<kIsNan>},
    {"Less", Compare<kLess, ir::SymKind::kLt>, 7},
    {"LessOrEqual", Compare<kLessEqual, ir::SymKind::kLe>},
    {"Log", Unary<kLog>},
    {"Max", Max, 8},
    {"Mean", Mean, 8},
    {"Min", Min, 8},
    {"Mod", Mod},
    {"Mul", BinaryOfSizes<kMul, &ir::Builder::Mul>, 7},
    {"Neg", Neg},
    {"Not", Not},
    {"Or", Logic<kOr, Either>, 7},
    {"Pow", Pow, 7},
    {"Reciprocal", Unary<kReciprocal>},
    {"Round", Unary<kRound>},
    {"Sign", Unary<kSign>},
    {"Sin", Unary<kSin>},
    {"Sinh", Unary<kSinh>},
    {"Sqrt", Unary<kSqrt>},
    {"Sub", BinaryOfSizes<kSub, &ir::Builder::Sub>, 7},
    {"Sum", Fold<kAdd>, 8},
    {"Tan", Unary<kTan>},
    {"Where", Where},
    {"Xor", Binary<kXor>, 7},
};

}  // namespace

absl::Span<const Row> ArithmeticRows() { return kArithmeticRows; }

}  // namespace slipway::importers::onnx_in
