// Kernel `batch_norm`: dense f32 and narrower, channels second or last.
#include "kernels/conv/batch_norm.h"

#include <algorithm>
#include <utility>

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

// The same over images with channels last, and over rows of channels; those of halves some pixels at a time in f32.
const char* NormNhwc(const Call& c, const BatchNormAttributes& a) {
  constexpr int64_t kBlock = 4096;  // floats, in the first-level cache
  const Tensor &x = c.in[0], &out = c.out[0];
  const int64_t channels = x.sizes[1], size = ByteSize(x.dtype);
  ChannelNorm norm;
  if (!norm.Read(c, 1, a.parts | kNormStatistics, a.epsilon, channels, *c.scratch)) return kSizesDiffer;
  const bool half = IsHalf(x.dtype);
  const Tensor from = DropDim(x, 1), to = DropDim(out, 1);
  const ElementwiseMicrokernels& isa = BestIsa().elementwise;
  const int64_t grain = std::max<int64_t>(1, 16384 / channels);
  ParallelFor(*c.scratch, c.workers, from.numel(), grain, [&](int64_t begin, int64_t end, Scratch& own) {
    float* const block = half ? own.Take<float>(std::max(kBlock, channels)) : nullptr;
    if (own.querying()) return;
    Positions<2> at(to, {&from, &to}, begin);
    for (int64_t i = begin; i < end;) {
      // Pixels that follow each other in both.
      const char* const first = at[0];
      char* const result = at[1];
      int64_t count = 0;
      do {
        ++count, at.Next();
      } while (half && i + count < end && (count + 1) * channels <= kBlock &&
               at[0] == first + count * channels * size && at[1] == result + count * channels * size);
      float* row = half ? block : reinterpret_cast<float*>(result);
      const float* source = half ? block : reinterpret_cast<const float*>(first);
      if (half) isa.convert_to_f32(first, x.dtype, block, count * channels);
      for (int64_t p = 0; p < count; ++p, row += channels, source += channels) {
        isa.binary[static_cast<int>(PairOp::kMul)](source, norm.scale, row, channels, 0);
        isa.binary[static_cast<int>(PairOp::kAdd)](row, norm.bias, row, channels, 0);
      }
      if (half) isa.convert_from_f32(block, result, out.dtype, count * channels);
      i += count;
    }
  });
  return nullptr;
}

// out = (x - mean) / sqrt(variance + epsilon) · weight + bias by channel, in[0] being x [n,c,…], dense.
const char* BatchNorm(const Call& c, const BatchNormAttributes& a) {
  const Tensor &x = c.in[0], &out = c.out[0];
  Scratch& scratch = *c.scratch;
  ChannelNorm norm;
  if ((x.dtype == DType::kF32 || IsHalf(x.dtype)) && out.dtype == x.dtype && (x.rank == 2 || !x.is_contiguous()) &&
      SameSizes(x, out) && out.numel() != 0 && x.strides[1] == 1 && out.strides[1] == 1)
    return NormNhwc(c, a);
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
