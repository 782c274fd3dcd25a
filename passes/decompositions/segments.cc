// torch_scatter's operators: rows of a tensor added up (multiplied, averaged, …) by the index of each (scatter, coo),
// or between two ends of each segment (csr); and rows handed out again. A segment without rows gives 0, of a product 1.
#include "passes/decompositions/util.h"

namespace slipway::passes {
namespace {

// "segment_max_csr" -> "max".
std::string_view How(const Decomposer& d) {
  std::string_view name = d.node().op().base;
  name.remove_prefix(name.find('_') + 1);
  return name.substr(0, name.find('_'));
}
bool Refused(Decomposer& d, const char* out) {
  if (d.has(out)) d.Unsupported("a result that is given");
  if (d.node().outputs().size() > 1 && d.node().output(1) &&
      (!d.node().output(1)->users().empty() || d.node().output(1)->graph()->IsOutput(d.node().output(1))))
    d.Unsupported("the places of the extremes");
  return !d.ok();
}
// The index laid along `dim` of x, and behind it.
Value* Spread(Decomposer& d, Value* index, Value* x, int dim) {
  if (index->rank() == 1)
    for (int k = 0; k < dim; ++k) index = Unsqueeze(d, index, 0);
  while (index->rank() < x->rank()) index = Unsqueeze(d, index, index->rank());
  return Expand(d, d.b.Cast(index, DType::kInt64), d.b.SizesOf(x));
}
// x by index along dim, of which the result has `size`.
Value* Reduce(Decomposer& d, Value* x, Value* index, int dim, IntOrValue size, std::string_view how) {
  SymInts sizes = d.b.SizesOf(x);
  sizes[dim] = size;
  if (how == "sum" || how == "mean")
    return d.b.Call("aten.scatter_add.default", {d.b.Full(sizes, 0, x->dtype()), dim, index, x});
  const bool product = how == "mul";
  return d.b.Call("aten.scatter_reduce.two",
                  {d.b.Full(sizes, product ? 1 : 0, x->dtype()), dim, index, x,
                   product        ? "prod"
                   : how == "min" ? "amin"
                                  : "amax"},
                  {{"include_self", product}});
}
Value* Average(Decomposer& d, Value* sum, Value* count) {
  count = ClampMin(d, count, 1);
  if (ir::IsFloating(sum->dtype())) return d.Div(sum, count);
  return d.b.Call("aten.div.Tensor_mode", {sum, count}, {{"rounding_mode", "floor"}});
}

void ByIndex(Decomposer& d, int dim, const char* out, const char* size) {
  if (Refused(d, out)) return;
  Value* x = d.in("_0");
  const auto declared = d.out_type().sizes[dim].constant();
  const auto given = d.opt_i(size);
  if (!given && !declared) return d.Unsupported("a size that the index decides");
  const int64_t n = given ? *given : *declared;
  Value* index = Spread(d, d.tensor("_1"), x, dim);
  Value* y = Reduce(d, x, index, dim, n, How(d));
  if (How(d) == "mean") {
    Value* ones = d.b.Call("aten.ones_like.default", {x});
    y = Average(d, y, Reduce(d, ones, index, dim, n, "sum"));
  }
  d.Return({y, nullptr});
}
void Scatter(Decomposer& d) { ByIndex(d, d.dim("_2", d.tensor("_0")->rank()), "_3", "_4"); }
void SegmentCoo(Decomposer& d) { ByIndex(d, d.tensor("_1")->rank() - 1, "_2", "_3"); }

// Row i is of the segment whose ends are around it; what lies outside of all goes to two segments that are cut off.
void SegmentCsr(Decomposer& d) {
  if (Refused(d, "_2")) return;
  Value *x = d.in("_0"), *ends = d.tensor("_1");
  if (ends->rank() != 1) return d.Unsupported("ends of more than one dim");
  const IntOrValue n = d.b.Sub(d.b.Size(ends, 0), 1);
  Value* place =
      d.b.Call("aten.searchsorted.Tensor", {d.b.Cast(ends, DType::kInt64), Iota(d, d.b.Size(x, 0))}, {{"right", true}});
  Value* y = Reduce(d, x, Spread(d, place, x, 0), 0, d.b.Add(n, 2), How(d));
  y = Slice(d, y, 0, 1, d.b.Add(n, 1));
  if (How(d) == "mean") {
    Value* count = d.Sub(Slice(d, ends, 0, 1), Slice(d, ends, 0, 0, -1));
    y = Average(d, y, Along(d, d.b.Cast(count, x->dtype()), 0, x->rank()));
  }
  d.Return({y, nullptr});
}

void GatherCoo(Decomposer& d) {
  if (Refused(d, "_2")) return;
  Value *x = d.tensor("_0"), *index = d.tensor("_1");
  const int dim = index->rank() - 1;
  if (dim == 0) return d.Return(d.b.Call("aten.index_select.default", {x, 0, index}));
  SymInts sizes = d.b.SizesOf(x);
  sizes[dim] = d.b.Size(index, dim);
  while (index->rank() < x->rank()) index = Unsqueeze(d, index, index->rank());
  d.Return(d.b.Call("aten.gather.default", {x, dim, Expand(d, d.b.Cast(index, DType::kInt64), std::move(sizes))}));
}
void GatherCsr(Decomposer& d) {
  if (Refused(d, "_2")) return;
  Value *x = d.tensor("_0"), *ends = d.tensor("_1");
  if (ends->rank() != 1) return d.Unsupported("ends of more than one dim");
  Value* count = d.Sub(Slice(d, ends, 0, 1), Slice(d, ends, 0, 0, -1));
  d.Return(d.b.Call("aten.repeat_interleave.self_Tensor", {x, count, 0}));
}

constexpr DecomposeRow kSegmentRows[] = {
    {"torch_scatter.scatter_sum.default", Scatter},         {"torch_scatter.scatter_mul.default", Scatter},
    {"torch_scatter.scatter_mean.default", Scatter},        {"torch_scatter.scatter_min.default", Scatter},
    {"torch_scatter.scatter_max.default", Scatter},         {"torch_scatter.segment_sum_coo.default", SegmentCoo},
    {"torch_scatter.segment_mean_coo.default", SegmentCoo}, {"torch_scatter.segment_min_coo.default", SegmentCoo},
    {"torch_scatter.segment_max_coo.default", SegmentCoo},  {"torch_scatter.segment_sum_csr.default", SegmentCsr},
    {"torch_scatter.segment_mean_csr.default", SegmentCsr}, {"torch_scatter.segment_min_csr.default", SegmentCsr},
    {"torch_scatter.segment_max_csr.default", SegmentCsr},  {"torch_scatter.gather_coo.default", GatherCoo, false},
    {"torch_scatter.gather_csr.default", GatherCsr, false},
};

}  // namespace

absl::Span<const DecomposeRow> SegmentDecompositions() { return kSegmentRows; }

}  // namespace slipway::passes
