// A depth-first walk from the results; names are exchanged among the results of equal operators.
#include "passes/node_order.h"

#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/text.h"
#include "ir/ops/op_table.h"

namespace slipway::passes {
namespace {

using ir::Graph;
using ir::Node;
using ir::Value;
using ir::Values;

Values OperandsOf(const Node& n) {
  Values operands;
  for (const ir::NamedArg& a : n.args()) a.arg.ForEachValue([&](Value* v) { operands.push_back(v); });
  return operands;
}

// Those of `nodes` that `results` depend on, operands first.
std::vector<Node*> Needed(const std::vector<Node*>& nodes, const Values& results) {
  absl::flat_hash_set<const Node*> waiting(nodes.begin(), nodes.end());
  struct Visit {
    Node* node;
    Values operands;
    size_t next = 0;
  };
  std::vector<Visit> open;
  const auto enter = [&](const Value* v) {
    Node* n = v ? v->producer() : nullptr;
    if (n && waiting.erase(n) > 0) open.push_back({n, OperandsOf(*n)});
  };
  std::vector<Node*> order;
  for (const Value* result : results) {
    enter(result);
    while (!open.empty()) {
      Visit& visit = open.back();
      if (visit.next < visit.operands.size()) {
        enter(visit.operands[visit.next++]);
      } else {
        order.push_back(visit.node);
        open.pop_back();
      }
    }
  }
  return order;
}

// Renames all at once: names may change places.
void RenameAll(Graph& g, const std::vector<std::pair<Value*, std::string>>& names) {
  for (size_t k = 0; k < names.size(); ++k) g.Rename(names[k].first, text::StrCat("~", k));
  for (const auto& [v, name] : names) g.Rename(v, name);
}

// Names in the graphs inside a node: inputs as what they are given, results as their operators.
void NameBodies(const Node& n) {
  const Values operands = OperandsOf(n);
  for (const ir::NamedArg& a : n.args()) {
    const auto* body = a.arg.get<ir::SubGraph>();
    if (!body) continue;
    Graph& g = **body;
    std::vector<std::pair<Value*, std::string>> names;
    text::Set taken;
    const auto name = [&](Value* v, const std::string& stem) {
      std::string unique = stem;
      for (int k = 1; !taken.insert(unique).second; ++k) unique = text::StrCat(stem, "_", k);
      names.emplace_back(v, std::move(unique));
    };
    const std::vector<Value*>& inputs = g.inputs();
    for (size_t i = 0; i < inputs.size(); ++i)  // a condition in front of the operands is no input
      name(inputs[i],
           operands.size() < inputs.size() ? inputs[i]->name() : operands[operands.size() - inputs.size() + i]->name());
    for (const Node* inner : g)
      for (Value* v : inner->outputs())
        if (v) name(v, std::string(inner->op().base));
    RenameAll(g, names);
    for (const Node* inner : g) NameBodies(*inner);
  }
}

}  // namespace

void OrderNodes(Graph& g, Node* after, Node* before, const Values& results) {
  std::vector<Node*> made;
  for (Node* n = after ? after->next() : g.first(); n != before; n = n->next()) made.push_back(n);
  const std::vector<Node*> order = Needed(made, results);

  if (order != made) {
    // Builder names a result after its operator: the names of each operator's results, in the order they were given.
    std::map<std::string_view, std::vector<std::string>> names;
    for (const Node* n : made)
      for (const Value* v : n->outputs())
        if (v) names[n->op().base].push_back(v->name());
    const absl::flat_hash_set<const Node*> kept(order.begin(), order.end());
    for (auto n = made.rbegin(); n != made.rend(); ++n)
      if (!kept.contains(*n)) g.Erase(*n);
    std::map<std::string_view, size_t> given;
    std::vector<std::pair<Value*, std::string>> renamed;
    for (Node* n : order) {
      g.MoveBefore(n, before);
      for (Value* v : n->outputs())
        if (v) renamed.emplace_back(v, names[n->op().base][given[n->op().base]++]);
    }
    RenameAll(g, renamed);
  }
  for (const Node* n : order) NameBodies(*n);
}

}  // namespace slipway::passes
