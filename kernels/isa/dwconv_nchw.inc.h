// 3 × 3 depthwise convolution of one NCHW plane (DwconvNchwParams of conv_nchw.h): vectors hold neighbouring pixels of
// a row; tile: 4 rows × 1 vector of accumulators, so that each loaded vector serves up to three of them. Part of
// conv_nchw.cc.

// Pixels [i, i + n) of output rows [r, r + R), S image rows apart.
template <int S, int R>
__attribute__((noinline)) void DwconvNchwTile(const DwconvNchwParams& g, int64_t r, int64_t i, int64_t n) {
  constexpr int W = 3;  // kernel width and height
  Vec sum[R];
#pragma GCC unroll 4
  for (int k = 0; k < R; ++k) sum[k] = Vec{};
  const float* x = g.x + r * S * g.x_stride + i;
#pragma GCC unroll 16
  for (int y = 0; y < (R - 1) * S + W; ++y, x += g.x_stride)
#pragma GCC unroll 8
    for (int z = 0; z < W; ++z) {
      const Vec v =
          Materialize(Load(x + z % S * g.phase + z / S));  // once: loads across cache lines take twice the time
#pragma GCC unroll 4
      for (int k = 0; k < R; ++k)
        if (y >= k * S && y < k * S + W) sum[k] += v * Broadcast(g.w[(y - k * S) * W + z]);
    }
  const Epilogue& e = g.epilogue;
  const Vec scale = Broadcast(e.scale != nullptr ? *e.scale : 1.0f),
            bias = Broadcast(e.bias != nullptr ? *e.bias : 0.0f);
#pragma GCC unroll 4
  for (int k = 0; k < R; ++k) sum[k] = Fma(sum[k], scale, bias);
  if (e.residual != nullptr) {
    const float* residual = e.residual + r * g.out_stride + i;
#pragma GCC unroll 4
    for (int k = 0; k < R; ++k) sum[k] += LoadPartial(residual + k * g.out_stride, n);
  }
  ApplyActivation<R>(e, sum);
  float* out = g.out + r * g.out_stride + i;
#pragma GCC unroll 4
  for (int k = 0; k < R; ++k) {
    if (n == kLanes)
      Store(out + k * g.out_stride, sum[k]);
    else
      StorePartial(out + k * g.out_stride, sum[k], n);
  }
}

template <int S>
void DwconvNchwRows(const DwconvNchwParams& g) {
  constexpr int kTileRows = 4;
  int64_t r = 0;
  for (; r + kTileRows <= g.rows; r += kTileRows)
    for (int64_t i = 0; i < g.n; i += kLanes) DwconvNchwTile<S, kTileRows>(g, r, i, Min(kLanes, g.n - i));
  for (; r < g.rows; ++r)
    for (int64_t i = 0; i < g.n; i += kLanes) DwconvNchwTile<S, 1>(g, r, i, Min(kLanes, g.n - i));
}

void DwconvNchw(const DwconvNchwParams& g) { g.stride == 2 ? DwconvNchwRows<2>(g) : DwconvNchwRows<1>(g); }
