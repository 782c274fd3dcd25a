// Symbolic integers, the algebra: hash-consing and the simplifications made while an expression is built. Everything a
// program knows about its sizes rests on these rules, so each one here holds for every integer value of the symbols for
// which the expression is defined (a division by zero is undefined; cancelling it away is allowed).
#include "ir/sym.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "ir/sym_internal.h"

namespace slipway::ir {
namespace {

uint64_t Magnitude(Int128 v) { return static_cast<uint64_t>(v < 0 ? -v : v); }

// ---- nodes ----

SymStore* StoreOf(absl::Span<const Sym> operands) {
  SymStore* store = &SymStore::Shared();
  for (Sym s : operands) {
    if (s.is_constant() || NodeOf(s)->store->shared || NodeOf(s)->store == store) continue;
    if (!store->shared) {
      std::fputs("slipway: one expression mixes symbols of two tables\n", stderr);
      std::abort();
    }
    store = NodeOf(s)->store;
  }
  return store;
}

SymType ResultType(SymKind kind, absl::Span<const Sym> operands) {
  const auto all = [&](SymType type) {
    return std::all_of(operands.begin(), operands.end(), [&](Sym s) { return TypeOf(s) == type; });
  };
  const auto numeric = [&] {
    return std::all_of(operands.begin(), operands.end(),
                       [](Sym s) { return TypeOf(s) == SymType::kInt || TypeOf(s) == SymType::kFloat; });
  };
  switch (kind) {
    case SymKind::kInteger: return SymType::kInt;
    case SymKind::kFloat: return SymType::kFloat;
    case SymKind::kBool: return SymType::kBool;
    case SymKind::kSymbol: return SymType::kInt;
    case SymKind::kAdd:
    case SymKind::kMul:
    case SymKind::kMax:
    case SymKind::kMin: return all(SymType::kInt) ? SymType::kInt : numeric() ? SymType::kFloat : SymType::kUnknown;
    case SymKind::kPow:
      if (!all(SymType::kInt)) return SymType::kUnknown;
      return operands[1].is_constant() && *operands[1].constant() < 0 ? SymType::kUnknown : SymType::kInt;
    case SymKind::kFloorDiv:
    case SymKind::kCeilDiv:
    case SymKind::kMod: return all(SymType::kInt) ? SymType::kInt : SymType::kUnknown;
    case SymKind::kTruncToInt:
    case SymKind::kFloorToInt:
    case SymKind::kCeilToInt:
    case SymKind::kRoundToInt: return SymType::kInt;
    case SymKind::kToFloat:
    case SymKind::kTruncToFloat:
    case SymKind::kFloatTrueDiv:
    case SymKind::kIntTrueDiv:
    case SymKind::kFloatPow: return SymType::kFloat;
    case SymKind::kEq:
    case SymKind::kNe:
    case SymKind::kLt:
    case SymKind::kLe:
    case SymKind::kGt:
    case SymKind::kGe:
    case SymKind::kAnd:
    case SymKind::kOr:
    case SymKind::kNot: return SymType::kBool;
    case SymKind::kWhere: return TypeOf(operands[1]) == TypeOf(operands[2]) ? TypeOf(operands[1]) : SymType::kUnknown;
    case SymKind::kCall: return SymType::kUnknown;
  }
  return SymType::kUnknown;
}

uint32_t DegreeOf(Sym s) { return s.is_constant() ? 0 : NodeOf(s)->degree; }

uint32_t ResultDegree(const SymNode& node) {
  constexpr uint64_t kMaxDegree = 1u << 30;
  if (node.type != SymType::kInt) return 1;
  switch (node.kind) {
    case SymKind::kAdd: return std::max(1u, DegreeOf(node.operands[0]));
    case SymKind::kMul: {
      uint64_t total = 0;
      for (Sym s : node.operands) total += DegreeOf(s);
      return static_cast<uint32_t>(std::min(total, kMaxDegree));
    }
    case SymKind::kPow:
      if (auto e = node.operands[1].constant(); e && !node.operands[0].is_constant()) {
        const uint64_t d = DegreeOf(node.operands[0]);
        return static_cast<uint64_t>(*e) > kMaxDegree / std::max<uint64_t>(d, 1) ? kMaxDegree : d * *e;
      }
      return 1;
    default: return 1;
  }
}

bool IsPlainLinear(const SymNode& node) {
  if (node.kind != SymKind::kAdd && node.kind != SymKind::kMul) return node.operands.empty();
  if (node.type != SymType::kInt) return true;
  size_t symbols = 0;
  for (Sym s : node.operands) {
    if (s.is_constant()) continue;
    if (!NodeOf(s)->plain_linear || (node.kind == SymKind::kMul && !IsKind(s, SymKind::kSymbol))) return false;
    ++symbols;
  }
  return node.kind == SymKind::kAdd || symbols == 1;
}

// A value of unknown size and bounds that equals only itself; not interned.
const SymNode* NewTooLarge(SymStore* store, SymType type) {
  SymNode& node = store->nodes.emplace_back();
  node.store = store;
  node.type = type;
  node.kind = SymKind::kCall;
  node.name = "TooLarge";
  node.operands = {Sym(++store->too_large_count)};
  node.too_large = true;
  node.plain_linear = false;
  node.depth = 1;
  node.tree_size = 2;
  return &node;
}

const SymNode* InternIn(SymStore* store, SymKind kind, absl::Span<const Sym> operands, std::string_view name,
                        double number, Sym unit) {
  const SymKey key{kind, std::bit_cast<uint64_t>(number), name, operands};
  std::unique_lock<std::mutex> lock(store->mutex, std::defer_lock);
  if (store->shared) lock.lock();
  if (auto it = store->interned.find(key); it != store->interned.end()) return *it;

  uint32_t depth = 0;
  uint32_t tree_size = 1;
  bool too_large = false;
  for (Sym s : operands) {
    const SymNode* n = NodeOf(s);
    depth = std::max(depth, n ? n->depth + 1 : 1);
    tree_size += n ? n->tree_size : 1;
    too_large |= n && n->too_large;
    if (n && n->kind == SymKind::kSymbol) n->store->used[n->symbol_index] = true;
    if (tree_size > kMaxSymTreeSize) break;
  }
  if (depth > kMaxSymDepth || tree_size > kMaxSymTreeSize) return NewTooLarge(store, ResultType(kind, operands));
  SymNode& node = store->nodes.emplace_back();
  node.store = store;
  node.type = ResultType(kind, operands);
  node.kind = kind;
  node.name = std::string(name);
  node.number = number;
  node.operands.assign(operands.begin(), operands.end());
  node.depth = depth;
  node.tree_size = tree_size;
  node.too_large = too_large;
  node.unit = unit;
  node.degree = ResultDegree(node);
  node.plain_linear = IsPlainLinear(node);
  store->interned.insert(&node);
  return &node;
}

// ---- structural order ----

std::pair<Sym, int64_t> BaseAndExponent(Sym s) {
  if (IsIntegerKind(s, SymKind::kPow)) {
    const SymNode* n = NodeOf(s);
    if (auto e = n->operands[1].constant(); e && *e >= 2 && !n->operands[0].is_constant()) return {n->operands[0], *e};
  }
  return {s, 1};
}

int Sign(int64_t a, int64_t b) { return a < b ? -1 : a > b ? 1 : 0; }

absl::Span<const Sym> FactorsOfUnit(const Sym& unit) {
  if (IsIntegerKind(unit, SymKind::kMul)) return unit.operands();
  return absl::MakeConstSpan(&unit, 1);
}

int CompareSpans(absl::Span<const Sym> a, absl::Span<const Sym> b) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (int c = CompareSyms(a[i], b[i])) return c;
  }
  return Sign(static_cast<int64_t>(a.size()), static_cast<int64_t>(b.size()));
}

