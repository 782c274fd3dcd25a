// Pooling: average, maximum, adaptive. torch's output size rule (aten/src/ATen/native/Pool.h): with ceil_mode a last
// window that would start in the right padding is dropped. What ONNX's ceil_mode does there differs between runtimes,
// so
// it is never used: the padding at the end is chosen so that plain floor division gives torch's size.
#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "exporters/onnx/lowerings/data.h"
#include "exporters/onnx/lowerings/util.h"

namespace slipway::exporters::onnx_out {
namespace {

struct PoolWindow {
  int spatial = 0;
  Ints kernel, stride, padding, dilation;
  Ints pad_end;  // padding plus what ceil_mode adds
  bool grows = false;
  std::vector<V> more;  // what it adds to that at run time, 0-d; empty values for no more
};

// What ceil_mode adds behind a dim of unknown size, where the last window may start in the padding and is dropped then.
V MoreAtEnd(LoweringContext& c, V size, const PoolWindow& w, int d) {
  auto number = [&](int64_t v) { return c.e.I64Scalar(v); };
  const int64_t reach = w.dilation[d] * (w.kernel[d] - 1) + 1, stride = w.stride[d], padding = w.padding[d];
  // The last window of the ceiling, from the first, and where it starts.
  V last = c.e.Div(c.e.Add(size, number(2 * padding - reach + stride - 1)), number(stride));
  V start = c.e.Mul(last, number(stride)), inside = c.e.Add(size, number(padding));
  start = c.e.Where(c.e.Less(start, inside), start, c.e.Sub(start, number(stride)));
  return c.e.Max(c.e.Sub(c.e.Add(start, number(reach - padding)), inside), number(0));
}

// Reads the window and works out the end padding from the declared output sizes.
PoolWindow ReadWindow(LoweringContext& c, int spatial) {
  PoolWindow w;
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
    auto in = x->sizes()[x->rank() - spatial + d].constant(),
         out = c.out_type().sizes[c.out_rank() - spatial + d].constant();
    const int64_t reach = w.dilation[d] * (w.kernel[d] - 1) + 1;
    if (in && out) {
      int64_t need = (*out - 1) * w.stride[d] + reach - *in - w.padding[d];
      if (need > w.padding[d]) w.pad_end[d] = need, w.grows = true;
    } else if (w.padding[d] + w.stride[d] - 1 < reach || w.stride[d] == 1) {
      // No window can start in the padding: enough at the end for one more always gives the ceiling.
      if (w.stride[d] > 1) w.pad_end[d] = w.padding[d] + w.stride[d] - 1, w.grows = true;
    } else {
      w.more.resize(static_cast<size_t>(spatial));
      w.more[d] = MoreAtEnd(c, c.e.DimScalar(c.value(x), x->rank() - spatial + d), w, d), w.grows = true;
    }
  }
  return w;
}

Ints Pads(const PoolWindow& w) {
  Ints pads = w.padding;
  pads.insert(pads.end(), w.pad_end.begin(), w.pad_end.end());
  return pads;
}

// x with explicit padding on its last dims.
V PadSpatial(LoweringContext& c, V x, const Ints& begin, const Ints& end, V value) {
  Ints pads(2 * x.rank, 0);
  for (size_t d = 0; d < begin.size(); ++d) {
    pads[x.rank - begin.size() + d] = begin[d];
    pads[2 * x.rank - end.size() + d] = end[d];
  }
  if (std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p == 0; })) return x;
  return c.e.Op("Pad", {x, c.e.I64(pads), value}, {{"mode", std::string("constant")}});
}
V PadMore(LoweringContext& c, V x, const PoolWindow& w, V value) {
  if (w.more.empty()) return x;
  std::vector<V> pads = {c.e.I64(Ints(static_cast<size_t>(2 * x.rank - w.spatial), 0))};
  for (const V& v : w.more) pads.push_back(v ? c.e.Unsqueeze(v, {0}) : c.e.I64({0}));
  return c.e.Op("Pad", {x, c.e.Concat(pads, 0), value}, {{"mode", std::string("constant")}});
}
V PadSpatial(LoweringContext& c, V x, const Ints& begin, const Ints& end, double value) {
  return PadSpatial(c, x, begin, end, c.e.Number(value, x.dtype));
}

