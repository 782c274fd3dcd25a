// Pooling: average, maximum, adaptive. torch's output size rule (aten/src/ATen/native/Pool.h): with ceil_mode a last
// window that would start in the right padding is dropped. What ONNX's ceil_mode does there differs between runtimes, so
// it is never used: the padding at the end is chosen so that plain floor division gives torch's size.
#include <algorithm>
#include <limits>

#include "exporters/onnx/lower_util.h"

namespace slipway::exporters::onnx_out {
namespace {

struct Window {
  int spatial = 0;
  Ints kernel, stride, padding, dilation;
  Ints pad_end;  // padding plus what ceil_mode adds
  bool grows = false;
};

// Reads the window and works out the end padding from the declared output sizes.
Window ReadWindow(LoweringContext& c, int spatial) {
  Window w;
  w.spatial = spatial;
  w.kernel = c.ints("kernel_size", spatial);
  w.stride = c.ints("stride", spatial);
  if (w.stride.empty()) w.stride = w.kernel;
  w.padding = c.ints("padding", spatial);
  w.dilation = c.node().op().ArgIndex("dilation") >= 0 ? c.ints("dilation", spatial) : Ints(spatial, 1);
  for (Ints* v : {&w.kernel, &w.stride, &w.padding, &w.dilation})
    if (v->size() != static_cast<size_t>(spatial)) c.Fail("a window parameter of the wrong length");
  if (!c.ok()) return w;
  w.pad_end = w.padding;
  if (!c.b("ceil_mode")) return w;
  ir::Value* x = c.tensor(c.node().op().ArgIndex("input") >= 0 ? "input" : "self");
  for (int d = 0; d < spatial; ++d) {
    auto in = x->sizes()[x->rank() - spatial + d].constant(), out = c.out_type().sizes[c.out_rank() - spatial + d].constant();
    const int64_t reach = w.dilation[d] * (w.kernel[d] - 1) + 1;
    if (in && out) {
      int64_t need = (*out - 1) * w.stride[d] + reach - *in - w.padding[d];
      if (need > w.padding[d]) w.pad_end[d] = need, w.grows = true;
    } else if (w.padding[d] + w.stride[d] - 1 < reach || w.stride[d] == 1) {
      // No window can start in the padding: enough at the end for one more always gives the ceiling.
      if (w.stride[d] > 1) w.pad_end[d] = w.padding[d] + w.stride[d] - 1, w.grows = true;
    } else {
      c.Unsupported("ceil_mode on a symbolic size whose last window may start in the padding");
    }
  }
  return w;
}

Ints Pads(const Window& w) {
  Ints pads = w.padding;
  pads.insert(pads.end(), w.pad_end.begin(), w.pad_end.end());
  return pads;
}

// x with explicit padding on its last dims.
V PadSpatial(LoweringContext& c, V x, const Ints& begin, const Ints& end, double value) {
  Ints pads(2 * x.rank, 0);
  for (size_t d = 0; d < begin.size(); ++d) {
    pads[x.rank - begin.size() + d] = begin[d];
    pads[2 * x.rank - end.size() + d] = end[d];
  }
  if (std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p == 0; })) return x;
  return c.e.Op("Pad", {x, c.e.I64(pads), c.e.Number(value, x.dtype)}, {{"mode", std::string("constant")}});
}

// Adds a batch dim where the input has none.
V Batched(LoweringContext& c, V x, int spatial, bool* added) {
  *added = x.rank == spatial + 1;
  return *added ? c.e.Unsqueeze(x, {0}) : x;
}
V Unbatched(LoweringContext& c, V x, bool added) { return added ? c.e.Squeeze(x, {0}) : x; }

