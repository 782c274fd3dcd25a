// Products of vectors and matrices, all by one kernel.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "ir/ops/op_table.h"
#include "planner/lowering/rules.h"

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
void AddMatrixProduct(PlanContext& c) {
  const DType t = Wide(c.out_dtype());
  Operand y = MatrixProduct(c, c.in(size_t{1}), c.in(size_t{2}), t);
  const ir::Scalar alpha = c.scalar("alpha"), beta = c.scalar("beta");
  if (!c.ok()) return;
  if (!alpha.is_constant() || !beta.is_constant()) return c.Unsupported("alpha or beta is not known");
  if (alpha.d != 1) {
    Operand factor = c.number(alpha);
    y = c.Map("mul", {y, factor}, c.Temp(t, y.sizes), t);
  }
  if (beta.d == 0) return c.Return(c.Cast(y, c.out_dtype()));  // torch: self is ignored, NaN in it too
  Operand x = c.in("self");
  if (beta.d != 1) {
    Operand factor = c.number(beta);
    x = c.Map("mul", {x, factor}, c.Temp(t, x.sizes), t);
  }
  c.Return(c.Map("add", {x, y}, c.Result(), t));
}

// A dim as two, of which the second has `inner`.
Operand SplitDim(Operand x, int dim, int64_t inner) {
  const Dim size = *x.sizes[dim].constant() / inner, stride = x.strides[dim];
  x.sizes[dim] = size, x.strides[dim] = stride * inner;
  x.sizes.insert(x.sizes.begin() + dim + 1, inner);
  x.strides.insert(x.strides.begin() + dim + 1, stride);
  return x;
}
// Attention in one kernel; what it does not take is decomposed.
void Attention(PlanContext& c) {
  Operand q = c.in("query"), k = c.in("key"), v = c.in("value"), mask = c.opt_in("attn_mask");
  if (!c.ok()) return;
  const int n = std::max({q.rank(), k.rank(), v.rank()});
  const bool quantized = c.kernel() == "quant_attention";
  if (!quantized && c.f("dropout_p") != 0) return c.Unsupported("dropout");
  // A scale for each row of keys and values; none where these are floats.
  Operand k_scale = quantized ? c.in("key_scale") : Operand{}, v_scale = quantized ? c.in("value_scale") : Operand{};
  for (Operand* t : {&q, &k, &v, &k_scale, &v_scale})
    while (t->rank() < n && t->rank() >= 2) *t = Unsqueeze(*t, 0);
  if (quantized)
    for (const Operand* t : {&k, &v})
      if ((t->dtype != DType::kInt8 && t->dtype != DType::kFloat8E4M3FN) || t->rank() == 0 || !t->strides.back().is(1))
        return c.Unsupported("keys and values of these types, or whose rows are not dense");
  if (n < 2 || q.rank() != n || k.rank() != n || v.rank() != n || (mask && mask.rank() > n))
    return c.Unsupported("operands of these ranks");
  if (!ir::IsLowPrecision(q.dtype) && q.dtype != DType::kFloat32) return c.Unsupported("a kernel of f32 and narrower");
  std::optional<double> scale = c.opt_f("scale");
  if (!scale) {
    auto width = q.sizes[n - 1].constant();
    if (!width || *width <= 0) return c.Unsupported("heads of unknown width");
    scale = 1 / std::sqrt(static_cast<double>(*width));
  }
  Operand result = c.Result(), out = result;
  if (!c.ok()) return;
  if (mask)  // to the rank of the others
    while (mask.rank() < n) mask = Unsqueeze(mask, 0);
  if (c.b("enable_gqa")) {
    if (n < 3) return c.Fail("heads are missing");
    const int head = n - 3;
    auto heads = q.sizes[head].constant(), kept = k.sizes[head].constant(), values = v.sizes[head].constant();
    if (!heads || !kept || !values || *kept <= 0 || *kept != *values || *heads % *kept != 0)
      return c.Unsupported("numbers of heads that are not known multiples");
    const int64_t group = *heads / *kept;
    if (mask && !mask.sizes[head].is(1) && !mask.sizes[head].is(*heads)) return c.Unsupported("a mask for other heads");
    q = SplitDim(q, head, group), out = SplitDim(out, head, group);
    for (Operand* t : {&k, &v, &k_scale, &v_scale})
      if (*t) *t = Unsqueeze(*t, head + 1);
    if (mask) mask = mask.sizes[head].is(1) ? Unsqueeze(mask, head + 1) : SplitDim(mask, head, group);
  }
  // The sizes of the leading dims, then two.
  auto with = [&](Dim a, Dim b) {
    Dims sizes(out.sizes.begin(), out.sizes.end() - 2);
    sizes.insert(sizes.end(), {a, b});
    return sizes;
  };
  const int r = q.rank();
  const Dim rows = q.sizes[r - 2], keys = k.sizes[r - 2], width = q.sizes[r - 1];
  c.RequireEqual(k.sizes[r - 1], width, "the sizes do not agree");
  c.RequireEqual(v.sizes[r - 2], keys, "the sizes do not agree");
  std::vector<Operand> in = {c.Expand(q, with(rows, width)), c.Expand(k, with(keys, width)),
                             c.Expand(v, with(keys, out.sizes[r - 1]))};
  if (quantized) in.insert(in.end(), {c.Expand(k_scale, with(keys, 1)), c.Expand(v_scale, with(keys, 1))});
  if (mask) in.push_back(c.Expand(mask, with(rows, keys)));
  c.Account(rows + keys, width);
  if (c.ok()) c.Emit(c.kernel(), std::move(in), {out}, q.dtype, kernels::AttentionAttributes{c.b("is_causal"), *scale});
  c.Return(result);
}

constexpr PlanFamily kProductFamilies[] = {
    {Matmul, "", "matmul mm bmm mv dot"},
    {Linear, "", "linear"},
    {Attention, "attention", "scaled_dot_product_attention"},
    {Attention, "quant_attention", "/slipway.quantized_attention.default"},
    {AddMatrixProduct, "", "addmm baddbmm addmv"},
};

}  // namespace

absl::Span<const PlanFamily> ProductPlans() { return kProductFamilies; }

}  // namespace slipway::planner
