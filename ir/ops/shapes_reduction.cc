// Shape functions: reductions, scans, sorting and normalizing over a dimension.
#include <algorithm>

#include "base/text.h"
#include "ir/ops/shape_rules.h"

namespace slipway::ir {
namespace {

bool Declares(InferContext& c, std::string_view arg) { return c.node().op().ArgIndex(arg) >= 0; }
bool KeepDim(InferContext& c) { return Declares(c, "keepdim") && c.b("keepdim"); }
std::optional<DType> GivenDType(InferContext& c) { return Declares(c, "dtype") ? c.dtype("dtype") : std::nullopt; }
// Sizes after reducing the dims named by the op's "dim" argument; all of them where there is none.
Sizes Reduced(InferContext& c) {
  Value* x = Self(c);
  std::vector<int> dims(x->rank());
  for (int d = 0; d < x->rank(); ++d) dims[d] = d;
  if (Declares(c, "dim")) dims = c.dims("dim", x->rank());
  return c.Reduce(x->sizes(), dims, KeepDim(c));
}

void ReduceSame(InferContext& c) { c.Out(Self(c)->dtype(), Reduced(c)); }
void ReduceSum(InferContext& c) { c.Out(GivenDType(c).value_or(SumDType(Self(c)->dtype())), Reduced(c)); }
void ReduceMean(InferContext& c) { c.Out(GivenDType(c).value_or(Self(c)->dtype()), Reduced(c)); }
void ReduceFloat(InferContext& c) { c.Out(FloatOf(Self(c)->dtype()), Reduced(c)); }
void ReduceReal(InferContext& c) { c.Out(GivenDType(c).value_or(ToReal(Self(c)->dtype())), Reduced(c)); }
void ReduceBool(InferContext& c) {  // any and all keep u8
  c.Out(Self(c)->dtype() == DType::kUInt8 ? DType::kUInt8 : DType::kBool, Reduced(c));
}
void ReduceBoolList(InferContext& c) {  // an empty list reduces nothing
  auto given = c.opt_ints("dim");
  if (!given || !given->empty()) return ReduceBool(c);
  c.Out(Self(c)->dtype() == DType::kUInt8 ? DType::kUInt8 : DType::kBool, Self(c)->sizes());
}
template <DType kTo>
void ReduceTo(InferContext& c) {
  c.Out(kTo, Reduced(c));
}
void ReduceWithIndices(InferContext& c) {
  Sizes out = Reduced(c);
  if (Declares(c, "k")) {
    Value* x = Self(c);
    int dim = c.dim("dim", x->rank());
    Sym k = ExprOf(c.sym("k"));
    if (ProvablyLess(k, 1) || ProvablyLess(x->rank() ? x->sizes()[dim] : Sym(1), k)) return c.Fail("k is out of range");
  }
  c.Out(Self(c)->dtype(), out);
  c.Out(DType::kInt64, out);
}
void ReduceTwice(InferContext& c) {  // aminmax
  ReduceSame(c);
  ReduceSame(c);
}
void RealAndMean(InferContext& c) {  // std_mean, var_mean
  ReduceReal(c);
  ReduceSame(c);
}
void Quantile(InferContext& c) {
  if (Value* q = c.node().Get("q").value(); q && q->rank() > 1) return c.Fail("q has more than one dimension");
  Sizes out = Reduced(c);
  const Arg& q = c.node().Get("q");
  if (Value* v = q.value(); v && v->type().is_tensor() && v->rank() == 1) out.insert(out.begin(), v->sizes()[0]);
  c.Out(Self(c)->dtype(), out);
}
void Trace(InferContext& c) {
  NeedRank(c, Self(c), 2);
  c.Out(SumDType(Self(c)->dtype()), {});
}
void Dist(InferContext& c) {
  Operands o = OperandsAt(c, {0, 1});
  c.Broadcast(o.shapes);
  c.Out(ToReal(c.ResultType(o.tensors)), {});
}
// Integers and bool become i64 where something is summed; to a size of no dims torch always sums.
void SumToSize(InferContext& c) {
  Value* x = Self(c);
  Sizes size = c.ToSizes(c.sym_ints("size"));
  const size_t lead = x->sizes().size() - std::min(x->sizes().size(), size.size());
  bool sums = size.empty() || lead > 0;
  for (size_t k = 0; k < size.size() && lead + k < x->sizes().size(); ++k)
    sums |= size[k].constant() == 1 && x->sizes()[lead + k].constant() != 1;
  const bool whole = !IsFloating(x->dtype()) && !IsComplex(x->dtype());
  c.Out(sums && whole ? DType::kInt64 : x->dtype(), std::move(size));
}
void NormExceptDim(InferContext& c) {
  Value* x = Self(c);
  int64_t dim = c.i("dim");
  if (dim == -1) return c.Out(x->dtype(), {});
  int d = c.WrapDim(dim, x->rank());
  Sizes out(x->sizes().size(), 1);
  c.Out(x->dtype(), x->rank() ? WithDim(out, d, x->sizes()[d]) : out);
}
void WeightNormInterface(InferContext& c) {
  Value *v = Self(c), *g = TensorAt(c, 1);
  c.Out(v->dtype(), v->sizes());
  c.Out(g->dtype() == DType::kBFloat16 ? DType::kFloat32 : g->dtype(), g->sizes());
}

void ScanSum(InferContext& c) {  // cumsum, cumprod
  c.dim("dim", Self(c)->rank());
  c.Out(GivenDType(c).value_or(SumDType(Self(c)->dtype())), Self(c)->sizes());
}
void WithIndices(InferContext& c) {  // sort, cummax: values and positions of the input's shape
  SameAsSelf(c);
  c.Out(DType::kInt64, Self(c)->sizes());
}
void Indices(InferContext& c) { c.Out(DType::kInt64, Self(c)->sizes()); }
void TopK(InferContext& c) {
  Value* x = Self(c);
  int dim = c.dim("dim", x->rank());
  Sym k = ExprOf(c.sym("k"));
  NeedNotNegative(c, {k}, "k");
  if (ProvablyLess(x->rank() ? x->sizes()[dim] : Sym(1), k)) return c.Fail("k is larger than the size");
  Sizes out = WithDim(x->sizes(), dim, k);
  c.Out(x->dtype(), out);
  c.Out(DType::kInt64, out);
}
void Softmax(InferContext& c) { c.Out(GivenDType(c).value_or(Self(c)->dtype()), Self(c)->sizes()); }
void SoftmaxToFloat(InferContext& c) {
  c.Out(c.b("half_to_float") ? DType::kFloat32 : Self(c)->dtype(), Self(c)->sizes());
}
void Diff(InferContext& c) {
  Value *x = Self(c), *before = c.opt_tensor("prepend"), *after = c.opt_tensor("append");
  int dim = c.dim("dim", x->rank());
  if (x->rank() == 0) return c.Fail("diff of a 0-d tensor");
  if (c.i("n") == 0) return c.Out(x->dtype(), x->sizes());  // what is to be put around it is not
  Sym size = x->sizes()[dim];
  Values all = {x};
  for (Value* v : {before, after}) {
    if (!v) continue;
    all.push_back(v);
    size = size + (v->rank() == 0 ? Sym(1) : dim < v->rank() ? v->sizes()[dim] : Sym(0));
  }
  c.Out(c.ResultType(all), WithDim(x->sizes(), dim, LargerOf(size - c.i("n"), 0)));
}
void Gradient(InferContext& c) {
  Value* x = Self(c);
  size_t n = c.has("dim") ? c.dims("dim", x->rank()).size() : static_cast<size_t>(x->rank());
  for (size_t i = 0; i < n; ++i) c.Out(FloatOf(x->dtype()), x->sizes());
}
// The area under y over dim; the cumulative form keeps one element less.
void Trapezoid(InferContext& c) {
  Value* y = Self(c);
  Value* x = Declares(c, "x") ? c.tensor("x") : nullptr;
  bool cumulative = c.node().op().base == "cumulative_trapezoid";
  int dim = c.dim("dim", y->rank());
  if (y->rank() == 0) return c.Fail("a 0-d tensor has no dimension to integrate over");
  Sizes steps = WithDim(y->sizes(), dim, LargerOf(y->sizes()[dim] - 1, 0));
  int shift = 0;
  if (x && x->rank() != 1) {
    Sizes of_x = x->sizes();
    int x_dim = x->rank() == y->rank() ? dim : c.dim("dim", x->rank());
    if (x->rank() == 0) return c.Fail("the sample points are a 0-d tensor");
    Sizes x_steps = WithDim(of_x, x_dim, LargerOf(of_x[x_dim] - 1, 0));
    shift = std::max(0, x->rank() - y->rank());
    steps = c.Broadcast(steps, x_steps);
  }
  if (!cumulative) steps.erase(steps.begin() + dim + shift);
  Values all = {y};
  if (x) all.push_back(x);
  c.Out(c.FloatResultType(all), steps);
}
void Covariance(InferContext& c) {
  Value* x = Self(c);
  if (x->rank() < 2) return c.Out(FloatOf(x->dtype()), {});
  c.Out(FloatOf(x->dtype()), {x->sizes()[0], x->sizes()[0]});
}

constexpr ShapeFamily kReductionFamilies[] = {
    {ReduceSame, "amax amin max min median nanmedian"},
    {ReduceSum, "sum sum.dim_IntList prod prod.dim_int nansum"},
    {ReduceMean, "mean mean.dim nanmean"},
    {ReduceFloat, "logsumexp special_logsumexp"},
    {ReduceReal,
     "var var.dim var.correction std std.dim std.correction norm.Scalar norm.ScalarOpt_dim norm.ScalarOpt_dim_dtype "
     "norm.ScalarOpt_dtype frobenius_norm.dim nuclear_norm nuclear_norm.dim"},
    {ReduceBool, "any any.dim all all.dim"},
    {ReduceBoolList, "any.dims all.dims"},
    {ReduceTo<DType::kInt64>, "argmax argmin count_nonzero count_nonzero.dim_IntList"},
    {ReduceTo<DType::kUInt64>, "hash_tensor"},
    {ReduceTo<DType::kBool>, "_is_all_true _is_any_true"},
    {ReduceWithIndices, "max.dim min.dim median.dim nanmedian.dim mode kthvalue"},
    {ReduceTwice, "aminmax _aminmax _aminmax.dim"},
    {RealAndMean, "var_mean var_mean.dim var_mean.correction std_mean std_mean.dim std_mean.correction"},
    {Quantile, "quantile quantile.scalar nanquantile nanquantile.scalar"},
    {Trace, "trace"},
    {Dist, "dist"},
    {SumToSize, "sum_to_size _grad_sum_to_size"},
    {NormExceptDim, "norm_except_dim"},
    {SameAsSelf, "_weight_norm renorm logcumsumexp _logcumsumexp msort"},
    {WeightNormInterface, "_weight_norm_interface"},
    {ScanSum, "cumsum cumprod"},
    {WithIndices, "sort sort.stable cummax cummin"},
    {Indices, "argsort argsort.stable"},
    {TopK, "topk"},
    {Softmax, "softmax.int log_softmax.int special_softmax special_log_softmax _safe_softmax"},
    {SoftmaxToFloat, "_softmax _log_softmax"},
    {SameAsSelf, "_masked_softmax _softmax_backward_data _log_softmax_backward_data"},
    {Diff, "diff"},
    {Gradient,
     "gradient.scalarint gradient.scalararray gradient.array gradient.scalarrayint gradient.scalarrayarray "
     "gradient.tensorarrayint gradient.tensorarray"},
    {Trapezoid, "trapezoid.x trapezoid.dx trapz.x trapz.dx cumulative_trapezoid.x cumulative_trapezoid.dx"},
    {Covariance, "cov corrcoef"},
};

}  // namespace

absl::Span<const ShapeRow> ReductionShapes() {
  static const absl::Span<const ShapeRow> rows = ExpandFamilies(kReductionFamilies);
  return rows;
}

}  // namespace slipway::ir
