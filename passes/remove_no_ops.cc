// Removes what changes no value. In functional form a copy is its source.
#include <algorithm>
#include <string_view>

#include "ir/ops/args.h"
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

bool SameType(const ir::Type& a, const ir::Type& b) {
  return a.is_tensor() && b.is_tensor() && a.dtype == b.dtype &&
         std::equal(a.sizes.begin(), a.sizes.end(), b.sizes.begin(), b.sizes.end(),
                    [](ir::Sym x, ir::Sym y) { return ir::ProvablyEqual(x, y); });
}

// The argument whose value the result is, or the value that views had before they gave its sizes back
// (x.flatten().view_as(x)); null where it is another.
Value* SourceOf(const ir::Node& n) {
  const ir::OpTraits& t = n.op().traits;
  for (Value* v = ReshapedBy(&n); v; v = ReshapedBy(v->producer()))
    if (SameType(v->type(), n.output()->type())) return v;
  if (!t.identity.empty()) return n.Get(t.identity).value();
  if (!t.cast.empty()) {
    Value* v = n.Get(t.cast).value();
    return v && n.output() && v->dtype() == n.output()->dtype() ? v : nullptr;
  }
  return !t.identity_when_idle.empty() && !ir::IsRandom(n) ? n.Get(t.identity_when_idle).value() : nullptr;
}

// Parts of a concatenation that add no element go: transformers' DynamicCache begins with an empty tensor, of one dim,
// which torch lets stand among tensors of any rank. Null, or what alone is left.
Value* DropEmptyParts(ir::Node& cat) {
  ir::ArgReader a(cat);
  const ir::Values tensors = a.tensors("tensors");
  const Value* out = cat.output();
  if (!a.ok() || !out || out->rank() == 0) return nullptr;
  const int dim = a.dim("dim", out->rank());
  if (!a.ok()) return nullptr;
  ir::Values parts;
  for (Value* v : tensors) {
    const int rank = v->rank();
    const bool empty = rank == 1 ? v->sizes()[0].is(0) : rank == out->rank() && v->sizes()[dim].is(0);
    if (!empty || v->dtype() != out->dtype()) parts.push_back(v);
  }
  if (parts.empty() || parts.size() == tensors.size()) return nullptr;
  if (parts.size() == 1) return SameType(parts[0]->type(), out->type()) ? parts[0] : nullptr;
  cat.SetArg("tensors", parts);
  return nullptr;
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
    Value* source = IsCat(*n) ? DropEmptyParts(*n) : SourceOf(*n);
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

bool IsCat(const ir::Node& n) {
  const std::string_view op = n.op_name();
  return op == "aten.cat.default" || op == "aten.concat.default" || op == "aten.concatenate.default";
}

absl::Status RemoveNoOps(ir::Program& p) {
  Clean(*p.graph);
  return absl::OkStatus();
}

}  // namespace slipway::passes
