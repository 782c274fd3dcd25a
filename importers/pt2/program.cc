// The schema reader: one function a record, named after it. Unknown keys are ignored (torch ignores them since 2.9);
// unknown union tags, enum numbers and names used before they are defined are errors that say where.
#include "importers/pt2/program.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "importers/json.h"
#include "ir/ops/op_table.h"

namespace slipway::importers {
namespace {

using ir::Arg;
using ir::Graph;
using ir::Type;
using ir::Value;
using Json = json::Value;

constexpr int kMaxGraphDepth = 32;

// The one key and value of a union; null options of torch >= 2.9's unset optionals do not occur inside unions.
struct Union {
  std::string_view tag;
  const Json* value;
};
absl::StatusOr<Union> AsUnion(const Json& j) {
  ASSIGN_OR_RETURN(auto members, j.AsObject());
  const json::Member* found = nullptr;
  for (const json::Member& m : members) {
    if (m.value.is_null() && members.size() > 1) continue;
    if (found) return j.Error("a union with more than one key");
    found = &m;
  }
  if (!found) return j.Error("an empty union");
  return Union{found->key, &found->value};
}

// Floats may be spelled as strings since 2.6.
absl::StatusOr<double> AsFloat(const Json& j) {
  if (j.is_string()) {
    ASSIGN_OR_RETURN(std::string_view s, j.AsString());
    if (s == "Infinity") return INFINITY;
    if (s == "-Infinity") return -INFINITY;
    if (s == "NaN") return NAN;
    return j.Error(text::StrCat("'", s, "' is not a number"));
  }
  return j.AsDouble();
}

absl::StatusOr<ir::DType> AsDType(const Json& j) {
  ASSIGN_OR_RETURN(int64_t n, j.AsInt());
  auto t = ir::DTypeFromPt2(n);
  if (!t) return j.Error(text::StrCat("unknown ScalarType ", n));
  return *t;
}

absl::StatusOr<ir::Device> AsDevice(const Json& j) {
  ir::Device d;
  ASSIGN_OR_RETURN(const Json* type, j.Get("type"));
  ASSIGN_OR_RETURN(std::string_view name, type->AsString());
  d.type = std::string(name);
  if (const Json* index = j.Find("index"); index && !index->is_null()) {
    ASSIGN_OR_RETURN(int64_t i, index->AsInt());
    d.index = i;
  }
  return d;
}

template <typename T, typename F>
absl::StatusOr<std::vector<T>> AsList(const Json& j, F element) {
  ASSIGN_OR_RETURN(auto items, j.AsArray());
  std::vector<T> out;
  out.reserve(items.size());
  for (const Json& item : items) {
    auto v = element(item);
    if (!v.ok()) return v.status();
    out.push_back(*std::move(v));
  }
  return out;
}

class ProgramReader {
 public:
  explicit ProgramReader(ir::Program& p) : p_(p) {}

  absl::Status Read(const Json& root) {
    ASSIGN_OR_RETURN(const Json* version, root.Get("schema_version"));
    RETURN_IF_ERROR(ReadVersion(*version));
    if (const Json* v = root.Find("torch_version"); v && v->is_string()) {
      ASSIGN_OR_RETURN(std::string_view s, v->AsString());
      p_.torch_version = std::string(s);
    }
    for (std::string_view key : {"verifiers", "dialect"}) {
      const Json* v = root.Find(key);
      if (!v) continue;
      if (v->is_array()) {
        ASSIGN_OR_RETURN(auto items, v->AsArray());
        if (items.empty()) continue;
        v = &items[0];
      }
      if (!v->is_string()) continue;
      ASSIGN_OR_RETURN(std::string_view s, v->AsString());
      p_.verifier_dialect = std::string(s);
    }
    if (const Json* ranges = root.Find("range_constraints")) RETURN_IF_ERROR(ReadRanges(*ranges));
    if (const Json* guards = root.Find("guards_code"); guards && guards->is_array()) {
      ASSIGN_OR_RETURN(p_.guards, AsList<std::string>(*guards, AsText));
    }
    ASSIGN_OR_RETURN(const Json* gm, root.Get("graph_module"));
    ASSIGN_OR_RETURN(const Json* graph, gm->Get("graph"));
    ASSIGN_OR_RETURN(const Json* signature, gm->Get("signature"));
    RETURN_IF_ERROR(ReadGraph(*graph, *p_.graph, 0, /*root=*/true));
    RETURN_IF_ERROR(ReadSignature(*signature));
    if (const Json* calls = gm->Find("module_call_graph")) RETURN_IF_ERROR(ReadModuleCalls(*calls));
    if (const Json* fields = gm->Find("treespec_namedtuple_fields");
        fields && fields->is_object() && !fields->AsObject()->empty())
      p_.namedtuple_fields_json = Print(*fields);
    return absl::OkStatus();
  }

 private:
  ir::Program& p_;
  text::Map<ir::Sym> exprs_;  // by text
  text::Map<std::shared_ptr<const ir::Device>> devices_;
  text::Map<std::shared_ptr<const ir::Source>> sources_;

  static absl::StatusOr<std::string> AsText(const Json& j) {
    ASSIGN_OR_RETURN(std::string_view s, j.AsString());
    return std::string(s);
  }

