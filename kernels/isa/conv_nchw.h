// Convolution micro-kernels of an instruction set over NCHW images (dense planes), and those of pools: GEMM over packed
// patches, padding, windows, 3 × 3 depthwise, Winograd. conv_nchw.inc.h, dwconv_nchw.inc.h and winograd_nchw.inc.h are
// their source. Vectors hold neighbouring pixels of a row.
#ifndef SLIPWAY_KERNELS_ISA_CONV_NCHW_H_
#define SLIPWAY_KERNELS_ISA_CONV_NCHW_H_

#include <cstdint>

#include "kernels/isa/epilogue.h"

namespace slipway::kernels {

// c[m,n] = a[m,k] · b[k,n], or added to c: a are weights, one row per output channel, b patches, one column per pixel.
// b is packed in panels of `nr` columns: b(p, j) = b[j / nr · b_panel_stride + p · b_stride + j % nr], readable in full
// vectors. Its last `tail_columns` columns are dense rows of `tail` instead.
struct NchwGemmParams {
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  int64_t a_stride = 0;
  const float* b = nullptr;
  int64_t b_stride = 0, b_panel_stride = 0;
  const float* tail = nullptr;
  int64_t tail_stride = 0, tail_columns = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
  bool accumulate = false;
  bool writes_full_vectors = false;  // rows of c may be written up to full vectors
  // Null: c is the accumulator. Else c(i, j) = clamp(acc · scale[i] + bias[i] + residual[i · c_stride + j], min, max),
  // where `residual` may be null; NaN stays NaN.
  const float *scale = nullptr, *bias = nullptr, *residual = nullptr;
  float min = 0, max = 0;
};

// Packs patches as a panel of b: to[p · nr + at[s] + i] = image[offsets[p] + from[s] + i] for p < k: the pixels of a
// panel are `segments` runs of neighbours, run s of which begins at image[from[s]] and at column at[s]. Writes up to
// one panel row more.
struct Im2colPackParams {
  const float* image = nullptr;
  const int64_t* offsets = nullptr;
  int64_t k = 0;
  const int64_t *from = nullptr, *at = nullptr;
  int segments = 0;
  float* to = nullptr;
};
// Packs columns of dense rows as a panel of b: to[p · nr + i] = from[p · from_stride + i], i < n; zeros beyond.
struct PackBParams {
  const float* from = nullptr;
  int64_t from_stride = 0, k = 0, n = 0;
  float* to = nullptr;
};

// Copies rows of n pixels into a padded plane, whose border the caller has filled: pixel i goes to column i + pad; with
// a stride of more than 1, column c goes to element c / stride of phase c % stride, phases being `phase` floats apart.
struct PadParams {
  const float* from = nullptr;
  int64_t from_stride = 0, rows = 0, n = 0, pad = 0, stride = 1, phase = 0;
  float* to = nullptr;
  int64_t to_stride = 0;
};

// Windows over a plane: out[r · out_stride + i] for r < rows, i < n is the weighted sum or the maximum over t <
// window_size of x[r · x_stride + offsets[t] + i], which is readable in full vectors. Rows are written in order and in
// full vectors: the surplus is overwritten by the next row.
struct WindowRowsParams {
  const float* x = nullptr;
  int64_t x_stride = 0;
  const int64_t* offsets = nullptr;
  int64_t window_size = 0;
  const float* weights = nullptr;
  float* out = nullptr;
  int64_t out_stride = 0, rows = 0, n = 0;
};

// 3 × 3 depthwise convolution of one plane: out[r · out_stride + i] for r < rows, i < n is the sum over y, z < 3 of
// x[(r · stride + y) · x_stride + z % stride · phase + z / stride + i] · w[3 · y + z], x being a padded plane
// (PadParams) readable in full vectors; stride is 1 or 2. The epilogue has no post-ops; its scale and bias are this
// channel's, its residual has the layout of `out`.
struct DwconvNchwParams {
  const float* x = nullptr;
  int64_t x_stride = 0, phase = 0, stride = 1;
  const float* w = nullptr;
  float* out = nullptr;
  int64_t out_stride = 0, rows = 0, n = 0;
  Epilogue epilogue;
};

// Winograd's transforms of F(m × m, 3 × 3), m = 2 or 4, t = m + 2 (conv/winograd.h has the matrices).
struct WinogradNchwFilterParams {  // u[(i · t + j) · u_stride + c] of `channels` filters, 3 × 3 each; writes full
                                   // vectors
  const float* w = nullptr;
  int64_t channels = 0;
  float* u = nullptr;
  int64_t u_stride = 0;
};
// Tiles of one channel: x has rows of m phases of `line` floats, tile (y, x) begins with row m · y, element x of its
// phases. v[(i · t + j) · v_stride + y · tiles + x]; writes up to a vector more.
struct WinogradNchwInputParams {
  const float* x = nullptr;
  int64_t line = 0, rows = 0, tiles = 0;
  float* v = nullptr;
  int64_t v_stride = 0;
};
// m rows of m · tiles outputs, out_stride apart and writable in full vectors of tiles, of the products p[(i · t + j) ·
// p_stride + x].
struct WinogradNchwOutputParams {
  const float* p = nullptr;
  int64_t p_stride = 0, tiles = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
};

struct ConvNchwMicrokernels {
  int64_t mr, nr;            // of a tile of `gemm`
  int64_t max_tail_columns;  // up to this many remaining columns are faster as dot products
  void (*gemm)(const NchwGemmParams& p);
  void (*im2col_pack)(const Im2colPackParams& p);
  void (*pack_b)(const PackBParams& p);
  void (*pad_and_deinterleave)(const PadParams& p);
  void (*sum_windows)(const WindowRowsParams& p);
  void (*max_windows)(const WindowRowsParams& p);  // NaN where a window has one; no weights
  void (*dwconv3x3)(const DwconvNchwParams& p);
  struct Winograd {
    void (*filters)(const WinogradNchwFilterParams& p);
    void (*input)(const WinogradNchwInputParams& p);
    void (*output)(const WinogradNchwOutputParams& p);
  } winograd[2];  // [0]: m = 2, [1]: m = 4
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ISA_CONV_NCHW_H_
