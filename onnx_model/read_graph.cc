// From an ONNX model to a program.
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "ir/ops/op_table.h"
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

class Reader {
 public:
  Reader(const onnx::ModelProto& model, const std::vector<std::optional<ir::TensorRef>>& weights,
         const External& external)
      : model_(model), weights_(weights), external_(external) {}

  absl::StatusOr<std::unique_ptr<Program>> Run() {
    const onnx::GraphProto& g = model_.graph();
    p_ = std::make_unique<Program>();
    p_->name = g.name().empty() ? "model" : g.name();
    p_->form = ir::Form::kFunctional;
    p_->verifier_dialect = kDialect;
    KeepFrame();
    Scope scope;
    RETURN_IF_ERROR(MainInputs(g, scope));
    ASSIGN_OR_RETURN(const Needs* needs, NeedsOf(g));
    if (!needs->outer.empty())
      return Invalid(text::StrCat(Shown(needs->outer.front()), " is read and nothing makes it"));
    for (const auto& [key, tensor] : needs->nested) {
      ASSIGN_OR_RETURN(const auto data, DataOf(*tensor, std::nullopt));
      const std::string name = p_->graph->UniqueName(tensor->name());
      scope[key] = AddWeight(name, InputSpec::kTensorConstant, *data);
    }
    RETURN_IF_ERROR(Body(g, *p_->graph, scope));
    p_->output_specs.resize(p_->graph->outputs.size());
    return std::move(p_);
  }

 private:
  using Scope = text::Map<Value*>;
  // What a graph reads of those around it: values by name, and, since the IR's weights are those of the program,
  // initializers of its own and of graphs in it, by keys that no name has.
  struct Needs {
    std::vector<std::string> outer;
    std::vector<std::pair<std::string, const onnx::TensorProto*>> own, nested;  // `nested`: of the graphs inside
  };

  const onnx::ModelProto& model_;
  const std::vector<std::optional<ir::TensorRef>>& weights_;
  const External& external_;
  std::unique_ptr<Program> p_;
  absl::flat_hash_map<const onnx::GraphProto*, std::unique_ptr<Needs>> needs_;

  void KeepFrame() {
    onnx::ModelProto frame = model_;
    frame.mutable_graph()->clear_node();
    frame.mutable_graph()->clear_initializer();
    frame.mutable_graph()->clear_sparse_initializer();
    SetFrame(*p_, frame);
  }

  // ---- Names

  template <typename F>
  static void ForEachGraph(const onnx::NodeProto& n, F f) {
    for (const onnx::AttributeProto& a : n.attribute())
      if (a.has_g()) f(a.g());
  }

  absl::StatusOr<const Needs*> NeedsOf(const onnx::GraphProto& g) {
    std::unique_ptr<Needs>& entry = needs_[&g];
    if (entry) return entry.get();
    auto needs = std::make_unique<Needs>();
    std::set<std::string_view> made, asked;
    std::vector<std::string_view> order;
    const auto ask = [&](std::string_view name) {
      if (!name.empty() && asked.insert(name).second) order.push_back(name);
    };
    for (const auto& v : g.input()) made.insert(v.name());
    for (const auto& t : g.initializer()) made.insert(t.name());
    for (const auto& t : g.sparse_initializer()) made.insert(t.values().name());
    for (const onnx::NodeProto& n : g.node()) made.insert(n.output().begin(), n.output().end());
    for (const onnx::NodeProto& n : g.node()) {
      for (const std::string& name : n.input()) ask(name);
      absl::Status status;
      ForEachGraph(n, [&](const onnx::GraphProto& inner) {
        auto below = NeedsOf(inner);
        if (!below.ok()) {
          status = below.status();
          return;
        }
        for (const std::string& name : (*below)->outer) ask(name);
        for (const auto* list : {&(*below)->own, &(*below)->nested})
          needs->nested.insert(needs->nested.end(), list->begin(), list->end());
      });
      RETURN_IF_ERROR(status);
    }
    for (const auto& v : g.output()) ask(v.name());
    for (std::string_view name : order)
      if (!made.contains(name)) needs->outer.emplace_back(name);
    if (&g != &model_.graph())
      for (const auto& t : g.initializer()) {
        ASSIGN_OR_RETURN(const auto shape, ShapeOf(t));
        if (shape)
          needs->own.emplace_back(text::StrCat(std::string(1, '\0'), needs_.size(), ".", needs->own.size()), &t);
      }
    return (needs_[&g] = std::move(needs)).get();  // looked up again: the table may have grown
  }

