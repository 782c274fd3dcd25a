// Padding, interpolation, grid sampling, and the rearrangements of image blocks.
#include <algorithm>
#include <cmath>
#include <limits>

#include "exporters/onnx/lowerings/data.h"
#include "kernels/nearest_index.h"

namespace slipway::exporters::onnx_out {
namespace {

using ir::IntOrValue;
using ir::Sym;
using ir::SymInts;

// torch's pad list: (begin, end) of the last dim first.
void PadBy(LoweringContext& c, V x, const SymInts& pad, const std::string& mode, const ir::Scalar* value) {
  int dims = static_cast<int>(pad.size() / 2);
  if (pad.size() % 2 || dims > x.rank) return c.Fail("a pad list that does not fit the tensor");
  bool symbolic = std::any_of(pad.begin(), pad.end(), [](const IntOrValue& i) { return i.value != nullptr; });
  if (mode == "constant") {
    V fill = value ? c.number(*value, x.dtype) : c.e.Number(0, x.dtype);
    SymInts begin(x.rank, 0), end(x.rank, 0);
    for (int k = 0; k < dims; ++k) begin[x.rank - 1 - k] = pad[2 * k], end[x.rank - 1 - k] = pad[2 * k + 1];
    begin.insert(begin.end(), end.begin(), end.end());
    return c.Return(c.e.Op("Pad", {x, c.shape(begin), fill}, {{"mode", std::string("constant")}}));
  }
  if (symbolic) return c.Unsupported("symbolic padding in mode " + mode);
  Ints pads(2 * x.rank, 0);
  bool negative = false;
  for (int k = 0; k < dims; ++k) {
    int axis = x.rank - 1 - k;
    pads[axis] = pad[2 * k].constant;
    pads[x.rank + axis] = pad[2 * k + 1].constant;
    negative |= pads[axis] < 0 || pads[x.rank + axis] < 0;
  }
  if (mode == "circular") {
    for (int axis = 0; axis < x.rank; ++axis) {
      const int64_t a = pads[axis], b = pads[x.rank + axis];
      // What negative padding crops is not there to be repeated.
      if (a < 0 || b < 0) x = c.e.Slice(x, {std::max<int64_t>(-a, 0)}, {b < 0 ? b : kEnd}, {axis});
      auto left = c.tensor("self")->sizes()[axis].constant();
      if (left && *left + std::min<int64_t>(a, 0) + std::min<int64_t>(b, 0) < std::max(a, b))
        return c.Unsupported("circular padding by more than what it crops to");
      std::vector<V> parts;
      if (a > 0) parts.push_back(c.e.Slice(x, {-a}, {kEnd}, {axis}));
      parts.push_back(x);
      if (b > 0) parts.push_back(c.e.Slice(x, {0}, {b}, {axis}));
      x = c.e.Concat(parts, axis);
    }
    return c.Return(x);
  }
  if (negative && (mode == "replicate" || mode == "reflect")) {
    // Cropping beyond the edge that the other side repeats: by index. Position j reads j - begin, clamped or mirrored.
    for (int axis = 0; axis < x.rank; ++axis) {
      int64_t a = pads[axis], b = pads[x.rank + axis];
      if (a == 0 && b == 0) continue;
      V last = c.e.Sub(c.e.DimScalar(x, axis), c.e.I64Scalar(1));
      V i = c.e.Op("Range", {c.e.I64Scalar(-a), c.e.Add(last, c.e.I64Scalar(b + 1)), c.e.I64Scalar(1)}, {},
                   DType::kInt64, 1);
      if (mode == "replicate")
        i = c.e.Max(c.e.Min(i, last), c.e.I64Scalar(0));
      else
        i = c.e.Sub(last, c.e.Op("Abs", {c.e.Sub(last, c.e.Op("Abs", {i}))}));
      x = c.e.Gather(x, i, axis);
    }
    return c.Return(x);
  }
  const char* onnx_mode = mode == "reflect" ? "reflect" : mode == "replicate" ? "edge" : nullptr;
  if (!onnx_mode) return c.Unsupported("padding mode '" + mode + "'");
  c.Return(c.e.Op("Pad", {x, c.e.I64(pads)}, {{"mode", std::string(onnx_mode)}}));
}
void Pad(LoweringContext& c) {
  auto value = c.opt_scalar("value");
  PadBy(c, c.in("self"), c.sym_ints("pad"), c.str("mode"), value ? &*value : nullptr);
}
void ConstantPad(LoweringContext& c) {
  ir::Scalar value = c.scalar("value");
  PadBy(c, c.in("self"), c.sym_ints("pad"), "constant", &value);
}
template <Str mode>
void ModePad(LoweringContext& c) {
  PadBy(c, c.in("self"), c.sym_ints("padding"), std::string(std::string_view(mode)), nullptr);
}

// Resize to an output size or by scale factors. With factors torch computes source coordinates from the factor itself
// (not from the ratio of sizes), as ONNX does when given scales.
struct ResizeSpec {
  std::string mode;  // nearest | linear | cubic
  bool align_corners = false, exact = false, antialias = false;
  int spatial = 2;
};

// One resized dim.
struct ResizedDim {
  int axis = 0;
  Sym in, out;
  double factor = 0;  // that was asked for; 0 where sizes were
  // what Resize is given for the factor, an f32 that gives torch's output size; 0 where there is none
  double scale = 0;
};

// The f32 next to `factor` by which runtimes, which multiply in f32, get torch's output size: one rounded down could
// lose the last pixel. 0 where there is none.
double ScaleFor(double factor, const Sym& in, const Sym& out) {
  const auto n = in.constant(), size = out.constant();
  float s = static_cast<float>(factor);
  if (s < factor && !(n && size)) s = std::nextafter(s, std::numeric_limits<float>::infinity());
  for (int k = 0; n && size && k < 4 && std::floor(static_cast<double>(*n) * s) < static_cast<double>(*size); ++k)
    s = std::nextafter(s, std::numeric_limits<float>::infinity());
  if (n && size && std::floor(static_cast<float>(*n) * s) != static_cast<float>(*size)) return 0;
  return s;
}

std::vector<ResizedDim> ResizedDims(LoweringContext& c, ir::Value* x, int spatial, const std::vector<double>& factors) {
  std::vector<ResizedDim> dims;
  for (int d = 0; d < spatial; ++d) {
    ResizedDim r{.axis = x->rank() - spatial + d};
    r.in = x->sizes()[r.axis], r.out = c.out_type().sizes[c.out_rank() - spatial + d];
    if (factors[d] > 0) r.factor = factors[d], r.scale = ScaleFor(factors[d], r.in, r.out);
    dims.push_back(r);
  }
  return dims;
}

// ---- Nearest: torch's index arithmetic (kernels/nearest_index.h) by Resize where that reads the same pixels, else by
// Gather.

// Sizes that are looked at pixel by pixel, and what is looked at of a dim of unknown size.
constexpr int64_t kMaxPixels = int64_t{1} << 20;

// Whether Resize by `scale` (f32 where it is given, else the ratio of sizes) reads the same pixels of a dim. In mode
// nearest a position may be an integer, so the quotient is computed in f32, as ONNX Runtime does, and in f64; in mode
// nearest-exact, unless the scale is a power of two, which is exact in any arithmetic, a position has to be farther
// from an integer than rounding goes.
bool ResizeReadsTheSame(const kernels::NearestRule& rule, int64_t in, int64_t out, double scale) {
  if (in < 1 || out < 1 || in > kMaxPixels || out > kMaxPixels) return false;
  int exponent;
  const bool power_of_two = std::frexp(scale, &exponent) == 0.5;
  if (power_of_two && (rule.factor == 0 || rule.factor == scale)) return true;
  for (int64_t i = 0; i < out; ++i) {
    const int64_t want = kernels::NearestIndex(rule, in, out, i);
    auto reads = [&](double at) {
      return std::clamp<int64_t>(static_cast<int64_t>(std::floor(at)), 0, in - 1) == want;
    };
    const double at = (static_cast<double>(i) + (rule.exact ? 0.5 : 0)) / scale,
                 error = rule.exact && !power_of_two ? 3e-7 * (1 + at) : 0;
    if (!reads(at - error) || !reads(at + error)) return false;
    if (!rule.exact && !reads(std::floor(static_cast<float>(i) / static_cast<float>(scale)))) return false;
    if (in == out && want != i) return false;  // ONNX Runtime copies, whatever the scale
  }
  return true;
}

// The same of a dim whose sizes may be known at run time only.
bool ResizeReadsTheSame(const kernels::NearestRule& rule, const ResizedDim& d) {
  if (d.factor > 0 && d.scale == 0) return false;
  const auto in = d.in.constant(), out = d.out.constant();
  if (in && out)
    return ResizeReadsTheSame(rule, *in, *out,
                              d.scale > 0 ? d.scale : static_cast<double>(*out) / static_cast<double>(*in));
  if (d.factor > 0) {
    auto same = [&](int64_t n) {
      const double size = std::floor(static_cast<double>(n) * d.factor);
      return size < 1 || ResizeReadsTheSame(rule, n, static_cast<int64_t>(size), d.scale);
    };
    if (!(d.factor < static_cast<double>(kMaxPixels)) || !(d.factor > 1.0 / static_cast<double>(kMaxPixels)))
      return false;
    // Small images have rules of their own for some sizes.
    if (rule.small)
      for (int64_t n = 1;
           n <= kernels::kSmallImage && std::floor(static_cast<double>(n) * d.factor) <= kernels::kSmallImage; ++n)
        if (!same(n)) return false;
    return rule.small || same(static_cast<int64_t>(static_cast<double>(kMaxPixels - 1) / std::max(d.factor, 1.0)));
  }
  // A whole multiple, or a whole part.
  if (auto k = ir::FloorDiv(d.out, d.in).constant();
      k && *k >= 1 && *k <= kMaxPixels && ir::ProvablyEqual(d.in * *k, d.out))
    return ResizeReadsTheSame(rule, kMaxPixels / *k, kMaxPixels / *k * *k, static_cast<double>(*k));
  if (auto k = ir::FloorDiv(d.in, d.out).constant();
      k && *k >= 1 && *k <= kMaxPixels && ir::ProvablyEqual(d.out * *k, d.in))
    return ResizeReadsTheSame(rule, kMaxPixels / *k * *k, kMaxPixels / *k, 1 / static_cast<double>(*k));
  return false;
}

// The pixels that a dim reads, as NearestIndex computes them, at run time. `in` and `out` are 0-d.
V NearestIndexAtRunTime(LoweringContext& c, const kernels::NearestRule& rule, V in, V out) {
  using enum DType;
  V pixel = Iota(c.e, out);
  const DType t = rule.wide && !rule.small ? kFloat64 : kFloat32;
  V scale = rule.factor > 0 ? c.e.Number(1.0 / rule.factor, t) : c.e.Div(c.e.Cast(in, t), c.e.Cast(out, t));
  V at;
  if (!rule.exact) {
    at = c.e.Mul(c.e.Cast(pixel, t), scale);
  } else {
    // Products of f32 are exact in f64: one rounding, as by a fused multiply-add.
    at = c.e.Mul(c.e.Add(c.e.Cast(pixel, kFloat64), c.e.Number(0.5, kFloat64)), c.e.Cast(scale, kFloat64));
    if (!rule.small) {
      at = c.e.Cast(c.e.Sub(at, c.e.Number(0.5, kFloat64)), t);
      at = c.e.Add(c.e.Max(at, c.e.Number(0, t)), c.e.Number(0.5, t));
    }
  }
  V index = c.e.Cast(c.e.Op("Floor", {c.e.Cast(at, kFloat32)}), kInt64);
  if (rule.small && !rule.exact && rule.factor > 0) {
    V two = c.e.I64Scalar(2);
    index = c.e.Where(c.e.Equal(out, c.e.Mul(in, two)), c.e.Div(pixel, two), index);
    index = c.e.Where(c.e.Equal(out, in), pixel, index);
  }
  return c.e.Min(index, c.e.Sub(in, c.e.I64Scalar(1)));
}

void GatherNearest(LoweringContext& c, V x, const std::vector<ResizedDim>& dims, bool exact,
                   const std::optional<SymInts>& size) {
  const bool wide = x.dtype == DType::kFloat64;
  std::vector<V> in, out;
  auto sizes_of = [&](size_t d) {
    const ResizedDim& r = dims[d];
    if (auto n = r.in.constant())
      in.push_back(c.e.I64Scalar(*n));
    else
      in.push_back(c.e.DimScalar(x, r.axis));
    if (auto n = r.out.constant())
      out.push_back(c.e.I64Scalar(*n));
    else if (size)
      out.push_back(c.dim0((*size)[d]));
    else
      out.push_back(c.e.Cast(
          c.e.Op("Floor", {c.e.Mul(c.e.Cast(in.back(), DType::kFloat64), c.e.Number(r.factor, DType::kFloat64))}),
          DType::kInt64));
  };
  for (size_t d = 0; d < dims.size(); ++d) sizes_of(d);
  const V image = x;
  std::optional<bool> small = false;
  if (dims.size() == 2) {
    auto rows = dims[0].out.constant(), columns = dims[1].out.constant();
    small = rows && columns ? std::optional(kernels::IsSmallImage(2, *rows, *columns)) : std::nullopt;
    for (auto n : {rows, columns})
      if (n && *n >= kernels::kSmallImage) small = false;
  }
  for (size_t d = 0; d < dims.size(); ++d) {
    const ResizedDim& r = dims[d];
    kernels::NearestRule rule{.exact = exact, .wide = wide, .small = small.value_or(false), .factor = r.factor};
    const bool one_rule = small || (!exact && !wide && r.factor == 0);
    if (auto n = r.in.constant(), m = r.out.constant(); n && m && one_rule && *m <= kMaxPixels) {
      Ints index(static_cast<size_t>(*m));
      bool same = *n == *m;
      for (int64_t i = 0; i < *m; ++i) index[i] = kernels::NearestIndex(rule, *n, *m, i), same = same && index[i] == i;
      if (!same) x = c.e.Gather(x, c.e.I64(std::move(index)), r.axis);
      continue;
    }
    V index = NearestIndexAtRunTime(c, rule, in[d], out[d]);
    if (!one_rule) {
      rule.small = true;
      V is_small = c.e.LessEqual(c.e.Add(out[0], out[1]), c.e.I64Scalar(kernels::kSmallImage));
      index = c.e.Where(is_small, NearestIndexAtRunTime(c, rule, in[d], out[d]), index);
    }
    x = c.e.Gather(x, index, r.axis);
  }
  c.Return(x.name == image.name ? c.e.Op("Identity", {x}) : x);
}

// Whether Resize reads what torch reads, of every dim.
bool ResizeIsExact(const std::vector<ResizedDim>& dims, bool exact) {
  for (const ResizedDim& d : dims)
    for (bool small : {false, true}) {
      if (small) {
        bool can_be = dims.size() == 2;
        for (const ResizedDim& e : dims)
          if (auto n = e.out.constant(); n && *n >= kernels::kSmallImage) can_be = false;
        if (!can_be) continue;
      }
      if (!ResizeReadsTheSame({.exact = exact, .wide = false, .small = small, .factor = d.factor}, d)) return false;
    }
  return true;
}

void Resize(LoweringContext& c, const ResizeSpec& r) {
  bool vec = c.node().op().ArgIndex("input") >= 0;
  V x = c.in(vec ? "input" : "self");
  ir::Value* self = c.tensor(vec ? "input" : "self");
  auto size = c.opt_sym_ints("output_size", r.spatial);
  std::vector<double> factors(static_cast<size_t>(r.spatial), 0);  // 0 for none
  if (c.node().op().ArgIndex("scale_factors") >= 0) {
    if (auto given = c.opt_floats("scale_factors"); given && given->size() == factors.size()) factors = *given;
  } else {
    static constexpr const char* kNames[3][3] = {
        {"scales", "", ""}, {"scales_h", "scales_w", ""}, {"scales_d", "scales_h", "scales_w"}};
    for (int d = 0; d < r.spatial; ++d) factors[d] = c.opt_f(kNames[r.spatial - 1][d]).value_or(0);
  }
  if (!c.ok()) return;
  if (r.antialias && x.dtype == DType::kUInt8)
    return c.Unsupported("antialiasing of uint8, which torch does in fixed point");
  if (r.antialias && r.align_corners)
    return c.Unsupported("antialiasing with aligned corners, which torch centers otherwise than ONNX");
  const auto is_given = [](double factor) { return factor > 0; };
  const bool by_factors = std::all_of(factors.begin(), factors.end(), is_given);
  if (!by_factors && !size) return c.Fail("neither output_size nor scale_factors");
  if (self->rank() != r.spatial + 2 || c.out_rank() != self->rank())
    return c.Fail("the rank is not that of the operator");
  const std::vector<ResizedDim> dims = ResizedDims(c, self, r.spatial, factors);
  // which Resize has no form for
  const bool mixed = !by_factors && std::any_of(factors.begin(), factors.end(), is_given);
  // ONNX Runtime has no Resize of f64.
  const bool scales = std::all_of(dims.begin(), dims.end(), [](const auto& d) { return d.factor == 0 || d.scale > 0; });
  const bool resize = (c.e.shared()->from_onnx && scales) || ResizeIsExact(dims, r.exact);
  if (r.mode == "nearest" && (x.dtype == DType::kFloat64 || mixed || !resize))
    return GatherNearest(c, x, dims, r.exact, size);
  if (mixed) return c.Unsupported("a factor for some of the dims only");
  // Run 1-D as 2-D: the runtimes' linear and cubic kernels want two spatial dims.
  bool lifted = r.spatial == 1;
  if (lifted) x = c.e.Unsqueeze(x, {2});
  Attrs attrs;
  attrs.push_back({"mode", r.mode});
  if (r.mode == "nearest") {
    attrs.push_back({"coordinate_transformation_mode", std::string(r.exact ? "half_pixel" : "asymmetric")});
    attrs.push_back({"nearest_mode", std::string(r.exact ? "round_prefer_ceil" : "floor")});
  } else {
    attrs.push_back({"coordinate_transformation_mode", std::string(r.align_corners ? "align_corners" : "half_pixel")});
    if (r.mode == "cubic") attrs.push_back({"cubic_coeff_a", r.antialias ? -0.5 : -0.75});
    if (r.antialias) attrs.push_back({"antialias", int64_t{1}}), attrs.push_back({"exclude_outside", int64_t{1}});
  }
  std::vector<V> in = {x, V{}};
  if (by_factors) {
    std::vector<double> scales = {1, 1};
    if (lifted) scales.push_back(1);
    for (const ResizedDim& d : dims) {
      if (d.scale == 0) return c.Unsupported("scale_factors that do not give the output size in f32");
      scales.push_back(d.scale);
    }
    in.push_back(c.e.Numbers(scales, DType::kFloat32, {static_cast<int64_t>(scales.size())}));
  } else {
    std::vector<V> parts;
    if (const auto n = self->sizes()[0].constant(), channels = self->sizes()[1].constant(); n && channels)
      parts.push_back(c.e.I64(lifted ? Ints{*n, *channels, 1} : Ints{*n, *channels}));
    else
      parts.push_back(ShapeRange(c.e, x, 0, lifted ? 3 : 2));
    SymInts target = *size;
    for (int d = 0; d < r.spatial; ++d)
      if (auto s = c.out_type().sizes[c.out_rank() - r.spatial + d].constant()) target[d] = *s;
    parts.push_back(c.shape(target));
    in.push_back(V{});
    in.push_back(c.e.Concat(parts, 0));
  }
  V y = c.e.Op("Resize", in, attrs);
  c.Return(lifted ? c.e.Squeeze(y, {2}) : y);
}
template <int spatial>
void Nearest(LoweringContext& c) {
  Resize(c, {"nearest", false, false, false, spatial});
}
template <int spatial>
void NearestExact(LoweringContext& c) {
  Resize(c, {"nearest", false, true, false, spatial});
}
template <int spatial>
void LinearResize(LoweringContext& c) {
  Resize(c, {"linear", c.b("align_corners"), false, false, spatial});
}
void Bicubic(LoweringContext& c) { Resize(c, {"cubic", c.b("align_corners"), false, false, 2}); }
void BilinearAa(LoweringContext& c) { Resize(c, {"linear", c.b("align_corners"), false, true, 2}); }
void BicubicAa(LoweringContext& c) { Resize(c, {"cubic", c.b("align_corners"), false, true, 2}); }

void GridSample(LoweringContext& c) {
  V x = c.in("input"), grid = c.in("grid");
  if (x.rank == 5 && c.e.opset() < 20) return c.Unsupported("volumes before opset 20");
  int64_t mode = c.i("interpolation_mode"), padding = c.i("padding_mode");
  if (mode < 0 || mode > 2 || padding < 0 || padding > 2) return c.Fail("unknown mode");
  static constexpr const char* kOld[] = {"bilinear", "nearest", "bicubic"};
  static constexpr const char* kNew[] = {"linear", "nearest", "cubic"};
  static constexpr const char* kPadding[] = {"zeros", "border", "reflection"};
  // In f16 and bf16 torch computes pixel positions in that type. Do the same, rounding at each step, and hand the
  // rounded positions on in f32.
  DType low = c.tensor("grid")->dtype();
  if (ir::IsLowPrecision(low)) {
    if (mode == 2 || (mode == 1 && padding == 2))
      return c.Unsupported(
          "bicubic, or nearest with reflection, in half precision: torch rounds inside the kernel's steps");
    bool align = c.b("align_corners");
    V g = c.raw(c.tensor("grid"));
    std::vector<V> parts;
    for (int k = 0; k < x.rank - 2; ++k) {
      V size = c.e.Cast(c.e.DimScalar(x, x.rank - 1 - k), DType::kFloat32);
      V one = c.e.Number(1, DType::kFloat32), half = c.e.Number(0.5, DType::kFloat32),
        two = c.e.Number(2, DType::kFloat32);
      V reach = align ? c.e.Sub(size, one) : size;
      V u = c.e.Add(c.e.Slice(g, {k}, {k + 1}, {x.rank - 1}), c.e.Number(1, low));
      V pixel;
      if (x.rank == 4) {
        pixel = c.e.Mul(u, c.e.Cast(c.e.Mul(reach, half), low));
        if (!align) pixel = c.e.Sub(pixel, c.e.Number(0.5, low));
      } else if (align) {
        pixel = c.e.Mul(c.e.Mul(u, c.e.Number(0.5, low)), c.e.Cast(reach, low));
      } else {
        pixel = c.e.Mul(c.e.Sub(c.e.Mul(u, c.e.Cast(reach, low)), c.e.Number(1, low)), c.e.Number(0.5, low));
      }
      pixel = c.e.Cast(pixel, DType::kFloat32);
      // Back to normalized coordinates; a single aligned pixel has none, any will do.
      V back = align ? c.e.Sub(c.e.Div(c.e.Mul(two, pixel), c.e.Max(reach, one)), one)
                     : c.e.Sub(c.e.Div(c.e.Add(c.e.Mul(two, pixel), one), size), one);
      parts.push_back(back);
    }
    grid = c.e.Concat(parts, x.rank - 1);
  }
  grid = c.e.Cast(grid, x.dtype);
  c.Return(c.e.Op("GridSample", {x, grid},
                  {{"mode", std::string(c.e.opset() >= 20 ? kNew[mode] : kOld[mode])},
                   {"padding_mode", std::string(kPadding[padding])},
                   {"align_corners", int64_t{c.b("align_corners")}}}));
}

// (…, C r², H, W) <-> (…, C, H r, W r)
void Shuffle(LoweringContext& c, bool up) {
  ir::Value* self = c.tensor("self");
  V x = c.in("self");
  int64_t r = c.i(up ? "upscale_factor" : "downscale_factor");
  if (x.rank < 3) return c.Fail("an input of rank below 3");
  auto channels = self->sizes()[x.rank - 3].constant();
  if (!channels || r <= 0) return c.Unsupported("a symbolic number of channels");
  // Fold leading dims into one and use torch's block order: channels outermost, then the two block offsets.
  V h = c.e.Dim(x, x.rank - 2), w = c.e.Dim(x, x.rank - 1), rr = c.e.I64({r});
  V inner, out_tail;
  Ints perm;
  if (up) {
    inner = c.e.Concat({c.e.I64({-1, *channels / (r * r), r, r}), h, w}, 0);
    perm = {0, 1, 4, 2, 5, 3};
    out_tail = c.e.Concat({c.e.I64({*channels / (r * r)}), c.e.Mul(h, rr), c.e.Mul(w, rr)}, 0);
  } else {
    inner = c.e.Concat({c.e.I64({-1, *channels}), c.e.Div(h, rr), rr, c.e.Div(w, rr), rr}, 0);
    perm = {0, 1, 3, 5, 2, 4};
    out_tail = c.e.Concat({c.e.I64({*channels * r * r}), c.e.Div(h, rr), c.e.Div(w, rr)}, 0);
  }
  if (auto s = self->type().StaticNumel(); s && *s == 0) {
    auto out = c.out_type().StaticSizes();
    if (!out) return c.Unsupported("an empty input of symbolic sizes");
    return c.Return(c.e.Reshape(x, *out));
  }
  V lead =
      x.rank > 3 ? c.e.Op("Shape", {x}, {{"start", int64_t{0}}, {"end", int64_t{x.rank - 3}}}, DType::kInt64, 1) : V{};
  V y = c.e.Transpose(c.e.Reshape(x, inner, 6), perm);
  V shape = lead ? c.e.Concat({lead, out_tail}, 0) : out_tail;
  c.Return(c.e.Reshape(y, shape, x.rank));
}
void PixelShuffle(LoweringContext& c) { Shuffle(c, true); }
void PixelUnshuffle(LoweringContext& c) { Shuffle(c, false); }
void ChannelShuffle(LoweringContext& c) {
  ir::Value* self = c.tensor("self");
  V x = c.in("self");
  int64_t g = c.i("groups");
  auto channels = self->sizes()[1].constant();
  if (!channels || g <= 0 || *channels % g) return c.Unsupported("a symbolic number of channels");
  if (auto s = self->type().StaticNumel(); s && *s == 0) return c.Return(x);
  V y = c.e.Reshape(x, c.e.I64({0, g, *channels / g, -1}), 4);
  y = c.e.Transpose(y, {0, 2, 1, 3});
  c.Return(c.e.Reshape(y, c.shape_of(self), x.rank));
}

// Sliding windows along a dim: (…, L, …) -> (…, (L - size) / step + 1, …, size).
void Unfold(LoweringContext& c) {
  V x = c.in("self");
  if (x.rank == 0) return c.Return(c.e.Reshape(x, {1}));
  int d = c.dim("dimension", x.rank);
  int64_t size = c.i("size"), step = c.i("step");
  if (size < 0 || step <= 0) return c.Fail("size or step");
  V length = c.e.DimScalar(x, d);
  V last = c.e.Add(c.e.Sub(length, c.e.I64Scalar(size)), c.e.I64Scalar(1));
  V starts = c.e.Op("Range", {c.e.I64Scalar(0), last, c.e.I64Scalar(step)}, {}, DType::kInt64, 1);
  Ints offsets(size);
  for (int64_t k = 0; k < size; ++k) offsets[k] = k;
  V index = c.e.Add(c.e.Unsqueeze(starts, {1}), c.e.I64(offsets));
  V y = c.e.Gather(x, index, d);  // (…, n, size, …)
  Ints perm;
  for (int k = 0; k < x.rank + 1; ++k)
    if (k != d + 1) perm.push_back(k);
  perm.push_back(d + 1);
  c.Return(c.e.Transpose(y, perm));
}

struct Block {
  Ints kernel, dilation, padding, stride;
};
Block ReadBlock(LoweringContext& c) {
  return {c.ints("kernel_size", 2), c.ints("dilation", 2), c.ints("padding", 2), c.ints("stride", 2)};
}
// Start of each window along one padded dim of length L: 0, stride, …; plus the dilated offsets inside the window.
V WindowIndex(LoweringContext& c, V length, int64_t kernel, int64_t dilation, int64_t stride) {
  V last = c.e.Sub(length, c.e.I64Scalar(dilation * (kernel - 1)));
  V starts = c.e.Op("Range", {c.e.I64Scalar(0), last, c.e.I64Scalar(stride)}, {}, DType::kInt64, 1);
  Ints offsets(kernel);
  for (int64_t k = 0; k < kernel; ++k) offsets[k] = k * dilation;
  return c.e.Add(c.e.Unsqueeze(c.e.I64(offsets), {1}), starts);  // kernel x windows
}
void Im2Col(LoweringContext& c) {
  Block b = ReadBlock(c);
  V x = c.in("self");
  bool unbatched = x.rank == 3;
  if (unbatched) x = c.e.Unsqueeze(x, {0});
  x = c.e.Op("Pad",
             {x, c.e.I64({0, 0, b.padding[0], b.padding[1], 0, 0, b.padding[0], b.padding[1]}), c.e.Number(0, x.dtype)},
             {{"mode", std::string("constant")}});
  V rows = WindowIndex(c, c.e.DimScalar(x, 2), b.kernel[0], b.dilation[0], b.stride[0]);
  V cols = WindowIndex(c, c.e.DimScalar(x, 3), b.kernel[1], b.dilation[1], b.stride[1]);
  V y = c.e.Gather(c.e.Gather(x, rows, 2), cols, 4);  // n, c, kh, oh, kw, ow
  y = c.e.Transpose(y, {0, 1, 2, 4, 3, 5});
  // (n, c kh kw, oh ow)
  V n = c.e.Dim(x, 0), ch = c.e.Dim(x, 1);
  V depth = c.e.Mul(ch, c.e.I64({b.kernel[0] * b.kernel[1]}));
  V area = c.e.Mul(c.e.Dim(rows, 1), c.e.Dim(cols, 1));
  y = c.e.Reshape(y, c.e.Concat({n, depth, area}, 0), 3, true);
  c.Return(unbatched ? c.e.Squeeze(y, {0}) : y);
}
// The inverse: blocks summed into the image. ONNX's Col2Im is this op.
void Col2Im(LoweringContext& c) {
  Block b = ReadBlock(c);
  V x = c.in("self");
  bool unbatched = x.rank == 2;
  if (unbatched) x = c.e.Unsqueeze(x, {0});
  V y = c.e.Op("Col2Im", {x, c.shape(c.sym_ints("output_size", 2)), c.e.I64(b.kernel)},
               {{"dilations", b.dilation},
                {"pads", Ints{b.padding[0], b.padding[1], b.padding[0], b.padding[1]}},
                {"strides", b.stride}},
               x.dtype, 4);
  c.Return(unbatched ? c.e.Squeeze(y, {0}) : y);
}

// clang-format off
constexpr Row kResampleRows[] = {
    {"aten.pad.default", Pad}, {"aten.constant_pad_nd.default", ConstantPad},
    {"aten.reflection_pad1d.default", ModePad<"reflect">}, {"aten.reflection_pad2d.default", ModePad<"reflect">},
    {"aten.reflection_pad3d.default", ModePad<"reflect">}, {"aten.replication_pad1d.default", ModePad<"replicate">},
    {"aten.replication_pad2d.default", ModePad<"replicate">}, {"aten.replication_pad3d.default", ModePad<"replicate">},
    {"aten.upsample_nearest1d.vec", Nearest<1>}, {"aten.upsample_nearest2d.vec", Nearest<2>},
    {"aten.upsample_nearest3d.vec", Nearest<3>},
    {"aten.upsample_nearest1d.default", Nearest<1>}, {"aten.upsample_nearest2d.default", Nearest<2>},
    {"aten.upsample_nearest3d.default", Nearest<3>},
    {"aten._upsample_nearest_exact1d.vec", NearestExact<1>}, {"aten._upsample_nearest_exact2d.vec", NearestExact<2>},
    {"aten._upsample_nearest_exact3d.vec", NearestExact<3>},
    {"aten._upsample_nearest_exact1d.default", NearestExact<1>},
    {"aten._upsample_nearest_exact2d.default", NearestExact<2>},
    {"aten._upsample_nearest_exact3d.default", NearestExact<3>},
    {"aten.upsample_linear1d.vec", LinearResize<1>}, {"aten.upsample_bilinear2d.vec", LinearResize<2>},
    {"aten.upsample_trilinear3d.vec", LinearResize<3>},
    {"aten.upsample_linear1d.default", LinearResize<1>}, {"aten.upsample_bilinear2d.default", LinearResize<2>},
    {"aten.upsample_trilinear3d.default", LinearResize<3>},
    {"aten.upsample_bicubic2d.vec", Bicubic}, {"aten.upsample_bicubic2d.default", Bicubic},
    {"aten._upsample_bilinear2d_aa.vec", BilinearAa}, {"aten._upsample_bilinear2d_aa.default", BilinearAa},
    {"aten._upsample_bicubic2d_aa.vec", BicubicAa}, {"aten._upsample_bicubic2d_aa.default", BicubicAa},
    {"aten.grid_sampler.default", GridSample, true}, {"aten.grid_sampler_2d.default", GridSample, true},
    {"aten.grid_sampler_3d.default", GridSample, true},
    {"aten.pixel_shuffle.default", PixelShuffle}, {"aten.pixel_unshuffle.default", PixelUnshuffle},
    {"aten.channel_shuffle.default", ChannelShuffle}, {"aten.native_channel_shuffle.default", ChannelShuffle},
    {"aten.unfold.default", Unfold}, {"aten.unfold_copy.default", Unfold},
    {"aten.im2col.default", Im2Col}, {"aten.col2im.default", Col2Im, true},
};
// clang-format on

}  // namespace

absl::Span<const Row> ResampleRows() { return kResampleRows; }

}  // namespace slipway::exporters::onnx_out
