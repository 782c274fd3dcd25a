// Edits work in place on a copy that the caller made. What is common to those that change the signature is
// DropUnused().
#include "minifier/edit.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "ir/clone.h"
#include "ir/ops/higher_order.h"
#include "ir/ops/infer.h"
#include "ir/ops/op_table.h"
#include "ir/specialize.h"
#include "minifier/edit_internal.h"
#include "onnx_model/onnx_graph.h"
#include "passes/pass.h"

namespace slipway::minifier {

using ir::Arg;
using ir::Graph;
using ir::Node;
using ir::Program;
using ir::Type;
using ir::Value;

absl::Status InvalidEdit(std::string_view what) { return absl::InvalidArgumentError(text::ToAbsl(what)); }

namespace {

// An ONNX model's values are all data, whatever is known of their types.
bool IsData(const Value* v) {
  return v && (v->type().is_tensor() || v->type().is_sym() || onnx_model::IsOnnx(*v->graph()->program()));
}

}  // namespace

bool SameType(const Type& a, const Type& b) {
  if (a.kind != b.kind) return false;
  if (a.is_sym()) return a.expr == b.expr;
  return a.is_tensor() && a.dtype == b.dtype && a.sizes == b.sizes;
}

namespace {

// Whether `by` may take the place of `v`. Of what an ONNX model's custom operators make nothing is known; whether it
// goes is asked.
bool MayStandFor(const Value* by, const Value* v) {
  if (SameType(by->type(), v->type())) return true;
  const auto unknown = [](const Type& t) { return t.kind == Type::kObject && t.class_name.empty(); };
  const bool alike = by->type().kind == Type::kObject && v->type().kind == Type::kObject &&
                     by->type().class_name == v->type().class_name;
  return (alike || unknown(by->type()) || unknown(v->type())) && onnx_model::IsOnnx(*v->graph()->program());
}

// The values among a node's arguments, in order, repetitions left out.
ir::Values OperandsOf(const Node& n) {
  ir::Values out;
  for (const ir::NamedArg& a : n.args())
    a.arg.ForEachValue([&](Value* v) {
      if (std::find(out.begin(), out.end(), v) == out.end()) out.push_back(v);
    });
  return out;
}

}  // namespace

void ForEachGraph(Graph& g, const std::function<void(Graph&)>& f) {
  f(g);
  for (Node* n : g)
    for (const ir::NamedArg& a : n->args())
      if (auto sub = a.arg.get<ir::SubGraph>(); sub && *sub) ForEachGraph(**sub, f);
}

namespace {

// What the file said of the signature is of another one now.
void ForgetSignature(Program& p) {
  p.in_spec.clear();
  p.out_spec.clear();
  p.forward_arg_names.clear();
  p.module_call_graph_json.clear();
  p.namedtuple_fields_json.clear();
  p.guards.clear();
  p.sample_inputs = nullptr;
  p.graph->single_tensor_return = false;
}

}  // namespace

void DropUnused(Program& p) {
  Graph& g = *p.graph;
  std::set<std::string_view> written;
  for (const ir::OutputSpec& s : p.output_specs)
    if (s.kind == ir::OutputSpec::kUserInputMutation) written.insert(s.target);
  for (size_t i = g.inputs().size(); i-- > 0;) {
    const Value* v = g.inputs()[i];
    if (!v->users().empty() || g.IsOutput(v) || written.contains(v->name())) continue;
    ir::RemoveInput(p, i);
  }
  std::set<std::string_view> used;
  for (const ir::InputSpec& s : p.input_specs) used.insert(s.target);
  // A weight that is a subclass has its parts under names that begin with its own.
  const auto needed = [&](const std::string& name) {
    if (used.contains(name)) return true;
    for (size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
      if (used.contains(std::string_view(name).substr(0, dot))) return true;
    return false;
  };
  std::erase_if(p.weights, [&](const auto& w) { return !needed(w.first); });
  if (!onnx_model::IsOnnx(p)) absl::erase_if(p.objects, [&](const auto& o) { return !needed(o.first); });
  ForgetSignature(p);
  DropUnusedRanges(p);
}

namespace {

// The input that stands for `v`, made on first use.
Value* StandInFor(Program& p, const Value* v, const StandIns& names) {
  const std::string name = names.NameFor(v->name());
  if (Value* there = p.graph->FindValue(name)) return there;
  Type type = v->type();
  type.requires_grad = false;
  p.input_specs.emplace_back();
  return p.graph->AddInput(name, std::move(type));
}

}  // namespace

void AddOutputs(Program& p, const Node& n, bool all) {
  Graph& g = *p.graph;
  const auto taken = [&](const Value* v) { return !IsData(v) || !v->users().empty() || g.IsOutput(v); };
  if (!all &&
      std::any_of(n.outputs().begin(), n.outputs().end(), [&](const Value* v) { return IsData(v) && taken(v); }))
    return;
  for (Value* v : n.outputs()) {
    if (taken(v)) continue;
    g.outputs.emplace_back(v);
    p.output_specs.emplace_back();
  }
}

namespace {

absl::Status KeepIn(Program& p, const Places& keep, Joint joint, const StandIns& names) {
  Graph& g = *p.graph;
  const std::vector<Node*> nodes = NodesOf(g);
  absl::flat_hash_set<const Node*> kept;
  for (int i : keep) {
    if (i < 0 || static_cast<size_t>(i) >= nodes.size()) return InvalidEdit("no such node");
    kept.insert(nodes[static_cast<size_t>(i)]);
  }
  const auto resolve = [&](Value* v) {
    while (v->producer() && !kept.contains(v->producer())) {
      Value* same = nullptr;
      if (joint == Joint::kBypass)
        for (Value* operand : OperandsOf(*v->producer()))
          if (!same && MayStandFor(operand, v)) same = operand;
      if (!same) return StandInFor(p, v, names);
      v = same;
    }
    return v;
  };
  for (Node* n : nodes) {
    if (!kept.contains(n)) continue;
    for (Value* v : OperandsOf(*n)) {
      if (!v->producer()) continue;
      Value* by = joint == Joint::kApart ? StandInFor(p, v, names) : resolve(v);
      if (by != v) n->ReplaceUses(v, by);
    }
  }
  std::vector<Arg> outputs = std::move(g.outputs);
  std::vector<ir::OutputSpec> specs = std::move(p.output_specs);
  g.outputs.clear();
  p.output_specs.clear();
  for (size_t i = 0; i < outputs.size(); ++i) {
    Value* v = outputs[i].value();
    if (!v || !v->producer()) continue;
    const bool stays = kept.contains(v->producer());
    if (!stays && joint != Joint::kBypass) continue;
    if (!stays) {  // what it was made of, unless that is an input, which says nothing
      while (v->producer() && !kept.contains(v->producer())) {
        Value* same = nullptr;
        for (Value* operand : OperandsOf(*v->producer()))
          if (!same && MayStandFor(operand, v)) same = operand;
        if (!same) break;
        v = same;
      }
      if (!v->producer() || !kept.contains(v->producer()) || g.IsOutput(v)) continue;
    }
    g.outputs.emplace_back(v);
    p.output_specs.push_back(stays ? specs[i] : ir::OutputSpec());
  }
  for (size_t i = nodes.size(); i-- > 0;)
    if (!kept.contains(nodes[i])) g.Erase(nodes[i]);
  for (Node* n : g) AddOutputs(p, *n, joint == Joint::kApart);
  DropUnused(p);
  return absl::OkStatus();
}

}  // namespace

bool IsSize(const ir::ArgDef& d) { return d.type == "SymInt"; }

StandIns::StandIns(const Program& original) {
  const auto add = [&](const Value* v) {
    if (!v) return;
    ordinals_.emplace(v->name(), static_cast<int>(values_.size()));
    values_.push_back(v->name());
  };
  for (const Value* v : original.graph->inputs()) add(v);
  for (const Node* n : *original.graph)
    for (const Value* v : n->outputs()) add(v);
  const auto clashes = [&](const std::string& name) { return name.starts_with(prefix_); };
  while (std::any_of(values_.begin(), values_.end(), clashes)) prefix_.insert(0, "in_");
}

std::string StandIns::NameFor(std::string_view value) const {
  auto it = ordinals_.find(value);
  return it == ordinals_.end() ? text::StrCat(prefix_, value) : text::StrCat(prefix_, it->second);
}

std::string StandIns::ValueOf(std::string_view input) const {
  size_t ordinal = 0;
  if (ordinals_.contains(input)) return std::string(input);
  if (!text::ConsumePrefix(&input, prefix_) || !text::ParseNumber(input, &ordinal) || ordinal >= values_.size())
    return "";
  return values_[ordinal];
}

bool StandIns::Respell(Program& p) const {
  bool any = false;
  for (Value* v : p.graph->inputs()) {
    if (!v->name().starts_with(prefix_)) continue;
    p.graph->Rename(v, text::StrCat(prefix_, "0", std::string_view(v->name()).substr(prefix_.size())));
    any = true;
  }
  return any;
}

std::vector<Node*> NodesOf(const Graph& g) {
  std::vector<Node*> nodes;
  for (Node* n : g) nodes.push_back(n);
  return nodes;
}

Graph* FindGraph(Program& p, const GraphPath& path) {
  Graph* g = p.graph.get();
  for (auto [place, argument] : path) {
    const std::vector<Node*> nodes = NodesOf(*g);
    if (static_cast<size_t>(place) >= nodes.size() ||
        static_cast<size_t>(argument) >= nodes[static_cast<size_t>(place)]->args().size())
      return nullptr;
    auto sub = nodes[static_cast<size_t>(place)]->At(static_cast<size_t>(argument)).get<ir::SubGraph>();
    if (!sub || !*sub) return nullptr;
    g = sub->get();
  }
  return g;
}

std::vector<GraphPath> NestedGraphs(const Program& p) {
  std::vector<GraphPath> out;
  const std::function<void(const Graph&, const GraphPath&)> walk = [&](const Graph& g, const GraphPath& path) {
    int place = 0;
    for (const Node* n : g) {
      for (size_t i = 0; i < n->args().size(); ++i) {
        auto sub = n->At(i).get<ir::SubGraph>();
        if (!sub || !*sub) continue;
        GraphPath inner = path;
        inner.emplace_back(place, static_cast<int>(i));
        out.push_back(inner);
        walk(**sub, inner);
      }
      ++place;
    }
  };
  walk(*p.graph, {});
  std::stable_sort(out.begin(), out.end(), [](const GraphPath& a, const GraphPath& b) { return a.size() < b.size(); });
  return out;
}

Edit KeepNodes(Places keep, Joint joint, const StandIns* names) {
  return [keep = std::move(keep), joint, names](Program& p) { return KeepIn(p, keep, joint, *names); };
}

Edit BypassNode(int place, int operand, const StandIns* names) {
  return [=](Program& p) -> absl::Status {
    const std::vector<Node*> nodes = NodesOf(*p.graph);
    if (static_cast<size_t>(place) >= nodes.size()) return InvalidEdit("no such node");
    Node* n = nodes[static_cast<size_t>(place)];
    const ir::Values operands = OperandsOf(*n);
    if (static_cast<size_t>(operand) >= operands.size()) return InvalidEdit("no such operand");
    Value* by = operands[static_cast<size_t>(operand)];
    Places keep;
    for (size_t i = 0; i < nodes.size(); ++i)
      if (i != static_cast<size_t>(place)) keep.push_back(static_cast<int>(i));
    for (Value* v : n->outputs()) {
      if (!v) continue;
      if (MayStandFor(by, v)) p.graph->ReplaceAllUses(v, by);
    }
    return KeepIn(p, keep, Joint::kCut, *names);
  };
}

Edit RemoveNested(GraphPath path, Places remove) {
  return [path = std::move(path), remove = std::move(remove)](Program& p) -> absl::Status {
    Graph* g = FindGraph(p, path);
    if (!g) return InvalidEdit("no such graph");
    const std::vector<Node*> nodes = NodesOf(*g);
    // Graphs of ONNX models do not give back values of those around them.
    size_t own_inputs = g->inputs().size();
    if (onnx_model::IsOnnx(p)) {
      const Graph& outer = *FindGraph(p, GraphPath(path.begin(), path.end() - 1));
      if (const ir::Values* captured = onnx_model::CapturedBy(*NodesOf(outer)[static_cast<size_t>(path.back().first)]))
        own_inputs -= std::min(own_inputs, captured->size());
    }
    for (auto place = remove.rbegin(); place != remove.rend(); ++place) {
      if (static_cast<size_t>(*place) >= nodes.size()) return InvalidEdit("no such node");
      Node* n = nodes[static_cast<size_t>(*place)];
      for (Value* v : n->outputs()) {
        if (!v || (v->users().empty() && !g->IsOutput(v))) continue;
        Value* same = nullptr;
        const auto try_value = [&](Value* x) {
          const bool outer = !x->producer() && static_cast<size_t>(x->index()) >= own_inputs;
          if (!same && MayStandFor(x, v) && !(outer && g->IsOutput(v))) same = x;
        };
        for (Value* operand : OperandsOf(*n)) try_value(operand);
        for (Value* input : g->inputs()) try_value(input);
        if (!same) return InvalidEdit("nothing of the type");
        g->ReplaceAllUses(v, same);
      }
      g->Erase(n);
    }
    // What only they used goes, too.
    for (Node *n = g->last(), *previous; n; n = previous) {
      previous = n->prev();
      bool used = n->outputs().empty() || n->op().mutates();
      for (Value* v : n->outputs()) used |= !v || !v->users().empty() || g->IsOutput(v);
      if (!used) g->Erase(n);
    }
    return absl::OkStatus();
  };
}

namespace {

// What input `i` of a nested graph stands for: a value of the outermost graph from which it is handed on as captured.
const Value* Outermost(Program& p, GraphPath path, size_t i) {
  const Value* v = FindGraph(p, path)->inputs()[i];
  while (!path.empty() && !v->producer()) {
    const auto [place, argument] = path.back();
    const size_t from_end = v->graph()->inputs().size() - static_cast<size_t>(v->index());
    path.pop_back();
    const ir::Values* captured = onnx_model::CapturedBy(*NodesOf(*FindGraph(p, path))[static_cast<size_t>(place)]);
    if (!captured || captured->size() < from_end || !(*captured)[captured->size() - from_end]) break;
    v = (*captured)[captured->size() - from_end];
  }
  return v;
}

}  // namespace

Edit Hoist(GraphPath path) {
  return [path = std::move(path)](Program& p) -> absl::Status {
    GraphPath outer(path.begin(), path.end() - 1);
    Graph* owner = FindGraph(p, outer);
    Graph* body = FindGraph(p, path);
    if (!owner || !body) return InvalidEdit("no such graph");
    const Node* n = NodesOf(*owner)[static_cast<size_t>(path.back().first)];
    std::vector<ir::InputSpec> specs(body->inputs().size());
    if (onnx_model::IsOnnx(p)) {
      for (size_t i = 0; i < specs.size(); ++i)
        if (const Value* v = Outermost(p, path, i); v->graph() == p.graph.get() && !v->producer())
          specs[i] = p.input_specs[static_cast<size_t>(v->index())];
    } else if (auto decoded = ir::DecodeHigherOrder(*n);
               decoded.ok() && outer.empty() && decoded->kind != ir::HigherOrder::kScan) {
      std::vector<Arg> operands = decoded->carried;
      operands.insert(operands.end(), decoded->captured.begin(), decoded->captured.end());
      for (size_t i = 0; i < std::min(operands.size(), specs.size()); ++i) {
        const Value* v = operands[i].value();
        if (v && !v->producer() && v->graph() == p.graph.get() &&
            p.input_specs[static_cast<size_t>(v->index())].is_weight())
          specs[i] = p.input_specs[static_cast<size_t>(v->index())];
      }
    }
    auto root = std::make_unique<Graph>(&p);
    ir::GraphCopier(&p).CopyContents(*body, *root);
    p.graph = std::move(root);
    p.input_specs = std::move(specs);
    std::erase_if(p.graph->outputs, [](const Arg& a) { return !a.value(); });
    p.output_specs.assign(p.graph->outputs.size(), {});
    DropUnused(p);
    return absl::OkStatus();
  };
}

Edit KeepOutputs(Places keep) {
  return [keep = std::move(keep)](Program& p) -> absl::Status {
    Graph& g = *p.graph;
    std::vector<Arg> outputs;
    for (int i : keep) {
      if (static_cast<size_t>(i) >= g.outputs.size()) return InvalidEdit("no such output");
      outputs.push_back(g.outputs[static_cast<size_t>(i)]);
    }
    const size_t before = g.outputs.size();
    g.outputs = std::move(outputs);
    p.output_specs.assign(g.outputs.size(), {});
    for (Node* n : g) AddOutputs(p, *n, false);
    if (g.outputs.size() >= before) return InvalidEdit("the output is all that its node is for");
    DropUnused(p);
    return absl::OkStatus();
  };
}

Edit MergeInputs() {
  return [](Program& p) {
    Graph& g = *p.graph;
    for (size_t i = 0; i < g.inputs().size(); ++i) {
      if (p.input_specs[i].kind != ir::InputSpec::kUser) continue;
      for (size_t k = i + 1; k < g.inputs().size(); ++k)
        if (p.input_specs[k].kind == ir::InputSpec::kUser && SameType(g.inputs()[i]->type(), g.inputs()[k]->type()))
          g.ReplaceAllUses(g.inputs()[k], g.inputs()[i]);
    }
    DropUnused(p);
    return absl::OkStatus();
  };
}

Edit StripMetadata() {
  return [](Program& p) -> absl::Status {
    ForEachGraph(*p.graph, [](Graph& g) {
      for (Node* n : g) n->set_source(nullptr);
    });
    if (onnx_model::IsOnnx(p)) onnx_model::StripMetadata(p);
    absl::flat_hash_set<ir::Sym> used;
    const auto note = [&](ir::Sym s) {
      if (!s.is_constant())
        for (ir::Sym x : s.Symbols()) used.insert(x);
    };
    ForEachType(p, [&](Type& t) {
      t.device = nullptr;
      t.requires_grad = false;
      for (ir::Sym s : t.sizes) note(s);
      for (ir::Sym s : t.strides) note(s);
      note(t.storage_offset);
      note(t.expr);
    });
    DropUnusedRanges(p);  // while their symbols are known
    auto table = std::make_unique<ir::SymTable>();
    absl::flat_hash_map<ir::Sym, ir::Sym> renewed;
    for (const ir::SymbolInfo& s : p.syms->symbols()) {
      const auto old = p.syms->FindSymbol(s.name);
      if (!old || !used.contains(*old)) continue;
      RETURN_IF_ERROR(table->DeclareRange(s.name, s.range));
      if (s.positive) RETURN_IF_ERROR(table->SetPositive(s.name));
      if (s.hint) table->SetHint(s.name, *s.hint);
      renewed.emplace(*old, table->Symbol(s.name, s.positive));
    }
    ir::SubstituteSymbols(p, [&](ir::Sym s) -> std::optional<ir::Sym> {
      auto it = renewed.find(s);
      return it == renewed.end() ? std::nullopt : std::optional<ir::Sym>(it->second);
    });
    p.syms = std::move(table);
    DropUnused(p);
    return absl::OkStatus();
  };
}

}  // namespace slipway::minifier
