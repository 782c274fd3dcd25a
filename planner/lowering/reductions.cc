// Reductions and normalizations.
#include <algorithm>

#include "base/text.h"
#include "ir/ops/op_table.h"
#include "planner/lowering/rules.h"

namespace slipway::planner {
namespace {

// The dims to reduce: "dim" where the operator has it, else all. `empty` says what an empty list means.
std::vector<int> ReducedDims(PlanContext& c, int rank, bool empty_is_all = true) {
  std::vector<int> dims;
  if (c.node().op().ArgIndex("dim") < 0) {
    for (int d = 0; d < rank; ++d) dims.push_back(d);
  } else {
    dims = c.dims("dim", rank, empty_is_all);
    if (rank == 0) dims.clear();
  }
  return dims;
}

// One call over `dims` into a tensor of the sizes of result i. What attributes the kernel has besides the number of
// dims are reals.
template <typename Attributes = kernels::ReduceAttributes, typename... More>
Operand Reduce(PlanContext& c, std::string_view kernel, const Operand& x, const std::vector<int>& dims, DType compute,
               Operand out, More... more) {
  // The result without the dims it kept as 1.
  Operand to = out;
  if (to.rank() == x.rank()) {
    for (int d = to.rank() - 1; d >= 0; --d)
      if (std::find(dims.begin(), dims.end(), d) != dims.end()) to = Drop(to, d);
  }
  if (to.rank() + static_cast<int>(dims.size()) != x.rank()) {
    c.Fail("the result has another rank");
    return out;
  }
  std::vector<int> order = dims;
  // Of an image with channels last these are innermost, where the order is nobody's.
  if (const auto channels = std::find(order.begin(), order.end(), 1);
      channels != order.end() && c.builder().IsChannelsLast(x) && kernel.substr(0, 3) != "arg")
    std::rotate(channels, channels + 1, order.end());
  c.Emit(kernel, {MoveToLast(x, order)}, {to}, compute, Attributes{static_cast<int>(dims.size()), more...});
  return out;
}

// Computed in the result's dtype.
void Sum(PlanContext& c) {
  Operand x = c.in("self");
  c.Return(Reduce(c, c.kernel(), x, ReducedDims(c, x.rank()), c.out_dtype(), c.Result()));
}
// What has no value of nothing: refused where it is known, else when the plan runs.
bool HasElements(PlanContext& c, const Operand& x) {
  const Dim n = x.numel();
  // No results need no value.
  if (const ir::Value* v = c.node().output(0); v && v->type().is_tensor() && KnownZero(c.out_sizes())) return c.ok();
  if (n.is(0)) c.Unsupported("of a tensor without elements");
  c.RequireLessEqual(1, n, "of a tensor without elements");
  return c.ok();
}
// Computed in the operand's dtype.
void Extreme(PlanContext& c) {
  Operand x = c.in("self");
  if (!HasElements(c, x)) return;
  c.Return(Reduce(c, c.kernel(), x, ReducedDims(c, x.rank()), x.dtype, c.Result()));
}
void Truth(PlanContext& c) {
  Operand x = c.in("self");
  c.Return(Reduce(c, c.kernel(), x, ReducedDims(c, x.rank(), false), x.dtype, c.Result()));
}
void TruthOfAll(PlanContext& c) {
  Operand x = c.in("self");
  c.Return(Reduce(c, c.kernel(), x, ReducedDims(c, x.rank()), x.dtype, c.Result()));
}
void Place(PlanContext& c) {
  Operand x = c.in("self");
  if (!HasElements(c, x)) return;
  if (!c.has("dim") && x.rank() != 1) {
    // Positions count over the flattened tensor; with keepdim all dims stay as 1.
    Operand out = c.Temp(DType::kInt64, {});
    return c.Return(c.Reshape(Reduce(c, c.kernel(), c.Reshape(x, {x.numel()}), {0}, x.dtype, out), c.out_sizes()));
  }
  std::vector<int> dims;
  if (x.rank() > 0) dims = {c.has("dim") ? c.dim("dim", x.rank()) : 0};
  c.Return(Reduce(c, c.kernel(), x, dims, x.dtype, c.Result()));
}
void ExtremeAndPlace(PlanContext& c) {
  Operand x = c.in("self");
  if (!HasElements(c, x)) return;
  std::vector<int> dims;
  if (x.rank() > 0) dims = {c.dim("dim", x.rank())};
  const bool largest = c.kernel() == "amax";
  const auto result = [&](size_t i, std::string_view kernel) {
    const Operand out = c.Result(i);
    return c.used(i) ? Reduce(c, kernel, x, dims, x.dtype, out) : out;
  };
  c.Return({result(0, c.kernel()), result(1, largest ? "argmax" : "argmin")});
}
double Correction(PlanContext& c) {
  if (c.node().op().ArgIndex("correction") >= 0) return c.opt_f("correction").value_or(1);
  return c.b("unbiased") ? 1 : 0;
}
void Variance(PlanContext& c) {
  Operand x = c.in("self");
  c.Return(Reduce<kernels::VarianceAttributes>(c, c.kernel(), x, ReducedDims(c, x.rank()), x.dtype, c.Result(),
                                               Correction(c)));
}
void VarianceAndMean(PlanContext& c) {
  Operand x = c.in("self");
  std::vector<int> dims = ReducedDims(c, x.rank());
  c.Return({Reduce<kernels::VarianceAttributes>(c, c.kernel(), x, dims, x.dtype, c.Result(0), Correction(c)),
            Reduce(c, "mean", x, dims, x.dtype, c.Result(1))});
}

// torch.norm, whose order and dims are other arguments.
void Norm(PlanContext& c) {
  Operand x = c.in("self");
  const auto p = c.opt_scalar("p");
  if (p && !p->is_constant()) return c.Unsupported("p is not known");
  const double order = p ? p->d : 2;
  if (!(order >= 0 && order < 1e308) && !HasElements(c, x)) return;
  c.Return(Reduce<kernels::VectorNormAttributes>(c, "vector_norm", x, ReducedDims(c, x.rank()), c.out_dtype(),
                                                 c.Result(), order));
}
void VectorNorm(PlanContext& c) {
  Operand x = c.in("self");
  const double order = c.f("ord");
  if (!(order >= 0 && order < 1e308) && !HasElements(c, x)) return;
  c.Return(Reduce<kernels::VectorNormAttributes>(c, "vector_norm", x, ReducedDims(c, x.rank()), c.out_dtype(),
                                                 c.Result(), order));
}

// Sums and means of what is a number.
void NanSum(PlanContext& c) {
  Operand x = c.in("self"), out = c.Result();
  if (!c.ok()) return;
  const std::vector<int> dims = ReducedDims(c, x.rank());
  if (!ir::IsFloating(x.dtype))
    return c.Return(Reduce(c, c.kernel() == "nanmean" ? "mean" : "sum", x, dims, out.dtype, out));
  Operand nan = c.Map("isnan", {x}, c.Temp(DType::kBool, x.sizes), x.dtype);
  Operand zero = c.number(ir::Scalar()), kept = c.Map("where", {nan, zero, x}, c.Temp(x.dtype, x.sizes), x.dtype);
  if (c.kernel() == "nansum") return c.Return(Reduce(c, "sum", kept, dims, out.dtype, out));
  const DType wide = out.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  Operand numbers = c.Map("logical_not", {nan}, c.Temp(DType::kBool, x.sizes), DType::kBool);
  Operand sum =
      Reduce(c, "sum", kept, dims, out.dtype, c.Temp(ir::IsLowPrecision(out.dtype) ? out.dtype : wide, out.sizes));
  Operand count = Reduce(c, "sum", numbers, dims, DType::kInt64, c.Temp(DType::kInt64, out.sizes));
  c.Return(c.Map("div", {sum, count}, out, wide));
}
void Dist(PlanContext& c) {
  Operand x = c.in("self"), y = c.in("other"), out = c.Result();
  const ir::Scalar p = c.scalar("p");
  if (!p.is_constant()) return c.Unsupported("p is not known");
  const int rank = std::max(x.rank(), y.rank());
  Dims sizes(rank, 1);
  for (const Operand* t : {&x, &y})
    for (int d = 0; d < t->rank(); ++d)
      if (Dim& s = sizes[rank - t->rank() + d]; s.is(1)) s = t->sizes[d];
  Operand difference = c.Map("sub", {x, y}, c.Temp(out.dtype, sizes), out.dtype);
  if (!(p.d >= 0 && p.d < 1e308) && !HasElements(c, difference)) return;
  if (c.ok()) c.Emit("vector_norm", {difference}, {out}, out.dtype, kernels::VectorNormAttributes{rank, p.d});
  c.Return(out);
}

void Softmax(PlanContext& c) {
  Operand x = c.in("self"), out = c.Result();
  if (x.rank() == 0) x = Unsqueeze(x, 0);
  Operand to = out.rank() == 0 ? Unsqueeze(out, 0) : out;
  const int dim = c.dim("dim", x.rank());
  c.Emit(c.kernel(), {MoveToLast(x, {dim})}, {MoveToLast(to, {dim})}, out.dtype);
  c.Return(out);
}
void LayerNorm(PlanContext& c) {
  Operand x = c.Dense(c.in("input")), weight = c.opt_in("weight"), bias = c.opt_in("bias"), out = c.Result();
  const Dims shape = c.ns("normalized_shape");
  Dim n = 1, rows = 1;
  if (static_cast<int>(shape.size()) > x.rank()) return c.Fail("normalized_shape does not fit");
  const int kept = x.rank() - static_cast<int>(shape.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    c.RequireEqual(x.sizes[kept + d], shape[d], "normalized_shape does not fit");
    n = n * shape[d];
  }
  for (int d = 0; d < kept; ++d) rows = rows * x.sizes[d];
  if (n.is(0) || !c.ok()) return c.Return(out);
  std::vector<Operand> in = {c.Reshape(x, {rows, n})};
  for (const Operand* p : {&weight, &bias}) {
    if (*p) in.push_back(c.Reshape(*p, {n}));
  }
  std::vector<Operand> results = {out};
  if (c.used(1) || c.used(2)) {
    // The mean and the reciprocal of the deviation, of each row.
    const DType t = c.out_dtype(1), wide = t == DType::kFloat64 ? t : DType::kFloat32;
    Operand mean = c.Result(1), scale = c.Result(2), variance = c.Temp(wide, {rows});
    c.Emit("mean", {in[0]}, {c.Reshape(mean, {rows})}, wide, kernels::ReduceAttributes{1});
    c.Emit("var", {in[0]}, {variance}, wide, kernels::VarianceAttributes{1, 0});
    ir::Scalar eps;
    eps.kind = ir::Scalar::kFloat;
    eps.d = c.f("eps");
    Operand little = c.number(eps), shifted = c.Map("add", {variance, little}, c.Temp(wide, {rows}), wide);
    c.Map("rsqrt", {shifted}, c.Reshape(scale, {rows}), wide);
    results.push_back(mean);
    results.push_back(scale);
  }
  c.Emit("layer_norm", std::move(in), {c.Reshape(out, {rows, n})}, out.dtype,
         kernels::NormAttributes{(weight ? kernels::kNormHasWeight : kernels::NormPart{}) +
                                     (bias ? kernels::kNormHasBias : kernels::NormPart{}),
                                 c.f("eps")});
  c.Return(std::move(results));
}

// rms_norm in f32 and wider; a result that the fused form gives besides is left to its decomposition.
void RmsNorm(PlanContext& c) {
  Operand x = c.Dense(c.in("input")), weight = c.opt_in("weight"), out = c.Result();
  const Dims shape = c.ns("normalized_shape");
  const int kept = x.rank() - static_cast<int>(shape.size());
  if (!c.ok()) return;
  if (kept < 0) return c.Fail("normalized_shape does not fit");
  if (c.node().outputs().size() > 1 && c.used(1)) return c.Unsupported("the deviation");
  if (!ir::IsFloating(x.dtype)) return c.Unsupported(text::StrCat("of ", ir::Name(x.dtype)));
  Dim n = 1, rows = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    c.RequireEqual(x.sizes[kept + d], shape[d], "normalized_shape does not fit");
    n = n * shape[d];
  }
  for (int d = 0; d < kept; ++d) rows = rows * x.sizes[d];
  if (n.is(0) || !c.ok()) return c.Return(out);
  const DType wide = x.dtype == DType::kFloat64 ? x.dtype : DType::kFloat32;
  if (weight && weight.dtype == DType::kFloat64 && wide != weight.dtype) return c.Unsupported("a weight of f64");
  std::vector<Operand> in = {c.Reshape(x, {rows, n})};
  if (weight) in.push_back(c.Reshape(weight, {n}));
  // torch's default is the machine epsilon of what it computes in.
  const double eps = c.opt_f("eps").value_or(wide == DType::kFloat64 ? 0x1p-52 : 0x1p-23);
  if (c.ok())
    c.Emit("rms_norm", std::move(in), {c.Reshape(out, {rows, n})}, wide,
           kernels::NormAttributes{weight ? kernels::kNormHasWeight : kernels::NormPart{}, eps});
  c.Return(out);
}

constexpr PlanFamily kReductionFamilies[] = {
    {Sum, "", "sum sum.dim_IntList mean mean.dim prod prod.dim_int"},
    {Extreme, "", "amax amin"},
    {Extreme, "amax", "max"},
    {Extreme, "amin", "min"},
    {TruthOfAll, "", "any any.dim all all.dim"},
    {Truth, "", "any.dims all.dims"},
    {Place, "", "argmax argmin"},
    {ExtremeAndPlace, "amax", "max.dim"},
    {ExtremeAndPlace, "amin", "min.dim"},
    {Variance, "", "var var.dim var.correction std std.dim std.correction"},
    {VarianceAndMean, "var", "var_mean var_mean.dim var_mean.correction"},
    {VarianceAndMean, "std", "std_mean std_mean.dim std_mean.correction"},
    {VectorNorm, "", "linalg_vector_norm"},
    {Norm, "vector_norm", "norm.Scalar norm.ScalarOpt_dim norm.ScalarOpt_dim_dtype norm.ScalarOpt_dtype"},
    {NanSum, "nansum", "nansum"},
    {NanSum, "nanmean", "nanmean", true},
    {Dist, "vector_norm", "dist"},
    {Softmax, "softmax", "softmax.int _softmax"},
    {Softmax, "log_softmax", "log_softmax.int _log_softmax"},
    {LayerNorm, "", "layer_norm native_layer_norm"},
    {RmsNorm, "", "rms_norm _fused_rms_norm"},
};

}  // namespace

absl::Span<const PlanFamily> ReductionPlans() { return kReductionFamilies; }

}  // namespace slipway::planner
