// Nodes of symbolic expressions: hash-consing in their stores, bounds of depth and size, the structural order.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "absl/hash/hash.h"
#include "ir/sym.h"
#include "ir/sym/internal.h"

namespace slipway::ir {

namespace {

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

}  // namespace

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

std::pair<Sym, int64_t> BaseAndExponent(Sym s) {
  if (IsIntegerKind(s, SymKind::kPow)) {
    const SymNode* n = NodeOf(s);
    if (auto e = n->operands[1].constant(); e && *e >= 2 && !n->operands[0].is_constant()) return {n->operands[0], *e};
  }
  return {s, 1};
}

namespace {

int Sign(int64_t a, int64_t b) { return a < b ? -1 : a > b ? 1 : 0; }

}  // namespace

absl::Span<const Sym> FactorsOfUnit(const Sym& unit) {
  if (IsIntegerKind(unit, SymKind::kMul)) return unit.operands();
  return absl::MakeConstSpan(&unit, 1);
}

namespace {

int CompareSpans(absl::Span<const Sym> a, absl::Span<const Sym> b) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (int c = CompareSyms(a[i], b[i])) return c;
  }
  return Sign(static_cast<int64_t>(a.size()), static_cast<int64_t>(b.size()));
}

}  // namespace

int CompareUnits(const Sym& a, const Sym& b) {
  if (a == b) return 0;
  if (DegreeOf(a) != DegreeOf(b)) return DegreeOf(a) > DegreeOf(b) ? -1 : 1;
  return CompareSpans(FactorsOfUnit(a), FactorsOfUnit(b));
}

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

}  // namespace slipway::ir
