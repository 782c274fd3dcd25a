// A sum over a dim of a few indices becomes additions of its slices, and a product that is summed one product for each:
//
//   y = (x.view(b, 2, c, h, w) * a.view(b, 2, c, 1, 1)).sum(1)  →  y = x[:, :c] * a[:, :c] + x[:, c:] * a[:, c:]
//
// That is how networks with several branches weigh them (split attention, selective kernels). Targets that fuse what is
// elementwise then go over the branches once, where a reduction would read the whole product with a dim of its own in
// the middle. Slices are cut before views that only take a dim apart, so that images stay images, and what was stacked
// is taken as it was before.
//
// Sums of two round alike either way; longer ones may differ in the last place.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "ir/builder.h"
#include "ir/ops/args.h"
#include "passes/pass.h"
#include "passes/quantization/quantization.h"

namespace slipway::passes {
namespace {

using ir::Node;
using ir::Value;

constexpr int64_t kMost = 4;

// Index i of dim `dim` of v, without that dim.
Value* Slice(ir::Builder& b, Value* v, int dim, int64_t i) {
  const auto extent = v->sizes()[dim].constant();
  if (extent && *extent == 1) i = 0;
  const Node* made = v->producer();
  if (made && made->op_name() == "aten.stack.default") {
    ir::ArgReader c(*made);
    const auto stacked = c.tensors("tensors");
    if (c.ok() && c.dim("dim", v->rank()) == dim && i < static_cast<int64_t>(stacked.size()) &&
        stacked[static_cast<size_t>(i)]->dtype() == v->dtype())
      return stacked[static_cast<size_t>(i)];
  }
  if (made && extent && IsReshape(*made)) {
    // A view that takes one dim apart into this one and the next.
    Value* const whole = made->Get("self").value();
    bool apart = whole && whole->rank() == v->rank() - 1 && dim + 1 < v->rank();
    for (int d = 0; apart && d < whole->rank(); ++d)
      apart = d == dim || ir::ProvablyEqual(whole->sizes()[d], v->sizes()[d < dim ? d : d + 1]);
    const auto part = apart ? v->sizes()[dim + 1].constant() : std::nullopt;
    if (part && whole->sizes()[dim].is(*extent * *part))
      return *extent == 1 ? whole : b.Call("aten.slice.Tensor", {whole, int64_t{dim}, i * *part, (i + 1) * *part});
  }
  return b.Call("aten.select.int", {v, int64_t{dim}, i});
}

// The dim of a few indices that the node sums over, of floats in their own dtype.
std::optional<int> ShortDim(const Node& n) {
  if (n.op_name() != "aten.sum.dim_IntList") return std::nullopt;
  ir::ArgReader c(n);
  const Value* x = n.Get("self").value();
  if (!x || x->dtype() != ir::DType::kFloat32 || n.output()->dtype() != x->dtype()) return std::nullopt;
  const std::vector<int> dims = c.dims("dim", x->rank(), true);
  // numbers that lie together are summed as they are
  if (!c.ok() || dims.size() != 1 || dims[0] + 1 >= x->rank()) return std::nullopt;
  const auto extent = x->sizes()[dims[0]].constant();
  return extent && *extent >= 2 && *extent <= kMost ? std::optional(dims[0]) : std::nullopt;
}

absl::Status Split(ir::Graph& g, Node* sum, int dim) {
  Value* const x = sum->Get("self").value();
  const Node* product = x->producer();
  // A product that is read here alone, of tensors of as many dims.
  if (product && (product->op_name() != "aten.mul.Tensor" || x->users().size() != 1 || g.IsOutput(x)))
    product = nullptr;
  Value *const left = product ? product->Get("self").value() : nullptr, *const right =
                                                                            product ? product->Get("other").value()
                                                                                    : nullptr;
  for (const Value* v : {left, right})
    if (!v || !v->type().is_tensor() || v->rank() != x->rank() || v->dtype() != x->dtype()) product = nullptr;
  ir::Builder b(g, sum, sum->source());
  Value* all = nullptr;
  for (int64_t i = 0; i < *x->sizes()[dim].constant(); ++i) {
    Value* const part =
        product ? b.Call("aten.mul.Tensor", {Slice(b, left, dim, i), Slice(b, right, dim, i)}) : Slice(b, x, dim, i);
    all = all ? b.Call("aten.add.Tensor", {all, part}) : part;
  }
  if (sum->output()->rank() == x->rank()) all = b.Call("aten.unsqueeze.default", {all, int64_t{dim}});
  RETURN_IF_ERROR(b.status());
  g.ReplaceAllUses(sum->output(), all);
  g.TakeName(all, sum->output());
  g.Erase(sum);
  return absl::OkStatus();
}

}  // namespace

absl::Status SplitSums(ir::Program& p) {
  std::vector<std::pair<Node*, int>> sums;
  for (Node* n : *p.graph)
    if (const auto dim = ShortDim(*n)) sums.emplace_back(n, *dim);
  for (const auto& [n, dim] : sums) RETURN_IF_ERROR(Split(*p.graph, n, dim));
  return sums.empty() ? absl::OkStatus() : EliminateDeadCode(p);
}

}  // namespace slipway::passes
