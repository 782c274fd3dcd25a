// Found by name, else among the overloads of the name by the types of their arguments.
#include "ir/ops/functional.h"

#include <string_view>
#include <vector>

#include "base/text.h"

namespace slipway::ir {
namespace {

// Overloads by "aten.base.".
const std::vector<std::string_view>& Overloads(std::string_view stem) {
  static const auto& map = *[] {
    auto* m = new text::Map<std::vector<std::string_view>>();
    for (std::string_view name : AllOps())
      if (size_t dot = name.rfind('.'); dot != std::string_view::npos) (*m)[name.substr(0, dot + 1)].push_back(name);
    return m;
  }();
  static const auto& none = *new std::vector<std::string_view>();
  auto it = map.find(stem);
  return it == map.end() ? none : it->second;
}

}  // namespace

const OpDef* FunctionalOf(const OpDef& op) {
  std::string_view base = op.base;
  if (base.starts_with("__i") && base.ends_with("__"))
    return FindOp(text::StrCat(op.ns, ".__", base.substr(3), ".", op.overload));
  if (base.ends_with('_')) {
    base.remove_suffix(1);
    if (const OpDef* f = FindOp(text::StrCat(op.ns, ".", base, ".", op.overload)); f && !f->mutates()) return f;
  }
  std::vector<std::string_view> names;
  for (const ArgDef& a : op.args)
    if (!a.written || !a.keyword_only) names.push_back(a.name);
  for (const char* suffix : {".", "_functional."}) {  // the latter where the name is another operator's: normal
    for (std::string_view candidate : Overloads(text::StrCat(op.ns, ".", base, suffix))) {
      const OpDef* f = FindOp(candidate);
      if (!f || f->mutates() || f->args.size() != names.size()) continue;
      bool same = true;
      for (size_t i = 0; same && i < names.size(); ++i) {
        const ArgDef& have = op.args[op.ArgIndex(names[i])];
        same = f->args[i].name == names[i] && f->args[i].type == have.type && f->args[i].is_list == have.is_list;
      }
      if (same) return f;
    }
  }
  return nullptr;
}

}  // namespace slipway::ir
