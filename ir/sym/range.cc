// Interval analysis. Intervals are of mathematical integers cut to int64; every bound is rounded outwards, so a range
// may be loose but never excludes a value the expression can take.
#include <algorithm>

#include "ir/sym.h"
#include "ir/sym/internal.h"

namespace slipway::ir {

namespace {

constexpr Int128 kInfinity = (Int128{1} << 126) + (Int128{1} << 125);  // beyond any product of two int64

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

}  // namespace

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

}  // namespace slipway::ir
