// The document of a program: version, ranges, expressions, types, module calls.
#include "importers/pt2/program.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "importers/json.h"
#include "importers/pt2/program_reader.h"

namespace slipway::importers {

using ir::Type;

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
  // The device of programs that were exported without values: what they compute is computed elsewhere.
  if (name == kMetaDevice) return d;
  d.type = std::string(name);
  if (const Json* index = j.Find("index"); index && !index->is_null()) {
    ASSIGN_OR_RETURN(int64_t i, index->AsInt());
    d.index = i;
  }
  return d;
}

absl::Status ProgramReader::Read(const Json& root) {
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

absl::StatusOr<std::string> ProgramReader::AsText(const Json& j) {
  ASSIGN_OR_RETURN(std::string_view s, j.AsString());
  return std::string(s);
}

absl::Status ProgramReader::ReadVersion(const Json& j) {
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

absl::Status ProgramReader::ReadRanges(const Json& j) {
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
absl::Status ProgramReader::DeclareRange(std::string_view key, const ir::RangeConstraint& r) {
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

absl::StatusOr<ir::Sym> ProgramReader::Expr(const Json& sym_expr) {
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

absl::StatusOr<ir::Sym> ProgramReader::SymInt(const Json& j) {
  ASSIGN_OR_RETURN(Union u, AsUnion(j));
  if (u.tag == "as_int") {
    ASSIGN_OR_RETURN(int64_t v, u.value->AsInt());
    return ir::Sym(v);
  }
  if (u.tag == "as_expr") return Expr(*u.value);
  return j.Error(text::StrCat("unknown SymInt '", u.tag, "'"));
}

absl::StatusOr<Type> ProgramReader::TensorMeta(const Json& j) {
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

// The same value as text again.
void ProgramReader::Print(const Json& j, ::slipway::json::Writer& out) {
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

std::string ProgramReader::Print(const Json& j) {
  ::slipway::json::Writer out;
  Print(j, out);
  return out.Take();
}

absl::Status ProgramReader::ReadModuleCalls(const Json& j) {
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
  if (const Json* device = j.Find("device"); device && device->is_object())
    if (const Json* type = device->Find("type"); type && type->is_string())
      m.on_meta = *type->AsString() == kMetaDevice;
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
