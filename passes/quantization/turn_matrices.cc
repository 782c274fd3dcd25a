// ONNX keeps the matrix of a product [k, n], torch's linear layers [n, k]. The stored matrix is read the other way
// round, by its strides: no byte of it moves.
#include <algorithm>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "passes/decompose.h"
#include "passes/quantization/quantization.h"
#include "passes/quantization/quantize_linears.h"

namespace slipway::passes {
namespace {

bool IsProductWith(const ir::Node& n, const Value* w) {
  const std::string_view op = n.op_name();
  if (op != "aten.matmul.default" && op != "aten.mm.default") return false;
  const std::string_view name = MatrixOf(n);
  const Value* x = n.Get("self").value();
  return !name.empty() && n.Get(name).value() == w && x != w && x->rank() > 0;
}

// What a product's result is added to as a linear layer's is to its bias: [n], stored, and nothing else reads the
// product.
ir::Node* AddedBias(const ir::Node& product, Value** bias) {
  Value* y = product.output();
  if (y->users().size() != 1 || y->graph()->IsOutput(y)) return nullptr;
  ir::Node* add = y->users()[0];
  if (add->op_name() != "aten.add.Tensor" || add->Find("alpha")) return nullptr;
  Value *a = add->Get("self").value(), *b = add->Get("other").value();
  if (b == y) std::swap(a, b);
  if (a != y || !b || b == y || !StoredTensor(b) || b->rank() != 1 || b->dtype() != y->dtype() ||
      !ProvablyEqual(b->sizes()[0], y->sizes().back()))
    return nullptr;
  *bias = b;
  return add;
}

}  // namespace

absl::Status TurnMatrices(ir::Program& p) {
  for (size_t i = 0; i < p.input_specs.size(); ++i) {
    Value* w = p.graph->inputs()[i];
    const auto it = p.weights.find(p.input_specs[i].target);
    if (!p.input_specs[i].is_weight() || it == p.weights.end() || it->second.sizes.size() != 2 ||
        !ir::IsFloating(it->second.dtype) || w->users().empty() || p.graph->IsOutput(w))
      continue;
    const std::vector<ir::Node*> users(w->users().begin(), w->users().end());
    if (!std::all_of(users.begin(), users.end(), [&](const ir::Node* n) { return IsProductWith(*n, w); })) continue;
    std::swap(it->second.sizes[0], it->second.sizes[1]);
    std::swap(it->second.strides[0], it->second.strides[1]);
    ir::Type& type = w->mutable_type();
    std::swap(type.sizes[0], type.sizes[1]);
    type.strides_known = false;
    for (ir::Node* n : users) {
      Value* bias = nullptr;
      ir::Node* add = AddedBias(*n, &bias);
      ir::Node* last = add ? add : n;
      ir::Builder b(*p.graph, last, n->source());
      Value* y = b.Call("aten.linear.default", {n->Get("self").value(), w, bias ? ir::Arg(bias) : ir::Arg()});
      if (!b.ok()) return b.status();
      ReplaceNode(last, {y});
      if (add) p.graph->Erase(n);
    }
  }
  return absl::OkStatus();
}

}  // namespace slipway::passes
