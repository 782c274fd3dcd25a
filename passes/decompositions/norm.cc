// Decompositions: norms of vectors and matrices, normalization layers with their statistics, covariance.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "passes/decompositions/util.h"

namespace slipway::passes {
namespace {

Value* Rsqrt(Decomposer& d, Value* x) { return d.Unary("rsqrt", x); }

// ---- Norms

// The input in the dtype asked for.
Value* NormInput(Decomposer& d) {
  Value* x = d.in("self");
  if (auto t = d.dtype("dtype")) return d.b.Cast(x, ir::IsLowPrecision(*t) ? DType::kFloat32 : *t);
  return x;
}
// The largest (or least) of numbers that are not negative; the largest of none is 0.
Value* Extreme(Decomposer& d, Value* x, bool largest, int dim, bool keepdim) {
  Value* r = d.b.Call(largest ? "aten.amax.default" : "aten.amin.default", {x, ir::Ints{dim}, keepdim});
  auto size = x->sizes()[dim].constant();
  return !largest || (size && *size > 0) ? r : d.b.Call("aten.clamp_min.default", {r, 0});
}
// Norms of matrices lying in two dims, of order 1, -1, 2, -2, inf, -inf or "nuc".
Value* MatrixNorm(Decomposer& d, Value* x, double order, bool nuclear, std::vector<int> dims, bool keepdim) {
  if (dims.size() != 2 || dims[0] == dims[1]) return d.Fail("a matrix norm needs two different dims"), x;
  int row = dims[0], column = dims[1];
  double magnitude = std::abs(order);
  if (nuclear || magnitude == 2) {
    std::vector<int> front;
    for (int k = 0; k < x->rank(); ++k)
      if (k != row && k != column) front.push_back(k);
    front.push_back(row), front.push_back(column);
    Value* values = d.b.Call("aten.linalg_svdvals.default", {Permute(d, x, front)});
    int last = values->rank() - 1;
    Value* r = nuclear ? d.Sum(values, {last}) : Extreme(d, values, order > 0, last, false);
    if (keepdim) r = Unsqueeze(d, Unsqueeze(d, r, std::min(row, column)), std::max(row, column));
    return r;
  }
  if (magnitude != 1 && !std::isinf(magnitude)) return d.Fail(text::StrCat("matrix norm of order ", order)), x;
  if (std::isinf(magnitude)) std::swap(row, column);
  Value* sums = NormOver(d, x, 1, {row}, true);
  Value* r = Extreme(d, sums, order > 0, column, true);
  if (keepdim) return r;
  return d.b.Call("aten.squeeze.dims", {r, ir::Ints{row, column}});
}
double Order(Decomposer& d, std::string_view name) {
  ir::Scalar s = d.scalar(name);
  if (!s.is_constant() || s.kind == ir::Scalar::kComplex) d.Unsupported("an order that is not a constant real number");
  return s.d;
}

void LinalgMatrixNorm(Decomposer& d) {
  Value* x = NormInput(d);
  d.Return(MatrixNorm(d, x, Order(d, "ord"), false, d.dims("dim", x->rank()), d.flag("keepdim")));
}
Value* NamedNorm(Decomposer& d, Value* x, const std::string& order, const std::vector<int>& dims) {
  if (order == "fro") return NormOver(d, x, 2, dims, d.flag("keepdim"));
  if (order == "nuc") return MatrixNorm(d, x, 0, true, dims, d.flag("keepdim"));
  return d.Fail("matrix norm of order '" + order + "'"), x;
}
void LinalgMatrixNormNamed(Decomposer& d) {
  Value* x = NormInput(d);
  d.Return(NamedNorm(d, x, d.str("ord"), d.dims("dim", x->rank())));
}
void LinalgNorm(Decomposer& d) {
  Value* x = NormInput(d);
  std::vector<int> dims = d.dims("dim", x->rank());
  bool keepdim = d.flag("keepdim");
  if (!d.has("ord")) return d.Return(NormOver(d, x, 2, dims, keepdim));
  double order = Order(d, "ord");
  if (dims.size() == 1) return d.Return(NormOver(d, x, order, dims, keepdim));
  d.Return(MatrixNorm(d, x, order, false, dims, keepdim));
}
void LinalgNormNamed(Decomposer& d) {
  Value* x = NormInput(d);
  d.Return(NamedNorm(d, x, d.str("ord"), d.dims("dim", x->rank())));
}
void FrobeniusNorm(Decomposer& d) {
  Value* x = d.in("self");
  d.Return(NormOver(d, x, 2, d.dims("dim", x->rank()), d.flag("keepdim")));
}
void NuclearNorm(Decomposer& d) {
  Value* x = d.in("self");
  std::vector<int> dims = Declares(d, "dim") ? d.dims("dim", x->rank()) : std::vector<int>{0, 1};
  d.Return(MatrixNorm(d, x, 0, true, dims, d.flag("keepdim")));
}
// Scales the slices along `dim` whose norm is above maxnorm down to it.
void Renorm(Decomposer& d) {
  Value* x = d.in("self");
  Value* norm = NormOver(d, x, d.node().Get("p"), DimsBut(x->rank(), d.dim("dim", x->rank())), true);
  Arg most = d.node().Get("maxnorm");
  Value* factor = d.b.Call("aten.mul.Scalar", {d.Unary("reciprocal", d.Add(norm, 1e-7)), most});
  d.Return(d.Mul(x, d.Where(d.Cmp("gt", norm, most), factor, 1)));
}

// Rows that are looked up are scaled down to the norm.
void EmbeddingRenorm(Decomposer& d) {
  Value* x = d.in("self");
  Arg most = d.node().Get("max_norm");
  Value* norm = NormOver(d, x, d.node().Get("norm_type"), {1}, true);
  Value* index = d.b.Cast(Reshape(d, d.tensor("indices"), {-1}), DType::kInt64);
  Value* met = d.b.Call("aten.index_fill.int_Scalar", {d.b.Call("aten.zeros_like.default", {norm}), 0, index, 1.0});
  Value* factor = d.b.Call("aten.mul.Scalar", {d.Unary("reciprocal", d.Add(norm, 1e-7)), most});
  d.Return(d.Mul(x, d.Where(And(d, d.Cmp("gt", met, 0), d.Cmp("gt", norm, most)), factor, 1)));
}

Value* NormExcept(Decomposer& d, Value* v, Arg p, int64_t dim) {
  if (dim == -1) return NormOver(d, v, std::move(p), AllDims(v->rank()), false);
  return NormOver(d, v, std::move(p), DimsBut(v->rank(), d.WrapDim(dim, v->rank())), true);
}
void NormExceptDim(Decomposer& d) { d.Return(NormExcept(d, d.in("v"), static_cast<double>(d.i("pow")), d.i("dim"))); }
void WeightNorm(Decomposer& d) {
  Value *v = d.in("v"), *g = d.in("g");
  Value* norm = NormExcept(d, v, 2, d.i("dim"));
  d.Return(Values{d.Mul(v, d.Div(g, norm)), norm});
}

// ---- Normalization layers that also give their statistics

// Per-channel numbers laid along dim 1.
Value* Channel(Decomposer& d, Value* v, int rank) { return Along(d, v, rank < 2 ? 0 : 1, rank); }

Value* Affine(Decomposer& d, Value* x, Value* weight, Value* bias) {
  if (weight) x = d.Mul(x, Channel(d, weight, x->rank()));
  return bias ? d.Add(x, Channel(d, bias, x->rank())) : x;
}

struct Moments {
  Value *mean, *var, *centered;
};
// Over dims, kept; the variance is that of the population.
Moments MomentsOver(Decomposer& d, Value* x, const std::vector<int>& dims) {
  Value* mean = d.Mean(x, dims, true);
  Value* centered = d.Sub(x, mean);
  return {mean, d.Mean(d.Mul(centered, centered), dims, true), centered};
}
Value* Flat(Decomposer& d, Value* x) { return Reshape(d, x, {-1}); }

// Results: normalized input, mean and 1/std of the batch where training, then, as the schema has them, a reserve
// (empty) and the running statistics after the step.
void BatchNorm(Decomposer& d) {
  auto maybe = [&](std::string_view name) { return Declares(d, name) ? d.opt_in(name) : nullptr; };
  Value *x = d.in("input"), *weight = d.opt_in("weight"), *bias = d.opt_in("bias");
  Value *mean = maybe("running_mean"), *var = maybe("running_var");
  std::string_view name = d.node().op_name();
  bool training = text::Contains(name, "with_update") || (Declares(d, "training") && d.flag("training")) || !mean;
  double eps = d.f(Declares(d, "epsilon") ? "epsilon" : "eps");
  if (x->rank() < 2) return d.Fail("an input of rank below 2");

  Values results;
  Value *new_mean = mean, *new_var = var;
  if (training) {
    Moments m = MomentsOver(d, x, DimsBut(x->rank(), 1));
    Value* rstd = Rsqrt(d, d.Add(m.var, eps));
    results = {Affine(d, d.Mul(m.centered, rstd), weight, bias), Flat(d, m.mean), Flat(d, rstd)};
    if (mean && var && d.node().outputs().size() > 4) {
      double momentum = d.f("momentum");
      IntOrValue count = 1;
      for (int k = 0; k < x->rank(); ++k)
        if (k != 1) count = d.b.Mul(count, d.b.Size(x, k));
      // The running variance is the unbiased one.
      Value* n = d.b.ScalarTensor(Arg(count), x->dtype());
      Value* unbiased = d.Div(d.Mul(Flat(d, m.var), n), d.Sub(n, 1));
      new_mean = d.Add(d.Mul(mean, 1 - momentum), d.Mul(Flat(d, m.mean), momentum));
      new_var = d.Add(d.Mul(var, 1 - momentum), d.Mul(unbiased, momentum));
    }
  } else {
    ir::Type type = ir::Type::Tensor(x->dtype(), x->sizes());
    Value* y =
        d.b.CallTyped("aten.batch_norm.default", {x, weight, bias, mean, var, false, 0.0, eps, false}, {}, {type})[0];
    results = {y, mean, Rsqrt(d, d.Add(var, eps))};
  }
  size_t wanted = d.node().outputs().size();
  // Statistics that torch leaves empty.
  for (size_t i = 1; i < std::min<size_t>(wanted, 3); ++i)
    if (d.node().output(i) && d.out_type(i).rank() == 1 && d.out_type(i).sizes[0].constant() == 0)
      results[i] = d.b.Full({0}, 0.0, d.out_type(i).dtype);
  if (wanted == 4 || wanted == 6) {
    DType t = d.node().output(3) ? d.out_type(3).dtype : DType::kUInt8;
    results.push_back(d.b.Full({0}, 0, t));
  }
  results.push_back(new_mean), results.push_back(new_var);
  d.Return(results);
}

void GroupNorm(Decomposer& d) {
  Value *x = d.in("input"), *weight = d.opt_in("weight"), *bias = d.opt_in("bias");
  IntOrValue n = d.sym("N"), c = d.sym("C"), hw = d.sym("HxW");
  int64_t groups = d.i("group");
  if (groups <= 0) return d.Fail("no groups");
  Value* flat = Reshape(d, x, {n, groups, d.b.Mul(d.b.FloorDiv(c, groups), hw)});
  Moments m = MomentsOver(d, flat, {2});
  Value* rstd = Rsqrt(d, d.Add(m.var, d.f("eps")));
  Value* y = Reshape(d, d.Mul(m.centered, rstd), d.b.SizesOf(x));
  d.Return(Values{Affine(d, y, weight, bias), Squeeze(d, m.mean, 2), Squeeze(d, rstd, 2)});
}

void FusedRmsNorm(Decomposer& d) {
  Value *x = d.in("input"), *weight = d.opt_in("weight");
  int n = static_cast<int>(d.sym_ints("normalized_shape").size());
  std::vector<int> dims;
  for (int k = std::max(x->rank() - n, 0); k < x->rank(); ++k) dims.push_back(k);
  double eps = d.opt_f("eps").value_or(x->dtype() == DType::kFloat64 ? 2.220446049250313e-16 : 1.1920928955078125e-07);
  Value* rstd = Rsqrt(d, d.Add(d.Mean(d.Mul(x, x), dims, true), eps));
  Value* y = d.Mul(x, rstd);
  d.Return(Values{weight ? d.Mul(y, weight) : y, rstd});
}

// ---- Covariance

// Rows are variables, columns observations. Rank as declared: torch drops dims of size 1.
Value* Covariance(Decomposer& d, Value* x, double correction, Value* fweights, Value* aweights) {
  ir::Builder& b = d.b;
  if (x->rank() < 2) x = Reshape(d, x, {1, -1});
  DType t = ir::IsFloating(x->dtype()) ? x->dtype() : DType::kFloat32;
  x = b.Cast(x, t);
  Value* w = fweights && aweights ? d.Mul(fweights, aweights) : fweights ? fweights : aweights;
  if (w) w = b.Cast(w, t);
  Value* count = w ? b.Call("aten.sum.default", {w}) : b.ScalarTensor(Arg(b.Size(x, 1)), t);
  Value* mean = d.Div(d.Sum(w ? d.Mul(x, w) : x, {1}, true), count);
  Value* norm = d.Sub(count, correction);
  if (w && aweights && correction != 0)
    norm = d.Sub(count, d.Div(d.Mul(b.Call("aten.sum.default", {d.Mul(w, b.Cast(aweights, t))}), correction), count));
  Value* z = d.Sub(x, mean);
  Value* c = Matmul(d, z, Transpose(d, w ? d.Mul(z, w) : z, 0, 1));
  return d.Div(c, ClampMin(d, norm, 0));
}
void Cov(Decomposer& d) {
  Value* c =
      Covariance(d, d.in("self"), static_cast<double>(d.i("correction")), d.opt_in("fweights"), d.opt_in("aweights"));
  d.Return(d.out_type().rank() == 0 ? Reshape(d, c, {}) : c);
}
void CorrCoef(Decomposer& d) {
  Value* c = Covariance(d, d.in("self"), 1, nullptr, nullptr);
  if (d.out_type().rank() == 0) {
    c = Reshape(d, c, {});
    return d.Return(d.Div(c, c));
  }
  Value* deviation = d.Unary("sqrt", d.b.Call("aten.diagonal.default", {c}));
  c = d.Div(d.Div(c, Unsqueeze(d, deviation, 1)), Unsqueeze(d, deviation, 0));
  d.Return(d.b.Call("aten.clamp.default", {c, -1, 1}));
}

constexpr DecomposeRow kNormRows[] = {
    {"aten.linalg_matrix_norm.default", LinalgMatrixNorm},
    {"aten.linalg_matrix_norm.str_ord", LinalgMatrixNormNamed},
    {"aten.linalg_norm.default", LinalgNorm},
    {"aten.linalg_norm.ord_str", LinalgNormNamed},
    {"aten.frobenius_norm.dim", FrobeniusNorm},
    {"aten.nuclear_norm.default", NuclearNorm},
    {"aten.nuclear_norm.dim", NuclearNorm},
    {"aten.renorm.default", Renorm},
    {"aten.embedding_renorm.default", EmbeddingRenorm},
    {"aten.norm_except_dim.default", NormExceptDim},
    {"aten._weight_norm.default", WeightNorm},
    {"aten._weight_norm_interface.default", WeightNorm},
    {"aten.native_batch_norm.default", BatchNorm},
    {"aten._native_batch_norm_legit.default", BatchNorm},
    {"aten._native_batch_norm_legit.no_stats", BatchNorm},
    {"aten._native_batch_norm_legit_functional.default", BatchNorm},
    {"aten._native_batch_norm_legit_no_training.default", BatchNorm},
    {"aten._batch_norm_with_update.default", BatchNorm},
    {"aten._batch_norm_with_update_functional.default", BatchNorm},
    {"aten._batch_norm_no_update.default", BatchNorm},
    {"aten.cudnn_batch_norm.default", BatchNorm},
    {"aten.miopen_batch_norm.default", BatchNorm},
    {"aten.native_group_norm.default", GroupNorm},
    {"aten._fused_rms_norm.default", FusedRmsNorm},
    {"aten.cov.default", Cov},
    {"aten.corrcoef.default", CorrCoef},
};

}  // namespace

absl::Span<const DecomposeRow> NormDecompositions() { return kNormRows; }

}  // namespace slipway::passes