template <int spatial>
void AvgPool(LoweringContext& c) {
  Window w = ReadWindow(c, spatial);
  if (!c.ok()) return;
  bool added;
  V x = Batched(c, c.in("self"), spatial, &added);
  bool include = c.b("count_include_pad");
  auto divisor = spatial == 1 ? std::nullopt : c.opt_f("divisor_override");
  Attrs attrs = {{"kernel_shape", w.kernel}, {"strides", w.stride}};
  if (!w.grows && !divisor) {
    attrs.push_back({"pads", Pads(w)});
    attrs.push_back({"count_include_pad", int64_t{include}});
    return c.Return(Unbatched(c, c.e.Op("AveragePool", {x}, attrs), added));
  }
  V mean = c.e.Op("AveragePool", {PadSpatial(c, x, w.padding, w.pad_end, 0)}, attrs);
  if (divisor) {
    double k = 1;
    for (int64_t n : w.kernel) k *= static_cast<double>(n);
    return c.Return(Unbatched(c, c.e.Mul(mean, c.e.Number(k / *divisor, x.dtype)), added));
  }
  // The share of each window that counts: what lies in the input, or in the input and its padding.
  std::vector<V> shape = {c.e.I64({1, 1})};
  for (int d = 0; d < spatial; ++d) shape.push_back(c.e.Dim(x, 2 + d));
  V ones = c.e.Expand(c.e.Number(1, x.dtype), c.e.Concat(shape, 0), x.rank);
  Ints rest(spatial), zero(spatial, 0);
  for (int d = 0; d < spatial; ++d) rest[d] = w.pad_end[d] - w.padding[d];
  if (include) ones = PadSpatial(c, PadSpatial(c, ones, w.padding, w.padding, 1), zero, rest, 0);
  else ones = PadSpatial(c, ones, w.padding, w.pad_end, 0);
  c.Return(Unbatched(c, c.e.Div(mean, c.e.Op("AveragePool", {ones}, attrs)), added));
}

template <int spatial>
void MaxPool(LoweringContext& c) {
  Window w = ReadWindow(c, spatial);
  if (!c.ok()) return;
  bool added;
  V raw = c.in("self");
  V x = Batched(c, raw, spatial, &added);
  bool indices = c.node().outputs().size() > 1 && c.used(1);
  Attrs attrs = {{"kernel_shape", w.kernel}, {"strides", w.stride}, {"dilations", w.dilation}, {"pads", Pads(w)}};
  if (!indices) {
    std::vector<V> out = {Unbatched(c, c.e.Op("MaxPool", {x}, attrs), added)};
    out.resize(c.node().outputs().size(), V{"", DType::kInt64, raw.rank});
    return c.Return(out);
  }
  auto out = c.e.OpN("MaxPool", {x}, attrs, {x.dtype, DType::kInt64});
  out[0].rank = out[1].rank = x.rank;
  // ONNX counts over the whole tensor, torch within one channel.
  V area = c.e.Op("ReduceProd", {c.e.Op("Shape", {x}, {{"start", int64_t{2}}}, DType::kInt64, 1)}, {{"keepdims", int64_t{0}}}, DType::kInt64, 0);
  out[1] = c.e.Op("Mod", {out[1], area});
  c.Return({Unbatched(c, out[0], added), Unbatched(c, out[1], added)});
}

// Adaptive pooling: window i of n covers [floor(i L / n), ceil((i + 1) L / n)).
Ints OutputSize(LoweringContext& c, int spatial) {
  auto given = c.opt_sym_ints("output_size", spatial);
  Ints out(spatial, -1);  // -1: keep
  if (!given) return c.Fail("output_size is missing"), out;
  for (int d = 0; d < spatial && d < static_cast<int>(given->size()); ++d) {
    auto s = c.out_type().sizes[c.out_rank() - spatial + d].constant();
    if (s) out[d] = *s;
    else if ((*given)[d].value) c.Unsupported("a symbolic output_size");
    else out[d] = (*given)[d].constant;
  }
  return out;
}

