// Nodes that were made on the way are met as well where they stand behind the node at hand, so that one pass recognizes
// what contains what it recognized before.
#include "passes/replace_recognized.h"

#include "base/status_macros.h"
#include "passes/decompose.h"
#include "passes/pass.h"

namespace slipway::passes {
namespace {

absl::Status Walk(ir::Graph& g, absl::FunctionRef<ir::Value*(ir::Node*, ir::Builder&)> recognize) {
  for (ir::Node *n = g.first(), *next; n; n = next) {
    next = n->next();
    for (const ir::NamedArg& a : n->args())
      if (auto sub = a.arg.get<ir::SubGraph>()) RETURN_IF_ERROR(Walk(**sub, recognize));
    ir::Builder b(g, n, n->source());
    ir::Value* const now = recognize(n, b);
    RETURN_IF_ERROR(b.status());
    if (now) ReplaceNode(n, {now});
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReplaceRecognized(ir::Program& p, absl::FunctionRef<ir::Value*(ir::Node*, ir::Builder&)> recognize) {
  RETURN_IF_ERROR(Walk(*p.graph, recognize));
  return EliminateDeadCode(p);
}

}  // namespace slipway::passes