// The same of a window, with what is known at run time only.
V PadWindow(LoweringContext& c, V x, const PoolWindow& w, V value) {
  x = PadSpatial(c, x, w.padding, w.pad_end, value);
  return PadMore(c, x, w, value);
}

// Adds a batch dim where the input has none.
V Batched(LoweringContext& c, V x, int spatial, bool* added) {
  *added = x.rank == spatial + 1;
  return *added ? c.e.Unsqueeze(x, {0}) : x;
}
V Unbatched(LoweringContext& c, V x, bool added) { return added ? c.e.Squeeze(x, {0}) : x; }

// Windows of integers, whose padding is there already, put together by `join` (Add, Max): one slice for each place in
// the window.
V JoinWindows(LoweringContext& c, V x, const PoolWindow& w, std::string_view join) {
  const int first = x.rank - w.spatial;
  for (int d = 0; d < w.spatial; ++d) {
    V whole;
    for (int64_t k = 0; k < w.kernel[d]; ++k) {
      int64_t at = k * w.dilation[d], after = (w.kernel[d] - 1 - k) * w.dilation[d];
      V part =
          c.e.Slice(x, {at}, {after == 0 ? std::numeric_limits<int64_t>::max() : -after}, {first + d}, {w.stride[d]});
      whole = whole ? c.e.Op(join, {whole, part}) : part;
    }
    x = whole;
  }
  return x;
}
constexpr int64_t kMaxIntegerWindow = 1024;
bool IsIntegerWindow(const PoolWindow& w) {
  return std::all_of(w.kernel.begin(), w.kernel.end(), [](int64_t k) { return k >= 1 && k <= kMaxIntegerWindow; });
}
// Integers, which ONNX's AveragePool does not take: sums divided towards zero.
V IntegerAvgPool(LoweringContext& c, V x, const PoolWindow& w, bool include, std::optional<double> divisor) {
  if (!IsIntegerWindow(w)) return c.Unsupported("an integer window of that size"), x;
  const DType t = x.dtype;
  x = c.e.Cast(x, DType::kInt64);
  V sum = JoinWindows(c, PadWindow(c, x, w, c.e.Integer(0, x.dtype)), w, "Add");
  if (divisor) return c.e.Cast(c.e.Div(sum, c.e.Integer(static_cast<int64_t>(*divisor), DType::kInt64)), t);
  std::vector<V> shape = {c.e.I64({1, 1})};
  for (int d = 0; d < w.spatial; ++d) shape.push_back(c.e.Dim(x, 2 + d));
  V ones = c.e.Expand(c.e.Integer(1, DType::kInt64), c.e.Concat(shape, 0), x.rank);
  Ints rest(w.spatial), zero(w.spatial, 0);
  for (int d = 0; d < w.spatial; ++d) rest[d] = w.pad_end[d] - w.padding[d];
  ones = PadSpatial(c, PadSpatial(c, ones, w.padding, w.padding, include ? 1 : 0), zero, rest, 0);
  ones = PadMore(c, ones, w, c.e.Integer(0, ones.dtype));
  return c.e.Cast(c.e.Div(sum, JoinWindows(c, ones, w, "Add")), t);
}

