// Types share few expressions, so each is substituted once.
#include "ir/specialize.h"

namespace slipway::ir {
namespace {

class Substitution {
 public:
  explicit Substitution(const std::function<std::optional<Sym>(Sym)>& replace) : replace_(replace) {}

  void Rewrite(Graph& g) {
    for (Value* v : g.inputs()) Rewrite(v->mutable_type());
    for (Node* n : g) {
      for (const NamedArg& a : n->args())
        if (auto sub = a.arg.get<SubGraph>()) Rewrite(**sub);
      for (Value* v : n->outputs())
        if (v) Rewrite(v->mutable_type());
    }
  }

 private:
  const std::function<std::optional<Sym>(Sym)>& replace_;
  absl::flat_hash_map<Sym, Sym> done_;

  void Rewrite(Sym& s) {
    if (s.is_constant()) return;
    auto [it, fresh] = done_.try_emplace(s);
    if (fresh) it->second = Substitute(s, replace_);
    s = it->second;
  }
  void Rewrite(Type& t) {
    for (Sym& s : t.sizes) Rewrite(s);
    for (Sym& s : t.strides) Rewrite(s);
    Rewrite(t.storage_offset);
    Rewrite(t.expr);
  }
};

}  // namespace

void SubstituteSymbols(Program& p, const std::function<std::optional<Sym>(Sym symbol)>& replace) {
  Substitution(replace).Rewrite(*p.graph);
}

absl::Status Specialize(Program& p, const text::Map<int64_t>& values) {
  for (const auto& [name, value] : values) {
    if (!p.syms->FindSymbol(name)) return absl::InvalidArgumentError(text::StrCat("the program has no symbol ", name));
    const SymRange range = RuntimeRange(p.syms->range(name));
    if (value < range.min || value > range.max)
      return absl::InvalidArgumentError(text::StrCat(name, " = ", value, " is out of range"));
  }
  SubstituteSymbols(p, [&](Sym symbol) -> std::optional<Sym> {
    auto it = values.find(symbol.name());
    return it == values.end() ? std::nullopt : std::optional<Sym>(it->second);
  });
  return absl::OkStatus();
}

SymRange RuntimeRange(SymRange range) {
  if (range.min == 2) range.min = 0;
  return range;
}

}  // namespace slipway::ir