  absl::Status ReadVersion(const Json& j) {
    ASSIGN_OR_RETURN(const Json* major, j.Get("major"));
    ASSIGN_OR_RETURN(const Json* minor, j.Get("minor"));
    ASSIGN_OR_RETURN(int64_t a, major->AsInt());
    ASSIGN_OR_RETURN(int64_t b, minor->AsInt());
    if (a != 7 && a != 8)
      return absl::UnimplementedError(
          text::StrCat("PT2 schema ", a, ".", b, " (read: 7.x of torch 2.5 and 8.x of torch 2.6 … 2.13)"));
    p_.schema_major = static_cast<int>(a);
    p_.schema_minor = static_cast<int>(b);
    return absl::OkStatus();
  }

  absl::Status ReadRanges(const Json& j) {
    ASSIGN_OR_RETURN(auto members, j.AsObject());
    for (const json::Member& m : members) {
      ir::RangeConstraint r;
      for (bool is_max : {false, true}) {
        const Json* bound = m.value.Find(is_max ? "max_val" : "min_val");
        if (!bound || bound->is_null()) continue;
        if (bound->is_double()) continue;  // 2.5's bare Infinity
        ASSIGN_OR_RETURN(int64_t v, bound->AsInt());
        (is_max ? r.max : r.min) = v;
      }
      RETURN_IF_ERROR(DeclareRange(m.key, r));
    }
    return absl::OkStatus();
  }

  // A symbol's range belongs to the symbol, before any expression is made of it; what is said of an expression
  // ("4*s18") is kept as it stands. A bound that is not stated is left to the assumptions of the symbol's constructor
  // text.
  absl::Status DeclareRange(std::string_view key, const ir::RangeConstraint& r) {
    const bool symbol =
        !key.empty() && !absl::ascii_isdigit(static_cast<unsigned char>(key[0])) &&
        std::all_of(key.begin(), key.end(), [](unsigned char c) { return absl::ascii_isalnum(c) || c == '_'; });
    if (!symbol) {
      p_.range_constraints.emplace_back(std::string(key), r);
      return absl::OkStatus();
    }
    p_.syms->Symbol(key, /*positive=*/false);
    if (!r.min && !r.max) return absl::OkStatus();
    ir::SymRange range;
    if (r.min) range.min = *r.min;
    if (r.max) range.max = *r.max;
    return r.min ? p_.syms->DeclareRange(key, range) : p_.syms->SetRange(key, range);
  }

  absl::StatusOr<ir::Sym> Expr(const Json& sym_expr) {
    ASSIGN_OR_RETURN(const Json* text, sym_expr.Get("expr_str"));
    ASSIGN_OR_RETURN(std::string_view s, text->AsString());
    auto it = exprs_.find(s);
    if (it != exprs_.end()) return it->second;
    auto parsed = p_.syms->ParseExpr(s);
    if (!parsed.ok())
      return text->Error(text::StrCat("expression '", s.substr(0, 200), "': ", parsed.status().message()));
    if (parsed->kind() == ir::SymKind::kSymbol) {
      if (const Json* hint = sym_expr.Find("hint"); hint && hint->is_object())
        if (const Json* i = hint->Find("as_int"); i && i->is_int()) p_.syms->SetHint(parsed->name(), *i->AsInt());
    }
    exprs_.emplace(std::string(s), *parsed);
    return *parsed;
  }

  absl::StatusOr<ir::Sym> SymInt(const Json& j) {
    ASSIGN_OR_RETURN(Union u, AsUnion(j));
    if (u.tag == "as_int") {
      ASSIGN_OR_RETURN(int64_t v, u.value->AsInt());
      return ir::Sym(v);
    }
    if (u.tag == "as_expr") return Expr(*u.value);
    return j.Error(text::StrCat("unknown SymInt '", u.tag, "'"));
  }

  absl::StatusOr<Type> TensorMeta(const Json& j) {
    ASSIGN_OR_RETURN(const Json* dtype, j.Get("dtype"));
    ASSIGN_OR_RETURN(ir::DType t, AsDType(*dtype));
    ASSIGN_OR_RETURN(const Json* sizes, j.Get("sizes"));
    ASSIGN_OR_RETURN(auto list, sizes->AsArray());
    Type type = Type::Tensor(t, {});
    for (const Json& s : list) {
      ASSIGN_OR_RETURN(ir::Sym e, SymInt(s));
      if (e.is_constant() && *e.constant() < 0) return s.Error("negative size");
      type.sizes.push_back(e);
    }
    if (const Json* strides = j.Find("strides"); strides && strides->is_array()) {
      ASSIGN_OR_RETURN(auto items, strides->AsArray());
      for (const Json& s : items) {
        ASSIGN_OR_RETURN(ir::Sym e, SymInt(s));
        type.strides.push_back(e);
      }
      type.strides_known = type.strides.size() == type.sizes.size();
    }
    if (const Json* offset = j.Find("storage_offset"); offset && offset->is_object()) {
      ASSIGN_OR_RETURN(type.storage_offset, SymInt(*offset));
    }
    if (const Json* grad = j.Find("requires_grad"); grad && grad->is_bool()) type.requires_grad = *grad->AsBool();
    if (const Json* layout = j.Find("layout"); layout && layout->is_int()) {
      int64_t n = *layout->AsInt();
      if (n < 0 || n > 7) return layout->Error(text::StrCat("unknown Layout ", n));
      type.layout = static_cast<ir::Layout>(n);
    }
    if (const Json* device = j.Find("device"); device && device->is_object()) {
      ASSIGN_OR_RETURN(ir::Device d, AsDevice(*device));
      if (d.type != "cpu" || d.index) {
        auto& shared = devices_[text::StrCat(d.type, ":", d.index.value_or(-1))];
        if (!shared) shared = std::make_shared<const ir::Device>(d);
        type.device = shared;
      }
    }
    return type;
  }

