// Reading by index: advanced indexing, gathers, masks, diagonals, triangles, repetition, embedding bags.
#include <algorithm>

#include "exporters/onnx/lowerings/data.h"
#include "exporters/onnx/lowerings/index.h"

namespace slipway::exporters::onnx_out {

namespace {

using ir::IntOrValue;

V IndexWith(LoweringContext& c, V x, const Indexing& r) {
  if (r.dims.empty()) return x;
  if (r.dims.size() == 1) return c.e.Gather(r.x, r.index[0], r.dims[0]);
  V front = c.e.Transpose(r.x, FrontFirst(r.dims, r.x.rank));
  int rest = r.x.rank - static_cast<int>(r.dims.size());
  V y = c.e.Op("GatherND", {front, r.Stacked(c.e)}, {}, r.x.dtype, r.index_rank + rest);
  return c.e.Transpose(y, r.ToResult());
}
void Index(LoweringContext& c) {
  V x = c.in("self");
  auto r = ReadIndices(c, x, c.tensors("indices"));
  if (!r) return;
  c.Return(IndexWith(c, x, *r));
}
void UnsafeMaskedIndex(LoweringContext& c) {
  V x = c.in("self"), mask = c.e.Cast(c.in("mask"), DType::kBool);
  V fill = c.number(c.scalar("fill"), x.dtype);
  auto r = ReadMaskedIndices(c, x);
  if (!r) return;
  c.Return(c.e.Where(mask, IndexWith(c, x, *r), fill));
}

// ---- Gathers along one dim.

void Gather(LoweringContext& c) {
  V x = AtLeast1d(c.e, c.in("self")), index = AtLeast1d(c.e, c.e.Cast(c.in("index"), DType::kInt64));
  if (index.rank != x.rank) {  // allowed of an empty index only
    return c.Return(c.e.Expand(c.e.Number(0, x.dtype), c.shape_of(c.tensor("index")), c.out_rank()));
  }
  V y = c.e.Op("GatherElements", {x, index}, {{"axis", int64_t{c.dim("dim", x.rank)}}});
  c.Return(c.out_rank() == 0 ? c.e.Reshape(y, Ints{}) : y);
}
void IndexSelect(LoweringContext& c) {
  V x = c.in("self"), index = AtLeast1d(c.e, c.in("index"));
  if (x.rank == 0) return c.Return(c.e.Reshape(c.e.Gather(c.e.Reshape(x, {1}), index, 0), Ints{}));
  c.Return(c.e.Gather(x, index, c.dim("dim", x.rank)));
}
void Take(LoweringContext& c) { c.Return(c.e.Gather(Flat(c.e, c.in("self")), c.in("index"), 0)); }

void TakeAlongDim(LoweringContext& c) {
  V x = c.in("self"), index = c.e.Cast(c.in("indices"), DType::kInt64);
  if (!c.has("dim")) {
    V y = c.e.Op("GatherElements", {Flat(c.e, x), Flat(c.e, index)}, {{"axis", int64_t{0}}}, x.dtype, 1);
    return c.Return(y);
  }
  int d = c.dim("dim", x.rank);
  // The other dims broadcast: expand each to the other's shape with size 1 along the dim itself.
  auto shape_but = [&](V v) {
    if (v.rank == 1) return c.e.I64({1});
    return c.e.Concat({ShapeRange(c.e, v, 0, d), c.e.I64({1}), ShapeRange(c.e, v, d + 1, v.rank)}, 0);
  };
  bool same = true;
  ir::Value *xv = c.tensor("self"), *iv = c.tensor("indices");
  for (int k = 0; k < x.rank; ++k) same &= k == d || xv->sizes()[k] == iv->sizes()[k];
  if (!same) {
    V xs = shape_but(x), is = shape_but(index);
    x = c.e.Expand(x, is, x.rank);
    index = c.e.Expand(index, xs, index.rank);
  }
  c.Return(c.e.Op("GatherElements", {x, index}, {{"axis", int64_t{d}}}));
}

// ---- Masks.
void NonZero(LoweringContext& c) {
  ir::Value* self = c.tensor("self");
  V x = c.in("self");
  if (self->rank() == 0) {  // [n, 0] with n one or none
    V n = c.e.Unsqueeze(c.e.Cast(c.e.Cast(x, DType::kBool), DType::kInt64), {0});
    return c.Return(c.e.Expand(c.e.I64Scalar(0), c.e.Concat({n, c.e.I64({0})}, 0), 2));
  }
  c.Return(c.e.Transpose(c.e.Op("NonZero", {c.e.Cast(x, DType::kBool)}, {}, DType::kInt64, 2), {1, 0}));
}
template <Str name>
void NonZeroList(LoweringContext& c) {  // one result a dim
  V x = AtLeast1d(c.e, c.in(name));
  V p = c.e.Op("NonZero", {c.e.Cast(x, DType::kBool)}, {}, DType::kInt64, 2);
  std::vector<V> out;
  for (int d = 0; d < x.rank; ++d) out.push_back(c.e.Gather(p, c.e.I64Scalar(d), 0));
  c.Return(out);
}
void NonZeroStatic(LoweringContext& c) {
  V x = c.in("self");
  V size = c.dim1(c.sym("size"));
  V fill = c.e.I64Scalar(c.i("fill_value"));
  if (x.rank == 0) return c.Return(c.e.Expand(fill, c.e.Concat({size, c.e.I64({0})}, 0), 2));
  V p = c.e.Transpose(c.e.Op("NonZero", {c.e.Cast(x, DType::kBool)}, {}, DType::kInt64, 2), {1, 0});
  V pad = c.e.Expand(fill, c.e.Concat({size, c.e.I64({x.rank})}, 0), 2);
  c.Return(c.e.SliceV(c.e.Concat({p, pad}, 0), c.e.I64({0}), size, {0}));
}
// Both to their common shape.
void Common(Emitter& e, V* a, V* b) {
  V sa = e.Shape(*a), sb = e.Shape(*b);
  int rank = std::max(a->rank, b->rank);
  if (b->rank > 0) *a = e.Expand(*a, sb, rank);
  if (a->rank > 0) *b = e.Expand(*b, sa, rank);
}
void MaskedSelect(LoweringContext& c) {
  V x = c.in("self"), mask = c.e.Cast(c.in("mask"), DType::kBool);
  if (c.tensor("self")->sizes() != c.tensor("mask")->sizes()) Common(c.e, &x, &mask);
  c.Return(c.e.Op("Compress", {Flat(c.e, x), Flat(c.e, mask)}, {{"axis", int64_t{0}}}, x.dtype, 1));
}
void MaskedScatter(LoweringContext& c) {
  V x = c.in("self"), mask = c.e.Cast(c.in("mask"), DType::kBool), source = c.in("source");
  if (c.tensor("self")->sizes() != c.tensor("mask")->sizes()) Common(c.e, &x, &mask);
  // The n-th true element takes the n-th of the source; a zero stands in where the source is empty.
  V pool = c.e.Concat({Flat(c.e, source), c.e.Expand(c.e.Number(0, source.dtype), c.e.I64({1}), 1)}, 0);
  V n = c.e.Sub(c.e.Op("CumSum", {c.e.Cast(Flat(c.e, mask), DType::kInt64), c.e.I64Scalar(0)}), c.e.I64Scalar(1));
  V taken = c.e.Gather(pool, c.e.Max(n, c.e.I64Scalar(0)), 0);
  V y = c.e.Reshape(taken, c.e.Shape(x), x.rank, true);
  c.Return(c.e.Where(mask, y, x));
}

// ---- Diagonals and triangles.
void Diagonal(LoweringContext& c) {
  const char* name = c.node().op().ArgIndex("self") >= 0 ? "self" : "A";
  ir::Value* self = c.tensor(name);
  V x = c.in(name);
  int a = c.dim("dim1", x.rank), b = c.dim("dim2", x.rank);
  if (x.rank < 2 || a == b) return c.Fail("a diagonal needs two dims");
  V y = DiagonalOf(c.e, c.e.Transpose(x, FrontFirst({a, b}, x.rank)), c.i("offset"));
  Ints last;  // the diagonal's dim goes last
  for (int k = 1; k < self->rank() - 1; ++k) last.push_back(k);
  last.push_back(0);
  c.Return(c.e.Transpose(y, last));
}
// A matrix (in the last two dims) with `x`'s last dim on a diagonal.
V Embedded(LoweringContext& c, V x, int64_t offset) {
  int64_t k = offset < 0 ? -offset : offset;
  if (k > 0) {
    Ints pads(2 * x.rank, 0);
    pads.back() = k;
    x = c.e.Op("Pad", {x, c.e.I64(pads), c.e.Number(0, x.dtype)});
  }
  V i = Iota(c.e, c.e.Squeeze(c.e.Dim(x, x.rank - 1), {0}));
  V row = c.e.Unsqueeze(i, {1}), column = c.e.Unsqueeze(i, {0});
  V on = c.e.Equal(c.e.Sub(column, row), c.e.I64Scalar(offset));
  // Above the main diagonal elements count by row, below by column.
  return c.e.Where(on, c.e.Unsqueeze(x, {offset >= 0 ? x.rank : x.rank - 1}), c.e.Number(0, x.dtype));
}
void DiagEmbed(LoweringContext& c) {
  V x = c.in("self");
  int rank = x.rank + 1;
  int a = c.dim("dim1", rank), b = c.dim("dim2", rank);
  if (a == b) return c.Fail("dim1 and dim2 are the same");
  V y = Embedded(c, x, c.i("offset"));
  // Row and column dims to a and b, the others around in order.
  Ints perm(rank, -1);
  perm[a] = rank - 2, perm[b] = rank - 1;
  int next = 0;
  for (int d = 0; d < rank; ++d)
    if (perm[d] < 0) perm[d] = next++;
  c.Return(c.e.Transpose(y, perm));
}
void Diag(LoweringContext& c) {
  V x = c.in("self");
  int64_t offset = c.i("diagonal");
  if (x.rank == 1) return c.Return(Embedded(c, x, offset));
  if (x.rank != 2) return c.Fail("diag of neither a vector nor a matrix");
  c.Return(DiagonalOf(c.e, x, offset));
}
void DiagFlat(LoweringContext& c) { c.Return(Embedded(c, Flat(c.e, c.in("self")), c.i("offset"))); }

template <bool upper>
void Triangle(LoweringContext& c) {
  V x = c.in("self");
  c.Return(c.e.Op("Trilu", {x, c.dim0(c.sym("diagonal"))}, {{"upper", int64_t{upper}}}));
}
template <bool upper>
void TriangleIndices(LoweringContext& c) {
  int64_t rows = c.i("row"), columns = c.i("col"), offset = c.i("offset");
  V ones = c.e.Expand(c.e.BoolConst(true), c.e.I64({rows, columns}), 2);
  V kept = c.e.Op("Trilu", {ones, c.e.I64Scalar(offset)}, {{"upper", int64_t{upper}}});
  c.Return(c.e.Cast(c.e.Op("NonZero", {kept}, {}, DType::kInt64, 2), c.out_dtype()));
}

// ---- One-hot and repetition.
void OneHot(LoweringContext& c) {
  V x = c.in("self");
  int64_t classes = c.i("num_classes");
  V n = classes >= 0 ? c.e.I64Scalar(classes) : c.e.Add(c.e.Reduce("ReduceMax", x, {}, false), c.e.Integer(1, x.dtype));
  V hot = c.e.Equal(c.e.Unsqueeze(c.e.Cast(x, DType::kInt64), {x.rank}), Iota(c.e, c.e.Cast(n, DType::kInt64)));
  c.Return(c.e.Cast(hot, DType::kInt64));
}
void RepeatInterleaveInt(LoweringContext& c) {
  V x = c.in("self");
  V times = c.dim1(c.sym("repeats"));
  int d = 0;
  if (!c.has("dim") || x.rank == 0)
    x = x.rank == 0 ? c.e.Reshape(x, {1}) : Flat(c.e, x);
  else
    d = c.dim("dim", x.rank);
  V wide = c.e.Unsqueeze(x, {d + 1});
  Ints ones_before(d + 1, 1), ones_after(x.rank - d - 1, 1);
  wide = c.e.Expand(wide, c.e.Concat({c.e.I64(ones_before), times, c.e.I64(ones_after)}, 0), x.rank + 1);
  if (auto sizes = c.out_type().StaticSizes()) return c.Return(c.e.Reshape(wide, *sizes));
  V shape = c.e.Concat({ShapeRange(c.e, x, 0, d), c.e.Mul(c.e.Dim(x, d), times), ShapeRange(c.e, x, d + 1, x.rank)}, 0);
  c.Return(c.e.Reshape(wide, shape, x.rank, true));
}
// Position i as often as repeats[i] says.
V RepeatedPositions(Emitter& e, V repeats) {
  repeats = e.Cast(repeats, DType::kInt64);
  V ends = e.Op("CumSum", {repeats, e.I64Scalar(0)});
  V total = e.Reduce("ReduceSum", repeats, {}, false);
  return CountEdges(e, ends, Iota(e, total), true);
}
void RepeatInterleaveTensor(LoweringContext& c) {
  c.Return(c.e.Cast(RepeatedPositions(c.e, c.in("repeats")), c.out_dtype()));
}
void RepeatInterleaveSelf(LoweringContext& c) {
  V x = c.in("self"), repeats = AtLeast1d(c.e, c.e.Cast(c.in("repeats"), DType::kInt64));
  int d = 0;
  if (!c.has("dim") || x.rank == 0)
    x = x.rank == 0 ? c.e.Reshape(x, {1}) : Flat(c.e, x);
  else
    d = c.dim("dim", x.rank);
  repeats = c.e.Expand(repeats, c.e.Dim(x, d), 1);  // one number stands for all
  c.Return(c.e.Gather(x, RepeatedPositions(c.e, repeats), d));
}

// ---- Strided views of a contiguous tensor.
void AsStrided(LoweringContext& c) {
  V x = c.in("self");
  auto flat = StorageOrder(c, "self", x);
  if (!flat) return;
  auto at = StridedPositions(c);
  if (!at) return;
  c.Return(c.e.Gather(*flat, *at, 0));
}

// ---- Bags: rows of a table summed, averaged or maximized by bag.
void EmbeddingBag(LoweringContext& c) {
  V table = c.in("weight"), index = c.e.Cast(c.in("indices"), DType::kInt64),
    offsets = c.e.Cast(c.in("offsets"), DType::kInt64);
  DType t = table.dtype;
  int64_t mode = c.i("mode");
  for (size_t i = 1; i < 4; ++i)
    if (c.used(i)) return c.Unsupported("results other than the bags");
  if (index.rank != 1 || offsets.rank != 1) return c.Unsupported("indices that are not 1-D");
  if (c.b("include_last_offset")) offsets = c.e.Slice(offsets, {0}, {-1}, {0});
  V bags = c.e.Dim(offsets, 0);
  // The bag of each index: the last that starts at or before it.
  V bag = c.e.Sub(CountEdges(c.e, offsets, Iota(c.e, c.e.DimScalar(index, 0)), true), c.e.I64Scalar(1));
  V rows = c.e.Gather(table, index, 0);
  if (V w = c.opt_in("per_sample_weights")) rows = c.e.Mul(rows, c.e.Unsqueeze(c.e.Cast(w, t), {1}));
  V counted;
  auto padding = c.node().op().ArgIndex("padding_idx") >= 0 ? c.opt_i("padding_idx") : std::nullopt;
  bool defaulted = c.node().op().base.find("_embedding_bag") == 0 && padding && *padding < 0;
  if (padding && !defaulted) {
    V at = *padding < 0 ? c.e.Add(c.e.DimScalar(table, 0), c.e.I64Scalar(*padding)) : c.e.I64Scalar(*padding);
    counted = c.e.Not(c.e.Equal(index, at));
  }
  V shape = c.e.Concat({bags, c.e.Dim(table, 1)}, 0);
  V at = c.e.Unsqueeze(bag, {1});
  auto tally = [&](V start, V updates, const char* how) {
    return c.e.Op("ScatterND", {start, at, updates}, {{"reduction", std::string(how)}}, t, start.rank);
  };
  V ones = counted ? c.e.Cast(counted, t) : c.e.Expand(c.e.Number(1, t), c.e.Shape(index), 1);
  V count = tally(c.e.Expand(c.e.Number(0, t), bags, 1), ones, "add");
  V zero = c.e.Number(0, t);
  if (mode == 2) {
    V least = c.e.Number(-kInfinity, t);
    if (counted) rows = c.e.Where(c.e.Unsqueeze(counted, {1}), rows, least);
    V y = tally(c.e.Expand(least, shape, 2), rows, "max");
    return c.Return({c.e.Where(c.e.Unsqueeze(c.e.Equal(count, zero), {1}), zero, y), V{}, V{}, V{}});
  }
  if (counted) rows = c.e.Where(c.e.Unsqueeze(counted, {1}), rows, zero);
  V y = tally(c.e.Expand(zero, shape, 2), rows, "add");
  if (mode == 1)
    y = c.e.Div(y, c.e.Unsqueeze(c.e.Max(count, c.e.Number(1, t)), {1}));
  else if (mode != 0)
    return c.Fail("unknown mode");
  c.Return({y, V{}, V{}, V{}});
}

// clang-format off
constexpr Row kIndexingRows[] = {
    {"aten.index.Tensor", Index}, {"aten.index.Tensor_hacked_twin", Index}, {"aten._unsafe_index.Tensor", Index},
    {"aten._unsafe_masked_index.default", UnsafeMaskedIndex},
    {"aten.gather.default", Gather}, {"aten.index_select.default", IndexSelect}, {"aten.take.default", Take},
    {"aten.take_along_dim.default", TakeAlongDim},
    {"aten.nonzero.default", NonZero}, {"aten.argwhere.default", NonZero},
    {"aten.nonzero_static.default", NonZeroStatic},
    {"aten.where.default", NonZeroList<"condition">}, {"aten.nonzero_numpy.default", NonZeroList<"self">},
    {"aten.masked_select.default", MaskedSelect}, {"aten.masked_scatter.default", MaskedScatter},
    {"aten.diagonal.default", Diagonal}, {"aten.diagonal_copy.default", Diagonal},
    {"aten.linalg_diagonal.default", Diagonal},
    {"aten.diag_embed.default", DiagEmbed}, {"aten.diag.default", Diag}, {"aten.diagflat.default", DiagFlat},
    {"aten.tril.default", Triangle<false>}, {"aten.triu.default", Triangle<true>},
    {"aten.tril_indices.default", TriangleIndices<false>}, {"aten.triu_indices.default", TriangleIndices<true>},
    {"aten.one_hot.default", OneHot},
    {"aten.repeat_interleave.self_int", RepeatInterleaveInt}, {"aten.repeat_interleave.Tensor", RepeatInterleaveTensor},
    {"aten.repeat_interleave.self_Tensor", RepeatInterleaveSelf},
    {"aten.as_strided.default", AsStrided}, {"aten.as_strided_copy.default", AsStrided},
    {"aten.embedding_bag.default", EmbeddingBag, true}, {"aten.embedding_bag.padding_idx", EmbeddingBag, true},
    {"aten._embedding_bag.default", EmbeddingBag, true},
    {"aten._embedding_bag_forward_only.default", EmbeddingBag, true},
};
// clang-format on

}  // namespace

absl::Span<const Row> IndexingRows() { return kIndexingRows; }

}  // namespace slipway::exporters::onnx_out
