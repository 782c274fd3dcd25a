// Kernel `batch_norm`: dense f32 and narrower, channels second or last; of halves with channels last as a depthwise
// convolution of single pixels.
#include "kernels/conv/batch_norm.h"

#include <algorithm>
#include <utility>

#include "kernels/conv/conv_half.h"
#include "kernels/conv/conv_nhwc.h"
#include "kernels/conv/dense_f32.h"
#include "kernels/convert.h"
#include "kernels/registry.h"
#include "kernels/strided_iterator.h"
#include "kernels/validate.h"

namespace slipway::kernels {

bool ChannelNorm::Read(const Call& c, size_t first, int64_t parts, double epsilon, int64_t channels, Scratch& scratch) {
  scale = scratch.Take<float>(channels), bias = scratch.Take<float>(channels);
  float *const mean = scratch.Take<float>(channels), *const variance = scratch.Take<float>(channels);
  if (scratch.querying()) return true;
  std::fill_n(scale, channels, 1.0f);
  std::fill_n(bias, channels, 0.0f);
  for (auto [part, to] :
       {std::pair{kNormWeight, scale}, {kNormBias, bias}, {kNormStatistics, mean}, {kNormStatistics, variance}}) {
    if ((parts & part) == 0) continue;
    if (first >= c.in.size() || !IsPerChannel(c.in[first], channels)) return false;
    const Tensor& t = c.in[first++];
    LoadRow<float>(t.data, t.dtype, t.strides[0], channels, DType::kF32, to);
  }
  if ((parts & kNormStatistics) == 0) return channels == 0;
  BestIsa().elementwise.batch_norm_scale_bias(mean, variance, epsilon, channels, scale, bias);
  return true;
}

namespace {

// The same over images with channels last, and over rows of channels.
const char* NormNhwc(const Call& c, const BatchNormAttributes& a) {
  const Tensor &x = c.in[0], &out = c.out[0];
  const int64_t channels = x.sizes[1];
  ChannelNorm norm;
  if (!norm.Read(c, 1, a.parts | kNormStatistics, a.epsilon, channels, *c.scratch)) return kSizesDiffer;
  if (c.scratch->querying()) return nullptr;
  const Tensor from = DropDim(x, 1), to = DropDim(out, 1);
  const auto& pair = BestIsa().elementwise.binary;
  ParallelFor(c.workers, from.numel(), std::max<int64_t>(1, 16384 / channels), [&](int64_t begin, int64_t end) {
    Positions<2> at(to, {&from, &to}, begin);
    for (int64_t i = begin; i < end; ++i, at.Next()) {
      float* const row = reinterpret_cast<float*>(at[1]);
      pair[static_cast<int>(PairOp::kMul)](reinterpret_cast<const float*>(at[0]), norm.scale, row, channels, 0);
      pair[static_cast<int>(PairOp::kAdd)](row, norm.bias, row, channels, 0);
    }
  });
  return nullptr;
}

// [n, c, …] as [n, c, 1, h, w].
Tensor AsImage(const Tensor& t) {
  Tensor image = t;
  image.rank = 5, image.sizes[2] = 1, image.strides[2] = 0;
  image.sizes[3] = t.rank == 4 ? t.sizes[2] : 1;
  image.strides[3] = t.rank == 4 ? t.strides[2] : t.sizes[2] * t.strides[2];
  image.sizes[4] = t.sizes[t.rank - 1], image.strides[4] = t.strides[t.rank - 1];
  return image;
}
// The same over images of bf16 or f16: weights of one, and the norm as what follows the sums.
const char* NormHalfNhwc(const Call& c, const BatchNormAttributes& a) {
  const Tensor x = AsImage(c.in[0]), out = AsImage(c.out[0]);
  const int64_t channels = x.sizes[1];
  Scratch& scratch = *c.scratch;
  ChannelNorm norm;
  if (!norm.Read(c, 1, a.parts | kNormStatistics, a.epsilon, channels, scratch)) return kSizesDiffer;
  auto* const ones = scratch.Take<uint16_t>(channels);
  const uint16_t one = c.in[0].dtype == DType::kBF16 ? 0x3f80 : 0x3c00;
  if (!scratch.querying()) std::fill_n(ones, channels, one);
  Tensor w{.data = ones, .dtype = x.dtype, .rank = 5, .sizes = {channels, 1, 1, 1, 1}, .strides = {1, 1, 1, 1, 1}};
  const ConvAttributes<> single{channels, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}};
  if (!CanUseConvHalf(x, w, out, single)) return kSizesDiffer;
  ConvHalf(x, w, out, single, {.sums = {.scale = norm.scale, .bias = norm.bias}}, c.workers, scratch);
  return nullptr;
}

// out = (x - mean) / sqrt(variance + epsilon) · weight + bias by channel, in[0] being x [n,c,…], dense.
const char* BatchNorm(const Call& c, const BatchNormAttributes& a) {
  const Tensor &x = c.in[0], &out = c.out[0];
  Scratch& scratch = *c.scratch;
  ChannelNorm norm;
  if (x.dtype == DType::kF32 && out.dtype == DType::kF32 && (x.rank == 2 || !x.is_contiguous()) && SameSizes(x, out) &&
      out.numel() != 0 && x.strides[1] == 1 && out.strides[1] == 1)
    return NormNhwc(c, a);
  if (IsHalf(x.dtype) && out.dtype == x.dtype && (x.rank == 3 || x.rank == 4) && !x.is_contiguous() &&
      SameSizes(x, out) && out.numel() != 0 && x.strides[1] == 1 && out.strides[1] == 1)
    return NormHalfNhwc(c, a);
  if (!SameSizes(x, out) || x.rank < 2 || !DenseF32::Takes(x) || !DenseF32::Takes(out) ||
      !norm.Read(c, 1, a.parts | kNormStatistics, a.epsilon, x.sizes[1], scratch))
    return kSizesDiffer;
  if (out.numel() == 0) return nullptr;
  const int64_t channels = x.sizes[1], planes = x.sizes[0] * channels, plane = x.numel() / planes;
  const DenseF32 from(x, scratch);
  DenseF32Result to(out, scratch);
  if (scratch.querying()) return nullptr;
  ParallelFor(c.workers, planes, std::max<int64_t>(1, 16384 / plane), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const Epilogue e{.scale = norm.scale + p % channels, .bias = norm.bias + p % channels};
      BestIsa().elementwise.epilogue(from.data() + p * plane, to.data() + p * plane, plane, e);
    }
  });
  to.Store();
  return nullptr;
}

constexpr Kernel kKernels[] = {
    With<BatchNormAttributes, BatchNorm>(
        {.name = "batch_norm", .inputs = 3, .queries_workspace = true, .pitched = true}),
};

}  // namespace

std::span<const Kernel> BatchNormKernels() { return kKernels; }

}  // namespace slipway::kernels