template <int spatial>
void AvgPool(LoweringContext& c) {
  PoolWindow w = ReadWindow(c, spatial);
  if (!c.ok()) return;
  bool added;
  V x = Batched(c, c.in("self"), spatial, &added);
  bool include = c.b("count_include_pad");
  auto divisor = spatial == 1 ? std::nullopt : c.opt_f("divisor_override");
  if (divisor && *divisor == 0) return c.Fail("a divisor of zero");
  if (!ir::IsFloating(x.dtype)) return c.Return(Unbatched(c, IntegerAvgPool(c, x, w, include, divisor), added));
  Attrs attrs = {{"kernel_shape", w.kernel}, {"strides", w.stride}};
  if (!w.grows && !divisor) {
    attrs.push_back({"pads", Pads(w)});
    attrs.push_back({"count_include_pad", int64_t{include}});
    return c.Return(Unbatched(c, c.e.Op("AveragePool", {x}, attrs), added));
  }
  V mean = c.e.Op("AveragePool", {PadWindow(c, x, w, c.e.Number(0, x.dtype))}, attrs);
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
  if (include)
    ones = PadSpatial(c, PadSpatial(c, ones, w.padding, w.padding, 1), zero, rest, 0);
  else
    ones = PadSpatial(c, ones, w.padding, w.pad_end, 0);
  ones = PadMore(c, ones, w, c.e.Number(0, ones.dtype));
  c.Return(Unbatched(c, c.e.Div(mean, c.e.Op("AveragePool", {ones}, attrs)), added));
}

template <int spatial>
void MaxPool(LoweringContext& c) {
  PoolWindow w = ReadWindow(c, spatial);
  if (!c.ok()) return;
  bool added;
  V raw = c.in("self");
  V x = Batched(c, raw, spatial, &added);
  if (!ir::IsFloating(x.dtype) && x.dtype != DType::kUInt8 && x.dtype != DType::kInt8 && x.dtype != DType::kInt64)
    x = c.e.Cast(x, DType::kFloat64);
  bool indices = c.node().outputs().size() > 1 && c.used(1);
  if (raw.dtype == DType::kInt64) {  // ONNX Runtime pools floats and bytes: f64 has not all of these
    if (indices) return c.Unsupported("the places of 64-bit integers");
    if (!IsIntegerWindow(w)) return c.Unsupported("an integer window of that size");
    std::vector<V> out = {
        Unbatched(c, JoinWindows(c, PadWindow(c, x, w, Extreme(c.e, x.dtype, false)), w, "Max"), added)};
    out.resize(c.node().outputs().size(), V{"", DType::kInt64, raw.rank});
    return c.Return(out);
  }
  const V image = x, least = Extreme(c.e, x.dtype, false);
  bool padded = !w.more.empty();
  for (int d = 0; d < spatial; ++d) padded = padded || w.pad_end[d] >= w.kernel[d];  // which ONNX Runtime refuses
  if (padded) {
    Ints none(spatial, 0), rest(spatial);
    for (int d = 0; d < spatial; ++d) rest[d] = w.pad_end[d] - w.padding[d];
    x = PadMore(c, PadSpatial(c, x, none, rest, least), w, least);
    w.pad_end = w.padding;
  }
  Attrs attrs = {{"kernel_shape", w.kernel}, {"strides", w.stride}, {"dilations", w.dilation}, {"pads", Pads(w)}};
  if (!indices) {
    std::vector<V> out = {Unbatched(c, c.e.Op("MaxPool", {x}, attrs), added)};
    out.resize(c.node().outputs().size(), V{"", DType::kInt64, raw.rank});
    return c.Return(out);
  }
  auto out = c.e.OpN("MaxPool", {x}, attrs, {x.dtype, DType::kInt64});
  out[0].rank = out[1].rank = x.rank;
  // ONNX counts over the whole tensor, torch within one channel.
  V area = c.e.Op("ReduceProd", {c.e.Op("Shape", {x}, {{"start", int64_t{2}}}, DType::kInt64, 1)},
                  {{"keepdims", int64_t{0}}}, DType::kInt64, 0);
  out[1] = c.e.Op("Mod", {out[1], area});
  if (padded) {  // from places in what was padded to places in the image
    V rest = out[1], step = c.e.I64Scalar(1), place;
    for (int d = w.spatial - 1; d >= 0; --d) {
      V size = c.e.DimScalar(x, 2 + d), at = d == 0 ? rest : c.e.Op("Mod", {rest, size}), term = c.e.Mul(at, step);
      place = place ? c.e.Add(place, term) : term;
      if (d > 0) rest = c.e.Div(rest, size), step = c.e.Mul(step, c.e.DimScalar(image, 2 + d));
    }
    out[1] = place;
  }
  c.Return({Unbatched(c, out[0], added), Unbatched(c, out[1], added)});
}

