// Shape functions: indexing, gathering, scattering, searching and counting.
#include <algorithm>

#include "base/text.h"
#include "ir/ops/shape_rules.h"

namespace slipway::ir {
namespace {

// --- Indexing by tensors -----------------------------------------------------------------------------------------

// Sizes of x[indices]: masks stand for the positions of their true elements; the indices broadcast; their dimensions go
// where the first one was if they are next to each other, else to the front.
Sizes IndexedSizes(InferContext& c, const Sizes& x, const Values& indices) {
  struct Index {
    bool given = false;
    Sizes sizes;
  };
  std::vector<Index> all;
  for (Value* v : indices) {
    if (!v) {
      all.push_back({});
    } else if (!IsIntegral(v->dtype()) && !IsBool(v->dtype())) {
      c.Fail(text::StrCat("'", v->name(), "' is ", Name(v->dtype()), ", which is no index"));
    } else if (v->dtype() == DType::kBool || v->dtype() == DType::kUInt8) {
      Sym n = c.FreshSize();
      for (int d = 0; d < v->rank(); ++d) all.push_back({true, {n}});
      if (v->rank() == 0) {
        c.Unsupported("a 0-d mask as an index");
        return {};
      }
    } else {
      all.push_back({true, v->sizes()});
    }
  }
  if (all.size() > x.size()) {
    c.Fail(text::StrCat(all.size(), " indices for a tensor of rank ", x.size()));
    return {};
  }
  all.resize(x.size());
  Sizes joint;
  int first = -1, last = -1, count = 0;
  for (int d = 0; d < static_cast<int>(all.size()); ++d) {
    if (!all[d].given) continue;
    if (first < 0) first = d;
    last = d;
    ++count;
    joint = c.Broadcast(joint, all[d].sizes);
  }
  bool adjacent = count > 0 && last - first + 1 == count;
  Sizes out;
  if (!adjacent) out = joint;
  for (int d = 0; d < static_cast<int>(all.size()); ++d) {
    if (adjacent && d == first) out.insert(out.end(), joint.begin(), joint.end());
    if (!all[d].given) out.push_back(x[d]);
  }
  return out;
}
void Index(InferContext& c) {
  Value* x = Self(c);
  c.Out(x->dtype(), IndexedSizes(c, x->sizes(), c.tensors("indices")));
}
void IndexPut(InferContext& c) {
  Value *x = Self(c), *values = c.tensor("values");
  NeedSameDType(c, {x, values});
  const Values indices = c.tensors("indices");
  auto is_mask = [](Value* v) { return v && (IsBool(v->dtype()) || v->dtype() == DType::kUInt8); };
  if (std::none_of(indices.begin(), indices.end(), is_mask))
    NeedExpands(c, values->sizes(), IndexedSizes(c, x->sizes(), indices), "the values");
  SameAsSelf(c);
}
void MaskedIndex(InferContext& c) {
  Value* x = Self(c);
  Sizes s = IndexedSizes(c, x->sizes(), c.tensors("indices"));
  c.Out(x->dtype(), c.Broadcast(s, TensorAt(c, 1)->sizes()));
}
void MaskedIndexPut(InferContext& c) {
  Value *x = Self(c), *values = c.tensor("values");
  NeedSameDType(c, {x, values});
  NeedExpands(c, c.Broadcast(values->sizes(), c.tensor("mask")->sizes()),
              IndexedSizes(c, x->sizes(), c.tensors("indices")), "the values");
  SameAsSelf(c);
}
// Indices along a dimension: of the tensor's rank, and of no more elements in the other dimensions.
void CheckAlong(InferContext& c, Value* x, Value* index, int dim) {
  NeedDType(c, index, IsIntegral, "an index");
  if (NumelOf(index).is(0)) return;
  if (std::max(x->rank(), 1) != std::max(index->rank(), 1)) return c.Fail("the tensor and the indices differ in rank");
  for (int d = 0; d < std::min(x->rank(), index->rank()); ++d)
    if (d != dim && ProvablyLess(x->sizes()[d], index->sizes()[d])) return c.Fail("more indices than the size");
}
void Gather(InferContext& c) {
  CheckAlong(c, Self(c), c.tensor("index"), c.dim("dim", Self(c)->rank()));
  c.Out(Self(c)->dtype(), c.tensor("index")->sizes());
}
void Scatter(InferContext& c) {
  Value *x = Self(c), *index = c.tensor("index");
  CheckAlong(c, x, index, c.dim("dim", x->rank()));
  if (Value* src = c.node().op().ArgIndex("src") >= 0 ? c.tensor("src") : nullptr) {
    NeedSameDType(c, {x, src});
    if (!NumelOf(index).is(0) && std::max(src->rank(), 1) != std::max(index->rank(), 1))
      return c.Fail("the values and the indices differ in rank");
    for (int d = 0; d < std::min(src->rank(), index->rank()); ++d)
      if (ProvablyLess(src->sizes()[d], index->sizes()[d])) return c.Fail("fewer values than indices");
  }
  SameAsSelf(c);
}
// A list of indices, or one index.
Value* IndexList(InferContext& c) {
  Value* index = c.tensor("index");
  NeedDType(c, index, IsIntegral, "an index");
  if (index->rank() > 1) c.Fail("the indices are no list");
  return index;
}
void IndexFill(InferContext& c) {
  Value* x = Self(c);
  IndexList(c);
  c.dim("dim", x->rank());
  if (c.node().op().overload == "int_Tensor") NeedRank(c, c.tensor("value"), 0);
  SameAsSelf(c);
}
// A slice of the source for each index; a tensor of one element may come without dimensions.
void IndexWrite(InferContext& c) {
  Value *x = Self(c), *source = c.tensor("source");
  NeedSameDType(c, {x, source});
  const int dim = c.dim("dim", x->rank());
  const Sym count = NumelOf(IndexList(c));
  c.RequireEqual(source->rank() ? source->sizes()[std::min(dim, source->rank() - 1)] : Sym(1), count,
                 "indices and slices");
  if (x->rank() <= 1 && source->rank() <= 1) return SameAsSelf(c);
  NeedSameSizes(c, WithDim(source->sizes(), dim, 1), WithDim(x->sizes(), dim, 1), "sizes of a slice");
  SameAsSelf(c);
}
void Put(InferContext& c) {
  Value *x = Self(c), *index = TensorAt(c, 1), *source = TensorAt(c, 2);
  NeedSameDType(c, {x, source});
  NeedDType(c, index, IsIntegral, "an index");
  c.RequireEqual(NumelOf(source), NumelOf(index), "indices and values");
  SameAsSelf(c);
}
void IndexSelect(InferContext& c) {
  Value* x = Self(c);
  IndexList(c);
  c.Out(x->dtype(), WithDim(x->sizes(), c.dim("dim", x->rank()), NumelOf(c.tensor("index"))));
}
void Take(InferContext& c) {
  NeedDType(c, TensorAt(c, 1), IsIntegral, "an index");
  if (NumelOf(Self(c)).is(0) && !NumelOf(TensorAt(c, 1)).is(0)) return c.Fail("elements of an empty tensor");
  c.Out(Self(c)->dtype(), TensorAt(c, 1)->sizes());
}
void TakeAlongDim(InferContext& c) {
  Value *x = Self(c), *index = TensorAt(c, 1);
  NeedDType(c, index, IsIntegral, "an index");
  if (!c.has("dim")) return c.Out(x->dtype(), {NumelOf(index)});
  if (x->rank() != index->rank()) return c.Fail("the tensor and the indices differ in rank");
  int dim = c.dim("dim", x->rank());
  if (x->rank() == 0) return c.Out(x->dtype(), {});
  c.Out(x->dtype(), c.Broadcast(WithDim(x->sizes(), dim, index->sizes()[dim]), index->sizes()));
}
void Embedding(InferContext& c) {
  Value* w = Self(c);
  if (w->rank() != 2) return c.Fail("the table is not a matrix");
  NeedDType(c, TensorAt(c, 1), IsIntegral, "an index");
  Sizes out = TensorAt(c, 1)->sizes();
  out.push_back(w->sizes()[1]);
  c.Out(w->dtype(), out);
}
// Rows of a quantized table: the table's sizes, the dtype that it is dequantized to.
void QuantizedEmbedding(InferContext& c) {
  Value *w = c.tensor("weight"), *scale = c.tensor("scale"), *indices = c.tensor("indices");
  const auto dtype = c.dtype("dtype");
  if (w->rank() != 2 || scale->rank() != 2 || !dtype) return c.Fail("the table is not a matrix");
  NeedDType(c, indices, IsIntegral, "an index");
  Sizes out = indices->sizes();
  out.push_back(w->sizes()[1]);
  c.Out(*dtype, out);
}
// Pooled rows, and what the backward pass wants: the bag of every index, the bags' sizes and the rows of the maxima.
void EmbeddingBag(InferContext& c) {
  Value *w = Self(c), *indices = TensorAt(c, 1), *offsets = TensorAt(c, 2);
  if (w->rank() != 2 || offsets->rank() != 1) return c.Fail("bad ranks");
  if (indices->rank() != 1 && indices->rank() != 2) return c.Fail("the indices are neither a list nor rows");
  NeedDType(c, indices, IsIntegral, "an index");
  NeedDType(c, offsets, IsIntegral, "an offset");
  if (Value* weights = c.opt_tensor("per_sample_weights")) {
    NeedSameDType(c, {w, weights});
    NeedSameSizes(c, weights->sizes(), indices->sizes(), "a weight for each index");
  }
  constexpr int64_t kSum = 0, kMax = 2;
  int64_t mode = c.i("mode"), padding = c.opt_i("padding_idx").value_or(-1);
  Sym bags = offsets->sizes()[0] - (c.b("include_last_offset") ? 1 : 0);
  // A negative padding index counts from the end where it is an argument of the user, and is none below.
  if (c.node().op().base == "embedding_bag" && padding < 0 && c.has("padding_idx")) padding = 0;
  bool fast = (w->dtype() == DType::kFloat32 || w->dtype() == DType::kFloat16) && padding < 0;
  DType index = PromoteTypes(indices->dtype(), offsets->dtype());
  c.Out(w->dtype(), {bags, w->sizes()[1]});
  c.Out(index, {mode != kSum || !fast ? NumelOf(indices) : Sym(0)});
  // Which kernel ran decides whether a closing offset counts as a bag in the sizes.
  bool forward_only = c.node().op().base == "_embedding_bag_forward_only";
  bool unknown = c.node().op().base == "embedding_bag" && c.b("include_last_offset");
  c.Out(index, {unknown ? c.FreshSize() : forward_only ? offsets->sizes()[0] : bags});
  c.Out(index, mode == kMax ? Sizes{bags, w->sizes()[1]} : Sizes{bags});
}

// --- Positions and counts that the values decide -----------------------------------------------------------------

void NonZero(InferContext& c) { c.Out(DType::kInt64, {c.FreshSize(), Self(c)->rank()}); }
void NonZeroStatic(InferContext& c) { c.Out(DType::kInt64, {ExprOf(c.sym("size")), Self(c)->rank()}); }
void NonZeroList(InferContext& c) {
  Sym n = c.FreshSize();
  for (int d = 0; d < std::max(1, Self(c)->rank()); ++d) c.Out(DType::kInt64, {n});
}
void MaskedSelect(InferContext& c) {
  NeedDType(c, TensorAt(c, 1), [](DType t) { return IsBool(t) || t == DType::kUInt8; }, "a mask");
  c.Broadcast(Self(c)->sizes(), TensorAt(c, 1)->sizes());
  c.Out(Self(c)->dtype(), {c.FreshSize()});
}
void BinCount(InferContext& c) {
  Value* w = c.opt_tensor("weights");
  NeedRank(c, Self(c), 1);
  NeedDType(c, Self(c), IsIntegral, "of integers");
  if (w) NeedSameSizes(c, w->sizes(), Self(c)->sizes(), "a weight for each number");
  c.Out(!w ? DType::kInt64 : w->dtype() == DType::kFloat32 ? DType::kFloat32 : DType::kFloat64, {c.FreshSize()});
}
void Histc(InferContext& c) {
  if (c.i("bins") <= 0) return c.Fail("the number of bins is not positive");
  c.Out(Self(c)->dtype(), {c.i("bins")});
}
void HistogramCount(InferContext& c) {
  int64_t n = c.i("bins");
  if (n <= 0) return c.Fail("the number of bins is not positive");
  c.Out(Self(c)->dtype(), {n});
  c.Out(Self(c)->dtype(), {Sym(n) + 1});
}
void HistogramEdges(InferContext& c) {
  NeedRank(c, TensorAt(c, 1), 1);
  NeedSameDType(c, {Self(c), TensorAt(c, 1)});
  Sym n = NumelOf(TensorAt(c, 1));
  c.Out(Self(c)->dtype(), {n - 1});
  c.Out(Self(c)->dtype(), {n});
}
void OutHistogramDD(InferContext& c, const Sizes& bins) {
  c.Out(Self(c)->dtype(), bins);
  for (Sym n : bins) c.Out(Self(c)->dtype(), {n + 1});
}
void HistogramDDCounts(InferContext& c) { OutHistogramDD(c, c.ToSizes(c.sym_ints("bins"))); }
void HistogramDDCount(InferContext& c) {
  Value* x = Self(c);
  if (x->rank() == 0 || !x->sizes().back().is_constant()) return c.Unsupported("a symbolic number of dimensions");
  int64_t n = *x->sizes().back().constant();
  if (n < 0 || n > 64) return c.Fail("too many dimensions");
  OutHistogramDD(c, Sizes(static_cast<size_t>(n), c.i("bins")));
}
void HistogramDDEdges(InferContext& c) {
  Sizes bins;
  for (Value* v : c.tensors("bins")) {
    if (!v) return c.Fail("no edges of a dimension");
    NeedRank(c, v, 1);
    bins.push_back(NumelOf(v) - 1);
  }
  if (Self(c)->rank() == 0) return c.Fail("a 0-d tensor");
  c.RequireEqual(Self(c)->sizes().back(), static_cast<int64_t>(bins.size()), "numbers of dimensions and of edges");
  OutHistogramDD(c, bins);
}
DType PositionDType(InferContext& c) { return c.b("out_int32") ? DType::kInt32 : DType::kInt64; }
// A list of boundaries, or one for each place of what is searched for before its last dimension.
void SearchSorted(InferContext& c) {
  Value *boundaries = Self(c), *x = TensorAt(c, 1);
  NeedRankAtLeast(c, boundaries, 1);
  if (boundaries->rank() > 1) {
    if (x->rank() != boundaries->rank()) return c.Fail("neither a list of boundaries nor one for each row");
    for (int d = 0; d + 1 < x->rank(); ++d)
      c.RequireEqual(boundaries->sizes()[d], x->sizes()[d], "lists of boundaries and rows");
  }
  c.Out(PositionDType(c), x->sizes());
}
void Bucketize(InferContext& c) {
  NeedRank(c, TensorAt(c, 1), 1);
  c.Out(PositionDType(c), Self(c)->sizes());
}
void SearchScalar(InferContext& c) {
  NeedRank(c, c.tensor(c.node().op().base == "bucketize" ? "boundaries" : "sorted_sequence"), 1);
  c.Out(PositionDType(c), {});
}
// Distinct values, or slices along a dimension; then the place of each element among them, and how often each occurs.
void Unique(InferContext& c) {
  Value* x = Self(c);
  const OpDef& op = c.node().op();
  bool by_dim = op.ArgIndex("dim") >= 0 && c.has("dim");
  // Along a dimension torch always computes all three.
  const bool whole = by_dim;
  int dim = by_dim ? c.dim("dim", x->rank()) : 0;
  Sym n = c.FreshSize();
  c.Out(x->dtype(), by_dim ? WithDim(x->sizes(), dim, n) : Sizes{n});
  bool inverse = whole || c.b("return_inverse"),
       counts = whole || (op.ArgIndex("return_counts") >= 0 && c.b("return_counts"));
  Sizes places = by_dim && x->rank() ? Sizes{x->sizes()[dim]} : x->sizes();
  c.Out(DType::kInt64, inverse ? places : Sizes{0});
  if (op.returns.size() > 2) c.Out(DType::kInt64, counts ? Sizes{n} : Sizes{0});
}
void OneHot(InferContext& c) {
  int64_t n = c.i("num_classes");
  NeedDType(c, Self(c), IsIntegral, "of classes");
  Sizes out = Self(c)->sizes();
  out.push_back(n < 0 ? c.FreshSize() : Sym(n));
  c.Out(DType::kInt64, out);
}
void SegmentReduce(InferContext& c) {
  Value *x = Self(c), *lengths = c.opt_tensor("lengths"), *offsets = c.opt_tensor("offsets");
  Value* by = lengths ? lengths : offsets;
  if (!by || by->rank() == 0) return c.Fail("neither lengths nor offsets");
  int axis = c.dim("axis", x->rank());
  if (x->rank() == 0 || axis + 1 != by->rank()) return c.Fail("the lengths do not fit the axis");
  c.Out(x->dtype(), WithDim(x->sizes(), axis, by->sizes().back() - (lengths ? 0 : 1)));
}
void Multinomial(InferContext& c) {
  Sizes out = Self(c)->sizes();
  if (out.empty()) return c.Fail("a distribution has no dimensions");
  const Sym samples = ExprOf(c.sym("num_samples"));
  if (const auto n = samples.constant(), of = out.back().constant();
      n && of && (*n < 1 || (!c.b("replacement") && *n > *of)))
    return c.Fail(text::StrCat(*n, " samples of ", *of));
  out.back() = samples;
  c.Out(DType::kInt64, out);
}

// --- torch_scatter: sums and the like of rows of src by the index of each, or between two ends of each -------------

// Of `dim`, as many as are asked for; else as the largest index says, which only the data tell.
void OutSegments(InferContext& c, int dim, std::string_view size) {
  Value* src = Self(c);
  NeedDType(c, TensorAt(c, 1), IsIntegral, "of integers");
  if (!c.ok()) return;
  const auto given = c.opt_i(size);
  if (given && *given < 0) return c.Fail("a negative size");
  const Sizes sizes = WithDim(src->sizes(), dim, given ? Sym(*given) : c.FreshSize());
  c.Out(src->dtype(), sizes);
  if (c.node().outputs().size() > 1) c.Out(TensorAt(c, 1)->dtype(), sizes);
}
void ScatterSegments(InferContext& c) {
  NeedRankAtLeast(c, Self(c), 1);
  if (c.ok()) OutSegments(c, c.dim("_2", Self(c)->rank()), "_4");
}
void SegmentsByIndex(InferContext& c) {
  NeedRankAtLeast(c, TensorAt(c, 1), 1);
  NeedRankAtLeast(c, Self(c), TensorAt(c, 1)->rank());
  if (c.ok()) OutSegments(c, TensorAt(c, 1)->rank() - 1, "_3");
}
void SegmentsByEnds(InferContext& c) {
  Value *src = Self(c), *ends = TensorAt(c, 1);
  NeedDType(c, ends, IsIntegral, "of integers");
  NeedRankAtLeast(c, ends, 1);
  NeedRankAtLeast(c, src, ends->rank());
  if (!c.ok()) return;
  c.RequireAtLeast(ends->sizes().back(), 1);
  const Sizes sizes = WithDim(src->sizes(), ends->rank() - 1, ends->sizes().back() - 1);
  c.Out(src->dtype(), sizes);
  if (c.node().outputs().size() > 1) c.Out(ends->dtype(), sizes);
}
void RowsOfSegments(InferContext& c) {
  Value *src = Self(c), *index = TensorAt(c, 1);
  NeedDType(c, index, IsIntegral, "of integers");
  NeedRankAtLeast(c, index, 1);
  NeedRankAtLeast(c, src, index->rank());
  if (!c.ok()) return;
  const bool ends = c.node().op().base == "gather_csr";
  c.Out(src->dtype(), WithDim(src->sizes(), index->rank() - 1, ends ? c.FreshSize() : index->sizes().back()));
}

constexpr ShapeFamily kIndexingFamilies[] = {
    {ScatterSegments,
     "/torch_scatter.scatter_sum.default /torch_scatter.scatter_mul.default /torch_scatter.scatter_mean.default "
     "/torch_scatter.scatter_min.default /torch_scatter.scatter_max.default"},
    {SegmentsByIndex,
     "/torch_scatter.segment_sum_coo.default /torch_scatter.segment_mean_coo.default "
     "/torch_scatter.segment_min_coo.default "
     "/torch_scatter.segment_max_coo.default"},
    {SegmentsByEnds,
     "/torch_scatter.segment_sum_csr.default /torch_scatter.segment_mean_csr.default "
     "/torch_scatter.segment_min_csr.default "
     "/torch_scatter.segment_max_csr.default"},
    {RowsOfSegments, "/torch_scatter.gather_csr.default /torch_scatter.gather_coo.default"},
    {Index, "index.Tensor _unsafe_index.Tensor index.Tensor_hacked_twin _unsafe_index.Tensor_hacked_twin"},
    {MaskedIndex, "_unsafe_masked_index"},
    {IndexPut, "index_put index_put.hacked_twin _unsafe_index_put _unsafe_index_put.hacked_twin _index_put_impl"},
    {MaskedIndexPut, "_unsafe_masked_index_put_accumulate"},
    {IndexWrite, "index_add index_copy index_reduce"},
    {IndexFill, "index_fill.int_Scalar index_fill.int_Tensor"},
    {Put, "put"},
    {Scatter, "scatter.src scatter.value scatter.reduce scatter.value_reduce scatter_add scatter_reduce.two"},
    {Gather, "gather"},
    {IndexSelect, "index_select"},
    {Take, "take"},
    {TakeAlongDim, "take_along_dim"},
    {Embedding, "embedding"},
    {QuantizedEmbedding, "/slipway.quantized_embedding.default"},
    {EmbeddingBag, "embedding_bag embedding_bag.padding_idx _embedding_bag _embedding_bag_forward_only"},
    {NonZero, "nonzero argwhere"},
    {NonZeroStatic, "nonzero_static"},
    {NonZeroList, "where nonzero_numpy"},
    {MaskedSelect, "masked_select"},
    {BinCount, "bincount"},
    {Histc, "histc"},
    {HistogramCount, "histogram.bin_ct"},
    {HistogramEdges, "histogram.bins_tensor"},
    {HistogramDDCounts, "histogramdd"},
    {HistogramDDCount, "histogramdd.int_bins"},
    {HistogramDDEdges, "histogramdd.TensorList_bins"},
    {SearchSorted, "searchsorted.Tensor"},
    {SearchScalar, "searchsorted.Scalar bucketize.Scalar"},
    {Bucketize, "bucketize.Tensor"},
    {Unique, "_unique _unique2 unique_consecutive unique_dim unique_dim_consecutive"},
    {OneHot, "one_hot"},
    {SegmentReduce, "segment_reduce"},
    {Multinomial, "multinomial"},
};

}  // namespace

absl::Span<const ShapeRow> IndexingShapes() {
  static const absl::Span<const ShapeRow> rows = ExpandFamilies(kIndexingFamilies);
  return rows;
}

}  // namespace slipway::ir
