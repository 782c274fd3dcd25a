// Reading and writing by index, running sums, order.
#include <algorithm>

#include "base/text.h"
#include "ir/ops/op_table.h"
#include "planner/rules.h"

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
  c.Emit("index", {MoveToFront(x, {dim}), index}, {MoveToFront(to, {dim})}, out.dtype, {0});
  c.Return(out);
}
void Embedding(PlanContext& c) {
  Operand out = c.Result();
  c.Emit("index", {c.in("weight"), Indices(c, c.in("indices"))}, {out}, out.dtype, {0});
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
  for (size_t d = 0; d < given.size() && c.ok(); ++d) {
    if (!given[d]) continue;
    if (given[d]->dtype() == DType::kBool || given[d]->dtype() == DType::kUInt8) c.Unsupported("masks as indices");
    a.indices.push_back(Indices(c, c.of(given[d])));
    a.dims.push_back(static_cast<int>(d));
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
  Operand x = c.in("self"), out = c.Result();
  Advanced a = ReadIndices(c, x);
  if (!c.ok()) return;
  if (out.rank() != static_cast<int>(a.shape.size()) + x.rank() - static_cast<int>(a.dims.size()))
    return c.Fail("the result has another rank");
  std::vector<Operand> in = {TableView(x, a)};
  in.insert(in.end(), a.indices.begin(), a.indices.end());
  c.Emit("index", std::move(in), {ShapeFirst(out, a)}, out.dtype, {1});
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
  c.Emit(c.b("accumulate") ? "index_put_add" : "index_put", std::move(in), {TableView(out, a)}, out.dtype, {1});
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
  c.Emit("gather", {x, index}, {AtLeast1d(out)}, out.dtype, {dim});
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
  c.Emit(c.kernel(), {src, index}, {AtLeast1d(out)}, out.dtype, {dim});
  c.Return(out);
}

void Cumulate(PlanContext& c) {
  Operand x = AtLeast1d(c.in("self")), out = c.Result();
  const int dim = c.dim("dim", x.rank());
  c.Emit(c.kernel(), {MoveToLast(x, {dim})}, {MoveToLast(AtLeast1d(out), {dim})}, out.dtype);
  c.Return(out);
}

// Sorted values and their places along a dim.
std::pair<Operand, Operand> Sorted(PlanContext& c, const Operand& x, int dim, bool descending) {
  Operand values = c.Temp(x.dtype, x.sizes), places = c.Temp(DType::kInt64, x.sizes);
  if (c.ok())
    c.Emit("sort", {MoveToLast(AtLeast1d(x), {dim})},
           {MoveToLast(AtLeast1d(values), {dim}), MoveToLast(AtLeast1d(places), {dim})}, x.dtype, {descending});
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

constexpr PlanFamily kFamilies[] = {
    {IndexSelect, "", "index_select"},
    {Embedding, "", "embedding"},
    {Index, "", "index.Tensor _unsafe_index.Tensor"},
    {IndexPut, "", "index_put"},
    {Gather, "", "gather"},
    {Scatter, "scatter", "scatter.src scatter.value"},
    {Scatter, "scatter_add", "scatter_add"},
    {Cumulate, "", "cumsum cumprod"},
    {Sort, "sort", "sort sort.stable"},
    {Sort, "argsort", "argsort argsort.stable"},
    {TopK, "", "topk"},
};

}  // namespace

absl::Span<const PlanFamily> DataPlans() { return kFamilies; }

}  // namespace slipway::planner
