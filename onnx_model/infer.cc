// ONNX's own inference and checker, asked about programs. They walk functions as deep as those call each other, and
// trust what they read: what would make them walk for ever is found before.
#include <algorithm>
#include <exception>
#include <map>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "base/list_error.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "ir/ops/op_table.h"
#include "onnx/checker.h"
#include "onnx/defs/schema.h"
#include "onnx/inliner/inliner.h"
#include "onnx/shape_inference/implementation.h"
#include "onnx_model/onnx_graph.h"
#include "onnx_model/onnx_graph_internal.h"
#include "onnx_model/schemas.h"
#include "onnx_model/types.h"

namespace slipway::onnx_model {
namespace {

using ir::Graph;
using ir::Node;
using ir::Program;
using ir::Value;

constexpr int64_t kSmall = 1024;            // bytes of weights whose numbers inference may read: sizes, axes
constexpr uint64_t kMostNodes = 1'000'000;  // of a model with its functions' bodies in place of calls
constexpr int kMostNested = 64;             // functions within each other

// The operators of a graph and of those in it: f(domain, type, overload).
template <typename Nodes, typename F>
void ForEachNode(const Nodes& nodes, const F& f) {
  for (const onnx::NodeProto& n : nodes) {
    f(n);
    for (const onnx::AttributeProto& a : n.attribute())
      if (a.has_g()) ForEachNode(a.g().node(), f);
  }
}

std::string FunctionId(std::string_view domain, std::string_view type, std::string_view overload) {
  return text::StrCat(domain == "ai.onnx" ? "" : domain, "\n", type, "\n", overload);
}

// How many nodes a model has when every call is its function's body; an error for functions that call themselves.
class Calls {
 public:
  explicit Calls(const onnx::ModelProto& m) {
    for (const onnx::FunctionProto& f : m.functions())
      functions_.emplace(FunctionId(f.domain(), f.name(), f.overload()), &f);
  }
  absl::Status Check(const onnx::ModelProto& m) {
    ASSIGN_OR_RETURN(const uint64_t count, Count(m.graph().node(), 0));
    for (const auto& [id, f] : functions_) RETURN_IF_ERROR(CountOf(id, f, 0).status());
    return count > kMostNodes ? absl::ResourceExhaustedError("functions that call each other too often")
                              : absl::OkStatus();
  }
  // Ids of the functions that nodes need, those that functions need among them.
  template <typename Nodes>
  void Reach(const Nodes& nodes, std::set<std::string>& reached) const {
    ForEachNode(nodes, [&](const onnx::NodeProto& n) {
      const std::string id = FunctionId(n.domain(), n.op_type(), n.overload());
      auto it = functions_.find(id);
      if (it != functions_.end() && reached.insert(id).second) Reach(it->second->node(), reached);
    });
  }

 private:
  std::map<std::string, const onnx::FunctionProto*> functions_;
  std::map<std::string, uint64_t> counts_;
  std::set<std::string> open_;