template <int spatial>
void AdaptiveAvg(LoweringContext& c) {
  ir::Value* self = c.tensor("self");
  Ints n = OutputSize(c, spatial);
  if (!c.ok()) return;
  V x = c.in("self");
  int first = x.rank - spatial;
  if (auto count = c.out_type().StaticNumel(); count && *count == 0)
    return c.Return(c.e.Expand(c.e.Number(0, x.dtype), c.e.I64(*c.out_type().StaticSizes()), x.rank));
  if (std::all_of(n.begin(), n.end(), [](int64_t k) { return k == 1; })) {
    Ints axes;
    for (int d = 0; d < spatial; ++d) axes.push_back(first + d);
    return c.Return(c.e.Reduce("ReduceMean", x, axes, true));
  }
  // Evenly divided static sizes are a plain average pool.
  Ints kernel;
  for (int d = 0; d < spatial; ++d) {
    auto s = self->sizes()[first + d].constant();
    if (s && n[d] > 0 && *s > 0 && *s % n[d] == 0) kernel.push_back(*s / n[d]);
  }
  if (kernel.size() == static_cast<size_t>(spatial)) {
    bool added;
    x = Batched(c, x, spatial, &added);
    return c.Return(Unbatched(c, c.e.Op("AveragePool", {x}, {{"kernel_shape", kernel}, {"strides", kernel}}), added));
  }
  // Otherwise one matrix a dim: row i averages its window. Built from the run-time size.
  for (int d = 0; d < spatial; ++d) {
    int axis = first + d;
    auto s = self->sizes()[axis].constant();
    if (n[d] < 0 || (s && *s == n[d])) continue;
    V length = c.e.DimScalar(x, axis);
    V rows = c.e.Op("Range", {c.e.I64Scalar(0), c.e.I64Scalar(n[d]), c.e.I64Scalar(1)}, {}, DType::kInt64, 1);
    V cols = c.e.Op("Range", {c.e.I64Scalar(0), length, c.e.I64Scalar(1)}, {}, DType::kInt64, 1);
    V count = c.e.I64Scalar(n[d]), one = c.e.I64Scalar(1);
    V begin = c.e.Div(c.e.Mul(rows, length), count);
    V end = c.e.Div(c.e.Add(c.e.Mul(c.e.Add(rows, one), length), c.e.I64Scalar(n[d] - 1)), count);
    V b = c.e.Unsqueeze(begin, {1}), e = c.e.Unsqueeze(end, {1});
    V inside = c.e.Cast(c.e.And(c.e.GreaterEqual(cols, b), c.e.Less(cols, e)), x.dtype);
    V matrix = c.e.Div(inside, c.e.Cast(c.e.Sub(e, b), x.dtype));  // n x L
    // (lead, L, rest) so that the product needs no transposition.
    auto sizes = [&](int from, int to) {
      return from == to ? c.e.I64({1})
                        : c.e.Op("ReduceProd", {c.e.Op("Shape", {x}, {{"start", int64_t{from}}, {"end", int64_t{to}}}, DType::kInt64, 1)},
                                 {{"keepdims", int64_t{1}}}, DType::kInt64, 1);
    };
    V folded = c.e.Reshape(x, c.e.Concat({sizes(0, axis), c.e.Dim(x, axis), sizes(axis + 1, x.rank)}, 0), 3, true);
    std::vector<V> shape;
    for (int k = 0; k < x.rank; ++k) shape.push_back(k == axis ? c.e.I64({n[d]}) : c.e.Dim(x, k));
    x = c.e.Reshape(c.e.MatMul(matrix, folded), c.e.Concat(shape, 0), x.rank, true);
  }
  c.Return(x);
}

template <int spatial>
void AdaptiveMax(LoweringContext& c) {
  ir::Value* self = c.tensor("self");
  Ints n = OutputSize(c, spatial);
  if (!c.ok()) return;
  V x = c.in("self");
  int first = x.rank - spatial;
  Ints sizes;
  for (int d = 0; d < spatial; ++d) {
    auto s = self->sizes()[first + d].constant();
    if (!s || n[d] < 0) return c.Unsupported("adaptive max pooling of a symbolic size");
    sizes.push_back(*s);
  }
  // Gather every window, padded to the longest by repeating its last element; then one ArgMax over the windows.
  Ints longest(spatial, 1);
  std::vector<Ints> index(spatial);
  for (int d = 0; d < spatial; ++d) {
    for (int64_t i = 0; i < n[d]; ++i) {
      int64_t b = i * sizes[d] / n[d], e = ((i + 1) * sizes[d] + n[d] - 1) / n[d];
      longest[d] = std::max(longest[d], e - b);
    }
    for (int64_t i = 0; i < n[d]; ++i) {
      int64_t b = i * sizes[d] / n[d], e = ((i + 1) * sizes[d] + n[d] - 1) / n[d];
      for (int64_t k = 0; k < longest[d]; ++k) index[d].push_back(std::min(b + k, e - 1));
    }
    x = c.e.Gather(x, c.e.I64(index[d]), first + d);
  }
  Ints shape, perm;
  for (int d = 0; d < first; ++d) {
    auto s = self->sizes()[d].constant();
    shape.push_back(s && *s != 0 ? *s : 0);  // 0 copies
    if (s && *s == 0) return c.Unsupported("an empty batch");
    perm.push_back(d);
  }
  for (int d = 0; d < spatial; ++d) shape.push_back(n[d]), shape.push_back(longest[d]);
  for (int d = 0; d < spatial; ++d) perm.push_back(first + 2 * d);
  for (int d = 0; d < spatial; ++d) perm.push_back(first + 2 * d + 1);
  V windows = c.e.Transpose(c.e.Reshape(x, c.e.I64(shape), first + 2 * spatial), perm);
  Ints flat = shape;
  flat.resize(first);
  for (int d = 0; d < spatial; ++d) flat.push_back(n[d]);
  flat.push_back(-1);
  windows = c.e.Reshape(windows, c.e.I64(flat), first + spatial + 1);
  V best = c.e.Reduce("ReduceMax", windows, {first + spatial}, false);
  if (c.node().outputs().size() < 2 || !c.used(1)) {
    std::vector<V> out = {best};
    out.resize(c.node().outputs().size(), V{"", DType::kInt64, best.rank});
    return c.Return(out);
  }
  V arg = c.e.Op("ArgMax", {windows}, {{"axis", int64_t{first + spatial}}, {"keepdims", int64_t{0}}}, DType::kInt64, first + spatial);
  // From the place in the window to the place in the channel.
  V place;
  int64_t inner = 1;
  for (int d = spatial - 1; d >= 0; --d) {
    V k = c.e.Op("Mod", {c.e.Div(arg, c.e.I64Scalar(inner)), c.e.I64Scalar(longest[d])});
    // index[d][i * longest + k] with i the output position along d.
    Ints rows(n[d]);
    for (int64_t i = 0; i < n[d]; ++i) rows[i] = i * longest[d];
    Ints view(spatial, 1);
    view[d] = n[d];
    V base = c.e.Reshape(c.e.I64(rows), view);
    V coordinate = c.e.Gather(c.e.I64(index[d]), c.e.Add(k, base), 0);
    int64_t step = 1;
    for (int q = d + 1; q < spatial; ++q) step *= sizes[q];
    V term = c.e.Mul(coordinate, c.e.I64Scalar(step));
    place = place ? c.e.Add(place, term) : term;
    inner *= longest[d];
  }
  c.Return({best, place});
}

