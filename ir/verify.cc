// One walk over the graphs in order of definition.
#include "ir/verify.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "ir/ops/higher_order.h"
#include "ir/ops/op_table.h"

namespace slipway::ir {
namespace {

constexpr int kMaxDepth = 64;  // of subgraphs

bool IsNumber(const Value* v) { return v && (v->type().is_sym() || (v->type().is_tensor() && v->rank() == 0)); }

// Whether `a` can stand for one argument of the base type; torch passes numbers where tensors are declared, and 0-d
// tensors and symbolic numbers where numbers are.
bool FitsElement(std::string_view type, const Arg& a) {
  const Value* v = a.value();
  const bool number = a.is<int64_t>() || a.is<double>() || a.is<bool>() || a.is<std::complex<double>>() || IsNumber(v);
  if (type == "Tensor") return number || (v && v->type().is_tensor());
  if (type == "Scalar" || type == "complex" || type == "float") return number;
  if (type == "int" || type == "SymInt" || type == "bool" || type == "SymBool")
    return a.is<int64_t>() || a.is<bool>() || IsNumber(v);
  if (type == "str") return a.is<std::string>();
  if (type == "ScalarType") return a.is<DType>();
  if (type == "Layout") return a.is<Layout>();
  if (type == "MemoryFormat") return a.is<MemoryFormat>();
  if (type == "Device") return a.is<Device>();
  return true;  // generators, classes and type variables: anything
}

template <typename List>
bool AllElementsFit(std::string_view type, const List& list) {
  return std::all_of(list.begin(), list.end(), [&](const auto& x) { return FitsElement(type, Arg(x)); });
}

bool FitsList(const ArgDef& d, const Arg& a) {
  if (auto vs = a.get<Values>())
    return std::all_of(vs->begin(), vs->end(),
                       [&](Value* v) { return v ? FitsElement(d.type, Arg(v)) : d.element_optional; });
  if (auto x = a.get<Ints>()) return x->empty() || AllElementsFit(d.type, *x);
  if (auto x = a.get<SymInts>()) return AllElementsFit(d.type, *x);
  if (auto x = a.get<std::vector<double>>()) return AllElementsFit(d.type, *x);
  if (auto x = a.get<std::vector<bool>>()) return x->empty() || FitsElement(d.type, Arg(true));
  if (auto x = a.get<std::vector<std::string>>()) return AllElementsFit(d.type, *x);
  if (a.is<std::vector<Values>>() || a.is<std::vector<Ints>>() || a.is<std::vector<std::vector<double>>>())
    return d.type.ends_with("[]") || d.type == "t" || d.type == "Any";
  // One element stands for all: int[2] stride=1, and reductions' dim=0.
  return FitsElement(d.type, a);
}

bool Fits(const ArgDef& d, const Arg& a) {
  if (a.is_none())
    return d.optional || d.type == "Generator" || d.type == "Any" || (d.has_default && d.default_value.is_none());
  return d.is_list ? FitsList(d, a) : FitsElement(d.type, a);
}

bool FitsReturn(const ReturnDef& r, const Value* v) {
  if (!v) return true;  // None, or a number that was known
  const Type& t = v->type();
  if (r.type == "Tensor") return t.is_tensor();
  if (r.type == "int" || r.type == "SymInt") return t.kind == Type::kSymInt;
  if (r.type == "float") return t.kind == Type::kSymFloat;
  if (r.type == "bool" || r.type == "SymBool") return t.kind == Type::kSymBool;
  if (r.type == "Scalar") return t.is_sym();
  return true;
}

class Verifier {
 public:
  explicit Verifier(const Program& p) : p_(p) {}

  absl::Status Run() {
    where_ = text::StrCat("program ", p_.name);
    if (!p_.graph) return Error("there is no graph");
    RETURN_IF_ERROR(VerifyGraph(*p_.graph, "main", 0));
    where_ = text::StrCat("program ", p_.name);
    return VerifySignature();
  }

 private:
  const Program& p_;
  std::string where_;
  absl::flat_hash_set<const Graph*> seen_;

  absl::Status Error(std::string_view what) const {
    return absl::InvalidArgumentError(text::StrCat(where_, ": ", what));
  }

