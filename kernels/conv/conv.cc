// Kernels `conv` and `conv_transposed` over three spatial dims. Images of bf16 and f16 with channels last go through
// conv_half.h, dense f32 and narrower through conv_nhwc.h, conv_nchw.h and conv_transposed.h; what these do not take,
// f64 and integers become products of matrices over patches, of which a chunk at a time is laid out.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/conv/batch_norm.h"
#include "kernels/conv/conv_half.h"
#include "kernels/conv/conv_nchw.h"
#include "kernels/conv/conv_nhwc.h"
#include "kernels/conv/conv_transposed.h"
#include "kernels/conv/dense_f32.h"
#include "kernels/conv/depthwise_block.h"
#include "kernels/conv/depthwise_nchw.h"
#include "kernels/conv/filters.h"
#include "kernels/convert.h"
#include "kernels/gemm/product.h"
#include "kernels/gemm/reference_gemm.h"
#include "kernels/registry.h"
#include "kernels/scratch.h"
#include "kernels/strided_iterator.h"
#include "kernels/validate.h"

namespace slipway::kernels {
namespace {

constexpr int kSpatial = 3;

bool OfRankFive(const Call& c) {
  return c.in.size() > 1 && c.in[0].rank == 5 && c.in[1].rank == 5 && c.out[0].rank == 5;
}
bool InRange(const ConvAttributes<>& a) {
  constexpr int64_t kLimit = int64_t{1} << 40;
  bool fits = a.groups > 0;
  for (int d = 0; d < kSpatial; ++d)
    fits = fits && a.stride[d] > 0 && a.stride[d] < kLimit && a.dilation[d] > 0 && a.dilation[d] < kLimit &&
           a.padding[d] > -kLimit && a.padding[d] < kLimit;
  return fits;
}
// Whether the operands' sizes agree.
bool FitsConv(const Call& c, const ConvAttributes<>& a) {
  if (!OfRankFive(c) || !InRange(a)) return false;
  const Tensor &x = c.in[0], &w = c.in[1], &out = c.out[0];
  return x.sizes[1] % a.groups == 0 && x.sizes[1] / a.groups == w.sizes[1] && w.sizes[0] % a.groups == 0 &&
         out.sizes[0] == x.sizes[0] && out.sizes[1] == w.sizes[0];
}
bool FitsTransposed(const Call& c, const ConvAttributes<>& a) {
  if (!OfRankFive(c) || !InRange(a)) return false;
  const Tensor &x = c.in[0], &w = c.in[1], &out = c.out[0];
  return x.sizes[1] == w.sizes[0] && x.sizes[1] % a.groups == 0 && out.sizes[0] == x.sizes[0] &&
         out.sizes[1] % a.groups == 0 && out.sizes[1] / a.groups == w.sizes[1];
}

// All elements of a tensor, dense, in the compute type.
template <typename T>
void Dense(const Tensor& t, DType as, T* to) {
  if (t.rank == 0) return LoadRow<T>(t.data, t.dtype, 1, 1, as, to);
  const int last = t.rank - 1;
  const Tensor rows = Head(t, last);
  for (Positions<1> at(rows, {&t}); at && t.sizes[last] > 0; at.Next(), to += t.sizes[last])
    LoadRow<T>(at[0], t.dtype, t.strides[last], t.sizes[last], as, to);
}
template <typename T>
std::vector<T> Dense(const Tensor& t, DType as) {
  std::vector<T> out(static_cast<size_t>(t.numel()));
  Dense<T>(t, as, out.data());
  return out;
}
// The same in scratch memory.
float* DenseIn(Scratch& scratch, const Tensor& t, DType as) {
  float* const to = scratch.Take<float>(t.numel());
  if (!scratch.querying()) Dense<float>(t, as, to);
  return to;
}

template <typename T>
std::vector<T> Bias(const Call& c, int64_t channels) {
  if (c.in.size() < 3) return std::vector<T>(static_cast<size_t>(channels), T(0));
  return Dense<T>(c.in[2], c.compute);
}

// Stores a dense [channels, positions] block as out[n, first channel …].
template <typename T>
void Store(const std::vector<T>& from, const Tensor& out, int64_t n, int64_t first, int64_t channels) {
  const T* row = from.data();
  for (int64_t o = 0; o < channels; ++o)
    for (int64_t z = 0; z < out.sizes[2]; ++z)
      for (int64_t y = 0; y < out.sizes[3]; ++y, row += out.sizes[4])
        StoreRow<T>(row, out.sizes[4],
                    static_cast<char*>(out.data) +
                        (n * out.strides[0] + (first + o) * out.strides[1] + z * out.strides[2] + y * out.strides[3]) *
                            ByteSize(out.dtype),
                    out.dtype, out.strides[4]);
}

// Tensors that an epilogue adds, of the result's dtype.
struct AddedTensors {
  const Tensor *residual = nullptr, *post_residual = nullptr;
};

// What follows the sums of a convolution by its tail, with the operands that are there for it, from number *at on,
// which becomes that of the first operand behind them; those of f32 that are added are in the epilogue, too. Null, or
// what is wrong.
const char* ReadTail(const Call& c, const ConvTailAttributes& a, const Tensor& out, Scratch& scratch, size_t* at,
                     Epilogue* to, AddedTensors* added_tensors) {
  size_t& next = *at;
  const int64_t channels = out.sizes[1];
  if (a.parts < 0 || a.parts >= 2 * kAdded || (out.dtype != DType::kF32 && !IsHalf(out.dtype)) ||
      !(out.is_contiguous() || ChannelsLast(out)))
    return kSizesDiffer;
  float* bias = nullptr;
  if (a.parts & kBias) {
    if (next >= c.in.size() || !IsPerChannel(c.in[next], channels)) return kSizesDiffer;
    to->bias = bias = DenseIn(scratch, c.in[next++], DType::kF32);
  }
  if (a.parts & kNormStatistics) {
    ChannelNorm norm;
    if (!norm.Read(c, next, a.parts, a.epsilon, channels, scratch)) return kSizesDiffer;
    next += NormOperands(a.parts);
    for (int64_t i = 0; i < channels && bias != nullptr && !scratch.querying(); ++i)
      norm.bias[i] += bias[i] * norm.scale[i];
    to->scale = norm.scale, to->bias = norm.bias;
  }
  // A tensor that lies as the result does.
  const auto added = [&](const Tensor** tensor, const float** floats) {
    if (next >= c.in.size() || c.in[next].dtype != out.dtype || !SameSizes(c.in[next], out)) return false;
    for (int d = 0; d < out.rank; ++d)
      if (out.sizes[d] != 1 && c.in[next].strides[d] != out.strides[d]) return false;
    *tensor = &c.in[next++];
    if (out.dtype == DType::kF32) *floats = (*tensor)->as<float>();
    return true;
  };
  if ((a.parts & kAdded) && !added(&added_tensors->residual, &to->residual)) return kSizesDiffer;
  to->activation = a.activation;
  to->min = static_cast<float>(a.low), to->max = static_cast<float>(a.high);
  if (!a.post) return nullptr;
  if (a.post->parts < 0 || a.post->parts >= 2 * kAdded || (a.post->parts & kBias)) return kSizesDiffer;
  if (a.post->parts & kNormStatistics) {
    ChannelNorm norm;
    if (!norm.Read(c, next, a.post->parts, a.post->epsilon, channels, scratch)) return kSizesDiffer;
    next += NormOperands(a.post->parts);
    to->post_scale = norm.scale, to->post_bias = norm.bias;
  }
  return (a.post->parts & kAdded) && !added(&added_tensors->post_residual, &to->post_residual) ? kSizesDiffer : nullptr;
}

// What follows the function of the epilogue, of a result that holds what precedes it.
void ApplyPost(const Tensor& out, const Epilogue& e) {
  const Tensor places = DropDim(out, 1);
  for (int64_t o = 0; o < out.sizes[1]; ++o) {
    const float scale = e.post_scale != nullptr ? e.post_scale[o] : 1,
                bias = e.post_bias != nullptr ? e.post_bias[o] : 0;
    for (Positions<0> at(places); at; at.Next()) {
      const int64_t i = at.Offset(places) + o * out.strides[1];
      float& x = out.as<float>()[i];
      x = x * scale + bias + (e.post_residual != nullptr ? e.post_residual[i] : 0);
    }
  }
}

// What follows the sums that a dense result holds.
void ApplyEpilogueNchw(const Tensor& out, const Epilogue& epilogue) {
  const int64_t channels = out.sizes[1], plane = out.sizes[2] * out.sizes[3] * out.sizes[4];
  for (int64_t p = 0; p < out.sizes[0] * channels; ++p) {
    float* const to = out.as<float>() + p * plane;
    BestIsa().elementwise.epilogue(to, to, plane, epilogue.At(p % channels, p * plane));
  }
}

// `run` (Conv or ConvTransposed) with plain weights, a dense result and dense operands of its tail in place of those
// that are not: for sizes that the loops over channels last do not take, which nothing but an odd plan has.
const char* Plain(const Call& c, const FusedConvAttributes<>& a,
                  const char* (*run)(const Call& c, const FusedConvAttributes<>& a)) {
  const Tensor &w = c.in[1], &out = c.out[0];
  std::vector<Tensor> in(c.in.begin(), c.in.end());
  std::vector<float> weights, result(static_cast<size_t>(out.numel()));
  std::vector<uint16_t> halves;
  if (w.is_packed() && IsHalf(w.dtype)) {
    halves.resize(static_cast<size_t>(w.numel()));
    const bool pairs = w.dtype == DType::kBF16;
    UnpackFilters(w.as<uint16_t>(), {a.conv.groups, w.sizes[1], w.sizes[0], w.sizes[3], w.sizes[4], pairs},
                  halves.data());
    in[1].data = halves.data(), in[1].packed = Packing::kNone;
  } else if (w.is_packed()) {
    weights.resize(static_cast<size_t>(w.numel()));
    if (w.packed == Packing::kTransposedConvFilters)
      UnpackTransposedFilters(w.as<float>(), w.sizes[0], w.sizes[1], w.sizes[3] * w.sizes[4], weights.data());
    else
      UnpackFilters(w.as<float>(), {a.conv.groups, w.sizes[1], w.sizes[0], w.sizes[3], w.sizes[4]}, weights.data());
    in[1].data = weights.data(), in[1].packed = Packing::kNone;
  }
  Tensor to = DenseLike(out, DType::kF32);
  to.data = result.data();
  std::vector<std::vector<float>> added;
  for (Tensor& t : std::span(in).subspan(2)) {  // tensors that are added, not vectors of channels
    if (t.rank != out.rank) continue;
    added.push_back(Dense<float>(t, DType::kF32));
    t = DenseLike(t, DType::kF32);
    t.data = added.back().data();
  }
  Call call = c;
  call.in = in, call.out = std::span<const Tensor>(&to, 1);
  if (const char* wrong = run(call, a)) return wrong;
  const float* from = result.data();
  for (int64_t n = 0; n < out.sizes[0]; ++n, from += to.strides[0])
    Store(std::vector<float>(from, from + to.strides[0]), out, n, 0, out.sizes[1]);
  return nullptr;
}

// out[n,o,…] = bias[o] + sum of in[0][n,c,…] · in[1][o,c,…]: x [n,c,d,h,w], weights [o,c/groups,kd,kh,kw], bias [o]
// where there is one. With a tail, its operands are in the place of the bias, and the result is dense and of f32.
const char* Conv(const Call& c, const FusedConvAttributes<>& a) {
  const ConvAttributes<>& win = a.conv;
  if (!FitsConv(c, win)) return kSizesDiffer;
  const Tensor &x = c.in[0], &w = c.in[1], &out = c.out[0];
  const int64_t out_channels = w.sizes[0], per = w.sizes[1];
  Scratch& scratch = *c.scratch;
  Epilogue epilogue;
  AddedTensors added;
  if (w.is_packed() && w.packed != Packing::kConvFilters) return kSizesDiffer;
  if (size_t behind = 2; a.tail) {
    if (const char* wrong = ReadTail(c, *a.tail, out, scratch, &behind, &epilogue, &added)) return wrong;
  } else if (c.in.size() > 2) {
    if (!IsPerChannel(c.in[2], out_channels) && c.in[2].numel() != out_channels) return kSizesDiffer;
    if (ComputeType(c.compute) == DType::kF32) epilogue.bias = DenseIn(scratch, c.in[2], c.compute);
  }
  if (CanUseConvHalf(x, w, out, win)) {
    const auto elements = [](const Tensor* t) { return t != nullptr ? t->as<uint16_t>() : nullptr; };
    ConvHalf(x, w, out, win, {epilogue, elements(added.residual), elements(added.post_residual)}, c.workers, scratch);
    return nullptr;
  }
  if (a.tail && out.dtype != DType::kF32) return scratch.querying() ? nullptr : Plain(c, a, Conv);
  if (ComputeType(c.compute) == DType::kF32) {
    const bool takes_post = ChannelsLast(out) || !epilogue.has_post();
    if (takes_post && UsesConvNhwc(x, w, out) && ConvNhwc(x, w, out, ShapeOf(win), epilogue, c.workers, scratch))
      return nullptr;
    if (w.is_packed() || (a.tail && !out.is_contiguous())) return scratch.querying() ? nullptr : Plain(c, a, Conv);
    if (epilogue.has_post()) {
      // A dense result, which nothing but an odd plan has here.
      FusedConvAttributes<> without = a;
      without.tail->post.reset();
      if (const char* wrong = Conv(c, without)) return wrong;
      if (!scratch.querying()) ApplyPost(out, epilogue);
      return nullptr;
    }
    // Views of memory are laid out first.
    Tensor image = x;
    if (!x.is_contiguous()) {
      image = DenseLike(x, DType::kF32);
      image.data = DenseIn(scratch, x, c.compute);
    }
    if (CanUseDirectNchw(image, w, out, ShapeOf(win)) &&
        ConvNhwc(image, w, out, ShapeOf(win), epilogue, c.workers, scratch))
      return nullptr;
    if (DepthwiseNchw3x3(image, w, out, ShapeOf(win), epilogue, c.workers, scratch)) return nullptr;
    if (DepthwiseNchwByPanels(image, w, out, ShapeOf(win), epilogue, c.workers, scratch)) return nullptr;
    if (ConvNchw(image, w, out, ShapeOf(win), epilogue, c.workers, scratch)) return nullptr;
  }
  if (scratch.querying() || out.numel() == 0) return nullptr;  // weights without elements may claim any sizes
  const int64_t *in = x.sizes + 2, *kernel = w.sizes + 2, *to = out.sizes + 2;
  const int64_t plane = in[0] * in[1] * in[2], positions = to[0] * to[1] * to[2];
  const int64_t taps = kernel[0] * kernel[1] * kernel[2], depth = per * taps, group_out = out_channels / win.groups;
  WithComputeType(c.compute, [&]<typename T>() {
    const std::vector<T> weights = Dense<T>(w, c.compute),
                         bias = a.tail ? std::vector<T>(static_cast<size_t>(out_channels), T(0))
                                       : Bias<T>(c, out_channels);
    const int64_t chunk =
        std::max<int64_t>(64, std::min<int64_t>(positions, 65536 / std::max<int64_t>(1, depth)) / 64 * 64);
    std::vector<T> patches(static_cast<size_t>(depth * std::min(chunk, positions))),
        result(static_cast<size_t>(group_out * positions));
    const bool pointwise = taps == 1 && win.stride[0] == 1 && win.stride[1] == 1 && win.stride[2] == 1 &&
                           win.padding[0] == 0 && win.padding[1] == 0 && win.padding[2] == 0 && plane == positions;
    for (int64_t n = 0; n < out.sizes[0]; ++n) {
      Tensor one = x;
      one.data = static_cast<char*>(x.data) + n * x.strides[0] * ByteSize(x.dtype);
      one.sizes[0] = 1;
      const std::vector<T> image = Dense<T>(one, c.compute);
      for (int64_t g = 0; g < win.groups; ++g) {
        const T* source = image.data() + g * per * plane;
        for (int64_t o = 0; o < group_out; ++o)
          std::fill_n(result.begin() + o * positions, positions, bias[static_cast<size_t>(g * group_out + o)]);
        const T* left = weights.data() + g * group_out * depth;
        if (pointwise) {
          Gemm<T>(group_out, positions, depth, left, depth, source, plane, result.data(), positions);
          Store<T>(result, out, n, g * group_out, group_out);
          continue;
        }
        for (int64_t first = 0; first < positions; first += chunk) {
          const int64_t count = std::min(chunk, positions - first);
          T* row = patches.data();
          for (int64_t ch = 0; ch < per; ++ch) {
            for (int64_t t = 0; t < taps; ++t, row += count) {
              const int64_t kz = t / (kernel[1] * kernel[2]), ky = t / kernel[2] % kernel[1], kx = t % kernel[2];
              int64_t p = first;
              while (p < first + count) {
                // A run along the last dim.
                const int64_t oz = p / (to[1] * to[2]), oy = p / to[2] % to[1], ox = p % to[2];
                const int64_t run = std::min(to[2] - ox, first + count - p);
                const int64_t z = oz * win.stride[0] - win.padding[0] + kz * win.dilation[0];
                const int64_t y = oy * win.stride[1] - win.padding[1] + ky * win.dilation[1];
                T* at = row + (p - first);
                if (z < 0 || z >= in[0] || y < 0 || y >= in[1]) {
                  std::fill_n(at, run, T(0));
                } else {
                  const T* line = source + ch * plane + (z * in[1] + y) * in[2];
                  int64_t px = ox * win.stride[2] - win.padding[2] + kx * win.dilation[2];
                  for (int64_t i = 0; i < run; ++i, px += win.stride[2])
                    at[i] = px >= 0 && px < in[2] ? line[px] : T(0);
                }
                p += run;
              }
            }
          }
          Gemm<T>(group_out, count, depth, left, depth, patches.data(), count, result.data() + first, positions);
        }
        Store<T>(result, out, n, g * group_out, group_out);
      }
    }
  });
  if (a.tail) ApplyEpilogueNchw(out, epilogue);
  if (epilogue.has_post()) ApplyPost(out, epilogue);
  return nullptr;
}

// A call as it is run; operands of what follows the sums are read into `scratch` where that is not null. False where
// operands are missing.
bool ReadBlock(const Call& c, const DepthwiseBlockAttributes<>& a, Scratch* scratch, DepthwiseBlock* block) {
  const size_t weights = 1 + (a.before ? 1 : 0) + (a.after ? 1 : 0);
  if (!(a.before || a.after) || !InRange(a.depthwise) || c.in.size() <= weights) return false;
  block->shape = ShapeOf(a.depthwise);
  block->depthwise.w = c.in[1];
  if (a.before) block->before = {c.in[2], {}};
  if (a.after) block->after = {c.in[weights], {}};
  if (scratch == nullptr) return true;
  size_t next = 1 + weights;
  DepthwiseBlock::Layer* const layers[] = {a.before ? &*block->before : nullptr, &block->depthwise,
                                           a.after ? &*block->after : nullptr};
  for (int i = 0; i < 3; ++i) {
    if (layers[i] == nullptr) continue;
    const ConvSumsAttributes& sums = a.sums[i];
    ConvTailAttributes tail{sums.parts, sums.activation, sums.epsilon, sums.low, sums.high, {}};
    const bool last = layers[i] == &block->last();
    if (last) tail.post = a.post;
    if (!last && (tail.parts & kAdded)) return false;
    // Vectors of channels are all that the others have.
    Tensor result = c.out[0];
    if (!last)
      result = Tensor{.dtype = result.dtype, .rank = 2, .sizes = {1, layers[i]->w.sizes[0]}, .strides = {1, 1}};
    AddedTensors added;
    if (ReadTail(c, tail, result, *scratch, &next, &layers[i]->epilogue, &added) != nullptr) return false;
    if (!IsHalf(result.dtype)) continue;
    if (added.residual != nullptr) block->residual = added.residual->as<uint16_t>();
    if (added.post_residual != nullptr) block->post_residual = added.post_residual->as<uint16_t>();
  }
  return true;
}

// A pointwise convolution, a depthwise one and a pointwise one, the first or the last of which may be missing; with
// channels last.
const char* DepthwiseBlockOf(const Call& c, const DepthwiseBlockAttributes<>& a) {
  DepthwiseBlock block;
  if (ComputeType(c.compute) != DType::kF32 || !ReadBlock(c, a, c.scratch, &block) ||
      !CanUseDepthwiseBlock(c.in[0], block, c.out[0]))
    return kSizesDiffer;
  RunDepthwiseBlock(c.in[0], block, c.out[0], c.workers, *c.scratch);
  return nullptr;
}

// The transposed convolution: x [n,c,d,h,w], weights [c,o/groups,kd,kh,kw]; each element of x adds a patch. Operands
// behind the weights and the result as Conv has them.
const char* ConvTransposed(const Call& c, const FusedConvAttributes<>& a) {
  const ConvAttributes<>& win = a.conv;
  if (!FitsTransposed(c, win)) return kSizesDiffer;
  const Tensor &x = c.in[0], &w = c.in[1], &out = c.out[0];
  const int64_t in_channels = x.sizes[1], group_out = w.sizes[1], out_channels = group_out * win.groups;
  Epilogue epilogue;
  if (w.is_packed() && w.packed != Packing::kTransposedConvFilters) return kSizesDiffer;
  if (size_t behind = 2; a.tail) {
    AddedTensors added;
    if (out.dtype != DType::kF32) return kSizesDiffer;
    if (const char* wrong = ReadTail(c, *a.tail, out, *c.scratch, &behind, &epilogue, &added)) return wrong;
  } else if (c.in.size() > 2) {
    if (c.in[2].numel() != out_channels) return kSizesDiffer;
    if (ComputeType(c.compute) == DType::kF32) epilogue.bias = DenseIn(*c.scratch, c.in[2], c.compute);
  }
  if (ComputeType(c.compute) == DType::kF32) {
    if (ConvTransposedNhwc(x, w, out, ShapeOf(win), epilogue, c.workers, *c.scratch)) return nullptr;
    if (w.is_packed() || (a.tail && !out.is_contiguous()))
      return c.scratch->querying() ? nullptr : Plain(c, a, ConvTransposed);
    if (ConvTransposedNchw(x, w, out, ShapeOf(win), epilogue, c.workers, *c.scratch)) return nullptr;
  }
  if (c.scratch->querying() || out.numel() == 0) return nullptr;
  const int64_t *in = x.sizes + 2, *kernel = w.sizes + 2, *to = out.sizes + 2;
  const int64_t plane = in[0] * in[1] * in[2], positions = to[0] * to[1] * to[2];
  const int64_t taps = kernel[0] * kernel[1] * kernel[2], per = in_channels / win.groups, rows = group_out * taps;
  WithComputeType(c.compute, [&]<typename T>() {
    using A = Accumulator<T>;
    const std::vector<T> weights = Dense<T>(w, c.compute),
                         bias = a.tail ? std::vector<T>(static_cast<size_t>(out_channels), T(0))
                                       : Bias<T>(c, out_channels);
    std::vector<T> transposed(static_cast<size_t>(rows * per)), result(static_cast<size_t>(group_out * positions));
    const int64_t chunk = std::max<int64_t>(64, std::min<int64_t>(plane, 65536 / std::max<int64_t>(1, rows)) / 64 * 64);
    std::vector<T> patches;
    for (int64_t n = 0; n < out.sizes[0]; ++n) {
      Tensor one = x;
      one.data = static_cast<char*>(x.data) + n * x.strides[0] * ByteSize(x.dtype);
      one.sizes[0] = 1;
      const std::vector<T> image = Dense<T>(one, c.compute);
      for (int64_t g = 0; g < win.groups; ++g) {
        for (int64_t o = 0; o < group_out; ++o)
          std::fill_n(result.begin() + o * positions, positions, bias[static_cast<size_t>(g * group_out + o)]);
        for (int64_t ch = 0; ch < per; ++ch)
          for (int64_t r = 0; r < rows; ++r) transposed[r * per + ch] = weights[(g * per + ch) * rows + r];
        for (int64_t first = 0; first < plane; first += chunk) {
          const int64_t count = std::min(chunk, plane - first);
          patches.assign(static_cast<size_t>(rows * count), T(0));
          Gemm<T>(rows, count, per, transposed.data(), per, image.data() + g * per * plane + first, plane,
                  patches.data(), count);
          const T* row = patches.data();
          for (int64_t o = 0; o < group_out; ++o) {
            for (int64_t t = 0; t < taps; ++t, row += count) {
              const int64_t kz = t / (kernel[1] * kernel[2]), ky = t / kernel[2] % kernel[1], kx = t % kernel[2];
              for (int64_t i = 0; i < count; ++i) {
                const int64_t p = first + i;
                const int64_t z = p / (in[1] * in[2]) * win.stride[0] - win.padding[0] + kz * win.dilation[0];
                const int64_t y = p / in[2] % in[1] * win.stride[1] - win.padding[1] + ky * win.dilation[1];
                const int64_t q = p % in[2] * win.stride[2] - win.padding[2] + kx * win.dilation[2];
                if (z < 0 || z >= to[0] || y < 0 || y >= to[1] || q < 0 || q >= to[2]) continue;
                T& cell = result[o * positions + (z * to[1] + y) * to[2] + q];
                cell = static_cast<T>(static_cast<A>(cell) + static_cast<A>(row[i]));
              }
            }
          }
        }
        Store<T>(result, out, n, g * group_out, group_out);
      }
    }
  });
  if (a.tail) ApplyEpilogueNchw(out, epilogue);
  return nullptr;
}

// Weights times patches: rows are output channels of a group.
bool ConvProduct(const Call& c, const FusedConvAttributes<>& a, int64_t, Product* p) {
  if (!FitsConv(c, a.conv)) return false;
  const Tensor &w = c.in[1], &out = c.out[0];
  const int result = static_cast<int>(c.in.size());
  p->batch = SizeOf(out, result, 0, 1), p->batch.value *= a.conv.groups, p->batch.times = a.conv.groups;
  p->m = SizeOf(w, 1, 0, 1), p->m.value /= a.conv.groups, p->m.over = a.conv.groups;
  p->k = SizeOf(w, 1, 1, 5), p->n = SizeOf(out, result, 2, 5);
  p->matrix = 1;
  Tensor image = c.in[0], weights = w;
  weights.packed = Packing::kNone;
  p->operations = Operations(*p), p->bytes = BytesOf(weights);
  if (w.is_packed())
    p->bytes = static_cast<double>(ByteSize(w.dtype)) *
               static_cast<double>(
                   FilterShape{a.conv.groups, w.sizes[1], w.sizes[0], w.sizes[3], w.sizes[4], w.dtype == DType::kBF16}
                       .elements());
  if (CanUseConvHalf(image, w, out, a.conv)) {
    p->loop = ConvHalfLoop(image, w, out, a.conv);
    return true;
  }
  const char* way = nullptr;
  if (ComputeType(c.compute) == DType::kF32) {
    if (UsesConvNhwc(image, w, out)) way = ConvNhwcAlgorithm(image, w, out, ShapeOf(a.conv));
    if (!image.is_contiguous()) image = DenseLike(image, DType::kF32);
    if (way == nullptr && CanUseDirectNchw(image, weights, out, ShapeOf(a.conv)))
      way = ConvNhwcAlgorithm(image, weights, out, ShapeOf(a.conv));
    if (way == nullptr && CanUseDepthwiseNchw3x3(image, weights, out, ShapeOf(a.conv))) way = "depthwise, by rows";
    if (way == nullptr && CanUseDepthwiseNchwByPanels(image, weights, out, ShapeOf(a.conv)))
      way = "depthwise, by panels of channels";
    if (way == nullptr) way = ConvNchwAlgorithm(image, weights, out, ShapeOf(a.conv));
  }
  p->loop = way != nullptr ? Loop{BestIsa().name, way} : Loop{"any", "plain loops over patches"};
  return true;
}
// The sizes are those of the block as one convolution; the work is that of all.
bool DepthwiseBlockProduct(const Call& c, const DepthwiseBlockAttributes<>& a, int64_t, Product* p) {
  DepthwiseBlock block;
  if (!ReadBlock(c, a, nullptr, &block) || !CanUseDepthwiseBlock(c.in[0], block, c.out[0])) return false;
  const Tensor &x = c.in[0], &out = c.out[0];
  const int result = static_cast<int>(c.in.size());
  p->batch = SizeOf(out, result, 0, 1), p->m = SizeOf(out, result, 1, 2), p->k = SizeOf(x, 0, 1, 2),
  p->n = SizeOf(out, result, 2, 5);
  p->matrix = 1;
  for (const auto& [layer, image] : {std::pair{block.before ? &*block.before : nullptr, &x},
                                     {&block.depthwise, &out},
                                     {block.after ? &*block.after : nullptr, &out}}) {
    if (layer == nullptr) continue;
    const double weights = static_cast<double>(layer->w.numel());
    p->operations += 2 * weights * static_cast<double>(image->sizes[0] * image->sizes[3] * image->sizes[4]);
    p->bytes += ByteSize(layer->w.dtype) * weights;
  }
  p->loop = {BestIsa().name, "channels last, depthwise, interleaved with the pointwise ones beside it"};
  return true;
}
// What is added last, where the loops over channels last take each of its elements when they store the result's.
int ConvOverwrites(const Call& c) {
  FusedConvAttributes<> a{};
  if (!ReadAttributes(c.ints, c.floats, &a) || !a.tail || !FitsConv(c, a.conv)) return -1;
  if (!((a.tail->post ? a.tail->post->parts : a.tail->parts) & kAdded)) return -1;  // of the last operand
  const Tensor &x = c.in[0], &w = c.in[1], &out = c.out[0];
  if (ComputeType(c.compute) != DType::kF32 || !UsesConvNhwc(x, w, out) ||
      !ConvNhwcWritesOnce(x, w, out, ShapeOf(a.conv)))
    return -1;
  return static_cast<int>(c.in.size()) - 1;
}
bool TransposedProduct(const Call& c, const FusedConvAttributes<>& fused, int64_t, Product* p) {
  const ConvAttributes<>& a = fused.conv;
  if (!FitsTransposed(c, a)) return false;
  const Tensor &x = c.in[0], &w = c.in[1], &out = c.out[0];
  p->batch = SizeOf(x, 0, 0, 1), p->batch.value *= a.groups, p->batch.times = a.groups;
  p->m = SizeOf(w, 1, 1, 5), p->n = SizeOf(x, 0, 2, 5);
  p->k = SizeOf(w, 1, 0, 1), p->k.value /= a.groups, p->k.over = a.groups;
  p->matrix = 1;
  Tensor weights = w;
  weights.packed = Packing::kNone;
  p->operations = Operations(*p), p->bytes = BytesOf(weights);
  if (w.is_packed())
    p->bytes = 4.0 * static_cast<double>(w.sizes[0] * PanelsPerElement(w.sizes[1]) * kPanel * w.sizes[3] * w.sizes[4]);
  const bool floats = ComputeType(c.compute) == DType::kF32;
  const bool last = floats && CanUseConvTransposedNhwc(x, w, out, ShapeOf(a)),
             fast = floats && CanUseConvTransposedNchw(x, w, out, ShapeOf(a));
  p->loop = last   ? Loop{BestIsa().name, "channels last, by phases of the stride"}
            : fast ? Loop{BestIsa().name, "a product, added up by phases"}
                   : Loop{"any", "plain loops over patches"};
  return true;
}

constexpr int8_t kBlockGroups = 2;  // which number of depthwise_block is that of the depthwise convolution's groups

constexpr Kernel kKernels[] = {
    With<FusedConvAttributes<>, Conv>({.name = "conv",
                                       .inputs = 2,
                                       .packed = {Packable::kNever, Packable::kFilters},
                                       .queries_workspace = true,
                                       .product = ProductOfCall<FusedConvAttributes<>, ConvProduct>,
                                       .pitched = true,
                                       .overwrites = ConvOverwrites}),
    With<DepthwiseBlockAttributes<>, DepthwiseBlockOf>(
        {.name = "depthwise_block",
         .inputs = 3,
         .packed = {Packable::kNever, Packable::kFilters, Packable::kFilters, Packable::kFilters},
         .groups_at = {0, kBlockGroups, -1, -1},
         .queries_workspace = true,
         .product = ProductOfCall<DepthwiseBlockAttributes<>, DepthwiseBlockProduct>}),
    With<FusedConvAttributes<>, ConvTransposed>({.name = "conv_transposed",
                                                 .inputs = 2,
                                                 .packed = {Packable::kNever, Packable::kTaps},
                                                 .queries_workspace = true,
                                                 .product = ProductOfCall<FusedConvAttributes<>, TransposedProduct>,
                                                 .pitched = true}),
};

}  // namespace

std::span<const Kernel> ConvKernels() { return kKernels; }

}  // namespace slipway::kernels