// Scatter each value to its place in a zero tensor of the output size.
template <int spatial>
void MaxUnpool(LoweringContext& c) {
  V x = c.in("self"), index = c.raw(c.tensor("indices"));
  ir::Value* self = c.tensor("self");
  auto out = c.out_type().StaticSizes();
  if (!out || !self->type().StaticSizes()) return c.Unsupported("max_unpool of symbolic sizes");
  int lead = x.rank - spatial;
  Ints flat_in(out->begin(), out->begin() + lead), flat_out = flat_in;
  int64_t in_area = 1, out_area = 1;
  for (int d = lead; d < x.rank; ++d) in_area *= *self->sizes()[d].constant(), out_area *= (*out)[d];
  flat_in.push_back(in_area), flat_out.push_back(out_area);
  V zeros = c.e.Expand(c.e.Number(0, x.dtype), c.e.I64(flat_out), lead + 1);
  V y = c.e.Op("ScatterElements", {zeros, c.e.Reshape(index, flat_in), c.e.Reshape(x, flat_in)}, {{"axis", int64_t{-1}}});
  c.Return(c.e.Reshape(y, *out));
}

constexpr Row kRows[] = {
    {"aten.avg_pool1d.default", AvgPool<1>, true}, {"aten.avg_pool2d.default", AvgPool<2>, true}, {"aten.avg_pool3d.default", AvgPool<3>, true},
    {"aten.max_pool1d.default", MaxPool<1>}, {"aten.max_pool2d.default", MaxPool<2>}, {"aten.max_pool3d.default", MaxPool<3>},
    {"aten.max_pool1d_with_indices.default", MaxPool<1>}, {"aten.max_pool2d_with_indices.default", MaxPool<2>},
    {"aten.max_pool3d_with_indices.default", MaxPool<3>},
    {"aten.adaptive_avg_pool1d.default", AdaptiveAvg<1>, true}, {"aten.adaptive_avg_pool2d.default", AdaptiveAvg<2>, true},
    {"aten._adaptive_avg_pool2d.default", AdaptiveAvg<2>, true},
    {"aten.adaptive_avg_pool3d.default", AdaptiveAvg<3>, true}, {"aten._adaptive_avg_pool3d.default", AdaptiveAvg<3>, true},
    {"aten.adaptive_max_pool1d.default", AdaptiveMax<1>}, {"aten.adaptive_max_pool2d.default", AdaptiveMax<2>},
    {"aten.adaptive_max_pool3d.default", AdaptiveMax<3>},
    {"aten.max_unpool2d.default", MaxUnpool<2>}, {"aten.max_unpool3d.default", MaxUnpool<3>},
};

}  // namespace

absl::Span<const Row> PoolRows() { return kRows; }

}  // namespace slipway::exporters::onnx_out
