// Sym, SymTable and SymCopier: the public interface over nodes and builders.
#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "ir/sym.h"
#include "ir/sym/internal.h"

namespace slipway::ir {

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
