// Expressions become sym_size nodes of inputs and integer arithmetic on them, as torch.export writes them.
#include "dynamic_shapes/rewrite.h"

#include <algorithm>
#include <cctype>
#include <memory>

#include "base/status_macros.h"
#include "base/text.h"
#include "ir/builder.h"
#include "ir/specialize.h"

namespace slipway::dynamic_shapes {

using ir::IntOrValue;
using ir::Sym;
using ir::SymKind;

std::optional<IntOrValue> SizeWriter::Write(Sym e) {
  if (auto k = e.constant()) return IntOrValue(*k);
  if (auto it = written_.find(e); it != written_.end()) return it->second;
  if (!begun_) before_ = graph_.first(), begun_ = true;
  std::vector<IntOrValue> operands;
  if (e.kind() != SymKind::kSymbol) {
    for (Sym o : e.operands()) {
      auto made = Write(o);
      if (!made) return std::nullopt;
      operands.push_back(*made);
    }
  }
  ir::Builder b(graph_, before_, nullptr);
  auto call = [&](std::string_view op, IntOrValue x, IntOrValue y) {
    return IntOrValue(b.Call(op, {ir::Arg(x), ir::Arg(y)}));
  };
  auto fold = [&](auto f) {
    IntOrValue x = operands[0];
    for (size_t i = 1; i < operands.size(); ++i) x = f(x, operands[i]);
    return x;
  };
  std::optional<IntOrValue> out;
  switch (e.kind()) {
    case SymKind::kSymbol:
      for (ir::Value* v : graph_.inputs()) {
        for (int d = 0; !out && v->type().is_tensor() && d < v->rank(); ++d)
          if (v->sizes()[d] == e) out = b.Size(v, d);
        if (!out && v->type().kind == ir::Type::kSymInt && v->type().expr == e) out = IntOrValue(v);
      }
      break;
    case SymKind::kAdd: out = fold([&](IntOrValue x, IntOrValue y) { return b.Add(x, y); }); break;
    case SymKind::kMul: out = fold([&](IntOrValue x, IntOrValue y) { return b.Mul(x, y); }); break;
    case SymKind::kMax: out = fold([&](IntOrValue x, IntOrValue y) { return call("torch.sym_max", x, y); }); break;
    case SymKind::kMin: out = fold([&](IntOrValue x, IntOrValue y) { return call("torch.sym_min", x, y); }); break;
    case SymKind::kFloorDiv: out = b.FloorDiv(operands[0], operands[1]); break;
    case SymKind::kMod: out = call("_operator.mod", operands[0], operands[1]); break;
    case SymKind::kPow:
      if (!operands[1].value && operands[1].constant >= 1 && operands[1].constant <= 8) {
        out = operands[0];
        for (int64_t i = 1; i < operands[1].constant; ++i) out = b.Mul(*out, operands[0]);
      }
      break;
    default: break;
  }
  if (!out || !b.ok()) return std::nullopt;
  written_.emplace(e, *out);
  return out;
}

bool SizeWriter::Writes(Sym e) {
  if (e.is_constant() || e.kind() == SymKind::kSymbol) return true;
  switch (e.kind()) {
    case SymKind::kAdd:
    case SymKind::kMul:
    case SymKind::kMax:
    case SymKind::kMin:
    case SymKind::kFloorDiv:
    case SymKind::kMod: break;
    case SymKind::kPow:
      if (auto k = e.operands()[1].constant(); !k || *k < 1 || *k > 8) return false;
      break;
    default: return false;
  }
  return std::all_of(e.operands().begin(), e.operands().end(), Writes);
}

std::optional<ir::Sizes> StridesLike(const ir::Type& old, const ir::Sizes& sizes) {
  if (!old.strides_known || old.strides.size() != sizes.size() || old.sizes.size() != sizes.size()) return std::nullopt;
  std::vector<int> order;
  ir::Sizes out(sizes.size(), Sym(1));
  for (size_t d = 0; d < sizes.size(); ++d) {
    auto size = old.sizes[d].constant(), stride = old.strides[d].constant();
    if (!size || !stride) return std::nullopt;
    if (*stride == 0 && *size != 1)
      out[d] = 0;
    else
      order.push_back(static_cast<int>(d));
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return *old.strides[a].constant() > *old.strides[b].constant(); });
  int64_t expected = 1;
  Sym stride = 1;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const int64_t size = *old.sizes[*it].constant();
    if (size != 1 && *old.strides[*it].constant() != expected) return std::nullopt;
    out[*it] = stride;
    if (__builtin_mul_overflow(expected, size, &expected)) return std::nullopt;
    stride = stride * sizes[*it];
  }
  return out;
}

namespace {
template <typename F>
void ForEachType(ir::Graph& g, const F& f) {
  for (ir::Value* v : g.inputs()) f(v->mutable_type());
  for (ir::Node* n : g) {
    for (const ir::NamedArg& a : n->args())
      if (auto sub = a.arg.get<ir::SubGraph>()) ForEachType(**sub, f);
    for (ir::Value* v : n->outputs())
      if (v) f(v->mutable_type());
  }
}
}  // namespace

