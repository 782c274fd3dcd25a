// Convolution micro-kernels of an instruction set over images of bytes with channels last: indirect GEMM and depthwise,
// with sums in i32 and what follows them (requantization) before anything is stored. int8_conv.inc.h, int8_pairs.inc.h
// and int8_dwconv.inc.h are their source. As with int8_gemm.h, some sets differ from one of isa.h in these only.
#ifndef SLIPWAY_KERNELS_ISA_INT8_CONV_H_
#define SLIPWAY_KERNELS_ISA_INT8_CONV_H_

#include <cstdint>

#include "kernels/isa/epilogue.h"
#include "kernels/tensor.h"

namespace slipway::kernels {

// What follows the sum of a column j:
//
//   y = activation(float(sum + offset[j]) · scale[j] + bias[j] + added · added_scale)
//   a result of f32 is y; one of u8 is clamp(round(y · multiplier) + zero_point, low, high), rounded to even
//
// `added` has the layout of the result and is of u8 or f32; its zero point is in `bias`. offset, scale and bias are
// readable in whole panels of kPanel columns.
struct Requantization {
  const int32_t* offset = nullptr;
  const float *scale = nullptr, *bias = nullptr;
  const void* added = nullptr;
  DType added_dtype = DType::kU8;
  float added_scale = 1;
  Activation activation = Activation::kNone;  // kClamp is in low and high where the result is of u8
  float min = 0, max = 0;
  DType result = DType::kU8;
  float multiplier = 1;
  int32_t zero_point = 0, low = 0, high = 255;
  // y · multiplier may leave the range of i32, and is clamped before it becomes an integer.
  bool saturates = false;

  // For columns from `column` on, which begin `offset` elements into the result.
  Requantization At(int64_t column, int64_t element) const {
    Requantization r = *this;
    r.offset += column, r.scale += column, r.bias += column;
    if (r.added != nullptr) r.added = static_cast<const char*>(r.added) + element * ByteSize(added_dtype);
    return r;
  }
};

// Indirect GEMM: result[y, i, j] for y < rows, i < m (pixels of a row), j < n (columns) of the sums over segments s and
// p < k of
//
//   x[y · x_row_stride + i · x_stride + segments[s] + p] ·
//   w[j / kPanel · w_panel_stride + s · w_segment_stride + p / 4 · 4 · kPanel + j % kPanel · 4 + p % 4]
//
// k is a multiple of 4. Strides of x and w are in bytes, those of the result in elements.
struct Int8IgemmParams {
  int64_t rows = 1, m = 0, n = 0, k = 0;
  const uint8_t* x = nullptr;
  int64_t x_row_stride = 0, x_stride = 0;
  const int64_t* segments = nullptr;
  int64_t segment_count = 0;
  const int8_t* w = nullptr;
  int64_t w_panel_stride = 0, w_segment_stride = 0;
  int16_t* widened = nullptr;  // room for widened_elements(rows · m, segment_count · k)
  void* out = nullptr;
  int64_t out_row_stride = 0, out_stride = 0;
  Requantization after;
};

// A row of depthwise outputs: result[i, c] for i < n (pixels), c < channels of the sums over kernel elements (y, z), y
// < height, z < width, of rows[y][(i · stride - pad + z · dilation) · x_pixel_stride + c], or of `padding` where
// rows[y] is null or that column is outside of the image, times the weight. Weights as `arrange_depthwise` has arranged
// them; offset, scale and bias as `arrange_columns`.
struct Int8DwconvParams {
  const uint8_t* const* rows = nullptr;  // column 0
  int64_t x_pixel_stride = 0, columns = 0;
  int64_t height = 0, width = 0, stride = 1, pad = 0, dilation = 1;
  uint8_t padding = 0;
  const int8_t* w = nullptr;
  int64_t channels = 0, n = 0;
  void* out = nullptr;
  int64_t out_pixel_stride = 0;  // elements
  Requantization after;
};

struct Int8ConvMicrokernels {
  const char* name;
  void (*igemm)(const Int8IgemmParams& p);
  // i16 that `igemm` needs for that many pixels and sums of `depth` products; more pixels need no less. 0: none.
  int64_t (*widened_elements)(int64_t pixels, int64_t depth);
  int64_t depthwise_block, depthwise_pixels;  // channels and pixels that are computed together
  int64_t depthwise_weight_bytes;             // of an arranged weight
  // Arranges the weights of a depthwise convolution: from panels of kPanel channels, [panel][kernel column][kernel row
  // / 4][channel][kernel row % 4], to blocks of channels, of as many weights for whole blocks.
  void (*arrange_depthwise)(const int8_t* panels, int64_t channels, int64_t height, int64_t width, int8_t* to);
  // The same for a number a channel, of 4 bytes.
  void (*arrange_columns)(const uint32_t* from, int64_t channels, uint32_t* to);
  void (*dwconv)(const Int8DwconvParams& p);
};

// The best of this processor, capped as BestIsa().
const Int8ConvMicrokernels& BestInt8Conv();
// Null where this build or this processor has none of that name.
const Int8ConvMicrokernels* FindInt8Conv(const char* name);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ISA_INT8_CONV_H_
