// Convolution and pool micro-kernels of an instruction set over NHWC images (channels last): indirect GEMM, grouped,
// depthwise, Winograd, pools. conv_nhwc.inc.h, dwconv_nhwc.inc.h, winograd_nhwc.inc.h and pool_nhwc.inc.h are their
// source. Vectors hold neighbouring channels of a pixel.
#ifndef SLIPWAY_KERNELS_ISA_CONV_NHWC_H_
#define SLIPWAY_KERNELS_ISA_CONV_NHWC_H_

#include <cstdint>

#include "kernels/isa/epilogue.h"
#include "kernels/tensor.h"

namespace slipway::kernels {

// Weights of this many floats come from memory, or from a cache as slow, when a layer begins: other layers ran since.
constexpr int64_t kWeightsExceedL2Floats = 64 << 10;

// Floats to prefetch: they will be read and are not in the second-level cache. count 0: none.
struct PrefetchRange {
  const float* at = nullptr;
  int64_t count = 0;
};

// Indirect GEMM: out[i, j] for i < m (pixels), j < n (output channels) is the sum over segments s and p < k of
//
//   x[i · x_stride + segments[s] + p] · w[j / kPanel · w_panel_stride + s · w_segment_stride + p · kPanel + j %
//   kPanel].
//
// A segment is a contiguous piece of K: the channels of one kernel element, or of a row of kernel elements. Rows of
// `out` and of the residual are out_stride apart. Nothing beyond n columns is read or written but packed weights.
struct NhwcIgemmParams {
  int64_t m = 0, n = 0, k = 0;
  const float* x = nullptr;
  int64_t x_stride = 0;
  // Prefetch of the image: each step of a segment prefetches prefetch_offset floats behind what it reads,
  // prefetch_stride floats further on than the step before it. 0: the image is cache-resident.
  int64_t prefetch_offset = 0, prefetch_stride = 0;
  const int64_t* segments = nullptr;
  int64_t segment_count = 0;
  const float* w = nullptr;
  int64_t w_panel_stride = 0, w_segment_stride = 0;
  PrefetchRange next_weights;  // weights of the next call, prefetched while this one accumulates
  float* out = nullptr;
  int64_t out_stride = 0;
  bool accumulate = false;   // out holds partial sums
  bool interleaved = false;  // rows are iterated in the order of interleaved_order.h
  Epilogue epilogue;
};

// A row of depthwise outputs: out[i · out_pixel_stride + c] for i < n, c < channels is the sum over kernel elements (y,
// z), y < rows, z < width, of x[(i · stride - pad + z · dilation) · x_pixel_stride + y · x_stride + c], where that
// column is inside the image, times w[c / kPanel · w_panel_stride + (y · width + z) · kPanel + c % kPanel]. Where image
// rows are in a ring buffer, those from ring_row on are ring_stride floats before their place.
struct DwconvNhwcParams {
  const float* x = nullptr;  // column 0
  int64_t x_stride = 0, x_pixel_stride = 0, columns = 0;
  int64_t ring_row = 0, ring_stride = 0;  // 0: no ring
  int64_t rows = 0, width = 0, stride = 1, pad = 0, dilation = 1;
  const float* w = nullptr;
  int64_t w_panel_stride = 0;
  int64_t channels = 0, n = 0;
  // What the next row reads and writes, prefetched into the second-level cache in ascending order: the loops over some
  // channels of several pixels have no order that hardware prefetchers recognize.
  PrefetchRange read, written;
  float* out = nullptr;
  int64_t out_pixel_stride = 0;
  Epilogue epilogue;
};

// F(4 × 4, 3 × 3) transforms of a tile (conv/winograd.h): input elements (i, j), i, j < 6, of rows [y0, y1) and columns
// [x0, x1) are read, the others are zeros. v[(i · 6 + j) · v_stride + c].
struct WinogradNhwcInputParams {
  const float* x = nullptr;  // element (0, 0)
  int64_t x_stride = 0, x_pixel_stride = 0, y0 = 0, y1 = 0, x0 = 0, x1 = 0, channels = 0;
  float* v = nullptr;
  int64_t v_stride = 0;
};
// Outputs (y, x), y < rows, x < columns <= 4, of the products p[(i · 6 + j) · p_stride + c]. The residual has the
// layout of `out`.
struct WinogradNhwcOutputParams {
  const float* p = nullptr;
  int64_t p_stride = 0, rows = 0, columns = 0, channels = 0;
  float* out = nullptr;
  int64_t out_stride = 0, out_pixel_stride = 0;
  Epilogue epilogue;
};
// Filters of a panel: kernel elements element_stride floats apart, each [channels][kPanel]; u[(i · 6 + j) · u_stride +
// c · kPanel + o].
struct WinogradNhwcFilterParams {
  const float* panel = nullptr;
  int64_t element_stride = 0, channels = 0;
  float* u = nullptr;
  int64_t u_stride = 0;
};

// out[j] = the maximum (NaN where one is NaN), or the sum times `scale`, over `count` rows of n elements, of f32,
// bf16 or f16.
struct PoolNhwcParams {
  const void* const* rows = nullptr;
  int64_t count = 0, n = 0;
  void* out = nullptr;
  float scale = 1;
  DType dtype = DType::kF32;
};

struct ConvNhwcMicrokernels {
  int64_t mr;                  // rows of a tile of `igemm`
  int64_t row_block_multiple;  // blocks of a multiple of this many rows are faster
  void (*igemm)(const NhwcIgemmParams& p);
  // Groups of `group` columns, of which a panel holds a whole number, with as many input channels each: column j reads
  // x[… + j / group · group + p], p < k = group.
  void (*grouped_igemm)(const NhwcIgemmParams& p, int64_t group);
  void (*dwconv)(const DwconvNhwcParams& p);
  void (*winograd_filters)(const WinogradNhwcFilterParams& p);
  void (*winograd_input)(const WinogradNhwcInputParams& p);
  void (*winograd_output)(const WinogradNhwcOutputParams& p);
  void (*max_pool)(const PoolNhwcParams& p);
  void (*sum_pool)(const PoolNhwcParams& p);
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ISA_CONV_NHWC_H_
