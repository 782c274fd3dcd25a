// Outlining of repeated blocks. Blocks are found by the nodes' module paths and compared as text, so that one pass over
// the nodes is enough; outer modules go first, and what they took is not looked into again.
#include <algorithm>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/text.h"
#include "ir/clone.h"
#include "ir/ops/op_table.h"
#include "passes/node_key.h"
#include "passes/pass.h"

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
      std::sort(groups.begin(), groups.end(),
                [&](const auto& a, const auto& b) { return position_[a[0]->nodes[0]] < position_[b[0]->nodes[0]]; });
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
    ir::Region region = ir::RegionOf(g_, b.nodes);
    b.inputs = std::move(region.inputs);
    b.outputs = std::move(region.outputs);
    const absl::flat_hash_set<const Value*> given(b.outputs.begin(), b.outputs.end());
    absl::flat_hash_map<const Value*, uint64_t> number;
    for (const Value* v : b.inputs) {
      number.try_emplace(v, number.size());
      text::StrAppend(&b.signature, v->type().ToString(), ";");
    }
    for (const Node* n : b.nodes) {
      for (const Value* v : n->outputs()) number.try_emplace(v, number.size());
      b.signature += NodeKey(*n, [&](const Value* v) { return number.at(v); }).text();
      for (const Value* v : n->outputs())
        text::StrAppend(&b.signature, v->type().ToString(), given.contains(v) ? ";+" : ";-");
    }
  }

  void Outline(const std::vector<Block*>& members) {
    const Block& first = *members[0];
    if (first.outputs.empty()) return;
    auto body = std::make_shared<Graph>(g_.program());
    ir::GraphCopier copier(g_.program());
    for (Value* v : first.inputs)
      copier.values[v] = body->AddInput(text::StrCat("in.", copier.values.size()), v->type());
    for (const Node* n : first.nodes) copier.CopyNode(*n, *body);
    for (Value* v : first.outputs) body->outputs.emplace_back(copier.values.at(v));
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
  absl::flat_hash_set<const Node*> taken_;              // nodes that are calls now; never looked into
};

}  // namespace

absl::Status OutlineBlocks(ir::Program& p) {
  Outliner(*p.graph).Run();
  return absl::OkStatus();
}

}  // namespace slipway::passes
