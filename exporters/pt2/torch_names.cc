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

// Python's keywords and builtins, and what torch.fx imports: an input of such a name has another one in the source that
// torch writes, name_1, which may be that of an input behind it.
bool IsPythonName(std::string_view name) {
  static const auto& names = *new text::Set([] {
    text::Set all;
    for (const std::string_view word : text::Split(
             "BaseException BaseExceptionGroup Ellipsis Exception ExceptionGroup False GeneratorExit "
             "KeyboardInterrupt None NoneType NotImplemented StopAsyncIteration StopIteration SystemExit True abs "
             "aiter all and anext any as ascii assert async await bin bool break breakpoint bytearray bytes "
             "callable chr class classmethod compile complex continue copyright credits def del delattr device "
             "dict dir divmod elif else enumerate eval except exec exit filter finally float for format from "
             "frozenset fx_pytree getattr global globals hasattr hash help hex id if import in inf input int is "
             "isinstance issubclass iter lambda len license list locals map max memoryview min nan next nonlocal "
             "not object oct open or ord pass pow print property pytree quit raise range repr return reversed "
             "round set setattr slice sorted staticmethod str sum super torch try tuple type vars while with yield "
             "zip",
             ' '))
      all.insert(std::string(word));
    return all;
  }());
  return names.contains(name) || name.ends_with("Error") || name.ends_with("Warning");
}

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

void NameValues(ir::Graph& g, bool root = true) {
  // Callers know the names of a program's inputs: these change where they have to.
  for (ir::Value* v : g.inputs()) {
    if (!IsPythonName(v->name())) continue;
    const std::string prefix = text::StrCat(v->name(), "_");
    const auto clashes = [&](const ir::Value* o) { return o->name().starts_with(prefix); };
    if (!root || std::any_of(g.inputs().begin(), g.inputs().end(), clashes))
      g.Rename(v, g.UniqueName(text::StrCat("_", v->name())));
  }
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
      if (const auto* sub = a.arg.get<ir::SubGraph>(); sub && *sub) NameValues(**sub, false);
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
