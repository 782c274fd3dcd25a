// Products of vectors and matrices, all by one kernel.
#include <algorithm>

#include "base/text.h"
#include "ir/ops/op_table.h"
#include "planner/rules.h"

namespace slipway::planner {
namespace {

// torch.matmul: vectors become matrices, leading dims broadcast; the bias, where there is one, is of the last dim. The
// result has `dtype`.
Operand MatrixProduct(PlanContext& c, Operand x, Operand y, DType dtype, Operand bias = {}) {
  if (x.rank() == 0 || y.rank() == 0) {
    c.Fail("a product of a 0-d tensor");
    return x;
  }
  const bool row = x.rank() == 1, column = y.rank() == 1;
  if (row) x = Unsqueeze(x, 0);
  if (column) y = Unsqueeze(y, 1);
  const Dim m = x.sizes[x.rank() - 2], k = x.sizes[x.rank() - 1], n = y.sizes[y.rank() - 1];
  Dims batch(std::max(x.rank(), y.rank()) - 2, 1);
  c.RequireEqual(y.sizes[y.rank() - 2], k, "the sizes do not agree");
  for (const Operand* t : {&x, &y})
    for (int d = 0; d + 2 < t->rank(); ++d) {
      Dim& size = batch[batch.size() + 2 - t->rank() + d];
      if (size.is(1)) size = t->sizes[d];
    }
  auto with = [&](Dim a, Dim b) {
    Dims sizes = batch;
    sizes.insert(sizes.end(), {a, b});
    return sizes;
  };
  Operand out = c.Temp(dtype, with(m, n));
  c.Account(k, n);
  if (!c.ok()) return out;
  std::vector<Operand> in = {c.Expand(x, with(m, k)), c.Expand(y, with(k, n))};
  if (bias) in.push_back(c.Expand(bias, with(m, n)));
  if (c.ok()) c.Emit("matmul", std::move(in), {out}, x.dtype);
  if (column) out = Drop(out, out.rank() - 1);
  if (row) out = Drop(out, out.rank() - (column ? 1 : 2));
  return out;
}

// What sums of products are kept in before something is added.
DType Wide(DType t) { return ir::IsLowPrecision(t) ? DType::kFloat32 : t; }

void Matmul(PlanContext& c) { c.Return(MatrixProduct(c, c.in(size_t{0}), c.in(size_t{1}), c.out_dtype())); }
void Linear(PlanContext& c) {
  Operand x = c.in("input"), w = c.in("weight"), bias = c.opt_in("bias");
  if (w.rank() > 2 || w.rank() == 0) return c.Fail("the weight is no matrix");
  if (w.rank() == 2) w = Swap(w, 0, 1);
  if (w.rank() == 2) return c.Return(MatrixProduct(c, x, w, c.out_dtype(), bias));
  Operand y = MatrixProduct(c, x, w, bias ? Wide(c.out_dtype()) : c.out_dtype());
  c.Return(bias && c.ok() ? c.Map("add", {y, bias}, c.Result(), Wide(c.out_dtype())) : y);
}
// beta·self + alpha·(x @ y)
void AddProduct(PlanContext& c) {
  const DType t = Wide(c.out_dtype());
  Operand y = MatrixProduct(c, c.in(size_t{1}), c.in(size_t{2}), t);
  const ir::Scalar alpha = c.scalar("alpha"), beta = c.scalar("beta");
  if (!c.ok()) return;
  if (!alpha.is_constant() || !beta.is_constant()) return c.Unsupported("alpha or beta is not known");
  if (alpha.d != 1) y = c.Map("mul", {y, c.number(alpha)}, c.Temp(t, y.sizes), t);
  if (beta.d == 0) return c.Return(c.Cast(y, c.out_dtype()));  // torch: self is ignored, NaN in it too
  Operand x = c.in("self");
  if (beta.d != 1) x = c.Map("mul", {x, c.number(beta)}, c.Temp(t, x.sizes), t);
  c.Return(c.Map("add", {x, y}, c.Result(), t));
}

constexpr PlanFamily kFamilies[] = {
    {Matmul, "", "matmul mm bmm mv dot"},
    {Linear, "", "linear"},
    {AddProduct, "", "addmm baddbmm addmv"},
};

}  // namespace

absl::Span<const PlanFamily> ProductPlans() { return kFamilies; }

}  // namespace slipway::planner