// Adaptive pooling: window i of n covers [floor(i L / n), ceil((i + 1) L / n)).
// Sizes that are known when the model runs only are kSymbolic, and numbers in `counts` (0-d).
constexpr int64_t kSymbolic = -2;
Ints OutputSize(LoweringContext& c, int spatial, std::vector<V>* counts = nullptr) {
  auto given = c.opt_sym_ints("output_size", spatial);
  Ints out(spatial, -1);  // -1: keep
  if (!given) return c.Fail("output_size is missing"), out;
  for (int d = 0; d < spatial && d < static_cast<int>(given->size()); ++d) {
    auto s = c.out_type().sizes[c.out_rank() - spatial + d].constant();
    if (s)
      out[d] = *s;
    else if ((*given)[d].value && counts)
      out[d] = kSymbolic, counts->resize(spatial), (*counts)[d] = c.dim0((*given)[d]);
    else if ((*given)[d].value)
      c.Unsupported("a symbolic output_size");
    else
      out[d] = (*given)[d].constant;
  }
  return out;
}

// The windows of one dim: the places that each reads (windows × places, beyond its end the last again), which of these
// are inside (empty: all), and how long they are.
struct AveragedWindows {
  V index, inside, lengths;
};
constexpr int64_t kMaxKnownPlaces = 1 << 16;
AveragedWindows AveragedWindowsOf(LoweringContext& c, V x, int axis, std::optional<int64_t> length, int64_t known_count,
                                  V count) {
  AveragedWindows w;
  if (length && !count && *length > 0 && known_count > 0 && *length <= kMaxKnownPlaces &&
      known_count <= kMaxKnownPlaces && known_count * (*length / known_count + 2) <= kMaxKnownPlaces) {
    auto begin = [&](int64_t i) { return i * *length / known_count; };
    auto end = [&](int64_t i) { return ((i + 1) * *length + known_count - 1) / known_count; };
    Ints lengths, index;
    std::string inside;
    for (int64_t i = 0; i < known_count; ++i) lengths.push_back(end(i) - begin(i));
    const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    for (int64_t i = 0; i < known_count; ++i) {
      for (int64_t k = 0; k < longest; ++k) {
        index.push_back(std::min(begin(i) + k, end(i) - 1));
        inside.push_back(k < lengths[static_cast<size_t>(i)] ? 1 : 0);
      }
    }
    const bool all = inside.find('\0') == std::string::npos;
    std::string places(reinterpret_cast<const char*>(index.data()), index.size() * sizeof(int64_t));
    w.index = c.e.Const(DType::kInt64, {known_count, longest}, std::move(places));
    if (!all) w.inside = c.e.Const(DType::kBool, {known_count, longest}, std::move(inside));
    w.lengths = c.e.Numbers({lengths.begin(), lengths.end()}, x.dtype, {known_count});
    return w;
  }
  V size = c.e.DimScalar(x, axis), one = c.e.I64Scalar(1);
  if (!count) count = c.e.I64Scalar(known_count);
  V rows = Iota(c.e, count);
  V begin = c.e.Div(c.e.Mul(rows, size), count);
  V end = c.e.Div(c.e.Add(c.e.Mul(c.e.Add(rows, one), size), c.e.Sub(count, one)), count);
  w.lengths = c.e.Sub(end, begin);
  V places = c.e.Add(c.e.Unsqueeze(begin, {1}), Iota(c.e, c.e.Reduce("ReduceMax", w.lengths, {0}, false)));
  V ends = c.e.Unsqueeze(end, {1});
  w.inside = c.e.Less(places, ends);
  w.index = c.e.Min(places, c.e.Sub(ends, one));
  return w;
}