// Terms of a sum: the higher degree first, then by their factors.
int CompareUnits(const Sym& a, const Sym& b) {
  if (a == b) return 0;
  if (DegreeOf(a) != DegreeOf(b)) return DegreeOf(a) > DegreeOf(b) ? -1 : 1;
  return CompareSpans(FactorsOfUnit(a), FactorsOfUnit(b));
}

// ---- products as lists of factors ----

struct Factor {
  Sym base;
  int64_t exponent;
};
struct FactorList {
  int64_t coefficient = 1;  // never 0
  std::vector<Factor> factors;
};

// Exponents stay small enough that adding and multiplying them cannot overflow.
constexpr int64_t kMaxExponent = int64_t{1} << 31;

Sym InternPower(const Factor& f) {
  if (f.exponent == 1) return f.base;
  return Intern(SymKind::kPow, {f.base, Sym(f.exponent)});
}

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

Sym BuildInexact(SymKind kind, absl::Span<const Sym> operands);

// Greatest common divisor of all the coefficients of a sum, with the sign of its first term. Only the sign for a sum
// with a total beyond int64 (kept as several like terms): divided, those could merge into something else than a sum.
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

// Divides a and b by what they share. The shared part `common` is never 0 where b is not.
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

// The terms of a sum, or the one term.
absl::Span<const Sym> TermsOf(const Sym& s) {
  if (IsIntegerKind(s, SymKind::kAdd)) return s.operands();
  return absl::MakeConstSpan(&s, 1);
}

