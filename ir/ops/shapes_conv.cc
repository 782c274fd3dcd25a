// Shape functions: convolutions, pooling, resampling.
#include <cmath>

#include "base/text.h"
#include "ir/ops/shape_rules.h"

namespace slipway::ir {

namespace {

// Lists with one entry per spatial dimension; a single entry stands for all.
Sizes PerDim(InferContext& c, std::string_view name, int n) {
  Sizes out = c.ToSizes(c.sym_ints(name, n));
  if (out.size() == 1 && n > 1) out.resize(n, out[0]);
  if (static_cast<int>(out.size()) != n) {
    c.Fail(text::StrCat("argument '", name, "' has ", out.size(), " entries, not ", n));
    out.assign(n, 1);
  }
  return out;
}

bool Positive(InferContext& c, const Sizes& s, std::string_view what) {
  for (Sym x : s)
    if (ProvablyLess(x, 1)) {
      c.Fail(text::StrCat(what, " is not positive"));
      return false;
    }
  return true;
}

// Elements of a dimension that windows of k (dilated by d, padded by p on both sides, s apart) cover.
Sym Windows(Sym in, Sym k, Sym s, Sym p, Sym d) { return FloorDiv(in + 2 * p - d * (k - 1) - 1, s) + 1; }

struct Conv {
  Value *x, *w, *bias;
  int n;  // spatial dimensions
  bool batched;
};

bool ReadConv(InferContext& c, Conv& k) {
  k.x = Self(c);
  k.w = TensorAt(c, 1);
  k.bias = c.opt_tensor("bias");
  k.n = k.w->rank() - 2;
  k.batched = k.x->rank() == k.w->rank();
  if (k.n < 1 || (!k.batched && k.x->rank() != k.n + 1)) {
    c.Fail(text::StrCat("ranks ", k.x->rank(), " and ", k.w->rank(), " are no convolution"));
    return false;
  }
  NeedSameDType(c, {k.x, k.w, k.bias});
  return c.ok();
}

Sym Channels(const Conv& k) { return k.x->sizes()[k.x->rank() - k.n - 1]; }
Sym Groups(InferContext& c) {
  Sym groups = c.node().op().ArgIndex("groups") >= 0 ? ExprOf(c.sym("groups")) : Sym(1);
  if (ProvablyLess(groups, 1)) c.Fail("the number of groups is not positive");
  return groups;
}

void OutConv(InferContext& c, const Conv& k, Sym channels, const Sizes& spatial) {
  Sizes out;
  if (k.bias) NeedSameSizes(c, k.bias->sizes(), {channels}, "the bias and the channels of the result");
  if (k.batched) out.push_back(k.x->sizes()[0]);
  out.push_back(channels);
  for (Sym s : spatial) c.RequireAtLeast(s, 1);
  out.insert(out.end(), spatial.begin(), spatial.end());
  c.Out(k.x->dtype(), out);
}

void OutForward(InferContext& c, const Conv& k, const Sizes& padding) {
  Sizes stride = PerDim(c, "stride", k.n), dilation = PerDim(c, "dilation", k.n), out;
  if (!c.ok() || !Positive(c, stride, "a stride") || !Positive(c, dilation, "a dilation")) return;
  NeedNotNegative(c, padding, "a padding");
  for (int i = 0; i < k.n; ++i) {
    out.push_back(
        Windows(k.x->sizes()[k.x->rank() - k.n + i], k.w->sizes()[2 + i], stride[i], padding[i], dilation[i]));
    if (ProvablyLess(out.back(), 1)) return c.Fail("the kernel is larger than the input");
  }
  OutConv(c, k, k.w->sizes()[0], out);
}

void CheckForward(InferContext& c, const Conv& k) {
  const Sym groups = Groups(c);
  c.RequireEqual(Channels(k), k.w->sizes()[1] * groups, "channels of the input and the weight");
  c.RequireEqual(Mod(k.w->sizes()[0], groups), 0, "channels of the result that the groups do not divide");
}

void OutTransposed(InferContext& c, const Conv& k) {
  Sizes stride = PerDim(c, "stride", k.n), dilation = PerDim(c, "dilation", k.n), padding = PerDim(c, "padding", k.n),
        extra = PerDim(c, "output_padding", k.n), out;
  if (!Positive(c, stride, "a stride") || !Positive(c, dilation, "a dilation")) return;
  NeedNotNegative(c, padding, "a padding");
  NeedNotNegative(c, extra, "an output padding");
  c.RequireEqual(Channels(k), k.w->sizes()[0], "channels of the input and the weight");
  c.RequireEqual(Mod(Channels(k), Groups(c)), 0, "channels of the input that the groups do not divide");
  for (int i = 0; i < k.n; ++i)
    out.push_back((k.x->sizes()[k.x->rank() - k.n + i] - 1) * stride[i] - 2 * padding[i] +
                  dilation[i] * (k.w->sizes()[2 + i] - 1) + extra[i] + 1);
  OutConv(c, k, k.w->sizes()[1] * Groups(c), out);
}

// The weight is the kernel's matrix (kernels/conv/integer_conv.cc), so the result's channels are those of the scale.
void IntegerConv(InferContext& c) {
  Value *x = c.tensor("input"), *w = c.tensor("weight"), *scale = c.tensor("scale"), *bias = c.opt_tensor("bias");
  const Sizes kernel = PerDim(c, "kernel_size", 2), stride = PerDim(c, "stride", 2), padding = PerDim(c, "padding", 2),
              dilation = PerDim(c, "dilation", 2);
  if (x->rank() != 4 || w->rank() != 2 || scale->rank() != 1) return c.Fail("an integer convolution needs an image");
  if (!c.ok() || !Positive(c, kernel, "a kernel's size") || !Positive(c, stride, "a stride") ||
      !Positive(c, dilation, "a dilation"))
    return;
  NeedNotNegative(c, padding, "a padding");
  const Sizes channels = {scale->sizes()[0]};
  NeedSameSizes(c, c.tensor("offset")->sizes(), channels, "the offset and the scale");
  if (bias) NeedSameSizes(c, bias->sizes(), channels, "the bias and the scale");
  Sizes out = {x->sizes()[0], channels[0]};
  for (int d = 0; d < 2; ++d) {
    out.push_back(Windows(x->sizes()[2 + d], kernel[d], stride[d], padding[d], dilation[d]));
    if (ProvablyLess(out.back(), 1)) return c.Fail("the kernel is larger than the input");
    c.RequireAtLeast(out.back(), 1);
  }
  if (Value* added = c.opt_tensor("added")) NeedSameSizes(c, added->sizes(), out, "the tensor that is added");
  c.Out(c.f("multiplier") != 0 ? DType::kUInt8 : DType::kFloat32, out);
}

void ConvForward(InferContext& c) {
  Conv k;
  if (!ReadConv(c, k)) return;
  // A depthwise convolution takes its groups from the channels.
  if (c.node().op().base != "_conv_depthwise2d" && c.node().op().base != "conv_depthwise3d") CheckForward(c, k);
  OutForward(c, k, PerDim(c, "padding", k.n));
}

void ConvTranspose(InferContext& c) {
  Conv k;
  if (ReadConv(c, k)) OutTransposed(c, k);
}

void Convolution(InferContext& c) {
  Conv k;
  if (!ReadConv(c, k)) return;
  if (c.b("transposed")) return OutTransposed(c, k);
  CheckForward(c, k);
  OutForward(c, k, PerDim(c, "padding", k.n));
}

void ConvPadding(InferContext& c) {  // "valid" or "same"
  Conv k;
  if (!ReadConv(c, k)) return;
  CheckForward(c, k);
  std::string padding = c.str("padding");
  if (padding == "valid") return OutForward(c, k, Sizes(k.n, 0));
  if (padding != "same") return c.Fail(text::StrCat("padding '", padding, "'"));
  for (Sym stride : PerDim(c, "stride", k.n)) c.RequireEqual(stride, 1, "the stride of padding 'same'");
  if (!Positive(c, PerDim(c, "dilation", k.n), "a dilation")) return;
  OutConv(c, k, k.w->sizes()[0], Sizes(k.x->sizes().end() - k.n, k.x->sizes().end()));
}

void ConvTbc(InferContext& c) {
  Value *x = Self(c), *w = TensorAt(c, 1);
  NeedRank(c, x, 3);
  NeedRank(c, w, 3);
  NeedSameDType(c, {x, w, c.tensor("bias")});
  NeedSameSizes(c, c.tensor("bias")->sizes(), {w->sizes()[2]}, "the bias and the channels of the result");
  c.RequireEqual(x->sizes()[2], w->sizes()[1], "channels of the input and the weight");
  c.Out(x->dtype(), {x->sizes()[0] + 2 * c.i("pad") + 1 - w->sizes()[0], x->sizes()[1], w->sizes()[2]});
}

// Windows, the last one possibly over the edge but not beginning in the right padding.
Sym PoolWindows(Sym in, Sym k, Sym s, Sym p, Sym d, bool ceil_mode) {
  if (!ceil_mode) return Windows(in, k, s, p, d);
  Sym reach = in + 2 * p - d * (k - 1) - 1 + s - 1, limit = in + p + s - 1;
  Sym all = FloorDiv(reach, s) + 1, inside = FloorDiv(limit, s);
  return ProvablyLessEqual(reach + s, limit) ? all : SmallerOf(all, inside);
}

void OutPool(InferContext& c, int n, bool with_indices) {
  Value* x = Self(c);
  if (x->rank() != n + 1 && x->rank() != n + 2) return c.Fail(text::StrCat("rank ", x->rank()));
  Sizes kernel = PerDim(c, "kernel_size", n), padding = PerDim(c, "padding", n);
  Sizes stride = c.ToSizes(c.sym_ints("stride"));
  stride = stride.empty() ? kernel : PerDim(c, "stride", n);
  Sizes dilation = c.node().op().ArgIndex("dilation") >= 0 ? PerDim(c, "dilation", n) : Sizes(n, 1);
  if (!Positive(c, stride, "a stride") || !Positive(c, kernel, "a kernel size") || !Positive(c, dilation, "a dilation"))
    return;
  NeedNotNegative(c, padding, "a padding");
  bool ceil_mode = c.b("ceil_mode");
  Sizes out = x->sizes();
  for (int i = 0; i < n; ++i) {
    Sym& s = out[x->rank() - n + i];
    if (ProvablyLess(dilation[i] * (kernel[i] - 1) + 1, 2 * padding[i]))
      return c.Fail("the padding is more than half of the kernel");
    s = PoolWindows(s, kernel[i], stride[i], padding[i], dilation[i], ceil_mode);
    if (ProvablyLess(s, 1)) return c.Fail("the kernel is larger than the input");
    c.RequireAtLeast(s, 1);
  }
  c.Out(x->dtype(), out);
  if (with_indices) c.Out(DType::kInt64, out);
}

template <int kDims, bool kIndices>
void Pool(InferContext& c) {
  OutPool(c, kDims, kIndices);
}

// The last n dimensions become output_size.
template <int kDims, bool kIndices>
void ResizeTo(InferContext& c) {
  Value* x = Self(c);
  if (x->rank() != kDims + 1 && x->rank() != kDims + 2) return c.Fail(text::StrCat("rank ", x->rank()));
  Sizes size = PerDim(c, "output_size", kDims), out = x->sizes();
  for (int i = 0; i < kDims; ++i) out[x->rank() - kDims + i] = size[i];
  c.Out(x->dtype(), out);
  if (kIndices) c.Out(DType::kInt64, out);
}

void LikeSecond(InferContext& c) {
  Value* x = TensorAt(c, 1);
  c.Out(x->dtype(), x->sizes());
}

void Im2Col(InferContext& c) {
  Value* x = Self(c);
  if (x->rank() != 3 && x->rank() != 4) return c.Fail(text::StrCat("rank ", x->rank()));
  Sizes k = PerDim(c, "kernel_size", 2), d = PerDim(c, "dilation", 2), p = PerDim(c, "padding", 2),
        s = PerDim(c, "stride", 2);
  if (!Positive(c, s, "a stride") || !Positive(c, k, "a kernel size") || !Positive(c, d, "a dilation")) return;
  NeedNotNegative(c, p, "a padding");
  Sym blocks = 1;
  for (int i = 0; i < 2; ++i) {
    const Sym along = Windows(x->sizes()[x->rank() - 2 + i], k[i], s[i], p[i], d[i]);
    if (ProvablyLess(along, 1)) return c.Fail("the kernel is larger than the input");
    blocks = blocks * along;
  }
  Sizes out(x->sizes().begin(), x->sizes().end() - 3);
  out.push_back(x->sizes()[x->rank() - 3] * k[0] * k[1]);
  out.push_back(blocks);
  c.Out(x->dtype(), out);
}

void Col2Im(InferContext& c) {
  Value* x = Self(c);
  if (x->rank() != 2 && x->rank() != 3) return c.Fail(text::StrCat("rank ", x->rank()));
  Sizes k = PerDim(c, "kernel_size", 2), size = PerDim(c, "output_size", 2);
  const Sizes d = PerDim(c, "dilation", 2), p = PerDim(c, "padding", 2), s = PerDim(c, "stride", 2);
  if (!Positive(c, k, "a kernel size") || !Positive(c, d, "a dilation") || !Positive(c, s, "a stride")) return;
  NeedNotNegative(c, p, "a padding");
  Sym blocks = 1;
  for (int i = 0; i < 2; ++i) {
    const Sym along = Windows(size[i], k[i], s[i], p[i], d[i]);
    if (ProvablyLess(along, 1)) return c.Fail("the kernel is larger than the result");
    blocks = blocks * along;
  }
  c.RequireEqual(x->sizes().back(), blocks, "blocks");
  c.RequireEqual(Mod(x->sizes()[x->rank() - 2], k[0] * k[1]), 0, "a number of rows that the kernel does not divide");
  Sizes out(x->sizes().begin(), x->sizes().end() - 2);
  out.push_back(FloorDiv(x->sizes()[x->rank() - 2], k[0] * k[1]));
  out.insert(out.end(), size.begin(), size.end());
  c.Out(x->dtype(), out);
}

template <int kDims>
void Upsample(InferContext& c) {  // to output_size, or by scale_factors
  Value* x = Self(c);
  if (x->rank() != kDims + 2) return c.Fail(text::StrCat("rank ", x->rank()));
  if (c.has("output_size")) return ResizeTo<kDims, false>(c);
  std::vector<double> scales = c.floats("scale_factors");
  if (static_cast<int>(scales.size()) != kDims) return c.Fail("neither a size nor as many factors as dimensions");
  // All but this one multiply by a whole factor in integers.
  bool by_float = c.node().op().base == "upsample_bicubic2d";
  Sizes out = x->sizes();
  for (int i = 0; i < kDims; ++i) {
    Sym& s = out[2 + i];
    double f = scales[i];
    if (!(f > 0) || f > 1e9) return c.Fail("a scale factor is not positive");
    if (std::floor(f) == f && (s.is_constant() || !by_float)) {
      s = s * static_cast<int64_t>(f);
    } else if (auto k = s.constant()) {
      s = static_cast<int64_t>(static_cast<double>(*k) * f);
    } else {
      auto as_float = c.syms().Make(SymKind::kToFloat, {s});
      auto scaled = as_float.ok() ? c.syms().Make(SymKind::kMul, {c.syms().Float(f), *as_float}) : as_float;
      auto whole = scaled.ok() ? c.syms().Make(SymKind::kTruncToInt, {*scaled}) : scaled;
      if (!whole.ok()) return c.SetStatus(whole.status());
      s = *whole;
    }
  }
  c.Out(x->dtype(), out);
}

void GridSample(InferContext& c) {
  Value *x = Self(c), *grid = TensorAt(c, 1);
  if (x->rank() < 4 || grid->rank() != x->rank()) return c.Fail("the grid does not fit the input's rank");
  NeedSameDType(c, {x, grid});
  c.RequireEqual(x->sizes()[0], grid->sizes()[0], "batches of the input and the grid");
  c.RequireEqual(grid->sizes().back(), x->rank() - 2, "coordinates of a point of the grid");
  Sizes out = {x->sizes()[0], x->sizes()[1]};
  out.insert(out.end(), grid->sizes().begin() + 1, grid->sizes().end() - 1);
  c.Out(x->dtype(), out);
}

void AffineGrid(InferContext& c) {
  Sizes size = c.ToSizes(c.sym_ints("size"));
  if (size.size() < 4) return c.Fail("a grid of fewer than 2 dimensions");
  Value* theta = Self(c);
  if (theta->rank() != 3) return c.Fail(text::StrCat("matrices of rank ", theta->rank()));
  if (!c.RequireEqual(theta->sizes()[0], size[0], "matrices and grids")) return;
  Sizes out = {size[0]};
  out.insert(out.end(), size.begin() + 2, size.end());
  out.push_back(static_cast<int64_t>(size.size()) - 2);
  c.Out(Self(c)->dtype(), out);
}

constexpr ShapeFamily kConvFamilies[] = {
    {ConvForward, "conv1d conv2d conv3d"},
    {IntegerConv, "/slipway.integer_conv.default"},
    {ConvPadding, "conv1d.padding conv2d.padding conv3d.padding _convolution_mode"},
    {ConvTranspose, "conv_transpose1d conv_transpose2d.input conv_transpose3d.input"},
    {Convolution, "convolution _convolution _convolution.deprecated convolution_overrideable"},
    {ConvForward, "_conv_depthwise2d conv_depthwise3d thnn_conv2d slow_conv3d"},
    {ConvTbc, "conv_tbc"},
    {Pool<1, false>, "max_pool1d avg_pool1d"},
    {Pool<2, false>, "max_pool2d avg_pool2d"},
    {Pool<3, false>, "max_pool3d avg_pool3d"},
    {Pool<1, true>, "max_pool1d_with_indices"},
    {Pool<2, true>, "max_pool2d_with_indices"},
    {Pool<3, true>, "max_pool3d_with_indices"},
    {ResizeTo<1, false>, "adaptive_avg_pool1d"},
    {ResizeTo<2, false>, "adaptive_avg_pool2d _adaptive_avg_pool2d max_unpool2d"},
    {ResizeTo<3, false>, "adaptive_avg_pool3d _adaptive_avg_pool3d max_unpool3d"},
    {ResizeTo<1, true>, "adaptive_max_pool1d"},
    {ResizeTo<2, true>, "adaptive_max_pool2d fractional_max_pool2d"},
    {ResizeTo<3, true>, "adaptive_max_pool3d fractional_max_pool3d"},
    {LikeSecond,
     "max_pool2d_with_indices_backward max_pool3d_with_indices_backward avg_pool2d_backward avg_pool3d_backward "
     "_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward"},
    {Im2Col, "im2col"},
    {Col2Im, "col2im"},
    {Upsample<1>,
     "upsample_nearest1d upsample_nearest1d.vec _upsample_nearest_exact1d _upsample_nearest_exact1d.vec "
     "upsample_linear1d "
     "upsample_linear1d.vec"},
    {Upsample<2>,
     "upsample_nearest2d upsample_nearest2d.vec _upsample_nearest_exact2d _upsample_nearest_exact2d.vec "
     "upsample_bilinear2d upsample_bilinear2d.vec upsample_bicubic2d upsample_bicubic2d.vec _upsample_bilinear2d_aa "
     "_upsample_bilinear2d_aa.vec _upsample_bicubic2d_aa _upsample_bicubic2d_aa.vec _upsample_lanczos2d_aa "
     "_upsample_lanczos2d_aa.vec"},
    {Upsample<3>,
     "upsample_nearest3d upsample_nearest3d.vec _upsample_nearest_exact3d _upsample_nearest_exact3d.vec "
     "upsample_trilinear3d upsample_trilinear3d.vec"},
    {GridSample, "grid_sampler grid_sampler_2d grid_sampler_3d _grid_sampler_2d_cpu_fallback"},
    {AffineGrid, "affine_grid_generator"},
};

}  // namespace

absl::Span<const ShapeRow> ConvShapes() {
  static const absl::Span<const ShapeRow> rows = ExpandFamilies(kConvFamilies);
  return rows;
}

}  // namespace slipway::ir