template <int spatial>
void AdaptiveAvg(LoweringContext& c) {
  ir::Value* self = c.tensor("self");
  std::vector<V> counts;
  Ints n = OutputSize(c, spatial, &counts);
  if (!c.ok()) return;
  V x = c.in("self");
  int first = x.rank - spatial;
  if (auto count = c.out_type().StaticNumel(); count && *count == 0)
    return c.Return(c.e.Expand(c.e.Number(0, x.dtype), c.e.I64(*c.out_type().StaticSizes()), x.rank));
  if (std::all_of(n.begin(), n.end(), [](int64_t k) { return k == 1; })) {
    Ints axes;
    std::vector<int> dims;
    for (int d = 0; d < spatial; ++d) axes.push_back(first + d), dims.push_back(first + d);
    return c.Return(MayBeMeanOfNothing(c, self, dims) ? c.e.Reduce("ReduceMean", x, axes, true)
                                                      : KeptMean(c.e, x, axes));
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
  // Otherwise the windows of a dim after the other, gathered to be as long as the longest and added up where they are:
  // what is not finite stays in the windows that hold it.
  for (int d = 0; d < spatial; ++d) {
    const int axis = first + d;
    const auto s = self->sizes()[axis].constant();
    if (n[d] == -1 || (s && *s == n[d])) continue;
    const AveragedWindows w = AveragedWindowsOf(c, x, axis, s, n[d], n[d] == kSymbolic ? counts[d] : V{});
    Ints behind;
    for (int k = axis + 1; k < x.rank; ++k) behind.push_back(1 + k - axis);
    x = c.e.Gather(x, w.index, axis);  // (…, windows, places, …)
    if (w.inside) x = c.e.Where(c.e.Unsqueeze(w.inside, behind), x, c.e.Number(0, x.dtype));
    x = c.e.Reduce("ReduceSum", x, {axis + 1}, false);
    for (int64_t& k : behind) --k;
    x = c.e.Div(x, c.e.Unsqueeze(c.e.Cast(w.lengths, x.dtype), behind));
  }
  c.Return(x);
}

// Sizes that are constants where they can be.
class Shape {
 public:
  explicit Shape(LoweringContext& c) : c_(c) {}
  void Add(std::optional<int64_t> known, const std::function<V()>& size) {
    known_.push_back(known.value_or(-1));
    all_ &= known.has_value();
    parts_.push_back(known ? V{} : size());
  }
  V Get() const {
    if (all_) return c_.e.I64(known_);
    std::vector<V> parts = parts_;
    for (size_t i = 0; i < parts.size(); ++i)
      if (!parts[i]) parts[i] = c_.e.I64({known_[i]});
    return c_.e.Concat(parts, 0);
  }

 private:
  LoweringContext& c_;
  Ints known_;
  std::vector<V> parts_;
  bool all_ = true;
};

// The windows of one dim: where each element of each is, the last one repeated up to the longest window.
struct AdaptiveWindows {
  V index;                   // windows times longest
  V count, longest, length;  // 1-D of one element
  std::optional<int64_t> known_count, known_longest;
};
AdaptiveWindows WindowsOf(LoweringContext& c, V x, int axis, std::optional<int64_t> length, int64_t count) {
  constexpr int64_t kMostPlaces = int64_t{1} << 20;  // of a table in the file: longer ones are made when the model runs
  AdaptiveWindows w;
  if (length && count < 0) count = *length;
  if (length && count <= kMostPlaces && *length <= kMostPlaces) {
    Ints index;
    int64_t longest = 1;
    auto begin = [&](int64_t i) { return i * *length / count; };
    auto end = [&](int64_t i) { return ((i + 1) * *length + count - 1) / count; };
    for (int64_t i = 0; i < count; ++i) longest = std::max(longest, end(i) - begin(i));
    for (int64_t i = 0; i < count; ++i)
      for (int64_t k = 0; k < longest; ++k) index.push_back(std::min(begin(i) + k, end(i) - 1));
    w.known_count = count, w.known_longest = longest;
    w.index = c.e.I64(index), w.count = c.e.I64({count}), w.longest = c.e.I64({longest}), w.length = c.e.I64({*length});
    return w;
  }
  V zero = c.e.I64Scalar(0), one = c.e.I64Scalar(1);
  auto range = [&](V n) { return c.e.Op("Range", {zero, c.e.Squeeze(n, {0}), one}, {}, DType::kInt64, 1); };
  w.length = c.e.Dim(x, axis);
  if (count < 0) {  // as many windows as elements
    w.count = w.length, w.longest = c.e.I64({1}), w.known_longest = 1, w.index = range(w.length);
    return w;
  }
  w.known_count = count, w.count = c.e.I64({count});
  V rows = range(w.count);
  V begin = c.e.Div(c.e.Mul(rows, w.length), w.count);
  V end = c.e.Div(c.e.Add(c.e.Mul(c.e.Add(rows, one), w.length), c.e.I64({count - 1})), w.count);
  w.longest = c.e.Reduce("ReduceMax", c.e.Sub(end, begin), {0}, true);
  V places = c.e.Min(c.e.Add(c.e.Unsqueeze(begin, {1}), range(w.longest)), c.e.Unsqueeze(c.e.Sub(end, one), {1}));
  w.index = c.e.Reshape(places, Ints{-1});
  return w;
}

template <int spatial>
void AdaptiveMax(LoweringContext& c) {
  ir::Value* self = c.tensor("self");
  Ints n = OutputSize(c, spatial);
  if (!c.ok()) return;
  V x = c.in("self"), whole = x;
  int first = x.rank - spatial;
  // Gather every window; then one ArgMax over the windows.
  std::vector<AdaptiveWindows> w;
  for (int d = 0; d < spatial; ++d) {
    if (n[d] == 0) return c.Unsupported("adaptive max pooling to no elements");
    w.push_back(WindowsOf(c, whole, first + d, self->sizes()[first + d].constant(), n[d]));
    x = c.e.Gather(x, w[d].index, first + d);
  }
  Shape apart(c), flat(c);
  Ints perm;
  for (int d = 0; d < first; ++d) {
    for (Shape* s : {&apart, &flat}) s->Add(self->sizes()[d].constant(), [&] { return c.e.Dim(whole, d); });
    perm.push_back(d);
  }
  std::optional<int64_t> known_area = 1;
  V area;
  for (int d = 0; d < spatial; ++d) {
    apart.Add(w[d].known_count, [&] { return w[d].count; });
    apart.Add(w[d].known_longest, [&] { return w[d].longest; });
    flat.Add(w[d].known_count, [&] { return w[d].count; });
    area = area ? c.e.Mul(area, w[d].longest) : w[d].longest;
    if (known_area && w[d].known_longest)
      *known_area *= *w[d].known_longest;
    else
      known_area = std::nullopt;
  }
  flat.Add(known_area, [&] { return area; });
  for (int d = 0; d < spatial; ++d) perm.push_back(first + 2 * d);
  for (int d = 0; d < spatial; ++d) perm.push_back(first + 2 * d + 1);
  V windows = c.e.Transpose(c.e.Reshape(x, apart.Get(), first + 2 * spatial, true), perm);
  windows = c.e.Reshape(windows, flat.Get(), first + spatial + 1, true);
  V best = c.e.Reduce("ReduceMax", windows, {first + spatial}, false);
  if (c.node().outputs().size() < 2 || !c.used(1)) {
    std::vector<V> out = {best};
    out.resize(c.node().outputs().size(), V{"", DType::kInt64, best.rank});
    return c.Return(out);
  }
  V arg = c.e.Op("ArgMax", {windows}, {{"axis", int64_t{first + spatial}}, {"keepdims", int64_t{0}}}, DType::kInt64,
                 first + spatial);
  // From the place in the window to the place in the channel.
  V place, inner, step;
  for (int d = spatial - 1; d >= 0; --d) {
    V k = c.e.Op("Mod", {inner ? c.e.Div(arg, inner) : arg, w[d].longest});
    // index[d][i * longest + k] with i the output position along d.
    V rows = c.e.Op("Range", {c.e.I64Scalar(0), c.e.Squeeze(w[d].count, {0}), c.e.I64Scalar(1)}, {}, DType::kInt64, 1);
    Ints view(spatial, 1);
    view[d] = -1;
    V base = c.e.Reshape(c.e.Mul(rows, w[d].longest), view);
    V coordinate = c.e.Gather(w[d].index, c.e.Add(k, base), 0);
    V term = step ? c.e.Mul(coordinate, step) : coordinate;
    place = place ? c.e.Add(place, term) : term;
    step = step ? c.e.Mul(step, w[d].length) : w[d].length;
    inner = inner ? c.e.Mul(inner, w[d].longest) : w[d].longest;
  }
  c.Return({best, place});
}

// Scatter each value to its place in a zero tensor of the output size.
template <int spatial>
void MaxUnpool(LoweringContext& c) {
  V x = c.in("self"), index = c.raw(c.tensor("indices"));
  V size = c.shape(c.sym_ints("output_size", spatial));
  if (!c.ok()) return;
  const int lead = x.rank - spatial;
  V before = c.e.Op("Shape", {x}, {{"start", int64_t{0}}, {"end", int64_t{lead}}}, DType::kInt64, 1);
  V inside = c.e.Op("Shape", {x}, {{"start", int64_t{lead}}}, DType::kInt64, 1);
  auto flat = [&](V dims) {
    return c.e.Concat({before, c.e.Op("ReduceProd", {dims}, {{"keepdims", int64_t{1}}}, DType::kInt64, 1)}, 0);
  };
  V from = flat(inside);
  V zeros = c.e.Expand(c.e.Number(0, x.dtype), flat(size), lead + 1);
  V y =
      c.e.Op("ScatterElements", {zeros, c.e.Reshape(index, from, lead + 1, true), c.e.Reshape(x, from, lead + 1, true)},
             {{"axis", int64_t{-1}}});
  c.Return(c.e.Reshape(y, c.e.Concat({before, size}, 0), x.rank, true));
}

// clang-format off
constexpr Row kPoolRows[] = {
    {"aten.avg_pool1d.default", AvgPool<1>, kUnlessKept}, {"aten.avg_pool2d.default", AvgPool<2>, kUnlessKept},
    {"aten.avg_pool3d.default", AvgPool<3>, kUnlessKept},
    {"aten.max_pool1d.default", MaxPool<1>}, {"aten.max_pool2d.default", MaxPool<2>},
    {"aten.max_pool3d.default", MaxPool<3>},
    {"aten.max_pool1d_with_indices.default", MaxPool<1>}, {"aten.max_pool2d_with_indices.default", MaxPool<2>},
    {"aten.max_pool3d_with_indices.default", MaxPool<3>},
    {"aten.adaptive_avg_pool1d.default", AdaptiveAvg<1>, true},
    {"aten.adaptive_avg_pool2d.default", AdaptiveAvg<2>, true},
    {"aten._adaptive_avg_pool2d.default", AdaptiveAvg<2>, true},
    {"aten.adaptive_avg_pool3d.default", AdaptiveAvg<3>, true},
    {"aten._adaptive_avg_pool3d.default", AdaptiveAvg<3>, true},
    {"aten.adaptive_max_pool1d.default", AdaptiveMax<1>}, {"aten.adaptive_max_pool2d.default", AdaptiveMax<2>},
    {"aten.adaptive_max_pool3d.default", AdaptiveMax<3>},
    {"aten.max_unpool2d.default", MaxUnpool<2>}, {"aten.max_unpool3d.default", MaxUnpool<3>},
};
// clang-format on

}  // namespace

absl::Span<const Row> PoolRows() { return kPoolRows; }

}  // namespace slipway::exporters::onnx_out
