// Symbolic integers, what is known about a value: evaluation under an assignment, interval analysis, and the proofs of
// equality and order that shape inference stands on. Intervals are of mathematical integers cut to int64; every bound
// is rounded outwards, so a range may be loose but never excludes a value the expression can take.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "ir/sym.h"
#include "ir/sym_internal.h"

namespace slipway::ir {
namespace {

constexpr Int128 kInfinity = (Int128{1} << 126) + (Int128{1} << 125);  // beyond any product of two int64

// ---- values ----

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

// ---- intervals of integers ----

bool NegInf(int64_t min) { return min == kInt64Min; }
bool PosInf(int64_t max) { return max == kInt64Max; }

int64_t Clamp(Int128 v) { return v < kInt64Min ? kInt64Min : v > kInt64Max ? kInt64Max : static_cast<int64_t>(v); }

// Ends as 128-bit numbers with ±kInfinity.
Int128 Lower(SymRange r) { return NegInf(r.min) ? -kInfinity : Int128{r.min}; }
Int128 Upper(SymRange r) { return PosInf(r.max) ? kInfinity : Int128{r.max}; }

Int128 ExtendedMul(Int128 a, Int128 b) {
  if (a == 0 || b == 0) return 0;
  const bool infinite = a == kInfinity || a == -kInfinity || b == kInfinity || b == -kInfinity;
  if (infinite) return (a < 0) == (b < 0) ? kInfinity : -kInfinity;
  return a * b;
}

// floor(a / b) in the limit, b not 0.
Int128 ExtendedFloorDiv(Int128 a, Int128 b) {
  const bool a_infinite = a == kInfinity || a == -kInfinity;
  const bool b_infinite = b == kInfinity || b == -kInfinity;
  if (b_infinite) return a == 0 || (a < 0) == (b < 0) ? 0 : -1;
  if (a_infinite) return (a < 0) == (b < 0) ? kInfinity : -kInfinity;
  const Int128 q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

SymRange Hull(std::initializer_list<Int128> corners) { return {Clamp(std::min(corners)), Clamp(std::max(corners))}; }

SymRange Union(SymRange a, SymRange b) { return {std::min(a.min, b.min), std::max(a.max, b.max)}; }

// Both hold. An expression that is undefined everywhere can make them disjoint; then either says all there is.
SymRange Intersect(SymRange a, SymRange b) {
  const SymRange r{std::max(a.min, b.min), std::min(a.max, b.max)};
  return r.min <= r.max ? r : a;
}

SymRange MulRange(SymRange a, SymRange b) {
  return Hull({ExtendedMul(Lower(a), Lower(b)), ExtendedMul(Lower(a), Upper(b)), ExtendedMul(Upper(a), Lower(b)),
               ExtendedMul(Upper(a), Upper(b))});
}

// A sum of intervals times coefficients, exact in 128 bits; what overflows is unbounded.
class SumRange {
 public:
  void Add(Int128 coefficient, SymRange r) {
    if (coefficient == 0) return;
    if (coefficient < 0) {
      AddEnd(coefficient, r.max, PosInf(r.max), &min_, &min_unbounded_);
      AddEnd(coefficient, r.min, NegInf(r.min), &max_, &max_unbounded_);
    } else {
      AddEnd(coefficient, r.min, NegInf(r.min), &min_, &min_unbounded_);
      AddEnd(coefficient, r.max, PosInf(r.max), &max_, &max_unbounded_);
    }
  }
  void Shift(Int128 min, Int128 max) {
    min_unbounded_ |= __builtin_add_overflow(min_, min, &min_);
    max_unbounded_ |= __builtin_add_overflow(max_, max, &max_);
  }
  // The bounds of the integer that is the sum divided by `divisor` (positive).
  SymRange Get(Int128 divisor = 1) const {
    SymRange r;
    if (!min_unbounded_) r.min = Clamp(min_ / divisor + (min_ % divisor > 0 ? 1 : 0));
    if (!max_unbounded_) r.max = Clamp(max_ / divisor - (max_ % divisor < 0 ? 1 : 0));
    return r;
  }

 private:
  static void AddEnd(Int128 coefficient, int64_t end, bool unbounded, Int128* total, bool* total_unbounded) {
    Int128 product = 0;
    if (unbounded || __builtin_mul_overflow(coefficient, Int128{end}, &product) ||
        __builtin_add_overflow(*total, product, total)) {
      *total_unbounded = true;
    }
  }
  Int128 min_ = 0;
  Int128 max_ = 0;
  bool min_unbounded_ = false;
  bool max_unbounded_ = false;
};

SymRange LinearRange(const LinearForm& form) {
  SumRange sum;
  for (const SymTerm& t : form.terms) sum.Add(t.coefficient, RangeOf(t.unit));
  sum.Shift(form.constant, form.constant);
  return sum.Get();
}

bool HasProductOfSums(const LinearForm& form) {
  const auto is_sum = [](Sym s) {
    return IsIntegerKind(s, SymKind::kAdd) ||
           (IsIntegerKind(s, SymKind::kPow) && IsIntegerKind(s.operands()[0], SymKind::kAdd));
  };
  return std::any_of(form.terms.begin(), form.terms.end(), [&](const SymTerm& t) {
    if (is_sum(t.unit)) return true;
    if (!IsIntegerKind(t.unit, SymKind::kMul)) return false;
    return std::any_of(t.unit.operands().begin(), t.unit.operands().end(), is_sum);
  });
}

// Product of a monomial's factors with sums multiplied out; nullopt when that is too large.
std::optional<LinearForm> ExpandUnit(Sym unit) {
  LinearForm out;
  out.constant = 1;
  const auto times = [&](Sym s) {
    LinearForm factor;
    factor.Append(s);
    auto product = MultiplyLinear(out, factor, kMaxExpandedTerms);
    if (product) out = std::move(*product);
    return product.has_value();
  };
  const auto factors = IsIntegerKind(unit, SymKind::kMul) ? unit.operands() : absl::MakeConstSpan(&unit, 1);
  for (Sym f : factors) {
    if (IsIntegerKind(f, SymKind::kPow) && IsIntegerKind(f.operands()[0], SymKind::kAdd)) {
      const auto k = f.operands()[1].constant();
      if (!k || *k < 0 || *k > 8) return std::nullopt;
      for (int64_t i = 0; i < *k; ++i) {
        if (!times(f.operands()[0])) return std::nullopt;
      }
    } else if (!times(f)) {
      return std::nullopt;
    }
  }
  return out;
}

std::optional<LinearForm> Expand(const LinearForm& form) {
  LinearForm out;
  out.constant = form.constant;
  for (const SymTerm& t : form.terms) {
    auto expanded = ExpandUnit(t.unit);
    if (!expanded) return std::nullopt;
    for (const SymTerm& e : expanded->terms) out.Append(e.unit, e.coefficient * t.coefficient);
    out.constant += expanded->constant * t.coefficient;
    if (out.terms.size() > kMaxExpandedTerms) return std::nullopt;
  }
  out.Canonicalize();
  return out;
}

// A sum known as (form + slack) / divisor, slack being an interval.
struct ScaledSum {
  LinearForm form;
  Int128 slack_min = 0;
  Int128 slack_max = 0;
  Int128 divisor = 1;

  SymRange Range() const {
    SumRange sum;
    for (const SymTerm& t : form.terms) sum.Add(t.coefficient, RangeOf(t.unit));
    sum.Shift(form.constant + slack_min, form.constant + slack_max);
    return sum.Get(divisor);
  }
};

constexpr Int128 kMaxScaledCoefficient = Int128{1} << 50;

bool IsFloorByConstant(Sym unit) {
  if (!IsIntegerKind(unit, SymKind::kFloorDiv)) return false;
  const auto c = unit.operands()[1].constant();
  return c && *c > 0 && *c < kMaxScaledCoefficient;
}

// k*floor(p/c) is k*(p - r)/c with r in [0, c-1]: multiplying the sum by c turns it into k*p - k*r, where p's terms may
// cancel against the others. False when the numbers grow too large.
bool EliminateFloor(ScaledSum* sum, size_t at) {
  const auto small = [](Int128 v) { return v < kMaxScaledCoefficient && v > -kMaxScaledCoefficient; };
  const Sym floor = sum->form.terms[at].unit;
  const Int128 k = sum->form.terms[at].coefficient;
  const Int128 c = *floor.operands()[1].constant();
  bool fits = small(sum->form.constant) && small(sum->slack_min) && small(sum->slack_max) && small(sum->divisor);
  for (const SymTerm& t : sum->form.terms) fits = fits && small(t.coefficient);
  if (!fits) return false;
  ScaledSum next;
  for (size_t i = 0; i < sum->form.terms.size(); ++i) {
    if (i != at) next.form.terms.push_back({sum->form.terms[i].unit, sum->form.terms[i].coefficient * c});
  }
  next.form.constant = sum->form.constant * c;
  next.form.Append(floor.operands()[0], k);
  next.form.Canonicalize();
  const Int128 slack = -k * (c - 1);
  next.slack_min = sum->slack_min * c + std::min<Int128>(slack, 0);
  next.slack_max = sum->slack_max * c + std::max<Int128>(slack, 0);
  next.divisor = sum->divisor * c;
  *sum = std::move(next);
  return true;
}

// Tightens `range` by eliminating floors, each one first in turn and then what follows: s0 - 2*floor((s0 + 2)/3) is
// found non-negative for s0 >= 2.
SymRange EliminateFloors(const LinearForm& form, SymRange range) {
  constexpr size_t kMaxTerms = 32;
  constexpr int kMaxStarts = 4;
  constexpr int kMaxRounds = 4;
  if (form.terms.size() > kMaxTerms) return range;
  int starts = 0;
  for (size_t i = 0; i < form.terms.size() && starts < kMaxStarts; ++i) {
    if (!IsFloorByConstant(form.terms[i].unit)) continue;
    ++starts;
    ScaledSum sum{form};
    size_t at = i;
    for (int round = 0; round < kMaxRounds && EliminateFloor(&sum, at); ++round) {
      range = Intersect(range, sum.Range());
      for (at = 0; at < sum.form.terms.size() && !IsFloorByConstant(sum.form.terms[at].unit);) ++at;
      if (at == sum.form.terms.size()) break;
    }
  }
  return range;
}

SymRange AddRange(Sym s) {
  LinearForm form;
  form.Append(s);
  SymRange range = LinearRange(form);
  if (NodeOf(s)->plain_linear || (range.min == range.max && !NegInf(range.min) && !PosInf(range.max))) return range;
  if (HasProductOfSums(form)) {
    if (auto expanded = Expand(form)) {
      range = Intersect(range, LinearRange(*expanded));
      form = std::move(*expanded);
    }
  }
  return EliminateFloors(form, range);
}

SymRange PowRange(SymRange base, SymRange exponent) {
  const auto power = [](Int128 b, int64_t e) -> Int128 {
    if (b == kInfinity || b == -kInfinity) return e == 0 ? 1 : (b > 0 || e % 2 == 0) ? kInfinity : -kInfinity;
    auto v = PowValue(b, e);
    if (v && v->integer < kInfinity && v->integer > -kInfinity) return v->integer;
    return b > 0 || e % 2 == 0 ? kInfinity : -kInfinity;
  };
  if (exponent.min == exponent.max && exponent.min >= 0 && !PosInf(exponent.max)) {
    const int64_t e = exponent.min;
    const Int128 low = power(Lower(base), e);
    const Int128 high = power(Upper(base), e);
    if (e % 2 == 0 && base.min < 0 && base.max > 0) return Hull({0, low, high});
    return Hull({low, high});
  }
  if (base.min >= 1 && exponent.min >= 0) {
    const Int128 high =
        PosInf(exponent.max) ? (base.max == 1 ? Int128{1} : kInfinity) : power(Upper(base), exponent.max);
    return Hull({power(base.min, exponent.min), high});
  }
  return {};
}

SymRange ModRange(SymRange a, SymRange b) {
  // The sign of the divisor: [0, b-1] or [b+1, 0].
  SymRange r{0, 0};
  if (b.max >= 1) r.max = PosInf(b.max) ? kInt64Max : b.max - 1;
  if (b.min <= -1) r.min = NegInf(b.min) ? kInt64Min : b.min + 1;
  if (b.max < 1 && b.min > -1) return {};
  if (a.min >= 0 && b.min >= 0) r.max = std::min(r.max, a.max);
  if (a.max <= 0 && b.max <= 0) r.min = std::max(r.min, a.min);
  return r;
}

SymRange ComputeRange(Sym s) {
  const SymNode* n = NodeOf(s);
  const auto& ops = n->operands;
  switch (n->kind) {
    case SymKind::kSymbol: return n->store->symbols[n->symbol_index].range;
    case SymKind::kAdd: return AddRange(s);
    case SymKind::kMul: {
      SymRange r = RangeOf(ops[0]);
      for (size_t i = 1; i < ops.size(); ++i) r = MulRange(r, RangeOf(ops[i]));
      return r;
    }
    case SymKind::kPow: return PowRange(RangeOf(ops[0]), RangeOf(ops[1]));
    case SymKind::kFloorDiv: return FloorDivRange(RangeOf(ops[0]), RangeOf(ops[1]));
    case SymKind::kCeilDiv: {  // -floor(-a/b)
      const SymRange minus{-1, -1};
      return MulRange(minus, FloorDivRange(MulRange(minus, RangeOf(ops[0])), RangeOf(ops[1])));
    }
    case SymKind::kMod: return ModRange(RangeOf(ops[0]), RangeOf(ops[1]));
    case SymKind::kMax:
    case SymKind::kMin: {
      SymRange r = RangeOf(ops[0]);
      for (size_t i = 1; i < ops.size(); ++i) {
        const SymRange x = RangeOf(ops[i]);
        r = n->kind == SymKind::kMax ? SymRange{std::max(r.min, x.min), std::max(r.max, x.max)}
                                     : SymRange{std::min(r.min, x.min), std::min(r.max, x.max)};
      }
      return r;
    }
    case SymKind::kWhere: return Union(RangeOf(ops[1]), RangeOf(ops[2]));
    default: return {};
  }
}

// ---- the form proofs are made in ----

class ProofBuilder {
 public:
  Sym Get(Sym s) {
    if (s.is_constant() || NodeOf(s)->plain_linear) return s;
    if (auto it = memo_.find(s); it != memo_.end()) return it->second;
    const Sym r = Compute(s);
    memo_.emplace(s, r);
    return r;
  }

 private:
  Sym Compute(Sym s) {
    // Only arithmetic is rewritten. Conditions and rounded doubles stay atoms: rebuilding a relation would start the
    // next proof.
    switch (s.is_integer_valued() ? s.kind() : SymKind::kCall) {
      case SymKind::kAdd:
      case SymKind::kMul:
      case SymKind::kPow:
      case SymKind::kFloorDiv:
      case SymKind::kCeilDiv:
      case SymKind::kMod:
      case SymKind::kMax:
      case SymKind::kMin: break;
      default: return s;
    }
    std::vector<Sym> ops;
    for (Sym o : s.operands()) ops.push_back(Get(o));
    switch (s.kind()) {
      case SymKind::kAdd: {
        LinearForm sum;
        for (Sym o : ops) sum.Append(o);
        return FromLinear(std::move(sum));
      }
      case SymKind::kMul: return Product(ops);
      case SymKind::kPow: {
        const auto k = ops[1].constant();
        if (!k || *k < 2 || *k > 8 || !IsIntegerKind(ops[0], SymKind::kAdd)) return BuildPow(ops[0], ops[1]);
        return Product(std::vector<Sym>(static_cast<size_t>(*k), ops[0]));
      }
      case SymKind::kFloorDiv: return Quotient(ops[0], ops[1]);
      case SymKind::kCeilDiv: return Product({Sym(-1), Quotient(Product({Sym(-1), ops[0]}), ops[1])});
      case SymKind::kMod: {
        LinearForm difference;
        difference.Append(ops[0]);
        difference.Append(Product({ops[1], Quotient(ops[0], ops[1])}), -1);
        return FromLinear(std::move(difference));
      }
      default: return Build(s.kind(), ops);
    }
  }

  static Sym Product(const std::vector<Sym>& factors) {
    LinearForm product;
    product.constant = 1;
    for (Sym f : factors) {
      LinearForm x;
      x.Append(f);
      auto next = MultiplyLinear(product, x, kMaxExpandedTerms);
      if (!next) return BuildMul(factors);
      product = std::move(*next);
    }
    return FromLinear(std::move(product));
  }

  // floor(a/c) with every coefficient of the dividend left in [0, c).
  static Sym Quotient(Sym a, Sym b) {
    const auto c = b.constant();
    if (!c || *c <= 0) return BuildFloorDiv(a, b);
    LinearForm form;
    form.Append(a);
    LinearForm whole;
    LinearForm rest;
    const auto split = [&](Int128 v) {
      Int128 q = v / *c;
      return v % *c < 0 ? q - 1 : q;
    };
    for (const SymTerm& t : form.terms) {
      const Int128 q = split(t.coefficient);
      whole.Append(t.unit, q);
      rest.Append(t.unit, t.coefficient - q * *c);
    }
    whole.constant = split(form.constant);
    rest.constant = form.constant - whole.constant * *c;
    whole.Append(BuildFloorDiv(FromLinear(std::move(rest)), b));
    return FromLinear(std::move(whole));
  }

  absl::flat_hash_map<Sym, Sym> memo_;
};

// Whether the sum can be 0 as far as divisibility goes: g*x + k is never 0 when g does not divide k.
bool NeverZeroByDivisibility(Sym s) {
  if (!IsIntegerKind(s, SymKind::kAdd)) return false;
  LinearForm form;
  form.Append(s);
  uint64_t g = 0;
  for (const SymTerm& t : form.terms) {
    if (!FitsInt64(t.coefficient)) return false;
    g = std::gcd(g, static_cast<uint64_t>(t.coefficient < 0 ? -t.coefficient : t.coefficient));
  }
  return g != 0 && form.constant % static_cast<Int128>(g) != 0;
}

// Asks `decided` about the range of a - b, as it is and then in the form proofs are made in.
template <typename F>
bool ProveDifference(Sym a, Sym b, F decided) {
  if (TypeOf(a) != SymType::kInt || TypeOf(b) != SymType::kInt) return false;
  const Sym d = a - b;
  if (decided(d)) return true;
  const Sym form = ProofForm(d);
  return form != d && decided(form);
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

SymRange FloorDivRange(SymRange a, SymRange b) {
  std::optional<SymRange> out;
  const auto part = [&](Int128 low, Int128 high) {
    if (low > high) return;
    const SymRange r = Hull({ExtendedFloorDiv(Lower(a), low), ExtendedFloorDiv(Lower(a), high),
                             ExtendedFloorDiv(Upper(a), low), ExtendedFloorDiv(Upper(a), high)});
    out = out ? Union(*out, r) : r;
  };
  part(std::max<Int128>(Lower(b), 1), Upper(b));
  part(Lower(b), std::min<Int128>(Upper(b), -1));
  return out.value_or(SymRange{});
}

SymRange RangeOf(Sym a) {
  if (auto c = a.constant()) return {*c, *c};
  const SymNode* n = NodeOf(a);
  if (n->type != SymType::kInt) return {};
  if (n->kind == SymKind::kSymbol) return n->store->symbols[n->symbol_index].range;
  if (n->store->shared) return ComputeRange(a);
  if (n->range_epoch != n->store->range_epoch) {
    n->range = ComputeRange(a);
    n->range_epoch = n->store->range_epoch;
  }
  return n->range;
}

Sym ProofForm(Sym a) {
  constexpr uint32_t kMaxTreeSize = 512;
  if (a.is_constant() || NodeOf(a)->tree_size > kMaxTreeSize) return a;
  return ProofBuilder().Get(a);
}

bool ProvablyEqual(Sym a, Sym b) {
  if (a == b) return true;
  return ProveDifference(a, b, [](Sym d) { return RangeOf(d) == SymRange{0, 0}; });
}

bool ProvablyDifferent(Sym a, Sym b) {
  return ProveDifference(a, b, [](Sym d) {
    const SymRange r = RangeOf(d);
    return r.min > 0 || r.max < 0 || NeverZeroByDivisibility(d);
  });
}

bool ProvablyLess(Sym a, Sym b) {
  return ProveDifference(a, b, [](Sym d) { return RangeOf(d).max < 0; });
}

bool ProvablyLessEqual(Sym a, Sym b) {
  return ProveDifference(a, b, [](Sym d) { return RangeOf(d).max <= 0; });
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
