// The walk: nodes in order, each replaced in front of itself; the model's nodes go when all are done.
#include "importers/onnx/graph_lowering.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status_macros.h"
#include "base/text.h"
#include "importers/onnx/narrow_types.h"
#include "importers/onnx/to_aten.h"
#include "ir/tensor.h"
#include "onnx_model/onnx_graph.h"
#include "onnx_model/schemas.h"
#include "onnx_model/types.h"

namespace slipway::importers::onnx_in {
namespace {

// Elements of constants that are looked at as sizes and axes.
constexpr int64_t kMostComputedElements = 4096;

bool IsGiven(const Operand& o) { return o.tensor || o.elements || IsSequence(o); }

bool MayBeSizes(DType t) { return t == DType::kInt64 || t == DType::kInt32 || t == DType::kBool; }

std::shared_ptr<const ir::Source> SourceOf(const ir::Node& n) {
  auto source = std::make_shared<ir::Source>(n.source() ? *n.source() : ir::Source());
  return source;
}

}  // namespace

const ir::TensorRef* GraphLowering::Stored(const Value* v) const {
  if (const auto it = stored_outside_.find(v); it != stored_outside_.end()) return it->second;
  if (outer_ && &into_ == &outer_->into_) return outer_->Stored(v);
  if (v->producer() || v->graph() != p_.graph.get()) return nullptr;
  const ir::InputSpec& spec = p_.input_specs[static_cast<size_t>(v->index())];
  const auto it = p_.weights.find(spec.target);
  return spec.is_weight() && it != p_.weights.end() ? &it->second : nullptr;
}

Value* GraphLowering::Store(std::string_view name, ir::TensorRef t) {
  if (outer_) return Take(outer_->Store(name, std::move(t)));
  return ir::AddWeight(p_, ir::InputSpec::kTensorConstant, name, std::move(t), std::string(name));
}

Value* GraphLowering::Take(Value* outer) {
  if (!outer_ || outer->graph() == &into_) return outer;
  auto [it, fresh] = inside_.try_emplace(outer);
  if (fresh) {
    taken_.push_back(outer);
    it->second = into_.AddInput(outer->name(), outer->type());
    if (const ir::TensorRef* t = outer_->Stored(outer)) stored_outside_[it->second] = t;
  }
  return it->second;
}

Operand GraphLowering::TakeOperand(const Operand& outside) {
  Operand o{outside.tensor ? Take(outside.tensor) : nullptr, outside.elements};
  if (o.elements)
    for (IntOrValue& x : o.elements->values)
      if (x.value) x = IntOrValue(Take(x.value));
  const auto take_all = [&](const Sequence& all) {
    Sequence members;
    for (const Operand& m : all) members.push_back(TakeOperand(m));
    return members;
  };
  if (outside.sequence) o.sequence = std::make_shared<const Sequence>(take_all(*outside.sequence));
  if (outside.rows) o.rows = Take(outside.rows);
  if (const auto& a = outside.appended)
    o.appended = std::make_shared<const Appended>(Appended{a->loop, a->input, take_all(a->members)});
  return o;
}

// What a captured input stands for becomes known the first time it is read.
void GraphLowering::Import(Value* v) {
  if (!outer_ || v->producer() || v->graph() != &g_ || operands_.contains(v)) return;
  const size_t own = g_.inputs().size() - captured_.size(), i = static_cast<size_t>(v->index());
  if (i < own || !captured_[i - own]) return;
  Value* outside = captured_[i - own];
  Operand o;
  if (const Operand known = outer_->OperandOf(outside); IsSequence(known)) {
    operands_[v] = TakeOperand(known);
    return;
  }
  if (auto e = outer_->ElementsOf(outside)) {
    o = TakeOperand({nullptr, std::move(e)});
  }
  if (!o.elements || outer_->Stored(outside)) {
    Value* tensor = outer_->Tensor(outside, *around_);
    if (tensor) o.tensor = Take(tensor);
  }
  operands_[v] = std::move(o);
}

Value* GraphLowering::Tensor(const Elements& e, ir::Builder& b) {
  const bool constant =
      std::all_of(e.values.begin(), e.values.end(), [](const IntOrValue& i) { return i.value == nullptr; });
  std::vector<int64_t> sizes;
  if (!e.scalar) sizes.push_back(static_cast<int64_t>(e.values.size()));
  if (e.columns > 0) sizes = {sizes[0] / e.columns, e.columns};
  if (constant) {
    std::string bytes;
    for (const IntOrValue& i : e.values) {
      if (e.dtype == DType::kBool) {
        bytes.push_back(i.constant != 0 ? 1 : 0);
      } else if (e.dtype == DType::kInt32) {
        const auto x = static_cast<int32_t>(i.constant);
        bytes.append(reinterpret_cast<const char*>(&x), sizeof x);
      } else {
        bytes.append(reinterpret_cast<const char*>(&i.constant), sizeof i.constant);
      }
    }
    return Store("sizes", ir::OwnedTensor(e.dtype, sizes, std::move(bytes)));
  }
  Values parts;
  for (const IntOrValue& i : e.values) parts.push_back(b.ScalarTensor(Arg(i), e.dtype));
  if (e.scalar) return parts[0];
  Value* list = b.Call("aten.stack.default", {Arg(parts)});
  return e.columns > 0 ? b.Call("aten.reshape.default", {list, Arg(sizes)}) : list;
}

Value* GraphLowering::Tensor(Value* v, ir::Builder& b) {
  Import(v);
  const auto it = operands_.find(v);
  if (it == operands_.end()) return v;  // an input or a weight
  Operand& o = it->second;
  if (!o.tensor && o.elements) {
    o.tensor = Tensor(*o.elements, b);
    KeepName(v, o);
  }
  return o.tensor;
}

Operand GraphLowering::OperandOf(Value* v) {
  Import(v);
  const auto it = operands_.find(v);
  return it == operands_.end() ? Operand{v, std::nullopt} : it->second;
}

void GraphLowering::KeepName(Value* v, const Operand& o) {
  Value* made = o.tensor;
  if (!made && o.elements && o.elements->values.size() == 1) made = o.elements->values[0].value;
  if (!made || made == v || !made->producer() || made->graph() != &into_ || !holders_.insert(made).second) return;
  const auto [it, first] = named_.try_emplace(v, made);
  if (!first) {  // the number that the tensor is made of
    into_.TakeName(made, it->second);
    it->second = made;
  } else if (&into_ == &g_) {
    g_.TakeName(made, v);
  } else {
    into_.Rename(made, v->name());
  }
}

std::optional<Elements> GraphLowering::ElementsOf(Value* v) {
  Import(v);
  if (const auto it = operands_.find(v); it != operands_.end()) {
    if (it->second.elements) return it->second.elements;
    if (it->second.tensor && it->second.tensor != v) return ElementsOf(it->second.tensor);
    return std::nullopt;
  }
  const ir::TensorRef* t = Stored(v);
  if (!t || !MayBeSizes(t->dtype) || t->sizes.size() > 1 || t->numel() > kMostComputedElements) return std::nullopt;
  const auto bytes = ir::ReadDense(*t);
  if (!bytes.ok()) return std::nullopt;
  Elements e{.dtype = t->dtype, .scalar = t->sizes.empty()};
  for (int64_t i = 0; i < t->numel(); ++i) {
    if (t->dtype == DType::kBool) {
      e.values.emplace_back(int64_t{(*bytes)[static_cast<size_t>(i)] != 0});
    } else if (t->dtype == DType::kInt32) {
      int32_t x;
      std::memcpy(&x, bytes->data() + i * 4, sizeof x);
      e.values.emplace_back(int64_t{x});
    } else {
      int64_t x;
      std::memcpy(&x, bytes->data() + i * 8, sizeof x);
      e.values.emplace_back(x);
    }
  }
  return e;
}

GraphLowering::Mark GraphLowering::Now(const ir::Builder& b) const {
  Mark m{.node = b.before() ? b.before()->prev() : into_.last(), .inputs = p_.graph->inputs().size()};
  for (const GraphLowering* g = this; g->outer_; g = g->outer_) m.taken.push_back(g->taken_.size());
  return m;
}

// Whether a node of one version of an operator is one of a later version that says the same: versions between add
// element types, modes and optional inputs only, or the row knows how to say it (Row::renew).
bool SaysTheSame(std::string_view type, int from, int to) {
  struct Versions {
    std::string_view type;
    int first, last;
  };
  static constexpr Versions kAlike[] = {
      {"DFT", 17, 20},      {"Expand", 8, 13},  {"EyeLike", 9, 22},    {"GRU", 7, 22},
      {"GatherND", 12, 13}, {"LSTM", 7, 22},    {"Pad", 11, 25},       {"RNN", 7, 22},
      {"Reshape", 5, 25},   {"Resize", 18, 19}, {"ScatterND", 11, 18}, {"Slice", 10, 13},
  };
  if (from == to) return true;
  return std::any_of(std::begin(kAlike), std::end(kAlike),
                     [&](const Versions& v) { return v.type == type && v.first <= from && from < to && to <= v.last; });
}

bool GraphLowering::MayStay(const ir::Node& n, const Row& row, int opset) const {
  const onnx_model::Operator op = onnx_model::OperatorOf(n.op_name());
  if (written_ == 0 || !row.whole) return false;
  for (const ir::NamedArg& a : n.args())
    if (!a.name.empty() && (a.name[0] == '#' || a.arg.get<ir::SubGraph>())) return false;
  if (!op.domain.empty() && op.domain != "ai.onnx") return true;  // com.microsoft's has had one version
  const onnx::OpSchema *from = onnx_model::FindSchema(op.type, opset), *to = onnx_model::FindSchema(op.type, written_);
  return from && to && SaysTheSame(op.type, from->SinceVersion(), to->SinceVersion());
}

void GraphLowering::TakeBack(const Mark& before) {
  const auto unread = [](const GraphLowering& g, const Value* v) {
    return v->users().empty() && g.Stored(v) && !v->graph()->IsOutput(v);
  };
  size_t level = 0;
  for (GraphLowering* g = this; g->outer_; g = g->outer_, ++level)
    while (g->taken_.size() > before.taken[level]) {
      const auto inside = g->inside_.find(g->taken_.back());
      if (!unread(*g, inside->second)) return;
      g->stored_outside_.erase(inside->second);
      g->into_.RemoveInput(static_cast<size_t>(inside->second->index()));
      g->inside_.erase(inside), g->taken_.pop_back();
    }
  while (p_.input_specs.size() > before.inputs && p_.graph->inputs().back()->users().empty()) {
    p_.weights.erase(p_.input_specs.back().target);
    ir::RemoveInput(p_, p_.input_specs.size() - 1);
  }
}

void GraphLowering::Stay(Call& call, Values inputs, std::vector<ir::NamedArg> attributes, const Mark& before) {
  const ir::Node& n = call.node();
  std::vector<std::optional<ir::Type>> types;
  for (size_t i = 0; i < n.outputs().size(); ++i) {
    if (!call.wants(i)) {
      types.emplace_back();
      continue;
    }
    const Value* v = i < call.results().size() ? call.results()[i].tensor : nullptr;
    const DType declared = OnnxType(n.outputs()[i]);
    if (!v || !v->producer() || v->graph() != &into_ || (declared != DType::kUnknown && declared != v->dtype())) return;
    types.emplace_back(v->type());
  }
  absl::flat_hash_set<const ir::Node*> made;
  std::vector<ir::Node*> nodes;
  for (ir::Node* m = before.node ? before.node->next() : into_.first(); m && m != call.b.before(); m = m->next())
    nodes.push_back(m), made.insert(m);
  for (const ir::Node* m : nodes)
    for (const Value* v : m->outputs())
      if (v && (into_.IsOutput(v) || std::any_of(v->users().begin(), v->users().end(),
                                                 [&](const ir::Node* user) { return !made.contains(user); })))
        return;
  attributes.insert(attributes.begin(), {"", Arg(std::move(inputs)), 1});
  ir::Node* whole = into_.Insert(n.op(), std::move(attributes), call.b.before());
  whole->set_source(SourceOf(n));
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i])
      call.results()[i] = {into_.AddOutput(whole, n.outputs()[i]->name(), *types[i]), std::nullopt, nullptr};
    else
      into_.AddNoneOutput(whole);
  }
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) into_.Erase(*it);
  TakeBack(before);
}

