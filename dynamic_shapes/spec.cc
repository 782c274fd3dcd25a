// Asking goes in four steps: dimensions are freed, those of one name are made one, pins and ranges are put on symbols,
// and symbols are named. Each error quotes what was asked.
#include "dynamic_shapes/spec.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>

#include "base/status_macros.h"
#include "base/text.h"
#include "dynamic_shapes/generalize_dims.h"
#include "dynamic_shapes/rewrite.h"
#include "ir/specialize.h"

namespace slipway::dynamic_shapes {
namespace {

using ir::Sym;
using ir::Value;

absl::Status Bad(std::string_view quoted, std::string_view why) {
  return absl::InvalidArgumentError(text::StrCat("'", quoted, "': ", why));
}

bool IsIdentifier(std::string_view s) {
  if (s.empty() || std::isdigit(static_cast<unsigned char>(s[0]))) return false;
  return std::all_of(s.begin(), s.end(),
                     [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; });
}

// "1..512", "2..", "..64"
std::optional<ir::SymRange> ParseRange(std::string_view s) {
  const size_t at = s.find("..");
  if (at == std::string_view::npos) return std::nullopt;
  ir::SymRange r{0, std::numeric_limits<int64_t>::max()};
  const std::string_view low = text::Strip(s.substr(0, at)), high = text::Strip(s.substr(at + 2));
  if (!low.empty() && (!text::ParseNumber(low, &r.min) || r.min < 0)) return std::nullopt;
  if (!high.empty() && high != "inf" && !text::ParseNumber(high, &r.max)) return std::nullopt;
  if (r.min > r.max) return std::nullopt;
  return r;
}

absl::StatusOr<DimSpec> ParseDim(std::string_view s) {
  DimSpec d;
  d.text = std::string(s);
  if (s.empty() || s == "_" || s == "*") return d;
  if (text::ParseNumber(s, &d.number)) {
    if (d.number < 0) return Bad(s, "a size is not negative");
    d.kind = DimSpec::kPin;
    return d;
  }
  d.kind = DimSpec::kFree;
  if (s == "auto") return d;
  std::string_view value = s;
  if (const size_t eq = s.find('='); eq != std::string_view::npos) {
    d.name = std::string(text::Strip(s.substr(0, eq)));
    value = text::Strip(s.substr(eq + 1));
    if (!IsIdentifier(d.name)) return Bad(s, "a name is made of letters, digits and _");
    if (text::ParseNumber(value, &d.number)) {
      if (d.number < 0) return Bad(s, "a size is not negative");
      d.kind = DimSpec::kPin;
      return d;
    }
  } else if (IsIdentifier(s)) {
    d.name = std::string(s);
    return d;
  }
  d.range = ParseRange(value);
  if (!d.range) return Bad(s, "is no name, number or range (1..512)");
  return d;
}

std::optional<std::pair<std::string, int>> ParsePlace(std::string_view s) {
  const size_t dot = s.rfind('.');
  int axis = 0;
  if (dot == std::string_view::npos || dot == 0 || !text::ParseNumber(s.substr(dot + 1), &axis) || axis < 0)
    return std::nullopt;
  return std::pair(std::string(s.substr(0, dot)), axis);
}

// Parts between commas that are in no brackets.
std::vector<std::string_view> Parts(std::string_view s) {
  std::vector<std::string_view> out;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= s.size(); ++i) {
    if (i < s.size() && s[i] == '[') ++depth;
    if (i < s.size() && s[i] == ']') --depth;
    if (i < s.size() && (s[i] != ',' || depth > 0)) continue;
    out.push_back(text::Strip(s.substr(begin, i - begin)));
    begin = i + 1;
  }
  return out;
}

std::vector<Value*> UserInputs(ir::Program& p) {
  std::vector<Value*> out;
  for (size_t i = 0; i < p.graph->inputs().size() && i < p.input_specs.size(); ++i)
    if (p.input_specs[i].kind == ir::InputSpec::kUser && p.graph->inputs()[i]->type().is_tensor())
      out.push_back(p.graph->inputs()[i]);
  return out;
}

bool IsSymbol(Sym s) { return !s.is_constant() && s.kind() == ir::SymKind::kSymbol; }

class Applier {
 public:
  Applier(ir::Program& p, const Spec& spec) : p_(p), spec_(spec) {}