  // ---- One graph: its dictionaries, inputs, nodes, outputs.

  struct Scope {
    Graph* graph;
    const Json *tensors = nullptr, *ints = nullptr, *bools = nullptr, *floats = nullptr, *objects = nullptr;
    int depth = 0;
    bool mixed_lists = false;  // higher-order operators: a list "of tensors" may hold symbolic numbers too
    text::ViewMap<Value*> values;
  };

  absl::StatusOr<Type> TensorType(const Scope& s, std::string_view name, const Json& at) {
    const Json* meta = s.tensors ? s.tensors->Find(name) : nullptr;
    if (!meta) return at.Error(text::StrCat("tensor '", name, "' has no entry in tensor_values"));
    return TensorMeta(*meta);
  }

  absl::StatusOr<Type> SymType(const Scope& s, Type::Kind kind, std::string_view name, const Json& at) {
    const Json* dict = kind == Type::kSymInt ? s.ints : kind == Type::kSymBool ? s.bools : s.floats;
    const Json* entry = dict ? dict->Find(name) : nullptr;
    if (!entry) {
      // Files before 2.6 leave floats out; a fresh opaque symbol stands for the value.
      if (kind == Type::kSymFloat) return Type::SymFloat(p_.syms->Symbol(text::StrCat("float_", name), false));
      return at.Error(text::StrCat("symbolic value '", name, "' has no entry in its dictionary"));
    }
    ASSIGN_OR_RETURN(Union u, AsUnion(*entry));
    ir::Sym e;
    if (u.tag == "as_expr") {
      ASSIGN_OR_RETURN(e, Expr(*u.value));
    } else if (u.tag == "as_int") {
      ASSIGN_OR_RETURN(int64_t v, u.value->AsInt());
      e = v;
    } else if (u.tag == "as_bool") {
      ASSIGN_OR_RETURN(bool v, u.value->AsBool());
      e = p_.syms->Bool(v);
    } else if (u.tag == "as_float") {
      ASSIGN_OR_RETURN(double v, AsFloat(*u.value));
      e = p_.syms->Float(v);
    } else {
      return entry->Error(text::StrCat("unknown symbolic value '", u.tag, "'"));
    }
    return kind == Type::kSymInt ? Type::SymInt(e) : kind == Type::kSymBool ? Type::SymBool(e) : Type::SymFloat(e);
  }

  static absl::StatusOr<std::string_view> NameOf(const Json& j) {
    ASSIGN_OR_RETURN(const Json* name, j.Get("name"));
    return name->AsString();
  }

  absl::StatusOr<Value*> Use(const Scope& s, std::string_view name, const Json& at) {
    auto it = s.values.find(name);
    if (it == s.values.end())
      return at.Error(text::StrCat("'", name, "' is used before it is defined (a cycle, or a missing node)"));
    return it->second;
  }
  absl::StatusOr<Value*> UseTensor(const Scope& s, const Json& j) {
    ASSIGN_OR_RETURN(std::string_view name, NameOf(j));
    ASSIGN_OR_RETURN(Value * v, Use(s, name, j));
    bool takes = v->type().is_tensor() || (s.mixed_lists && v->type().is_sym());
    if (!takes) return j.Error(text::StrCat("'", name, "' is not a tensor"));
    return v;
  }
  absl::StatusOr<Value*> UseOptionalTensor(const Scope& s, const Json& j) {
    ASSIGN_OR_RETURN(Union u, AsUnion(j));
    if (u.tag == "as_none") return static_cast<Value*>(nullptr);
    if (u.tag == "as_tensor") return UseTensor(s, *u.value);
    return j.Error(text::StrCat("unknown OptionalTensorArgument '", u.tag, "'"));
  }
  absl::StatusOr<ir::IntOrValue> UseSymInt(const Scope& s, const Json& j) {
    ASSIGN_OR_RETURN(Union u, AsUnion(j));
    if (u.tag == "as_int") {
      ASSIGN_OR_RETURN(int64_t v, u.value->AsInt());
      return ir::IntOrValue(v);
    }
    if (u.tag != "as_name") return j.Error(text::StrCat("unknown SymIntArgument '", u.tag, "'"));
    ASSIGN_OR_RETURN(std::string_view name, u.value->AsString());
    ASSIGN_OR_RETURN(Value * v, Use(s, name, j));
    if (v->type().kind != Type::kSymInt) return j.Error(text::StrCat("'", name, "' is not a symbolic int"));
    return ir::IntOrValue(v);
  }

