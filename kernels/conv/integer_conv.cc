// Kernel `integer_conv`: a convolution of bytes, and a linear layer of them as one of single pixels, whose sums are
// exact and whose result is requantized before it is stored. With x_zero = input_zero,
//
//   y = activation(Σ (x - x_zero) · w · scale[o] + bias[o] + (added - added_zero) · added_scale)
//   result = y in f32, or clamp(round(y · multiplier) + zero_point, low, high) of u8
//
// Operands: x [n, c, 1, h, w] of u8, best with channels last; w, a k × columns matrix of bytes that are signed but of
// dtype u8 (the packing of u8 leaves them as they are); x_zero · Σ w negated, [o] of i32; scale [o] of f32; then a bias
// [o] of f32 and a tensor to add, of the result's sizes, of u8 or f32. Columns are output channels, or for grouped
// convolutions each group's channels filled up to whole panels. k has, for all kernel rows, columns and channels of a
// group, which are filled up to a multiple of 4: [kernel row][kernel column][channel]; of depthwise convolutions for
// all kernel columns and rows, which are: [kernel column][kernel row].
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/attributes.h"
#include "kernels/conv/word_conv.h"
#include "kernels/gemm/dequant_linear.h"
#include "kernels/gemm/packing.h"
#include "kernels/gemm/product.h"
#include "kernels/isa/int8_conv.h"
#include "kernels/registry.h"
#include "kernels/scratch.h"
#include "kernels/strided_iterator.h"
#include "kernels/validate.h"

namespace slipway::kernels {
namespace {

// Bytes of depthwise weights lie in words of four kernel rows.
int64_t DepthOf(const WordGeometry& g) {
  return g.depthwise() ? g.width * ((g.height + 3) / 4 * 4) : g.segment_depth();
}

bool ReadGeometry(const Tensor& x, const Tensor& w, const Tensor& out, const IntegerConvAttributes& a,
                  WordGeometry* g) {
  if (x.rank != 5 || w.rank != 2 || out.rank != 5 || x.sizes[2] != 1 || out.sizes[2] != 1) return false;
  *g = {x.sizes[0],    x.sizes[1],  x.sizes[3],  x.sizes[4],  out.sizes[1], out.sizes[3], out.sizes[4],  a.groups,
        a.kernel[0],   a.kernel[1], a.stride[0], a.stride[1], a.padding[0], a.padding[1], a.dilation[0], a.dilation[1],
        /*per_word=*/4};
  return g->IsValid() && g->padding_is_even() && out.sizes[0] == g->batch &&
         g->taps() * (g->group_channels() + 4) <= 4 * kMaxIntegerTerms && w.sizes[0] == DepthOf(*g) &&
         w.sizes[1] == g->columns();
}

// Loops over bytes (word_conv.h), and what follows their sums.
class ByteLoops {
 public:
  using Weight = int8_t;
  using Widened = int16_t;
  using IgemmParams = Int8IgemmParams;
  using DwconvParams = Int8DwconvParams;
  static constexpr int64_t kBytes = 1;

  ByteLoops(const WordGeometry& g, const IntegerConvAttributes& a, DType result)
      : padding(static_cast<uint8_t>(a.input_zero)), result_bytes(ByteSize(result)), g_(g), a_(a) {}

  const uint8_t padding;
  const int64_t result_bytes;

  // What is widened is patches as well.
  static int64_t PatchColumns() { return WidenedElements(1, 4) == 0 ? 12 : 0; }
  // Of bytes, tiles at borders copy what they read in less time.
  static int64_t CopiedColumns() { return 0; }
  static int64_t DepthwiseBlock() { return BestInt8Conv().depthwise_block; }
  static int64_t DepthwisePixels() { return BestInt8Conv().depthwise_pixels; }
  static int64_t WidenedElements(int64_t pixels, int64_t depth) {
    return BestInt8Conv().widened_elements(pixels, depth);
  }
  void Igemm(Int8IgemmParams& p, int16_t* widened, int64_t column, int64_t element) const {
    p.widened = widened, p.after = after_.At(column, element);
    BestInt8Conv().igemm(p);
  }
  void Dwconv(Int8DwconvParams& p, int64_t element) const {
    p.after = after_.At(0, element);
    BestInt8Conv().dwconv(p);
  }
  static const int8_t* ArrangeDepthwise(const WordGeometry& g, const int8_t* weights, Scratch& scratch) {
    const Int8ConvMicrokernels& isa = BestInt8Conv();
    const int64_t quads = DepthOf(g) / 4;
    auto* const to =
        scratch.Take<int8_t>((g.channels + isa.depthwise_block) * quads * 4 * isa.depthwise_weight_bytes + kSlack);
    if (!scratch.querying()) isa.arrange_depthwise(weights, g.channels, g.height, g.width, to);
    return to;
  }

