// Ranks, searches and equals; results whose size only the data tell.
#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "ir/ops/op_table.h"
#include "planner/lowering/rules.h"

namespace slipway::planner {
namespace {

// Values and places along "dim", which the results keep as 1 or not.
template <typename Attributes>
void Ranked(PlanContext& c, std::string_view kernel, const Attributes& a) {
  Operand x = AtLeast1d(c.in("self"));
  Operand values = c.Result(0), places = c.Result(1);
  if (!c.ok()) return;
  const int dim = c.dim("dim", x.rank());
  auto reduced = [&](const Operand& t) { return t.rank() == x.rank() ? Drop(t, dim) : t; };
  c.Emit(kernel, {MoveToLast(x, {dim})}, {reduced(values), reduced(places)}, x.dtype, a);
  c.Return({values, places});
}
void KthValue(PlanContext& c) {
  const Dim k = c.n("k");
  c.RequireLessEqual(1, k, "k is out of range");
  Ranked(c, "rank", RankAttributes{k - 1});
}
void MedianAlong(PlanContext& c) { Ranked(c, "median", kernels::MedianAttributes{c.kernel() == "nanmedian"}); }
void MedianOfAll(PlanContext& c) {
  Operand x = c.in("self"), out = c.Result(), place = c.Temp(DType::kInt64, {});
  if (x.numel().is(0)) return c.Unsupported("of a tensor without elements");
  c.RequireLessEqual(1, x.numel(), "of a tensor without elements");
  c.Emit("median", {c.Reshape(x, {x.numel()})}, {out, place}, x.dtype,
         kernels::MedianAttributes{c.kernel() == "nanmedian"});
  c.Return(out);
}
// Quantiles along a dim (of all elements where there is none); q is one number, or a vector whose dim comes first.
void Quantile(PlanContext& c) {
  Operand x = c.in("self"), q = c.in("q"), out = c.Result();
  if (!c.ok()) return;
  if (ir::IsLowPrecision(x.dtype)) return c.Unsupported("in half precision");
  constexpr std::string_view kModes[] = {"linear", "lower", "higher", "midpoint", "nearest"};
  const std::string how = c.str("interpolation");
  const auto mode = std::find(std::begin(kModes), std::end(kModes), how);
  if (mode == std::end(kModes)) return c.Fail(text::StrCat("interpolation=\"", how, "\""));
  int dim = 0;
  const bool all = !c.has("dim");
  const bool kept = c.b("keepdim");
  const int rank = x.rank();
  if (all)
    x = c.Reshape(x, {x.numel()});
  else
    dim = c.dim("dim", x.rank());
  x = AtLeast1d(x);
  c.RequireLessEqual(1, x.sizes[dim], "of a tensor without elements");
  // The result as [reduced…, q].
  Operand to = out;
  if (q.rank() == 0)
    to = Unsqueeze(to, to.rank());
  else
    to = MoveToLast(to, {0});
  if (kept)
    for (int d = rank - 1; d >= 0; --d)
      if (all || d == dim) to = Drop(to, d);
  c.Emit("quantile", {MoveToLast(x, {dim}), AtLeast1d(c.Cast(q, x.dtype))}, {to}, x.dtype,
         kernels::QuantileAttributes{c.node().op().base.find("nan") == 0,
                                     static_cast<kernels::Interpolation>(mode - std::begin(kModes))});
  c.Return(out);
}
void Histc(PlanContext& c) {
  Operand x = c.in("self"), out = c.Result();
  const ir::Scalar low = c.scalar("min"), high = c.scalar("max");
  if (!low.is_constant() || !high.is_constant()) return c.Unsupported("bounds are not known");
  if (x.dtype != DType::kFloat32 && x.dtype != DType::kFloat64)
    return c.Unsupported(text::StrCat("of ", ir::Name(x.dtype)));
  if (c.ok())
    c.Emit("histogram", {c.Reshape(x, {x.numel()})}, {out}, x.dtype, kernels::HistogramAttributes{low.d, high.d});
  c.Return(out);
}
void MostFrequent(PlanContext& c) { Ranked(c, "mode", kernels::NoAttributes{}); }
void Running(PlanContext& c) {
  Operand x = c.in("self");
  std::vector<Operand> results = {c.Result(0)};
  if (c.node().outputs().size() > 1) results.push_back(c.Result(1));
  if (!c.ok()) return;
  const int dim = c.dim("dim", x.rank());
  std::vector<Operand> to;
  for (const Operand& r : results) to.push_back(MoveToLast(AtLeast1d(r), {dim}));
  c.Emit(c.kernel(), {MoveToLast(AtLeast1d(x), {dim})}, std::move(to), x.dtype);
  c.Return(std::move(results));
}

void Search(PlanContext& c, Operand sorted, const Operand& x) {
  Operand out = c.Result();
  bool right = c.b("right");
  if (c.node().op().ArgIndex("side") >= 0)
    if (auto side = c.opt_str("side")) {
      if (*side == "left" && right) return c.Fail("side and right contradict each other");
      right = *side == "right";
    }
  if (c.node().op().ArgIndex("sorter") >= 0 && c.has("sorter")) {
    Operand order = c.in("sorter"), y = c.Temp(sorted.dtype, sorted.sizes);
    if (order.dtype != DType::kInt64 || order.rank() != sorted.rank()) return c.Fail("sorter does not fit");
    for (int d = 0; d < order.rank(); ++d) c.RequireEqual(order.sizes[d], sorted.sizes[d], "sorter does not fit");
    c.Emit("gather", {sorted, order}, {y}, y.dtype, kernels::AxisAttributes{sorted.rank() - 1});
    sorted = y;
  }
  if (sorted.dtype != x.dtype && (x.rank() > 0 || (ir::IsFloating(x.dtype) && !ir::IsFloating(sorted.dtype))))
    return c.Unsupported("operands of different dtypes");
  c.Emit("search", {sorted, x}, {out}, sorted.dtype, kernels::SearchAttributes{right});
  c.Return(out);
}
void SearchSorted(PlanContext& c) { Search(c, c.in("sorted_sequence"), c.in("self")); }
void Bucketize(PlanContext& c) { Search(c, c.in("boundaries"), c.in("self")); }

Operand CountNonzero(PlanContext& c, const Operand& x) {
  Operand count = c.Temp(DType::kInt64, {});
  c.Emit("count_nonzero", {x}, {count}, DType::kInt64);
  return count;
}
void Nonzero(PlanContext& c) {
  Operand x = c.in("self");
  c.PublishSize(0, 0, CountNonzero(c, x));
  Operand out = c.Result();
  c.Emit("nonzero", {x}, {out}, out.dtype);
  c.Return(out);
}
void NonzeroColumns(PlanContext& c) {
  Operand x = AtLeast1d(c.in(size_t{0}));
  const Operand count = CountNonzero(c, x);
  for (size_t i = 0; i < c.node().outputs().size(); ++i) c.PublishSize(i, 0, count);
  if (!c.ok()) return;
  Operand all = c.Temp(DType::kInt64, {c.out_sizes(0)[0], x.rank()});
  c.Emit("nonzero", {x}, {all}, all.dtype);
  std::vector<Operand> columns;
  for (int d = 0; d < x.rank(); ++d) columns.push_back(Select(all, 1, d));
  c.Return(std::move(columns));
}
void NonzeroStatic(PlanContext& c) {
  ir::Scalar fill;
  fill.i = c.i("fill_value");
  fill.d = static_cast<double>(fill.i);
  Operand x = c.in("self"), out = c.Full(c.out_sizes(), fill, c.out_dtype());
  c.Emit("nonzero", {x}, {out}, out.dtype);
  c.Return(out);
}
// Operands broadcast against each other.
void Together(PlanContext& c, Operand& x, Operand& y) {
  const int rank = std::max(x.rank(), y.rank());
  Dims sizes(rank, 1);
  for (const Operand* t : {&x, &y})
    for (int d = 0; d < t->rank(); ++d)
      if (Dim& s = sizes[rank - t->rank() + d]; s.is(1)) s = t->sizes[d];
  x = c.Expand(x, sizes);
  y = c.Expand(y, sizes);
}
void MaskedSelect(PlanContext& c) {
  Operand x = c.in("self"), mask = c.Cast(c.in("mask"), DType::kBool);
  Together(c, x, mask);
  c.PublishSize(0, 0, CountNonzero(c, mask));
  Operand out = c.Result();
  c.Emit("masked_select", {x, mask}, {out}, out.dtype);
  c.Return(out);
}
void MaskedScatter(PlanContext& c) {
  Operand x = c.in("self"), mask = c.Cast(c.in("mask"), DType::kBool), source = c.in("source"), out = c.Result();
  c.Copy(x, out);
  if (!c.ok()) return;
  c.Emit("masked_scatter", {c.Reshape(source, {source.numel()}), c.Expand(mask, out.sizes)}, {out}, out.dtype);
  c.Return(out);
}

// The places in the first tensor that repeat_interleave reads, for `n` of them.
Operand RepeatedPlaces(PlanContext& c, const Operand& repeats, Dim n) {
  Operand places = c.Temp(DType::kInt64, {n});
  c.Emit("repeat_interleave", {repeats}, {places}, DType::kInt64);
  return places;
}
Operand SumOf(PlanContext& c, const Operand& x) {
  Operand sum = c.Temp(DType::kInt64, {});
  c.Emit("sum", {x}, {sum}, DType::kInt64, kernels::ReduceAttributes{1});
  return sum;
}
void RepeatInterleave(PlanContext& c) {
  Operand x = c.in("self"), repeats = c.in("repeats");
  if (!c.ok()) return;
  int dim = 0;
  if (c.has("dim"))
    dim = c.dim("dim", x.rank());
  else
    x = c.Reshape(x, {x.numel()});
  x = AtLeast1d(x);
  repeats = AtLeast1d(repeats);
  if (repeats.rank() != 1) return c.Fail("repeats have more than one dim");
  repeats = c.Expand(repeats, {x.sizes[dim]});
  c.PublishSize(0, dim, SumOf(c, repeats));
  Operand out = c.Result();
  if (!c.ok()) return;
  c.Emit("index", {MoveToFront(x, {dim}), RepeatedPlaces(c, repeats, out.sizes[dim])}, {MoveToFront(out, {dim})},
         out.dtype, kernels::IndexAttributes{false});
  c.Return(out);
}
void RepeatInterleavePlaces(PlanContext& c) {
  Operand repeats = c.in("repeats");
  if (repeats.rank() != 1) return c.Fail("repeats have more than one dim");
  c.PublishSize(0, 0, SumOf(c, repeats));
  Operand out = c.Result();
  if (c.ok()) c.Return(c.Cast(RepeatedPlaces(c, repeats, out.sizes[0]), out.dtype));
}

// Distinct rows of x along a dim (of its elements where dim < 0): values, inverse, counts as the operators order them.
void Distinct(PlanContext& c, int dim, bool sorted) {
  Operand x = c.in("self");
  Operand rows = dim < 0 ? c.Reshape(x, {x.numel(), 1}) : x;
  if (dim >= 0) {
    if (x.rank() == 0) return c.Fail("of a 0-d tensor");
    Operand front = MoveToFront(x, {dim});
    Dim rest = 1;
    for (int d = 1; d < front.rank(); ++d) rest = rest * front.sizes[d];
    rows = c.Reshape(front, {front.sizes[0], rest});
  }
  const Dim n = rows.sizes[0];
  Operand first = c.Temp(DType::kInt64, {n}), inverse = c.Temp(DType::kInt64, {n}), counts = c.Temp(DType::kInt64, {n}),
          found = c.Temp(DType::kInt64, {});
  c.Emit("unique", {rows}, {first, inverse, counts, found}, x.dtype, kernels::UniqueAttributes{sorted});
  c.PublishSize(0, std::max(dim, 0), found);
  Operand values = c.Result(0);
  if (!c.ok()) return;
  const int at = std::max(dim, 0);
  const Dim u = values.sizes[at];
  c.Emit("index", {dim < 0 ? Select(rows, 1, 0) : MoveToFront(x, {dim}), Narrow(first, 0, 0, u)},
         {MoveToFront(values, {at})}, values.dtype, kernels::IndexAttributes{false});
  std::vector<Operand> results = {values};
  for (size_t i = 1; i < c.node().outputs().size() && c.ok(); ++i) {
    const bool asked = i == 1 ? c.b("return_inverse") : c.b("return_counts");
    if (!c.node().output(i)) {
      results.push_back({});
    } else if (!asked && KnownZero(c.out_sizes(i))) {
      results.push_back(c.Result(i));
    } else if (i == 1) {
      results.push_back(dim < 0 ? c.Reshape(inverse, c.out_sizes(1)) : inverse);
    } else {
      c.PublishSize(2, 0, found);
      results.push_back(Narrow(counts, 0, 0, c.out_sizes(2)[0]));
    }
  }
  c.Return(std::move(results));
}
void Unique(PlanContext& c) { Distinct(c, -1, true); }
void UniqueAlong(PlanContext& c) { Distinct(c, c.dim("dim", c.in("self").rank()), true); }
void UniqueConsecutiveAlong(PlanContext& c) { Distinct(c, c.dim("dim", c.in("self").rank()), false); }
void UniqueConsecutive(PlanContext& c) { Distinct(c, c.has("dim") ? c.dim("dim", c.in("self").rank()) : -1, false); }

void Item(PlanContext& c) {
  Operand x = c.in("self");
  if (c.ok()) c.PublishNumber(0, c.Reshape(x, {}));
}
void Equal(PlanContext& c) {
  Operand x = c.in("self"), y = c.in("other"), same = c.Temp(DType::kBool, {});
  if (x.sizes != y.sizes) return c.Unsupported("tensors of sizes that are not known to be equal");
  if (x.dtype != y.dtype) return c.Fail("operands of different dtypes");
  Operand each = c.Map("eq", {x, y}, c.Temp(DType::kBool, x.sizes), x.dtype);
  if (!c.ok()) return;
  c.Emit("all", {each}, {same}, DType::kBool, kernels::ReduceAttributes{x.rank()});
  c.PublishNumber(0, same);
}

// In the order of kernels::Reduction.
std::optional<kernels::Reduction> ReductionOf(PlanContext& c, std::string_view name) {
  constexpr std::string_view kNames[][2] = {
      {"sum", "add"}, {"prod", "multiply"}, {"mean", "mean"}, {"amax", "max"}, {"amin", "min"}};
  for (int64_t i = 0; i < 5; ++i)
    if (name == kNames[i][0] || name == kNames[i][1]) return static_cast<kernels::Reduction>(i);
  c.Fail(text::StrCat("reduce=\"", name, "\""));
  return std::nullopt;
}
void ScatterReduce(PlanContext& c) {
  Operand x = c.in("self"), index = AtLeast1d(c.in("index")), out = c.Result();
  const bool value = c.node().op().ArgIndex("src") < 0;
  const auto how = ReductionOf(c, c.str("reduce"));
  if (!c.ok() || !how) return;
  Operand src = value ? c.Expand(c.Cast(c.in("value"), out.dtype), index.sizes) : AtLeast1d(c.in("src"));
  if (index.dtype != DType::kInt64 && index.dtype != DType::kInt32) return c.Fail("the index is of another dtype");
  const bool with_self = c.node().op().ArgIndex("include_self") < 0 || c.b("include_self");
  c.Copy(x, out);
  c.Emit("scatter_reduce", {src, index}, {AtLeast1d(out)}, out.dtype,
         kernels::ScatterReduceAttributes{c.dim("dim", x.rank()), *how, with_self, false});
  c.Return(out);
}
void IndexReduce(PlanContext& c) {
  Operand x = c.in("self"), index = AtLeast1d(c.in("index")), src = AtLeast1d(c.in("source")), out = c.Result();
  const auto how = ReductionOf(c, c.str("reduce"));
  if (!c.ok() || !how) return;
  const int dim = c.dim("dim", x.rank());
  if (index.rank() != 1) return c.Fail("the index has more than one dim");
  for (int d = 0; d < src.rank(); ++d) {
    if (d < dim) index = Unsqueeze(index, 0);
    if (d > dim) index = Unsqueeze(index, index.rank());
  }
  c.Copy(x, out);
  c.Emit("scatter_reduce", {src, c.Expand(index, src.sizes)}, {AtLeast1d(out)}, out.dtype,
         kernels::ScatterReduceAttributes{dim, *how, c.b("include_self"), true});
  c.Return(out);
}

constexpr PlanFamily kOrderFamilies[] = {
    {KthValue, "", "kthvalue"},
    {MedianAlong, "median", "median.dim"},
    {MedianAlong, "nanmedian", "nanmedian.dim"},
    {MedianOfAll, "median", "median"},
    {MedianOfAll, "nanmedian", "nanmedian"},
    {MostFrequent, "", "mode"},
    {Running, "", "cummax cummin logcumsumexp"},
    {Running, "logcumsumexp", "_logcumsumexp"},
    {SearchSorted, "search", "searchsorted.Tensor searchsorted.Scalar"},
    {Bucketize, "search", "bucketize.Tensor bucketize.Scalar"},
    {Nonzero, "nonzero", "nonzero argwhere"},
    {NonzeroColumns, "nonzero", "nonzero_numpy where"},
    {NonzeroStatic, "nonzero", "nonzero_static"},
    {MaskedSelect, "", "masked_select"},
    {MaskedScatter, "", "masked_scatter"},
    {RepeatInterleave, "repeat_interleave", "repeat_interleave.self_Tensor"},
    {RepeatInterleavePlaces, "repeat_interleave", "repeat_interleave.Tensor"},
    {Unique, "unique", "_unique2 _unique"},
    {UniqueAlong, "unique", "unique_dim"},
    {UniqueConsecutive, "unique", "unique_consecutive"},
    {UniqueConsecutiveAlong, "unique", "unique_dim_consecutive"},
    {Quantile, "quantile", "quantile quantile.scalar nanquantile nanquantile.scalar"},
    {Histc, "histogram", "histc"},
    {Item, "", "item _local_scalar_dense is_nonzero"},
    {Equal, "", "equal"},
    {ScatterReduce, "", "scatter_reduce.two scatter.reduce scatter.value_reduce", true},
    {IndexReduce, "", "index_reduce", true},
};

}  // namespace

absl::Span<const PlanFamily> OrderPlans() { return kOrderFamilies; }

}  // namespace slipway::planner