  absl::StatusOr<Arg> ReadArg(const Scope& s, const Json& j) {
    ASSIGN_OR_RETURN(Union u, AsUnion(j));
    const Json& v = *u.value;
    std::string_view tag = u.tag;
    auto tensor = [&](const Json& x) { return UseTensor(s, x); };
    auto optional = [&](const Json& x) { return UseOptionalTensor(s, x); };
    auto integer = [](const Json& x) { return x.AsInt(); };
    auto number = [](const Json& x) { return AsFloat(x); };
    if (tag == "as_none") return Arg();
    if (tag == "as_tensor") {
      ASSIGN_OR_RETURN(Value * x, UseTensor(s, v));
      return Arg(x);
    }
    if (tag == "as_tensors") {
      ASSIGN_OR_RETURN(ir::Values x, AsList<Value*>(v, tensor));
      return Arg(std::move(x));
    }
    if (tag == "as_optional_tensors") {
      ASSIGN_OR_RETURN(ir::Values x, AsList<Value*>(v, optional));
      return Arg(std::move(x));
    }
    if (tag == "as_optional_tensor") {
      ASSIGN_OR_RETURN(Value * x, UseOptionalTensor(s, v));
      return Arg(x);
    }
    if (tag == "as_nested_tensors") {
      ASSIGN_OR_RETURN(auto x, AsList<ir::Values>(v, [&](const Json& e) { return AsList<Value*>(e, tensor); }));
      return Arg(std::move(x));
    }
    if (tag == "as_int") {
      ASSIGN_OR_RETURN(int64_t x, v.AsInt());
      return Arg(x);
    }
    if (tag == "as_ints") {
      ASSIGN_OR_RETURN(ir::Ints x, AsList<int64_t>(v, integer));
      return Arg(std::move(x));
    }
    if (tag == "as_int_lists") {
      ASSIGN_OR_RETURN(auto x, AsList<ir::Ints>(v, [&](const Json& e) { return AsList<int64_t>(e, integer); }));
      return Arg(std::move(x));
    }
    if (tag == "as_float") {
      ASSIGN_OR_RETURN(double x, AsFloat(v));
      return Arg(x);
    }
    if (tag == "as_floats") {
      ASSIGN_OR_RETURN(auto x, AsList<double>(v, number));
      return Arg(std::move(x));
    }
    if (tag == "as_float_lists") {
      ASSIGN_OR_RETURN(auto x,
                       AsList<std::vector<double>>(v, [&](const Json& e) { return AsList<double>(e, number); }));
      return Arg(std::move(x));
    }
    if (tag == "as_bool") {
      ASSIGN_OR_RETURN(bool x, v.AsBool());
      return Arg(x);
    }
    if (tag == "as_bools") {
      ASSIGN_OR_RETURN(auto x, AsList<bool>(v, [](const Json& e) { return e.AsBool(); }));
      return Arg(std::move(x));
    }
    if (tag == "as_string") {
      ASSIGN_OR_RETURN(std::string x, AsText(v));
      return Arg(std::move(x));
    }
    if (tag == "as_strings") {
      ASSIGN_OR_RETURN(auto x, AsList<std::string>(v, AsText));
      return Arg(std::move(x));
    }
    if (tag == "as_complex") {
      ASSIGN_OR_RETURN(const Json* re, v.Get("real"));
      ASSIGN_OR_RETURN(const Json* im, v.Get("imag"));
      ASSIGN_OR_RETURN(double a, AsFloat(*re));
      ASSIGN_OR_RETURN(double b, AsFloat(*im));
      return Arg(std::complex<double>(a, b));
    }
    if (tag == "as_sym_int") {
      ASSIGN_OR_RETURN(ir::IntOrValue x, UseSymInt(s, v));
      return Arg(x);
    }
    if (tag == "as_sym_ints") {
      ASSIGN_OR_RETURN(auto x, AsList<ir::IntOrValue>(v, [&](const Json& e) { return UseSymInt(s, e); }));
      return Arg(std::move(x));
    }
    if (tag == "as_sym_bool" || tag == "as_sym_float") {
      ASSIGN_OR_RETURN(Union w, AsUnion(v));
      if (w.tag == "as_bool") {
        ASSIGN_OR_RETURN(bool x, w.value->AsBool());
        return Arg(x);
      }
      if (w.tag == "as_float") {
        ASSIGN_OR_RETURN(double x, AsFloat(*w.value));
        return Arg(x);
      }
      if (w.tag != "as_name") return v.Error(text::StrCat("unknown symbolic argument '", w.tag, "'"));
      ASSIGN_OR_RETURN(std::string_view name, w.value->AsString());
      ASSIGN_OR_RETURN(Value * x, Use(s, name, v));
      return Arg(x);
    }
    if (tag == "as_sym_bools" || tag == "as_sym_floats")
      return absl::UnimplementedError(text::StrCat("argument kind '", tag, "' (JSON byte ", j.offset(), ")"));
    if (tag == "as_scalar_type") {
      ASSIGN_OR_RETURN(ir::DType x, AsDType(v));
      return Arg(x);
    }
    if (tag == "as_memory_format") {
      ASSIGN_OR_RETURN(int64_t n, v.AsInt());
      if (n < 0 || n > 4) return v.Error(text::StrCat("unknown MemoryFormat ", n));
      return Arg(static_cast<ir::MemoryFormat>(n));
    }
    if (tag == "as_layout") {
      ASSIGN_OR_RETURN(int64_t n, v.AsInt());
      if (n < 0 || n > 7) return v.Error(text::StrCat("unknown Layout ", n));
      return Arg(static_cast<ir::Layout>(n));
    }
    if (tag == "as_device") {
      ASSIGN_OR_RETURN(ir::Device d, AsDevice(v));
      return Arg(std::move(d));
    }
    if (tag == "as_operator") {
      ASSIGN_OR_RETURN(std::string x, AsText(v));
      return Arg(ir::OperatorName{OpNameOf(x)});
    }
    if (tag == "as_graph") {
      ASSIGN_OR_RETURN(const Json* graph, v.Get("graph"));
      auto sub = std::make_shared<Graph>(&p_);
      RETURN_IF_ERROR(ReadGraph(*graph, *sub, s.depth + 1, /*root=*/false));
      return Arg(std::move(sub));
    }
    if (tag == "as_custom_obj") {
      ASSIGN_OR_RETURN(std::string_view name, NameOf(v));
      ASSIGN_OR_RETURN(Value * x, Use(s, name, v));
      return Arg(x);
    }
    if (tag == "as_string_to_argument")
      return absl::UnimplementedError(text::StrCat("argument kind '", tag, "' (JSON byte ", j.offset(), ")"));
    return j.Error(text::StrCat("unknown argument kind '", tag, "'"));
  }

