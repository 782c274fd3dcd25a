// From a program to the ONNX model that it was read from.
#include <algorithm>
#include <exception>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "onnx_model/onnx_graph.h"
#include "onnx_model/onnx_graph_internal.h"
#include "onnx_model/types.h"

namespace slipway::onnx_model {

using ir::Arg;
using ir::Graph;
using ir::InputSpec;
using ir::Node;
using ir::Program;
using ir::Value;

namespace {

class Writer {
 public:
  Writer(const Program& p, std::vector<Weight>* weights) : p_(p), weights_(weights) {}

  absl::StatusOr<onnx::ModelProto> Run() {
    ASSIGN_OR_RETURN(onnx::ModelProto model, FrameOf(p_));
    onnx::GraphProto* g = model.mutable_graph();
    onnx::GraphProto stated;
    stated.mutable_input()->Swap(g->mutable_input());
    stated.mutable_output()->Swap(g->mutable_output());
    stated.mutable_value_info()->Swap(g->mutable_value_info());
    for (const Value* v : p_.graph->inputs()) Name(v, v->name());
    for (const Node* n : *p_.graph)
      for (const Value* v : n->outputs())
        if (v) Name(v, v->name());
    RETURN_IF_ERROR(MainInputs(model.ir_version(), *g, stated));
    try {
      RETURN_IF_ERROR(Body(*p_.graph, *g));
      for (const Arg& a : p_.graph->outputs)
        if (!a.value()) return Invalid("an output that is no value");
      for (const Arg& a : p_.graph->outputs) Info(a.value(), DeclaredAs(stated.output(), a.value()), g->add_output());
      text::ViewMap<const Value*> made;
      for (const Node* n : *p_.graph)
        for (const Value* v : n->outputs())
          if (v && !p_.graph->IsOutput(v)) made.emplace(v->name(), v);
      for (const auto& v : stated.value_info())
        if (auto it = made.find(v.name()); it != made.end()) Info(it->second, &v, g->add_value_info());
    } catch (const std::exception& e) {  // a type that ONNX's library has no message for
      return absl::UnimplementedError(e.what());
    }
    Annotations(*g);
    return model;
  }

 private:
  const Program& p_;
  std::vector<Weight>* weights_;
  absl::flat_hash_map<const Value*, std::string> names_;
  text::Map<int> taken_;  // names of the graphs that are being written, outer ones included
  absl::flat_hash_map<const Value*, const ir::TensorRef*> floating_;  // initializers whose graph is not found yet

  void Name(const Value* v, const std::string& base) {
    std::string name = base;
    for (int i = 1; taken_.contains(name); ++i) name = text::StrCat(base, "_", i);
    taken_.emplace(name, 0);
    names_[v] = std::move(name);
  }
  std::string NameOf(const Value* v) const { return v ? names_.at(v) : ""; }

  static const onnx::ValueInfoProto* DeclaredAs(const google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& list,
                                                const Value* v) {
    for (const auto& info : list)
      if (v && info.name() == v->name()) return &info;
    return nullptr;
  }

  // What was stated of a value, with its type as it is now.
  void Info(const Value* v, const onnx::ValueInfoProto* stated, onnx::ValueInfoProto* out) const {
    if (stated) *out = *stated;
    if (stated && v->type().kind == ir::Type::kObject) {  // which may say less: the shape of what is in a sequence
      ir::SymTable symbols;
      if (TypeOf(stated->type(), symbols).class_name == v->type().class_name) return out->set_name(NameOf(v));
    }
    out->clear_type();
    Describe(out, NameOf(v), v->type());
  }

  absl::Status MainInputs(int64_t ir_version, onnx::GraphProto& g, const onnx::GraphProto& stated) {
    for (size_t i = 0; i < p_.input_specs.size(); ++i) {
      const Value* v = p_.graph->inputs()[i];
      const InputSpec& spec = p_.input_specs[i];
      const bool user = spec.kind == InputSpec::kUser;
      auto weight = p_.weights.find(spec.target);
      if (!user && weight == p_.weights.end())
        return Invalid(text::StrCat("initializer ", Shown(spec.target), " has no values"));
      if (user || spec.kind == InputSpec::kBuffer) {
        try {
          Info(v, DeclaredAs(stated.input(), v), g.add_input());
        } catch (const std::exception& e) {
          return absl::UnimplementedError(e.what());
        }
      }
      if (user) continue;
      if (spec.kind == InputSpec::kTensorConstant && Sinks(v)) {
        floating_[v] = &weight->second;
        taken_.erase(NameOf(v));  // which it gets where it is written
        continue;
      }
      if (spec.kind != InputSpec::kBuffer && ir_version < 4) Describe(g.add_input(), NameOf(v), v->type());
      weights_->push_back({NameOf(v), weight->second});
    }
    return absl::OkStatus();
  }

  // The graph inside of the node that reads `v`, where that is the only one that does, with the input that it is there.
  static const Value* OnlyUser(const Value* v) {
    if (v->users().size() != 1 || v->graph()->IsOutput(v)) return nullptr;
    const Node* n = v->users()[0];
    const ir::Values* captured = CapturedBy(*n);
    if (!captured) return nullptr;
    auto at = std::find(captured->begin(), captured->end(), v);
    if (at == captured->end()) return nullptr;
    const size_t from_end = static_cast<size_t>(captured->end() - at);
    const Value* reader = nullptr;
    for (const ir::NamedArg& a : n->args()) {
      auto sub = a.arg.get<ir::SubGraph>();
      if (!sub || !*sub || (*sub)->inputs().size() < from_end) continue;
      const Value* inner = (*sub)->inputs()[(*sub)->inputs().size() - from_end];
      if (inner->users().empty() && !(*sub)->IsOutput(inner)) continue;
      if (reader) return nullptr;
      reader = inner;
    }
    return reader;
  }
  static bool Sinks(const Value* v) { return OnlyUser(v) != nullptr; }