  // Makes a name in a graph mean a value.
  static absl::Status Define(Scope& scope, const std::string& name, Value* v) {
    if (name.empty()) return Invalid("an input or initializer without a name");
    if (!scope.emplace(name, v).second) return Invalid(text::StrCat(Shown(name), " is made twice"));
    return absl::OkStatus();
  }

  // ---- Inputs and weights

  absl::StatusOr<std::optional<ir::TensorRef>> DataOf(const onnx::TensorProto& t,
                                                      const std::optional<ir::TensorRef>& given) {
    if (given) return given;
    ASSIGN_OR_RETURN(std::optional<ir::TensorRef> ref, ShapeOf(t));
    if (!ref) return ref;
    if (t.data_location() == onnx::TensorProto::EXTERNAL) {
      if (!external_)
        return Invalid(text::StrCat("initializer ", Shown(t.name()), " lies in another file, and no folder is known"));
      return external_(t);
    }
    std::string bytes = DenseText(t, ref->dtype);
    const auto wanted = static_cast<uint64_t>(ref->nbytes());
    if (bytes.size() != wanted) return SizeMismatch(t, bytes.size(), wanted);
    auto storage = std::make_shared<ir::Storage>();
    storage->size = wanted;
    storage->bytes = io::Bytes::Of(std::move(bytes));
    ref->storage = std::move(storage);
    return ref;
  }

  Value* AddWeight(const std::string& name, InputSpec::Kind kind, const ir::TensorRef& data) {
    ir::Sizes sizes(data.sizes.begin(), data.sizes.end());
    p_->input_specs.push_back({kind, name});
    p_->weights.emplace(name, data);
    return p_->graph->AddInput(name, Dense(ir::Type::Tensor(data.dtype, std::move(sizes))));
  }

  // Inputs in order, then initializers that are none. An initializer that no tensor of ours holds becomes a node.
  absl::Status MainInputs(const onnx::GraphProto& g, Scope& scope) {
    absl::flat_hash_map<std::string_view, std::pair<const onnx::TensorProto*, std::optional<ir::TensorRef>>> defaults;
    text::Set as_nodes;
    for (int i = 0; i < g.initializer_size(); ++i) {
      const onnx::TensorProto& t = g.initializer(i);
      ASSIGN_OR_RETURN(auto data, DataOf(t, i < static_cast<int>(weights_.size()) ? weights_[static_cast<size_t>(i)]
                                                                                  : std::nullopt));
      if (!data)
        as_nodes.insert(t.name());
      else if (!defaults.try_emplace(t.name(), &t, std::move(data)).second)
        return Invalid(text::StrCat("two initializers are called ", Shown(t.name())));
    }
    for (const auto& v : g.input()) {
      if (as_nodes.contains(v.name())) continue;
      if (auto it = defaults.find(v.name()); it != defaults.end()) {
        RETURN_IF_ERROR(Define(scope, v.name(), AddWeight(v.name(), InputSpec::kBuffer, *it->second.second)));
        continue;
      }
      p_->input_specs.emplace_back();
      RETURN_IF_ERROR(Define(scope, v.name(), p_->graph->AddInput(v.name(), Dense(TypeOf(v.type(), *p_->syms)))));
    }
    for (const auto& t : g.initializer())
      if (auto it = defaults.find(t.name()); it != defaults.end() && !scope.contains(t.name()))
        RETURN_IF_ERROR(Define(scope, t.name(), AddWeight(t.name(), InputSpec::kParameter, *it->second.second)));
    return absl::OkStatus();
  }

  // ---- Graphs