  // offset, scale and bias by column, in whole panels, with everything constant joined to them.
  void SetRequantization(const Tensor& offset, const Tensor& scale, const Tensor* bias, const Tensor* added,
                         DType result, Scratch& scratch) {
    const int64_t block = BestInt8Conv().depthwise_block;
    const int64_t columns = g_.columns(), room = (columns + block + kPanel) / block * block + block;
    auto* const offsets = scratch.Take<int32_t>(room);
    auto *const scales = scratch.Take<float>(room), *const biases = scratch.Take<float>(room);
    if (scratch.querying()) return;
    Requantization& q = after_;
    q.offset = offsets, q.scale = scales, q.bias = biases;
    q.result = result;
    const auto multiplier = static_cast<float>(a_.multiplier);
    // Without an activation in between, everything is multiplied at once.
    const bool bytes = result == DType::kU8;
    const bool bounds = a_.activation == Activation::kClamp && bytes;
    const bool joined = bytes && (bounds || a_.activation == Activation::kNone);
    const float by = joined ? multiplier : 1;
    const auto added_scale = added != nullptr ? static_cast<float>(a_.added_scale) : 0;
    const float less = static_cast<float>(a_.added_zero) * added_scale;
    std::fill_n(offsets, room, 0), std::fill_n(scales, room, 0.0f), std::fill_n(biases, room, 0.0f);
    double most = 0;
    const int64_t per = g_.groups == 1 || g_.depthwise() ? g_.outs : g_.group_outs();
    for (int64_t o = 0; o < g_.outs; ++o) {
      const int64_t column = o / per * g_.group_columns() + o % per;
      offsets[column] = offset.as<int32_t>()[o * offset.strides[0]];
      scales[column] = scale.as<float>()[o * scale.strides[0]] * by;
      const float b = bias != nullptr ? bias->as<float>()[o * bias->strides[0]] : 0;
      biases[column] = (b - less) * by;
      most = std::max(most, std::abs(double{scales[column]}) * 255 * 128 * static_cast<double>(DepthOf(g_)) * 2 +
                                std::abs(double{biases[column]}));
    }
    q.activation = bounds ? Activation::kNone : a_.activation;
    q.min = static_cast<float>(a_.min), q.max = static_cast<float>(a_.max);
    q.multiplier = multiplier;
    q.zero_point = static_cast<int32_t>(a_.zero_point);
    q.low = static_cast<int32_t>(a_.low), q.high = static_cast<int32_t>(a_.high);
    if (bounds) {
      // Rounding does not change an order: bounds of y are bounds of the integers.
      const auto quantized = [&](float v) {
        const float y = std::nearbyint(v * multiplier) + static_cast<float>(q.zero_point);
        return static_cast<int32_t>(std::min(std::max(y, static_cast<float>(q.low)), static_cast<float>(q.high)));
      };
      const int32_t low = quantized(q.min), high = quantized(q.max);
      q.low = low, q.high = high;
    }
    if (added != nullptr) {
      q.added = added->data, q.added_dtype = added->dtype;
      q.added_scale = added_scale * by;
      most += added->dtype == DType::kF32 ? 1e30 : 255 * std::abs(double{q.added_scale});
    }
    q.saturates = !(most * (joined ? 1 : std::abs(a_.multiplier)) < 1e9);
    if (!g_.depthwise()) return;
    auto arranged = [&](const auto* from) {
      auto* const to = scratch.Take<uint32_t>(room);
      BestInt8Conv().arrange_columns(reinterpret_cast<const uint32_t*>(from), g_.outs, to);
      return to;
    };
    q.offset = reinterpret_cast<const int32_t*>(arranged(offsets));
    q.scale = reinterpret_cast<const float*>(arranged(scales));
    q.bias = reinterpret_cast<const float*>(arranged(biases));
  }

