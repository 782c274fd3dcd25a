// Graphs of the schema: arguments, results, nodes.
#include <utility>

#include "absl/status/status.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "importers/json.h"
#include "importers/pt2/program_reader.h"
#include "ir/ops/op_table.h"

namespace slipway::importers {

using ir::Arg;
using ir::Graph;
using ir::Type;
using ir::Value;

namespace {

constexpr int kMaxGraphDepth = 32;

}  // namespace

absl::StatusOr<Type> ProgramReader::TensorType(const Scope& s, std::string_view name, const Json& at) {
  const Json* meta = s.tensors ? s.tensors->Find(name) : nullptr;
  if (!meta) return at.Error(text::StrCat("tensor '", name, "' has no entry in tensor_values"));
  return TensorMeta(*meta);
}

absl::StatusOr<Type> ProgramReader::SymType(const Scope& s, Type::Kind kind, std::string_view name, const Json& at) {
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

absl::StatusOr<std::string_view> ProgramReader::NameOf(const Json& j) {
  ASSIGN_OR_RETURN(const Json* name, j.Get("name"));
  return name->AsString();
}

absl::StatusOr<Value*> ProgramReader::Use(const Scope& s, std::string_view name, const Json& at) {
  auto it = s.values.find(name);
  if (it == s.values.end())
    return at.Error(text::StrCat("'", name, "' is used before it is defined (a cycle, or a missing node)"));
  return it->second;
}

absl::StatusOr<Value*> ProgramReader::UseTensor(const Scope& s, const Json& j) {
  ASSIGN_OR_RETURN(std::string_view name, NameOf(j));
  ASSIGN_OR_RETURN(Value * v, Use(s, name, j));
  bool takes = v->type().is_tensor() || (s.mixed_lists && v->type().is_sym());
  if (!takes) return j.Error(text::StrCat("'", name, "' is not a tensor"));
  return v;
}

absl::StatusOr<Value*> ProgramReader::UseOptionalTensor(const Scope& s, const Json& j) {
  ASSIGN_OR_RETURN(Union u, AsUnion(j));
  if (u.tag == "as_none") return static_cast<Value*>(nullptr);
  if (u.tag == "as_tensor") return UseTensor(s, *u.value);
  return j.Error(text::StrCat("unknown OptionalTensorArgument '", u.tag, "'"));
}

absl::StatusOr<ir::IntOrValue> ProgramReader::UseSymInt(const Scope& s, const Json& j) {
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

// A table: one case a tag of the schema's union Argument.
absl::StatusOr<Arg> ProgramReader::ReadArg(const Scope& s, const Json& j) {
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
    ASSIGN_OR_RETURN(auto x, AsList<std::vector<double>>(v, [&](const Json& e) { return AsList<double>(e, number); }));
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

absl::Status ProgramReader::Define(Scope& s, std::string_view name, Value* v, const Json& at) {
  if (!s.values.emplace(name, v).second) return at.Error(text::StrCat("'", name, "' is defined twice"));
  return absl::OkStatus();
}

absl::Status ProgramReader::ReadInput(Scope& s, const Json& j) {
  ASSIGN_OR_RETURN(Union u, AsUnion(j));
  Type type;
  std::string_view name;
  if (u.tag == "as_tensor") {
    ASSIGN_OR_RETURN(name, NameOf(*u.value));
    ASSIGN_OR_RETURN(type, TensorType(s, name, j));
  } else if (u.tag == "as_sym_int" || u.tag == "as_sym_bool" || u.tag == "as_sym_float") {
    Type::Kind kind = u.tag == "as_sym_int" ? Type::kSymInt : u.tag == "as_sym_bool" ? Type::kSymBool : Type::kSymFloat;
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
    if (const Json* c = u.value->Find("class_fqn"); c && c->is_string()) type.class_name = std::string(*c->AsString());
  } else {
    type.kind = Type::kConstant;  // a Python constant baked into the program
  }
  Value* v = s.graph->AddInput(name.empty() ? "const" : std::string(name), std::move(type));
  return name.empty() ? absl::OkStatus() : Define(s, name, v, j);
}

absl::Status ProgramReader::AddResult(Scope& s, ir::Node* n, const Json& j, std::vector<int>& groups, bool& grouped) {
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
    Type::Kind kind = u.tag == "as_sym_int" ? Type::kSymInt : u.tag == "as_sym_bool" ? Type::kSymBool : Type::kSymFloat;
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

std::shared_ptr<const ir::Source> ProgramReader::ReadSource(const Json& node) {
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

absl::Status ProgramReader::ReadNode(Scope& s, const Json& j, std::string_view target) {
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

absl::Status ProgramReader::ReadGraph(const Json& j, Graph& g, int depth, bool root) {
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
    if (!status.ok()) return absl::Status(status.code(), text::StrCat("node ", k, " (", name, "): ", status.message()));
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

}  // namespace slipway::importers