absl::Status GraphLowering::Lower(ir::Node* n) {
  const onnx_model::Operator op = onnx_model::OperatorOf(n->op_name());
  const std::string domain = op.domain == "ai.onnx" ? "" : op.domain;
  const auto opset = opsets_.find(domain);
  const Row* row = FindRow(domain, op.type, opset == opsets_.end() ? 1 : opset->second);
  const std::string name = domain.empty() ? op.type : text::StrCat(domain, ".", op.type);
  const std::string at = n->output() ? n->output()->name() : name;
  if (!row) {
    refusals_.push_back({name, at});
  } else {
    ir::Builder b(into_,
                  &into_ == &g_                            ? n
                  : around_ && &into_ == &around_->graph() ? around_->before()
                                                           : nullptr,
                  SourceOf(*n));
    Call call(*n, *this, b, opset == opsets_.end() ? 1 : opset->second);
    Values inputs;
    std::vector<ir::NamedArg> attributes;
    const bool stays = MayStay(*n, *row, call.opset) && row->whole(call);
    call.whole = stays;
    for (size_t i = 0; stays && i < call.input_count(); ++i) inputs.push_back(call.opt_in(i));
    for (const ir::NamedArg& a : n->args())
      if (!a.name.empty()) attributes.push_back(a);
    if (stays && row->renew) row->renew(call, written_, inputs, attributes);
    const Mark before = Now(b);
    row->fn(call);
    if (const std::string* unread = call.ok() ? call.Unread() : nullptr)
      call.Refuse(text::StrCat("with attribute ", *unread));
    if (stays && call.ok()) Stay(call, std::move(inputs), std::move(attributes), before);
    if (absl::IsUnimplemented(call.status())) {
      refusals_.push_back({text::StrCat(name, " ", std::string(call.status().message())), at});
    } else if (!call.ok() && !refusals_.empty()) {
      // What a refused node gives has no type that its readers could take.
    } else if (!call.ok()) {
      return absl::InvalidArgumentError(
          text::StrCat("node ", at, ", ", name, ": ", std::string(call.status().message())));
    } else {
      for (size_t i = 0; i < n->outputs().size(); ++i) {
        if (!n->outputs()[i]) continue;
        const bool given = i < call.results().size() && IsGiven(call.results()[i]);
        // What an earlier refusal left out is not one of its own.
        if (!given && !refused()) refusals_.push_back({text::StrCat(name, " with ", i + 1, " results"), at});
        Operand& o = operands_[n->outputs()[i]] = given ? call.results()[i] : Operand{n->outputs()[i], std::nullopt};
        KeepName(n->outputs()[i], o);
      }
      return absl::OkStatus();
    }
  }
  // So that what reads it is looked at, too.
  for (Value* v : n->outputs())
    if (v) operands_[v] = {v, std::nullopt};
  return absl::OkStatus();
}

