// See outline_blocks.h.
#include "passes/outline_blocks.h"

#include <algorithm>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/text.h"
#include "ir/ops/op_table.h"
#include "passes/node_key.h"

namespace slipway::passes {
namespace {

using ir::Arg;
using ir::Graph;
using ir::Node;
using ir::Value;
using ir::Values;

constexpr size_t kFewestNodes = 3;  // a call of fewer would not be shorter to read

// One module's nodes, what they take from outside and what is used of them outside.
struct Block {
  std::string path, type;
  std::vector<Node*> nodes;
  Values inputs, outputs;
  std::string signature;
};

// (path, type) of the modules around a node, outermost first.
std::vector<std::pair<std::string, std::string>> Modules(const Node& n) {
  std::vector<std::pair<std::string, std::string>> out;
  if (!n.source()) return out;
  for (std::string_view entry : text::Split(n.source()->nn_module_stack, ';', true)) {
    const std::vector<std::string_view> parts = text::Split(entry, ',');
    if (parts.size() >= 3) out.emplace_back(parts[1], parts.back());
  }
  return out;
}

class Outliner {
 public:
  explicit Outliner(Graph& g) : g_(g) {}

  void Run() {
    int position = 0;
    for (Node* n : g_) position_[n] = position++;
    // By depth, so that the outermost repeated modules are taken first.
    std::map<size_t, std::map<std::string, Block>> by_depth;
    for (Node* n : g_) {
      size_t depth = 0;
      for (const auto& [path, type] : Modules(*n)) {
        if (!path.empty()) {
          Block& b = by_depth[depth][path];
          b.path = path;
          b.type = type;
          b.nodes.push_back(n);
        }
        ++depth;
      }
    }
    for (auto& [depth, blocks] : by_depth) {
      std::map<std::string, std::vector<Block*>> alike;
      for (auto& [path, b] : blocks)
        if (Fits(b)) {
          Describe(b);
          alike[b.signature].push_back(&b);
        }
      std::vector<std::vector<Block*>> groups;
      for (auto& [signature, members] : alike)
        if (members.size() > 1) groups.push_back(members);
      // In the order of the graph: names must not depend on keys.
      std::sort(groups.begin(), groups.end(), [&](const auto& a, const auto& b) {
        return position_[a[0]->nodes[0]] < position_[b[0]->nodes[0]];
      });
      for (const std::vector<Block*>& members : groups) Outline(members);
    }
  }

 private:
  // Whether the nodes stand together, are not part of a block already, and only compute.
  bool Fits(const Block& b) const {
    if (b.nodes.size() < kFewestNodes) return false;
    for (size_t i = 0; i < b.nodes.size(); ++i) {
      const Node* n = b.nodes[i];
      if (taken_.contains(n) || n->op().mutates() || (i > 0 && n->prev() != b.nodes[i - 1])) return false;
      for (const ir::NamedArg& a : n->args())
        if (a.arg.is<ir::SubGraph>()) return false;
      for (const Value* v : n->outputs())
        if (!v || !(v->type().is_tensor() || v->type().is_sym())) return false;
    }
    return true;
  }

  void Describe(Block& b) const {
    absl::flat_hash_set<const Node*> inside(b.nodes.begin(), b.nodes.end());
    absl::flat_hash_map<const Value*, uint64_t> number;
    auto own = [&](const Value* v) { return v->producer() && inside.contains(v->producer()); };
    for (Node* n : b.nodes) {
      for (const ir::NamedArg& a : n->args())
        a.arg.ForEachValue([&](Value* v) {
          if (!own(v) && number.try_emplace(v, number.size()).second) b.inputs.push_back(v);
        });
      for (Value* v : n->outputs()) number.try_emplace(v, number.size());
    }
    for (const Value* v : b.inputs) text::StrAppend(&b.signature, v->type().ToString(), ";");
    for (Node* n : b.nodes) {
      b.signature += NodeKey(*n, [&](const Value* v) { return number.at(v); }).text();
      for (Value* v : n->outputs()) {
        text::StrAppend(&b.signature, v->type().ToString(), ";");
        bool outside = g_.IsOutput(v);
        for (const Node* user : v->users()) outside |= !inside.contains(user);
        if (outside) b.outputs.push_back(v);
        b.signature += outside ? '+' : '-';
      }
    }
  }

  void Outline(const std::vector<Block*>& members) {
    const Block& first = *members[0];
    if (first.outputs.empty()) return;
    auto body = std::make_shared<Graph>(g_.program());
    absl::flat_hash_map<const Value*, Value*> map;
    for (Value* v : first.inputs) map[v] = body->AddInput(text::StrCat("in.", map.size()), v->type());
    for (Node* n : first.nodes) {
      std::vector<ir::NamedArg> args(n->args().begin(), n->args().end());
      for (ir::NamedArg& a : args) a.arg.ReplaceValues([&](Value* v) { return map.at(v); });
      Node* copy = body->Insert(n->op(), std::move(args), nullptr);
      copy->set_groups(n->groups());
      copy->set_source(n->source());
      for (Value* v : n->outputs()) map[v] = body->AddOutput(copy, v->name(), v->type());
    }
    for (Value* v : first.outputs) body->outputs.emplace_back(map.at(v));
    const std::string name(first.type.substr(first.type.rfind('.') + 1));
    for (const Block* b : members) {
      Values operands = b->inputs;
      for (Value*& v : operands)
        if (auto now = replaced_.find(v); now != replaced_.end()) v = now->second;
      Node* call = g_.Insert(ir::GetOp("higher_order.invoke_subgraph"),
                             {{"", Arg(ir::SubGraph(body))}, {"", Arg(name)}, {"", Arg(operands)}}, b->nodes[0]);
      call->set_source(b->nodes[0]->source());
      for (Value* v : b->outputs) {
        Value* result = g_.AddOutput(call, v->name(), v->type());
        g_.ReplaceAllUses(v, result);
        replaced_[v] = result;
      }
      taken_.insert(b->nodes.begin(), b->nodes.end());
      for (auto n = b->nodes.rbegin(); n != b->nodes.rend(); ++n) g_.Erase(*n);
    }
  }

  Graph& g_;
  absl::flat_hash_map<const Node*, int> position_;
  absl::flat_hash_map<const Value*, Value*> replaced_;  // results of blocks that are calls now
  absl::flat_hash_set<const Node*> taken_;  // nodes that are calls now; never looked into
};

}  // namespace

absl::Status OutlineBlocks(ir::Program& p) {
  Outliner(*p.graph).Run();
  return absl::OkStatus();
}

}  // namespace slipway::passes