 private:
  static constexpr int64_t kSlack = 64;  // bytes behind the weights that may be read
  const WordGeometry& g_;
  const IntegerConvAttributes& a_;
  Requantization after_;
};

const char* NameOf(const WordGeometry& g) {
  return g.depthwise()   ? "depthwise, four kernel rows a step"
         : g.pointwise() ? "GEMM over pixels"
         : g.groups > 1  ? "indirect GEMM of each group"
                         : "indirect GEMM";
}

void RunLoops(const WordGeometry& g, const IntegerConvAttributes& a, const Tensor& x, const Tensor& w,
              const Tensor& offset, const Tensor& scale, const Tensor* bias, const Tensor* added, const Call& c) {
  using Conv = WordConv<ByteLoops>;
  Scratch& scratch = *c.scratch;
  const Tensor& out = c.out[0];
  QuantizedMatrix matrix;
  matrix.k = DepthOf(g), matrix.n = g.columns();
  TakeIntegers(w, matrix, c, scratch);
  ByteLoops loops(g, a, out.dtype);
  const Tensor to = Conv::ResultOf(out, scratch);
  Tensor other;
  if (added != nullptr) {
    other = *added;
    bool same = true;
    for (int d : {0, 1, 3, 4}) same = same && (to.sizes[d] == 1 || other.strides[d] == to.strides[d]);
    if (!same) {
      int64_t reach = 1;
      for (int d = 0; d < 5; ++d) other.strides[d] = to.strides[d], reach += (to.sizes[d] - 1) * to.strides[d];
      other.data = scratch.Take<char>(reach * ByteSize(added->dtype));
      if (!scratch.querying()) Conv::CopyElements(*added, other);
    }
  }
  loops.SetRequantization(offset, scale, bias, added != nullptr ? &other : nullptr, out.dtype, scratch);
  Conv(g, loops, c.workers).Run(x, static_cast<const int8_t*>(matrix.q), to, out, scratch);
}

// Checks the operands, which come from a file.
const char* RunIntegerConv(const Call& c, const IntegerConvAttributes& a) {
  constexpr const char* kMalformed = "the operands do not agree";
  const bool biased = (a.parts & kIntegerConvBias) != 0, adds = (a.parts & kIntegerConvAdded) != 0;
  if (a.parts < 0 || a.parts > 3 || c.in.size() != size_t{4} + biased + adds) return kMalformed;
  const Tensor &x = c.in[0], &w = c.in[1], &offset = c.in[2], &scale = c.in[3], &out = c.out[0];
  const Tensor* const bias = biased ? &c.in[4] : nullptr;
  const Tensor* const added = adds ? &c.in[4 + biased] : nullptr;
  const bool bytes = a.multiplier != 0;
  WordGeometry g;
  if (out.numel() == 0) return nullptr;
  if (!ReadGeometry(x, w, out, a, &g)) return kSizesDiffer;
  auto per_channel = [&](const Tensor& t, DType dtype) {
    return t.rank == 1 && t.sizes[0] == g.outs && t.dtype == dtype && !t.is_packed();
  };
  if (x.dtype != DType::kU8 || x.is_packed() || w.dtype != DType::kU8 ||
      (w.is_packed() && w.packed != Packing::kNr16K4) || !per_channel(offset, DType::kI32) ||
      !per_channel(scale, DType::kF32) || (bias != nullptr && !per_channel(*bias, DType::kF32)) ||
      out.dtype != (bytes ? DType::kU8 : DType::kF32))
    return kMalformed;
  if (added != nullptr &&
      (!SameSizes(*added, out) || added->is_packed() || (added->dtype != DType::kU8 && added->dtype != DType::kF32)))
    return kMalformed;
  auto byte = [](int64_t v) { return v >= 0 && v <= 255; };
  if (!byte(a.input_zero) || !byte(a.added_zero) || !byte(a.zero_point) || !byte(a.low) || !byte(a.high) ||
      a.low > a.high || !std::isfinite(a.multiplier) || !std::isfinite(a.added_scale))
    return kMalformed;
  RunLoops(g, a, x, w, offset, scale, bias, added, c);
  return nullptr;
}

bool ConvProduct(const Call& c, const IntegerConvAttributes& a, int64_t, Product* p) {
  WordGeometry g;
  if (c.in.size() < 4 || !ReadGeometry(c.in[0], c.in[1], c.out[0], a, &g)) return false;
  const Tensor& out = c.out[0];
  const int result = static_cast<int>(c.in.size());
  p->batch = SizeOf(out, result, 0, 1), p->batch.value *= g.groups, p->batch.times = g.groups;
  p->m = SizeOf(out, result, 1, 2), p->m.value /= g.groups, p->m.over = g.groups;
  p->k.value = g.height * g.width * g.group_channels(), p->n = SizeOf(out, result, 2, 5);
  p->matrix = 1, p->bytes = BytesOf(c.in[1]);
  p->operations = Operations(*p);
  p->loop = {BestInt8Conv().name, NameOf(g)};
  return true;
}

constexpr Kernel kKernels[] = {
    With<IntegerConvAttributes, RunIntegerConv>({.name = "integer_conv",
                                                 .inputs = 4,
                                                 .packed = {Packable::kNever, Packable::kBytes},
                                                 .queries_workspace = true,
                                                 .product = ProductOfCall<IntegerConvAttributes, ConvProduct>,
                                                 .pitched = true}),
};

}  // namespace

std::span<const Kernel> IntegerConvKernels() { return kKernels; }

}  // namespace slipway::kernels
