// Values of expressions: one operation on constants, a whole expression under an assignment of its symbols, and the
// substitution of symbols by expressions.
#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "ir/sym.h"
#include "ir/sym/internal.h"

namespace slipway::ir {

namespace {

SymValue IntValue(Int128 v) { return {SymType::kInt, v, 0}; }
SymValue BoolValue(bool v) { return {SymType::kBool, v ? 1 : 0, 0}; }
std::optional<SymValue> FloatValue(double v) {
  if (std::isnan(v)) return std::nullopt;
  return SymValue{SymType::kFloat, 0, v};
}

std::optional<SymValue> FloorDivValue(Int128 a, Int128 b) {
  if (b == 0) return std::nullopt;
  if (b == -1) {  // the one quotient that can overflow
    Int128 r;
    if (__builtin_sub_overflow(Int128{0}, a, &r)) return std::nullopt;
    return IntValue(r);
  }
  Int128 q = a / b;
  if (a % b != 0 && (a < 0) != (b < 0)) --q;
  return IntValue(q);
}

// a/b rounded once, as Python divides integers: dividing their doubles would round three times.
std::optional<SymValue> IntTrueDivValue(Int128 a, Int128 b) {
  constexpr Int128 kLimit = Int128{1} << 64;
  const bool negative = (a < 0) != (b < 0);
  if (a <= -kLimit || a >= kLimit || b <= -kLimit || b >= kLimit || b == 0) return std::nullopt;
  const auto bits = [](unsigned __int128 x) { return static_cast<int>(std::bit_width(static_cast<uint64_t>(x))); };
  const auto n = static_cast<unsigned __int128>(a < 0 ? -a : a);
  const auto d = static_cast<unsigned __int128>(b < 0 ? -b : b);
  // A quotient of at least 55 bits whose last one stands for all that follow rounds correctly to 53.
  const int shift = std::max(0, 56 + bits(d) - bits(n));
  unsigned __int128 q = (n << shift) / d;
  if ((n << shift) % d != 0) q |= 1;
  const double magnitude = std::ldexp(static_cast<double>(static_cast<uint64_t>(q)), -shift);
  return FloatValue(negative ? -magnitude : magnitude);
}

}  // namespace

std::optional<SymValue> PowValue(Int128 base, Int128 exponent) {
  if (exponent < 0) {
    if (base == 1) return IntValue(1);
    if (base == -1) return IntValue(exponent % 2 == 0 ? 1 : -1);
    return std::nullopt;
  }
  if (base == 0 || base == 1) return IntValue(exponent == 0 ? 1 : base);
  if (base == -1) return IntValue(exponent % 2 == 0 ? 1 : -1);
  Int128 r = 1;
  for (Int128 i = 0; i < exponent; ++i) {  // at most 127 steps before it overflows
    if (__builtin_mul_overflow(r, base, &r)) return std::nullopt;
  }
  return IntValue(r);
}

namespace {

std::optional<SymValue> IntegerFromDouble(double v) {
  if (!(v >= -0x1p63 && v < 0x1p63)) return std::nullopt;
  return IntValue(static_cast<int64_t>(v));
}

bool Compare(SymKind kind, auto a, auto b) {
  switch (kind) {
    case SymKind::kEq: return a == b;
    case SymKind::kNe: return a != b;
    case SymKind::kLt: return a < b;
    case SymKind::kLe: return a <= b;
    case SymKind::kGt: return a > b;
    default: return a >= b;
  }
}

// One step of a sum, product, Max or Min, with int promoted to double where they meet.
std::optional<SymValue> Combine(SymKind kind, const SymValue& a, const SymValue& b) {
  if (a.type == SymType::kInt && b.type == SymType::kInt) {
    Int128 r = 0;
    switch (kind) {
      case SymKind::kAdd:
        if (__builtin_add_overflow(a.integer, b.integer, &r)) return std::nullopt;
        return IntValue(r);
      case SymKind::kMul:
        if (__builtin_mul_overflow(a.integer, b.integer, &r)) return std::nullopt;
        return IntValue(r);
      case SymKind::kMax: return IntValue(std::max(a.integer, b.integer));
      default: return IntValue(std::min(a.integer, b.integer));
    }
  }
  const double x = a.AsDouble();
  const double y = b.AsDouble();
  switch (kind) {
    case SymKind::kAdd: return FloatValue(x + y);
    case SymKind::kMul: return FloatValue(x * y);
    case SymKind::kMax: return FloatValue(std::max(x, y));
    default: return FloatValue(std::min(x, y));
  }
}

using Assignment = std::function<std::optional<int64_t>(std::string_view)>;

std::optional<SymValue> EvaluateNode(Sym s, const Assignment& value) {
  if (auto v = ConstantValue(s)) return v;
  if (s.kind() == SymKind::kSymbol) {
    auto v = value(s.name());
    if (!v) return std::nullopt;
    return IntValue(*v);
  }
  if (s.kind() == SymKind::kWhere) {  // the branch not taken may be undefined
    auto condition = EvaluateNode(s.operands()[0], value);
    if (!condition || condition->type != SymType::kBool) return std::nullopt;
    return EvaluateNode(s.operands()[condition->integer != 0 ? 1 : 2], value);
  }
  absl::InlinedVector<SymValue, 4> values;
  for (Sym o : s.operands()) {
    auto v = EvaluateNode(o, value);
    if (!v) return std::nullopt;
    values.push_back(*v);
  }
  return EvaluateOperation(s.kind(), values);
}

}  // namespace

std::optional<SymValue> ConstantValue(Sym s) {
  if (auto c = s.constant()) return IntValue(*c);
  if (s.kind() == SymKind::kFloat) return FloatValue(s.float_value());
  if (s.kind() == SymKind::kBool) return BoolValue(s.bool_value());
  return std::nullopt;
}

std::optional<SymValue> EvaluateOperation(SymKind kind, absl::Span<const SymValue> v) {
  const bool logical = kind == SymKind::kAnd || kind == SymKind::kOr || kind == SymKind::kNot;
  const bool equality = kind == SymKind::kEq || kind == SymKind::kNe;
  bool integers = true;
  for (const SymValue& x : v) {
    integers &= x.type == SymType::kInt;
    if (logical != (x.type == SymType::kBool) && !(equality && x.type == v[0].type)) return std::nullopt;
  }
  switch (kind) {
    case SymKind::kAdd:
    case SymKind::kMul:
    case SymKind::kMax:
    case SymKind::kMin: {
      // A zero factor makes it 0 however large the others are.
      const auto zero = [](const SymValue& x) { return x.integer == 0; };
      if (kind == SymKind::kMul && integers && std::any_of(v.begin(), v.end(), zero)) return IntValue(0);
      std::optional<SymValue> r = v[0];
      for (size_t i = 1; r && i < v.size(); ++i) r = Combine(kind, *r, v[i]);
      return r;
    }
    case SymKind::kPow: return integers ? PowValue(v[0].integer, v[1].integer) : std::nullopt;
    case SymKind::kFloorDiv: return integers ? FloorDivValue(v[0].integer, v[1].integer) : std::nullopt;
    case SymKind::kCeilDiv:
    case SymKind::kMod: {
      if (!integers) return std::nullopt;
      auto q = FloorDivValue(v[0].integer, v[1].integer);
      if (!q) return std::nullopt;
      Int128 product, remainder;
      if (__builtin_mul_overflow(q->integer, v[1].integer, &product) ||
          __builtin_sub_overflow(v[0].integer, product, &remainder)) {
        return std::nullopt;
      }
      return IntValue(kind == SymKind::kMod ? remainder : q->integer + (remainder != 0 ? 1 : 0));
    }
    case SymKind::kToFloat: return FloatValue(v[0].AsDouble());
    case SymKind::kTruncToFloat: return FloatValue(std::trunc(v[0].AsDouble()));
    case SymKind::kTruncToInt: return v[0].type == SymType::kInt ? v[0] : IntegerFromDouble(std::trunc(v[0].real));
    case SymKind::kFloorToInt: return v[0].type == SymType::kInt ? v[0] : IntegerFromDouble(std::floor(v[0].real));
    case SymKind::kCeilToInt: return v[0].type == SymType::kInt ? v[0] : IntegerFromDouble(std::ceil(v[0].real));
    case SymKind::kRoundToInt:  // halves to even
      return v[0].type == SymType::kInt ? v[0] : IntegerFromDouble(std::nearbyint(v[0].real));
    case SymKind::kFloatTrueDiv: {
      const double divisor = v[1].AsDouble();
      if (divisor == 0) return std::nullopt;
      return FloatValue(v[0].AsDouble() / divisor);
    }
    case SymKind::kIntTrueDiv: {
      const double a = v[0].AsDouble();
      const double b = v[1].AsDouble();
      if (b == 0) return std::nullopt;
      if (integers) return IntTrueDivValue(v[0].integer, v[1].integer);
      return FloatValue(a / b);
    }
    case SymKind::kFloatPow: return FloatValue(std::pow(v[0].AsDouble(), v[1].AsDouble()));
    case SymKind::kEq:
    case SymKind::kNe:
      if (v[0].type == SymType::kBool || v[1].type == SymType::kBool) {
        if (v[0].type != v[1].type) return std::nullopt;
        return BoolValue(Compare(kind, v[0].integer, v[1].integer));
      }
      [[fallthrough]];
    case SymKind::kLt:
    case SymKind::kLe:
    case SymKind::kGt:
    case SymKind::kGe:
      if (integers) return BoolValue(Compare(kind, v[0].integer, v[1].integer));
      return BoolValue(Compare(kind, v[0].AsDouble(), v[1].AsDouble()));
    case SymKind::kAnd:
      return BoolValue(std::all_of(v.begin(), v.end(), [](const SymValue& x) { return x.integer != 0; }));
    case SymKind::kOr:
      return BoolValue(std::any_of(v.begin(), v.end(), [](const SymValue& x) { return x.integer != 0; }));
    case SymKind::kNot: return BoolValue(v[0].integer == 0);
    default: return std::nullopt;
  }
}

std::optional<int64_t> Evaluate(Sym a, const Assignment& value) {
  auto v = EvaluateNode(a, value);
  if (!v || v->type != SymType::kInt || !FitsInt64(v->integer)) return std::nullopt;
  return static_cast<int64_t>(v->integer);
}

std::optional<bool> EvaluateBool(Sym a, const Assignment& value) {
  auto v = EvaluateNode(a, value);
  if (!v || v->type != SymType::kBool) return std::nullopt;
  return v->integer != 0;
}

std::optional<double> EvaluateFloat(Sym a, const Assignment& value) {
  auto v = EvaluateNode(a, value);
  if (!v || v->type == SymType::kBool) return std::nullopt;
  return v->AsDouble();
}

Sym Substitute(Sym a, const std::function<std::optional<Sym>(Sym symbol)>& replace) {
  absl::flat_hash_map<const SymNode*, Sym> memo;
  const auto walk = [&](auto& self, Sym s) -> Sym {
    if (s.is_constant() || (s.operands().empty() && s.kind() != SymKind::kSymbol)) return s;
    if (auto it = memo.find(NodeOf(s)); it != memo.end()) return it->second;
    Sym r = s;
    if (s.kind() == SymKind::kSymbol) {
      r = replace(s).value_or(s);
    } else {
      std::vector<Sym> ops;
      bool changed = false;
      for (Sym o : s.operands()) {
        ops.push_back(self(self, o));
        changed |= ops.back() != o;
      }
      if (changed) r = Build(s.kind(), ops, s.name());
    }
    memo.emplace(NodeOf(s), r);
    return r;
  };
  return walk(walk, a);
}

}  // namespace slipway::ir
