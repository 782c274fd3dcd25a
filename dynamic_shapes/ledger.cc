// The copy has numbers for the symbols of its inputs, so that what is found out owes nothing to what the export stated.
#include "dynamic_shapes/ledger.h"

#include "base/text.h"
#include "dynamic_shapes/generalize_dims.h"
#include "ir/clone.h"
#include "ir/specialize.h"

namespace slipway::dynamic_shapes {
namespace {

using ir::Sym;

// Numbers for the symbols of the inputs: those of the example.
text::Map<int64_t> ExampleOf(const ir::Program& p) {
  text::Map<int64_t> out;
  for (size_t i = 0; i < p.graph->inputs().size() && i < p.input_specs.size(); ++i) {
    if (p.input_specs[i].kind != ir::InputSpec::kUser) continue;
    for (Sym s : p.graph->inputs()[i]->type().sizes)
      for (Sym x : s.Symbols()) out[std::string(x.name())] = -1;
  }
  for (const ir::SymbolInfo& s : p.syms->symbols())
    if (auto it = out.find(s.name); it != out.end()) it->second = s.hint.value_or(-1);
  return out;
}

}  // namespace

Ledger LedgerOf(const ir::Program& p, bool explain) {
  Ledger out;
  const text::Map<int64_t> example = ExampleOf(p);
  const auto value = [&](std::string_view name) -> std::optional<int64_t> {
    auto it = example.find(name);
    return it == example.end() || it->second < 0 ? std::nullopt : std::optional<int64_t>(it->second);
  };
  for (size_t i = 0; i < p.graph->inputs().size() && i < p.input_specs.size(); ++i) {
    const ir::Value* v = p.graph->inputs()[i];
    if (p.input_specs[i].kind != ir::InputSpec::kUser || !v->type().is_tensor()) continue;
    for (int axis = 0; axis < v->rank(); ++axis) {
      DimFact f;
      f.input = v->name();
      f.axis = axis;
      f.size = v->sizes()[axis];
      f.kind = f.size.is_constant()                    ? DimFact::kStatic
               : f.size.kind() == ir::SymKind::kSymbol ? DimFact::kFree
                                                       : DimFact::kRelated;
      for (const DimFact& before : out.dims)
        if (f.kind == DimFact::kFree && before.size == f.size) f.kind = DimFact::kRelated;
      f.range = ir::RangeOf(f.size);
      f.example = ir::Evaluate(f.size, value).value_or(-1);
      out.dims.push_back(std::move(f));
    }
  }
  if (!explain) return out;
  for (const auto& [name, number] : example)
    if (number < 0) return out;  // no example: nothing to find out from
  auto copy = ir::Clone(p);
  if (!ir::Specialize(*copy, example).ok()) return out;
  auto needs = GeneralizeDims(*copy, RequestAll, example.empty() ? Numbers::kMayBeSizes : Numbers::kLiteral);
  if (!needs.ok()) return out;
  out.conditions = needs->conditions;
  for (size_t i = 0; i < out.dims.size(); ++i) {  // the same inputs
    DimFact& f = out.dims[i];
    const DimFact& n = needs->dims[i];
    f.asked = n.asked;
    f.needs = n.needs;
    f.needs_range = n.range;
    f.cause = n.cause;
    f.help = n.help;
    if (f.kind == DimFact::kStatic && n.kind != DimFact::kStatic) {
      f.cause = "the export has it static; no node needs that";
      f.help = text::StrCat("--dynamic '", f.input, ":[…]' or --dynamic auto frees it");
    }
  }
  return out;
}

void Restate(const ir::Program& p, Ledger* ledger) {
  const Ledger now = LedgerOf(p, /*explain=*/false);
  for (size_t i = 0; i < ledger->dims.size(); ++i) {
    DimFact& f = ledger->dims[i];
    if (f.kind != DimFact::kStatic && now.dims[i].kind == DimFact::kStatic) f.cause = kPinned;
    f.kind = now.dims[i].kind;
    f.size = now.dims[i].size;
    f.range = now.dims[i].range;
  }
}

}  // namespace slipway::dynamic_shapes
