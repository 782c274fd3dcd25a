// Common subexpressions: of pure nodes with equal operators and arguments the first stays. Each graph by itself, since
// a subgraph captures nothing.
#include "base/text.h"
#include "ir/ops/op_traits.h"
#include "passes/node_key.h"
#include "passes/pass.h"

namespace slipway::passes {
namespace {

// Sizes that only running tells get symbols of their own, which may be mentioned elsewhere: such results stay apart.
bool SameResults(const ir::Node& a, const ir::Node& b) {
  if (a.outputs().size() != b.outputs().size()) return false;
  for (size_t i = 0; i < a.outputs().size(); ++i) {
    const ir::Value *x = a.output(i), *y = b.output(i);
    if (!x || !y) {
      if (x != y) return false;
      continue;
    }
    const ir::Type &s = x->type(), &t = y->type();
    if (s.kind != t.kind || s.dtype != t.dtype || s.sizes != t.sizes || s.expr != t.expr) return false;
  }
  return true;
}

void Merge(ir::Graph& g) {
  text::Map<ir::Node*> seen;
  for (ir::Node *n = g.first(), *next; n; n = next) {
    next = n->next();
    for (const ir::NamedArg& a : n->args())
      if (auto sub = a.arg.get<ir::SubGraph>()) Merge(**sub);
    if (!ir::IsPure(*n)) continue;
    auto [it, first] = seen.try_emplace(NodeKey(*n).text(), n);
    if (first || !SameResults(*it->second, *n)) continue;
    for (size_t i = 0; i < n->outputs().size(); ++i)
      if (n->output(i)) g.ReplaceAllUses(n->output(i), it->second->output(i));
    g.Erase(n);
  }
}

}  // namespace

absl::Status MergeCommonSubexpressions(ir::Program& p) {
  Merge(*p.graph);
  return absl::OkStatus();
}

}  // namespace slipway::passes
