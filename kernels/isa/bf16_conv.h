// Convolution micro-kernels over images of bf16 with channels last: indirect GEMM and depthwise, with sums and what
// follows them in f32, rounded once to bf16. Instruction sets that have sums of two products have them; bf16_conv.inc.h
// is their source. Elsewhere such images are widened for the loops of f32 (conv/conv_half.h).
#ifndef SLIPWAY_KERNELS_ISA_BF16_CONV_H_
#define SLIPWAY_KERNELS_ISA_BF16_CONV_H_

#include <cstdint>

#include "kernels/isa/epilogue.h"

namespace slipway::kernels {

// What follows the sums: an epilogue whose tensors are of bf16 (conv/conv_half.h: or of f16), which are here and not in
// `sums`.
struct HalfEpilogue {
  Epilogue sums;
  const uint16_t *residual = nullptr, *post_residual = nullptr;

  // For columns from `column` on, which are channels from `channel` on and begin `element` elements into the result.
  HalfEpilogue At(int64_t channel, int64_t element) const {
    HalfEpilogue e{sums.At(channel, element), residual, post_residual};
    if (residual != nullptr) e.residual += element;
    if (post_residual != nullptr) e.post_residual += element;
    return e;
  }
};

// Indirect GEMM: result[y, i, j] for y < rows, i < m (pixels of a row), j < n (columns) of the sums over segments s and
// p < k of
//
//   x[y · x_row_stride + i · x_stride + segments[s] + 2 · p] · w[j / kPanel · w_panel_stride + s · w_segment_stride + p
//   / 2 · 2 · kPanel + j % kPanel · 2 + p % 2]
//
// k is even. Strides of x are in bytes, those of w and out in elements.
struct Bf16IgemmParams {
  int64_t rows = 1, m = 0, n = 0, k = 0;
  const uint8_t* x = nullptr;
  int64_t x_row_stride = 0, x_stride = 0;
  const int64_t* segments = nullptr;
  int64_t segment_count = 0;
  const uint16_t* w = nullptr;
  int64_t w_panel_stride = 0, w_segment_stride = 0;
  void* out = nullptr;
  int64_t out_row_stride = 0, out_stride = 0;
  HalfEpilogue after;
};

// A row of depthwise outputs, as Int8DwconvParams; outside of the image are zeros. Weights as `arrange_depthwise` has
// arranged them; scale, bias, post_scale and post_bias are in the order of channels.
struct Bf16DwconvParams {
  const uint8_t* const* rows = nullptr;  // column 0
  int64_t x_pixel_stride = 0, columns = 0;
  int64_t height = 0, width = 0, stride = 1, pad = 0, dilation = 1;
  uint8_t padding = 0;
  const uint16_t* w = nullptr;
  int64_t channels = 0, n = 0;
  void* out = nullptr;
  int64_t out_pixel_stride = 0;  // elements
  HalfEpilogue after;
};

struct Bf16ConvMicrokernels {
  const char* name;
  void (*igemm)(const Bf16IgemmParams& p);
  // Arranges the weights of a depthwise convolution, [panel][kernel row][kernel column][kPanel], in blocks of
  // `depthwise_block` channels; `arranged` is how many elements that takes.
  int64_t depthwise_block, depthwise_pixels;  // of a tile
  int64_t (*arranged)(int64_t channels, int64_t height, int64_t width);
  void (*arrange_depthwise)(const uint16_t* panels, int64_t channels, int64_t height, int64_t width, uint16_t* to);
  void (*dwconv)(const Bf16DwconvParams& p);
};

// The best of this processor, capped as BestIsa(); null where it has none.
const Bf16ConvMicrokernels* BestBf16Conv();

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ISA_BF16_CONV_H_