  absl::StatusOr<uint64_t> CountOf(const std::string& id, const onnx::FunctionProto* f, int depth) {
    if (auto it = counts_.find(id); it != counts_.end()) return it->second;
    const std::string name = f->name().substr(0, 200);
    if (depth > kMostNested)
      return absl::ResourceExhaustedError(text::StrCat("function '", name, "' is called by ", depth,
                                                       " functions one inside the other (limit ", kMostNested, ")"));
    if (!open_.insert(id).second) return absl::InvalidArgumentError(text::StrCat("function '", name, "' calls itself"));
    ASSIGN_OR_RETURN(const uint64_t count, Count(f->node(), depth + 1));
    open_.erase(id);
    return counts_[id] = count;
  }
  template <typename Nodes>
  absl::StatusOr<uint64_t> Count(const Nodes& nodes, int depth) {
    uint64_t total = 0;
    absl::Status status;
    ForEachNode(nodes, [&](const onnx::NodeProto& n) {
      auto it = functions_.find(FunctionId(n.domain(), n.op_type(), n.overload()));
      uint64_t more = 1;
      if (it != functions_.end() && status.ok()) {
        auto count = CountOf(it->first, it->second, depth);
        if (count.ok())
          more += *count;
        else
          status = count.status();
      }
      total = std::min(total + more, 2 * kMostNodes);
    });
    if (!status.ok()) return status;
    return total;
  }
};

int OpsetOf(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports, int otherwise) {
  for (const auto& o : imports)
    if (o.domain().empty() || o.domain() == "ai.onnx")
      return static_cast<int>(std::clamp<int64_t>(o.version(), 1, 1 << 20));
  return otherwise;
}

// Puts the schemas that a model needs into ONNX's registry.
void Register(const onnx::ModelProto& m) {
  const int opset = OpsetOf(m.opset_import(), 1);
  const auto see = [&](int version) {
    return [version](const onnx::NodeProto& n) {
      if (n.domain().empty() || n.domain() == "ai.onnx") (void)FindSchema(n.op_type(), version);
      if (n.domain() == kPreviewDomain) (void)FindSchema(n.op_type(), 1, kPreviewDomain);
    };
  };
  ForEachNode(m.graph().node(), see(opset));
  for (const onnx::FunctionProto& f : m.functions()) ForEachNode(f.node(), see(OpsetOf(f.opset_import(), opset)));
}

bool KnowsOpsets(const onnx::ModelProto& m) {
  const auto& known = onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map();
  for (const auto& o : m.opset_import()) {
    auto it = known.find(o.domain() == "ai.onnx" ? "" : o.domain());
    if (it != known.end() && (o.version() < it->second.first || o.version() > it->second.second)) return false;
  }
  return true;
}

// The model with small weights as they are and others as inputs.
absl::StatusOr<onnx::ModelProto> Skeleton(const Program& p) {
  std::vector<Weight> weights;
  ASSIGN_OR_RETURN(onnx::ModelProto model, ToModel(p, &weights));
  onnx::GraphProto* g = model.mutable_graph();
  std::set<std::string> inputs;
  for (const auto& v : g->input()) inputs.insert(v.name());
  for (const Weight& w : weights) {
    const bool small = w.tensor.nbytes() <= kSmall;
    if (!inputs.contains(w.name) && (!small || model.ir_version() < 4)) {
      ir::Sizes sizes(w.tensor.sizes.begin(), w.tensor.sizes.end());
      Describe(g->add_input(), w.name, ir::Type::Tensor(w.tensor.dtype, std::move(sizes)));
    }
    if (!small) continue;
    ASSIGN_OR_RETURN(*g->add_initializer(), Inline(w));
  }
  return model;
}

void ForgetTypes(onnx::GraphProto& g, bool main) {
  g.clear_value_info();
  for (auto& v : *g.mutable_output()) v.clear_type();
  if (!main)
    for (auto& v : *g.mutable_input()) v.clear_type();
  for (auto& n : *g.mutable_node())
    for (auto& a : *n.mutable_attribute())
      if (a.has_g()) ForgetTypes(*a.mutable_g(), false);
}

bool Knows(const ir::Type& t) { return t.kind != ir::Type::kObject || !t.class_name.empty(); }

// "tensor(float)": what is left of a type whose sizes are not believed.
ir::Type WithoutSizes(const ir::Type& t) {
  ir::Type out;
  out.kind = ir::Type::kObject;
  out.class_name = t.is_tensor() ? SchemaTypeName(t.dtype) : t.class_name;
  return out;
}

class Assigner {
 public:
  Assigner(Program& p, bool afresh) : p_(p), afresh_(afresh) {}

  void Graph(ir::Graph& g, const onnx::GraphProto& found, bool main) {
    absl::flat_hash_map<std::string_view, const onnx::TypeProto*> types;
    for (const auto* list : {&found.value_info(), &found.output()})
      for (const auto& v : *list)
        if (v.has_type()) types[v.name()] = &v.type();
    if (!main)
      for (int i = 0; i < found.input_size() && i < static_cast<int>(g.inputs().size()); ++i)
        Take(g.inputs()[static_cast<size_t>(i)], found.input(i).has_type() ? &found.input(i).type() : nullptr);
    int k = 0;
    for (Node* n : g) {
      if (OperatorOf(n->op_name()).type.starts_with("#")) continue;
      if (k >= found.node_size()) return;
      const onnx::NodeProto& node = found.node(k++);
      for (int i = 0; i < node.output_size() && i < static_cast<int>(n->outputs().size()); ++i) {
        Value* v = n->outputs()[static_cast<size_t>(i)];
        if (!v) continue;
        auto it = types.find(node.output(i));
        Take(v, it == types.end() ? nullptr : it->second);
      }
      Nested(*n, node);
    }
  }

 private:
  Program& p_;
  const bool afresh_;

