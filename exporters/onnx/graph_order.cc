// A depth-first walk from the results of each call of a lowering. Names of one stem are exchanged among the values that
// have them.
#include "exporters/onnx/graph_order.h"

#include <utility>

#include "base/text.h"

namespace slipway::exporters::onnx_out {
namespace {

using Names = absl::flat_hash_map<std::string, std::string>;

// Calls `visit` with each graph inside a node.
template <typename Visit>
void ForEachInner(onnx::NodeProto& n, const Visit& visit) {
  for (onnx::AttributeProto& a : *n.mutable_attribute()) {
    if (a.has_g()) visit(*a.mutable_g());
    for (onnx::GraphProto& g : *a.mutable_graphs()) visit(g);
  }
}
template <typename Visit>
void ForEachInner(const onnx::NodeProto& n, const Visit& visit) {
  for (const onnx::AttributeProto& a : n.attribute()) {
    if (a.has_g()) visit(a.g());
    for (const onnx::GraphProto& g : a.graphs()) visit(g);
  }
}

class Reader {
 public:
  void Node(const onnx::NodeProto& n) {
    for (const std::string& name : n.input()) Read(name);
    ForEachInner(n, [this](const onnx::GraphProto& g) { Graph(g); });
  }
  void Graph(const onnx::GraphProto& g) {
    for (const onnx::NodeProto& n : g.node()) Node(n);
    for (const onnx::ValueInfoProto& v : g.output()) Read(v.name());
  }
  std::vector<std::string> names;

 private:
  text::Set seen_;
  void Read(const std::string& name) {
    if (!name.empty() && seen_.insert(name).second) names.push_back(name);
  }
};

void Sort(onnx::GraphProto* g, const EmitterShared& shared) {
  absl::flat_hash_map<std::string, int> producers;  // waiting nodes by their results
  std::vector<std::vector<std::string>> reads(g->node_size());
  for (int i = 0; i < g->node_size(); ++i) {
    ForEachInner(*g->mutable_node(i), [&](onnx::GraphProto& inner) { Sort(&inner, shared); });
    Reader reader;
    reader.Node(g->node(i));
    reads[i] = std::move(reader.names);
    for (const std::string& name : g->node(i).output())
      if (!name.empty()) producers.emplace(name, i);
  }

  std::vector<int> order;
  struct Visit {
    int node;
    size_t next = 0;
  };
  std::vector<Visit> open;
  const auto enter = [&](const std::string& name) {
    const auto it = producers.find(name);
    if (it == producers.end()) return;
    const int node = it->second;
    for (const std::string& result : g->node(node).output()) producers.erase(result);
    open.push_back({node});
  };
  const auto place = [&](const std::string& name) {
    enter(name);
    while (!open.empty()) {
      Visit& visit = open.back();
      if (visit.next < reads[visit.node].size()) {
        enter(reads[visit.node][visit.next++]);
      } else {
        order.push_back(visit.node);
        open.pop_back();
      }
    }
  };
  std::vector<bool> placed(shared.rule_results.size());
  for (const onnx::NodeProto& n : g->node()) {
    const auto origin = shared.node_origins.find(n.name());
    const size_t rule = origin == shared.node_origins.end() ? 0 : origin->second.first;
    if (placed[rule]) continue;
    placed[rule] = true;
    for (const std::string& name : shared.rule_results[rule]) place(name);
  }
  for (const onnx::ValueInfoProto& v : g->output()) place(v.name());

  google::protobuf::RepeatedPtrField<onnx::NodeProto> sorted;
  for (int i : order) *sorted.Add() = std::move(*g->mutable_node(i));
  g->mutable_node()->Swap(&sorted);
}

class Naming {
 public:
  explicit Naming(EmitterShared* shared) : shared_(*shared) {
    shared_.node_names.clear();
    for (const auto& [key, constant] : shared_.constants) unseen_.emplace(constant.first, key);
  }

  void Graph(onnx::GraphProto* g) {
    for (onnx::NodeProto& n : *g->mutable_node()) {
      for (const std::string& name : n.input()) Constant(name);
      ForEachInner(n, [this](onnx::GraphProto& inner) { Graph(&inner); });
      for (const std::string& name : n.output()) Value(name);
      const auto origin = shared_.node_origins.find(n.name());
      if (origin == shared_.node_origins.end()) continue;
      n.set_name(NameNode(origin->second.second, n.op_type(), shared_.node_names));
    }
    for (const onnx::ValueInfoProto& v : g->output()) Constant(v.name());
  }
  // By the name before.
  const Names& names() const { return names_; }
  // The keys of the constants that were met, in that order.
  const std::vector<std::string>& constants() const { return constants_; }

 private:
  EmitterShared& shared_;
  Names names_;
  text::Map<size_t> given_;  // names of each stem
  Names unseen_;             // keys of constants by name
  std::vector<std::string> constants_;

  void Value(const std::string& name) {
    const auto stem = shared_.stem_of.find(name);
    if (stem != shared_.stem_of.end()) names_[name] = shared_.names_of[stem->second][given_[stem->second]++];
  }
  void Constant(const std::string& name) {
    const auto it = unseen_.find(name);
    if (it == unseen_.end()) return;
    constants_.push_back(std::move(it->second));
    unseen_.erase(it);
    Value(name);
  }
};

}  // namespace

void RenameValues(onnx::GraphProto* g, const Names& names) {
  const auto change = [&](std::string* name) {
    if (const auto it = names.find(*name); it != names.end()) *name = it->second;
  };
  for (onnx::NodeProto& n : *g->mutable_node()) {
    for (std::string& name : *n.mutable_input()) change(&name);
    for (std::string& name : *n.mutable_output()) change(&name);
    ForEachInner(n, [&](onnx::GraphProto& inner) { RenameValues(&inner, names); });
  }
  for (auto* described : {g->mutable_value_info(), g->mutable_output()})
    for (onnx::ValueInfoProto& v : *described) change(v.mutable_name());
}

std::vector<std::string> ReadValues(const onnx::GraphProto& g) {
  Reader reader;
  reader.Graph(g);
  return std::move(reader.names);
}

void OrderGraph(onnx::GraphProto* g, EmitterShared* shared) {
  Sort(g, *shared);
  Naming naming(shared);
  naming.Graph(g);
  RenameValues(g, naming.names());
  shared->constant_order = naming.constants();
  for (const std::string& key : shared->constant_order) {
    auto& [name, tensor] = shared->constants[key];
    const auto renamed = naming.names().find(name);
    if (renamed == naming.names().end()) continue;  // one that a program's name was given
    name = renamed->second;
    tensor.set_name(name);
  }
}

}  // namespace slipway::exporters::onnx_out
