// The schema writer: one function a record, named after it, as importers/pt2/program.cc has one to read each.
#include "exporters/pt2/program.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/text.h"
#include "exporters/pt2/program_writer.h"
#include "ir/ops/op_table.h"

namespace slipway::exporters {
namespace {

using ir::Arg;
using ir::Graph;
using ir::Node;
using ir::Sym;
using ir::Type;
using ir::Value;

constexpr int kPositional = 1, kKeyword = 2;  // ArgumentKind

}  // namespace

absl::StatusOr<std::string> ProgramWriter::Write() {
  for (const ir::SymbolInfo& s : p_.syms->symbols())
    if (s.hint) hints_[s.name] = *s.hint;
  out_.BeginObject().Key("graph_module").BeginObject();
  out_.Key("graph");
  WriteGraph(*p_.graph, /*root=*/true);
  out_.Key("signature");
  WriteSignature();
  out_.Key("module_call_graph");
  WriteModuleCalls();
  out_.Key("metadata").BeginObject().EndObject();
  if (Since29()) {
    out_.Key("treespec_namedtuple_fields");
    if (p_.namedtuple_fields_json.empty())
      out_.BeginObject().EndObject();
    else
      out_.Raw(p_.namedtuple_fields_json);
  }
  out_.EndObject();
  out_.Key("opset_version").BeginObject().Key("aten").Int(10).EndObject();
  out_.Key("range_constraints");
  WriteRanges();
  out_.Key("schema_version").BeginObject().Key("major").Int(8).Key("minor").Int(Since29() ? 14 : 2).EndObject();
  out_.Key("verifiers").BeginArray().String(Dialect()).EndArray();
  out_.Key("torch_version").String(p_.torch_version.empty() ? (Since29() ? "2.9.0" : "2.6.0") : p_.torch_version);
  if (Since29()) {
    out_.Key("guards_code").BeginArray();
    for (const std::string& g : p_.guards) out_.String(g);
    out_.EndArray();
  }
  out_.EndObject();
  if (!status_.ok()) return status_;
  if (!refused_.empty())
    return absl::UnimplementedError(text::StrCat("a PT2 archive cannot hold: ", text::Join(refused_, "; ")));
  return out_.Take();
}

std::string_view ProgramWriter::Dialect() const {
  if (!p_.verifier_dialect.empty()) return p_.verifier_dialect;
  return p_.form == ir::Form::kFunctional ? "ATEN" : "TRAINING";
}

// A SymExpr; `kind` says which hint fits.
void ProgramWriter::WriteExpr(const Sym& e, Type::Kind kind) {
  if (e.is_too_large()) Refuse("an expression of sizes too large to write");
  out_.BeginObject().Key("as_expr").BeginObject().Key("expr_str").String(e.ToSrepr()).Key("hint");
  if (auto i = kind == Type::kSymInt ? ir::Evaluate(e, Hint()) : std::nullopt) {
    out_.BeginObject().Key("as_int").Int(*i).EndObject();
  } else if (auto b = kind == Type::kSymBool ? ir::EvaluateBool(e, Hint()) : std::nullopt) {
    out_.BeginObject().Key("as_bool").Bool(*b).EndObject();
  } else if (auto f = kind == Type::kSymFloat ? ir::EvaluateFloat(e, Hint()) : std::nullopt) {
    out_.BeginObject().Key("as_float").Double(*f).EndObject();
  } else {
    out_.Null();
  }
  out_.EndObject().EndObject();
}

void ProgramWriter::WriteSymInt(const Sym& e) {
  if (auto c = e.constant())
    out_.BeginObject().Key("as_int").Int(*c).EndObject();
  else
    WriteExpr(e, Type::kSymInt);
}

// The value of a sym_…_values entry.
void ProgramWriter::WriteSymValue(const Type& t) {
  if (t.kind == Type::kSymInt) return WriteSymInt(t.expr);
  if (t.kind == Type::kSymBool && t.expr.kind() == ir::SymKind::kBool) {
    out_.BeginObject().Key("as_bool").Bool(t.expr.bool_value()).EndObject();
  } else if (t.kind == Type::kSymFloat && t.expr.kind() == ir::SymKind::kFloat) {
    out_.BeginObject().Key("as_float").Double(t.expr.float_value()).EndObject();
  } else {
    WriteExpr(t.expr, t.kind);
  }
}

void ProgramWriter::WriteDType(ir::DType t) {
  if (absl::Status s = CheckDType(t, target_); !s.ok()) Refuse(std::string(s.message()));
  out_.Int(ir::Info(t).pt2_number);
}

void ProgramWriter::WriteDevice(const ir::Device& d) {
  out_.BeginObject().Key("type").String(d.type).Key("index");
  if (d.index)
    out_.Int(*d.index);
  else
    out_.Null();
  out_.EndObject();
}

void ProgramWriter::WriteTensorMeta(const Type& t) {
  out_.BeginObject().Key("dtype");
  WriteDType(t.dtype);
  out_.Key("sizes").BeginArray();
  for (const Sym& s : t.sizes) WriteSymInt(s);
  out_.EndArray().Key("requires_grad").Bool(t.requires_grad).Key("device");
  WriteDevice(t.device ? *t.device : ir::Device());
  out_.Key("strides").BeginArray();
  if (t.strides_known) {
    for (const Sym& s : t.strides) WriteSymInt(s);
  } else {  // dense; as torch counts them, a size of 0 takes the room of 1
    ir::Sizes strides(t.sizes.size());
    Sym stride = 1;
    for (size_t i = t.sizes.size(); i-- > 0;) {
      strides[i] = stride;
      stride = stride * ir::Max(1, t.sizes[i]);
    }
    for (const Sym& s : strides) WriteSymInt(s);
  }
  out_.EndArray().Key("storage_offset");
  WriteSymInt(t.storage_offset);
  out_.Key("layout").Int(static_cast<int>(t.layout)).EndObject();
}

// {"as_tensor": {"name": …}} and the like: a value as an Argument.
void ProgramWriter::WriteValue(const Value& v) {
  out_.BeginObject();
  switch (v.type().kind) {
    case Type::kTensor:
    case Type::kToken: WriteName("name", (out_.Key("as_tensor"), v)); break;
    case Type::kSymInt: WriteName("as_name", (out_.Key("as_sym_int"), v)); break;
    case Type::kSymFloat: WriteName("as_name", (out_.Key("as_sym_float"), v)); break;
    case Type::kSymBool: WriteName("as_name", (out_.Key("as_sym_bool"), v)); break;
    case Type::kObject:
      Refuse("custom objects, whose class only its own library can write");
      out_.Key("as_none").Bool(true);
      break;
    case Type::kConstant:
    case Type::kNone:
      Refuse(text::StrCat("the constant input '", v.name(), "' used as a value"));
      out_.Key("as_none").Bool(true);
      break;
  }
  out_.EndObject();
}

void ProgramWriter::WriteValues(const ir::Values& values) {
  bool optional = false;
  for (const Value* v : values) optional |= v == nullptr;
  if (!optional) {
    WriteList("as_tensors", values, [&](const Value* v) { WriteName("name", *v); });
    return;
  }
  WriteList("as_optional_tensors", values, [&](const Value* v) {
    out_.BeginObject();
    if (v)
      WriteName("name", (out_.Key("as_tensor"), *v));
    else
      out_.Key("as_none").Bool(true);
    out_.EndObject();
  });
}

void ProgramWriter::WriteArg(const Arg& a, GraphNames& graphs, std::string_view op) {
  if (Value* v = a.value()) return WriteValue(*v);
  auto integer = [&](int64_t x) { out_.Int(x); };
  auto number = [&](double x) { out_.Double(x); };
  out_.BeginObject();
  if (a.is_none()) {
    out_.Key("as_none").Bool(true);
  } else if (auto values = a.get<ir::Values>()) {
    WriteValues(*values);
  } else if (auto i = a.get<int64_t>()) {
    out_.Key("as_int").Int(*i);
  } else if (auto d = a.get<double>()) {
    out_.Key("as_float").Double(*d);
  } else if (auto b = a.get<bool>()) {
    out_.Key("as_bool").Bool(*b);
  } else if (auto s = a.get<std::string>()) {
    out_.Key("as_string").String(*s);
  } else if (auto c = a.get<std::complex<double>>()) {
    Need29("complex numbers");
    out_.Key("as_complex").BeginObject().Key("real").Double(c->real()).Key("imag").Double(c->imag()).EndObject();
  } else if (auto ints = a.get<ir::Ints>()) {
    WriteList("as_ints", *ints, integer);
  } else if (auto syms = a.get<ir::SymInts>()) {
    WriteList("as_sym_ints", *syms, [&](const ir::IntOrValue& x) {
      if (x.value)
        WriteName("as_name", *x.value);
      else
        out_.BeginObject().Key("as_int").Int(x.constant).EndObject();
    });
  } else if (auto floats = a.get<std::vector<double>>()) {
    WriteList("as_floats", *floats, number);
  } else if (auto bools = a.get<std::vector<bool>>()) {
    WriteList("as_bools", *bools, [&](bool x) { out_.Bool(x); });
  } else if (auto strings = a.get<std::vector<std::string>>()) {
    WriteList("as_strings", *strings, [&](const std::string& x) { out_.String(x); });
  } else if (auto t = a.get<ir::DType>()) {
    out_.Key("as_scalar_type");
    WriteDType(*t);
  } else if (auto f = a.get<ir::MemoryFormat>()) {
    out_.Key("as_memory_format").Int(static_cast<int>(*f));
  } else if (auto l = a.get<ir::Layout>()) {
    out_.Key("as_layout").Int(static_cast<int>(*l));
  } else if (auto device = a.get<ir::Device>()) {
    out_.Key("as_device");
    WriteDevice(*device);
  } else if (auto name = a.get<ir::OperatorName>()) {
    out_.Key("as_operator").String(ir::TargetFromOpName(name->name));
  } else if (auto graph = a.get<ir::SubGraph>()) {
    out_.Key("as_graph").BeginObject().Key("name").String(graphs.Of(**graph, op)).Key("graph");
    WriteGraph(**graph, /*root=*/false);
    out_.EndObject();
  } else if (auto nested = a.get<std::vector<ir::Values>>()) {
    Need29("lists of lists");
    WriteList("as_nested_tensors", *nested, [&](const ir::Values& list) {
      out_.BeginArray();
      for (const Value* v : list) {
        if (v)
          WriteName("name", *v);
        else
          Refuse("None within lists of lists of tensors");
      }
      out_.EndArray();
    });
  } else if (auto int_lists = a.get<std::vector<ir::Ints>>()) {
    Need29("lists of lists");
    WriteList("as_int_lists", *int_lists, [&](const ir::Ints& list) {
      out_.BeginArray();
      for (int64_t x : list) out_.Int(x);
      out_.EndArray();
    });
  } else if (auto float_lists = a.get<std::vector<std::vector<double>>>()) {
    Need29("lists of lists");
    WriteList("as_float_lists", *float_lists, [&](const std::vector<double>& list) {
      out_.BeginArray();
      for (double x : list) out_.Double(x);
      out_.EndArray();
    });
  }
  out_.EndObject();
}

// By position as long as every declared argument before is: one that is left out makes the rest keywords.
int ProgramWriter::KindOf(const Node& n, const ir::NamedArg& a, int index, bool* gap) const {
  if (a.kind != 0) return a.kind;
  const ir::OpDef& op = n.op();
  if (!op.known || op.variadic) return a.name.empty() ? kPositional : kKeyword;
  const ir::ArgDef& declared = op.args[index];
  if (declared.keyword_only) return kKeyword;
  for (int i = 0; i < index && !*gap; ++i) *gap = !n.Find(op.args[i].name);
  return *gap ? kKeyword : kPositional;
}

void ProgramWriter::WriteNode(const Node& n, GraphNames& graphs) {
  const ir::OpDef& op = n.op();
  if (op.ns == "slipway") Refuse(text::StrCat("the operator ", op.name));
  const bool higher_order = op.ns == "higher_order";
  out_.BeginObject().Key("target").String(ir::TargetFromOpName(op.name)).Key("inputs").BeginArray();
  bool gap = false;
  for (const ir::NamedArg& a : n.args()) {
    out_.BeginObject().Key("name").String(a.name).Key("arg");
    WriteArg(a.arg, graphs, op.base);
    if (Since29()) out_.Key("kind").Int(KindOf(n, a, op.known && !op.variadic ? op.ArgIndex(a.name) : -1, &gap));
    out_.EndObject();
  }
  out_.EndArray().Key("outputs").BeginArray();
  WriteResults(n, higher_order);
  out_.EndArray().Key("metadata").BeginObject();
  if (const ir::Source* s = n.source().get()) {
    if (!s->stack_trace.empty()) out_.Key("stack_trace").String(s->stack_trace);
    if (!s->nn_module_stack.empty()) out_.Key("nn_module_stack").String(s->nn_module_stack);
    if (!s->torch_fn.empty()) out_.Key("torch_fn").String(s->torch_fn);
    for (const auto& [key, value] : s->other) out_.Key(key).String(value);
  }
  out_.EndObject();
  if (Since29()) {
    out_.Key("is_hop_single_tensor_return");
    // torch takes an unset flag for a tuple, and results in one list for a file of before the flag.
    if (higher_order)
      out_.Bool(n.hop_single_return.value_or(n.groups().empty() && n.outputs().size() == 1));
    else if (n.hop_single_return)
      out_.Bool(*n.hop_single_return);
    else
      out_.Null();
  }
  out_.EndObject();
}

void ProgramWriter::WriteResult(const Value* v) {
  if (v)
    WriteValue(*v);
  else
    out_.BeginObject().Key("as_none").Bool(true).EndObject();
}

void ProgramWriter::WriteResults(const Node& n, bool higher_order) {
  const absl::Span<Value* const> outputs = n.outputs();
  std::vector<int> groups = n.groups();
  if (higher_order) {
    // One Argument a result; for a tuple of one, 2.6 has no flag but a list.
    const bool tuple = n.hop_single_return ? !*n.hop_single_return : !groups.empty();
    const bool list = !Since29() && tuple && outputs.size() == 1 && outputs[0] && outputs[0]->type().is_tensor();
    groups = list ? std::vector<int>{1} : std::vector<int>{};
  }
  if (groups.empty()) {
    for (const Value* v : outputs) WriteResult(v);
    return;
  }
  size_t at = 0;
  for (int group : groups) {
    if (group < 0) {
      WriteResult(outputs[at++]);
      continue;
    }
    const ir::Values list(outputs.begin() + at, outputs.begin() + at + group);
    at += group;
    const bool numbers = !list.empty() && list[0] && list[0]->type().kind == Type::kSymInt;
    out_.BeginObject();
    if (numbers)
      WriteList("as_sym_ints", list,
                [&](const Value* v) { v ? WriteName("as_name", *v) : Refuse("constants among symbolic results"); });
    else
      WriteValues(list);
    out_.EndObject();
  }
}

std::vector<size_t> ProgramWriter::Numbers(size_t n) {
  std::vector<size_t> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = i;
  return out;
}

// torch passes a program's own tensors before the arguments of the call.
std::vector<size_t> ProgramWriter::InputOrder() const {
  std::vector<size_t> order = Numbers(p_.input_specs.size());
  std::stable_partition(order.begin(), order.end(), [&](size_t i) {
    const ir::InputSpec::Kind kind = p_.input_specs[i].kind;
    return kind != ir::InputSpec::kUser && kind != ir::InputSpec::kConstant;
  });
  return order;
}

void ProgramWriter::Collect(const Graph& g, std::vector<const Value*>* values) {
  for (const Value* v : g.inputs()) values->push_back(v);
  for (const Node* n : g)
    for (const Value* v : n->outputs())
      if (v) values->push_back(v);
}

void ProgramWriter::WriteGraph(const Graph& g, bool root) {
  GraphNames graphs{g, {}, {}};
  out_.BeginObject().Key("inputs").BeginArray();
  for (size_t i : root ? InputOrder() : Numbers(g.inputs().size())) {
    const Value& v = *g.inputs()[i];
    if (v.type().kind != Type::kConstant) {
      WriteValue(v);
    } else if (root) {
      WriteArg(p_.input_specs[i].constant, graphs, "");
    } else {
      Refuse("constant inputs of nested graphs");
      out_.BeginObject().Key("as_none").Bool(true).EndObject();
    }
  }
  out_.EndArray().Key("outputs").BeginArray();
  for (const Arg& a : g.outputs) WriteArg(a, graphs, "");
  out_.EndArray().Key("nodes").BeginArray();
  for (const Node* n : g) WriteNode(*n, graphs);
  out_.EndArray();

  std::vector<const Value*> values;
  Collect(g, &values);
  out_.Key("tensor_values").BeginObject();
  for (const Value* v : values) {
    if (!v->type().is_tensor()) continue;
    out_.Key(v->name());
    WriteTensorMeta(v->type());
  }
  out_.EndObject();
  const struct {
    const char* key;
    Type::Kind kind;
  } dictionaries[] = {
      {"sym_int_values", Type::kSymInt}, {"sym_bool_values", Type::kSymBool}, {"sym_float_values", Type::kSymFloat}};
  for (const auto& d : dictionaries) {
    out_.Key(d.key).BeginObject();
    for (const Value* v : values) {
      if (v->type().kind != d.kind) continue;
      out_.Key(v->name());
      WriteSymValue(v->type());
    }
    out_.EndObject();
  }
  out_.Key("is_single_tensor_return").Bool(g.single_tensor_return);
  out_.Key("custom_obj_values").BeginObject().EndObject().EndObject();
}

absl::Status CheckDType(ir::DType dtype, TorchTarget target) {
  const ir::DTypeInfo& info = ir::Info(dtype);
  if (info.pt2_number == 0) return absl::UnimplementedError(text::StrCat("elements of type ", info.name));
  constexpr int kUInt16 = 28;  // of the numbers above it torch 2.6 knows none
  if (target == TorchTarget::k26 && info.pt2_number > kUInt16)
    return absl::UnimplementedError(text::StrCat("elements of type ", info.name, ", for torch 2.6"));
  return absl::OkStatus();
}

void WriteTensorMeta(json::Writer& out, ir::DType dtype, const std::vector<int64_t>& sizes,
                     const std::vector<int64_t>& strides, int64_t offset, bool requires_grad) {
  const auto integers = [&](const char* key, const std::vector<int64_t>& list) {
    out.Key(key).BeginArray();
    for (int64_t x : list) out.BeginObject().Key("as_int").Int(x).EndObject();
    out.EndArray();
  };
  out.BeginObject().Key("dtype").Int(ir::Info(dtype).pt2_number);
  integers("sizes", sizes);
  out.Key("requires_grad").Bool(requires_grad);
  out.Key("device").BeginObject().Key("type").String("cpu").Key("index").Null().EndObject();
  integers("strides", strides);
  out.Key("storage_offset").BeginObject().Key("as_int").Int(offset).EndObject();
  out.Key("layout").Int(static_cast<int>(ir::Layout::kStrided)).EndObject();
}

namespace {

// Pytrees in JSON.
constexpr std::string_view kLeaf = R"({"type":null,"context":null,"children_spec":[]})";
std::string Tuple(const std::vector<std::string>& children) {
  return text::StrCat(R"({"type":"builtins.tuple","context":"null","children_spec":[)", text::Join(children, ","),
                      "]}");
}
std::string Leaves(size_t n) { return Tuple(std::vector<std::string>(n, std::string(kLeaf))); }

}  // namespace

std::string PlainInputSpec(const ir::Program& p) {
  size_t n = 0;
  for (const ir::InputSpec& s : p.input_specs)
    n += s.kind == ir::InputSpec::kUser || s.kind == ir::InputSpec::kConstant;
  return text::StrCat("[1,", Tuple({Leaves(n), R"({"type":"builtins.dict","context":"[]","children_spec":[]})"}), "]");
}

std::string PlainOutputSpec(const ir::Program& p) {
  size_t n = 0;
  for (const ir::OutputSpec& s : p.output_specs) n += s.kind == ir::OutputSpec::kUser;
  return text::StrCat("[1,", n == 1 ? std::string(kLeaf) : Leaves(n), "]");
}

absl::StatusOr<std::string> ProgramToJson(const ir::Program& program, TorchTarget target) {
  return ProgramWriter(program, target).Write();
}

}  // namespace slipway::exporters