  void Take(Value* v, const onnx::TypeProto* found) {
    ir::Type type = found ? Dense(TypeOf(*found, *p_.syms)) : ir::Type();
    if (found && Knows(type) && (type.is_tensor() || !v->type().is_tensor() || afresh_))
      v->mutable_type() = std::move(type);
    else if (afresh_)
      v->mutable_type() = WithoutSizes(v->type());
  }

  void Nested(const Node& n, const onnx::NodeProto& node) {
    const ir::Values* captured = CapturedBy(n);
    int k = 0;
    for (const ir::NamedArg& a : n.args()) {
      if (a.name.empty()) continue;
      if (k >= node.attribute_size()) return;
      const onnx::AttributeProto& attribute = node.attribute(k++);
      auto sub = a.arg.get<ir::SubGraph>();
      if (!sub || !*sub || !attribute.has_g()) continue;
      ir::Graph& g = **sub;
      for (size_t i = 0; captured && i < captured->size() && i < g.inputs().size(); ++i)
        if (const Value* outer = (*captured)[captured->size() - 1 - i])
          g.inputs()[g.inputs().size() - 1 - i]->mutable_type() = outer->type();
      Graph(g, attribute.g(), false);
    }
  }
};

// Types as far as ONNX's inference has them; what it says of the rest is for the checker.
void InferWhatIsKnown(onnx::ModelProto& model) {
  const std::shared_lock lock(RegistryMutex());
  try {
    onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance());
  } catch (const std::exception&) {
  }
}

// The bodies of operators that ONNX defines by others and nobody understands, as functions of the model, which its
// inliner then writes in place of their calls. Its own way for such operators leaves out defaults of attributes and
// nested graphs, and fails where an input is left out whose type a body asks for.
class FunctionBodies {
 public:
  FunctionBodies(onnx::ModelProto& m, const std::function<bool(const onnx::NodeProto&, int)>& keep)
      : model_(m), keep_(keep), opset_(OpsetOf(m.opset_import(), 1)) {}

  // The calls that have a body, by type and a result.
  std::vector<std::string> Open() const {
    std::vector<std::string> calls;
    ForEachNode(model_.graph().node(), [&](const onnx::NodeProto& n) {
      if (FunctionOf(n))
        calls.push_back(text::StrCat(n.op_type(), " (node '", n.output_size() > 0 ? n.output(0) : n.name(), "')"));
    });
    return calls;
  }

  // How many calls are now written out. The types of what bodies ask for must be in the model.
  int Inline() {
    Graph(*model_.mutable_graph(), {});
    if (written_ == 0) return 0;
    onnx::OperatorSetIdProto* own = model_.add_opset_import();
    own->set_domain(kDomain);
    own->set_version(1);
    onnx::inliner::InlineLocalFunctions(model_);
    for (int i = model_.opset_import_size(); i-- > 0;)
      if (model_.opset_import(i).domain() == kDomain) model_.mutable_opset_import()->DeleteSubrange(i, 1);
    return written_;
  }

 private:
  using Types = absl::flat_hash_map<std::string_view, onnx::TypeProto>;
  static constexpr const char* kDomain = "slipway.bodies";  // of the time between writing and inlining only

  onnx::ModelProto& model_;
  const std::function<bool(const onnx::NodeProto&, int)>& keep_;
  const int opset_;
  int written_ = 0;

  // The schema of a call that has a body; else null.
  const onnx::OpSchema* FunctionOf(const onnx::NodeProto& n) const {
    const bool own = n.domain().empty() || n.domain() == "ai.onnx";
    if ((!own && n.domain() != kPreviewDomain) || (own && keep_(n, opset_))) return nullptr;
    const onnx::OpSchema* schema = own ? FindSchema(n.op_type(), opset_) : FindSchema(n.op_type(), 1, kPreviewDomain);
    return schema && (schema->HasFunction() || schema->HasContextDependentFunction()) ? schema : nullptr;
  }

  // Whether the operators of a body are those that the model's nodes are of; the inliner leaves out others.
  bool IsOfModelsOpsets(const onnx::FunctionProto& body) const {
    const auto plain = [](const std::string& domain) { return domain == "ai.onnx" ? std::string() : domain; };
    for (const auto& needed : body.opset_import())
      for (const auto& given : model_.opset_import())
        if (plain(needed.domain()) == plain(given.domain()) && needed.version() != given.version()) return false;
    return true;
  }

