// torchvision's operators by position, made of others: for targets that have no operator of their own for them.
#include <limits>

#include "passes/decompositions/util.h"

namespace slipway::passes {
namespace {

// A coordinate of the regions, scaled as the image is.
Value* Coordinate(Decomposer& d, int which) { return d.Mul(Select(d, d.in("rois"), 1, which), d.f("spatial_scale")); }
// Bins of all channels, [n, channels · rows · columns, rows, columns], to the bins that belong to the channels.
Value* OwnBins(Decomposer& d, Value* all, int64_t rows, int64_t columns) {
  IntOrValue n = d.b.Size(all, 0), channels = d.b.FloorDiv(d.b.Size(all, 1), rows * columns);
  Value* x = Reshape(d, all, {n, channels, rows, columns, rows, columns});
  x = d.b.Call("aten.diagonal.default", {x, 0, 2, 4});  // [n, channels, columns, columns, rows]
  return d.b.Call("aten.diagonal.default", {x, 0, 2, 3});
}
// Which channel of the image each bin reads.
Value* Channels(Decomposer& d, Value* like, int64_t rows, int64_t columns) {
  SymInts sizes = d.b.SizesOf(like);
  IntOrValue count = d.b.Mul(sizes[1], rows * columns);
  Value* order = Reshape(d, d.b.Cast(Iota(d, count), DType::kInt32), {1, sizes[1], rows, columns});
  return Expand(d, order, std::move(sizes));
}

// roi_align of every channel, of which each bin keeps its own. Where a region has no samples, torchvision divides
// nothing by nothing.
void PsRoiAlign(Decomposer& d) {
  const int64_t rows = d.i("pooled_height"), columns = d.i("pooled_width"), sampling = d.i("sampling_ratio");
  Value* x = d.in("input");
  if (!d.ok()) return;
  Value* all =
      d.b.Call("torchvision.roi_align.default", {x, d.in("rois"), d.f("spatial_scale"), rows, columns, sampling, true});
  Value* out = OwnBins(d, all, rows, columns);
  if (sampling <= 0) {
    auto samples = [&](int low, int high, int64_t bins) {
      Value* size = d.Sub(d.Sub(Coordinate(d, high), 0.5), d.Sub(Coordinate(d, low), 0.5));
      return d.Unary("ceil", d.Div(size, static_cast<double>(bins)));
    };
    Value* none = d.Cmp("eq", d.Mul(samples(2, 4, rows), samples(1, 3, columns)), 0.0);
    SymInts sizes = {d.b.Size(out, 0), 1, 1, 1};
    out = d.Where(Reshape(d, none, std::move(sizes)), std::numeric_limits<double>::quiet_NaN(), out);
  }
  d.Return({out, Channels(d, out, rows, columns)});
}

// Averages as two products with the shares of rows and columns of the image in each bin.
void PsRoiPool(Decomposer& d) {
  const int64_t rows = d.i("pooled_height"), columns = d.i("pooled_width");
  Value* x = d.in("input");
  if (!d.ok()) return;
  const DType t = x->dtype();
  // Round half away from zero, as C does.
  auto edge = [&](int which) {
    Value* v = Coordinate(d, which);
    Value* size = d.Unary("floor", d.Add(d.Unary("abs", v), 0.5));
    return d.Mul(size, d.Unary("sign", v));
  };
  // [n, bins, pixels]: 1 where the pixel is in the bin.
  auto shares = [&](int low, int high, int64_t bins, int dim) {
    Value* start = edge(low);
    Value* each = Unsqueeze(d, d.Div(ClampMin(d, d.Sub(edge(high), start), 1), static_cast<double>(bins)), 1);
    Value* bin = d.b.Cast(Iota(d, bins), t);
    start = Unsqueeze(d, start, 1);
    IntOrValue size = d.b.Size(x, dim), last = d.b.Sub(size, 1);
    auto clip = [&](Value* v) {
      return Unsqueeze(d, d.b.Call("aten.clamp_max.default", {ClampMin(d, d.Add(v, start), 0), Arg(last)}), 2);
    };
    Value* begin = clip(d.Unary("floor", d.Mul(bin, each)));
    Value* end = clip(d.Unary("ceil", d.Mul(d.Add(bin, 1), each)));
    Value* pixel = d.b.Cast(Iota(d, size), t);
    return d.b.Cast(And(d, d.Cmp("ge", pixel, begin), d.Cmp("lt", pixel, end)), t);
  };
  Value* down = shares(2, 4, rows, 2);
  Value* across = shares(1, 3, columns, 3);
  Value* image = d.b.Cast(Select(d, d.in("rois"), 1, 0), DType::kInt64);
  Value* planes = d.b.Call("aten.index_select.default", {x, 0, image});
  IntOrValue n = d.b.Size(planes, 0), channels = d.b.FloorDiv(d.b.Size(x, 1), rows * columns);
  planes = Reshape(d, planes, {n, channels, rows, columns, d.b.Size(x, 2), d.b.Size(x, 3)});
  Value* sum = d.b.Call("aten.einsum.default", {"ncpqhw,nph->ncpqw", Values{planes, down}});
  sum = d.b.Call("aten.einsum.default", {"ncpqw,nqw->ncpq", Values{sum, across}});
  Value* area = d.Mul(Unsqueeze(d, d.Sum(down, {2}), 2), Unsqueeze(d, d.Sum(across, {2}), 1));
  Value* out = d.Div(sum, Unsqueeze(d, ClampMin(d, area, 1), 1));
  d.Return({out, Channels(d, out, rows, columns)});
}

constexpr DecomposeRow kDetectionRows[] = {
    {"torchvision.ps_roi_align.default", PsRoiAlign},
    {"torchvision.ps_roi_pool.default", PsRoiPool},
};

}  // namespace

absl::Span<const DecomposeRow> DetectionDecompositions() { return kDetectionRows; }

}  // namespace slipway::passes
