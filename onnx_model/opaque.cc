// Names are kept wherever the IR allows it: a value is called what the model calls it, so that reports, recorded values
// and the model that is written again speak of the same things.
#include "onnx_model/opaque.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "ir/ops/op_table.h"
#include "onnx_model/opaque_internal.h"
#include "onnx_model/types.h"

namespace slipway::onnx_model {

using ir::Arg;
using ir::DType;
using ir::Graph;
using ir::InputSpec;
using ir::Node;
using ir::Program;
using ir::Value;

namespace {

constexpr std::string_view kDialect = "ONNX", kPrefix = "onnx.", kBetween = "::";
constexpr std::string_view kInitializer = "#initializer", kSparse = "#sparse_initializer";

std::string OpName(const Operator& o) {
  if (!o.overload.empty()) return text::StrCat(kPrefix, o.domain, kBetween, o.type, kBetween, o.overload);
  const bool plain = o.domain.empty() && !text::Contains(o.type, kBetween);
  return plain ? text::StrCat(kPrefix, o.type) : text::StrCat(kPrefix, o.domain, kBetween, o.type);
}

absl::Status Invalid(std::string_view what) { return absl::InvalidArgumentError(text::ToAbsl(what)); }

std::string Shown(std::string_view name) { return text::StrCat("'", name.substr(0, 200), "'"); }

// ---- Attributes

std::optional<Arg> PlainArg(const onnx::AttributeProto& a) {
  using A = onnx::AttributeProto;
  switch (a.type()) {
    case A::INT: return Arg(static_cast<int64_t>(a.i()));
    case A::FLOAT: return std::isnan(a.f()) ? std::nullopt : std::optional<Arg>(static_cast<double>(a.f()));
    case A::STRING: return Arg(a.s());
    case A::INTS: return Arg(ir::Ints(a.ints().begin(), a.ints().end()));
    case A::FLOATS:
      for (float f : a.floats())
        if (std::isnan(f)) return std::nullopt;
      return Arg(std::vector<double>(a.floats().begin(), a.floats().end()));
    case A::STRINGS: return Arg(std::vector<std::string>(a.strings().begin(), a.strings().end()));
    default: return std::nullopt;
  }
}

onnx::AttributeProto PlainAttribute(std::string_view name, const Arg& arg) {
  onnx::AttributeProto a;
  a.set_name(std::string(name));
  if (auto i = arg.get<int64_t>()) {
    a.set_type(onnx::AttributeProto::INT);
    a.set_i(*i);
  } else if (auto f = arg.get<double>()) {
    a.set_type(onnx::AttributeProto::FLOAT);
    a.set_f(static_cast<float>(*f));
  } else if (auto s = arg.get<std::string>()) {
    a.set_type(onnx::AttributeProto::STRING);
    a.set_s(*s);
  } else if (auto is = arg.get<ir::Ints>()) {
    a.set_type(onnx::AttributeProto::INTS);
    for (int64_t x : *is) a.add_ints(x);
  } else if (auto fs = arg.get<std::vector<double>>()) {
    a.set_type(onnx::AttributeProto::FLOATS);
    for (double x : *fs) a.add_floats(static_cast<float>(x));
  } else if (auto ss = arg.get<std::vector<std::string>>()) {
    a.set_type(onnx::AttributeProto::STRINGS);
    for (const std::string& x : *ss) a.add_strings(x);
  }
  return a;
}

// An attribute without a graph. What an argument does not hold to the bit is kept as it is.
ir::NamedArg ArgOf(const onnx::AttributeProto& a) {
  if (!a.name().empty() && a.name()[0] != '#')
    if (std::optional<Arg> plain = PlainArg(a);
        plain && PlainAttribute(a.name(), *plain).SerializeAsString() == a.SerializeAsString())
      return {a.name(), *std::move(plain)};
  return {text::StrCat("#", a.name()), Arg(a.SerializeAsString())};
}

// ---- Data of tensors

std::string DenseText(const onnx::TensorProto& t, DType dtype) {
  std::string out;
  const auto put = [&](auto x) { out.append(reinterpret_cast<const char*>(&x), sizeof x); };
  if (t.has_raw_data()) return t.raw_data();
  switch (dtype) {
      // clang-format off
    case DType::kFloat32: case DType::kComplex64: for (float x : t.float_data()) put(x); break;
    case DType::kFloat64: case DType::kComplex128: for (double x : t.double_data()) put(x); break;
    case DType::kInt64: for (int64_t x : t.int64_data()) put(x); break;
    case DType::kUInt64: for (uint64_t x : t.uint64_data()) put(x); break;
    case DType::kUInt32: for (uint64_t x : t.uint64_data()) put(static_cast<uint32_t>(x)); break;
    case DType::kInt32: for (int32_t x : t.int32_data()) put(x); break;
    case DType::kInt16: case DType::kUInt16: case DType::kFloat16: case DType::kBFloat16:
      for (int32_t x : t.int32_data()) put(static_cast<uint16_t>(x));
      break;
    default: for (int32_t x : t.int32_data()) put(static_cast<uint8_t>(x)); break;  // 8 bits, or pairs of 4
      // clang-format on
  }
  return out;
}

}  // namespace

bool IsOnnx(const Program& p) { return p.verifier_dialect == kDialect; }

Operator OperatorOf(std::string_view name) {
  Operator o;
  if (!text::ConsumePrefix(&name, kPrefix)) return o;
  const size_t first = name.find(kBetween);
  if (first == std::string_view::npos) {
    o.type = name;
    return o;
  }
  o.domain = name.substr(0, first);
  name.remove_prefix(first + kBetween.size());
  const size_t second = o.domain.empty() ? std::string_view::npos : name.find(kBetween);
  o.type = name.substr(0, second);
  if (second != std::string_view::npos) o.overload = name.substr(second + kBetween.size());
  return o;
}

const ir::Values* InputsOf(const Node& n) {
  return n.args().empty() || !n.args().front().name.empty() ? nullptr : n.args().front().arg.get<ir::Values>();
}
const ir::Values* CapturedBy(const Node& n) {
  return n.args().size() < 2 || !n.args().back().name.empty() ? nullptr : n.args().back().arg.get<ir::Values>();
}

absl::StatusOr<std::optional<ir::TensorRef>> ShapeOf(const onnx::TensorProto& t) {
  ir::TensorRef ref;
  ref.dtype = FromOnnxType(t.data_type());
  if (ref.dtype == DType::kUnknown) return std::nullopt;
  ref.sizes.assign(t.dims().begin(), t.dims().end());
  int64_t bits = ir::BitSize(ref.dtype), known = bits;
  for (int64_t d : ref.sizes)
    if (d < 0 || __builtin_mul_overflow(known, d > 0 ? d : 1, &known) || known > int64_t{1} << 60)
      return Invalid(text::StrCat("initializer ", Shown(t.name()), " is of a shape that no tensor has"));
  ref.strides = ir::ContiguousStrides(ref.sizes);
  return ref;
}

absl::Status SizeMismatch(const onnx::TensorProto& t, uint64_t bytes, uint64_t wanted) {
  return Invalid(
      text::StrCat("initializer ", Shown(t.name()), " has ", bytes, " bytes of data, its shape takes ", wanted));
}

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
    text::Set opaque;
    for (int i = 0; i < g.initializer_size(); ++i) {
      const onnx::TensorProto& t = g.initializer(i);
      ASSIGN_OR_RETURN(auto data, DataOf(t, i < static_cast<int>(weights_.size()) ? weights_[static_cast<size_t>(i)]
                                                                                  : std::nullopt));
      if (!data)
        opaque.insert(t.name());
      else if (!defaults.try_emplace(t.name(), &t, std::move(data)).second)
        return Invalid(text::StrCat("two initializers are called ", Shown(t.name())));
    }
    for (const auto& v : g.input()) {
      if (opaque.contains(v.name())) continue;
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
            OpaqueInitializer(kInitializer, t.name(), t.SerializeAsString(), type_of(t.name()), into, scope));
    }
    for (const onnx::SparseTensorProto& t : g.sparse_initializer())
      RETURN_IF_ERROR(OpaqueInitializer(kSparse, t.values().name(), t.SerializeAsString(), type_of(t.values().name()),
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

  absl::Status OpaqueInitializer(std::string_view kind, const std::string& name, std::string bytes, ir::Type type,
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

// ---- Back

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
        if (outer) names_[v] = NameOf(outer);
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

ir::Type Dense(ir::Type t) {
  if (!t.is_tensor()) return t;
  t.strides_known = true;
  t.strides = ir::Sizes(t.sizes.size());
  ir::Sym step = 1;
  for (size_t i = t.sizes.size(); i-- > 0;) {
    t.strides[i] = step;
    if (!t.sizes[i].is(0)) step = step * t.sizes[i];
  }
  return t;
}

absl::StatusOr<onnx::TensorProto> Inline(const Weight& w) {
  onnx::TensorProto t;
  for (int64_t d : w.tensor.sizes) t.add_dims(d);
  t.set_data_type(OnnxType(w.tensor.dtype));
  t.set_name(w.name);
  ASSIGN_OR_RETURN(*t.mutable_raw_data(), ir::ReadDense(w.tensor));
  return t;
}

absl::StatusOr<onnx::ModelProto> FrameOf(const Program& p) {
  auto it = p.objects.find(kFrame);
  onnx::ModelProto frame;
  const auto* bytes = it == p.objects.end() ? nullptr : std::get_if<io::Bytes>(&it->second.first->bytes);
  if (!bytes || bytes->size() > INT32_MAX ||
      !frame.ParseFromArray(bytes->data().data(), static_cast<int>(bytes->size())))
    return Invalid("a program that is no ONNX model");
  return frame;
}

absl::StatusOr<std::unique_ptr<Program>> ToProgram(const onnx::ModelProto& model,
                                                   const std::vector<std::optional<ir::TensorRef>>& weights,
                                                   const External& external) {
  return Reader(model, weights, external).Run();
}

absl::StatusOr<onnx::ModelProto> ToModel(const Program& p, std::vector<Weight>* weights) {
  return Writer(p, weights).Run();
}

}  // namespace slipway::onnx_model
