// Dead code elimination: one backward walk, subgraphs included. In functional form nothing has side effects.
#include "passes/pass.h"

namespace slipway::passes {
namespace {

void Sweep(ir::Graph& g) {
  for (ir::Node *n = g.last(), *prev; n; n = prev) {
    prev = n->prev();
    bool used = false;
    for (ir::Value* v : n->outputs()) used |= v && (!v->users().empty() || g.IsOutput(v));
    if (!used) {
      g.Erase(n);
      continue;
    }
    for (const ir::NamedArg& a : n->args())
      if (auto sub = a.arg.get<ir::SubGraph>()) Sweep(**sub);
  }
}

}  // namespace

absl::Status EliminateDeadCode(ir::Program& p) {
  Sweep(*p.graph);
  return absl::OkStatus();
}

}  // namespace slipway::passes