absl::Status RenameSymbols(ir::Program& p, const std::vector<NamedSymbol>& named) {
  absl::flat_hash_map<std::string, const NamedSymbol*> by_name;
  for (const NamedSymbol& n : named) by_name[std::string(n.symbol.name())] = &n;
  absl::flat_hash_map<std::string, ir::SymbolInfo> used;
  const auto known = p.syms->symbols();
  auto note = [&](Sym s) {
    for (Sym x : s.Symbols()) used[std::string(x.name())];
  };
  ForEachType(*p.graph, [&](ir::Type& t) {
    for (Sym s : t.sizes) note(s);
    for (Sym s : t.strides) note(s);
    note(t.storage_offset);
    note(t.expr);
  });
  auto table = std::make_unique<ir::SymTable>();
  for (const NamedSymbol& n : named) {
    table->Symbol(n.name);
    RETURN_IF_ERROR(table->DeclareRange(n.name, n.range));
    if (n.example != 0) table->SetHint(n.name, n.example);
  }
  for (const ir::SymbolInfo& s : known) {
    if (!used.contains(s.name) || by_name.contains(s.name)) continue;
    table->Symbol(s.name, s.positive);
    RETURN_IF_ERROR(table->DeclareRange(s.name, s.range));
    if (s.hint) table->SetHint(s.name, *s.hint);
  }
  const auto renamed = [&](Sym s) -> std::optional<Sym> {
    auto it = by_name.find(std::string(s.name()));
    return table->FindSymbol(it == by_name.end() ? std::string(s.name()) : it->second->name);
  };
  ir::SubstituteSymbols(p, renamed);
  // Ranges of expressions go by the new names; those of what is gone go.
  std::vector<std::pair<std::string, ir::RangeConstraint>> constraints;
  for (auto& [text, range] : p.range_constraints) {
    auto e = p.syms->ParseExpr(text);
    if (!e.ok() || e->is_constant()) continue;
    const std::vector<Sym> symbols = e->Symbols();
    if (!std::all_of(symbols.begin(), symbols.end(), [&](Sym s) { return renamed(s).has_value(); })) continue;
    constraints.emplace_back(ir::Substitute(*e, renamed).ToString(), range);
  }
  p.range_constraints = std::move(constraints);
  p.syms = std::move(table);
  return absl::OkStatus();
}

std::string NameForDim(const ir::Value& input, int axis, const std::function<bool(const std::string&)>& taken) {
  const int rank = input.rank();
  const bool floats = ir::IsFloating(input.dtype());
  const auto named = [&](std::string_view word) {
    return std::string_view(input.name()).find(word) != std::string::npos;
  };
  std::string name;
  if (axis > 0 && rank >= 4 && (named("cache") || named("past"))) {  // of keys and values: what was computed before
    name = "past";
    for (int k = 2; taken(name); ++k) name = text::StrCat("past_", k);
    return name;
  }
  if (axis == 0 && rank == 1 && named("position"))
    name = "seq";
  else if (axis == 0)
    name = "batch";
  else if (rank == 4 && floats && axis >= 2)
    name = axis == 2 ? "height" : "width";
  else if (axis == 1 && (rank == 2 || rank == 3))
    name = "seq";
  if (!name.empty() && !taken(name)) return name;
  std::string base;
  for (char c : input.name()) base += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (base.empty() || std::isdigit(static_cast<unsigned char>(base[0]))) base = "x" + base;
  name = text::StrCat(base, "_d", axis);
  for (int k = 2; taken(name); ++k) name = text::StrCat(base, "_d", axis, "_", k);
  return name;
}

absl::Status CanonicalizeDimNames(ir::Program& p) {
  const auto numbered = [](std::string_view name) {
    return name.size() > 1 && name[0] == 's' && std::all_of(name.begin() + 1, name.end(), [](char c) {
             return std::isdigit(static_cast<unsigned char>(c));
           });
  };
  const auto symbols = p.syms->symbols();
  std::vector<NamedSymbol> named;
  for (size_t i = 0; i < p.graph->inputs().size() && i < p.input_specs.size(); ++i) {
    const ir::Value* v = p.graph->inputs()[i];
    if (p.input_specs[i].kind != ir::InputSpec::kUser || !v->type().is_tensor()) continue;
    for (int axis = 0; axis < v->rank(); ++axis) {
      const Sym s = v->sizes()[axis];
      if (s.is_constant() || s.kind() != SymKind::kSymbol || !numbered(s.name())) continue;
      const auto given = [&](const NamedSymbol& n) { return n.symbol == s; };
      if (std::any_of(named.begin(), named.end(), given)) continue;
      const auto taken = [&](const std::string& name) {
        return p.syms->FindSymbol(name).has_value() ||
               std::any_of(named.begin(), named.end(), [&](const NamedSymbol& n) { return n.name == name; });
      };
      auto info =
          std::find_if(symbols.begin(), symbols.end(), [&](const ir::SymbolInfo& x) { return x.name == s.name(); });
      named.push_back({s, NameForDim(*v, axis, taken), info->range, info->hint.value_or(0)});
    }
  }
  return named.empty() ? absl::OkStatus() : RenameSymbols(p, named);
}

}  // namespace slipway::dynamic_shapes