  static std::string OpNameOf(std::string_view target) { return ir::OpNameFromTarget(target); }

  absl::Status Define(Scope& s, std::string_view name, Value* v, const Json& at) {
    if (!s.values.emplace(name, v).second) return at.Error(text::StrCat("'", name, "' is defined twice"));
    return absl::OkStatus();
  }

  absl::Status ReadInput(Scope& s, const Json& j) {
    ASSIGN_OR_RETURN(Union u, AsUnion(j));
    Type type;
    std::string_view name;
    if (u.tag == "as_tensor") {
      ASSIGN_OR_RETURN(name, NameOf(*u.value));
      ASSIGN_OR_RETURN(type, TensorType(s, name, j));
    } else if (u.tag == "as_sym_int" || u.tag == "as_sym_bool" || u.tag == "as_sym_float") {
      Type::Kind kind = u.tag == "as_sym_int"    ? Type::kSymInt
                        : u.tag == "as_sym_bool" ? Type::kSymBool
                                                 : Type::kSymFloat;
      ASSIGN_OR_RETURN(Union w, AsUnion(*u.value));
      if (w.tag == "as_name") {
        ASSIGN_OR_RETURN(name, w.value->AsString());
        ASSIGN_OR_RETURN(type, SymType(s, kind, name, j));
      } else {
        type.kind = Type::kConstant;
      }
    } else if (u.tag == "as_custom_obj") {
      ASSIGN_OR_RETURN(name, NameOf(*u.value));
      type.kind = Type::kObject;
      if (const Json* c = u.value->Find("class_fqn"); c && c->is_string())
        type.class_name = std::string(*c->AsString());
    } else {
      type.kind = Type::kConstant;  // a Python constant baked into the program
    }
    Value* v = s.graph->AddInput(name.empty() ? "const" : std::string(name), std::move(type));
    return name.empty() ? absl::OkStatus() : Define(s, name, v, j);
  }

