// Convolutions, pooling and resampling. Kernels see [n, c, d, h, w]; fewer dims are dims of 1.
#include <algorithm>
#include <limits>

#include "base/text.h"
#include "ir/ops/op_table.h"
#include "planner/choose_layouts.h"
#include "planner/lowering/rules.h"

namespace slipway::planner {
namespace {

constexpr int kSpatial = 3;

// [c, …] or [n, c, …] with `spatial` dims as [n, c, d, h, w].
Operand To5d(Operand x, int spatial) {
  if (x.rank() == spatial + 1) x = Unsqueeze(std::move(x), 0);
  while (x.rank() < kSpatial + 2) x = Unsqueeze(std::move(x), 2);
  return x;
}
// Attributes of `spatial` dims as three, the missing ones in front; false where there are more.
bool Fill3(const Ints& from, int64_t missing, int64_t (&to)[kSpatial]) {
  if (from.size() > kSpatial) return false;
  std::fill_n(to, kSpatial - from.size(), missing);
  std::copy(from.begin(), from.end(), to + (kSpatial - from.size()));
  return true;
}

// [n, c, d, h, w] as [n, c, w, d, h].
Operand MoveWidthToDepth(const Operand& x) {
  Operand y = Permute(x, {0, 1, 4, 2, 3});
  y.strides[2] = y.sizes[3] * y.strides[3];  // of one place: as if the image were dense
  return y;
}

// The spatial dims an operator's name states: "…2d".
int SpatialOf(PlanContext& c) {
  const std::string_view name = c.node().op().base;
  for (int d = 1; d <= kSpatial; ++d)
    if (text::Contains(name, text::StrCat(d, "d"))) return d;
  return c.in(size_t{0}).rank() - 2;
}

void Convolve(PlanContext& c, bool transposed, int spatial, Ints padding) {
  // What stands behind the image follows from the result's size.
  const auto padded = c.builder().paddings.find(c.node().Get("input").value());
  if (padded != c.builder().paddings.end())
    for (size_t d = 0; d < padding.size(); ++d) padding[d] += padded->second.before[d];
  Operand x = padded != c.builder().paddings.end() ? c.of(padded->second.from) : c.in("input"), w = c.in("weight"),
          bias = c.opt_in("bias"),
          out = c.builder().channels_last_nodes.contains(&c.node()) ? c.ResultChannelsLast() : c.Result();
  if (!c.ok()) return;
  if (spatial < 1 || spatial > kSpatial || w.rank() != spatial + 2 ||
      (x.rank() != spatial + 1 && x.rank() != spatial + 2))
    return c.Fail("the sizes do not agree");
  ConvAttributes a;
  a.groups = c.n("groups");
  if (!Fill3(c.ints("stride", spatial), 1, a.stride) || !Fill3(padding, 0, a.padding) ||
      !Fill3(c.ints("dilation", spatial), 1, a.dilation))
    return c.Fail("more dims than the operator has");
  Operand image = To5d(x, spatial), kernel = To5d(w, spatial), result = To5d(out, spatial);
  // Kernels tile the width: of an image of one column, whose convolution is one over the rows alone, the height.
  const auto column = [](const Operand& o) { return o.sizes[kSpatial + 1].is(1); };
  for (int i = 1; i < spatial && column(image) && column(kernel) && column(result) && a.padding[2] == 0; ++i) {
    for (Operand* o : {&image, &kernel, &result}) *o = MoveWidthToDepth(*o);
    for (auto* by : {&a.stride, &a.padding, &a.dilation}) std::rotate(*by, *by + kSpatial - 1, *by + kSpatial);
  }
  std::vector<Operand> in = {std::move(image), std::move(kernel)};
  if (bias) in.push_back(bias);
  if (c.ok()) c.Emit(transposed ? "conv_transposed" : "conv", std::move(in), {std::move(result)}, out.dtype, a);
  c.Return(out);
}
void Conv(PlanContext& c) { Convolve(c, false, SpatialOf(c), c.ints("padding", SpatialOf(c))); }
void ConvTransposed(PlanContext& c) { Convolve(c, true, SpatialOf(c), c.ints("padding", SpatialOf(c))); }
void Convolution(PlanContext& c) {
  const int spatial = c.in("input").rank() - 2;
  Convolve(c, c.b("transposed"), spatial, c.ints("padding", spatial));
}
void ConvPadded(PlanContext& c) {
  const int spatial = SpatialOf(c);
  Ints padding(spatial, 0);
  if (const std::string how = c.str("padding"); how == "same") {
    const Ints dilation = c.ints("dilation", spatial);
    const Operand w = c.in("weight");
    for (int d = 0; d < spatial && c.ok(); ++d) {
      const auto size = w.sizes[w.rank() - spatial + d].constant();
      if (!size) return c.Unsupported("a kernel of unknown size");
      padding[d] = c.Shift(dilation[d]) * (*size - 1) / 2;
    }
  } else if (how != "valid") {
    return c.Fail(text::StrCat("padding=\"", how, "\""));
  }
  Convolve(c, false, spatial, padding);
}

void BatchNorm(PlanContext& c) {
  if (c.b("training")) return c.Unsupported("statistics of the batch");
  Operand x = c.in("input"), weight = c.opt_in("weight"), bias = c.opt_in("bias"), mean = c.opt_in("running_mean"),
          variance = c.opt_in("running_var"), out = c.ResultLike(x);
  if (!c.ok()) return;
  if (!mean || !variance) return c.Unsupported("no running statistics");
  if (x.rank() < 2) return c.Fail("an input of less than 2 dims");
  if (!ir::IsFloating(x.dtype) || x.dtype == DType::kFloat64) return c.Unsupported(ir::Name(x.dtype));
  int64_t parts = kernels::kNormStatistics;
  std::vector<Operand> in = {c.builder().IsChannelsLast(x) ? x : c.Dense(x)};
  auto add = [&](const Operand& v, int64_t part) {
    if (!v) return;
    if (v.rank() != 1) return c.Fail("the sizes do not agree");
    c.RequireEqual(v.sizes[0], x.sizes[1], "the sizes do not agree");
    parts |= part;
    in.push_back(v);
  };
  add(weight, kernels::kNormWeight);
  add(bias, kernels::kNormBias);
  add(mean, kernels::kNormStatistics);
  add(variance, kernels::kNormStatistics);
  if (!c.ok()) return;
  c.Emit("batch_norm", std::move(in), {out}, out.dtype, kernels::BatchNormAttributes{parts, c.f("eps")});
  c.Return(out);
}

// Group norm of f32 and halves, and instance norm, whose groups are channels: group_scales makes a factor and a summand
// of each channel, so that the rest is elementwise. Others are left to their decompositions.
void GroupNorm(PlanContext& c) {
  const std::string_view name = c.node().op().base;
  const bool instance = name == "instance_norm";
  Operand x = c.in("input"), weight = c.opt_in("weight"), bias = c.opt_in("bias");
  if (!c.ok()) return;
  if (instance && !c.b("use_input_stats")) return c.Unsupported("running statistics");
  if (name == "native_group_norm" && (c.used(1) || c.used(2))) return c.Unsupported("the statistics");
  if (x.rank() < 2 || (instance && x.rank() < 3)) return c.Unsupported(text::StrCat("an input of ", x.rank(), " dims"));
  for (const Operand* t : {&x, &weight, &bias})
    if (*t && t->dtype != DType::kFloat32 && t->dtype != DType::kBFloat16 && t->dtype != DType::kFloat16)
      return c.Unsupported(ir::Name(t->dtype));
  if (name == "native_group_norm" && (!KnownEqual(x.sizes[0], c.n("N")) || !KnownEqual(x.sizes[1], c.n("C"))))
    return c.Unsupported("an input of other sizes than it states");
  const auto channels = x.sizes[1].constant();
  if (!channels) return c.Unsupported("a number of channels that is not known");
  const int64_t groups = instance ? *channels : c.i(name == "group_norm" ? "num_groups" : "group");
  if (!c.ok()) return;
  if (groups < 1 || *channels % groups != 0) return c.Unsupported("groups that do not divide the channels");
  // As a view of what lies so may be, too.
  const bool last = x.rank() <= 4 && (c.builder().IsChannelsLast(x) || (!x.is_contiguous() && ChannelsLast(x)));
  if (!last) x = c.Dense(x);
  Operand out = last ? c.ResultChannelsLast() : c.Result();
  kernels::GroupNormAttributes a{{0, c.f("eps")}, groups};
  std::vector<Operand> in = {x};
  for (const auto& [v, part] : {std::pair(&weight, kernels::kNormHasWeight), std::pair(&bias, kernels::kNormHasBias)}) {
    if (!*v) continue;
    if (v->rank() != 1) return c.Fail("the sizes do not agree");
    c.RequireEqual(v->sizes[0], x.sizes[1], "the sizes do not agree");
    a.norm.parts |= part;
    in.push_back(*v);
  }
  constexpr DType kWide = DType::kFloat32;  // of everything before the result
  Operand scale = c.Temp(kWide, {x.sizes[0], x.sizes[1]}), shift = c.Temp(kWide, {x.sizes[0], x.sizes[1]});
  c.Emit("group_scales", std::move(in), {scale, shift}, kWide, a);
  while (scale.rank() < x.rank()) scale = Unsqueeze(scale, scale.rank()), shift = Unsqueeze(shift, shift.rank());
  Operand scaled = last ? c.TempChannelsLast(kWide, out.sizes) : c.Temp(kWide, out.sizes);
  c.Map("mul", {x, scale}, scaled, kWide);
  std::vector<Operand> results(c.node().outputs().size());
  results[0] = c.Map("add", {scaled, shift}, out, kWide);
  c.Return(std::move(results));
}

// Window, stride (the window's size where it is empty), padding.
template <typename Attributes>
bool ReadWindow(PlanContext& c, int spatial, Attributes* a) {
  const Ints window = c.ints("kernel_size", spatial);
  Ints stride = c.ints("stride", spatial);
  if (stride.empty()) stride = window;
  return Fill3(window, 1, a->window) && Fill3(stride, 1, a->stride) &&
         Fill3(c.ints("padding", spatial), 0, a->padding) && c.ok() && window.size() == static_cast<size_t>(spatial);
}
// The image of a pool, dense or with channels last, as a view of what lies so may be; and its result, which lies alike.
struct Pooled {
  explicit Pooled(PlanContext& c) : x(c.in("self")) {
    const bool last = c.builder().IsChannelsLast(x) ||
                      ((x.dtype == DType::kFloat32 || x.dtype == DType::kBFloat16) && x.rank() == 4 && ChannelsLast(x));
    if (!last) x = c.Dense(x);
    out = last ? c.ResultChannelsLast() : c.Result();
  }
  Operand x, out;
};
void MaxPool(PlanContext& c) {
  const int spatial = SpatialOf(c);
  auto [x, out] = Pooled(c);
  kernels::MaxPoolAttributes a;
  if (!ReadWindow(c, spatial, &a) || !Fill3(c.ints("dilation", spatial), 1, a.dilation))
    return c.Fail("the windows make no sense");
  std::vector<Operand> results = {out}, to = {To5d(out, spatial)};
  if (c.node().outputs().size() > 1 && c.used(1)) {
    results.push_back(c.Result(1));
    to.push_back(To5d(results[1], spatial));
  }
  c.Emit("max_pool", {To5d(x, spatial)}, std::move(to), x.dtype, a);
  c.Return(std::move(results));
}
void AveragePool(PlanContext& c) {
  const int spatial = SpatialOf(c);
  auto [x, out] = Pooled(c);
  AveragePoolAttributes a;
  if (!ReadWindow(c, spatial, &a)) return c.Fail("the windows make no sense");
  a.padding_counts = c.b("count_include_pad");
  const bool divisor = c.node().op().ArgIndex("divisor_override") >= 0 && c.has("divisor_override");
  a.divisor = divisor ? c.n("divisor_override") : Dim(0);
  if (a.divisor.is(0) && divisor) return c.Fail("divisor_override is 0");
  c.Emit("avg_pool", {To5d(x, spatial)}, {To5d(out, spatial)}, out.dtype, a);
  c.Return(out);
}
void AdaptivePool(PlanContext& c) {
  const int spatial = SpatialOf(c);
  Operand x = c.in("self"), out = c.Result();
  if (!c.ok()) return;
  for (int d = x.rank() - spatial; d < x.rank(); ++d) c.RequireLessEqual(1, x.sizes[d], "of a tensor without elements");
  // The mean of a plane is a reduction, which takes any strides.
  bool mean = c.kernel() == "adaptive_avg_pool" && ir::IsFloating(x.dtype) && c.builder().IsChannelsLast(x);
  for (int d = x.rank() - spatial; d < x.rank(); ++d) mean = mean && out.sizes[d].is(1);
  if (mean) {
    std::vector<int> dims;
    Operand to = out;
    for (int d = x.rank() - spatial; d < x.rank(); ++d) dims.push_back(d), to = Drop(to, to.rank() - 1);
    c.Emit("mean", {MoveToLast(x, dims)}, {to}, out.dtype, kernels::ReduceAttributes{spatial});
    return c.Return(out);
  }
  if (c.kernel() == "adaptive_avg_pool" && out.dtype == DType::kFloat32 && x.rank() == 4 &&
      c.builder().IsChannelsLast(x))
    out = c.ResultChannelsLast();
  std::vector<Operand> results = {out}, to = {To5d(out, spatial)};
  if (c.kernel() == "adaptive_max_pool" && c.node().outputs().size() > 1) {
    results.push_back(c.Result(1));
    to.push_back(To5d(results[1], spatial));
  }
  c.Emit(c.kernel(), {To5d(x, spatial)}, std::move(to), out.dtype);
  c.Return(std::move(results));
}
void MaxUnpool(PlanContext& c) {
  const int spatial = SpatialOf(c);
  Operand x = c.in("self"), places = c.in("indices"), out = c.Full(c.out_sizes(), ir::Scalar(), c.out_dtype());
  if (!c.ok()) return;
  auto flat = [&](const Operand& t) {
    Dims sizes = t.rank() == spatial + 1 ? Dims{1} : Dims{};
    Dim plane = 1;
    for (int d = 0; d < t.rank(); ++d) {
      if (d < t.rank() - spatial)
        sizes.push_back(t.sizes[d]);
      else
        plane = plane * t.sizes[d];
    }
    sizes.push_back(plane);
    return c.Reshape(t, sizes);
  };
  c.Emit("max_unpool", {flat(x), flat(places)}, {flat(out)}, out.dtype);
  c.Return(out);
}

using Mode = kernels::ResampleMode;
using enum Mode;
Mode ModeOf(std::string_view op) {
  const bool antialias = text::Contains(op, "_aa");
  if (text::Contains(op, "bicubic")) return antialias ? kCubicAntialias : kCubic;
  return antialias ? kLinearAntialias : kLinear;
}
void Upsample(PlanContext& c) {
  const int spatial = SpatialOf(c);
  const std::string_view name = c.node().op().base;
  const bool copies = text::Contains(name, "nearest");
  const Mode mode = ModeOf(name);
  Operand x = c.in(size_t{0});
  if (!c.ok()) return;
  if (x.rank() != spatial + 2) return c.Fail("the rank is not that of the operator");
  if (!copies && !ir::IsFloating(x.dtype))
    return c.Unsupported(text::StrCat(ir::Name(x.dtype), ", which torch rounds in its own way"));
  if (ir::IsLowPrecision(x.dtype) && !copies && mode != kLinear && mode != kCubic)
    return c.Unsupported(text::StrCat(ir::Name(x.dtype), ": torch rounds inside its kernel"));
  const bool align = !copies && c.b("align_corners");
  if (align && (mode == kLinearAntialias || mode == kCubicAntialias))
    return c.Unsupported("antialiasing with aligned corners");
  // The factors that were asked for.
  std::vector<double> factors(spatial, 0);
  const ir::OpDef& op = c.node().op();
  if (op.ArgIndex("scale_factors") >= 0) {
    if (auto given = c.opt_floats("scale_factors"))
      for (int d = 0; d < spatial && d < static_cast<int>(given->size()); ++d) factors[d] = (*given)[d];
  } else {
    const char* names[] = {"scales_d", "scales_h", "scales_w"};
    for (int d = 0; d < spatial; ++d) {
      const char* name = spatial == 1 ? "scales" : names[kSpatial - spatial + d];
      if (op.ArgIndex(name) >= 0) factors[d] = c.opt_f(name).value_or(0);
    }
  }
  // What the caller gets is laid out in planes anyway: rather before it is large than afterwards.
  const ir::Value* result = c.node().output(0);
  if (result->graph()->IsOutput(result) && ir::ProvablyLess(x.numel(), Product(c.out_sizes()))) x = c.Dense(x);
  if (copies) {
    kernels::NearestAttributes a{.exact = text::Contains(name, "exact"), .spatial = spatial, .factors = {}};
    std::copy(factors.begin(), factors.end(), a.factors + (kSpatial - spatial));
    Operand out = c.ResultLike(x);
    if (c.ok()) c.Emit("resample_nearest", {To5d(x, spatial)}, {To5d(out, spatial)}, x.dtype, a);
    return c.Return(out);
  }
  const Dims sizes = c.out_sizes();
  const DType way = ir::IsLowPrecision(x.dtype) ? DType::kFloat32 : x.dtype;
  for (int d = spatial - 1; d >= 0 && c.ok(); --d) {
    const int dim = 2 + d;
    if (sizes[dim] == x.sizes[dim] && (factors[d] == 0 || factors[d] == 1)) continue;
    Dims next = x.sizes;
    next[dim] = sizes[dim];
    // Rows lie along the channels where these are last.
    const bool last = c.builder().IsChannelsLast(x);
    Operand y = last ? c.TempChannelsLast(way, next) : c.Temp(way, next);
    const std::vector<int> order = last ? std::vector<int>{1, dim} : std::vector<int>{dim};
    c.Emit("resample", {MoveToLast(x, order)}, {MoveToLast(y, order)}, way,
           kernels::ResampleAttributes{mode, align, factors[d]});
    x = y;
  }
  c.Return(c.Cast(x, c.out_dtype()));
}

void GridSample(PlanContext& c) {
  Operand x = c.in("input"), grid = c.in("grid"), out = c.Result();
  if (!c.ok()) return;
  const int spatial = x.rank() - 2;
  if (spatial < 2 || spatial > 3 || grid.rank() != spatial + 2) return c.Fail("the rank is not that of the operator");
  if (spatial == 2) grid = Unsqueeze(grid, 1);
  const int64_t mode = c.i("interpolation_mode"), padding = c.i("padding_mode");
  if (mode < 0 || mode >= static_cast<int64_t>(kernels::GridMode::kCount) || padding < 0 ||
      padding >= static_cast<int64_t>(kernels::GridPadding::kCount))
    return c.Unsupported("of this mode");
  // The kernel rounds places as torch does, and no further steps.
  const auto how = static_cast<kernels::GridMode>(mode);
  if (ir::IsLowPrecision(x.dtype) &&
      (how == kernels::GridMode::kBicubic ||
       (how == kernels::GridMode::kNearest && padding == static_cast<int64_t>(kernels::GridPadding::kReflection))))
    return c.Unsupported(text::StrCat(ir::Name(x.dtype), ": torch rounds inside its kernel"));
  c.Emit("grid_sample", {To5d(x, spatial), grid}, {To5d(out, spatial)}, out.dtype,
         kernels::GridSampleAttributes{static_cast<kernels::GridMode>(mode), static_cast<kernels::GridPadding>(padding),
                                       c.b("align_corners")});
  c.Return(out);
}

}  // namespace

void ChoosePaddings(const ir::Graph& g, PlanBuilder& b) {
  for (const ir::Node* n : g) {
    if (!PadsByConstant(*n) || n->output() == nullptr || g.IsOutput(n->output()) || n->output()->users().empty())
      continue;
    PlanContext c(*n, b, "");
    const ir::Value* from = n->Get("self").value();
    if (from == nullptr || !from->type().is_tensor() || from->dtype() != DType::kFloat32) continue;
    const auto value = c.opt_scalar("value");
    if (value && (!value->is_constant() || (value->kind != ir::Scalar::kInt && value->kind != ir::Scalar::kFloat) ||
                  (value->kind == ir::Scalar::kInt ? value->i != 0 : value->d != 0)))
      continue;
    const Dims pad = c.ns("pad");
    const int spatial = from->rank() - 2;
    bool fits = c.ok() && spatial >= 1 && spatial <= kSpatial && pad.size() % 2 == 0 &&
                static_cast<int>(pad.size()) <= 2 * spatial;
    PlanBuilder::Padding p{from, std::vector<int64_t>(static_cast<size_t>(std::max(spatial, 0)), 0)};
    for (size_t k = 0; k < pad.size() && fits; ++k) {
      const auto size = pad[k].constant();
      fits = size && *size >= 0 && *size <= 64;
      if (fits && k % 2 == 0) p.before[static_cast<size_t>(spatial) - 1 - k / 2] = *size;
    }
    // The loops take a border that is as wide on both sides, or by one wider behind.
    for (size_t k = 0; k + 1 < pad.size() && fits; k += 2) fits = *pad[k + 1].constant() <= *pad[k].constant() + 1;
    for (const ir::Node* user : n->output()->users())
      fits = fits &&
             (user->op_name() == "aten.conv1d.default" || user->op_name() == "aten.conv2d.default" ||
              user->op_name() == "aten.conv3d.default") &&
             user->Get("input").value() == n->output() && user->Get("weight").value() != n->output();
    if (fits) b.paddings[n->output()] = std::move(p);
  }
}

namespace {

constexpr PlanFamily kNnFamilies[] = {
    {Conv, "", "conv1d conv2d conv3d"},
    {ConvPadded, "", "conv1d.padding conv2d.padding conv3d.padding"},
    {ConvTransposed, "", "conv_transpose1d conv_transpose2d.input conv_transpose3d.input"},
    {Convolution, "", "convolution _convolution"},
    {BatchNorm, "", "batch_norm"},
    {GroupNorm, "group_scales", "group_norm native_group_norm instance_norm"},
    {MaxPool, "",
     "max_pool1d max_pool2d max_pool3d max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices"},
    {AveragePool, "", "avg_pool1d avg_pool2d avg_pool3d"},
    {AdaptivePool, "adaptive_avg_pool",
     "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d"},
    {AdaptivePool, "adaptive_max_pool", "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d"},
    {MaxUnpool, "", "max_unpool2d max_unpool3d"},
    {Upsample, "",
     "upsample_nearest1d upsample_nearest1d.vec upsample_nearest2d upsample_nearest2d.vec upsample_nearest3d "
     "upsample_nearest3d.vec _upsample_nearest_exact1d _upsample_nearest_exact1d.vec _upsample_nearest_exact2d "
     "_upsample_nearest_exact2d.vec _upsample_nearest_exact3d _upsample_nearest_exact3d.vec upsample_linear1d "
     "upsample_linear1d.vec upsample_bilinear2d upsample_bilinear2d.vec upsample_trilinear3d upsample_trilinear3d.vec "
     "upsample_bicubic2d upsample_bicubic2d.vec"},
    {Upsample, "",
     "_upsample_bilinear2d_aa _upsample_bilinear2d_aa.vec _upsample_bicubic2d_aa _upsample_bicubic2d_aa.vec", true},
    {GridSample, "", "grid_sampler grid_sampler_2d grid_sampler_3d"},
};

}  // namespace

absl::Span<const PlanFamily> NnPlans() { return kNnFamilies; }

}  // namespace slipway::planner