  absl::StatusOr<Ledger> Run() {
    RETURN_IF_ERROR(Resolve());
    ASSIGN_OR_RETURN(Ledger ledger, GeneralizeDims(p_, [&](const Value& v, int axis) { return DimRequests(v, axis); }));
    RETURN_IF_ERROR(Relate(ledger));
    RETURN_IF_ERROR(PinAndBound(ledger));
    Restate(p_, &ledger);
    return ledger;
  }

 private:
  ir::Program& p_;
  const Spec& spec_;
  struct Requested {
    Value* input;
    int axis;
    const DimSpec* dim;
  };
  std::vector<Requested> requested_;

  Value* Find(std::string_view name) {
    for (Value* v : UserInputs(p_))
      if (v->name() == name) return v;
    return nullptr;
  }
  absl::StatusOr<Value*> Input(const std::string& name, std::string_view quoted) {
    if (Value* v = Find(name)) return v;
    std::vector<std::string> names;
    for (Value* v : UserInputs(p_)) names.push_back(v->name());
    return Bad(quoted, text::StrCat("the program has no input '", name, "'; it has ", text::Join(names, ", ")));
  }
  absl::Status Resolve() {
    for (const Spec::Input& input : spec_.inputs) {
      ASSIGN_OR_RETURN(Value * v, Input(input.name, input.text));
      if (static_cast<int>(input.dims.size()) != v->rank())
        return Bad(input.text,
                   text::StrCat(input.dims.size(), " dimensions; '", input.name, "' is ", v->type().ToString()));
      for (int axis = 0; axis < v->rank(); ++axis)
        if (input.dims[axis].kind != DimSpec::kKeep) requested_.push_back({v, axis, &input.dims[axis]});
    }
    return absl::OkStatus();
  }
  std::optional<DimRequest> DimRequests(const Value& v, int axis) {
    DimRequest ask;
    for (const Requested& a : requested_) {
      if (a.input != &v || a.axis != axis) continue;
      auto size = v.sizes()[axis].constant();
      if (a.dim->kind == DimSpec::kPin && size && *size == a.dim->number) {
        ask.free = false;
        return ask;
      }
      ask.name = a.dim->name;
      return ask;
    }
    if (requested_.empty() && spec_.relations.empty() && !spec_.all) return std::nullopt;
    for (const Spec::Relation& r : spec_.relations)
      if ((r.a == v.name() && r.a_axis == axis) || (r.b == v.name() && r.b_axis == axis)) return ask;
    ask.follows = !spec_.all;
    return ask;
  }

  // Puts one size for another everywhere.
  absl::Status MakeSame(Value* a, int a_axis, Value* b, int b_axis, std::string_view quoted, const Ledger& ledger) {
    const Sym x = a->sizes()[a_axis], y = b->sizes()[b_axis];
    if (x == y) return absl::OkStatus();
    Sym from = y, to = x;
    if (!IsSymbol(from)) std::swap(from, to);
    const auto fails = [&](std::string_view why) {
      return Bad(quoted,
                 text::StrCat(a->name(), ".", a_axis, " is ", x.ToString(), " and ", b->name(), ".", b_axis, " is ",
                              y.ToString(), why, CauseOf(ledger, a, a_axis), CauseOf(ledger, b, b_axis)));
    };
    if (!IsSymbol(from)) return fails(", which are not the same");
    for (Sym s : to.Symbols())
      if (s == from) return fails(", which are not the same");
    if (auto e = Example(from), f = Example(to); e && f && *e != *f)
      return fails(text::StrCat(": ", *e, " and ", *f, " in the example"));
    const ir::SymRange r = p_.syms->range(from.name());
    if (auto k = to.constant(); k && (*k < ir::RuntimeRange(r).min || *k > r.max))
      return fails(", which is out of its range");
    ir::SubstituteSymbols(p_, [&](Sym s) { return s == from ? std::optional<Sym>(to) : std::nullopt; });
    return absl::OkStatus();
  }
  std::string CauseOf(const Ledger& ledger, const Value* v, int axis) {
    for (const DimFact& f : ledger.dims)
      if (f.input == v->name() && f.axis == axis && !f.cause.empty()) return text::StrCat(" (", f.cause, ")");
    return "";
  }
  std::optional<int64_t> Example(Sym s) {
    const auto symbols = p_.syms->symbols();
    return ir::Evaluate(s, [&](std::string_view name) -> std::optional<int64_t> {
      for (const ir::SymbolInfo& info : symbols)
        if (info.name == name) return info.hint;
      return std::nullopt;
    });
  }
  absl::Status Relate(const Ledger& ledger) {
    std::map<std::string, const Requested*> first;
    for (const Requested& a : requested_) {
      if (a.dim->name.empty()) continue;
      auto [it, fresh] = first.emplace(a.dim->name, &a);
      if (!fresh) RETURN_IF_ERROR(MakeSame(it->second->input, it->second->axis, a.input, a.axis, a.dim->text, ledger));
    }
    for (const Spec::Relation& r : spec_.relations) {
      ASSIGN_OR_RETURN(Value * a, Input(r.a, r.text));
      ASSIGN_OR_RETURN(Value * b, Input(r.b, r.text));
      if (r.a_axis >= a->rank() || r.b_axis >= b->rank()) return Bad(r.text, "there is no such dimension");
      RETURN_IF_ERROR(MakeSame(a, r.a_axis, b, r.b_axis, r.text, ledger));
    }
    return absl::OkStatus();
  }

