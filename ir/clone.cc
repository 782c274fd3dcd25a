// Copying is structural: types are copied with their expressions translated into the destination's symbol table, once
// each. Nothing is simplified, checked or renamed on the way, so a copy of any program, a hostile one too, equals it.
#include "ir/clone.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"

namespace slipway::ir {

Type GraphCopier::CopyType(const Type& t) {
  Type copy = t;
  if (!symbols_) return copy;
  for (Sym& s : copy.sizes) s = (*symbols_)(s);
  for (Sym& s : copy.strides) s = (*symbols_)(s);
  copy.storage_offset = (*symbols_)(copy.storage_offset);
  copy.expr = (*symbols_)(copy.expr);
  return copy;
}

Arg GraphCopier::CopyArg(const Arg& a) {
  if (auto sub = a.get<SubGraph>()) return *sub ? Arg(CopyGraph(**sub)) : a;
  Arg copy = a;
  copy.ReplaceValues([&](Value* v) {
    auto it = values.find(v);
    return it == values.end() ? v : it->second;
  });
  return copy;
}

Node* GraphCopier::CopyNode(const Node& n, Graph& into, Node* before) {
  std::vector<NamedArg> args;
  for (const NamedArg& a : n.args()) args.push_back({a.name, CopyArg(a.arg), a.kind});
  Node* copy = into.Insert(n.op(), std::move(args), before);
  copy->set_groups(n.groups());
  copy->hop_single_return = n.hop_single_return;
  copy->set_source(n.source());
  for (Value* v : n.outputs()) {
    if (v)
      values[v] = into.AddOutput(copy, v->name(), CopyType(v->type()));
    else
      into.AddNoneOutput(copy);
  }
  return copy;
}

void GraphCopier::CopyContents(const Graph& from, Graph& into) {
  for (const Value* v : from.inputs()) values[v] = into.AddInput(v->name(), CopyType(v->type()));
  for (const Node* n : from) CopyNode(*n, into);
  for (const Arg& a : from.outputs) into.outputs.push_back(CopyArg(a));
  into.single_tensor_return = from.single_tensor_return;
}

SubGraph GraphCopier::CopyGraph(const Graph& g) {
  SubGraph& copy = graphs_[&g];
  if (copy) return copy;
  auto made = std::make_shared<Graph>(into_);
  CopyContents(g, *made);
  return graphs_[&g] = made;  // looked up again: copying may have grown the table
}

std::unique_ptr<Program> Clone(const Program& p) {
  auto copy = std::make_unique<Program>();
  SymCopier symbols(*p.syms, *copy->syms);
  GraphCopier(copy.get(), &symbols).CopyContents(*p.graph, *copy->graph);
  copy->name = p.name;
  copy->form = p.form;
  copy->input_specs = p.input_specs;
  copy->output_specs = p.output_specs;
  copy->weights = p.weights;
  copy->objects = p.objects;
  copy->in_spec = p.in_spec;
  copy->out_spec = p.out_spec;
  copy->forward_arg_names = p.forward_arg_names;
  copy->module_call_graph_json = p.module_call_graph_json;
  copy->namedtuple_fields_json = p.namedtuple_fields_json;
  copy->guards = p.guards;
  copy->sample_inputs = p.sample_inputs;
  copy->range_constraints = p.range_constraints;
  copy->torch_version = p.torch_version;
  copy->verifier_dialect = p.verifier_dialect;
  copy->schema_major = p.schema_major;
  copy->schema_minor = p.schema_minor;
  return copy;
}

Region RegionOf(const Graph& g, std::vector<Node*> nodes) {
  Region r;
  r.nodes = std::move(nodes);
  const absl::flat_hash_set<const Node*> inside(r.nodes.begin(), r.nodes.end());
  absl::flat_hash_set<const Value*> seen, given;
  for (const Arg& a : g.outputs) a.ForEachValue([&](Value* v) { given.insert(v); });
  for (const Node* n : r.nodes) {
    for (const NamedArg& a : n->args())
      a.arg.ForEachValue([&](Value* v) {
        if ((!v->producer() || !inside.contains(v->producer())) && seen.insert(v).second) r.inputs.push_back(v);
      });
    for (Value* v : n->outputs()) {
      if (!v) continue;
      const auto outside = [&](const Node* user) { return !inside.contains(user); };
      if (given.contains(v) || std::any_of(v->users().begin(), v->users().end(), outside)) r.outputs.push_back(v);
    }
  }
  return r;
}

std::vector<Node*> NodesThatCompute(absl::Span<Value* const> values, absl::Span<Value* const> stop) {
  std::vector<Node*> found;
  absl::flat_hash_set<const Node*> seen;
  const absl::flat_hash_set<const Value*> stops(stop.begin(), stop.end());
  auto visit = [&](const Value* v) {
    if (v->producer() && !stops.contains(v) && seen.insert(v->producer()).second) found.push_back(v->producer());
  };
  for (const Value* v : values) visit(v);
  for (size_t i = 0; i < found.size(); ++i)
    for (const NamedArg& a : found[i]->args()) a.arg.ForEachValue(visit);
  return found;
}

Region RegionThatComputes(const Graph& g, absl::Span<Value* const> values, absl::Span<Value* const> stop) {
  const std::vector<Node*> found = NodesThatCompute(values, stop);
  const absl::flat_hash_set<const Node*> needed(found.begin(), found.end());
  std::vector<Node*> nodes;
  for (Node* n : g)
    if (needed.contains(n)) nodes.push_back(n);
  return RegionOf(g, std::move(nodes));
}

std::unique_ptr<Program> Extract(const Program& p, const Region& region, absl::Span<Value* const> outputs) {
  auto part = std::make_unique<Program>();
  part->name = p.name;
  part->form = Form::kFunctional;
  SymCopier symbols(*p.syms, *part->syms);
  GraphCopier copier(part.get(), &symbols);
  Values inputs = region.inputs;
  const absl::flat_hash_set<const Node*> inside(region.nodes.begin(), region.nodes.end());
  for (Value* v : outputs)
    if ((!v->producer() || !inside.contains(v->producer())) &&
        std::find(inputs.begin(), inputs.end(), v) == inputs.end())
      inputs.push_back(v);
  for (Value* v : inputs) {
    InputSpec spec;
    if (!v->producer() && v->graph() == p.graph.get() && v->index() < static_cast<int>(p.input_specs.size()))
      spec = p.input_specs[v->index()];
    copier.values[v] = part->graph->AddInput(v->name(), copier.CopyType(v->type()));
    if (auto weight = p.weights.find(spec.target); weight != p.weights.end() && spec.kind != InputSpec::kUser)
      part->weights.insert(*weight);
    part->input_specs.push_back(std::move(spec));
  }
  for (const Node* n : region.nodes) copier.CopyNode(*n, *part->graph);
  for (Value* v : outputs) {
    part->graph->outputs.emplace_back(copier.values.at(v));
    part->output_specs.push_back({});
  }
  return part;
}

}  // namespace slipway::ir