  // Nodes and outputs of a graph whose inputs are in `scope`.
  absl::Status Body(const onnx::GraphProto& g, Graph& into, Scope& scope) {
    text::ViewMap<const onnx::TypeProto*> types;
    for (const auto* list : {&g.value_info(), &g.output()})
      for (const auto& v : *list)
        if (v.has_type()) types[v.name()] = &v.type();
    const auto type_of = [&](const std::string& name) {
      auto it = types.find(name);
      ir::Type unknown;
      unknown.kind = ir::Type::kObject;
      return it == types.end() ? unknown : Dense(TypeOf(*it->second, *p_->syms));
    };
    for (const onnx::TensorProto& t : g.initializer()) {
      ASSIGN_OR_RETURN(const auto shape, ShapeOf(t));
      if (!shape)
        RETURN_IF_ERROR(
            AddInitializerNode(kInitializer, t.name(), t.SerializeAsString(), type_of(t.name()), into, scope));
    }
    for (const onnx::SparseTensorProto& t : g.sparse_initializer())
      RETURN_IF_ERROR(AddInitializerNode(kSparse, t.values().name(), t.SerializeAsString(), type_of(t.values().name()),
                                         into, scope));
    ASSIGN_OR_RETURN(const std::vector<int> order, Order(g, scope));
    for (int i : order) {
      const onnx::NodeProto& n = g.node(i);
      ASSIGN_OR_RETURN(Node * made, ReadNode(n, into, scope));
      for (const std::string& name : n.output()) {
        if (name.empty())
          into.AddNoneOutput(made);
        else
          RETURN_IF_ERROR(Define(scope, name, into.AddOutput(made, name, type_of(name))));
      }
    }
    for (const auto& v : g.output()) {
      auto it = scope.find(v.name());
      if (it == scope.end()) return Invalid(text::StrCat("output ", Shown(v.name()), " is made by nothing"));
      into.outputs.emplace_back(it->second);
    }
    return absl::OkStatus();
  }

  absl::Status AddInitializerNode(std::string_view kind, const std::string& name, std::string bytes, ir::Type type,
                                  Graph& into, Scope& scope) {
    Node* n = into.Insert(ir::GetOp(text::StrCat(kPrefix, kind)),
                          {{"", Arg(ir::Values())}, {"value", Arg(std::move(bytes))}});
    return Define(scope, name, into.AddOutput(n, name, std::move(type)));
  }

  // The nodes so that each stands behind those that it reads; in their own order where that is one.
  absl::StatusOr<std::vector<int>> Order(const onnx::GraphProto& g, const Scope& scope) {
    text::ViewMap<int> maker;
    for (int i = 0; i < g.node_size(); ++i)
      for (const std::string& name : g.node(i).output())
        if (!name.empty() && !maker.emplace(name, i).second)
          return Invalid(text::StrCat(Shown(name), " is made twice"));
    std::vector<std::vector<int>> readers(static_cast<size_t>(g.node_size()));
    std::vector<int> waits(static_cast<size_t>(g.node_size()), 0);
    for (int i = 0; i < g.node_size(); ++i) {
      absl::Status status;
      const auto read = [&](const std::string& name) {
        if (name.empty()) return;
        if (auto it = maker.find(name); it != maker.end()) {
          readers[static_cast<size_t>(it->second)].push_back(i);
          ++waits[static_cast<size_t>(i)];
        } else if (!scope.contains(name)) {
          status = Invalid(text::StrCat(Shown(name), " is read and nothing makes it"));
        }
      };
      for (const std::string& name : g.node(i).input()) read(name);
      ForEachGraph(g.node(i), [&](const onnx::GraphProto& inner) {
        for (const std::string& name : needs_.at(&inner)->outer) read(name);
      });
      RETURN_IF_ERROR(status);
    }
    std::set<int> ready;
    for (int i = 0; i < g.node_size(); ++i)
      if (waits[static_cast<size_t>(i)] == 0) ready.insert(i);
    std::vector<int> order;
    while (!ready.empty()) {
      const int i = *ready.begin();
      ready.erase(ready.begin());
      order.push_back(i);
      for (int reader : readers[static_cast<size_t>(i)])
        if (--waits[static_cast<size_t>(reader)] == 0) ready.insert(reader);
    }
    if (order.size() != static_cast<size_t>(g.node_size())) return Invalid("nodes read each other in a circle");
    return order;
  }

