// torch.export.load takes the number of a symbol from its name, to count on from the highest, and writes the graph as
// Python's source.
#include "exporters/pt2/torch_names.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/text.h"
#include "ir/specialize.h"

namespace slipway::exporters {
namespace {

bool IsTorchName(std::string_view name) {
  size_t digits = 0;
  while (digits < name.size() && name[name.size() - 1 - digits] >= '0' && name[name.size() - 1 - digits] <= '9')
    ++digits;
  const std::string_view prefix = name.substr(0, name.size() - digits);
  return digits > 0 && digits < 10 && (prefix == "s" || prefix == "u" || prefix == "zf" || prefix == "zuf");
}

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Whether torch could call a node of this operator so: "scan_6" of higher_order.scan. While it reads a node of several
// results, that is the name of all of them together.
bool IsNameOfNode(std::string_view name, std::string_view op) {
  op.remove_prefix(op.find('.') + 1);
  if (!name.starts_with(op.substr(0, op.find('.')))) return false;
  name.remove_prefix(std::min(op.find('.'), op.size()));
  if (name.empty()) return true;
  if (name[0] != '_' || name.size() == 1) return false;
  return std::all_of(name.begin() + 1, name.end(), IsDigit);
}

void NameValues(ir::Graph& g) {
  const auto name = [&](ir::Value* v, const ir::Node* n) {
    if (!v) return;
    std::string good = v->name();
    if (n && (n->outputs().size() > 1 || n->hop_single_return == false) && IsNameOfNode(good, n->op_name()))
      good = "getitem";
    for (char& c : good)
      if (!IsLetter(c) && !IsDigit(c)) c = '_';
    if (good.empty() || IsDigit(good[0])) good = text::StrCat("_", good);
    if (good != v->name()) g.Rename(v, g.UniqueName(good));
  };
  for (ir::Value* v : g.inputs()) name(v, nullptr);
  for (ir::Node* n : g) {
    for (ir::Value* v : n->outputs()) name(v, n);
    for (const ir::NamedArg& a : n->args())
      if (const auto* sub = a.arg.get<ir::SubGraph>(); sub && *sub) NameValues(**sub);
  }
}

absl::Status NameSymbols(ir::Program& p) {
  text::Set of_inputs;
  for (const ir::Value* v : p.graph->inputs())
    for (const ir::Sym& size : v->sizes())
      for (const ir::Sym& s : size.Symbols()) of_inputs.insert(std::string(s.name()));
  const std::vector<ir::SymbolInfo> known = p.syms->symbols();
  if (std::all_of(known.begin(), known.end(), [](const ir::SymbolInfo& s) { return IsTorchName(s.name); }))
    return absl::OkStatus();
  // All go into a new table, so that no other name is left.
  auto table = std::make_unique<ir::SymTable>();
  text::Map<ir::Sym> renamed;
  size_t next = 0;
  for (const ir::SymbolInfo& s : known) {
    std::string name = s.name;
    while (!IsTorchName(name) || (name != s.name && p.syms->FindSymbol(name)))
      name = text::StrCat(of_inputs.contains(s.name) ? "s" : "u", next++);
    renamed.emplace(s.name, table->Symbol(name, s.positive));
    RETURN_IF_ERROR(table->DeclareRange(name, s.range));
    if (s.hint) table->SetHint(name, *s.hint);
  }
  const auto replace = [&](ir::Sym s) { return std::optional<ir::Sym>(renamed.find(std::string(s.name()))->second); };
  ir::SubstituteSymbols(p, replace);
  for (auto& [text, range] : p.range_constraints)
    if (const auto e = p.syms->ParseExpr(text); e.ok()) text = ir::Substitute(*e, replace).ToString();
  p.syms = std::move(table);
  return absl::OkStatus();
}

}  // namespace

absl::Status NameForTorch(ir::Program& p) {
  NameValues(*p.graph);
  return NameSymbols(p);
}

}  // namespace slipway::exporters
