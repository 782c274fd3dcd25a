// Writing by index: scatters with every reduction, index_put and its kin, writes into slices, diagonals and strides,
// segment reductions.
#include <algorithm>
#include <functional>

#include "exporters/onnx/lowerings/data.h"
#include "exporters/onnx/lowerings/index.h"

namespace slipway::exporters::onnx_out {
namespace {

using ir::IntOrValue;

// The type a reducing scatter runs in: ONNX Runtime adds f32, f64 and integers of 8, 32 and 64 bits.
DType ScatterType(DType t) {
  if (ir::IsLowPrecision(t)) return DType::kFloat32;
  if (ir::IsBool(t)) return DType::kInt32;
  return t == DType::kInt16 || t == DType::kUInt16 ? DType::kInt32 : t;
}

V ScatterElements(Emitter& e, V x, V index, V updates, int axis, std::string_view reduction) {
  Attrs attrs = {{"axis", int64_t{axis}}};
  if (reduction != "none") attrs.push_back({"reduction", std::string(reduction)});
  return e.Op("ScatterElements", {x, index, updates}, std::move(attrs));
}
V ScatterNd(Emitter& e, V x, V index, V updates, std::string_view reduction) {
  Attrs attrs;
  if (reduction != "none") attrs.push_back({"reduction", std::string(reduction)});
  return e.Op("ScatterND", {x, index, updates}, std::move(attrs));
}

// How a reducing scatter is built from a plain one, whatever the way of indexing: `scatter(x, updates, reduction)` puts
// updates into x, `fill(value)` spreads a number to the updates' shape.
using Scatter = std::function<V(V x, V updates, std::string_view reduction)>;
V ReduceInto(LoweringContext& c, V x, V updates, std::string how, bool include_self, const Scatter& scatter,
             const std::function<V(V)>& fill) {
  Emitter& e = c.e;
  DType t = x.dtype, w = ScatterType(t);
  x = e.Cast(x, w), updates = e.Cast(updates, w);
  if (how == "sum" || how == "add")
    how = "add";
  else if (how == "prod" || how == "multiply" || how == "mul")
    how = "mul";
  else if (how == "amax")
    how = "max";
  else if (how == "amin")
    how = "min";
  else if (how != "mean")
    return c.Fail("unknown reduction"), x;
  if (!include_self) {
    // What is touched starts over from the reduction's identity.
    V identity = how == "mul"                   ? e.Integer(1, w)
                 : how == "max" || how == "min" ? Extreme(e, w, how == "min")
                                                : e.Integer(0, w);
    x = scatter(x, fill(identity), "none");
  }
  if (how != "mean") return e.Cast(scatter(x, updates, how), t);
  V sum = scatter(x, updates, "add");
  if (!ir::IsFloating(w)) sum = e.Cast(e.Cast(sum, t), w);  // sums of integers wrap in their own type
  V count = e.Expand(e.Integer(include_self ? 1 : 0, w), e.Shape(x), x.rank);
  count = e.Max(scatter(count, fill(e.Integer(1, w)), "add"), e.Integer(1, w));
  V mean = e.Div(sum, count);
  if (!ir::IsFloating(w)) {  // rounds down
    V rest = e.Sub(sum, e.Mul(mean, count));
    mean = e.Sub(mean, e.Cast(e.Less(rest, e.Integer(0, w)), w));
  }
  return e.Cast(mean, t);
}

// ---- scatter: positions along one dim, one an element.
struct Elements {
  V x, index;
  int axis = 0;
  bool nothing = false;  // an empty index changes nothing
};
Elements ReadElements(LoweringContext& c) {
  Elements r;
  ir::Value* index = c.tensor("index");
  r.x = AtLeast1d(c.e, c.in("self"));
  r.index = AtLeast1d(c.e, c.e.Cast(c.raw(index), DType::kInt64));
  r.axis = c.dim("dim", r.x.rank);
  r.nothing = index->type().StaticNumel() == 0;
  if (!r.nothing && r.index.rank != r.x.rank) c.Fail("index and self differ in rank");
  return r;
}
// The part of `src` that the index covers.
V Covered(LoweringContext& c, const char* name, V index) {
  ir::Value* v = c.tensor(name);
  V src = AtLeast1d(c.e, c.in(name));
  if (v->sizes() == c.tensor("index")->sizes() || src.rank != index.rank) return src;
  Ints axes, zeros(src.rank, 0);
  for (int d = 0; d < src.rank; ++d) axes.push_back(d);
  return c.e.SliceV(src, c.e.I64(zeros), c.e.Shape(index), axes);
}
void ReturnLike(LoweringContext& c, V y) { c.Return(c.out_rank() == 0 && y.rank != 0 ? c.e.Reshape(y, Ints{}) : y); }

void ScatterWith(LoweringContext& c, const Elements& s, V updates, const std::string& how, bool include_self) {
  if (s.nothing) return ReturnLike(c, s.x);
  updates = c.e.Cast(updates, s.x.dtype);
  auto fill = [&](V v) { return c.e.Expand(v, c.e.Shape(s.index), s.index.rank); };
  auto scatter = [&](V x, V u, std::string_view r) { return ScatterElements(c.e, x, s.index, u, s.axis, r); };
  if (how == "none") return ReturnLike(c, scatter(s.x, updates, "none"));
  ReturnLike(c, ReduceInto(c, s.x, updates, how, include_self, scatter, fill));
}
std::string Reduction(LoweringContext& c) { return c.node().op().ArgIndex("reduce") >= 0 ? c.str("reduce") : "none"; }

void ScatterSrc(LoweringContext& c) {
  Elements s = ReadElements(c);
  if (!c.ok()) return;
  ScatterWith(c, s, s.nothing ? s.x : Covered(c, "src", s.index), Reduction(c), true);
}
void ScatterValue(LoweringContext& c) {
  Elements s = ReadElements(c);
  if (!c.ok()) return;
  V v = c.e.Expand(c.number(c.scalar("value"), s.x.dtype), c.e.Shape(s.index), s.index.rank);
  ScatterWith(c, s, v, Reduction(c), true);
}
void ScatterAdd(LoweringContext& c) {
  Elements s = ReadElements(c);
  if (!c.ok()) return;
  ScatterWith(c, s, s.nothing ? s.x : Covered(c, "src", s.index), "sum", true);
}
void ScatterReduce(LoweringContext& c) {
  Elements s = ReadElements(c);
  if (!c.ok()) return;
  ScatterWith(c, s, s.nothing ? s.x : Covered(c, "src", s.index), c.str("reduce"), c.b("include_self"));
}

// ---- index_*: whole slices at positions along one dim. The dim goes first, slices are written, it goes back.
struct Slices {
  V x, index;  // x with the dim first; index [n, 1]
  Ints back;
  int rank = 0;
};
Slices ReadSlices(LoweringContext& c) {
  Slices s;
  V x = c.in("self");
  s.rank = x.rank;
  x = AtLeast1d(c.e, x);
  int d = c.dim("dim", s.rank);
  Ints perm = FrontFirst({d}, x.rank);
  s.back = Inverse(perm);
  s.x = c.e.Transpose(x, perm);
  s.index = c.e.Unsqueeze(AtLeast1d(c.e, c.e.Cast(c.in("index"), DType::kInt64)), {1});
  return s;
}
V SlicesOf(LoweringContext& c, const Slices& s) {
  V source = c.e.Cast(c.in("source"), s.x.dtype);
  int d = c.dim("dim", s.rank);
  if (source.rank == s.x.rank) return c.e.Transpose(source, FrontFirst({d}, source.rank));
  return AtLeast1d(c.e, source);  // a number into a vector
}
void ReturnSlices(LoweringContext& c, const Slices& s, V y) { ReturnLike(c, c.e.Transpose(y, s.back)); }
V FillSlices(LoweringContext& c, const Slices& s, V v) {
  V shape = c.e.Concat({c.e.Dim(s.index, 0), ShapeRange(c.e, s.x, 1, s.x.rank)}, 0);
  return c.e.Expand(v, shape, s.x.rank);
}
void IndexAdd(LoweringContext& c) {
  Slices s = ReadSlices(c);
  V source = SlicesOf(c, s);
  ir::Scalar alpha = c.scalar("alpha");
  DType t = s.x.dtype, w = ScatterType(t);
  source = c.e.Cast(source, w);
  if (!(alpha.is_constant() && alpha.d == 1)) source = c.e.Mul(source, c.number(alpha, w));
  ReturnSlices(c, s, c.e.Cast(ScatterNd(c.e, c.e.Cast(s.x, w), s.index, source, "add"), t));
}
void IndexCopy(LoweringContext& c) {
  Slices s = ReadSlices(c);
  ReturnSlices(c, s, ScatterNd(c.e, s.x, s.index, SlicesOf(c, s), "none"));
}
void IndexFill(LoweringContext& c) {
  Slices s = ReadSlices(c);
  V v = Operand(c, "value", s.x.dtype);
  ReturnSlices(c, s, ScatterNd(c.e, s.x, s.index, FillSlices(c, s, v), "none"));
}
void IndexReduce(LoweringContext& c) {
  Slices s = ReadSlices(c);
  V source = SlicesOf(c, s);
  auto scatter = [&](V x, V u, std::string_view how) { return ScatterNd(c.e, x, s.index, u, how); };
  auto fill = [&](V v) { return FillSlices(c, s, v); };
  ReturnSlices(c, s, ReduceInto(c, s.x, source, c.str("reduce"), c.b("include_self"), scatter, fill));
}

// ---- index_put.
bool IsOneNumber(const ir::Value* v) {
  return std::all_of(v->sizes().begin(), v->sizes().end(), [](ir::Sym s) { return s.is(1); });
}
V PutWith(LoweringContext& c, V x, Indexing& r, V values, bool accumulate) {
  Emitter& e = c.e;
  DType t = x.dtype, w = accumulate ? ScatterType(t) : t;
  int rest = r.x.rank - static_cast<int>(r.dims.size());
  V front = e.Cast(e.Transpose(r.x, FrontFirst(r.dims, r.x.rank)), w);
  V index = r.Stacked(e);
  // Values broadcast to the result of reading there, then go to ScatterND's order.
  V rest_shape = ShapeRange(e, front, static_cast<int>(r.dims.size()), r.x.rank);
  V index_shape = ShapeRange(e, index, 0, r.index_rank);
  std::vector<V> parts;
  if (r.at > 0) parts.push_back(e.Slice(rest_shape, {0}, {r.at}, {0}));
  parts.push_back(index_shape);
  if (r.at < rest) parts.push_back(r.at ? e.Slice(rest_shape, {r.at}, {rest}, {0}) : rest_shape);
  values = e.Cast(values, w);
  int target_rank = r.index_rank + rest;
  if (values.rank > target_rank) {  // leading ones
    Ints ones;
    for (int k = 0; k < values.rank - target_rank; ++k) ones.push_back(k);
    values = e.Squeeze(values, ones);
  }
  values = target_rank == 0 ? values : e.Expand(values, e.Concat(parts, 0), target_rank);
  values = e.Transpose(values, Inverse(r.ToResult()));
  V y = ScatterNd(e, front, index, values, accumulate ? "add" : "none");
  y = e.Cast(e.Transpose(y, Inverse(FrontFirst(r.dims, r.x.rank))), t);
  return r.added.empty() ? y : e.Squeeze(y, Ints(r.added.begin(), r.added.end()));
}
void IndexPut(LoweringContext& c) {
  V x = c.in("self"), values = c.e.Cast(c.in("values"), x.dtype);
  ir::Values list = c.tensors("indices");
  bool accumulate = c.b("accumulate");
  // One mask and one number: a choice, which runtimes fuse.
  if (list.size() == 1 && list[0] && ir::IsBool(list[0]->dtype()) && list[0]->rank() > 0 && !accumulate &&
      IsOneNumber(c.tensor("values"))) {
    V mask = c.raw(list[0]);
    Ints axes;
    for (int d = list[0]->rank(); d < x.rank; ++d) axes.push_back(d);
    return c.Return(c.e.Where(c.e.Unsqueeze(mask, axes), c.e.Reshape(values, Ints{}), x));
  }
  auto r = ReadIndices(c, x, list);
  if (!r) return;
  if (r->dims.empty()) {
    V v = c.e.Expand(values, c.e.Shape(x), x.rank);
    return c.Return(accumulate ? c.e.Add(x, v) : v);
  }
  c.Return(PutWith(c, x, *r, values, accumulate));
}
void UnsafeMaskedPut(LoweringContext& c) {
  V x = c.in("self"), mask = c.e.Cast(c.in("mask"), DType::kBool), values = c.e.Cast(c.in("values"), x.dtype);
  auto r = ReadMaskedIndices(c, x);
  if (!r) return;
  c.Return(PutWith(c, x, *r, c.e.Where(mask, values, c.e.Number(0, x.dtype)), true));
}
void Put(LoweringContext& c) {
  V x = c.in("self"), flat = x.rank == 0 ? c.e.Reshape(x, {1}) : Flat(c.e, x);
  V index = c.e.Reshape(c.e.Cast(c.in("index"), DType::kInt64), Ints{-1});
  V source = c.e.Reshape(c.e.Cast(c.in("source"), x.dtype), Ints{-1});
  DType w = c.b("accumulate") ? ScatterType(x.dtype) : x.dtype;
  V y = ScatterElements(c.e, c.e.Cast(flat, w), index, c.e.Cast(source, w), 0, c.b("accumulate") ? "add" : "none");
  c.Return(c.e.Reshape(c.e.Cast(y, x.dtype), c.shape_of(c.tensor("self")), x.rank, true));
}

// ---- Writes into a part.
// x with `src` from `start` (1-D, may be negative) on along `d`.
V WriteRun(LoweringContext& c, V x, V src, V start, int d, bool may_be_negative) {
  Emitter& e = c.e;
  if (may_be_negative) start = e.Max(WrapIndex(e, start, e.Dim(x, d)), e.I64({0}));
  V head = e.SliceV(x, e.I64({0}), start, {d});
  V tail = e.SliceV(x, e.Add(start, e.Dim(src, d)), e.I64({kEnd}), {d});
  return e.Concat({head, src, tail}, d);
}
bool MayBeNegative(const IntOrValue& i) { return i.value ? ir::RangeOf(i.value->type().expr).min < 0 : i.constant < 0; }
void SliceScatter(LoweringContext& c) {
  V x = c.in("self"), src = c.e.Cast(c.in("src"), x.dtype);
  int d = c.dim("dim", x.rank);
  IntOrValue start = c.opt_sym("start").value_or(0);
  IntOrValue step = c.sym("step");
  if (!step.value && step.constant == 1) return c.Return(WriteRun(c, x, src, c.dim1(start), d, MayBeNegative(start)));
  V begin = c.dim1(start);
  if (MayBeNegative(start)) begin = c.e.Max(WrapIndex(c.e, begin, c.e.Dim(x, d)), c.e.I64({0}));
  V at = c.e.Add(begin, c.e.Mul(Iota(c.e, c.e.DimScalar(src, d)), c.dim0(step)));
  Ints perm = FrontFirst({d}, x.rank);
  V y = ScatterNd(c.e, c.e.Transpose(x, perm), c.e.Unsqueeze(at, {1}), c.e.Transpose(src, perm), "none");
  c.Return(c.e.Transpose(y, Inverse(perm)));
}
void SelectScatter(LoweringContext& c) {
  V x = c.in("self"), src = c.e.Cast(c.in("src"), x.dtype);
  int d = c.dim("dim", x.rank);
  IntOrValue at = c.sym("index");
  c.Return(WriteRun(c, x, c.e.Unsqueeze(src, {d}), c.dim1(at), d, MayBeNegative(at)));
}
void DiagonalScatter(LoweringContext& c) {
  V x = c.in("self"), src = c.e.Cast(c.in("src"), x.dtype);
  int a = c.dim("dim1", x.rank), b = c.dim("dim2", x.rank);
  if (x.rank < 2 || a == b) return c.Fail("a diagonal needs two dims");
  Ints perm = FrontFirst({a, b}, x.rank);
  V front = c.e.Transpose(x, perm);
  V updates = c.e.Transpose(src, FrontFirst({src.rank - 1}, src.rank));
  V y = ScatterNd(c.e, front, DiagonalPositions(c.e, front, c.i("offset")), updates, "none");
  c.Return(c.e.Transpose(y, Inverse(perm)));
}
void AsStridedScatter(LoweringContext& c) {
  V x = c.in("self"), src = c.e.Cast(c.in("src"), x.dtype);
  ir::Value* self = c.tensor("self");
  // Only where memory order is the order of elements, so that it can be put back.
  if (self->type().strides_known) {
    ir::Sym span = 1;
    for (int d = self->rank() - 1; d >= 0; --d) {
      if (!self->sizes()[d].is(1) && !ir::ProvablyEqual(self->type().strides[d], span))
        return c.Unsupported("strides over a tensor that is not contiguous");
      span = span * self->sizes()[d];
    }
  }
  auto flat = StorageOrder(c, "self", x);
  auto at = StridedPositions(c);
  if (!flat || !at) return;
  V y = ScatterNd(c.e, *flat, c.e.Unsqueeze(*at, {at->rank}), src, "none");
  c.Return(c.e.Reshape(y, c.shape_of(self), x.rank, true));
}

// ---- Segments: runs along an axis, reduced each to one element.
void SegmentReduce(LoweringContext& c) {
  Emitter& e = c.e;
  V x = c.in("data");
  DType t = x.dtype;
  std::string how = c.str("reduce");
  if (c.has("indices")) return c.Unsupported("segments given by indices");
  V ends, lengths;
  int axis = 0;
  if (c.has("lengths")) {
    lengths = e.Cast(c.in("lengths"), DType::kInt64);
    axis = lengths.rank - 1;
    ends = e.Op("CumSum", {lengths, e.I64Scalar(axis)});
  } else {
    V offsets = e.Cast(c.in("offsets"), DType::kInt64);
    axis = offsets.rank - 1;
    ends = e.Slice(offsets, {1}, {kEnd}, {axis});
    lengths = e.Sub(ends, e.Slice(offsets, {0}, {-1}, {axis}));
  }
  if (axis < 0 || axis >= x.rank) return c.Fail("segments of more dims than the data");
  // The segment of each position along the axis: how many ended at or before it.
  V n = e.Dim(x, axis);
  V positions = Iota(e, e.Squeeze(n, {0}));
  if (axis > 0) positions = e.Expand(positions, e.Concat({ShapeRange(e, x, 0, axis), n}, 0), axis + 1);
  V segment = CountEdges(e, ends, positions, true);
  int below = x.rank - axis - 1;
  Ints more;
  for (int k = 0; k < below; ++k) more.push_back(axis + 1 + k);
  V index = e.Expand(e.Unsqueeze(segment, more), e.Shape(x), x.rank);
  V out_shape = e.Concat({ShapeRange(e, x, 0, axis), e.Dim(lengths, axis), ShapeRange(e, x, axis + 1, x.rank)}, 0);
  auto initial = c.opt_scalar("initial");
  V start = initial        ? c.number(*initial, t)
            : how == "max" ? e.Number(-kInfinity, t)
            : how == "min" ? e.Number(kInfinity, t)
                           : e.Number(how == "prod" ? 1 : 0, t);
  std::string_view with = how == "max" ? "max" : how == "min" ? "min" : how == "prod" ? "mul" : "add";
  if (with == "add" && how != "sum" && how != "mean") return c.Fail("unknown reduction");
  V y = ScatterElements(e, e.Expand(start, out_shape, x.rank), index, x, axis, with);
  if (how == "mean") {
    V length = e.Cast(e.Unsqueeze(lengths, more), t);
    V empty = e.Equal(length, e.Number(0, t));
    // An empty segment has the initial value, or no mean.
    V none = initial ? start : e.Number(std::numeric_limits<double>::quiet_NaN(), t);
    y = e.Where(empty, none, e.Div(y, e.Max(length, e.Number(1, t))));
  }
  c.Return(y);
}

// clang-format off
constexpr Row kScatterRows[] = {
    {"aten.scatter.src", ScatterSrc}, {"aten.scatter.value", ScatterValue}, {"aten.scatter.reduce", ScatterSrc},
    {"aten.scatter.value_reduce", ScatterValue}, {"aten.scatter_add.default", ScatterAdd},
    {"aten.scatter_reduce.two", ScatterReduce},
    {"aten.index_add.default", IndexAdd}, {"aten.index_copy.default", IndexCopy},
    {"aten.index_fill.int_Scalar", IndexFill}, {"aten.index_fill.int_Tensor", IndexFill},
    {"aten.index_reduce.default", IndexReduce},
    {"aten.index_put.default", IndexPut}, {"aten.index_put.hacked_twin", IndexPut},
    {"aten._unsafe_index_put.default", IndexPut}, {"aten._index_put_impl.default", IndexPut},
    {"aten._unsafe_masked_index_put_accumulate.default", UnsafeMaskedPut}, {"aten.put.default", Put},
    {"aten.slice_scatter.default", SliceScatter}, {"aten.select_scatter.default", SelectScatter},
    {"aten.diagonal_scatter.default", DiagonalScatter}, {"aten.as_strided_scatter.default", AsStridedScatter},
    {"aten.segment_reduce.default", SegmentReduce, true},
};
// clang-format on

}  // namespace

absl::Span<const Row> ScatterRows() { return kScatterRows; }

}  // namespace slipway::exporters::onnx_out