  absl::Status PinAndBound(const Ledger& ledger) {
    std::map<std::string, NamedSymbol> changed;  // by the symbol's present name
    text::Map<int64_t> pins;
    const auto entry = [&](Sym s) -> NamedSymbol& {
      const std::string name(s.name());
      auto it = changed.find(name);
      if (it == changed.end())
        it = changed.emplace(name, NamedSymbol{s, name, p_.syms->range(name), Example(s).value_or(0)}).first;
      return it->second;
    };
    const auto put = [&](Sym size, const DimSpec& d, std::string_view what, std::string_view cause) -> absl::Status {
      if (d.kind == DimSpec::kPin) {
        if (auto k = size.constant())
          return *k == d.number ? absl::OkStatus()
                                : Bad(d.text, text::StrCat(what, " is ", *k, " and cannot be another size", cause));
        if (!IsSymbol(size))
          return Bad(d.text, text::StrCat(what, " is ", size.ToString(), "; pin the dimensions it is made of"));
        const ir::SymRange r = ir::RuntimeRange(p_.syms->range(size.name()));
        if (d.number < r.min || d.number > r.max) return Bad(d.text, text::StrCat(what, " is ", Shown(r)));
        auto [it, fresh] = pins.emplace(std::string(size.name()), d.number);
        if (!fresh && it->second != d.number)
          return Bad(d.text, text::StrCat(what, " is asked to be ", it->second, " as well"));
        return absl::OkStatus();
      }
      if (size.is_constant()) {
        if (d.range && (*size.constant() < d.range->min || *size.constant() > d.range->max))
          return Bad(d.text, text::StrCat(what, " is ", size.ToString()));
        return absl::OkStatus();  // the ledger says why it is static
      }
      if (!IsSymbol(size))
        return d.range
                   ? Bad(d.text, text::StrCat(what, " is ", size.ToString(), "; bound the dimensions it is made of"))
                   : absl::OkStatus();
      NamedSymbol& s = entry(size);
      if (!d.name.empty() && s.name == s.symbol.name()) s.name = d.name;  // the first of several names
      if (!d.range) return absl::OkStatus();
      const ir::SymRange r{std::max(s.range.min == 2 ? int64_t{0} : s.range.min, d.range->min),
                           std::min(s.range.max, d.range->max)};
      if (r.min > r.max) return Bad(d.text, text::StrCat(what, " is ", Shown(s.range)));
      if (auto example = Example(size); example && (*example < r.min || *example > r.max))
        return Bad(d.text, text::StrCat("the program was exported with ", what, " = ", *example));
      if (d.range->max > s.range.max)
        return Bad(d.text, text::StrCat(what, " is at most ", s.range.max, CauseOfSymbol(ledger, size)));
      s.range = r;
      return absl::OkStatus();
    };
    for (const Requested& a : requested_)
      RETURN_IF_ERROR(put(a.input->sizes()[a.axis], *a.dim, text::StrCat(a.input->name(), ".", a.axis),
                          CauseOf(ledger, a.input, a.axis)));
    for (const DimSpec& d : spec_.symbols) {
      std::optional<Sym> s = p_.syms->FindSymbol(d.name);
      for (const auto& [name, named] : changed)
        if (named.name == d.name) s = named.symbol;
      if (!s) return Bad(d.text, text::StrCat("the program has no dimension '", d.name, "'", Names()));
      RETURN_IF_ERROR(put(*s, d, d.name, ""));
    }
    if (!pins.empty()) {
      for (const auto& [name, value] : pins) changed.erase(name);
      RETURN_IF_ERROR(ir::Specialize(p_, pins));
    }
    std::vector<NamedSymbol> named;
    for (auto& [name, s] : changed) named.push_back(s);
    RETURN_IF_ERROR(CheckNames(named));
    if (!named.empty() || !pins.empty()) return RenameSymbols(p_, named);
    return absl::OkStatus();
  }
  absl::Status CheckNames(const std::vector<NamedSymbol>& named) {
    for (const NamedSymbol& s : named) {
      for (const NamedSymbol& t : named)
        if (&s != &t && s.name == t.name) return Bad(s.name, "names two dimensions that are not the same");
      if (s.name != s.symbol.name() && p_.syms->FindSymbol(s.name) &&
          std::none_of(named.begin(), named.end(), [&](const NamedSymbol& t) { return t.symbol.name() == s.name; }))
        return Bad(s.name, "is the name of another dimension");
    }
    return absl::OkStatus();
  }
  std::string CauseOfSymbol(const Ledger& ledger, Sym symbol) {
    for (const DimFact& f : ledger.dims)
      if (f.size == symbol && !f.cause.empty()) return text::StrCat(" (", f.cause, ")");
    return "";
  }
  std::string Names() {
    std::vector<std::string> names;
    for (const ir::SymbolInfo& s : p_.syms->symbols()) names.push_back(s.name);
    return names.empty() ? "" : text::StrCat("; it has ", text::Join(names, ", "));
  }
  static std::string Shown(ir::SymRange r) {
    return text::StrCat(r.min, "..",
                        r.max == std::numeric_limits<int64_t>::max() ? std::string("inf") : std::to_string(r.max));
  }
};

}  // namespace