// Splits a sum into the part that b divides exactly (already divided) and the remainder.
struct SplitSum {
  Sym quotient;
  Sym rest;
};
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

// The gcd of c and of all the non-constant coefficients of a, when that is not 1 (a's constant term does not divide).
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

// The quotient floor(a/b) where ranges leave one value only.
std::optional<int64_t> SingleQuotient(Sym a, Sym b) {
  const SymRange q = FloorDivRange(RangeOf(a), RangeOf(b));
  if (q.min != q.max || q.min == kInt64Min || q.max == kInt64Max) return std::nullopt;
  return q.min;
}

bool LeadsNegative(Sym s) {
  if (s.is_constant()) return *s.constant() < 0;
  if (IsIntegerKind(s, SymKind::kAdd)) s = s.operands()[0];
  return UnitAndCoefficient(s).second < 0;
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

bool AllIntegers(absl::Span<const Sym> operands) {
  return std::all_of(operands.begin(), operands.end(), [](Sym s) { return TypeOf(s) == SymType::kInt; });
}

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

bool IsRelation(SymKind kind) { return kind >= SymKind::kEq && kind <= SymKind::kGe; }

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

// ---- names ----

constexpr int kMany = 1 << 30;
struct FunctionInfo {
  std::string_view name;
  SymKind kind;
};
constexpr FunctionInfo kFunctions[] = {
    {"Add", SymKind::kAdd},
    {"Mul", SymKind::kMul},
    {"Pow", SymKind::kPow},
    {"PowByNatural", SymKind::kPow},
    {"FloorDiv", SymKind::kFloorDiv},
    {"CleanDiv", SymKind::kFloorDiv},
    {"CeilDiv", SymKind::kCeilDiv},
    {"Mod", SymKind::kMod},
    {"PythonMod", SymKind::kMod},
    {"Max", SymKind::kMax},
    {"Min", SymKind::kMin},
    {"max", SymKind::kMax},
    {"min", SymKind::kMin},
    {"ToFloat", SymKind::kToFloat},
    {"torch.sym_float", SymKind::kToFloat},
    {"TruncToInt", SymKind::kTruncToInt},
    {"math.trunc", SymKind::kTruncToInt},
    {"FloorToInt", SymKind::kFloorToInt},
    {"math.floor", SymKind::kFloorToInt},
    {"CeilToInt", SymKind::kCeilToInt},
    {"math.ceil", SymKind::kCeilToInt},
    {"RoundToInt", SymKind::kRoundToInt},
    {"TruncToFloat", SymKind::kTruncToFloat},
    {"FloatTrueDiv", SymKind::kFloatTrueDiv},
    {"IntTrueDiv", SymKind::kIntTrueDiv},
    {"FloatPow", SymKind::kFloatPow},
    {"Eq", SymKind::kEq},
    {"Equality", SymKind::kEq},
    {"Ne", SymKind::kNe},
    {"Unequality", SymKind::kNe},
    {"Lt", SymKind::kLt},
    {"StrictLessThan", SymKind::kLt},
    {"Le", SymKind::kLe},
    {"LessThan", SymKind::kLe},
    {"Gt", SymKind::kGt},
    {"StrictGreaterThan", SymKind::kGt},
    {"Ge", SymKind::kGe},
    {"GreaterThan", SymKind::kGe},
    {"And", SymKind::kAnd},
    {"Or", SymKind::kOr},
    {"Not", SymKind::kNot},
    {"Where", SymKind::kWhere},
};

std::pair<int, int> ArityOf(SymKind kind) {
  switch (kind) {
    case SymKind::kInteger:
    case SymKind::kFloat:
    case SymKind::kBool:
    case SymKind::kSymbol: return {0, 0};
    case SymKind::kAdd:
    case SymKind::kMul:
    case SymKind::kMax:
    case SymKind::kMin:
    case SymKind::kAnd:
    case SymKind::kOr: return {1, kMany};
    case SymKind::kToFloat:
    case SymKind::kTruncToInt:
    case SymKind::kFloorToInt:
    case SymKind::kCeilToInt:
    case SymKind::kRoundToInt:
    case SymKind::kTruncToFloat:
    case SymKind::kNot: return {1, 1};
    case SymKind::kWhere: return {3, 3};
    case SymKind::kCall: return {0, kMany};
    default: return {2, 2};
  }
}

// Identifiers joined by dots.
bool IsFunctionName(std::string_view name) {
  bool starts = true;
  for (char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (c == '.' ? starts : starts ? !letter : !letter && !(c >= '0' && c <= '9')) return false;
    starts = c == '.';
  }
  return !starts;
}

}  // namespace

