// Reductions: sums, extrema, logic, norms, statistics; and running ones (cumsum and kin).
#include <algorithm>
#include <cmath>
#include <optional>

#include "exporters/onnx/lowerings/data.h"

namespace slipway::exporters::onnx_out {
namespace {

using ir::Scalar;

// Which dims a reduction runs over. `none`: an empty list that this operator reads as "leave as is".
struct Over {
  std::vector<int> dims;
  bool keepdim = false, none = false;
  Ints axes() const { return Ints(dims.begin(), dims.end()); }
};
Over ReadOver(LoweringContext& c, int rank) {
  Over o;
  const ir::OpDef& op = c.node().op();
  if (op.ArgIndex("keepdim") >= 0) o.keepdim = c.b("keepdim");
  if (op.ArgIndex("dim") >= 0 && c.has("dim")) {
    o.dims = c.dims("dim", rank);
    auto given = c.opt_ints("dim");
    // The result's rank tells the two readings of an empty list apart.
    o.none = given && given->empty() && rank > 0 && !o.keepdim && c.out_rank() == rank;
    if (o.keepdim && given && given->empty())
      o.none = c.out_type().sizes == c.tensor(op.ArgIndex("self") >= 0 ? "self" : "input")->sizes();
  } else {
    for (int d = 0; d < rank; ++d) o.dims.push_back(d);
  }
  if (rank == 0) o.dims.clear();
  if (o.none) o.dims.clear();
  return o;
}
V Reduce(LoweringContext& c, std::string_view op, V x, const Over& o) {
  if (o.none) return x;
  bool all = static_cast<int>(o.dims.size()) == x.rank;
  return c.e.Reduce(op, x, all && !o.keepdim ? Ints{} : o.axes(), o.keepdim);
}
// The number of elements reduced, in `dtype`: a constant where known.
V Count(LoweringContext& c, ir::Value* self, const Over& o, DType dtype) {
  ir::Sym n = 1;
  for (int d : o.dims) n = n * self->sizes()[d];
  if (auto k = n.constant()) return c.e.Number(static_cast<double>(*k), dtype);
  V x = c.raw(self), total;
  for (int d : o.dims) {
    V s = c.e.DimScalar(x, d);
    total = total ? c.e.Mul(total, s) : s;
  }
  return c.e.Cast(total, dtype);
}

// Whether a sum of these integers may pass 2^53, up to which ONNX Runtime's ReduceSum, in part in f64, is exact.
bool MayPassF64(const ir::Value* v, const std::vector<int>& dims) {
  constexpr int64_t kMaxSum = int64_t{1} << 53;
  while (const ir::Node* n = v->producer()) {  // numbers of a narrower type, widened
    const ir::Value* from = n->op().traits.cast.empty() ? nullptr : n->Get(n->op().traits.cast).value();
    if (!from || !from->type().is_tensor() || (!ir::IsIntegral(from->dtype()) && !ir::IsBool(from->dtype()))) break;
    if (ir::BitSize(from->dtype()) < ir::BitSize(v->dtype()) || ir::IsBool(from->dtype()))
      v = from;
    else
      break;
  }
  if (!ir::IsIntegral(v->dtype())) return false;
  if (ir::BitSize(v->dtype()) == 64) return true;
  ir::Sym count = 1;
  for (int d : dims) count = count * v->sizes()[d];
  const auto n = count.constant();
  return n && *n > kMaxSum >> ir::BitSize(v->dtype());
}
// Such a sum as a product by ones, which is exact.
V SumByProduct(LoweringContext& c, V x, ir::Value* self, const Over& o) {
  std::vector<int> order;
  Ints axes = o.axes();
  for (int d = 0; d < x.rank; ++d)
    if (std::find(o.dims.begin(), o.dims.end(), d) == o.dims.end()) order.push_back(d);
  const int kept = static_cast<int>(order.size());
  order.insert(order.end(), o.dims.begin(), o.dims.end());
  std::sort(order.begin() + kept, order.end());
  x = c.e.Transpose(x, Ints(order.begin(), order.end()));
  if (x.rank - kept > 1) {
    ir::Sym count = 1;
    std::optional<Ints> sizes = Ints{};
    for (int d = 0; d < x.rank; ++d) {
      const ir::Sym size = self->sizes()[order[d]];
      if (d >= kept)
        count = count * size;
      else if (auto n = size.constant(); n && sizes)
        sizes->push_back(*n);
      else
        sizes.reset();
    }
    if (auto n = count.constant(); n && sizes) {
      sizes->push_back(*n);
      x = c.e.Reshape(x, *sizes);
    } else {
      V all = c.e.Op("ReduceProd", {ShapeRange(c.e, x, kept, x.rank)}, {{"keepdims", int64_t{1}}}, DType::kInt64, 1);
      x = c.e.Reshape(x, c.e.Concat({ShapeRange(c.e, x, 0, kept), all}, 0), kept + 1, true);
    }
  }
  V ones = c.e.Expand(c.e.Integer(1, x.dtype), c.e.Dim(x, kept), 1), sum;
  if (MayBeEmpty(self, {order.begin(), order.begin() + kept})) {
    // Of two plain matrices: ONNX Runtime does not broadcast a batch of no elements.
    V shape = ShapeRange(c.e, x, 0, kept),
      rows = c.e.Op("ReduceProd", {shape}, {{"keepdims", int64_t{1}}}, DType::kInt64, 1);
    x = c.e.Reshape(x, c.e.Concat({rows, c.e.Dim(x, kept)}, 0), 2, true);
    sum = c.e.Reshape(c.e.MatMul(x, c.e.Unsqueeze(ones, {1})), shape, kept, true);
  } else {
    sum = c.e.Op("MatMul", {x, ones}, {}, x.dtype, kept);
  }
  return o.keepdim ? c.e.Unsqueeze(sum, axes) : sum;
}
V SumOf(LoweringContext& c, V x, ir::Value* self, const Over& o) {
  if (x.dtype == DType::kInt64 && !o.dims.empty() && MayPassF64(self, o.dims)) return SumByProduct(c, x, self, o);
  return Reduce(c, "ReduceSum", x, o);
}
void Sum(LoweringContext& c) {
  V x = c.e.Cast(c.in("self"), c.compute_dtype());
  c.Return(SumOf(c, x, c.tensor("self"), ReadOver(c, x.rank)));
}
V MeanOf(LoweringContext& c, V x, ir::Value* self, const Over& o) {
  // Over nothing torch says NaN, ONNX Runtime 0.
  if (!MayBeMeanOfNothing(c, self, o.dims))
    return o.keepdim && !o.none && !o.dims.empty() ? KeptMean(c.e, x, o.axes()) : Reduce(c, "ReduceMean", x, o);
  return c.e.Div(Reduce(c, "ReduceSum", x, o), Count(c, self, o, x.dtype));
}
void Mean(LoweringContext& c) {
  V x = c.e.Cast(c.in("self"), c.compute_dtype());
  c.Return(MeanOf(c, x, c.tensor("self"), ReadOver(c, x.rank)));
}
V WithoutNan(LoweringContext& c, V x) { return c.e.Where(IsNan(c.e, x), c.e.Number(0, x.dtype), x); }
void NanSum(LoweringContext& c) {
  V x = c.in("self");
  if (ir::IsFloating(x.dtype)) x = WithoutNan(c, x);
  x = c.e.Cast(x, c.compute_dtype());
  c.Return(SumOf(c, x, c.tensor("self"), ReadOver(c, x.rank)));
}
void NanMean(LoweringContext& c) {
  V x = c.in("self");
  Over o = ReadOver(c, x.rank);
  DType t = c.compute_dtype();
  V count = Reduce(c, "ReduceSum", c.e.Cast(c.e.Not(IsNan(c.e, x)), t), o);
  c.Return(c.e.Div(Reduce(c, "ReduceSum", c.e.Cast(WithoutNan(c, x), t), o), count));
}
// The largest or smallest, NaN if there is one.
V Extremum(LoweringContext& c, V x, const Over& o, bool largest, bool nan) {
  DType t = x.dtype;
  if (ir::IsBool(t)) x = c.e.Cast(x, DType::kUInt8);
  V r = Reduce(c, largest ? "ReduceMax" : "ReduceMin", x, o);
  if (nan && ir::IsFloating(t)) {
    V any = Reduce(c, "ReduceMax", c.e.Cast(IsNan(c.e, x), DType::kUInt8), o);
    r = c.e.Where(c.e.Cast(any, DType::kBool), c.e.Number(std::nan(""), t), r);
  }
  return c.e.Cast(r, t);
}
template <bool largest>
void Extremum(LoweringContext& c) {
  V x = c.in("self");
  c.Return(Extremum(c, x, ReadOver(c, x.rank), largest, MayBeNan(c, c.tensor("self"))));
}
void AMinMax(LoweringContext& c) {
  V x = c.in("self");
  Over o = ReadOver(c, x.rank);
  bool nan = MayBeNan(c, c.tensor("self"));
  c.Return({Extremum(c, x, o, false, nan), Extremum(c, x, o, true, nan)});
}
// The position of the first extreme element, of the first NaN if there is one; the reduced dim is kept.
V ArgExtreme(LoweringContext& c, V x, int dim, bool largest, bool nan) {
  bool floating = ir::IsFloating(x.dtype);
  Attrs attrs = {{"axis", int64_t{dim}}, {"keepdims", int64_t{1}}};
  V key = ir::IsBool(x.dtype) ? c.e.Cast(x, DType::kUInt8) : x;
  V i = c.e.Op(largest ? "ArgMax" : "ArgMin", {key}, attrs, DType::kInt64);
  if (!nan || !floating) return i;
  V mask = c.e.Cast(IsNan(c.e, x), DType::kUInt8);
  V any = c.e.Cast(c.e.Reduce("ReduceMax", mask, {dim}, true), DType::kBool);
  return c.e.Where(any, c.e.Op("ArgMax", {mask}, attrs, DType::kInt64), i);
}
template <bool largest>
void ArgExtreme(LoweringContext& c) {
  V x = c.in("self");
  bool nan = MayBeNan(c, c.tensor("self")), keepdim = c.b("keepdim");
  if (x.rank == 0) return c.Return(c.e.I64Scalar(0));
  if (c.has("dim")) {
    int d = c.dim("dim", x.rank);
    V i = ArgExtreme(c, x, d, largest, nan);
    return c.Return(keepdim ? i : c.e.Squeeze(i, {d}));
  }
  V i = ArgExtreme(c, Flat(c.e, x), 0, largest, nan);
  c.Return(c.e.Reshape(i, Ints(keepdim ? x.rank : 0, 1)));
}
template <bool largest>
void ExtremumDim(LoweringContext& c) {  // values and positions
  V x = c.in("self");
  if (x.rank == 0) return c.Return({x, c.e.I64Scalar(0)});
  Over o = ReadOver(c, x.rank);
  bool nan = MayBeNan(c, c.tensor("self"));
  if (!c.used(1)) return c.Return({Extremum(c, x, o, largest, nan), V{}});
  int d = o.dims[0];
  V i = ArgExtreme(c, x, d, largest, nan);
  V v = c.e.Op("GatherElements", {x, i}, {{"axis", int64_t{d}}});
  c.Return(o.keepdim ? std::vector<V>{v, i} : std::vector<V>{c.e.Squeeze(v, {d}), c.e.Squeeze(i, {d})});
}

template <bool all>
void LogicalReduction(LoweringContext& c) {
  V x = c.in("self");
  V r = Reduce(c, all ? "ReduceMin" : "ReduceMax", NonZeroMask(c.e, x), ReadOver(c, x.rank));
  // The identity of the minimum over nothing is 255, true as it should be.
  c.Return(c.e.Cast(c.e.Cast(r, DType::kBool), c.out_dtype()));
}
void CountNonZero(LoweringContext& c) {
  V x = c.in("self");
  V mask = c.e.Cast(c.e.Cast(x, DType::kBool), DType::kInt64);
  c.Return(Reduce(c, "ReduceSum", mask, ReadOver(c, x.rank)));
}
void LogSumExp(LoweringContext& c) {
  V x = c.e.Cast(c.in("self"), c.compute_dtype());
  c.Return(Reduce(c, "ReduceLogSumExp", x, ReadOver(c, x.rank)));
}

// The p-norm of absolute values.
V Norm(LoweringContext& c, V x, double p, const Over& o, bool nan) {
  DType t = x.dtype;
  if (p == 2) return o.none ? c.e.Op("Abs", {x}) : Reduce(c, "ReduceL2", x, o);
  if (p == 1) return o.none ? c.e.Op("Abs", {x}) : Reduce(c, "ReduceL1", x, o);
  if (p == 0) return Reduce(c, "ReduceSum", c.e.Cast(c.e.Cast(x, DType::kBool), t), o);
  V a = c.e.Op("Abs", {x});
  if (std::isinf(p)) return Extremum(c, a, o, p > 0, nan);
  return c.e.Pow(Reduce(c, "ReduceSum", c.e.Pow(a, c.e.Number(p, t)), o), c.e.Number(1 / p, t));
}
double Order(LoweringContext& c, const char* name) {
  auto s = c.opt_scalar(name);
  if (!s) return 2;
  if (!s->is_constant() || s->kind == Scalar::kComplex) c.Unsupported("a norm of symbolic order");
  return s->d;
}
template <Str order>
void VectorNorm(LoweringContext& c) {
  if (ir::IsComplex(c.tensor("self")->dtype())) return c.Unsupported("complex numbers");
  V x = c.e.Cast(c.in("self"), c.compute_dtype());
  c.Return(Norm(c, x, Order(c, std::string_view(order).data()), ReadOver(c, x.rank), MayBeNan(c, c.tensor("self"))));
}
void Dist(LoweringContext& c) {
  DType t = c.compute_dtype();
  V d = c.e.Sub(c.e.Cast(c.in("self"), t), c.e.Cast(c.in("other"), t));
  Over o;
  for (int k = 0; k < d.rank; ++k) o.dims.push_back(k);
  c.Return(Norm(c, d, Order(c, "p"), o, true));
}

// Variance and mean. `correction` is what is taken from the count: 1 unless said.
std::pair<V, V> VarMean(LoweringContext& c, bool root) {
  ir::Value* self = c.tensor("self");
  if (ir::IsComplex(self->dtype())) return c.Unsupported("complex numbers"), std::pair<V, V>();
  V x = c.in("self");
  DType t = x.dtype;
  Over o = ReadOver(c, x.rank);
  const ir::OpDef& op = c.node().op();
  V correction = c.e.Number(1, t);
  double known = 1;
  bool is_known = true;
  if (op.ArgIndex("correction") >= 0) {
    if (auto s = c.opt_scalar("correction")) {
      correction = c.number(*s, t);
      is_known = s->is_constant(), known = s->d;
    }
  } else if (op.ArgIndex("unbiased") >= 0) {
    known = c.b("unbiased") ? 1 : 0;
    correction = c.e.Number(known, t);
  }
  Over kept = o;
  kept.keepdim = true;
  V mean = Reduce(c, "ReduceMean", x, kept);
  if (MayBeMeanOfNothing(c, self, o.dims)) mean = MeanOf(c, x, self, kept);
  V squares = Reduce(c, "ReduceSumSquare", c.e.Sub(x, mean), o);
  V n = Count(c, self, o, t);
  ir::Sym total = 1;
  for (int d : o.dims) total = total * self->sizes()[d];
  V divisor;
  if (auto k = total.constant(); k && is_known)
    divisor = c.e.Number(std::max(0.0, static_cast<double>(*k) - known), t);
  else
    divisor = c.e.Max(c.e.Sub(n, correction), c.e.Number(0, t));
  V var = c.e.Div(squares, divisor);
  if (root) var = c.e.Op("Sqrt", {var});
  V m = o.keepdim || o.dims.empty() ? mean : c.e.Squeeze(mean, o.axes());
  return {var, m};
}
template <bool root>
void Var(LoweringContext& c) {
  c.Return(VarMean(c, root).first);
}
template <bool root>
void VarMeanBoth(LoweringContext& c) {
  auto [var, mean] = VarMean(c, root);
  c.Return({var, mean});
}

void Trace(LoweringContext& c) {
  V x = c.e.Cast(c.in("self"), c.compute_dtype());
  V n = c.e.Min(c.e.DimScalar(x, 0), c.e.DimScalar(x, 1));
  V i = c.e.Unsqueeze(Iota(c.e, n), {1});
  V diagonal = c.e.Op("GatherND", {x, c.e.Concat({i, i}, 1)}, {}, x.dtype, 1);
  if (x.dtype == DType::kInt64 && MayPassF64(c.tensor("self"), {0})) {
    return c.Return(
        c.e.Op("MatMul", {diagonal, c.e.Expand(c.e.Integer(1, x.dtype), c.e.Shape(diagonal), 1)}, {}, x.dtype, 0));
  }
  c.Return(c.e.Reduce("ReduceSum", diagonal, {}, false));
}

// Running reductions.
void CumSum(LoweringContext& c) {
  V x = c.e.Cast(c.in("self"), c.compute_dtype());
  if (x.rank == 0) return c.Return(x);
  c.Return(c.e.Op("CumSum", {x, c.e.I64Scalar(c.dim("dim", x.rank))}));
}
// The start of a running reduction: `value` in the shape of x without `axis`.
V Start(LoweringContext& c, V x, int axis, V value) {
  V shape = c.e.Concat({ShapeRange(c.e, x, 0, axis), ShapeRange(c.e, x, axis + 1, x.rank)}, 0);
  return Filled(c.e, value, shape, x.rank - 1);
}
// ONNX Runtime multiplies integers in double precision, which is exact up to 2^53 only: those go through a loop.
V IntegerProduct(LoweringContext& c, V x, int axis) {
  V one = Start(c, x, axis, c.e.Integer(1, x.dtype));
  V running = ScanAlong(c, {one}, {c.e.Concat({c.e.Unsqueeze(one, {axis}), x}, axis)}, axis, false,
                        [](Emitter& e, std::vector<V>& state, const std::vector<V>& in, std::vector<V>& emit) {
                          state[0] = e.Mul(state[0], in[0]);
                          emit = {state[0]};
                        })[0];
  return c.e.Slice(running, {-1}, {kEnd}, {axis});
}
void Prod(LoweringContext& c) {
  V x = c.e.Cast(c.in("self"), c.compute_dtype());
  Over o = ReadOver(c, x.rank);
  if (ir::IsFloating(x.dtype) || ir::IsBool(c.tensor("self")->dtype())) return c.Return(Reduce(c, "ReduceProd", x, o));
  for (int d : o.dims) x = IntegerProduct(c, x, d);
  c.Return(o.keepdim || o.dims.empty() ? x : c.e.Squeeze(x, o.axes()));
}

void CumProd(LoweringContext& c) {
  V x = c.e.Cast(c.in("self"), c.compute_dtype());
  if (x.rank == 0) return c.Return(x);
  int d = c.dim("dim", x.rank);
  if (c.e.opset() >= 26) return c.Return(c.e.Op("CumProd", {x, c.e.I64Scalar(d)}));
  c.Return(ScanAlong(c, {Start(c, x, d, c.e.Number(1, x.dtype))}, {x}, d, MayBeEmpty(c.tensor("self"), {d}),
                     [](Emitter& e, std::vector<V>& state, const std::vector<V>& in, std::vector<V>& emit) {
                       state[0] = e.Mul(state[0], in[0]);
                       emit = {state[0]};
                     }));
}
void LogCumSumExp(LoweringContext& c) {
  V x = c.in("self");
  if (ir::IsComplex(x.dtype)) return c.Unsupported("complex numbers");
  if (x.rank == 0) return c.Return(x);
  int d = c.dim("dim", x.rank);
  c.Return(ScanAlong(c, {Start(c, x, d, c.e.Number(-kInfinity, x.dtype))}, {x}, d, MayBeEmpty(c.tensor("self"), {d}),
                     [](Emitter& e, std::vector<V>& state, const std::vector<V>& in, std::vector<V>& emit) {
                       V high = e.Max(state[0], in[0]), low = e.Min(state[0], in[0]);
                       // Equal infinities: their difference would be NaN.
                       V same = e.And(e.Equal(high, low), e.Op("IsInf", {high}, {}, DType::kBool));
                       V one = e.Number(1, high.dtype);
                       V u = e.Add(one, e.Op("Exp", {e.Sub(low, high)}));
                       state[0] = e.Where(same, high, e.Add(high, e.Op("Log", {u})));
                       emit = {state[0]};
                     }));
}
// Running extrema and the last position they were reached at; NaN stays once seen.
template <bool largest>
void CumExtremum(LoweringContext& c) {
  V x = c.in("self");
  if (x.rank == 0) return c.Return({x, c.e.I64Scalar(0)});
  int d = c.dim("dim", x.rank);
  DType t = x.dtype, w = ir::IsBool(t) ? DType::kUInt8 : ir::IsLowPrecision(t) ? DType::kFloat32 : t;
  x = c.e.Cast(x, w);
  bool nan = MayBeNan(c, c.tensor("self"));
  V position = c.e.Expand(Along(c.e, Iota(c.e, c.e.DimScalar(x, d)), d, x.rank), c.e.Shape(x), x.rank);
  std::vector<V> r =
      ScanAlong(c, {Start(c, x, d, Extreme(c.e, w, !largest)), Start(c, x, d, c.e.I64Scalar(0))}, {x, position}, d,
                MayBeEmpty(c.tensor("self"), {d}),
                [nan](Emitter& e, std::vector<V>& state, const std::vector<V>& in, std::vector<V>& emit) {
                  V better = largest ? e.GreaterEqual(in[0], state[0]) : e.LessEqual(in[0], state[0]);
                  if (nan) better = e.Or(IsNan(e, in[0]), better);  // a comparison with a NaN kept so far is false
                  state[0] = e.Where(better, in[0], state[0]);
                  state[1] = e.Where(better, in[1], state[1]);
                  emit = state;
                });
  c.Return({c.e.Cast(r[0], t), r[1]});
}

// clang-format off
constexpr Row kReductionRows[] = {
    {"aten.sum.default", Sum, true}, {"aten.sum.dim_IntList", Sum, kUnlessKept},
    {"aten.mean.default", Mean, true}, {"aten.mean.dim", Mean, kUnlessKept},
    {"aten.nansum.default", NanSum, true}, {"aten.nanmean.default", NanMean, true},
    {"aten.prod.default", Prod, true}, {"aten.prod.dim_int", Prod, true},
    {"aten.amax.default", Extremum<true>}, {"aten.amin.default", Extremum<false>},
    {"aten.max.default", Extremum<true>}, {"aten.min.default", Extremum<false>},
    {"aten.max.dim", ExtremumDim<true>}, {"aten.min.dim", ExtremumDim<false>},
    {"aten.aminmax.default", AMinMax},
    {"aten.argmax.default", ArgExtreme<true>}, {"aten.argmin.default", ArgExtreme<false>},
    {"aten.any.default", LogicalReduction<false>}, {"aten.any.dim", LogicalReduction<false>},
    {"aten.any.dims", LogicalReduction<false>},
    {"aten.all.default", LogicalReduction<true>}, {"aten.all.dim", LogicalReduction<true>},
    {"aten.all.dims", LogicalReduction<true>},
    {"aten.count_nonzero.default", CountNonZero}, {"aten.count_nonzero.dim_IntList", CountNonZero},
    {"aten.logsumexp.default", LogSumExp, true}, {"aten.special_logsumexp.default", LogSumExp, true},
    {"aten.linalg_vector_norm.default", VectorNorm<"ord">, true},
    {"aten.norm.Scalar", VectorNorm<"p">, true}, {"aten.norm.ScalarOpt_dim", VectorNorm<"p">, true},
    {"aten.norm.ScalarOpt_dim_dtype", VectorNorm<"p">, true}, {"aten.norm.ScalarOpt_dtype", VectorNorm<"p">, true},
    {"aten.dist.default", Dist, true},
    {"aten.var.default", Var<false>, true}, {"aten.var.dim", Var<false>, true},
    {"aten.var.correction", Var<false>, true},
    {"aten.std.default", Var<true>, true}, {"aten.std.dim", Var<true>, true}, {"aten.std.correction", Var<true>, true},
    {"aten.var_mean.default", VarMeanBoth<false>, true}, {"aten.var_mean.dim", VarMeanBoth<false>, true},
    {"aten.var_mean.correction", VarMeanBoth<false>, true},
    {"aten.std_mean.default", VarMeanBoth<true>, true}, {"aten.std_mean.dim", VarMeanBoth<true>, true},
    {"aten.std_mean.correction", VarMeanBoth<true>, true},
    {"aten.trace.default", Trace, true},
    {"aten.cumsum.default", CumSum, true}, {"aten.cumprod.default", CumProd, true},
    {"aten.logcumsumexp.default", LogCumSumExp, true}, {"aten._logcumsumexp.default", LogCumSumExp, true},
    {"aten.cummax.default", CumExtremum<true>}, {"aten.cummin.default", CumExtremum<false>},
};
// clang-format on

}  // namespace

absl::Span<const Row> ReductionRows() { return kReductionRows; }

}  // namespace slipway::exporters::onnx_out