absl::StatusOr<Spec> ParseSpec(std::string_view s) {
  Spec out;
  for (std::string_view part : Parts(s)) {
    if (part == "auto") {
      out.all = true;
      continue;
    }
    if (const size_t at = part.find(":["); at != std::string_view::npos) {
      if (!part.ends_with(']') || at == 0) return Bad(part, "an input is written NAME:[DIM,DIM]");
      Spec::Input input{std::string(part.substr(0, at)), {}, std::string(part)};
      const std::string_view inside = part.substr(at + 2, part.size() - at - 3);
      for (std::string_view dim : text::Split(inside, ',')) {
        if (inside.empty()) break;
        ASSIGN_OR_RETURN(DimSpec d, ParseDim(text::Strip(dim)));
        input.dims.push_back(std::move(d));
      }
      out.inputs.push_back(std::move(input));
      continue;
    }
    const size_t eq = part.find('=');
    if (eq == std::string_view::npos || eq == 0)
      return Bad(part, "is not auto, INPUT:[DIM,…], NAME=SIZE, NAME=LOW..HIGH or INPUT.AXIS=INPUT.AXIS");
    const auto a = ParsePlace(part.substr(0, eq)), b = ParsePlace(text::Strip(part.substr(eq + 1)));
    if (a && b && !ParseRange(part.substr(eq + 1))) {
      out.relations.push_back({a->first, b->first, a->second, b->second, std::string(part)});
      continue;
    }
    ASSIGN_OR_RETURN(DimSpec d, ParseDim(part));
    out.symbols.push_back(std::move(d));
  }
  return out;
}

absl::StatusOr<Ledger> ApplySpec(ir::Program& p, const Spec& spec) { return Applier(p, spec).Run(); }

absl::Status NameSymbols(ir::Program& p, absl::Span<const std::pair<std::string, std::string>> names) {
  std::vector<NamedSymbol> named;
  const auto symbols = p.syms->symbols();
  for (const auto& [from, to] : names) {
    auto it = std::find_if(symbols.begin(), symbols.end(), [&](const ir::SymbolInfo& s) { return s.name == from; });
    if (it == symbols.end())
      return Bad(text::StrCat(from, "=", to), text::StrCat("the program has no dimension '", from, "'"));
    if (!IsIdentifier(to)) return Bad(text::StrCat(from, "=", to), "a name is made of letters, digits and _");
    const bool taken =
        std::any_of(symbols.begin(), symbols.end(), [&](const ir::SymbolInfo& s) { return s.name == to; }) &&
        std::none_of(names.begin(), names.end(), [&](const auto& n) { return n.first == to; });
    if (taken || std::any_of(named.begin(), named.end(), [&](const NamedSymbol& n) { return n.name == to; }))
      return Bad(text::StrCat(from, "=", to), "is the name of another dimension");
    named.push_back({*p.syms->FindSymbol(from), to, it->range, it->hint.value_or(0)});
  }
  return named.empty() ? absl::OkStatus() : RenameSymbols(p, named);
}

}  // namespace slipway::dynamic_shapes