// ---- nodes and stores ----

SymKey KeyOf(const SymNode* node) {
  return {node->kind, std::bit_cast<uint64_t>(node->number), node->name, node->operands};
}

size_t SymKeyHash::operator()(const SymKey& key) const {
  return absl::HashOf(key.kind, key.bits, key.name, key.operands);
}

bool SymKeyEq::operator()(const SymKey& a, const SymKey& b) const {
  return a.kind == b.kind && a.bits == b.bits && a.operands == b.operands && a.name == b.name;
}

SymStore& SymStore::Shared() {
  static SymStore* store = [] {
    auto* s = new SymStore;
    s->shared = true;
    return s;
  }();
  return *store;
}

Sym Intern(SymKind kind, absl::Span<const Sym> operands, std::string_view name) {
  Sym unit;
  if (kind == SymKind::kMul && operands[0].is_constant() && operands.size() >= 2 && AllIntegers(operands)) {
    const bool overflowed = operands[1].is_constant() && !operands[0].is(-1);
    const bool undistributed = operands.size() == 2 && IsIntegerKind(operands[1], SymKind::kAdd);
    if (!overflowed && !undistributed) {
      unit = operands.size() == 2 ? operands[1] : Intern(SymKind::kMul, operands.subspan(1));
      if (unit.is_constant()) unit = Sym();
    }
  }
  return SymNode::Wrap(InternIn(StoreOf(operands), kind, operands, name, 0, unit));
}

Sym MakeFloat(double v) {
  if (std::isnan(v)) v = std::numeric_limits<double>::quiet_NaN();  // one NaN
  return SymNode::Wrap(InternIn(&SymStore::Shared(), SymKind::kFloat, {}, {}, v, Sym()));
}

