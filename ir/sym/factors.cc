// Sums as lists of terms and products as lists of factors: what they have in common, exact quotients, canonical order.
#include <algorithm>
#include <numeric>

#include "ir/sym.h"
#include "ir/sym/internal.h"

namespace slipway::ir {

uint64_t Magnitude(Int128 v) { return static_cast<uint64_t>(v < 0 ? -v : v); }

namespace {

struct FactorList {
  int64_t coefficient = 1;  // never 0
  std::vector<Factor> factors;
};

}  // namespace

Sym InternPower(const Factor& f) {
  if (f.exponent == 1) return f.base;
  return Intern(SymKind::kPow, {f.base, Sym(f.exponent)});
}

namespace {

// A product with coefficient; `unit` parts are canonical already.
Sym ScaledUnit(int64_t coefficient, Sym unit) {
  if (coefficient == 1) return unit;
  const bool multi = IsIntegerKind(unit, SymKind::kMul);
  if (IsIntegerKind(unit, SymKind::kAdd) || unit.is_constant() || (multi && unit.operands()[0].is_constant())) {
    return BuildMul({Sym(coefficient), unit});
  }
  absl::InlinedVector<Sym, 6> ops = {Sym(coefficient)};
  if (multi) {
    ops.insert(ops.end(), unit.operands().begin(), unit.operands().end());
  } else {
    ops.push_back(unit);
  }
  return Intern(SymKind::kMul, ops);
}

// Constant coefficient and the rest. A product whose constants do not multiply within int64 is its own unit.
std::pair<Sym, int64_t> UnitAndCoefficient(Sym s) {
  if (IsIntegerKind(s, SymKind::kMul)) {
    const SymNode* n = NodeOf(s);
    if (!n->unit.is(0)) return {n->unit, *n->operands[0].constant()};
  }
  return {s, 1};
}

}  // namespace

int64_t ContentOf(Sym sum) {
  uint64_t g = 0;
  bool negative = false;
  Sym last(0);
  for (Sym s : sum.operands()) {
    auto [unit, coefficient] = s.is_constant() ? std::pair(Sym(1), *s.constant()) : UnitAndCoefficient(s);
    if (unit == last) return negative ? -1 : 1;
    if (g == 0) negative = coefficient < 0;
    g = std::gcd(g, Magnitude(coefficient));
    last = unit;
  }
  if (g == 0 || g > static_cast<uint64_t>(kInt64Max)) g = 1;
  return negative ? -static_cast<int64_t>(g) : static_cast<int64_t>(g);
}

Sym DivideExactly(Sym sum, int64_t divisor) {
  LinearForm form;
  form.Append(sum);
  for (SymTerm& t : form.terms) t.coefficient /= divisor;
  form.constant /= divisor;
  return FromLinear(std::move(form));
}

void SortAndMergeFactors(std::vector<Factor>* factors) {
  if (factors->size() < 2) return;
  std::stable_sort(factors->begin(), factors->end(),
                   [](const Factor& a, const Factor& b) { return CompareSyms(a.base, b.base) < 0; });
  size_t out = 0;
  for (size_t i = 1; i < factors->size(); ++i) {
    Factor& last = (*factors)[out];
    const Factor& f = (*factors)[i];
    if (last.base == f.base && last.exponent + f.exponent <= kMaxExponent) {
      last.exponent += f.exponent;
    } else {
      (*factors)[++out] = f;
    }
  }
  factors->resize(out + 1);
}

namespace {

// What can be divided out of `s`: content, common monomials, and the rest as one more factor. s is not 0.
FactorList FactorsOf(Sym s) {
  FactorList out;
  if (auto c = s.constant()) {
    out.coefficient = *c;
    return out;
  }
  if (IsIntegerKind(s, SymKind::kMul)) {
    auto [unit, coefficient] = UnitAndCoefficient(s);
    if (IsIntegerKind(unit, SymKind::kMul) && unit.operands()[0].is_constant()) {  // constants overflow: an atom
      out.factors.push_back({s, 1});
      return out;
    }
    out.coefficient = coefficient;
    for (Sym f : FactorsOfUnit(unit)) {
      auto [base, exponent] = BaseAndExponent(f);
      out.factors.push_back({base, exponent});
    }
    return out;
  }
  if (IsIntegerKind(s, SymKind::kAdd)) {
    out.coefficient = ContentOf(s);
    if (out.coefficient != 1) s = DivideExactly(s, out.coefficient);
    std::vector<Factor> common;
    bool first = true;
    for (Sym term : s.operands()) {
      if (term.is_constant()) {
        common.clear();
        break;
      }
      FactorList f = FactorsOf(term);
      if (first) {
        common = std::move(f.factors);
        first = false;
        continue;
      }
      std::erase_if(common, [&](Factor& c) {
        auto it = std::find_if(f.factors.begin(), f.factors.end(), [&](const Factor& x) { return x.base == c.base; });
        if (it == f.factors.end()) return true;
        c.exponent = std::min(c.exponent, it->exponent);
        return false;
      });
      if (common.empty()) break;
    }
    if (!common.empty()) {
      LinearForm rest;
      for (Sym term : s.operands()) {
        FactorList f = FactorsOf(term);
        absl::InlinedVector<Sym, 6> ops = {Sym(f.coefficient)};
        for (Factor& x : f.factors) {
          for (const Factor& c : common) {
            if (c.base == x.base) x.exponent -= c.exponent;
          }
          if (x.exponent > 0) ops.push_back(InternPower(x));
        }
        rest.Append(BuildMul(ops));
      }
      s = FromLinear(std::move(rest));
    }
    out.factors = std::move(common);
    out.factors.push_back({s, 1});
    SortAndMergeFactors(&out.factors);
    return out;
  }
  auto [base, exponent] = BaseAndExponent(s);
  out.factors.push_back({base, exponent});
  return out;
}

Sym ProductOf(const FactorList& list) {
  absl::InlinedVector<Sym, 6> ops = {Sym(list.coefficient)};
  for (const Factor& f : list.factors) {
    if (f.exponent > 0) ops.push_back(InternPower(f));
  }
  return BuildMul(ops);
}

// quotient of a term by a divisor, when it is exact for every value of the symbols
std::optional<Sym> DivideTerm(Sym term, const FactorList& divisor) {
  FactorList f = FactorsOf(term);
  if (divisor.coefficient == -1 ? f.coefficient == kInt64Min : f.coefficient % divisor.coefficient != 0) {
    return std::nullopt;
  }
  f.coefficient /= divisor.coefficient;
  for (const Factor& d : divisor.factors) {
    auto it = std::find_if(f.factors.begin(), f.factors.end(), [&](const Factor& x) { return x.base == d.base; });
    if (it == f.factors.end() || it->exponent < d.exponent) return std::nullopt;
    it->exponent -= d.exponent;
  }
  return ProductOf(f);
}

}  // namespace

bool CancelCommon(Sym* a, Sym* b, Sym* common) {
  FactorList fa = FactorsOf(*a);
  FactorList fb = FactorsOf(*b);
  FactorList shared;
  const uint64_t g = std::gcd(Magnitude(fa.coefficient), Magnitude(fb.coefficient));
  if (g > 1 && g <= static_cast<uint64_t>(kInt64Max)) {
    shared.coefficient = static_cast<int64_t>(g);
    fa.coefficient /= shared.coefficient;
    fb.coefficient /= shared.coefficient;
  }
  for (Factor& x : fb.factors) {
    for (Factor& y : fa.factors) {
      if (x.base != y.base || y.exponent == 0 || x.exponent == 0) continue;
      const int64_t e = std::min(x.exponent, y.exponent);
      shared.factors.push_back({x.base, e});
      x.exponent -= e;
      y.exponent -= e;
    }
  }
  if (shared.coefficient == 1 && shared.factors.empty()) return false;
  *a = ProductOf(fa);
  *b = ProductOf(fb);
  *common = ProductOf(shared);
  return true;
}

namespace {

// The terms of a sum, or the one term.
absl::Span<const Sym> TermsOf(const Sym& s) {
  if (IsIntegerKind(s, SymKind::kAdd)) return s.operands();
  return absl::MakeConstSpan(&s, 1);
}

}  // namespace

std::optional<SplitSum> SplitMultiples(Sym a, Sym b) {
  const FactorList divisor = FactorsOf(b);
  LinearForm quotient;
  LinearForm rest;
  bool any = false;
  for (Sym term : TermsOf(a)) {
    if (!term.is(0)) {
      if (auto q = DivideTerm(term, divisor)) {
        quotient.Append(*q);
        any = true;
        continue;
      }
    }
    rest.Append(term);
  }
  if (!any) return std::nullopt;
  return SplitSum{FromLinear(std::move(quotient)), FromLinear(std::move(rest))};
}

int64_t CommonCoefficient(const LinearForm& a, int64_t c) {
  uint64_t g = Magnitude(c);
  for (const SymTerm& t : a.terms) {
    if (!FitsInt64(t.coefficient)) return 1;
    g = std::gcd(g, Magnitude(t.coefficient));
  }
  return static_cast<int64_t>(g);
}

Int128 FloorDiv128(Int128 a, Int128 b) {
  const Int128 q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

std::optional<int64_t> FloorDivConstants(int64_t a, int64_t b) {
  if (b == 0) return std::nullopt;
  const Int128 q = FloorDiv128(a, b);
  if (!FitsInt64(q)) return std::nullopt;
  return static_cast<int64_t>(q);
}

bool LeadsNegative(Sym s) {
  if (s.is_constant()) return *s.constant() < 0;
  if (IsIntegerKind(s, SymKind::kAdd)) s = s.operands()[0];
  return UnitAndCoefficient(s).second < 0;
}

namespace {

// Mod(a, b) + b*FloorDiv(a, b) is a, where a sum has both. Returns true when the form changed.
bool MergeModWithFloorDiv(LinearForm* form) {
  constexpr size_t kMaxTerms = 64;  // it compares pairs
  if (form->terms.size() > kMaxTerms) return false;
  for (const SymTerm& mod : form->terms) {
    if (!IsIntegerKind(mod.unit, SymKind::kMod)) continue;
    const Sym a = mod.unit.operands()[0];
    const Sym b = mod.unit.operands()[1];
    const SymNode* mod_node = NodeOf(mod.unit);
    for (const SymTerm& div : form->terms) {
      Int128 expected = mod.coefficient;
      bool match = false;
      for (Sym f : FactorsOfUnit(div.unit)) {
        if (!IsIntegerKind(f, SymKind::kFloorDiv) || f.operands()[0] != a || f.operands()[1] != b) continue;
        auto [unit, coefficient] = UnitAndCoefficient(BuildMul({b, f}));
        expected *= coefficient;
        match = unit == div.unit && expected == div.coefficient;
        break;
      }
      if (!match) continue;
      const Sym div_unit = div.unit;
      const Int128 scale = mod.coefficient;
      std::erase_if(form->terms, [&](const SymTerm& t) { return NodeOf(t.unit) == mod_node || t.unit == div_unit; });
      form->Append(a, scale);
      form->Canonicalize();
      return true;
    }
  }
  return false;
}

}  // namespace

void LinearForm::Append(Sym s, Int128 scale) {
  if (scale == 0) return;
  if (auto c = s.constant()) {
    constant += scale * *c;
    return;
  }
  for (const Sym& term : TermsOf(s)) {
    if (auto c = term.constant()) {
      constant += scale * *c;
    } else {
      auto [unit, coefficient] = UnitAndCoefficient(term);
      terms.push_back({unit, scale * coefficient});
    }
  }
}

void LinearForm::Canonicalize() {
  if (terms.size() > 1) {
    std::sort(terms.begin(), terms.end(),
              [](const SymTerm& a, const SymTerm& b) { return CompareUnits(a.unit, b.unit) < 0; });
    size_t out = 0;
    for (size_t i = 1; i < terms.size(); ++i) {
      if (terms[i].unit == terms[out].unit) {
        terms[out].coefficient += terms[i].coefficient;
      } else {
        terms[++out] = terms[i];
      }
    }
    terms.resize(out + 1);
  }
  std::erase_if(terms, [](const SymTerm& t) { return t.coefficient == 0; });
}

Sym FromLinear(LinearForm form) {
  form.Canonicalize();
  while (form.terms.size() > 1 && MergeModWithFloorDiv(&form)) {
  }
  std::vector<Sym> ops;
  ops.reserve(form.terms.size() + 1);
  // Sums of at most a few thousand int64 values: a total beyond int64 takes few pieces.
  const auto emit = [&](Sym unit, Int128 total) {
    while (!FitsInt64(total)) {
      const int64_t piece = total > 0 ? kInt64Max : kInt64Min;
      ops.push_back(unit.is(1) ? Sym(piece) : ScaledUnit(piece, unit));
      total -= piece;
    }
    if (total != 0) ops.push_back(unit.is(1) ? Sym(static_cast<int64_t>(total)) : ScaledUnit(total, unit));
  };
  for (const SymTerm& t : form.terms) emit(t.unit, t.coefficient);
  emit(Sym(1), form.constant);
  if (ops.empty()) return Sym(0);
  if (ops.size() == 1) return ops[0];
  // An undistributed c*(sum) becomes a sum when its negation happens to fit int64.
  if (std::any_of(ops.begin(), ops.end(), [](Sym s) { return IsIntegerKind(s, SymKind::kAdd); })) {
    LinearForm flat;
    for (Sym s : ops) flat.Append(s);
    return FromLinear(std::move(flat));
  }
  return Intern(SymKind::kAdd, ops);
}

std::optional<LinearForm> MultiplyLinear(const LinearForm& a, const LinearForm& b, size_t limit) {
  const size_t na = a.terms.size() + 1;
  const size_t nb = b.terms.size() + 1;
  if (na > limit || nb > limit || na * nb > limit) return std::nullopt;
  LinearForm out;
  bool overflow = false;
  const auto times = [&](Int128 x, Int128 y) {
    Int128 r = 0;
    overflow |= __builtin_mul_overflow(x, y, &r) || !FitsInt64(r);
    return overflow ? Int128{0} : r;
  };
  for (const SymTerm& x : a.terms) {
    for (const SymTerm& y : b.terms) out.Append(BuildMul({x.unit, y.unit}), times(x.coefficient, y.coefficient));
    out.Append(x.unit, times(x.coefficient, b.constant));
  }
  for (const SymTerm& y : b.terms) out.Append(y.unit, times(y.coefficient, a.constant));
  out.constant += times(a.constant, b.constant);
  if (overflow) return std::nullopt;
  out.Canonicalize();
  for (const SymTerm& t : out.terms) overflow |= !FitsInt64(t.coefficient);
  if (overflow || !FitsInt64(out.constant)) return std::nullopt;
  return out;
}

}  // namespace slipway::ir