  absl::StatusOr<Node*> ReadNode(const onnx::NodeProto& n, Graph& into, Scope& scope) {
    const Operator op{n.domain() == "ai.onnx" ? "" : n.domain(), n.op_type(), n.overload()};
    const std::string name = OpName(op);
    const Operator again = OperatorOf(name);
    if (n.op_type().empty()) return Invalid("a node without an operator");
    if (n.op_type()[0] == '#' || again.domain != op.domain || again.type != op.type || again.overload != op.overload)
      return absl::UnimplementedError(text::StrCat("an operator called ", Shown(n.op_type())));
    std::vector<ir::NamedArg> args;
    ir::Values inputs;
    for (const std::string& input : n.input()) inputs.push_back(input.empty() ? nullptr : scope.at(input));
    args.push_back({"", Arg(std::move(inputs))});
    std::vector<std::string> captured;  // of all its graphs
    text::Set seen;
    bool graphs = false;
    for (const onnx::AttributeProto& a : n.attribute()) {
      if (a.graphs_size() > 0) return absl::UnimplementedError("an attribute that is a list of graphs");
      if (a.has_t() && a.t().data_location() == onnx::TensorProto::EXTERNAL)
        return absl::UnimplementedError("an attribute whose numbers lie in another file");
      if (!a.has_g()) continue;
      graphs = true;
      ASSIGN_OR_RETURN(const Needs* needs, NeedsOf(a.g()));
      for (const std::string& outer : needs->outer)
        if (seen.insert(outer).second) captured.push_back(outer);
      for (const auto* list : {&needs->own, &needs->nested})
        for (const auto& [key, tensor] : *list) captured.push_back(key);
    }
    text::Set names;
    for (const onnx::AttributeProto& a : n.attribute()) {
      ir::NamedArg arg;
      if (a.has_g()) {
        ASSIGN_OR_RETURN(ir::SubGraph graph, Nested(a.g(), captured, scope));
        arg = {a.name(), Arg(std::move(graph))};
        if (a.name().empty() || a.name()[0] == '#') return absl::UnimplementedError("a graph without a name");
      } else {
        arg = ArgOf(a);
      }
      if (!names.insert(a.name()).second) return Invalid(text::StrCat("a node has two attributes ", Shown(a.name())));
      args.push_back(std::move(arg));
    }
    if (graphs) {
      ir::Values values;
      for (const std::string& c : captured) values.push_back(scope.at(c));
      args.push_back({"", Arg(std::move(values))});
    }
    Node* made = into.Insert(ir::GetOp(name), std::move(args));
    KeepSource(n, made);
    return made;
  }

  // A graph whose last inputs are what the node captures, whether it reads it or not.
  absl::StatusOr<ir::SubGraph> Nested(const onnx::GraphProto& g, const std::vector<std::string>& captured,
                                      const Scope& outer) {
    auto made = std::make_shared<Graph>(p_.get());
    Scope scope;
    text::Map<std::string> own;  // by key
    for (const auto& [key, tensor] : needs_.at(&g)->own) own[key] = tensor->name();
    for (const auto& v : g.input()) {
      ir::Type type = Dense(TypeOf(v.type(), *p_->syms));
      RETURN_IF_ERROR(Define(scope, v.name(), made->AddInput(v.name(), std::move(type))));
    }
    const absl::flat_hash_set<std::string> reads(needs_.at(&g)->outer.begin(), needs_.at(&g)->outer.end());
    for (const std::string& c : captured) {
      auto initializer = own.find(c);
      const bool key = !c.empty() && c[0] == '\0';
      const ir::Type& type = outer.at(c)->type();
      if (initializer != own.end()) {
        RETURN_IF_ERROR(Define(scope, initializer->second, made->AddInput(initializer->second, type)));
      } else if (key || !reads.contains(c)) {  // of a graph inside, or of another graph of the node
        Value* v = made->AddInput(text::StrCat(outer.at(c)->name(), ".outer"), type);
        if (key) scope[c] = v;
      } else {
        RETURN_IF_ERROR(Define(scope, c, made->AddInput(c, type)));
      }
    }
    RETURN_IF_ERROR(Body(g, *made, scope));
    return made;
  }

  static void KeepSource(const onnx::NodeProto& n, Node* made) {
    auto source = std::make_shared<ir::Source>();
    if (!n.name().empty()) source->other.emplace_back("name", n.name());
    onnx::NodeProto rest = n;
    for (auto clear : {&onnx::NodeProto::clear_input, &onnx::NodeProto::clear_output, &onnx::NodeProto::clear_attribute,
                       &onnx::NodeProto::clear_op_type, &onnx::NodeProto::clear_domain,
                       &onnx::NodeProto::clear_overload, &onnx::NodeProto::clear_name})
      (rest.*clear)();
    if (std::string text = rest.SerializeAsString(); !text.empty()) source->other.emplace_back("node", std::move(text));
    if (!source->other.empty()) made->set_source(std::move(source));
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Program>> ToProgram(const onnx::ModelProto& model,
                                                   const std::vector<std::optional<ir::TensorRef>>& weights,
                                                   const External& external) {
  return Reader(model, weights, external).Run();
}

}  // namespace slipway::onnx_model