  absl::Status VerifySignature() {
    const Graph& g = *p_.graph;
    if (p_.input_specs.size() != g.inputs().size())
      return Error(text::StrCat(p_.input_specs.size(), " input specs for ", g.inputs().size(), " inputs"));
    if (p_.output_specs.size() != g.outputs.size())
      return Error(text::StrCat(p_.output_specs.size(), " output specs for ", g.outputs.size(), " outputs"));
    for (size_t i = 0; i < p_.input_specs.size(); ++i) {
      const InputSpec& s = p_.input_specs[i];
      const Value& v = *g.inputs()[i];
      if (!s.is_weight()) continue;
      if (!v.type().is_tensor()) return Error(text::StrCat("input %", v.name(), " is a weight and no tensor"));
      auto it = p_.weights.find(s.target);
      if (it == p_.weights.end()) continue;  // a weightless program
      if (it->second.dtype != v.dtype())
        return Error(text::StrCat("weight '", s.target, "' is ", Name(it->second.dtype), ", input %", v.name(), " is ",
                                  Name(v.dtype())));
      const std::vector<int64_t>& sizes = it->second.sizes;
      bool fits = sizes.size() == v.sizes().size();
      for (size_t d = 0; fits && d < sizes.size(); ++d) fits = !ProvablyDifferent(sizes[d], v.sizes()[d]);
      if (!fits) return Error(text::StrCat("weight '", s.target, "' has other sizes than input %", v.name()));
    }
    for (const auto& [name, t] : p_.weights)
      if (absl::Status s = Validate(t); !s.ok())
        return Error(text::StrCat("weight '", name, "': ", text::FromAbsl(s.message())));
    for (size_t i = 0; i < p_.output_specs.size(); ++i) {
      const OutputSpec& s = p_.output_specs[i];
      const bool update = s.kind != OutputSpec::kUser && s.kind != OutputSpec::kLoss && s.kind != OutputSpec::kToken;
      if (update && !g.outputs[i].value())
        return Error(text::StrCat("output ", i, " updates '", s.target, "' and is no value"));
      if (s.kind == OutputSpec::kUserInputMutation && !IsInput(g.FindValue(s.target)))
        return Error(text::StrCat("output ", i, " updates '", s.target, "', which is no input"));
    }
    return absl::OkStatus();
  }
  static bool IsInput(const Value* v) { return v && !v->producer(); }

  // ---- graphs

  absl::Status VerifyGraph(const Graph& g, std::string_view name, int depth) {
    if (!seen_.insert(&g).second) return absl::OkStatus();
    if (depth > kMaxDepth) return Error("subgraphs are nested too deeply, or contain one another");
    const std::string outer = where_;
    const std::string place = where_ = text::StrCat(outer, ", graph ", name);
    if (g.program() != &p_) return Error("the graph belongs to another program");

    absl::flat_hash_map<const Value*, std::vector<const Node*>> users;  // of the values defined so far
    std::vector<const Value*> order;
    text::ViewMap<bool> names;
    auto define = [&](const Value* v) -> absl::Status {
      if (v->graph() != &g) return Error(text::StrCat("%", v->name(), " belongs to another graph"));
      if (v->name().empty()) return Error("a value without a name");
      if (!names.emplace(v->name(), true).second) return Error(text::StrCat("two values are called %", v->name()));
      if (g.FindValue(v->name()) != v) return Error(text::StrCat("%", v->name(), " is not found by its name"));
      users[v];
      order.push_back(v);
      return VerifyType(*v);
    };
    auto use = [&](const Arg& a, const Node* n) -> absl::Status {
      const Value* bad = nullptr;
      a.ForEachValue([&](Value* v) {
        auto it = users.find(v);
        if (it == users.end())
          bad = v;
        else if (n)
          it->second.push_back(n);
      });
      return bad ? Error(text::StrCat("%", bad->name(), " is used and not defined before")) : absl::OkStatus();
    };

    for (size_t i = 0; i < g.inputs().size(); ++i) {
      const Value* v = g.inputs()[i];
      RETURN_IF_ERROR(define(v));
      if (v->producer() || v->index() != static_cast<int>(i))
        return Error(text::StrCat("input %", v->name(), " is not at its place"));
    }
    size_t count = 0;
    const Node* previous = nullptr;
    for (const Node* n = g.first(); n; previous = n, n = n->next(), ++count) {
      where_ = text::StrCat(place, ", node ", count, " (", n->op_name(),
                            n->output() ? text::StrCat(" %", n->output()->name()) : "", ")");
      if (n->erased() || n->graph() != &g || n->prev() != previous)
        return Error("the node is not linked into its graph");
      for (const NamedArg& a : n->args()) RETURN_IF_ERROR(use(a.arg, n));
      RETURN_IF_ERROR(VerifyArgs(*n));
      RETURN_IF_ERROR(VerifySubgraphs(*n, depth));
      for (size_t i = 0; i < n->outputs().size(); ++i) {
        const Value* v = n->outputs()[i];
        if (!v) continue;
        if (v->producer() != n || v->index() != static_cast<int>(i))
          return Error(text::StrCat("result %", v->name(), " is not at its place"));
        RETURN_IF_ERROR(define(v));
      }
      RETURN_IF_ERROR(VerifyResults(*n));
      if (p_.form == Form::kFunctional && n->op().mutates())
        return Error("the operator writes its arguments, in a functional program");
    }
    where_ = place;
    if (g.last() != previous || g.node_count() != count) return Error("the list of nodes is inconsistent");
    for (const Arg& a : g.outputs) RETURN_IF_ERROR(use(a, nullptr));
    for (const Value* v : order) {
      std::vector<const Node*> listed(v->users().begin(), v->users().end());
      std::vector<const Node*>& found = users[v];
      std::sort(listed.begin(), listed.end());
      std::sort(found.begin(), found.end());
      if (listed != found)
        return Error(
            text::StrCat("%", v->name(), " lists ", listed.size(), " users and has ", found.size(), " (or others)"));
    }
    where_ = outer;
    return absl::OkStatus();
  }

