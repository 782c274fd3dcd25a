// The simplifications made while an expression is built. Everything a program knows about its sizes rests on these
// rules, so each one here holds for every integer value of the symbols for which the expression is defined (a division
// by zero is undefined; cancelling it away is allowed).
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "ir/sym.h"
#include "ir/sym/internal.h"

namespace slipway::ir {

namespace {

Sym BuildInexact(SymKind kind, absl::Span<const Sym> operands);

// The quotient floor(a/b) where ranges leave one value only.
std::optional<int64_t> SingleQuotient(Sym a, Sym b) {
  const SymRange q = FloorDivRange(RangeOf(a), RangeOf(b));
  if (q.min != q.max || q.min == kInt64Min || q.max == kInt64Max) return std::nullopt;
  return q.min;
}

// Folds an operation on constants (floats and booleans included) when the result is representable.
std::optional<Sym> FoldConstants(SymKind kind, absl::Span<const Sym> operands) {
  absl::InlinedVector<SymValue, 4> values;
  for (Sym s : operands) {
    auto v = ConstantValue(s);
    if (!v) return std::nullopt;
    values.push_back(*v);
  }
  auto result = EvaluateOperation(kind, values);
  if (!result) return std::nullopt;
  switch (result->type) {
    case SymType::kInt:
      if (!FitsInt64(result->integer)) return std::nullopt;
      return Sym(static_cast<int64_t>(result->integer));
    case SymType::kFloat:
      if (!std::isfinite(result->real)) return std::nullopt;
      return MakeFloat(result->real);
    case SymType::kBool: return MakeBool(result->integer != 0);
    case SymType::kUnknown: return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

bool AllIntegers(absl::Span<const Sym> operands) {
  return std::all_of(operands.begin(), operands.end(), [](Sym s) { return TypeOf(s) == SymType::kInt; });
}

namespace {

// Sums and products with a float inside are evaluated left to right on doubles, so nothing is reordered; only leading
// constants are folded.
Sym BuildInexact(SymKind kind, absl::Span<const Sym> operands) {
  std::vector<Sym> ops;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (i == 0 && IsKind(operands[0], kind) && TypeOf(operands[0]) != SymType::kInt) {
      ops.assign(operands[0].operands().begin(), operands[0].operands().end());
    } else {
      ops.push_back(operands[i]);
    }
  }
  while (ops.size() > 1) {
    auto folded = FoldConstants(kind, absl::MakeConstSpan(ops).subspan(0, 2));
    if (!folded) break;
    ops.erase(ops.begin());
    ops[0] = *folded;
  }
  if (kind == SymKind::kMul && ops.size() > 1 && ops[0].is(1)) ops.erase(ops.begin());
  if (ops.size() == 1) return ops[0];
  return Intern(kind, ops);
}

}  // namespace

Sym BuildMinMax(SymKind kind, absl::Span<const Sym> operands) {
  if (!AllIntegers(operands)) {
    if (operands.size() == 1) return operands[0];
    if (auto folded = FoldConstants(kind, operands)) return *folded;
    return Intern(kind, operands);
  }
  const bool max = kind == SymKind::kMax;
  std::optional<int64_t> constant;
  std::vector<Sym> ops;
  const auto push = [&](Sym s) {
    if (auto c = s.constant()) {
      constant = !constant ? *c : max ? std::max(*constant, *c) : std::min(*constant, *c);
    } else {
      ops.push_back(s);
    }
  };
  for (Sym s : operands) {
    if (IsIntegerKind(s, kind)) {
      for (Sym inner : s.operands()) push(inner);
    } else {
      push(s);
    }
  }
  std::sort(ops.begin(), ops.end(), [](Sym a, Sym b) { return CompareSyms(a, b) < 0; });
  ops.erase(std::unique(ops.begin(), ops.end()), ops.end());
  if (constant) ops.insert(ops.begin(), Sym(*constant));
  // Drop what another operand always dominates. Pairs only while they are few.
  const auto dominates = [&](Sym winner, Sym loser) {
    const SymRange w = RangeOf(winner);
    const SymRange l = RangeOf(loser);
    if (max ? (w.min >= l.max && l.max != kInt64Max) : (w.max <= l.min && l.min != kInt64Min)) return true;
    if (winner.is_constant() || loser.is_constant()) return false;
    const SymRange d = RangeOf(max ? winner - loser : loser - winner);
    return d.min >= 0;
  };
  constexpr size_t kMaxPairs = 16;
  std::vector<bool> dropped(ops.size(), false);
  for (size_t i = 0; i < ops.size(); ++i) {
    for (size_t j = 0; j < ops.size() && !dropped[i]; ++j) {
      if (i == j || dropped[j]) continue;
      if (ops.size() > kMaxPairs && i != 0 && j != 0) continue;
      dropped[i] = dominates(ops[j], ops[i]);
    }
  }
  std::vector<Sym> kept;
  for (size_t i = 0; i < ops.size(); ++i) {
    if (!dropped[i]) kept.push_back(ops[i]);
  }
  if (kept.size() == 1) return kept[0];
  // int64's own extreme is the identity.
  if (kept[0].is(max ? kInt64Min : kInt64Max)) {
    kept.erase(kept.begin());
    if (kept.size() == 1) return kept[0];
  }
  return Intern(kind, kept);
}

namespace {

Sym BuildLogic(SymKind kind, absl::Span<const Sym> operands) {
  const bool absorbing = kind == SymKind::kOr;
  std::vector<Sym> ops;
  absl::flat_hash_set<Sym> seen;
  const auto push = [&](Sym s) {
    if (IsKind(s, SymKind::kBool) && s.bool_value() != absorbing) return;
    if (seen.insert(s).second) ops.push_back(s);
  };
  for (Sym s : operands) {
    if (IsKind(s, kind)) {
      for (Sym inner : s.operands()) push(inner);
    } else {
      push(s);
    }
  }
  for (Sym s : ops) {
    if (IsKind(s, SymKind::kBool)) return s;
  }
  if (ops.empty()) return MakeBool(!absorbing);
  if (ops.size() == 1 && TypeOf(ops[0]) == SymType::kBool) return ops[0];
  return Intern(kind, ops);
}

}  // namespace

bool IsRelation(SymKind kind) { return kind >= SymKind::kEq && kind <= SymKind::kGe; }

namespace {

SymKind Negated(SymKind kind) {
  switch (kind) {
    case SymKind::kEq: return SymKind::kNe;
    case SymKind::kNe: return SymKind::kEq;
    case SymKind::kLt: return SymKind::kGe;
    case SymKind::kLe: return SymKind::kGt;
    case SymKind::kGt: return SymKind::kLe;
    default: return SymKind::kLt;
  }
}

}  // namespace

Sym BuildNot(Sym a) {
  if (IsKind(a, SymKind::kBool)) return MakeBool(!a.bool_value());
  if (IsKind(a, SymKind::kNot) && TypeOf(a.operands()[0]) == SymType::kBool) return a.operands()[0];
  if (!a.is_constant() && IsRelation(a.kind())) {
    // Not (a < b) is a >= b for integers only: a NaN is on neither side.
    if (AllIntegers(a.operands()) || a.kind() == SymKind::kEq || a.kind() == SymKind::kNe) {
      return Intern(Negated(a.kind()), a.operands());
    }
  }
  return Intern(SymKind::kNot, {a});
}

Sym BuildRelation(SymKind kind, Sym a, Sym b) {
  if (auto folded = FoldConstants(kind, {a, b})) return *folded;
  if (TypeOf(a) == SymType::kInt && TypeOf(b) == SymType::kInt) {
    switch (kind) {
      case SymKind::kEq:
      case SymKind::kNe:
        if (ProvablyEqual(a, b)) return MakeBool(kind == SymKind::kEq);
        if (ProvablyDifferent(a, b)) return MakeBool(kind == SymKind::kNe);
        break;
      case SymKind::kLt:
      case SymKind::kGe:
        if (ProvablyLess(a, b)) return MakeBool(kind == SymKind::kLt);
        if (ProvablyLessEqual(b, a)) return MakeBool(kind == SymKind::kGe);
        break;
      default:
        if (ProvablyLessEqual(a, b)) return MakeBool(kind == SymKind::kLe);
        if (ProvablyLess(b, a)) return MakeBool(kind == SymKind::kGt);
        break;
    }
  }
  return Intern(kind, {a, b});
}

namespace {

// Rounding of something that is an integer already, or that ToFloat made of an integer doubles hold exactly.
std::optional<Sym> UnroundedInteger(Sym a) {
  if (TypeOf(a) == SymType::kInt) return a;
  if (IsKind(a, SymKind::kToFloat) && TypeOf(a.operands()[0]) == SymType::kInt) {
    constexpr int64_t kExact = int64_t{1} << 53;
    const SymRange r = RangeOf(a.operands()[0]);
    if (r.min >= -kExact && r.max <= kExact) return a.operands()[0];
  }
  return std::nullopt;
}

}  // namespace

Sym BuildAdd(absl::Span<const Sym> operands) {
  if (!AllIntegers(operands)) return BuildInexact(SymKind::kAdd, operands);
  if (operands.size() == 1) return operands[0];
  LinearForm form;
  for (Sym s : operands) form.Append(s);
  return FromLinear(std::move(form));
}

// The normal form of a product: constants first, then powers, and a sum times a constant multiplied out. Each step
// needs what the steps before it took away.
Sym BuildMul(absl::Span<const Sym> operands) {
  if (!AllIntegers(operands)) return BuildInexact(SymKind::kMul, operands);
  if (operands.size() == 1) return operands[0];
  std::vector<int64_t> constants;
  std::vector<Factor> factors;
  bool zero = false;
  const auto push = [&](Sym s) {
    if (auto c = s.constant()) {
      zero |= *c == 0;
      if (*c != 1) constants.push_back(*c);
    } else {
      auto [base, exponent] = BaseAndExponent(s);
      factors.push_back({base, exponent});
    }
  };
  for (Sym s : operands) {
    if (IsIntegerKind(s, SymKind::kMul)) {
      for (Sym inner : s.operands()) push(inner);
    } else {
      push(s);
    }
  }
  if (zero) return Sym(0);

  // The constants' product, or nullopt beyond int64. Magnitudes only grow, so the order does not matter.
  const auto coefficient_of = [&]() -> std::optional<int64_t> {
    Int128 magnitude = 1;
    bool negative = false;
    for (int64_t c : constants) {
      negative ^= c < 0;
      magnitude *= static_cast<Int128>(Magnitude(c));
      if (magnitude > Int128{1} << 63) return std::nullopt;
    }
    const Int128 c = negative ? -magnitude : magnitude;
    if (!FitsInt64(c)) return std::nullopt;
    return static_cast<int64_t>(c);
  };

  SortAndMergeFactors(&factors);
  if (factors.size() == 1 && factors[0].exponent == 1 && IsIntegerKind(factors[0].base, SymKind::kAdd)) {
    if (auto c = coefficient_of()) {
      if (*c == 1) return factors[0].base;
      LinearForm form;
      form.Append(factors[0].base, *c);
      // A negated sum is a sum even where a total does not fit; otherwise the number of pieces would not be bounded.
      const bool fits = FitsInt64(form.constant) && std::all_of(form.terms.begin(), form.terms.end(),
                                                                [](auto& t) { return FitsInt64(t.coefficient); });
      if (fits || *c == -1) return FromLinear(std::move(form));
    }
  }
  // Products of sums stay products (their ranges and divisors are better known so), each sum without its content.
  bool changed = false;
  for (size_t i = 0, n = factors.size(); i < n; ++i) {
    if (!IsIntegerKind(factors[i].base, SymKind::kAdd)) continue;
    const int64_t content = ContentOf(factors[i].base);
    if (content == 1) continue;
    const Sym power = BuildPow(Sym(content), Sym(factors[i].exponent));
    factors[i].base = DivideExactly(factors[i].base, content);
    changed = true;
    push(power);
  }
  if (changed) SortAndMergeFactors(&factors);

  std::vector<Sym> ops;
  if (auto c = coefficient_of()) {
    if (factors.empty()) return Sym(*c);
    if (*c != 1) ops.push_back(Sym(*c));
  } else {
    bool negative = false;
    std::vector<int64_t> magnitudes;
    for (int64_t c : constants) {
      negative ^= c < 0;
      if (c == -1) continue;
      if (c == kInt64Min) {
        magnitudes.push_back(int64_t{1} << 62);
        magnitudes.push_back(2);
      } else {
        magnitudes.push_back(c < 0 ? -c : c);
      }
    }
    std::sort(magnitudes.begin(), magnitudes.end());
    if (negative) ops.push_back(Sym(-1));
    for (int64_t m : magnitudes) ops.push_back(Sym(m));
  }
  for (const Factor& f : factors) ops.push_back(InternPower(f));
  if (ops.size() == 1) return ops[0];
  return Intern(SymKind::kMul, ops);
}

Sym BuildPow(Sym base, Sym exponent) {
  const auto opaque = [&] { return Intern(SymKind::kPow, {base, exponent}); };
  if (TypeOf(base) != SymType::kInt || TypeOf(exponent) != SymType::kInt) {
    const auto numeric = [](Sym s) { return TypeOf(s) == SymType::kInt || TypeOf(s) == SymType::kFloat; };
    return numeric(base) && numeric(exponent) ? Build(SymKind::kFloatPow, {base, exponent}) : opaque();
  }
  const auto k = exponent.constant();
  if (!k) return base.is(1) ? Sym(1) : opaque();
  if (*k == 0) return Sym(1);
  if (*k == 1) return base;
  if (base.is_constant()) {
    auto folded = FoldConstants(SymKind::kPow, {base, exponent});
    return folded ? *folded : opaque();
  }
  if (*k < 0 || *k > kMaxExponent) return opaque();
  if (IsIntegerKind(base, SymKind::kMul)) {
    std::vector<Sym> powers;
    for (Sym s : base.operands()) powers.push_back(BuildPow(s, exponent));
    return BuildMul(powers);
  }
  if (IsIntegerKind(base, SymKind::kPow)) {
    const Sym inner = base.operands()[1];
    if (auto e = inner.constant(); e && *e >= 2 && *e <= kMaxExponent / *k) {
      return BuildPow(base.operands()[0], Sym(*e * *k));
    }
  }
  if (IsIntegerKind(base, SymKind::kAdd)) {
    const int64_t content = ContentOf(base);
    if (content != 1) {
      return BuildMul({BuildPow(Sym(content), exponent), BuildPow(DivideExactly(base, content), exponent)});
    }
  }
  return opaque();
}

Sym BuildFloorDiv(Sym a, Sym b) {
  const auto opaque = [&] { return Intern(SymKind::kFloorDiv, {a, b}); };
  if (TypeOf(a) != SymType::kInt || TypeOf(b) != SymType::kInt || b.is(0)) return opaque();
  if (a.is(0)) return Sym(0);
  if (b.is(1)) return a;
  if (b.is(-1)) return BuildMul({Sym(-1), a});
  if (a == b) return Sym(1);
  if (a.is_constant() && b.is_constant()) {
    auto q = FloorDivConstants(*a.constant(), *b.constant());
    return q ? Sym(*q) : opaque();
  }
  if (LeadsNegative(b) && !b.is(kInt64Min)) {
    const Sym negated = BuildMul({Sym(-1), b});
    if (!LeadsNegative(negated)) return BuildFloorDiv(BuildMul({Sym(-1), a}), negated);
  }
  if (auto q = SingleQuotient(a, b)) return Sym(*q);
  Sym common;
  if (Sym x = a, y = b; CancelCommon(&x, &y, &common)) return BuildFloorDiv(x, y);
  if (auto split = SplitMultiples(a, b)) return BuildAdd({split->quotient, BuildFloorDiv(split->rest, b)});
  if (b.is_constant() && *b.constant() > 0) {
    const int64_t c = *b.constant();
    LinearForm form;
    form.Append(a);
    // floor((g*x + k) / (g*d)) is floor((x + floor(k/g)) / d).
    if (const int64_t g = CommonCoefficient(form, c); g > 1) {
      for (SymTerm& t : form.terms) t.coefficient /= g;
      form.constant = FloorDiv128(form.constant, g);
      return BuildFloorDiv(FromLinear(std::move(form)), Sym(c / g));
    }
    // floor((floor(x/d) + k) / c) is floor((x + k*d) / (c*d)), for positive d.
    if (form.terms.size() == 1 && form.terms[0].coefficient == 1 && FitsInt64(form.constant) &&
        IsIntegerKind(form.terms[0].unit, SymKind::kFloorDiv)) {
      const Sym inner = form.terms[0].unit;
      int64_t product, shift;
      if (auto d = inner.operands()[1].constant();
          d && *d > 0 && !__builtin_mul_overflow(*d, c, &product) &&
          !__builtin_mul_overflow(*d, static_cast<int64_t>(form.constant), &shift)) {
        return BuildFloorDiv(BuildAdd({inner.operands()[0], Sym(shift)}), Sym(product));
      }
    }
  }
  // floor(floor(x/y) / b) is floor(x / (y*b)) for positive y and b.
  if (IsIntegerKind(a, SymKind::kFloorDiv) && RangeOf(b).min >= 1 && RangeOf(a.operands()[1]).min >= 1) {
    return BuildFloorDiv(a.operands()[0], BuildMul({a.operands()[1], b}));
  }
  return opaque();
}

Sym BuildCeilDiv(Sym a, Sym b) {
  const auto opaque = [&] { return Intern(SymKind::kCeilDiv, {a, b}); };
  if (TypeOf(a) != SymType::kInt || TypeOf(b) != SymType::kInt || b.is(0)) return opaque();
  if (a.is(0)) return Sym(0);
  if (a == b) return Sym(1);
  if (b.is_constant() && a.is_constant()) {
    auto folded = FoldConstants(SymKind::kCeilDiv, {a, b});
    return folded ? *folded : opaque();
  }
  if (b.is_constant() && *b.constant() < 0 && !b.is(kInt64Min)) {
    return BuildCeilDiv(BuildMul({Sym(-1), a}), Sym(-*b.constant()));
  }
  // The form torch writes.
  if (RangeOf(b).min >= 1) return BuildFloorDiv(BuildAdd({a, b, Sym(-1)}), b);
  return opaque();
}

Sym BuildMod(Sym a, Sym b) {
  const auto opaque = [&] { return Intern(SymKind::kMod, {a, b}); };
  if (TypeOf(a) != SymType::kInt || TypeOf(b) != SymType::kInt || b.is(0)) return opaque();
  if (a.is(0) || b.is(1) || b.is(-1) || a == b) return Sym(0);
  if (a.is_constant() && b.is_constant()) {
    auto folded = FoldConstants(SymKind::kMod, {a, b});
    return folded ? *folded : opaque();
  }
  if (LeadsNegative(b) && !b.is(kInt64Min)) {
    const Sym negated = BuildMul({Sym(-1), b});
    if (!LeadsNegative(negated)) return BuildMul({Sym(-1), BuildMod(BuildMul({Sym(-1), a}), negated)});
  }
  if (auto q = SingleQuotient(a, b)) return BuildAdd({a, BuildMul({Sym(-1), Sym(*q), b})});
  Sym common;
  if (Sym x = a, y = b; CancelCommon(&x, &y, &common)) return BuildMul({common, BuildMod(x, y)});
  // Multiples of b drop out, unless that makes a dividend known to be non-negative possibly negative (torch's own Mod
  // is only defined on non-negative ones).
  const bool non_negative = RangeOf(a).min >= 0;
  if (auto split = SplitMultiples(a, b)) {
    if (!non_negative || RangeOf(split->rest).min >= 0) return BuildMod(split->rest, b);
  }
  if (b.is_constant() && *b.constant() > 0) {
    const int64_t c = *b.constant();
    LinearForm form;
    form.Append(a);
    // Mod(g*x + k, g*d) is g*Mod(x + floor(k/g), d) + Mod(k, g).
    if (const int64_t g = CommonCoefficient(form, c); g > 1) {
      for (SymTerm& t : form.terms) t.coefficient /= g;
      const Int128 k = form.constant;
      form.constant = FloorDiv128(k, g);
      const Sym remainder(static_cast<int64_t>(k - form.constant * g));
      return BuildAdd({BuildMul({Sym(g), BuildMod(FromLinear(std::move(form)), Sym(c / g))}), remainder});
    }
    LinearForm reduced = form;
    for (SymTerm& t : reduced.terms) t.coefficient %= c;
    reduced.constant %= c;
    if (const Sym r = FromLinear(std::move(reduced)); r != a && (!non_negative || RangeOf(r).min >= 0)) {
      return BuildMod(r, b);
    }
    // Mod(Mod(x, m), c) is Mod(x, c) when c divides m.
    if (IsIntegerKind(a, SymKind::kMod)) {
      if (auto m = a.operands()[1].constant(); m && *m > 0 && *m % c == 0) return BuildMod(a.operands()[0], b);
    }
  }
  return opaque();
}

Sym Build(SymKind kind, absl::Span<const Sym> operands, std::string_view name) {
  switch (kind) {
    case SymKind::kAdd: return BuildAdd(operands);
    case SymKind::kMul: return BuildMul(operands);
    case SymKind::kPow: return BuildPow(operands[0], operands[1]);
    case SymKind::kFloorDiv: return BuildFloorDiv(operands[0], operands[1]);
    case SymKind::kCeilDiv: return BuildCeilDiv(operands[0], operands[1]);
    case SymKind::kMod: return BuildMod(operands[0], operands[1]);
    case SymKind::kMax:
    case SymKind::kMin: return BuildMinMax(kind, operands);
    case SymKind::kAnd:
    case SymKind::kOr: return BuildLogic(kind, operands);
    case SymKind::kNot: return BuildNot(operands[0]);
    case SymKind::kEq:
    case SymKind::kNe:
    case SymKind::kLt:
    case SymKind::kLe:
    case SymKind::kGt:
    case SymKind::kGe: return BuildRelation(kind, operands[0], operands[1]);
    case SymKind::kWhere:
      if (IsKind(operands[0], SymKind::kBool)) return operands[operands[0].bool_value() ? 1 : 2];
      if (operands[1] == operands[2]) return operands[1];
      return Intern(kind, operands);
    case SymKind::kTruncToInt:
    case SymKind::kFloorToInt:
    case SymKind::kCeilToInt:
    case SymKind::kRoundToInt:
      if (auto exact = UnroundedInteger(operands[0])) return *exact;
      [[fallthrough]];
    case SymKind::kToFloat:
    case SymKind::kTruncToFloat:
    case SymKind::kFloatTrueDiv:
    case SymKind::kIntTrueDiv:
    case SymKind::kFloatPow:
      if (auto folded = FoldConstants(kind, operands)) return *folded;
      return Intern(kind, operands);
    case SymKind::kCall: return Intern(kind, operands, name);
    case SymKind::kInteger:
    case SymKind::kFloat:
    case SymKind::kBool:
    case SymKind::kSymbol: break;
  }
  std::fputs("slipway: a leaf is not an operation\n", stderr);
  std::abort();
}

}  // namespace slipway::ir
