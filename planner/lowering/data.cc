// Reading and writing by index, running sums, order.
#include <algorithm>
#include <iterator>
#include <limits>

#include "base/text.h"
#include "ir/ops/op_table.h"
#include "planner/lowering/rules.h"

namespace slipway::planner {
namespace {

// An index tensor that kernels read: i32 or i64.
Operand Indices(PlanContext& c, Operand x) {
  if (x.dtype == DType::kInt64 || x.dtype == DType::kInt32) return x;
  if (!ir::IsIntegral(x.dtype)) c.Unsupported(text::StrCat("indices of type ", ir::Name(x.dtype)));
  return c.Cast(x, DType::kInt64);
}

void IndexSelect(PlanContext& c) {
  Operand x = AtLeast1d(c.in("self")), index = AtLeast1d(Indices(c, c.in("index"))), out = c.Result();
  const int dim = c.dim("dim", x.rank());
  Operand to = AtLeast1d(out);
  if (to.rank() != x.rank()) return c.Fail("the result has another rank");
  // The kernel wants the indexed dim first.
  c.Emit("index", {MoveToFront(x, {dim}), index}, {MoveToFront(to, {dim})}, out.dtype, kernels::IndexAttributes{false});
  c.Return(out);
}
void Embedding(PlanContext& c) {
  Operand out = c.Result();
  c.Emit("index", {c.in("weight"), Indices(c, c.in("indices"))}, {out}, out.dtype, kernels::IndexAttributes{false});
  c.Return(out);
}

// Indices of all dims that have one, expanded to one shape; which dims they are of.
struct Advanced {
  std::vector<Operand> indices;
  std::vector<int> dims;
  Dims shape;
};
Advanced ReadIndices(PlanContext& c, const Operand& x) {
  Advanced a;
  ir::Values given = c.tensors("indices");
  if (static_cast<int>(given.size()) > x.rank()) c.Fail("more indices than dims");
  int dim = 0;
  for (size_t d = 0; d < given.size() && c.ok(); ++d) {
    if (!given[d]) {
      ++dim;
      continue;
    }
    Operand index = c.of(given[d]);
    if (index.dtype == DType::kUInt8) c.Unsupported("bytes as masks");
    if (index.dtype != DType::kBool) {
      a.indices.push_back(Indices(c, index));
      a.dims.push_back(dim++);
      continue;
    }
    // A mask stands for the places where it is true, an index for each of its dims.
    if (index.rank() == 0 || dim + index.rank() > x.rank()) c.Unsupported("a mask of so many dims");
    if (!c.ok()) return a;
    for (int k = 0; k < index.rank(); ++k) c.RequireEqual(index.sizes[k], x.sizes[dim + k], "the mask does not fit");
    Operand count = c.Temp(DType::kInt64, {});
    c.Emit("count_nonzero", {index}, {count}, DType::kInt64);
    const Dim n = c.builder().NewSymbol({0, std::numeric_limits<int64_t>::max()});
    if (c.ok()) c.builder().Publish(n, count);
    Operand places = c.Temp(DType::kInt64, {n, index.rank()});
    c.Emit("nonzero", {index}, {places}, DType::kInt64);
    for (int k = 0; k < index.rank(); ++k) {
      a.indices.push_back(Select(places, 1, k));
      a.dims.push_back(dim++);
    }
  }
  if (a.indices.empty()) c.Unsupported("without an index");
  int rank = 0;
  for (const Operand& i : a.indices) rank = std::max(rank, i.rank());
  a.shape.assign(rank, 1);
  for (const Operand& i : a.indices) {
    for (int d = 0; d < i.rank(); ++d) {
      Dim& size = a.shape[rank - i.rank() + d];
      if (size.is(1)) size = i.sizes[d];
    }
  }
  if (!c.ok()) return a;
  for (Operand& i : a.indices) i = c.Expand(std::move(i), a.shape);
  return a;
}
// `x` with the indexed dims first; of the result, with the indices' shape first. torch puts the shape where the indexed
// dims were when they are neighbours, else in front.
Operand TableView(const Operand& x, const Advanced& a) {
  std::vector<int> order = a.dims;
  for (int d = 0; d < x.rank(); ++d)
    if (std::find(a.dims.begin(), a.dims.end(), d) == a.dims.end()) order.push_back(d);
  return Permute(x, order);
}
Operand ShapeFirst(const Operand& out, const Advanced& a) {
  const bool neighbours = a.dims.back() - a.dims.front() + 1 == static_cast<int>(a.dims.size());
  const int at = neighbours ? a.dims.front() : 0, n = static_cast<int>(a.shape.size());
  std::vector<int> order;
  for (int d = 0; d < n; ++d) order.push_back(at + d);
  for (int d = 0; d < out.rank(); ++d)
    if (d < at || d >= at + n) order.push_back(d);
  return Permute(out, order);
}

void Index(PlanContext& c) {
  Operand x = c.in("self");
  Advanced a = ReadIndices(c, x);
  if (!c.ok()) return;
  // Sizes that only the declaration names.
  const bool neighbours = a.dims.back() - a.dims.front() + 1 == static_cast<int>(a.dims.size());
  const int at = neighbours ? a.dims.front() : 0;
  const Dims declared = c.out_sizes();
  for (size_t k = 0; k < a.shape.size() && at + k < declared.size(); ++k)
    if (const Dim s = declared[at + k]; s.kind() == ir::SymKind::kSymbol && !c.builder().IsGiven(s))
      c.builder().Set(s, a.shape[k]);
  Operand out = c.Result();
  if (out.rank() != static_cast<int>(a.shape.size()) + x.rank() - static_cast<int>(a.dims.size()))
    return c.Fail("the result has another rank");
  std::vector<Operand> in = {TableView(x, a)};
  in.insert(in.end(), a.indices.begin(), a.indices.end());
  c.Emit("index", std::move(in), {ShapeFirst(out, a)}, out.dtype, kernels::IndexAttributes{true});
  c.Return(out);
}
void IndexPut(PlanContext& c) {
  Operand x = c.in("self"), values = c.Cast(c.in("values"), c.out_dtype()), out = c.Result();
  Advanced a = ReadIndices(c, x);
  if (!c.ok()) return;
  c.Copy(x, out);
  // Values broadcast to what the index would read.
  Dims sizes;
  const bool neighbours = a.dims.back() - a.dims.front() + 1 == static_cast<int>(a.dims.size());
  for (int d = 0; d <= x.rank(); ++d) {
    if (d == (neighbours ? a.dims.front() : 0)) sizes.insert(sizes.end(), a.shape.begin(), a.shape.end());
    if (d < x.rank() && std::find(a.dims.begin(), a.dims.end(), d) == a.dims.end()) sizes.push_back(x.sizes[d]);
  }
  Operand spread = c.Temp(values.dtype, sizes);
  c.Copy(values, spread);
  if (!c.ok()) return;
  std::vector<Operand> in = {ShapeFirst(spread, a)};
  in.insert(in.end(), a.indices.begin(), a.indices.end());
  c.Emit(c.b("accumulate") ? "index_put_add" : "index_put", std::move(in), {TableView(out, a)}, out.dtype,
         kernels::IndexAttributes{true});
  c.Return(out);
}

// Indices where the mask is false count for nothing, whatever they are.
Advanced ReadMasked(PlanContext& c, const Operand& x, const Operand& mask) {
  Advanced a = ReadIndices(c, x);
  if (!c.ok()) return a;
  ir::Scalar zero;
  for (Operand& i : a.indices) {
    Operand none = c.number(zero);
    i = c.Map("where", {mask, i, none}, c.Temp(DType::kInt64, a.shape), DType::kInt64);
  }
  return a;
}
void MaskedIndex(PlanContext& c) {
  Operand x = c.in("self"), mask = c.in("mask"), out = c.Result();
  Advanced a = ReadMasked(c, x, mask);
  if (!c.ok()) return;
  if (a.dims.size() != static_cast<size_t>(x.rank())) return c.Unsupported("without an index for each dim");
  Operand read = c.Temp(out.dtype, out.sizes);
  std::vector<Operand> in = {TableView(x, a)};
  in.insert(in.end(), a.indices.begin(), a.indices.end());
  if (x.numel().is(0)) return c.Return(c.Full(out.sizes, c.scalar("fill"), out.dtype));
  c.Emit("index", std::move(in), {ShapeFirst(read, a)}, out.dtype, kernels::IndexAttributes{true});
  c.Return(c.Map("where", {mask, read, c.in("fill")}, out, out.dtype));
}
void MaskedIndexPut(PlanContext& c) {
  Operand x = c.in("self"), mask = c.in("mask"), values = c.in("values"), out = c.Result();
  Advanced a = ReadMasked(c, x, mask);
  if (!c.ok()) return;
  if (a.dims.size() != static_cast<size_t>(x.rank())) return c.Unsupported("without an index for each dim");
  c.Copy(x, out);
  ir::Scalar zero;
  Operand none = c.number(zero), added = c.Map("where", {mask, values, none}, c.Temp(out.dtype, a.shape), out.dtype);
  std::vector<Operand> in = {added};
  in.insert(in.end(), a.indices.begin(), a.indices.end());
  if (!x.numel().is(0))
    c.Emit("index_put_add", std::move(in), {TableView(out, a)}, out.dtype, kernels::IndexAttributes{true});
  c.Return(out);
}

// torch reads and writes only where all tensors reach.
void MustReach(PlanContext& c, const Operand& big, const Operand& index, int but) {
  if (big.rank() != index.rank()) return c.Fail("the index has another rank");
  for (int d = 0; d < index.rank(); ++d)
    if (d != but) c.RequireLessEqual(index.sizes[d], big.sizes[d], "the index is larger than the tensor");
}
void Gather(PlanContext& c) {
  Operand out = c.Result(), x = AtLeast1d(c.in("self")), index = AtLeast1d(Indices(c, c.in("index")));
  const int dim = c.dim("dim", x.rank());
  MustReach(c, x, index, dim);
  c.Emit("gather", {x, index}, {AtLeast1d(out)}, out.dtype, kernels::AxisAttributes{dim});
  c.Return(out);
}
void Scatter(PlanContext& c) {
  Operand x = c.in("self"), out = c.Result();
  Operand index = AtLeast1d(Indices(c, c.in("index")));
  Operand src = c.node().op().ArgIndex("src") >= 0 ? AtLeast1d(c.in("src"))
                                                   : c.Expand(c.Cast(c.in("value"), out.dtype), index.sizes);
  const int dim = c.dim("dim", x.rank());
  if (!c.ok()) return;
  c.Copy(x, out);
  if (index.numel().is(0)) return c.Return(out);
  if (src.dtype != out.dtype) return c.Fail("src has another dtype");
  MustReach(c, AtLeast1d(out), index, dim);
  MustReach(c, src, index, -1);
  c.Emit(c.kernel(), {src, index}, {AtLeast1d(out)}, out.dtype, kernels::AxisAttributes{dim});
  c.Return(out);
}

void Cumulate(PlanContext& c) {
  Operand x = AtLeast1d(c.in("self")), out = c.Result();
  const int dim = c.dim("dim", x.rank());
  c.Emit(c.kernel(), {MoveToLast(x, {dim})}, {MoveToLast(AtLeast1d(out), {dim})}, out.dtype);
  c.Return(out);
}

// Sorted values and their places along a dim. Equals stay in order, which is one of the orders that torch leaves open.
std::pair<Operand, Operand> Sorted(PlanContext& c, const Operand& x, int dim, bool descending) {
  Operand values = c.Temp(x.dtype, x.sizes), places = c.Temp(DType::kInt64, x.sizes);
  if (c.ok())
    c.Emit("sort", {MoveToLast(AtLeast1d(x), {dim})},
           {MoveToLast(AtLeast1d(values), {dim}), MoveToLast(AtLeast1d(places), {dim})}, x.dtype,
           kernels::SortAttributes{descending});
  return {values, places};
}
void Sort(PlanContext& c) {
  Operand x = c.in("self");
  auto [values, places] = Sorted(c, x, c.dim("dim", x.rank()), c.b("descending"));
  if (c.kernel() == "argsort")
    c.Return(places);
  else
    c.Return({values, places});
}
void TopK(PlanContext& c) {
  Operand x = c.in("self");
  const int dim = c.dim("dim", x.rank());
  const Dim k = c.n("k");
  if (x.rank() == 0) return c.Unsupported("of a 0-d tensor");
  c.RequireLessEqual(0, k, "k is out of range");
  c.RequireLessEqual(k, x.sizes[dim], "k is out of range");
  auto [values, places] = Sorted(c, x, dim, c.b("largest"));
  c.Return({Narrow(values, dim, 0, k), Narrow(places, dim, 0, k)});
}

// The tensor as one row of elements; negative indices count from its end.
void Take(PlanContext& c) {
  Operand x = c.in("self"), index = Indices(c, c.in("index")), out = c.Result();
  c.Emit("index", {c.Reshape(x, {x.numel()}), index}, {out}, out.dtype, kernels::IndexAttributes{true});
  c.Return(out);
}
void Put(PlanContext& c) {
  Operand x = c.in("self"), index = Indices(c, c.in("index")), source = c.in("source"), out = c.Result();
  c.Copy(x, out);
  if (!c.ok()) return;
  c.Emit(c.b("accumulate") ? "index_put_add" : "index_put",
         {c.Reshape(source, {source.numel()}), c.Reshape(index, {index.numel()})}, {c.Reshape(out, {out.numel()})},
         out.dtype, kernels::IndexAttributes{true});
  c.Return(out);
}
void TakeAlongDim(PlanContext& c) {
  Operand x = c.in("self"), index = Indices(c, c.in("indices")), out = c.Result();
  if (!c.ok()) return;
  if (!c.has("dim")) {
    c.Emit("gather", {c.Reshape(x, {x.numel()}), c.Reshape(index, {index.numel()})}, {c.Reshape(out, {out.numel()})},
           out.dtype, kernels::AxisAttributes{0});
    return c.Return(out);
  }
  if (x.rank() != index.rank()) return c.Fail("the index has another rank");
  const int dim = c.dim("dim", x.rank());
  Dims sizes = index.sizes, at = index.sizes;
  for (int d = 0; d < x.rank(); ++d)
    if (d != dim && sizes[d].is(1)) sizes[d] = x.sizes[d];
  at = sizes;
  at[dim] = x.sizes[dim];
  c.Emit("gather", {c.Expand(x, at), c.Expand(index, sizes)}, {out}, out.dtype, kernels::AxisAttributes{dim});
  c.Return(out);
}
// Slices along a dim written or added at an index.
void IndexWrite(PlanContext& c) {
  Operand x = c.in("self"), index = AtLeast1d(Indices(c, c.in("index"))), out = c.Result();
  if (!c.ok()) return;
  const int dim = c.dim("dim", x.rank());
  if (index.rank() != 1) return c.Fail("the index has more than one dim");
  Operand to = AtLeast1d(out);
  Dims sizes = to.sizes;
  sizes[dim] = index.sizes[0];
  Operand source;
  if (c.kernel() == "fill") {
    source = c.Expand(c.Cast(c.in("value"), out.dtype), sizes);
  } else {
    source = AtLeast1d(c.in("source"));
    if (source.dtype != out.dtype) return c.Fail("source has another dtype");
    if (source.rank() != to.rank()) return c.Fail("source has another rank");
    for (int d = 0; d < to.rank(); ++d) c.RequireEqual(source.sizes[d], sizes[d], "source does not fit");
  }
  const bool add = c.kernel() == "add";
  if (add)
    if (const ir::Scalar alpha = c.scalar("alpha"); !alpha.is_constant() || alpha.d != 1) {
      if (ir::IsLowPrecision(out.dtype)) return c.Unsupported("alpha in half precision");
      Operand factor = c.number(alpha);
      source = c.Map("mul", {source, factor}, c.Temp(out.dtype, source.sizes), out.dtype);
    }
  c.Copy(x, out);
  if (!c.ok()) return;
  c.Emit(add ? "index_put_add" : "index_put", {MoveToFront(source, {dim}), index}, {MoveToFront(to, {dim})}, out.dtype,
         kernels::IndexAttributes{c.kernel() == "fill"});
  c.Return(out);
}
void Msort(PlanContext& c) {
  Operand x = c.in("self");
  c.Return(Sorted(c, x, 0, false).first);
}
void IsIn(PlanContext& c) {
  Operand x = c.in(size_t{0}), among = c.in(size_t{1}), out = c.Result();
  if (!c.ok()) return;
  const DType t = x.dtype == among.dtype ? x.dtype : ir::PromoteTypes(x.dtype, among.dtype);
  Operand list = c.Reshape(among, {among.numel()});
  Dims sizes = x.sizes;
  sizes.push_back(list.sizes[0]);
  Operand same = c.Map("eq", {Unsqueeze(x, x.rank()), list}, c.Temp(DType::kBool, sizes), t);
  Operand found = c.Temp(DType::kBool, x.sizes);
  c.Emit("any", {same}, {found}, DType::kBool, kernels::ReduceAttributes{1});
  c.Return(c.b("invert") ? c.Map("logical_not", {found}, out, DType::kBool) : found);
}
void SegmentReduce(PlanContext& c) {
  Operand x = c.in("data"), out = c.Result();
  constexpr std::string_view kNames[] = {"sum", "prod", "mean", "max", "min"};
  const std::string how = c.str("reduce");
  const auto found = std::find(std::begin(kNames), std::end(kNames), how);
  if (found == std::end(kNames)) return c.Fail(text::StrCat("reduce=\"", how, "\""));
  if (c.has("indices")) return c.Unsupported("segments given by indices");
  if (!ir::IsFloating(x.dtype)) return c.Unsupported(text::StrCat("of ", ir::Name(x.dtype)));
  const bool lengths = c.has("lengths");
  Operand runs = Indices(c, c.in(lengths ? "lengths" : "offsets"));
  std::optional<double> initial;
  if (auto given = c.opt_scalar("initial")) {
    if (!given->is_constant()) return c.Unsupported("initial is not known");
    initial = given->d;
  }
  if (c.ok())
    c.Emit("segment_reduce", {x, runs}, {out}, x.dtype,
           kernels::SegmentReduceAttributes{
               runs.rank() - 1, static_cast<kernels::Reduction>(found - std::begin(kNames)), !lengths, initial});
  c.Return(out);
}
void OneHot(PlanContext& c) {
  Operand x = c.in("self");
  if (!ir::IsIntegral(x.dtype)) return c.Unsupported(text::StrCat("of ", ir::Name(x.dtype)));
  Operand index = Indices(c, x), out = c.Full(c.out_sizes(), ir::Scalar(), c.out_dtype());
  if (!c.ok()) return;
  if (out.rank() != x.rank() + 1) return c.Fail("the result has another rank");
  ir::Scalar one;
  one.i = 1, one.d = 1;
  Dims sizes = x.sizes;
  sizes.push_back(1);
  Operand ones = c.Full(sizes, one, out.dtype);
  c.Emit("scatter", {ones, Unsqueeze(index, x.rank())}, {out}, out.dtype, kernels::AxisAttributes{x.rank()});
  c.Return(out);
}
void Bincount(PlanContext& c) {
  Operand x = c.Cast(c.in("self"), DType::kInt64), weights = c.opt_in("weights");
  const Dim least = c.n("minlength");
  if (!c.ok() || x.rank() != 1) return c.Unsupported("of no vector");
  c.RequireLessEqual(1, x.sizes[0], "of a tensor without elements");
  Operand most = c.Temp(DType::kInt64, {});
  c.Emit("amax", {x}, {most}, DType::kInt64, kernels::ReduceAttributes{1});
  const Dim largest = c.builder().NewSymbol({0, int64_t{1} << 40});
  if (!c.ok()) return;
  c.builder().Publish(largest, most);
  const Dim bins = ir::Max(largest + 1, least);
  const Dims declared = c.out_sizes();
  if (declared.size() == 1 && !c.builder().IsGiven(declared[0])) {
    if (declared[0].kind() != ir::SymKind::kSymbol) return c.Unsupported("of an unknown number of bins");
    c.builder().Set(declared[0], bins);
  } else if (declared.size() == 1) {
    c.RequireEqual(declared[0], bins, "the result has another size");
  }
  Operand out = c.Result();
  std::vector<Operand> in = {x};
  if (weights) in.push_back(weights);
  c.Emit("bincount", std::move(in), {out}, DType::kInt64);
  c.Return(out);
}
// Rows of a table summed (0), averaged (1) or maximized (2) by bag.
void EmbeddingBag(PlanContext& c) {
  Operand table = c.in("weight"), index = Indices(c, c.in("indices")), offsets = Indices(c, c.in("offsets")),
          weights = c.opt_in("per_sample_weights"), out = c.Result();
  if (!c.ok()) return;
  const int64_t mode = c.i("mode");
  if (index.rank() != 1 || offsets.rank() != 1) return c.Unsupported("indices that are not 1-D");
  if (mode < 0 || mode > 2 || (weights && mode != 0)) return c.Unsupported("of this mode");
  int64_t padding = -1;
  const bool own = c.node().op().base.find("_embedding_bag") == 0;
  if (c.node().op().ArgIndex("padding_idx") >= 0)
    if (auto given = c.opt_i("padding_idx")) {
      padding = *given;
      if (padding < 0 && !own) {
        const auto rows = table.sizes[0].constant();
        if (!rows) return c.Unsupported("a table of unknown size");
        padding += *rows;
      }
    }
  std::vector<Operand> in = {table, index, offsets};
  if (weights) in.push_back(weights);
  c.Emit("embedding_bag", std::move(in), {out}, out.dtype,
         kernels::EmbeddingBagAttributes{static_cast<kernels::BagMode>(mode), c.b("include_last_offset"), padding});
  c.Return(out);
}
void Dft(PlanContext& c) {
  Operand re = c.in("re"), im = c.opt_in("im");
  Operand y_re = c.Result(0), y_im = c.Result(1);
  if (!c.ok() || re.rank() == 0) return c.Fail("of a 0-d tensor");
  if (ir::IsLowPrecision(re.dtype)) return c.Unsupported("a transform of half precision");
  const int dim = c.dim("dim", re.rank());
  std::vector<Operand> in = {MoveToLast(re, {dim})};
  if (im) in.push_back(MoveToLast(im, {dim}));
  c.Emit("dft", std::move(in), {MoveToLast(y_re, {dim}), MoveToLast(y_im, {dim})}, re.dtype);
  c.Return({y_re, y_im});
}

constexpr PlanFamily kDataFamilies[] = {
    {Take, "index", "take"},
    {Put, "index_put", "put"},
    {TakeAlongDim, "gather", "take_along_dim"},
    {IndexWrite, "add", "index_add", true},
    {IndexWrite, "copy", "index_copy"},
    {IndexWrite, "fill", "index_fill.int_Scalar index_fill.int_Tensor"},
    {Msort, "sort", "msort"},
    {IsIn, "", "isin.Tensor_Tensor isin.Tensor_Scalar isin.Scalar_Tensor"},
    {SegmentReduce, "", "segment_reduce", true},
    {OneHot, "scatter", "one_hot"},
    {Bincount, "", "bincount"},
    {EmbeddingBag, "embedding_bag",
     "embedding_bag embedding_bag.padding_idx _embedding_bag _embedding_bag_forward_only"},
    {Dft, "", "/slipway.dft.default"},
    {MaskedIndex, "index", "_unsafe_masked_index"},
    {MaskedIndexPut, "index_put_add", "_unsafe_masked_index_put_accumulate", true},
    {IndexSelect, "", "index_select"},
    {Embedding, "", "embedding"},
    {Index, "", "index.Tensor _unsafe_index.Tensor index.Tensor_hacked_twin"},
    {IndexPut, "", "index_put _index_put_impl _unsafe_index_put index_put.hacked_twin"},
    {Gather, "", "gather"},
    {Scatter, "scatter", "scatter.src scatter.value"},
    {Scatter, "scatter_add", "scatter_add", true},
    {Cumulate, "", "cumsum cumprod"},
    {Sort, "sort", "sort sort.stable"},
    {Sort, "argsort", "argsort argsort.stable"},
    {TopK, "", "topk"},
};

}  // namespace

absl::Span<const PlanFamily> DataPlans() { return kDataFamilies; }

}  // namespace slipway::planner
