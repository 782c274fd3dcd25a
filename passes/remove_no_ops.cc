// Removes what changes no value. In functional form a copy is its source.
#include <algorithm>
#include <string_view>

#include "ir/ops/op_table.h"
#include "passes/pass.h"

namespace slipway::passes {
namespace {

using ir::Value;

// The token of an assertion that is wrapped to keep its place among effects: it is passed on unchanged.
Value* TokenOfAssertion(const ir::Node& n) {
  if (n.op_name() != "higher_order.with_effects" || n.args().size() < 2 || !n.output()) return nullptr;
  const auto* op = n.At(1).get<ir::OperatorName>();
  for (size_t i = 1; i < n.outputs().size(); ++i)
    if (n.output(i)) return nullptr;
  return op && ir::GetOp(op->name).traits.assertion ? n.At(0).value() : nullptr;
}

// What elements come from where `n` gives them other sizes, in order: null for other operators.
Value* ReshapedBy(const ir::Node* n) {
  return n && n->op().traits.inverse == ir::ViewInverse::kReshape && n->output() ? n->Get("self").value() : nullptr;
}

bool SameSizes(const ir::Type& a, const ir::Type& b) {
  return a.is_tensor() && b.is_tensor() && a.dtype == b.dtype &&
         std::equal(a.sizes.begin(), a.sizes.end(), b.sizes.begin(), b.sizes.end(),
                    [](ir::Sym x, ir::Sym y) { return ir::ProvablyEqual(x, y); });
}

// The argument whose value the result is, or the value that views had before they gave its sizes back
// (x.flatten().view_as(x)); null where it is another.
Value* SourceOf(const ir::Node& n) {
  const ir::OpTraits& t = n.op().traits;
  for (Value* v = ReshapedBy(&n); v; v = ReshapedBy(v->producer()))
    if (SameSizes(v->type(), n.output()->type())) return v;
  if (!t.identity.empty()) return n.Get(t.identity).value();
  if (!t.cast.empty()) {
    Value* v = n.Get(t.cast).value();
    return v && n.output() && v->dtype() == n.output()->dtype() ? v : nullptr;
  }
  return !t.identity_when_idle.empty() && !ir::IsRandom(n) ? n.Get(t.identity_when_idle).value() : nullptr;
}

void Clean(ir::Graph& g) {
  for (ir::Node *n = g.first(), *next; n; n = next) {
    next = n->next();
    for (const ir::NamedArg& a : n->args())
      if (auto sub = a.arg.get<ir::SubGraph>()) Clean(**sub);
    if (n->op().traits.assertion) {
      g.Erase(n);
      continue;
    }
    if (Value* token = TokenOfAssertion(*n)) {
      g.ReplaceAllUses(n->output(), token);
      g.Erase(n);
      continue;
    }
    Value* source = SourceOf(*n);
    if (!source || !n->output() || !source->type().is_tensor()) continue;
    g.ReplaceAllUses(n->output(), source);
    g.Erase(n);
  }
}

}  // namespace

bool IsNoOp(std::string_view op) {
  const ir::OpTraits& t = ir::GetOp(op).traits;
  return t.assertion || !t.identity.empty() || !t.cast.empty() || !t.identity_when_idle.empty();
}

absl::Status RemoveNoOps(ir::Program& p) {
  Clean(*p.graph);
  return absl::OkStatus();
}

}  // namespace slipway::passes