Sym MakeBool(bool v) {
  static const SymNode* const nodes[2] = {InternIn(&SymStore::Shared(), SymKind::kBool, {}, {}, 0, Sym()),
                                          InternIn(&SymStore::Shared(), SymKind::kBool, {}, {}, 1, Sym())};
  return SymNode::Wrap(nodes[v]);
}

int CompareSyms(Sym a, Sym b) {
  if (a == b) return 0;
  if (a.is_constant() || b.is_constant()) {
    if (a.is_constant() && b.is_constant()) return Sign(*a.constant(), *b.constant());
    return a.is_constant() ? -1 : 1;
  }
  const auto [base_a, exponent_a] = BaseAndExponent(a);
  const auto [base_b, exponent_b] = BaseAndExponent(b);
  if (exponent_a != 1 || exponent_b != 1) {
    if (int c = CompareSyms(base_a, base_b)) return c;
    if (exponent_a != exponent_b) return exponent_a > exponent_b ? -1 : 1;
    return 0;
  }
  const SymNode* na = NodeOf(a);
  const SymNode* nb = NodeOf(b);
  if (na->kind != nb->kind) return na->kind < nb->kind ? -1 : 1;
  if (na->number < nb->number) return -1;
  if (na->number > nb->number) return 1;
  if (int c = na->name.compare(nb->name)) return c < 0 ? -1 : 1;
  if (int c = CompareSpans(na->operands, nb->operands)) return c;
  // Floats of equal value and different bits (zeros, NaN), and equal expressions of two tables.
  const uint64_t bits_a = std::bit_cast<uint64_t>(na->number), bits_b = std::bit_cast<uint64_t>(nb->number);
  return bits_a == bits_b ? 0 : bits_a < bits_b ? -1 : 1;
}

// ---- sums ----

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

Sym BuildAdd(absl::Span<const Sym> operands) {
  if (!AllIntegers(operands)) return BuildInexact(SymKind::kAdd, operands);
  if (operands.size() == 1) return operands[0];
  LinearForm form;
  for (Sym s : operands) form.Append(s);
  return FromLinear(std::move(form));
}

// ---- products ----

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

// ---- division ----

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

// ---- every kind ----

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

absl::Status CheckOperands(SymKind kind, absl::Span<const Sym> operands) {
  const auto [min, max] = ArityOf(kind);
  if (max == 0) return absl::InvalidArgumentError("a constant or symbol is not an operation");
  const auto n = static_cast<int64_t>(operands.size());
  if (n < min || n > max) {
    const std::string wanted = max == kMany ? absl::StrCat("at least ", min) : absl::StrCat(min);
    return absl::InvalidArgumentError(absl::StrCat("takes ", wanted, " operands, got ", n));
  }
  const auto reject = [&](SymType type, size_t from, size_t to, const char* what) -> absl::Status {
    for (size_t i = from; i < to; ++i) {
      if (TypeOf(operands[i]) == type) {
        return absl::InvalidArgumentError(absl::StrCat("operand ", i + 1, " is ", what));
      }
    }
    return absl::OkStatus();
  };
  const auto numbers = [&](size_t from, size_t to) { return reject(SymType::kBool, from, to, "a truth value"); };
  const auto truths = [&](size_t from, size_t to) {
    absl::Status status = reject(SymType::kInt, from, to, "a number");
    return status.ok() ? reject(SymType::kFloat, from, to, "a number") : status;
  };
  switch (kind) {
    case SymKind::kCall: return absl::OkStatus();
    case SymKind::kWhere: return truths(0, 1);
    case SymKind::kAnd:
    case SymKind::kOr:
    case SymKind::kNot: return truths(0, operands.size());
    case SymKind::kEq:
    case SymKind::kNe:
      if (TypeOf(operands[0]) == SymType::kBool) return truths(1, 2);
      if (TypeOf(operands[1]) == SymType::kBool) return truths(0, 1);
      return absl::OkStatus();
    default: return numbers(0, operands.size());
  }
}