  absl::Status AddResult(Scope& s, ir::Node* n, const Json& j, std::vector<int>& groups, bool& grouped) {
    ASSIGN_OR_RETURN(Union u, AsUnion(j));
    auto add = [&](std::string_view name, Type type, const Json& at) {
      return Define(s, name, s.graph->AddOutput(n, std::string(name), std::move(type)), at);
    };
    if (u.tag == "as_tensors" || u.tag == "as_optional_tensors") {
      ASSIGN_OR_RETURN(auto items, u.value->AsArray());
      for (const Json& item : items) {
        const Json* t = &item;
        if (u.tag == "as_optional_tensors") {
          ASSIGN_OR_RETURN(Union w, AsUnion(item));
          if (w.tag == "as_none") {
            s.graph->AddNoneOutput(n);
            continue;
          }
          t = w.value;
        }
        ASSIGN_OR_RETURN(std::string_view name, NameOf(*t));
        ASSIGN_OR_RETURN(Type type, TensorType(s, name, *t));
        RETURN_IF_ERROR(add(name, std::move(type), *t));
      }
      groups.push_back(static_cast<int>(items.size()));
      grouped = true;
      return absl::OkStatus();
    }
    groups.push_back(-1);
    if (u.tag == "as_tensor") {
      ASSIGN_OR_RETURN(std::string_view name, NameOf(*u.value));
      ASSIGN_OR_RETURN(Type type, TensorType(s, name, j));
      return add(name, std::move(type), j);
    }
    if (u.tag == "as_optional_tensor") {
      ASSIGN_OR_RETURN(Union w, AsUnion(*u.value));
      if (w.tag == "as_none") return s.graph->AddNoneOutput(n), absl::OkStatus();
      ASSIGN_OR_RETURN(std::string_view name, NameOf(*w.value));
      ASSIGN_OR_RETURN(Type type, TensorType(s, name, j));
      return add(name, std::move(type), j);
    }
    if (u.tag == "as_none") return s.graph->AddNoneOutput(n), absl::OkStatus();
    if (u.tag == "as_sym_int" || u.tag == "as_sym_bool" || u.tag == "as_sym_float") {
      Type::Kind kind = u.tag == "as_sym_int"    ? Type::kSymInt
                        : u.tag == "as_sym_bool" ? Type::kSymBool
                                                 : Type::kSymFloat;
      ASSIGN_OR_RETURN(Union w, AsUnion(*u.value));
      if (w.tag == "as_name") {
        ASSIGN_OR_RETURN(std::string_view name, w.value->AsString());
        ASSIGN_OR_RETURN(Type type, SymType(s, kind, name, j));
        return add(name, std::move(type), j);
      }
      return s.graph->AddNoneOutput(n), absl::OkStatus();  // folded to a constant: nothing can refer to it
    }
    if (u.tag == "as_int" || u.tag == "as_float" || u.tag == "as_bool" || u.tag == "as_string")
      return s.graph->AddNoneOutput(n), absl::OkStatus();
    if (u.tag == "as_sym_ints") {
      ASSIGN_OR_RETURN(auto items, u.value->AsArray());
      for (const Json& item : items) {
        ASSIGN_OR_RETURN(Union w, AsUnion(item));
        if (w.tag != "as_name") {
          s.graph->AddNoneOutput(n);
          continue;
        }
        ASSIGN_OR_RETURN(std::string_view name, w.value->AsString());
        ASSIGN_OR_RETURN(Type type, SymType(s, Type::kSymInt, name, item));
        RETURN_IF_ERROR(add(name, std::move(type), item));
      }
      groups.back() = static_cast<int>(items.size());
      grouped = true;
      return absl::OkStatus();
    }
    if (u.tag == "as_custom_obj") {
      ASSIGN_OR_RETURN(std::string_view name, NameOf(*u.value));
      Type type;
      type.kind = Type::kObject;
      return add(name, std::move(type), j);
    }
    return j.Error(text::StrCat("unknown kind of result '", u.tag, "'"));
  }

  std::shared_ptr<const ir::Source> ReadSource(const Json& node) {
    const Json* meta = node.Find("metadata");
    if (!meta || !meta->is_object()) return nullptr;
    auto text = [&](std::string_view key) -> std::string {
      const Json* v = meta->Find(key);
      return v && v->is_string() ? std::string(*v->AsString()) : std::string();
    };
    auto source = std::make_shared<ir::Source>();
    source->stack_trace = text("stack_trace");
    source->nn_module_stack = text("nn_module_stack");
    source->torch_fn = text("torch_fn");
    const auto members = meta->AsObject();
    for (const json::Member& m : *members)
      if (m.key != "stack_trace" && m.key != "nn_module_stack" && m.key != "torch_fn" && m.value.is_string())
        source->other.emplace_back(std::string(m.key), std::string(*m.value.AsString()));
    return source;
  }

  absl::Status ReadNode(Scope& s, const Json& j, std::string_view target) {
    const ir::OpDef& op = ir::GetOp(ir::OpNameFromTarget(target));
    ASSIGN_OR_RETURN(const Json* inputs, j.Get("inputs"));
    ASSIGN_OR_RETURN(auto in, inputs->AsArray());
    std::vector<ir::NamedArg> args;
    args.reserve(in.size());
    s.mixed_lists = op.variadic;
    for (const Json& a : in) {
      ASSIGN_OR_RETURN(std::string_view name, NameOf(a));
      ASSIGN_OR_RETURN(const Json* arg, a.Get("arg"));
      auto value = ReadArg(s, *arg);
      if (!value.ok())
        return absl::Status(value.status().code(), text::StrCat("argument '", name, "': ", value.status().message()));
      int8_t kind = 0;
      if (const Json* k = a.Find("kind"); k && k->is_int()) {
        ASSIGN_OR_RETURN(int64_t number, k->AsInt());
        if (number < 0 || number > 2) return k->Error(text::StrCat("unknown ArgumentKind ", number));
        kind = static_cast<int8_t>(number);
      }
      const bool declared = op.known && !op.variadic;
      // Python functions are called by position, without names.
      if (declared && name.empty() && args.size() < op.args.size()) name = op.args[args.size()].name;
      const int index = declared ? op.ArgIndex(name) : -1;
      if (declared && index < 0) return a.Error(text::StrCat("the operator has no argument '", name, "'"));
      // Only what is unusual is kept.
      const bool keyword = declared ? op.args[index].keyword_only : !name.empty();
      if (kind == (keyword ? 2 : 1)) kind = 0;
      args.push_back({std::string(name), *std::move(value), kind});
    }
    ir::Node* n = s.graph->Insert(op, std::move(args));
    n->set_source(ReadSource(j));
    if (const Json* h = j.Find("is_hop_single_tensor_return"); h && h->is_bool()) n->hop_single_return = *h->AsBool();
    ASSIGN_OR_RETURN(const Json* outputs, j.Get("outputs"));
    ASSIGN_OR_RETURN(auto out, outputs->AsArray());
    std::vector<int> groups;
    bool grouped = false;
    for (const Json& o : out) RETURN_IF_ERROR(AddResult(s, n, o, groups, grouped));
    if (grouped) n->set_groups(std::move(groups));
    return absl::OkStatus();
  }

