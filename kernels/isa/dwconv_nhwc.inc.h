// Depthwise convolution over NHWC images, one row of outputs (DwconvNhwcParams of conv_nhwc.h). Part of conv_nhwc.cc.
//
// Vectors hold neighbouring channels; tile: 14 pixels (7 without AVX-512) × 1 vector of accumulators, so that each
// loaded pixel serves all kernel elements of a row and weights are loaded once for the tile. Kernels 3, 5 and 7 wide of
// stride 1 and 2 are unrolled; others take a general loop. Weights are packed [c / 16][kernel element][16].

// Floats from image row y - 1 to row y, which may wrap around in a ring.
SLIPWAY_INLINE int64_t NextRow(const DwconvNhwcParams& g, int64_t y) {
  return y == g.ring_row ? g.x_stride - g.ring_stride : g.x_stride;
}

// Output pixels [at, at + count) × channels [c, c + n), count <= P, n <= kLanes: W is the kernel width, S the stride.
// Without kBorder all columns that P outputs read are in the image and count is P; without kPartial, n is kLanes.
template <int W, int S, int P, bool kBorder, bool kPartial>
__attribute__((noinline)) void DwconvNhwcTile(const DwconvNhwcParams& g, int64_t c, int64_t n, int64_t at,
                                              int64_t count) {
  Vec sum[P];
#pragma GCC unroll 16
  for (int i = 0; i < P; ++i) sum[i] = Vec{};
  const int64_t first = at * S - g.pad, column = g.x_pixel_stride;
  const float* x = g.x + first * column + c;
  const float* w = g.w + c / kPanel * g.w_panel_stride + c % kPanel;
  for (int64_t y = 0; y < g.rows; x += NextRow(g, ++y), w += W * kPanel) {
    Vec w_vec[W];
#pragma GCC unroll 8
    for (int z = 0; z < W; ++z) w_vec[z] = Load(w + z * kPanel);
    const float* from = x;
#pragma GCC unroll 40
    for (int i = 0; i < (P - 1) * S + W; ++i, from += column) {
      if (kBorder && static_cast<uint64_t>(first + i) >= static_cast<uint64_t>(g.columns)) continue;
      const Vec v = kPartial ? LoadPartial(from, n) : Load(from);
#pragma GCC unroll 8
      for (int z = 0; z < W; ++z)
        if (i >= z && (i - z) % S == 0 && (i - z) / S < P) sum[(i - z) / S] += v * w_vec[z];
    }
  }
  const Epilogue& f = g.epilogue;
  ApplyScaleBias<P, 1>(f.scale, f.bias, c, n, sum);
  float* out = g.out + at * g.out_pixel_stride + c;
  if (f.residual != nullptr) {
    const float* residual = f.residual + at * g.out_pixel_stride + c;
#pragma GCC unroll 16
    for (int i = 0; i < P; ++i, residual += g.out_pixel_stride)
      if (!kBorder || i < count) sum[i] += LoadPartial(residual, n);
  }
  ApplyActivation<P>(f, sum);
  ApplyPostOps<P, 1>(f, c, n, at * g.out_pixel_stride + c, g.out_pixel_stride, kBorder ? count : P, sum);
#pragma GCC unroll 16
  for (int i = 0; i < P; ++i, out += g.out_pixel_stride) {
    if (kBorder && i >= count) break;
    if (kPartial)
      StorePartial(out, sum[i], n);
    else
      Store(out, sum[i]);
  }
}

template <int W, int S, int P>
SLIPWAY_INLINE void DwconvNhwcPart(const DwconvNhwcParams& g, int64_t c, int64_t n, int64_t at, int64_t count) {
  const int64_t first = at * S - g.pad;
  constexpr bool kMasked = SLIPWAY_ISA_BYTES == 64;  // masked loads and stores are as fast as whole ones
  if (n == kLanes && count == P && first >= 0 && first + (P - 1) * S + W <= g.columns)
    DwconvNhwcTile<W, S, P, false, false>(g, c, n, at, count);
  else if (n == kLanes && !kMasked)
    DwconvNhwcTile<W, S, P, true, kMasked>(g, c, n, at, count);
  else
    DwconvNhwcTile<W, S, P, true, true>(g, c, n, at, count);
}

// Blocks of pixels, each with all its channels: what a block reads is contiguous.
template <int W, int S>
void DwconvNhwcRow(const DwconvNhwcParams& g) {
  constexpr int kNarrow = 7, kWide = SLIPWAY_ISA_BYTES == 64 ? 14 : kNarrow;
  const int64_t tiles = (g.n + kWide - 1) / kWide * ((g.channels + kLanes - 1) / kLanes);
  RangePrefetcher read(g.read, tiles), written(g.written, tiles);
  for (int64_t at = 0, count; at < g.n; at += count) {
    const int64_t left = g.n - at;
    const bool wide = kWide > kNarrow && left > kNarrow;
    count = Min(wide ? kWide : kNarrow, left);
    for (int64_t c = 0; c < g.channels; c += kLanes) {
      const int64_t n = Min(kLanes, g.channels - c);
      read.Next(), written.Next();
      if (wide)
        DwconvNhwcPart<W, S, kWide>(g, c, n, at, count);
      else
        DwconvNhwcPart<W, S, kNarrow>(g, c, n, at, count);
    }
  }
}

// Any width, stride and dilation.
void DwconvNhwcAny(const DwconvNhwcParams& g) {
  constexpr int P = 4;
  for (int64_t c = 0; c < g.channels; c += kLanes) {
    const int64_t n = Min(kLanes, g.channels - c);
    const float* const panel = g.w + c / kPanel * g.w_panel_stride + c % kPanel;
    for (int64_t at = 0; at < g.n; at += P) {
      const int64_t count = Min(P, g.n - at);
      Vec sum[P] = {};
      const float *x = g.x + c, *w = panel;
      for (int64_t y = 0; y < g.rows; x += NextRow(g, ++y))
        for (int64_t z = 0; z < g.width; ++z, w += kPanel) {
          const Vec by = Load(w);
          for (int i = 0; i < P; ++i) {
            const int64_t column = (at + i) * g.stride - g.pad + z * g.dilation;
            if (i < count && column >= 0 && column < g.columns)
              sum[i] += LoadPartial(x + column * g.x_pixel_stride, n) * by;
          }
        }
      const Epilogue& f = g.epilogue;
      ApplyScaleBias<P, 1>(f.scale, f.bias, c, n, sum);
      if (f.residual != nullptr)
        for (int64_t i = 0; i < count; ++i) sum[i] += LoadPartial(f.residual + (at + i) * g.out_pixel_stride + c, n);
      ApplyActivation<P>(f, sum);
      ApplyPostOps<P, 1>(f, c, n, at * g.out_pixel_stride + c, g.out_pixel_stride, count, sum);
      for (int64_t i = 0; i < count; ++i) StorePartial(g.out + (at + i) * g.out_pixel_stride + c, sum[i], n);
    }
  }
}

void DwconvNhwc(const DwconvNhwcParams& g) {
  if (g.dilation == 1 && (g.stride == 1 || g.stride == 2)) {
    const bool two = g.stride == 2;
    if (g.width == 3) return two ? DwconvNhwcRow<3, 2>(g) : DwconvNhwcRow<3, 1>(g);
    if (g.width == 5) return two ? DwconvNhwcRow<5, 2>(g) : DwconvNhwcRow<5, 1>(g);
    if (g.width == 7) return two ? DwconvNhwcRow<7, 2>(g) : DwconvNhwcRow<7, 1>(g);
  }
  DwconvNhwcAny(g);
}