  absl::Status VerifyType(const Value& v) {
    const Type& t = v.type();
    switch (t.kind) {
      case Type::kNone: return Error(text::StrCat("%", v.name(), " has no type"));
      case Type::kTensor:
        if (t.dtype == DType::kUnknown) return Error(text::StrCat("%", v.name(), " has no dtype"));
        if (t.strides_known && t.strides.size() != t.sizes.size())
          return Error(
              text::StrCat("%", v.name(), " has ", t.sizes.size(), " sizes and ", t.strides.size(), " strides"));
        for (Sym s : t.sizes) {
          if (!s.is_integer_valued() && s.kind() != SymKind::kCall)
            return Error(text::StrCat("%", v.name(), " has a size that is no integer: ", s.ToString()));
          if (s.is_constant() && *s.constant() < 0) return Error(text::StrCat("%", v.name(), " has a negative size"));
        }
        if (!HasElementCount(t)) return Error(text::StrCat("%", v.name(), " has more elements than can be counted"));
        return absl::OkStatus();
      default: return absl::OkStatus();
    }
  }

  // ---- nodes

  absl::Status VerifyArgs(const Node& n) {
    const OpDef& op = n.op();
    if (!op.known || op.variadic) return absl::OkStatus();
    for (size_t i = 0; i < n.args().size(); ++i) {
      const NamedArg& a = n.args()[i];
      const int index = op.ArgIndex(a.name);
      if (index < 0) return Error(text::StrCat("the operator has no argument '", a.name, "'"));
      for (size_t k = 0; k < i; ++k)
        if (n.args()[k].name == a.name) return Error(text::StrCat("argument '", a.name, "' is given twice"));
      const ArgDef& d = op.args[index];
      if (!Fits(d, a.arg))
        return Error(text::StrCat("argument '", a.name, "' does not fit ", d.type, d.is_list ? "[]" : "",
                                  d.optional ? "?" : ""));
    }
    for (const ArgDef& d : op.args)
      if (!d.has_default && !n.Find(d.name)) return Error(text::StrCat("argument '", d.name, "' is missing"));
    return absl::OkStatus();
  }

  absl::Status VerifyResults(const Node& n) {
    const OpDef& op = n.op();
    const size_t outputs = n.outputs().size();
    if (!n.groups().empty()) {
      size_t total = 0;
      for (int g : n.groups()) {
        if (g < -1) return Error("a group of results of negative length");
        total += g < 0 ? 1 : g;
      }
      if (total != outputs) return Error(text::StrCat("groups of ", total, " results for ", outputs));
    }
    if (!op.known || op.variadic) return absl::OkStatus();
    if (op.returns.empty()) {  // Python functions give None
      const bool none = std::all_of(n.outputs().begin(), n.outputs().end(), [](const Value* v) { return !v; });
      return none ? absl::OkStatus() : Error(text::StrCat(outputs, " results for no return"));
    }
    const size_t returns = n.groups().empty() ? outputs : n.groups().size();
    if (returns != op.returns.size())
      return Error(text::StrCat(returns, " results for ", op.returns.size(), " returns"));
    size_t at = 0;
    for (size_t i = 0; i < returns; ++i) {
      const ReturnDef& r = op.returns[i];
      const int group = n.groups().empty() ? -1 : n.groups()[i];
      if (group >= 0 && !r.is_list && r.type != "t" && r.type != "Any")
        return Error(text::StrCat("a list for return ", i, ", which is none"));
      for (int k = 0; k < std::max(group, 1) && at < outputs && group != 0; ++k, ++at)
        if (!FitsReturn(r, n.outputs()[at]))
          return Error(text::StrCat("result %", n.outputs()[at]->name(), " does not fit the return type ", r.type));
    }
    return absl::OkStatus();
  }

  absl::Status VerifySubgraphs(const Node& n, int depth) {
    for (size_t i = 0; i < n.args().size(); ++i) {
      auto sub = n.At(i).get<SubGraph>();
      if (!sub) continue;
      if (!*sub) return Error(text::StrCat("argument ", i, " is a graph that is not there"));
      const std::string node = where_;
      RETURN_IF_ERROR(VerifyGraph(**sub, text::StrCat(n.op().base, ".", i), depth + 1));
      where_ = node;
    }
    if (!n.op().variadic) return absl::OkStatus();
    const absl::Status s = DecodeHigherOrder(n).status();
    return s.ok() || absl::IsUnimplemented(s) ? absl::OkStatus() : Error(text::FromAbsl(s.message()));
  }
};

}  // namespace

absl::Status Verify(const Program& p) { return Verifier(p).Run(); }

bool HasElementCount(const Type& t) {
  constexpr int64_t kMost = int64_t{1} << 60;
  int64_t count = 1;
  for (Sym s : t.sizes) {
    const auto n = s.constant();
    if (n && (*n < 0 || __builtin_mul_overflow(count, *n ? *n : 1, &count) || count > kMost)) return false;
  }
  return true;
}

}  // namespace slipway::ir