  void Graph(onnx::GraphProto& g, Types types) {
    for (const auto* list : {&g.input(), &g.value_info(), &g.output()})
      for (const onnx::ValueInfoProto& v : *list)
        if (v.has_type()) types[v.name()] = v.type();
    for (const onnx::TensorProto& t : g.initializer()) {
      onnx::TypeProto::Tensor* type = types[t.name()].mutable_tensor_type();
      type->set_elem_type(t.data_type());
      type->clear_shape();
      for (const int64_t d : t.dims()) type->mutable_shape()->add_dim()->set_dim_value(d);
    }
    for (onnx::NodeProto& n : *g.mutable_node()) {
      for (onnx::AttributeProto& a : *n.mutable_attribute())
        if (a.has_g()) Graph(*a.mutable_g(), types);
      if (const onnx::OpSchema* schema = FunctionOf(n)) Node(n, *schema, types);
    }
  }

  void Node(onnx::NodeProto& n, const onnx::OpSchema& schema, const Types& types) {
    // Attributes of a body that refer to the call's have no defaults.
    for (const auto& [name, attribute] : schema.attributes()) {
      if (attribute.default_value.type() == onnx::AttributeProto::UNDEFINED) continue;
      const auto same = [&name = name](const onnx::AttributeProto& a) { return a.name() == name; };
      if (std::none_of(n.attribute().begin(), n.attribute().end(), same)) *n.add_attribute() = attribute.default_value;
    }
    onnx::FunctionProto body;
    const int opset = n.domain() == kPreviewDomain ? 1 : opset_;
    if (schema.HasContextDependentFunction()) {
      // Builders trust that the node is as its schema says, and that what it reads has a type.
      schema.Verify(n);
      std::vector<onnx::TypeProto> inputs;  // one left out is one without a kind
      for (const std::string& name : n.input()) {
        const auto it = types.find(name);
        if (it == types.end() && !name.empty()) return;
        inputs.push_back(it == types.end() ? onnx::TypeProto() : it->second);
        if (!name.empty() && inputs.back().value_case() == onnx::TypeProto::VALUE_NOT_SET) return;
      }
      const onnx::FunctionBodyBuildContextImpl context(n, inputs);
      if (!schema.BuildContextDependentFunction(context, body, opset)) return;
    } else if (const onnx::FunctionProto* stated = schema.GetFunction(opset)) {
      body = *stated;
    } else {
      return;
    }
    if (!IsOfModelsOpsets(body)) return;
    body.set_domain(kDomain);
    body.set_name(text::StrCat(n.op_type(), "_", written_++));
    n.set_domain(kDomain);
    n.set_op_type(body.name());
    *model_.add_functions() = std::move(body);
  }
};

}  // namespace

absl::Status InlineFunctions(onnx::ModelProto& model, const std::function<bool(const onnx::NodeProto&, int)>& keep) {
  RETURN_IF_ERROR(Calls(model).Check(model));
  if (!KnowsOpsets(model)) return absl::OkStatus();
  try {
    if (model.functions_size() > 0) onnx::inliner::InlineLocalFunctions(model);
    // Bodies have functions in them.
    for (int depth = 0; depth < kMostNested; ++depth) {
      FunctionBodies bodies(model, keep);
      const std::vector<std::string> calls = bodies.Open();
      if (calls.empty()) break;
      Register(model);
      InferWhatIsKnown(model);
      if (bodies.Inline() == 0)
        return ListError("operators that ONNX defines by others, without a body for these types", calls,
                         absl::StatusCode::kUnimplemented);
      if (model.graph().node_size() > static_cast<int>(kMostNodes))
        return absl::ResourceExhaustedError("functions that call each other too often");
    }
  } catch (const std::exception& e) {
    return absl::UnimplementedError(text::StrCat("a function that ONNX's inliner does not write out: ", e.what()));
  }
  return absl::OkStatus();
}

absl::Status InferTypes(Program& p, bool afresh) {
  ASSIGN_OR_RETURN(onnx::ModelProto model, Skeleton(p));
  RETURN_IF_ERROR(Calls(model).Check(model));
  if (afresh) ForgetTypes(*model.mutable_graph(), true);
  if (KnowsOpsets(model)) {
    Register(model);
    try {
      const std::shared_lock lock(RegistryMutex());
      const onnx::ShapeInferenceOptions options{/*check_type=*/false, /*strict_mode=*/0, /*data_prop=*/true};
      onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(), options);
    } catch (const std::exception&) {  // what it has not come to is not known
    }
  }
  for (Value* v : p.graph->inputs()) v->mutable_type() = Dense(v->type());
  Assigner(p, afresh).Graph(*p.graph, model.graph(), true);
  return absl::OkStatus();
}

