// Histograms: edges, a search among them, weights added up by bin.
#include <optional>

#include "passes/decompositions/util.h"

namespace slipway::passes {
namespace {

Value* End(Decomposer& d, Value* edges, int which) { return Select(d, edges, 0, which); }

// Evenly spaced edges over the values, or over entries `at` and `at` + 1 of the range; a range that is a point is
// widened.
Value* EvenEdges(Decomposer& d, Value* x, IntOrValue bins, size_t at) {
  const DType t = x->dtype();
  const auto range = d.has("range") ? d.opt_floats("range") : std::nullopt;
  if (range && range->size() < at + 2) return d.Fail("range is too short"), x;
  Value* low = range ? d.b.ScalarTensor((*range)[at], t) : d.b.Call("aten.amin.default", {x});
  Value* high = range ? d.b.ScalarTensor((*range)[at + 1], t) : d.b.Call("aten.amax.default", {x});
  Value* point = d.Cmp("eq", low, high);
  low = d.Where(point, d.Sub(low, 0.5), low);
  high = d.Where(point, d.Add(high, 0.5), high);
  return d.b.Call("aten.linspace.Tensor_Tensor", {low, high, Arg(d.b.Add(bins, 1))}, {{"dtype", t}});
}
// Which bin of `edges` each of `x` is in, and whether it is in one; the last bin is closed.
std::pair<Value*, Value*> BinOf(Decomposer& d, Value* x, Value* edges) {
  Value* inside = And(d, d.Cmp("ge", x, End(d, edges, 0)), d.Cmp("le", x, End(d, edges, -1)));
  Value* bin = d.Sub(d.b.Call("aten.searchsorted.Tensor", {edges, x}, {{"right", true}}), 1);
  const IntOrValue last = d.b.Sub(d.b.Size(edges, 0), 2);
  return {d.b.Call("aten.clamp_max.default", {ClampMin(d, bin, 0), Arg(last)}), inside};
}
Value* Weights(Decomposer& d, Value* inside, DType t) {
  Value* weight = d.opt_in("weight");
  return d.Where(inside, weight ? Arg(Reshape(d, weight, {-1})) : Arg(d.b.ScalarTensor(1, t)), d.b.ScalarTensor(0, t));
}
Value* Widths(Decomposer& d, Value* edges) { return d.Sub(Slice(d, edges, 0, 1), Slice(d, edges, 0, 0, -1)); }
Value* Tally(Decomposer& d, Value* at, Value* weights, IntOrValue bins) {
  return d.b.Call("aten.scatter_add.default", {d.b.Full({bins}, 0, weights->dtype()), 0, at, weights});
}

void Histogram(Decomposer& d) {
  Value* x = Reshape(d, d.in("self"), {-1});
  Value* edges = Declares(d, "range") ? EvenEdges(d, x, d.i("bins"), 0) : d.in("bins");
  if (!d.ok()) return;
  auto [bin, inside] = BinOf(d, x, edges);
  Value* counts = Tally(d, bin, Weights(d, inside, x->dtype()), d.b.Sub(d.b.Size(edges, 0), 1));
  if (d.flag("density")) counts = d.Div(d.Div(counts, d.Sum(counts, {})), Widths(d, edges));
  d.Return({counts, edges});
}

// Points in several dims, the last of x: one list of edges for each.
void HistogramDd(Decomposer& d) {
  Value* x = d.in("self");
  const auto n = x->rank() == 0 ? std::nullopt : x->sizes().back().constant();
  if (!n || *n < 1 || *n > 64) return d.Unsupported("a number of coordinates that is not known");
  x = Reshape(d, x, {-1, *n});
  Values edges;
  if (d.node().op().overload == "TensorList_bins") {
    edges = d.ins("bins");
  } else {
    const bool same = d.node().op().overload == "int_bins";
    const auto bins = same ? ir::Ints(static_cast<size_t>(*n), d.i("bins")) : d.ints("bins");
    if (static_cast<int64_t>(bins.size()) != *n) return d.Fail("bins and coordinates differ in number");
    for (int64_t k = 0; k < *n; ++k)
      edges.push_back(EvenEdges(d, Select(d, x, 1, k), bins[k], 2 * static_cast<size_t>(k)));
  }
  if (!d.ok()) return;
  if (static_cast<int64_t>(edges.size()) != *n) return d.Fail("bins and coordinates differ in number");
  Value *at = nullptr, *inside = nullptr;
  SymInts sizes;
  for (int64_t k = 0; k < *n; ++k) {
    auto [bin, in] = BinOf(d, d.b.Call("aten.contiguous.default", {Select(d, x, 1, k)}), edges[k]);
    sizes.push_back(d.b.Sub(d.b.Size(edges[k], 0), 1));
    at = at ? d.Add(d.Mul(at, Arg(sizes.back())), bin) : bin;
    inside = inside ? And(d, inside, in) : in;
  }
  Value* counts = Reshape(d, Tally(d, at, Weights(d, inside, x->dtype()), Product(d, sizes)), sizes);
  if (d.flag("density")) {
    counts = d.Div(counts, d.Sum(counts, {}));
    for (int64_t k = 0; k < *n; ++k)
      counts = d.Div(counts, Along(d, Widths(d, edges[k]), static_cast<int>(k), static_cast<int>(*n)));
  }
  Values out = {counts};
  out.insert(out.end(), edges.begin(), edges.end());
  d.Return(std::move(out));
}

constexpr DecomposeRow kHistogramRows[] = {
    {"aten.histogram.bin_ct", Histogram},
    {"aten.histogram.bins_tensor", Histogram},
    {"aten.histogramdd.default", HistogramDd},
    {"aten.histogramdd.int_bins", HistogramDd},
    {"aten.histogramdd.TensorList_bins", HistogramDd},
};

}  // namespace

absl::Span<const DecomposeRow> HistogramDecompositions() { return kHistogramRows; }

}  // namespace slipway::passes