absl::StatusOr<Sym> BuildNamed(std::string_view name, absl::Span<const Sym> operands) {
  const auto checked = [&](SymKind kind, absl::Span<const Sym> ops) -> absl::StatusOr<Sym> {
    absl::Status status = CheckOperands(kind, ops);
    if (!status.ok()) return absl::InvalidArgumentError(absl::StrCat(std::string(name), " ", status.message()));
    return Build(kind, ops);
  };
  const auto arity = [&](size_t n) -> absl::Status {
    if (operands.size() == n) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(name), " takes ", n, " operands, got ", operands.size()));
  };
  static const auto* by_name = [] {
    auto* map = new absl::flat_hash_map<std::string_view, SymKind>;
    for (const FunctionInfo& f : kFunctions) map->emplace(f.name, f.kind);
    return map;
  }();
  if (auto it = by_name->find(name); it != by_name->end()) return checked(it->second, operands);
  if (name == "Identity") {
    if (auto status = arity(1); !status.ok()) return status;
    return operands[0];
  }
  if (name == "ModularIndexing") {
    if (auto status = arity(3); !status.ok()) return status;
    auto quotient = checked(SymKind::kFloorDiv, operands.subspan(0, 2));
    if (!quotient.ok()) return quotient;
    return checked(SymKind::kMod, {*quotient, operands[2]});
  }
  if (name == "LShift" || name == "RShift") {
    if (auto status = arity(2); !status.ok()) return status;
    auto power = checked(SymKind::kPow, {Sym(2), operands[1]});
    if (!power.ok()) return power;
    return checked(name == "LShift" ? SymKind::kMul : SymKind::kFloorDiv, {operands[0], *power});
  }
  // Leaves have their own spelling.
  const bool leaf = name == "Symbol" || name == "Integer" || name == "Float";
  if (leaf || !IsFunctionName(name))
    return absl::InvalidArgumentError(absl::StrCat("'", std::string(name), "' is not a function name"));
  return Build(SymKind::kCall, operands, name);
}

// ---- Sym ----

SymKind Sym::kind() const { return node_ ? node_->kind : SymKind::kInteger; }
absl::Span<const Sym> Sym::operands() const { return node_ ? node_->operands : absl::Span<const Sym>(); }
std::string_view Sym::name() const { return node_ ? std::string_view(node_->name) : std::string_view(); }
double Sym::float_value() const { return node_ && node_->kind == SymKind::kFloat ? node_->number : 0.0; }
bool Sym::bool_value() const { return node_ && node_->kind == SymKind::kBool && node_->number != 0; }
bool Sym::is_integer_valued() const { return TypeOf(*this) == SymType::kInt; }
bool Sym::is_too_large() const { return node_ && node_->too_large; }

std::vector<Sym> Sym::Symbols() const {
  std::vector<Sym> out;
  absl::flat_hash_set<const SymNode*> seen;
  std::vector<Sym> stack = {*this};
  while (!stack.empty()) {
    const Sym s = stack.back();
    stack.pop_back();
    if (s.is_constant() || !seen.insert(NodeOf(s)).second) continue;
    if (s.kind() == SymKind::kSymbol) out.push_back(s);
    for (Sym o : s.operands()) stack.push_back(o);
  }
  std::sort(out.begin(), out.end(), [](Sym a, Sym b) { return a.name() < b.name(); });
  return out;
}

Sym operator+(Sym a, Sym b) {
  if (a.is_constant() && b.is_constant()) {
    int64_t r;
    if (!__builtin_add_overflow(*a.constant(), *b.constant(), &r)) return Sym(r);
  }
  if (a.is(0)) return b;
  if (b.is(0)) return a;
  return BuildAdd({a, b});
}

