// Order: sorting, selection by rank, quantiles, distinct values, search among sorted values, histograms.
#include <cmath>

#include "exporters/onnx/lowerings/data.h"

namespace slipway::exporters::onnx_out {
namespace {

using ir::IntOrValue;
using ir::Scalar;

V GatherAlong(Emitter& e, V x, V index, int axis) {
  return e.Op("GatherElements", {x, index}, {{"axis", int64_t{axis}}}, x.dtype, x.rank);
}

// ---- Sorting. ONNX TopK breaks ties by position, so taking all elements is a stable sort. torch leaves the order of
// equal elements open unless it is asked for a stable sort: any is right, this one too.
std::pair<V, V> SortAll(LoweringContext& c, V x, int axis, bool descending) {
  return TopK(c.e, x, c.e.Dim(x, axis), axis, descending, MayBeNan(c, c.tensor("self")));
}
void Sort(LoweringContext& c) {
  V x = c.in("self");
  if (x.rank == 0) return c.Return({x, c.e.I64Scalar(0)});
  auto [v, i] = SortAll(c, x, c.dim("dim", x.rank), c.b("descending"));
  c.Return({v, i});
}
void ArgSort(LoweringContext& c) {
  V x = c.in("self");
  if (x.rank == 0) return c.Return(c.e.I64Scalar(0));
  c.Return(SortAll(c, x, c.dim("dim", x.rank), c.b("descending")).second);
}
void MSort(LoweringContext& c) {
  V x = c.in("self");
  c.Return(x.rank == 0 ? x : SortAll(c, x, 0, false).first);
}
void TopKOp(LoweringContext& c) {
  V x = c.in("self");
  IntOrValue k = c.sym("k");
  if (x.rank == 0) {  // k is 0 or 1 and keeps a 0-d result
    return c.Return({x, c.e.I64Scalar(0)});
  }
  auto [v, i] =
      TopK(c.e, x, c.dim1(k), c.dim("dim", x.rank), c.b("largest"), MayBeNan(c, c.tensor("self")), c.b("sorted"));
  c.Return({v, i});
}
void Kthvalue(LoweringContext& c) {
  V x = c.in("self");
  if (x.rank == 0) return c.Return({x, c.e.I64Scalar(0)});
  int d = c.dim("dim", x.rank);
  V k = c.dim1(c.sym("k"));
  auto [v, i] = TopK(c.e, x, k, d, false, MayBeNan(c, c.tensor("self")));
  V last = c.b("keepdim") ? c.e.I64({-1}) : c.e.I64Scalar(-1);
  c.Return({c.e.Gather(v, last, d), c.e.Gather(i, last, d)});
}

// The lower median: element (n - 1) / 2 in order, of all elements, or of those that are numbers; a NaN among all is the
// median. `x` is reduced along `d`, which is kept.
std::pair<V, V> MedianAlong(LoweringContext& c, V x, int d, bool skip_nan, bool nan) {
  auto [v, i] = TopK(c.e, x, c.e.Dim(x, d), d, false, nan);
  V one = c.e.I64({1}), two = c.e.I64({2});
  V middle = c.e.Div(c.e.Sub(c.e.Dim(x, d), one), two);
  if (!nan || !ir::IsFloating(x.dtype)) return {c.e.Gather(v, middle, d), c.e.Gather(i, middle, d)};
  V numbers = c.e.Reduce("ReduceSum", c.e.Cast(c.e.Not(IsNan(c.e, v)), DType::kInt64), {d}, true);
  V at = c.e.Div(c.e.Sub(numbers, one), two);
  if (!skip_nan) {
    // The first NaN in order follows the numbers.
    at = c.e.Where(c.e.Less(numbers, c.e.Dim(x, d)), numbers, at);
  } else {
    at = c.e.Max(at, c.e.I64Scalar(0));
  }
  return {GatherAlong(c.e, v, at, d), GatherAlong(c.e, i, at, d)};
}
template <bool skip_nan>
void MedianDim(LoweringContext& c) {
  V x = c.in("self");
  if (x.rank == 0) return c.Return({x, c.e.I64Scalar(0)});
  int d = c.dim("dim", x.rank);
  auto [v, i] = MedianAlong(c, x, d, skip_nan, MayBeNan(c, c.tensor("self")));
  if (c.b("keepdim")) return c.Return({v, i});
  c.Return({c.e.Squeeze(v, {d}), c.e.Squeeze(i, {d})});
}
template <bool skip_nan>
void MedianAll(LoweringContext& c) {
  ir::Value* self = c.tensor("self");
  std::vector<int> all;
  for (int d = 0; d < self->rank(); ++d) all.push_back(d);
  if (MayBeEmpty(self, all)) return c.Unsupported("the median of a tensor that may be empty");
  V x = Flat(c.e, c.in("self"));
  c.Return(c.e.Squeeze(MedianAlong(c, x, 0, skip_nan, MayBeNan(c, self)).first, {0}));
}

// The most frequent value, the smallest of those, and its last position.
void Mode(LoweringContext& c) {
  V x = c.in("self");
  if (x.rank == 0) return c.Return({x, c.e.I64Scalar(0)});
  int d = c.dim("dim", x.rank);
  auto [v, i] = SortAll(c, x, d, false);
  V key = ir::IsBool(v.dtype) ? c.e.Cast(v, DType::kUInt8) : v;
  V same = c.e.Equal(c.e.Unsqueeze(key, {d}), c.e.Unsqueeze(key, {d + 1}));
  V count = c.e.Reduce("ReduceSum", c.e.Cast(same, DType::kInt64), {d + 1}, false);
  // In order, equal values stand together: the first of the longest run, then its last.
  V first = c.e.Op("ArgMax", {count}, {{"axis", int64_t{d}}, {"keepdims", int64_t{1}}}, DType::kInt64);
  V last = c.e.Add(first, c.e.Max(c.e.Sub(GatherAlong(c.e, count, first, d), c.e.I64Scalar(1)), c.e.I64Scalar(0)));
  V value = GatherAlong(c.e, v, last, d), at = GatherAlong(c.e, i, last, d);
  if (c.b("keepdim")) return c.Return({value, at});
  c.Return({c.e.Squeeze(value, {d}), c.e.Squeeze(at, {d})});
}

// Quantiles: the sorted values at q * (n - 1), between two by `interpolation`.
template <bool skip_nan>
void Quantile(LoweringContext& c) {
  ir::Value* self = c.tensor("self");
  V x = c.in("self");
  DType t = x.dtype;
  int rank = x.rank;
  bool keepdim = c.b("keepdim"), all = !c.has("dim");
  int d = 0;
  V work = x;
  if (all || rank == 0) {
    work = Flat(c.e, rank == 0 ? c.e.Reshape(x, {1}) : x);
  } else {
    d = c.dim("dim", rank);
    std::vector<int> order;
    for (int k = 0; k < rank; ++k)
      if (k != d) order.push_back(k);
    work = c.e.Transpose(x, FrontFirst(order, rank));  // the reduced dim last
  }
  int axis = work.rank - 1;
  const ir::Arg& qa = c.node().Get("q");
  V q;
  int q_rank = 0;
  if (ir::Value* qv = qa.value(); qv && qv->type().is_tensor()) {
    q = c.e.Cast(c.value(qv), t);
    q_rank = q.rank;
    if (q_rank > 1) return c.Unsupported("q of more than one dim");
    if (q_rank == 0) q = c.e.Reshape(q, {1});
  } else {
    q = c.e.Unsqueeze(c.number(c.scalar("q"), t), {0});
  }
  V sorted = TopK(c.e, work, c.e.Dim(work, axis), axis, false, MayBeNan(c, self)).first;
  // Ranks: [..., |q|], one row for each row of values.
  V one = c.e.Number(1, t), zero = c.e.Number(0, t), last = c.e.Cast(c.e.Sub(c.e.Dim(work, axis), c.e.I64({1})), t);
  V numbers = c.e.Reduce("ReduceSum", c.e.Cast(c.e.Not(IsNan(c.e, sorted)), t), {axis}, true);
  V ranks;
  if (skip_nan) {
    ranks = c.e.Max(c.e.Mul(q, c.e.Sub(numbers, one)), zero);
  } else {
    ranks = c.e.Where(c.e.Less(c.e.Sub(numbers, one), last), last, c.e.Mul(q, last));
  }
  ranks.rank = work.rank;
  std::string how = c.str("interpolation");
  if (how == "lower")
    ranks = c.e.Op("Floor", {ranks});
  else if (how == "higher")
    ranks = c.e.Op("Ceil", {ranks});
  else if (how == "nearest")
    ranks = c.e.Op("Round", {ranks});
  else if (how != "linear" && how != "midpoint")
    return c.Fail("unknown interpolation");
  V below = c.e.Cast(ranks, DType::kInt64);
  V y = GatherAlong(c.e, sorted, below, axis);
  if (how == "linear" || how == "midpoint") {
    V upper = GatherAlong(c.e, sorted, c.e.Cast(c.e.Op("Ceil", {ranks}), DType::kInt64), axis);
    V weight = how == "midpoint" ? c.e.Number(0.5, t) : c.e.Sub(ranks, c.e.Cast(below, t));
    V step = c.e.Sub(upper, y);
    // As torch's lerp: from the nearer end.
    y = c.e.Where(c.e.Less(weight, c.e.Number(0.5, t)), c.e.Add(y, c.e.Mul(weight, step)),
                  c.e.Sub(upper, c.e.Mul(step, c.e.Sub(one, weight))));
    // Infinite neighbours that are equal: no step between them.
    y = c.e.Where(c.e.Equal(GatherAlong(c.e, sorted, below, axis), upper), upper, y);
  }
  y.rank = work.rank;
  // To [|q|, kept dims], the reduced dim of size 1 where asked for.
  std::vector<int> front = {axis};
  y = c.e.Transpose(y, FrontFirst(front, y.rank));
  if (keepdim) {
    if (all) {
      Ints axes;
      for (int k = 0; k < rank; ++k) axes.push_back(k + 1);
      y = c.e.Unsqueeze(y, axes);
    } else if (rank > 0) {
      y = c.e.Unsqueeze(y, {d + 1});
    }
  }
  c.Return(q_rank == 0 ? c.e.Squeeze(y, {0}) : y);
}

// ---- Distinct values.
V Empty(LoweringContext& c, DType t) { return c.e.Const(t, {0}, ""); }

// Whether a result is wanted: along a dimension torch gives all of them, asked for or not.
bool Gives(LoweringContext& c, const char* flag) {
  const ir::OpDef& op = c.node().op();
  return (op.ArgIndex(flag) >= 0 && c.b(flag)) || (op.ArgIndex("dim") >= 0 && c.has("dim"));
}
void Unique(LoweringContext& c) {
  ir::Value* self = c.tensor("self");
  V x = c.in("self");
  Attrs attrs = {{"sorted", int64_t{1}}};
  bool by_dim = c.node().op().ArgIndex("dim") >= 0 && c.has("dim");
  if (by_dim) attrs.push_back({"axis", int64_t{c.dim("dim", x.rank)}});
  std::vector<V> r = c.e.OpN("Unique", {x}, attrs, {x.dtype, DType::kInt64, DType::kInt64, DType::kInt64});
  r[0].rank = by_dim ? x.rank : 1;
  const bool inverse = Gives(c, "return_inverse");
  V back = inverse ? r[2] : Empty(c, DType::kInt64);
  back.rank = 1;
  if (inverse && !by_dim) back = c.e.Reshape(back, c.shape_of(self), self->rank(), true);
  c.Return({r[0], back, Gives(c, "return_counts") ? r[3] : Empty(c, DType::kInt64)});
}
void UniqueConsecutive(LoweringContext& c) {
  ir::Value* self = c.tensor("self");
  V x = c.in("self");
  bool by_dim = c.has("dim");
  int d = by_dim ? c.dim("dim", x.rank) : 0;
  if (!by_dim || x.rank == 0) x = Flat(c.e, x.rank == 0 ? c.e.Reshape(x, {1}) : x);
  // The first of each run: unlike the element before, the very first always.
  V low = ir::IsLowPrecision(x.dtype) ? c.e.Cast(x, DType::kFloat32) : x;
  V differs = c.e.Not(c.e.Equal(c.e.Slice(low, {1}, {kEnd}, {d}), c.e.Slice(low, {0}, {-1}, {d})));
  if (x.rank > 1) {
    Ints others;
    for (int k = 0; k < x.rank; ++k)
      if (k != d) others.push_back(k);
    differs = c.e.Cast(c.e.Reduce("ReduceMax", c.e.Cast(differs, DType::kUInt8), others, false), DType::kBool);
  }
  V n = c.e.Dim(x, d);
  V yes = c.e.Expand(c.e.BoolConst(true), c.e.Min(n, c.e.I64({1})), 1);
  V starts = c.e.Concat({yes, differs}, 0);
  starts.rank = 1;
  V values = c.e.Op("Compress", {x, starts}, {{"axis", int64_t{d}}}, x.dtype, x.rank);
  V inverse = Empty(c, DType::kInt64), counts = inverse;
  if (Gives(c, "return_inverse")) {
    inverse = c.e.Sub(c.e.Op("CumSum", {c.e.Cast(starts, DType::kInt64), c.e.I64Scalar(0)}), c.e.I64Scalar(1));
    if (!by_dim) inverse = c.e.Reshape(inverse, c.shape_of(self), self->rank(), true);
  }
  if (Gives(c, "return_counts")) {
    V begin = c.e.Squeeze(c.e.Op("NonZero", {starts}, {}, DType::kInt64, 2), {0});
    V end = c.e.Concat({c.e.Slice(begin, {1}, {kEnd}, {0}), n}, 0);
    // Of nothing: no run, and no end either.
    end = c.e.SliceV(end, c.e.I64({0}), c.e.Dim(begin, 0), {0});
    counts = c.e.Sub(end, begin);
  }
  c.Return({values, inverse, counts});
}

// ---- Search among sorted values.
V SearchResult(LoweringContext& c, V edges, V values, bool right) {
  return c.e.Cast(CountEdges(c.e, edges, values, right), c.out_dtype());
}
// A tensor or number as a value to look for among `edges`.
V Sought(LoweringContext& c, const char* name, DType* common, V* edges) {
  const ir::Arg& a = c.node().Get(name);
  ir::Value* v = a.value();
  if (v && v->type().is_tensor()) {
    V x = c.value(v);
    *common = ir::PromoteTypes(x.dtype, edges->dtype);
    *edges = c.e.Cast(*edges, *common);
    return c.e.Cast(x, *common);
  }
  Scalar s = c.scalar(name);
  *common = s.cls() == ir::DTypeClass::kFloating && !ir::IsFloating(edges->dtype) ? DType::kFloat32 : edges->dtype;
  *edges = c.e.Cast(*edges, *common);
  return c.number(s, *common);
}
void SearchSorted(LoweringContext& c) {
  V edges = c.in("sorted_sequence");
  bool right = c.b("right");
  if (auto side = c.opt_str("side")) right |= *side == "right";
  if (V sorter = c.opt_in("sorter")) edges = GatherAlong(c.e, edges, sorter, edges.rank - 1);
  DType t;
  V v = Sought(c, "self", &t, &edges);
  c.Return(SearchResult(c, edges, v, right));
}
void Bucketize(LoweringContext& c) {
  V edges = c.in("boundaries");
  DType t;
  V v = Sought(c, "self", &t, &edges);
  c.Return(SearchResult(c, edges, v, c.b("right")));
}
void IsIn(LoweringContext& c) {
  const ir::OpDef& op = c.node().op();
  const char* left = op.ArgIndex("elements") >= 0 ? "elements" : "element";
  const char* right = op.ArgIndex("test_elements") >= 0 ? "test_elements" : "test_element";
  DType t = Widened(Promoted(c, left, right));
  V x = Operand(c, left, t), among = Operand(c, right, t);
  V flat = among.rank == 1 ? among : c.e.Reshape(among, Ints{-1});
  V equal = c.e.Equal(c.e.Unsqueeze(x, {x.rank}), flat);
  V found = c.e.Cast(c.e.Reduce("ReduceMax", c.e.Cast(equal, DType::kUInt8), {x.rank}, false), DType::kBool);
  c.Return(c.b("invert") ? c.e.Not(found) : found);
}

// ---- Histograms.
// Counts into `n` (1-D) bins at positions `at` (1-D) of `weights` (1-D).
V Tally(Emitter& e, V n, V at, V weights) {
  V zero = e.Expand(e.Number(0, weights.dtype), n, 1);
  return e.Op("ScatterElements", {zero, at, weights}, {{"axis", int64_t{0}}, {"reduction", std::string("add")}},
              weights.dtype, 1);
}
void BinCount(LoweringContext& c) {
  V x = c.e.Cast(c.in("self"), DType::kInt64);
  V w = c.opt_in("weights");
  DType t = c.out_dtype();
  w = w ? c.e.Cast(w, t) : c.e.Expand(c.e.Integer(1, t), c.e.Shape(x), 1);
  // One more than the largest, where there is one.
  V least = c.e.Concat({x, c.e.I64({-1})}, 0);
  V n = c.e.Add(c.e.Reduce("ReduceMax", least, {0}, true), c.e.I64({1}));
  n = c.e.Max(n, c.dim1(c.sym("minlength")));
  c.Return(Tally(c.e, n, x, w));
}

// `bins` + 1 evenly spaced edges from `low` to `high` (0-d), as torch.linspace rounds them.
V EvenEdges(Emitter& e, V low, V high, int64_t bins, DType t) {
  std::vector<double> up, down;
  for (int64_t i = 0; i <= bins; ++i)
    up.push_back(static_cast<double>(i)), down.push_back(static_cast<double>(bins - i));
  V step = e.Div(e.Sub(high, low), e.Number(static_cast<double>(bins), t));
  V i = e.Numbers(up, t, {bins + 1}), k = e.Numbers(down, t, {bins + 1});
  V half = e.Number(static_cast<double>((bins + 1) / 2), t);
  V r = e.Where(e.Less(i, half), e.Add(low, e.Mul(step, i)), e.Sub(high, e.Mul(step, k)));
  r.rank = 1;
  return r;
}
// Which bin of `edges` (1-D, n + 1 of them) each of `x` (1-D) is in, and whether it is in any; the last bin is closed.
std::pair<V, V> BinOf(Emitter& e, V x, V edges) {
  V n = e.Sub(e.Dim(edges, 0), e.I64({1}));
  V bin = e.Sub(CountEdges(e, edges, x, true), e.I64Scalar(1));
  V last = e.Sub(n, e.I64({1}));
  V low = e.Gather(edges, e.I64Scalar(0), 0), high = e.Gather(edges, e.I64Scalar(-1), 0);
  V in = e.And(e.GreaterEqual(x, low), e.LessEqual(x, high));
  bin = e.Max(e.Min(bin, last), e.I64({0}));
  bin.rank = 1;
  return {bin, in};
}
std::pair<V, V> DataRange(LoweringContext& c, V x) {
  return {c.e.Reduce("ReduceMin", x, {}, false), c.e.Reduce("ReduceMax", x, {}, false)};
}
// A range that is a point, widened on both sides.
std::pair<V, V> Widen(LoweringContext& c, std::pair<V, V> range, double by) {
  auto [low, high] = range;
  V point = c.e.Equal(low, high), d = c.e.Number(by, low.dtype);
  return {c.e.Where(point, c.e.Sub(low, d), low), c.e.Where(point, c.e.Add(high, d), high)};
}
constexpr int64_t kMaxBins = 1 << 20;

void HistC(LoweringContext& c) {
  if (ir::IsLowPrecision(c.tensor("self")->dtype())) return c.Unsupported("half precision: torch rounds every step");
  ir::Value* self = c.tensor("self");
  V x = Flat(c.e, c.in("self"));
  DType t = x.dtype;
  int64_t bins = c.i("bins");
  if (bins < 1 || bins > kMaxBins) return c.Unsupported("this number of bins");
  std::vector<int> all;
  for (int d = 0; d < self->rank(); ++d) all.push_back(d);
  Scalar lo = c.scalar("min"), hi = c.scalar("max");
  bool given = lo.is_constant() && hi.is_constant() && lo.d != hi.d;
  if (!given && MayBeEmpty(self, all)) return c.Unsupported("bins from the range of a tensor that may be empty");
  V low = c.number(lo, t), high = c.number(hi, t);
  if (!given) {
    // Both ends the same: the range of the values.
    V same = c.e.Equal(low, high);
    auto [data_low, data_high] = DataRange(c, x);
    std::tie(low, high) = Widen(c, {c.e.Where(same, data_low, low), c.e.Where(same, data_high, high)}, 1);
  }
  V edges = EvenEdges(c.e, low, high, bins, t);
  auto [bin, in] = BinOf(c.e, x, edges);
  c.Return(Tally(c.e, c.e.I64({bins}), bin, c.e.Cast(in, t)));
}

// The outer edges of a histogram: entries `at` and `at` + 1 of the given range, or the range of the values.
std::pair<V, V> OuterEdges(LoweringContext& c, V x, ir::Value* self, const std::optional<std::vector<double>>& range,
                           size_t at) {
  if (range) return Widen(c, {c.e.Number((*range)[at], x.dtype), c.e.Number((*range)[at + 1], x.dtype)}, 0.5);
  std::vector<int> all;
  for (int d = 0; d < self->rank(); ++d) all.push_back(d);
  if (MayBeEmpty(self, all)) c.Unsupported("bins from the range of a tensor that may be empty");
  return Widen(c, DataRange(c, x), 0.5);
}
// Counts, and where asked for densities: counts over (total * width).
V Density(Emitter& e, V counts, V edges) {
  V width = e.Sub(e.Slice(edges, {1}, {kEnd}, {0}), e.Slice(edges, {0}, {-1}, {0}));
  return e.Div(e.Div(counts, width), e.Reduce("ReduceSum", counts, {}, false));
}
void Histogram(LoweringContext& c) {
  ir::Value* self = c.tensor("self");
  V x = Flat(c.e, c.in("self"));
  DType t = x.dtype;
  V edges;
  if (c.node().op().ArgIndex("range") >= 0) {
    int64_t bins = c.i("bins");
    if (bins < 1 || bins > kMaxBins) return c.Unsupported("this number of bins");
    auto range = c.opt_floats("range");
    if (range && range->size() != 2) return c.Fail("range is not two numbers");
    auto [low, high] = OuterEdges(c, x, self, range, 0);
    edges = EvenEdges(c.e, low, high, bins, t);
  } else {
    edges = c.in("bins");
  }
  auto [bin, in] = BinOf(c.e, x, edges);
  V weights = c.e.Cast(in, t);
  if (V w = c.opt_in("weight")) weights = c.e.Where(in, Flat(c.e, w), c.e.Number(0, t));
  V counts = Tally(c.e, c.e.Sub(c.e.Dim(edges, 0), c.e.I64({1})), bin, weights);
  if (c.b("density")) counts = Density(c.e, counts, edges);
  c.Return({counts, edges});
}
// Points in several dims: x is [n, d], one list of edges a dim.
void HistogramDd(LoweringContext& c) {
  V x = c.in("self");
  DType t = x.dtype;
  ir::Value* self = c.tensor("self");
  auto dims = self->sizes().empty() ? std::nullopt : self->sizes().back().constant();
  if (!dims || *dims < 1) return c.Unsupported("a symbolic number of coordinates");
  int64_t n = *dims;
  if (x.rank != 2) x = c.e.Reshape(x, Ints{-1, n});
  std::vector<V> edges;
  const ir::Arg& bins_arg = c.node().Get("bins");
  if (bins_arg.is<ir::Values>()) {
    for (ir::Value* v : c.tensors("bins")) edges.push_back(c.value(v));
  } else {
    Ints bins = c.ints("bins");
    if (bins.size() == 1) bins.resize(static_cast<size_t>(n), bins[0]);
    auto range = c.opt_floats("range");
    if (range && static_cast<int64_t>(range->size()) != 2 * n) return c.Fail("range is not two numbers a dim");
    if (static_cast<int64_t>(bins.size()) != n) return c.Fail("bins and coordinates differ in number");
    for (int64_t k = 0; k < n; ++k) {
      if (bins[k] < 1 || bins[k] > kMaxBins) return c.Unsupported("this number of bins");
      V column = c.e.Gather(x, c.e.I64Scalar(k), 1);
      auto [low, high] = OuterEdges(c, column, self, range, static_cast<size_t>(2 * k));
      edges.push_back(EvenEdges(c.e, low, high, bins[k], t));
    }
  }
  if (static_cast<int64_t>(edges.size()) != n) return c.Fail("bins and coordinates differ in number");
  V at, in, sizes;
  std::vector<V> counts_shape;
  for (int64_t k = 0; k < n; ++k) {
    V column = c.e.Gather(x, c.e.I64Scalar(k), 1);
    auto [bin, inside] = BinOf(c.e, column, edges[k]);
    V size = c.e.Sub(c.e.Dim(edges[k], 0), c.e.I64({1}));
    counts_shape.push_back(size);
    at = at ? c.e.Add(c.e.Mul(at, size), bin) : bin;
    in = in ? c.e.And(in, inside) : inside;
    sizes = sizes ? c.e.Mul(sizes, size) : size;
  }
  V weights = c.e.Cast(in, t);
  if (V w = c.opt_in("weight")) weights = c.e.Where(in, Flat(c.e, w), c.e.Number(0, t));
  V counts = c.e.Reshape(Tally(c.e, sizes, at, weights), c.e.Concat(counts_shape, 0), static_cast<int>(n));
  if (c.b("density")) {
    V total = c.e.Reduce("ReduceSum", counts, {}, false);
    for (int64_t k = 0; k < n; ++k) {
      V width = c.e.Sub(c.e.Slice(edges[k], {1}, {kEnd}, {0}), c.e.Slice(edges[k], {0}, {-1}, {0}));
      counts = c.e.Div(counts, Along(c.e, width, static_cast<int>(k), static_cast<int>(n)));
    }
    counts = c.e.Div(counts, total);
  }
  std::vector<V> out = {counts};
  out.insert(out.end(), edges.begin(), edges.end());
  c.Return(out);
}

// clang-format off
constexpr Row kSortRows[] = {
    {"aten.sort.default", Sort}, {"aten.sort.stable", Sort}, {"aten.argsort.default", ArgSort},
    {"aten.argsort.stable", ArgSort},
    {"aten.msort.default", MSort}, {"aten.topk.default", TopKOp}, {"aten.kthvalue.default", Kthvalue},
    {"aten.median.default", MedianAll<false>}, {"aten.nanmedian.default", MedianAll<true>},
    {"aten.median.dim", MedianDim<false>}, {"aten.nanmedian.dim", MedianDim<true>}, {"aten.mode.default", Mode},
    {"aten.quantile.default", Quantile<false>}, {"aten.quantile.scalar", Quantile<false>},
    {"aten.nanquantile.default", Quantile<true>}, {"aten.nanquantile.scalar", Quantile<true>},
    {"aten._unique2.default", Unique}, {"aten._unique.default", Unique}, {"aten.unique_dim.default", Unique},
    {"aten.unique_consecutive.default", UniqueConsecutive}, {"aten.unique_dim_consecutive.default", UniqueConsecutive},
    {"aten.searchsorted.Tensor", SearchSorted}, {"aten.searchsorted.Scalar", SearchSorted},
    {"aten.bucketize.Tensor", Bucketize}, {"aten.bucketize.Scalar", Bucketize},
    {"aten.isin.Tensor_Tensor", IsIn}, {"aten.isin.Tensor_Scalar", IsIn}, {"aten.isin.Scalar_Tensor", IsIn},
    {"aten.bincount.default", BinCount}, {"aten.histc.default", HistC, true},
    {"aten.histogram.bin_ct", Histogram}, {"aten.histogram.bins_tensor", Histogram},
    {"aten.histogramdd.default", HistogramDd}, {"aten.histogramdd.int_bins", HistogramDd},
    {"aten.histogramdd.TensorList_bins", HistogramDd},
};
// clang-format on

}  // namespace

absl::Span<const Row> SortRows() { return kSortRows; }

}  // namespace slipway::exporters::onnx_out