absl::Status CheckModel(const onnx::ModelProto& model, onnx::ModelProto* inferred) {
  onnx::ModelProto copy;
  onnx::ModelProto& typed = inferred ? *inferred : copy;
  try {
    const std::shared_lock lock(RegistryMutex());
    onnx::checker::check_model(model, /*full_check=*/false, /*skip_opset_compatibility_check=*/false,
                               /*check_custom_domain=*/false);
    typed = model;  // inference writes types into the model
    const onnx::ShapeInferenceOptions options{/*check_type=*/true, /*strict_mode=*/1, /*data_prop=*/false};
    onnx::shape_inference::InferShapes(typed, onnx::OpSchemaRegistry::Instance(), options);
  } catch (const std::exception& e) {
    return absl::InvalidArgumentError(e.what());
  }
  return absl::OkStatus();
}

absl::Status Check(const Program& p) {
  ASSIGN_OR_RETURN(const onnx::ModelProto model, Skeleton(p));
  RETURN_IF_ERROR(Calls(model).Check(model));
  Register(model);
  return CheckModel(model);
}

void SetFrame(Program& p, const onnx::ModelProto& frame) {
  std::string bytes = frame.SerializeAsString();
  auto storage = std::make_shared<ir::Storage>();
  storage->size = bytes.size();
  storage->bytes = io::Bytes::Of(std::move(bytes));
  p.objects.insert_or_assign(std::string(kFrame),
                             std::make_pair(std::move(storage), text::StrCat(OpsetOf(frame.opset_import(), 1))));
}

int OpsetOf(const Program& p) {
  auto it = p.objects.find(kFrame);
  int opset = 1;
  return it != p.objects.end() && text::ParseNumber(it->second.second, &opset) ? opset : 1;
}

void StripMetadata(Program& p) {
  auto frame = FrameOf(p);
  if (!frame.ok()) return;
  for (auto clear :
       {&onnx::ModelProto::clear_producer_name, &onnx::ModelProto::clear_producer_version,
        &onnx::ModelProto::clear_domain, &onnx::ModelProto::clear_model_version, &onnx::ModelProto::clear_doc_string,
        &onnx::ModelProto::clear_metadata_props, &onnx::ModelProto::clear_training_info})
    ((*frame).*clear)();
  onnx::GraphProto bare;
  bare.set_name("main");
  *bare.mutable_quantization_annotation() = frame->graph().quantization_annotation();
  *frame->mutable_graph() = std::move(bare);
  std::vector<Weight> weights;
  if (auto model = ToModel(p, &weights); model.ok()) {
    std::set<std::string> functions;
    std::set<std::string_view> domains = {""};
    Calls(*frame).Reach(model->graph().node(), functions);
    google::protobuf::RepeatedPtrField<onnx::FunctionProto> kept;
    const auto see = [&](const onnx::NodeProto& n) { domains.insert(n.domain()); };
    ForEachNode(model->graph().node(), see);
    for (const onnx::FunctionProto& f : frame->functions())
      if (functions.contains(FunctionId(f.domain(), f.name(), f.overload()))) *kept.Add() = f;
    frame->mutable_functions()->Swap(&kept);
    for (const onnx::FunctionProto& f : frame->functions()) {
      domains.insert(f.domain());
      ForEachNode(f.node(), see);
    }
    google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto> opsets;
    for (const auto& o : frame->opset_import())
      if (domains.contains(o.domain()) || o.domain() == "ai.onnx") *opsets.Add() = o;
    frame->mutable_opset_import()->Swap(&opsets);
    *frame->mutable_graph()->mutable_quantization_annotation() = model->graph().quantization_annotation();
  }
  p.name = "main";
  SetFrame(p, *frame);
}

bool MayDrop(const Program& p, const Node& n, const ir::NamedArg& a) {
  if (a.name.empty() || a.arg.is<ir::SubGraph>()) return false;
  const Operator op = OperatorOf(n.op_name());
  if (op.type.starts_with("#")) return false;
  if (!op.domain.empty()) return true;  // nothing is known that requires it
  const onnx::OpSchema* schema = FindSchema(op.type, OpsetOf(p));
  if (!schema) return true;
  auto it = schema->attributes().find(a.name.starts_with("#") ? a.name.substr(1) : a.name);
  return it == schema->attributes().end() || !it->second.required;
}

}  // namespace slipway::onnx_model