  absl::Status Body(const Graph& g, onnx::GraphProto& out) {
    for (const Node* n : g) RETURN_IF_ERROR(WriteNode(*n, out));
    return absl::OkStatus();
  }

  absl::Status WriteNode(const Node& n, onnx::GraphProto& out) {
    const Operator op = OperatorOf(n.op_name());
    if (op.type == kInitializer || op.type == kSparse) {
      const Arg* value = n.Find("value");
      auto bytes = value ? value->get<std::string>() : nullptr;
      bool parsed = bytes && n.output();
      if (op.type == kInitializer) {
        parsed = parsed && out.add_initializer()->ParseFromString(*bytes);
        if (parsed) out.mutable_initializer()->rbegin()->set_name(NameOf(n.output()));
      } else {
        parsed = parsed && out.add_sparse_initializer()->ParseFromString(*bytes);
        if (parsed) out.mutable_sparse_initializer()->rbegin()->mutable_values()->set_name(NameOf(n.output()));
      }
      return parsed ? absl::OkStatus() : Invalid("an initializer that is none");
    }
    const ir::Values* inputs = InputsOf(n);
    if (op.type.empty() || !inputs) return absl::UnimplementedError(text::StrCat(n.op_name(), " in an ONNX model"));
    onnx::NodeProto* node = out.add_node();
    if (n.source())
      for (const auto& [key, value] : n.source()->other) {
        if (key == "node" && !node->MergeFromString(value)) return Invalid("what was kept of a node is none");
        if (key == "name") node->set_name(value);
      }
    node->set_op_type(op.type);
    if (!op.domain.empty()) node->set_domain(op.domain);
    if (!op.overload.empty()) node->set_overload(op.overload);
    for (const Value* v : *inputs) node->add_input(NameOf(v));
    for (const Value* v : n.outputs()) node->add_output(NameOf(v));
    for (size_t i = 1; i < n.args().size(); ++i) {
      const ir::NamedArg& a = n.args()[i];
      if (a.name.empty()) continue;
      onnx::AttributeProto* attribute = node->add_attribute();
      if (auto sub = a.arg.get<ir::SubGraph>()) {
        attribute->set_name(a.name);
        attribute->set_type(onnx::AttributeProto::GRAPH);
        attribute->mutable_g()->set_name(a.name);
        RETURN_IF_ERROR(WriteNested(**sub, CapturedBy(n), *attribute->mutable_g()));
      } else if (a.name[0] == '#') {
        auto bytes = a.arg.get<std::string>();
        if (!bytes || !attribute->ParseFromString(*bytes)) return Invalid("an attribute that is none");
      } else {
        *attribute = PlainAttribute(a.name, a.arg);
      }
    }
    return absl::OkStatus();
  }

  absl::Status WriteNested(const Graph& g, const ir::Values* captured, onnx::GraphProto& out) {
    const size_t count = captured ? captured->size() : 0;
    if (g.inputs().size() < count) return Invalid("a graph that takes less than its node captures");
    const size_t formal = g.inputs().size() - count;
    text::Map<int> outside = taken_;
    for (size_t i = 0; i < g.inputs().size(); ++i) {
      const Value* v = g.inputs()[i];
      if (i < formal) {
        Name(v, v->name());
        Describe(out.add_input(), NameOf(v), v->type());
        continue;
      }
      const Value* outer = (*captured)[i - formal];
      auto data = floating_.find(outer);
      if (data == floating_.end() || OnlyUser(outer) != v) {
        // One that lies in another graph of the node has no name out here, and nothing in this graph reads it.
        if (const auto name = names_.find(outer); outer && name != names_.end()) names_[v] = std::string(name->second);
        continue;
      }
      if (Sinks(v)) {
        floating_[v] = data->second;
        continue;
      }
      Name(v, v->name());
      ASSIGN_OR_RETURN(onnx::TensorProto t, Inline({NameOf(v), *data->second}));
      *out.add_initializer() = std::move(t);
    }
    for (const Node* n : g)
      for (const Value* v : n->outputs())
        if (v) Name(v, v->name());
    RETURN_IF_ERROR(Body(g, out));
    for (const Arg& a : g.outputs) {
      if (!a.value()) return Invalid("an output that is no value");
      Describe(out.add_output(), NameOf(a.value()), a.value()->type());
    }
    taken_ = std::move(outside);  // graphs side by side may use the same names
    return absl::OkStatus();
  }

  // Of tensors that are still there.
  void Annotations(onnx::GraphProto& g) const {
    std::set<std::string_view> names;
    for (const auto& [v, name] : names_) names.insert(name);
    google::protobuf::RepeatedPtrField<onnx::TensorAnnotation> kept;
    for (const auto& a : g.quantization_annotation()) {
      bool there = names.contains(a.tensor_name());
      for (const auto& entry : a.quant_parameter_tensor_names()) there = there && names.contains(entry.value());
      if (there) *kept.Add() = a;
    }
    g.mutable_quantization_annotation()->Swap(&kept);
  }
};

}  // namespace

absl::StatusOr<onnx::ModelProto> ToModel(const Program& p, std::vector<Weight>* weights) {
  return Writer(p, weights).Run();
}

}  // namespace slipway::onnx_model