  absl::Status ReadGraph(const Json& j, Graph& g, int depth, bool root) {
    if (depth > kMaxGraphDepth) return j.Error("graphs nested too deeply");
    Scope s;
    s.graph = &g;
    s.depth = depth;
    s.tensors = j.Find("tensor_values");
    s.ints = j.Find("sym_int_values");
    s.bools = j.Find("sym_bool_values");
    s.floats = j.Find("sym_float_values");
    s.objects = j.Find("custom_obj_values");
    ASSIGN_OR_RETURN(const Json* inputs, j.Get("inputs"));
    ASSIGN_OR_RETURN(auto in, inputs->AsArray());
    for (const Json& i : in) RETURN_IF_ERROR(ReadInput(s, i));
    ASSIGN_OR_RETURN(const Json* nodes, j.Get("nodes"));
    ASSIGN_OR_RETURN(auto list, nodes->AsArray());
    for (size_t k = 0; k < list.size(); ++k) {
      ASSIGN_OR_RETURN(const Json* target, list[k].Get("target"));
      ASSIGN_OR_RETURN(std::string_view name, target->AsString());
      absl::Status status = ReadNode(s, list[k], name);
      if (!status.ok())
        return absl::Status(status.code(), text::StrCat("node ", k, " (", name, "): ", status.message()));
    }
    ASSIGN_OR_RETURN(const Json* outputs, j.Get("outputs"));
    ASSIGN_OR_RETURN(auto out, outputs->AsArray());
    s.mixed_lists = false;
    for (const Json& o : out) {
      ASSIGN_OR_RETURN(Arg a, ReadArg(s, o));
      g.outputs.push_back(std::move(a));
    }
    if (const Json* single = j.Find("is_single_tensor_return"); single && single->is_bool())
      g.single_tensor_return = *single->AsBool();
    (void)root;
    return absl::OkStatus();
  }

  // ---- Signature

  absl::StatusOr<std::string> Text(const Json& j, std::string_view key) {
    ASSIGN_OR_RETURN(const Json* v, j.Get(key));
    return AsText(*v);
  }

  absl::Status ReadSignature(const Json& j) {
    ASSIGN_OR_RETURN(const Json* inputs, j.Get("input_specs"));
    ASSIGN_OR_RETURN(auto in, inputs->AsArray());
    if (in.size() != p_.graph->inputs().size())
      return inputs->Error(text::StrCat(in.size(), " input_specs for ", p_.graph->inputs().size(), " graph inputs"));
    for (const Json& spec : in) {
      ASSIGN_OR_RETURN(Union u, AsUnion(spec));
      ir::InputSpec s;
      if (u.tag == "user_input") {
        ASSIGN_OR_RETURN(const Json* arg, u.value->Get("arg"));
        ASSIGN_OR_RETURN(Union w, AsUnion(*arg));
        bool sym_const = false;
        if (w.tag.starts_with("as_sym") && w.value->is_object()) sym_const = !w.value->Find("as_name");
        if (w.tag != "as_tensor" && (!w.tag.starts_with("as_sym") || sym_const)) s.kind = ir::InputSpec::kConstant;
        if (s.kind == ir::InputSpec::kConstant) {
          Scope none{p_.graph.get()};
          ASSIGN_OR_RETURN(s.constant, ReadArg(none, *arg));
        }
      } else if (u.tag == "parameter") {
        s.kind = ir::InputSpec::kParameter;
        ASSIGN_OR_RETURN(s.target, Text(*u.value, "parameter_name"));
      } else if (u.tag == "buffer") {
        s.kind = ir::InputSpec::kBuffer;
        ASSIGN_OR_RETURN(s.target, Text(*u.value, "buffer_name"));
        if (const Json* p = u.value->Find("persistent"); p && p->is_bool()) s.persistent = *p->AsBool();
      } else if (u.tag == "tensor_constant") {
        s.kind = ir::InputSpec::kTensorConstant;
        ASSIGN_OR_RETURN(s.target, Text(*u.value, "tensor_constant_name"));
      } else if (u.tag == "custom_obj") {
        s.kind = ir::InputSpec::kCustomObj;
        ASSIGN_OR_RETURN(s.target, Text(*u.value, "custom_obj_name"));
      } else if (u.tag == "token") {
        s.kind = ir::InputSpec::kToken;
      } else if (u.tag == "constant_input") {
        s.kind = ir::InputSpec::kConstant;
        ASSIGN_OR_RETURN(s.target, Text(*u.value, "name"));
        ASSIGN_OR_RETURN(const Json* value, u.value->Get("value"));
        Scope none{p_.graph.get()};
        ASSIGN_OR_RETURN(s.constant, ReadArg(none, *value));
      } else {
        return spec.Error(text::StrCat("unknown InputSpec '", u.tag, "'"));
      }
      const Type& t = p_.graph->inputs()[p_.input_specs.size()]->type();
      if (s.is_weight() && !t.is_tensor()) return spec.Error("an input_spec of a tensor for an input that is none");
      p_.input_specs.push_back(std::move(s));
    }
    ASSIGN_OR_RETURN(const Json* outputs, j.Get("output_specs"));
    ASSIGN_OR_RETURN(auto out, outputs->AsArray());
    if (out.size() != p_.graph->outputs.size())
      return outputs->Error(text::StrCat(out.size(), " output_specs for ", p_.graph->outputs.size(), " graph outputs"));
    // clang-format off
    static constexpr struct { std::string_view tag; ir::OutputSpec::Kind kind; std::string_view target; } kOutputs[] = {
        {"user_output", ir::OutputSpec::kUser, ""},
        {"loss_output", ir::OutputSpec::kLoss, ""},
        {"buffer_mutation", ir::OutputSpec::kBufferMutation, "buffer_name"},
        {"parameter_mutation", ir::OutputSpec::kParameterMutation, "parameter_name"},
        {"gradient_to_parameter", ir::OutputSpec::kGradToParameter, "parameter_name"},
        {"gradient_to_user_input", ir::OutputSpec::kGradToUserInput, "user_input_name"},
        {"user_input_mutation", ir::OutputSpec::kUserInputMutation, "user_input_name"},
        {"token", ir::OutputSpec::kToken, ""},
    };
    // clang-format on
    for (const Json& spec : out) {
      ASSIGN_OR_RETURN(Union u, AsUnion(spec));
      ir::OutputSpec s;
      bool known = false;
      for (const auto& row : kOutputs) {
        if (row.tag != u.tag) continue;
        known = true;
        s.kind = row.kind;
        if (!row.target.empty()) {
          ASSIGN_OR_RETURN(s.target, Text(*u.value, row.target));
        }
      }
      if (!known) return spec.Error(text::StrCat("unknown OutputSpec '", u.tag, "'"));
      p_.output_specs.push_back(std::move(s));
    }
    return absl::OkStatus();
  }