DType GraphLowering::OnnxType(const Value* v) const {
  if (const auto it = onnx_types_.find(v); it != onnx_types_.end()) return it->second;
  return v->type().is_tensor() ? v->dtype() : DType::kUnknown;
}

absl::Status GraphLowering::TakeInputs() {
  for (Value* v : g_.inputs()) {
    if (v->type().kind == ir::Type::kObject && v->type().class_name.empty())
      return absl::InvalidArgumentError(text::StrCat("input '", v->name(), "' has no type that ONNX knows"));
    if (v->type().kind == ir::Type::kObject && v->type().class_name.starts_with("tensor(") &&
        v->type().class_name != "tensor(string)")
      refusals_.push_back({"an input of unknown sizes", v->name()});
    if (!v->type().is_tensor() || ProgramType(v->dtype()) == v->dtype()) continue;
    onnx_types_[v] = v->dtype();
    v->mutable_type().dtype = ProgramType(v->dtype());
    const auto weight = p_.weights.find(p_.input_specs[static_cast<size_t>(v->index())].target);
    if (weight == p_.weights.end()) continue;
    ASSIGN_OR_RETURN(weight->second, ProgramTensor(weight->second));
  }
  return absl::OkStatus();
}

absl::Status GraphLowering::Run() {
  RETURN_IF_ERROR(TakeInputs());
  std::vector<ir::Node*> nodes;
  for (ir::Node* n : g_) nodes.push_back(n);
  for (ir::Node* n : nodes) RETURN_IF_ERROR(Lower(n));
  if (!refusals_.empty()) return absl::OkStatus();
  ir::Builder end(g_, nullptr, nullptr);
  absl::flat_hash_set<const Value*> given;
  for (ir::Arg& out : g_.outputs) {
    Value* v = out.value();
    if (!v) continue;
    Value* made = Tensor(v, end);
    if (!made) {
      refusals_.push_back({"a sequence that the program gives", v->name()});
      return absl::OkStatus();
    }
    // What is handed through, an input or another output, has that one's name.
    const bool again = !given.insert(made).second || !made->producer();
    if (made != v && again && made->type().is_tensor()) made = end.Call("aten.clone.default", {made});
    if (made != v && made->producer() && (again || !named_.contains(v))) g_.TakeName(made, v);
    out = Arg(made);
  }
  RETURN_IF_ERROR(end.status());
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) g_.Erase(*it);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Operand>> GraphLowering::RunNested(std::vector<Operand> inputs) {
  if (g_.inputs().size() != inputs.size() + captured_.size())
    return absl::InvalidArgumentError(
        text::StrCat("a graph of ", g_.inputs().size() - captured_.size(), " inputs that gets ", inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) operands_[g_.inputs()[i]] = std::move(inputs[i]);
  for (ir::Node* n : g_) RETURN_IF_ERROR(Lower(n));
  std::vector<Operand> out;
  for (const ir::Arg& a : g_.outputs) {
    Value* v = a.value();
    if (!v) return absl::InvalidArgumentError("a graph with an output that is no value");
    out.push_back(OperandOf(v));
  }
  return out;
}

}  // namespace slipway::importers::onnx_in