Sym operator-(Sym a, Sym b) {
  if (a.is_constant() && b.is_constant()) {
    int64_t r;
    if (!__builtin_sub_overflow(*a.constant(), *b.constant(), &r)) return Sym(r);
  }
  if (b.is(0)) return a;
  if (TypeOf(a) == SymType::kInt && TypeOf(b) == SymType::kInt) {
    if (a == b) return Sym(0);
    LinearForm form;
    form.Append(a);
    form.Append(b, -1);
    return FromLinear(std::move(form));
  }
  return BuildAdd({a, -b});
}

Sym operator*(Sym a, Sym b) {
  if (a.is_constant() && b.is_constant()) {
    int64_t r;
    if (!__builtin_mul_overflow(*a.constant(), *b.constant(), &r)) return Sym(r);
  }
  if (a.is(1)) return b;
  if (b.is(1)) return a;
  return BuildMul({a, b});
}

Sym operator-(Sym a) { return Sym(-1) * a; }
Sym FloorDiv(Sym a, Sym b) { return BuildFloorDiv(a, b); }
Sym CeilDiv(Sym a, Sym b) { return BuildCeilDiv(a, b); }
Sym Mod(Sym a, Sym b) { return BuildMod(a, b); }

Sym Max(Sym a, Sym b) {
  if (a.is_constant() && b.is_constant()) return std::max(*a.constant(), *b.constant());
  return BuildMinMax(SymKind::kMax, {a, b});
}

Sym Min(Sym a, Sym b) {
  if (a.is_constant() && b.is_constant()) return std::min(*a.constant(), *b.constant());
  return BuildMinMax(SymKind::kMin, {a, b});
}

Sym Relation(SymKind kind, Sym a, Sym b) {
  if (!IsRelation(kind)) {
    std::fputs("slipway: Relation() takes kEq … kGe\n", stderr);
    std::abort();
  }
  return BuildRelation(kind, a, b);
}

Sym Not(Sym a) { return BuildNot(a); }

// ---- SymTable ----

SymTable::SymTable() : impl_(std::make_unique<Impl>()) {}
SymTable::~SymTable() = default;

Sym SymTable::Symbol(std::string_view name, bool positive) {
  if (auto it = impl_->by_name.find(name); it != impl_->by_name.end()) return SymNode::Wrap(it->second);
  SymNode& node = impl_->nodes.emplace_back();
  node.kind = SymKind::kSymbol;
  node.type = SymType::kInt;
  node.store = impl_.get();
  node.name = std::string(name);
  node.symbol_index = static_cast<uint32_t>(impl_->symbols.size());
  impl_->by_name.emplace(node.name, &node);
  SymbolInfo info;
  info.name = node.name;
  info.positive = positive;
  if (positive) info.range.min = 1;
  impl_->symbols.push_back(std::move(info));
  impl_->declared.push_back(false);
  impl_->used.push_back(false);
  return SymNode::Wrap(&node);
}

std::optional<Sym> SymTable::FindSymbol(std::string_view name) const {
  if (auto it = impl_->by_name.find(name); it != impl_->by_name.end()) return SymNode::Wrap(it->second);
  return std::nullopt;
}

Sym SymTable::Float(double v) { return MakeFloat(v); }
Sym SymTable::Bool(bool v) { return MakeBool(v); }

absl::StatusOr<Sym> SymTable::Make(SymKind kind, absl::Span<const Sym> operands, std::string_view name) {
  if (kind == SymKind::kCall) return BuildNamed(name, operands);
  absl::Status status = CheckOperands(kind, operands);
  if (!status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("operation of kind ", static_cast<int>(kind), " ", status.message()));
  }
  return Build(kind, operands);
}