  // The same value as text again.
  static void Print(const Json& j, ::slipway::json::Writer& out) {
    switch (j.type()) {
      case json::Type::kNull: out.Null(); break;
      case json::Type::kBool: out.Bool(*j.AsBool()); break;
      case json::Type::kInt: out.Int(*j.AsInt()); break;
      case json::Type::kDouble: out.Double(*j.AsDouble()); break;
      case json::Type::kString: out.String(*j.AsString()); break;
      case json::Type::kArray:
        out.BeginArray();
        {
          const auto items = j.AsArray();
          for (const Json& item : *items) Print(item, out);
        }
        out.EndArray();
        break;
      case json::Type::kObject:
        out.BeginObject();
        {
          const auto members = j.AsObject();
          for (const json::Member& m : *members) Print(m.value, out.Key(m.key));
        }
        out.EndObject();
        break;
    }
  }
  static std::string Print(const Json& j) {
    ::slipway::json::Writer out;
    Print(j, out);
    return out.Take();
  }

  absl::Status ReadModuleCalls(const Json& j) {
    ASSIGN_OR_RETURN(auto calls, j.AsArray());
    p_.module_call_graph_json = Print(j);
    for (const Json& c : calls) {
      const Json* fqn = c.Find("fqn");
      const Json* sig = c.Find("signature");
      if (!fqn || !fqn->is_string() || *fqn->AsString() != "" || !sig || !sig->is_object()) continue;
      ASSIGN_OR_RETURN(p_.in_spec, Text(*sig, "in_spec"));
      ASSIGN_OR_RETURN(p_.out_spec, Text(*sig, "out_spec"));
      if (const Json* names = sig->Find("forward_arg_names"); names && names->is_array()) {
        ASSIGN_OR_RETURN(p_.forward_arg_names, AsList<std::string>(*names, AsText));
      }
      break;
    }
    return absl::OkStatus();
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<ir::Program>> ParseProgram(std::string_view text, const std::string& where) {
  auto place = [&](const absl::Status& s) { return absl::Status(s.code(), text::StrCat(where, ": ", s.message())); };
  auto doc = json::Document::Parse(text);
  if (!doc.ok()) return place(doc.status());
  auto program = std::make_unique<ir::Program>();
  absl::Status status = ProgramReader(*program).Read(doc->root());
  if (!status.ok()) return place(status);
  return program;
}

absl::StatusOr<PayloadMeta> ParsePayloadMeta(const Json& j) {
  PayloadMeta m;
  ASSIGN_OR_RETURN(const Json* dtype, j.Get("dtype"));
  ASSIGN_OR_RETURN(m.dtype, AsDType(*dtype));
  auto integer = [](const Json& e) -> absl::StatusOr<int64_t> {
    ASSIGN_OR_RETURN(Union u, AsUnion(e));
    if (u.tag != "as_int") return e.Error("a symbolic size in a payload");
    return u.value->AsInt();
  };
  ASSIGN_OR_RETURN(const Json* sizes, j.Get("sizes"));
  ASSIGN_OR_RETURN(m.sizes, AsList<int64_t>(*sizes, integer));
  ASSIGN_OR_RETURN(const Json* strides, j.Get("strides"));
  ASSIGN_OR_RETURN(m.strides, AsList<int64_t>(*strides, integer));
  ASSIGN_OR_RETURN(const Json* offset, j.Get("storage_offset"));
  ASSIGN_OR_RETURN(m.storage_offset, integer(*offset));
  return m;
}

}  // namespace slipway::importers
