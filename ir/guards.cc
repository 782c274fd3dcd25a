// A guard names inputs by the arguments of the Python function, as torch's ShapeEnv prints them: L['x'].size()[1],
// L['batch'][0]['ids'], L['n']. Sizes are put in as text, and the rest is an expression as any other in the file.
#include "ir/guards.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/text.h"

namespace slipway::ir {
namespace {

constexpr std::string_view kArgument = "L[";

// The next subscript, [0] or ['key'], which is taken off `rest`; null where there is none.
std::optional<std::string> Subscript(std::string_view* rest) {
  if (!rest->starts_with('[')) return std::nullopt;
  const char quote = rest->size() > 1 ? (*rest)[1] : 0;
  const bool quoted = quote == '\'' || quote == '"';
  const size_t begin = quoted ? 2 : 1;
  const size_t end = quoted ? rest->find(std::string{quote, ']'}, begin) : rest->find(']', begin);
  if (end == std::string_view::npos) return std::nullopt;
  std::string key(rest->substr(begin, end - begin));
  rest->remove_prefix(end + (quoted ? 2 : 1));
  return key;
}

// The value that torch.export made of an argument's leaf: keys joined, in lower case, what no identifier has as _
// (placeholder_naming_pass).
std::string ValueName(const std::vector<std::string>& keys) {
  std::string name = text::Join(keys, "_");
  for (char& c : name)
    c = std::isalnum(static_cast<unsigned char>(c)) ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
                                                    : '_';
  return name;
}

const Value* FindInput(const Program& p, const std::string& name) {
  const Value* found = nullptr;
  for (size_t i = 0; i < p.input_specs.size(); ++i)
    if (const Value* v = p.graph->inputs()[i]; p.input_specs[i].kind == InputSpec::kUser && v->name() == name)
      found = v;
  return found;
}

// What L['x'].size()[1] or L['n'] is, as text; `rest` begins behind the L.
std::optional<std::string> SizeText(const Program& p, std::string_view* rest, std::string* shown) {
  std::vector<std::string> keys;
  while (auto key = Subscript(rest)) keys.push_back(*std::move(key));
  *shown = text::Join(keys, ".");
  const Value* v = FindInput(p, ValueName(keys));
  if (rest->starts_with(".size()[")) {
    rest->remove_prefix(std::string_view(".size()").size());
    const std::string dim = Subscript(rest).value_or("");
    text::StrAppend(shown, ".size()[", dim, "]");
    size_t d = 0;
    if (!v || !v->type().is_tensor() || !text::ParseNumber(dim, &d) || d >= v->sizes().size()) return std::nullopt;
    return text::StrCat("(", v->sizes()[d].ToString(), ")");
  }
  if (!v || v->type().kind != Type::kSymInt || rest->starts_with('.')) return std::nullopt;
  return text::StrCat("(", v->type().expr.ToString(), ")");
}

// What Python calls operators and functions of sizes, and what ParseExpr() does.
constexpr std::pair<std::string_view, std::string_view> kPythonWords[] = {{"and", "and"},
                                                                          {"or", "or"},
                                                                          {"not", "not"},
                                                                          {"True", "True"},
                                                                          {"False", "False"},
                                                                          {"max", "Max"},
                                                                          {"min", "Min"},
                                                                          {"Max", "Max"},
                                                                          {"Min", "Min"},
                                                                          {"Mod", "Mod"},
                                                                          {"FloorDiv", "FloorDiv"},
                                                                          {"PythonMod", "PythonMod"},
                                                                          {"torch.sym_float", "ToFloat"},
                                                                          {"math.trunc", "TruncToInt"},
                                                                          {"math.floor", "FloorToInt"},
                                                                          {"math.ceil", "CeilToInt"}};

// Text between sizes as ParseExpr() takes it; null where it has a name that is neither of these nor a symbol's: it
// would become one.
std::optional<std::string> Translated(std::string_view text, const SymTable& symbols) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_' || text[end] == '.'))
      ++end;
    if (end == i || std::isdigit(static_cast<unsigned char>(text[i])) || text[i] == '.') {
      end = std::max(end, i + 1);
      out += text.substr(i, end - i);
    } else {
      const std::string_view name = text.substr(i, end - i);
      const auto* word = std::find_if(std::begin(kPythonWords), std::end(kPythonWords),
                                      [&](const auto& w) { return w.first == name; });
      if (word == std::end(kPythonWords) && !symbols.FindSymbol(name)) return std::nullopt;
      out += word == std::end(kPythonWords) ? name : word->second;
    }
    i = end;
  }
  return out;
}

// Whether plans have an operation for each part.
bool IsComputable(Sym s) {
  if (s.is_too_large() || s.kind() == SymKind::kCall) return false;
  const auto operands = s.operands();
  const bool whole = s.kind() == SymKind::kFloorDiv || s.kind() == SymKind::kCeilDiv;
  return std::all_of(operands.begin(), operands.end(),
                     [&](Sym o) { return IsComputable(o) && (!whole || o.is_integer_valued()); });
}

}  // namespace

std::vector<Guard> GuardsOf(const Program& p) {
  std::vector<Guard> out;
  for (std::string_view rest : p.guards) {
    Guard guard;
    std::string condition;
    bool known = true;
    for (;;) {
      const size_t at = rest.find(kArgument);
      const auto between = Translated(rest.substr(0, at), *p.syms);
      known = known && between;
      condition += between.value_or(""), guard.text += rest.substr(0, at);
      if (at == std::string_view::npos) break;
      rest.remove_prefix(at + 1);
      std::string shown;
      const size_t before = rest.size();
      const auto size = SizeText(p, &rest, &shown);
      if (rest.size() == before) {  // no subscript that ends: the text is no guard of torch's
        known = false;
        guard.text += 'L';
        continue;
      }
      known = known && size;
      condition += size.value_or(""), guard.text += shown;
    }
    if (known) {
      auto expr = p.syms->ParseExpr(condition);
      if (expr.ok() && !expr->is_integer_valued() && IsComputable(*expr)) guard.condition = *expr;
    }
    if (guard.condition && guard.condition->kind() == SymKind::kBool && guard.condition->bool_value()) continue;
    out.push_back(std::move(guard));
  }
  return out;
}

}  // namespace slipway::ir