// Sets the range of symbol `i`, which nothing may have been made of unless it stays the same.
static absl::Status SettleRange(SymStore& store, size_t i, SymRange range) {
  SymbolInfo& info = store.symbols[i];
  if (range == info.range) return absl::OkStatus();
  if (store.used[i])
    return absl::FailedPreconditionError(
        absl::StrCat("the range of symbol ", info.name, " changes after expressions were made of it"));
  info.range = range;
  ++store.range_epoch;
  return absl::OkStatus();
}

absl::Status SymTable::SetRange(std::string_view symbol, SymRange range) {
  const uint32_t i = NodeOf(Symbol(symbol, /*positive=*/false))->symbol_index;
  const SymRange current = impl_->symbols[i].range;
  const SymRange both{std::max(current.min, range.min), std::min(current.max, range.max)};
  if (both.min > both.max) {
    const auto text = [](SymRange r) { return absl::StrCat("[", r.min, ", ", r.max, "]"); };
    return absl::InvalidArgumentError(absl::StrCat("no value is left for symbol ", impl_->symbols[i].name,
                                                   ": its range ", text(current), " does not meet ", text(range)));
  }
  return SettleRange(*impl_, i, both);
}

absl::Status SymTable::DeclareRange(std::string_view symbol, SymRange range) {
  if (range.min > range.max)
    return absl::InvalidArgumentError(
        absl::StrCat("symbol ", std::string(symbol), " has the empty range [", range.min, ", ", range.max, "]"));
  const uint32_t i = NodeOf(Symbol(symbol, /*positive=*/false))->symbol_index;
  impl_->declared[i] = true;
  return SettleRange(*impl_, i, range);
}

absl::Status SymTable::SetPositive(std::string_view symbol) {
  const uint32_t i = NodeOf(Symbol(symbol, /*positive=*/false))->symbol_index;
  const absl::Status status = impl_->declared[i] ? absl::OkStatus() : SetRange(symbol, {1, kInt64Max});
  if (status.ok()) impl_->symbols[i].positive = true;
  return status;
}

SymRange SymTable::range(std::string_view symbol) const {
  auto it = impl_->by_name.find(symbol);
  return it == impl_->by_name.end() ? SymRange{} : impl_->symbols[it->second->symbol_index].range;
}

void SymTable::SetHint(std::string_view symbol, int64_t hint) {
  impl_->symbols[NodeOf(Symbol(symbol, /*positive=*/false))->symbol_index].hint = hint;
}

std::vector<SymbolInfo> SymTable::symbols() const { return impl_->symbols; }

// ---- SymCopier ----

struct SymCopier::Impl {
  SymStore* into;
  absl::flat_hash_map<const SymNode*, const SymNode*> copies;
};

SymCopier::SymCopier(const SymTable& from, SymTable& into) : impl_(new Impl{into.impl_.get(), {}}) {
  for (const SymbolInfo& info : from.impl_->symbols) {
    const SymNode* copy = NodeOf(into.Symbol(info.name, /*positive=*/false));
    into.impl_->symbols[copy->symbol_index] = info;
    into.impl_->declared[copy->symbol_index] = true;
    impl_->copies[from.impl_->by_name.find(info.name)->second] = copy;
  }
  ++into.impl_->range_epoch;
}
SymCopier::~SymCopier() = default;

Sym SymCopier::operator()(Sym s) {
  const SymNode* n = NodeOf(s);
  if (!n || n->store->shared) return s;
  if (auto it = impl_->copies.find(n); it != impl_->copies.end()) return SymNode::Wrap(it->second);
  const SymNode* copy;
  if (n->too_large && n->kind == SymKind::kCall && n->name == "TooLarge") {
    copy = NewTooLarge(impl_->into, n->type);
  } else {
    absl::InlinedVector<Sym, 4> operands;
    for (Sym o : n->operands) operands.push_back((*this)(o));  // depth is bounded by kMaxSymDepth
    copy = InternIn(impl_->into, n->kind, operands, n->name, n->number, (*this)(n->unit));
  }
  impl_->copies[n] = copy;
  return SymNode::Wrap(copy);
}

}  // namespace slipway::ir
