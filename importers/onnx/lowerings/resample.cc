// Resize and what came before it. What ATen has an operator for becomes that; of other modes each element is a sum of
// elements that are known when sizes are, one axis after the other.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "importers/onnx/lowering.h"
#include "importers/onnx/lowerings/stored.h"

namespace slipway::importers::onnx_in {
namespace {

struct Mode {
  std::string kind = "nearest", coordinates = "half_pixel", rounding = "round_prefer_floor";
  double cubic = -0.75, outside = 0;
  bool exclude_outside = false, antialias = false;
};

// One axis: from `in` to `out` elements by `scale` = out / in as the model states it, of the part [start, end].
struct Axis {
  int64_t in, out;
  double scale, start = 0, end = 1;
};

// Where element i of the result lies in the input.
double Position(const Mode& m, const Axis& a, int64_t i) {
  const auto x = static_cast<double>(i), in = static_cast<double>(a.in), out = static_cast<double>(a.out);
  if (m.coordinates == "align_corners") return a.out == 1 ? 0 : x * (in - 1) / (out - 1);
  if (m.coordinates == "asymmetric") return x / a.scale;
  if (m.coordinates == "pytorch_half_pixel") return a.out > 1 ? (x + 0.5) / a.scale - 0.5 : 0;
  if (m.coordinates == "half_pixel_symmetric") {
    const double adjusted = out / (a.scale * in), center = in / 2;
    return center * (1 - adjusted) + (x + 0.5) / a.scale - 0.5;
  }
  if (m.coordinates == "tf_crop_and_resize")
    return a.out > 1 ? a.start * (in - 1) + x * (a.end - a.start) * (in - 1) / (out - 1)
                     : 0.5 * (a.start + a.end) * (in - 1);
  return (x + 0.5) / a.scale - 0.5;
}

int64_t Nearest(const Mode& m, double x) {
  if (m.rounding == "floor") return static_cast<int64_t>(std::floor(x));
  if (m.rounding == "ceil") return static_cast<int64_t>(std::ceil(x));
  if (m.rounding == "round_prefer_ceil") return static_cast<int64_t>(std::floor(x + 0.5));
  return static_cast<int64_t>(std::ceil(x - 0.5));
}

double Weight(const Mode& m, double distance) {
  const double d = std::abs(distance);
  if (m.kind == "linear") return std::max(0.0, 1 - d);
  if (d <= 1) return ((m.cubic + 2) * d - (m.cubic + 3)) * d * d + 1;
  return d < 2 ? ((d - 5) * d + 8) * d * m.cubic - 4 * m.cubic : 0;
}

// The axis resized: taps of all results side by side, weighted and added.
Value* ResizeAxis(Call& c, Value* x, int dim, const Mode& m, const Axis& a) {
  std::vector<std::vector<int64_t>> at;
  std::vector<std::vector<double>> weights;
  const bool crop = m.coordinates == "tf_crop_and_resize";
  std::vector<bool> outside(static_cast<size_t>(a.out));
  for (int64_t i = 0; i < a.out; ++i) {
    const double p = Position(m, a, i);
    outside[static_cast<size_t>(i)] = crop && (p < 0 || p > static_cast<double>(a.in - 1));
    std::vector<int64_t> taps;
    std::vector<double> shares;
    if (m.kind == "nearest") {
      taps = {Nearest(m, p)}, shares = {1};
    } else {
      const double stretch = m.antialias ? std::max(1.0, 1 / a.scale) : 1;
      const double reach = (m.kind == "linear" ? 1 : 2) * stretch;
      double sum = 0;
      for (auto k = static_cast<int64_t>(std::floor(p - reach)); k <= static_cast<int64_t>(std::ceil(p + reach)); ++k) {
        const double w = Weight(m, (static_cast<double>(k) - p) / stretch);
        if (w == 0 || (m.exclude_outside && (k < 0 || k >= a.in))) continue;
        taps.push_back(k), shares.push_back(w), sum += w;
      }
      for (double& w : shares) w /= sum;
    }
    for (int64_t& k : taps) k = std::clamp<int64_t>(k, 0, a.in - 1);
    at.push_back(std::move(taps)), weights.push_back(std::move(shares));
  }
  size_t most = 0;
  for (const auto& taps : at) most = std::max(most, taps.size());
  Ints shape(static_cast<size_t>(x->rank()), 1);
  shape[static_cast<size_t>(dim)] = a.out;
  Value* sum = nullptr;
  for (size_t t = 0; t < most; ++t) {
    std::vector<int64_t> index;
    std::vector<float> share;
    bool plain = true;
    for (size_t i = 0; i < at.size(); ++i) {
      index.push_back(t < at[i].size() ? at[i][t] : 0);
      share.push_back(t < at[i].size() ? static_cast<float>(weights[i][t]) : 0);
      plain = plain && share.back() == 1;
    }
    Value* part = c.b.Call("aten.index_select.default",
                           {x, dim, c.ConstantOf("resize_index", StoredTensor(DType::kInt64, {a.out}, index))});
    if (!plain)
      part = c.b.Call("aten.mul.Tensor",
                      {part, c.ConstantOf("resize_weight", StoredTensor(DType::kFloat32, shape, share))});
    sum = sum ? c.b.Call("aten.add.Tensor", {sum, part}) : part;
  }
  if (std::find(outside.begin(), outside.end(), true) == outside.end()) return sum;
  std::vector<uint8_t> mask(outside.begin(), outside.end());
  return c.b.Call("aten.where.self", {c.ConstantOf("resize_outside", StoredTensor(DType::kBool, shape, mask)),
                                      c.Constant(m.outside, sum->dtype()), sum});
}

// ATen's operator of a mode for images of so many dims; "" where there is none.
std::string OperatorOf(const Mode& m, int dims) {
  if (dims < 1 || dims > 3 || m.antialias || m.exclude_outside) return "";
  const std::string rank = std::to_string(dims) + "d";
  const bool half = m.coordinates == "half_pixel" || m.coordinates == "pytorch_half_pixel";
  const bool corners = m.coordinates == "align_corners";
  if (m.kind == "nearest" && m.coordinates == "asymmetric" && m.rounding == "floor") return "upsample_nearest" + rank;
  if (m.kind == "nearest" && half && m.rounding == "round_prefer_ceil") return "_upsample_nearest_exact" + rank;
  if (m.kind == "linear" && (half || corners))
    return dims == 1 ? "upsample_linear1d" : dims == 2 ? "upsample_bilinear2d" : "upsample_trilinear3d";
  return m.kind == "cubic" && (half || corners) && dims == 2 && m.cubic == -0.75 ? "upsample_bicubic2d" : "";
}

// That operator where only dims of images are `resized`; null for others.
Value* ByAten(Call& c, Value* x, const Mode& m, const SymInts& sizes, const std::vector<bool>& resized,
              const std::vector<std::optional<double>>& scales) {
  const int dims = x->rank() - 2;
  const std::string op = OperatorOf(m, dims);
  if (op.empty() || resized[0] || resized[1]) return nullptr;
  std::vector<Arg> args = {x, Arg(SymInts(sizes.begin() + 2, sizes.end()))};
  // With one element of the result pytorch_half_pixel takes the first; the other the middle.
  for (int d = 0; d < dims && m.coordinates == "pytorch_half_pixel"; ++d)
    if (sizes[static_cast<size_t>(d) + 2] == IntOrValue(1)) return nullptr;
  if (m.kind != "nearest") args.emplace_back(m.coordinates == "align_corners");
  for (int d = 0; d < dims; ++d) {
    const auto& scale = scales[static_cast<size_t>(d) + 2];
    args.push_back(scale ? Arg(*scale) : Arg());
  }
  return c.b.Call("aten." + op + ".default", args);
}

void Resize(Call& c, Value* x, const Mode& m, const SymInts& sizes, const std::vector<std::optional<double>>& scales,
            const std::vector<double>& roi) {
  const auto rank = static_cast<size_t>(x->rank());
  std::vector<bool> resized(rank);
  for (size_t d = 0; d < rank; ++d) {
    const auto in = x->sizes()[d].constant();
    resized[d] = (scales[d] && *scales[d] != 1) || (!scales[d] && !(in && sizes[d] == IntOrValue(*in))) ||
                 (m.coordinates == "tf_crop_and_resize" && (roi[d] != 0 || roi[rank + d] != 1));
    if (!scales[d] && sizes[d].value && ProvablyEqual(sizes[d].value->type().expr, x->sizes()[d])) resized[d] = false;
  }
  if (ir::IsFloating(x->dtype()))
    if (Value* out = ByAten(c, x, m, sizes, resized, scales)) return c.Give(out);
  if (c.whole) return c.Give(c.b.Full(sizes, Arg(0.0), x->dtype()));
  if (m.kind != "nearest" && x->dtype() != DType::kFloat32) return c.Refuse("of elements other than float32");
  for (size_t d = 0; d < rank; ++d) {
    if (!resized[d]) continue;
    const auto in = x->sizes()[d].constant();
    if (!in || sizes[d].value) return c.Refuse("of a dynamic dim in this mode");
    if (*in < 1 || sizes[d].constant < 0) return c.Wrong("a dim without elements");
    const double scale = scales[d] ? *scales[d] : static_cast<double>(sizes[d].constant) / static_cast<double>(*in);
    x = ResizeAxis(c, x, static_cast<int>(d), m, {*in, sizes[d].constant, scale, roi[d], roi[rank + d]});
  }
  c.Give(x);
}

constexpr int64_t kMostParts = 64;  // denominators that are tried

// The size that a scale makes.
IntOrValue Scaled(Call& c, Value* x, size_t d, double scale) {
  if (const auto in = x->sizes()[d].constant())
    return static_cast<int64_t>(std::floor(static_cast<double>(*in) * scale));
  if (scale == std::floor(scale)) return c.b.Mul(c.b.Size(x, static_cast<int>(d)), static_cast<int64_t>(scale));
  if (const double inverse = 1 / scale; inverse == std::floor(inverse))
    return c.b.FloorDiv(c.b.Size(x, static_cast<int>(d)), static_cast<int64_t>(inverse));
  for (int64_t q = 2; q <= kMostParts; ++q)
    if (const double p = scale * static_cast<double>(q); p == std::floor(p) && p >= 1 && p < 1 << 20)
      return c.b.FloorDiv(c.b.Mul(c.b.Size(x, static_cast<int>(d)), static_cast<int64_t>(p)), q);
  c.Refuse("of a dynamic dim by a fraction");
  return 1;
}

Mode ModeOf(Call& c) {
  Mode m;
  m.kind = c.text("mode", "nearest");
  m.cubic = c.real("cubic_coeff_a", -0.75);
  m.outside = c.real("extrapolation_value", 0);
  m.exclude_outside = c.integer("exclude_outside", 0) != 0;
  m.antialias = c.integer("antialias", 0) != 0;
  if (c.opset < 11) {
    m.coordinates = "asymmetric", m.rounding = "floor";
  } else {
    m.coordinates = c.text("coordinate_transformation_mode", "half_pixel");
    m.rounding = c.text("nearest_mode", "round_prefer_floor");
  }
  return m;
}

void ResizeNode(Call& c) {
  for (const char* name : {"keep_aspect_ratio_policy", "nearest_mode", "cubic_coeff_a", "extrapolation_value"})
    c.Ignore(name);
  Value* x = c.in(0);
  const auto rank = static_cast<size_t>(x->rank());
  const Mode m = ModeOf(c);
  if (m.kind != "nearest" && m.kind != "linear" && m.kind != "cubic") return c.Refuse("of mode " + m.kind);
  Ints axes;
  if (const auto given = c.integers("axes"))
    for (int64_t a : *given) axes.push_back(c.axis(a, x->rank()));
  else
    for (size_t d = 0; d < rank; ++d) axes.push_back(static_cast<int64_t>(d));
  if (!c.ok()) return;
  const size_t scales_at = c.opset < 11 ? 1 : 2;
  std::vector<std::optional<double>> scales(rank, 1.0);
  SymInts sizes = c.b.SizesOf(x);
  std::vector<double> roi(2 * rank, 0);
  std::fill(roi.begin() + static_cast<int64_t>(rank), roi.end(), 1);
  if (m.coordinates == "tf_crop_and_resize") {
    const auto given = c.numbers(1);
    if (!given || given->size() != 2 * axes.size()) return c.Refuse("with a region that the program computes");
    for (size_t i = 0; i < axes.size(); ++i) {
      roi[static_cast<size_t>(axes[i])] = (*given)[i];
      roi[rank + static_cast<size_t>(axes[i])] = (*given)[axes.size() + i];
    }
  }
  if (c.opset >= 11 && c.has(3)) {
    SymInts to = c.ints(3, "sizes");
    if (to.size() != axes.size()) return c.Wrong("sizes of another rank");
    const std::string policy = c.text("keep_aspect_ratio_policy", "stretch");
    if (policy != "stretch") {
      std::optional<double> best;
      for (size_t i = 0; i < axes.size(); ++i) {
        const auto in = x->sizes()[static_cast<size_t>(axes[i])].constant();
        if (!in || to[i].value) return c.Refuse("with an aspect ratio of dynamic dims");
        const double s = static_cast<double>(to[i].constant) / static_cast<double>(*in);
        best = !best ? s : policy == "not_larger" ? std::min(*best, s) : std::max(*best, s);
      }
      for (size_t i = 0; i < axes.size(); ++i) {
        const auto d = static_cast<size_t>(axes[i]);
        to[i] = static_cast<int64_t>(std::floor(*best * static_cast<double>(*x->sizes()[d].constant()) + 0.5));
        scales[d] = *best;
      }
    }
    for (size_t i = 0; i < axes.size(); ++i) {
      const auto d = static_cast<size_t>(axes[i]);
      sizes[d] = to[i];
      if (policy == "stretch") scales[d] = std::nullopt;
    }
  } else {
    const auto given = c.numbers(scales_at);
    if (!given || given->size() != axes.size()) return c.Refuse("with scales that the program computes");
    for (size_t i = 0; i < axes.size(); ++i) {
      const auto d = static_cast<size_t>(axes[i]);
      if (!((*given)[i] > 0)) return c.Wrong("a scale that is not positive");
      scales[d] = (*given)[i];
      sizes[d] = m.coordinates == "tf_crop_and_resize" && x->sizes()[d].constant()
                     ? IntOrValue(static_cast<int64_t>(std::floor(static_cast<double>(*x->sizes()[d].constant()) *
                                                                  (roi[rank + d] - roi[d]) * (*given)[i])))
                     : Scaled(c, x, d, (*given)[i]);
    }
  }
  if (c.ok()) Resize(c, x, m, sizes, scales, roi);
}

void Upsample(Call& c) {
  Value* x = c.in(0);
  const auto rank = static_cast<size_t>(x->rank());
  Mode m{.coordinates = "asymmetric", .rounding = "floor"};
  m.kind = c.text("mode", "nearest");
  if (m.kind != "nearest" && m.kind != "linear") return c.Refuse("of mode " + m.kind);
  const auto given = c.opset < 9 ? c.reals("scales") : c.numbers(1);
  if (!given || given->size() != rank) return c.Refuse("with scales that the program computes");
  SymInts sizes;
  std::vector<std::optional<double>> scales;
  for (size_t d = 0; d < rank; ++d) {
    if (!((*given)[d] > 0)) return c.Wrong("a scale that is not positive");
    scales.emplace_back((*given)[d]), sizes.push_back(Scaled(c, x, d, (*given)[d]));
  }
  std::vector<double> roi(2 * rank, 0);
  std::fill(roi.begin() + static_cast<int64_t>(rank), roi.end(), 1);
  if (c.ok()) Resize(c, x, m, sizes, scales, roi);
}

bool IsOfOtherMode(Call& c) { return OperatorOf(ModeOf(c), 2).empty(); }

constexpr Row kResampleRows[] = {
    {"Resize", ResizeNode, 10, nullptr, IsOfOtherMode},
    {"Upsample", Upsample, 7},
};

}  // namespace

absl::Span<const Row> ResampleRows() { return kResampleRows; }

}  // namespace slipway::importers::onnx_in
