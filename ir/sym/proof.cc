// Proofs of equality and order, which shape inference stands on: a - b is asked for its range as it is, and once more
// with products expanded and floors by constants reduced.
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "ir/sym.h"
#include "ir/sym/internal.h"

namespace slipway::ir {

namespace {

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

}  // namespace slipway::ir
