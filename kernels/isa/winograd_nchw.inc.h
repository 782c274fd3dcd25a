// Winograd's transforms over NCHW images (conv_nchw.h), F(m × m, 3 × 3) for m = 2 and 4: vectors hold neighbouring
// tiles of a row, of filters neighbouring channels. Part of conv_nchw.cc.

SLIPWAY_INLINE Vec Join(const Vec4* x) {
#if SLIPWAY_ISA_BYTES == 64
  typedef float Vec8 __attribute__((vector_size(32)));
  const Vec8 low = __builtin_shufflevector(x[0], x[1], 0, 1, 2, 3, 4, 5, 6, 7);
  const Vec8 high = __builtin_shufflevector(x[2], x[3], 0, 1, 2, 3, 4, 5, 6, 7);
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#elif SLIPWAY_ISA_BYTES == 32
  return __builtin_shufflevector(x[0], x[1], 0, 1, 2, 3, 4, 5, 6, 7);
#else
  return x[0];
#endif
}
// Part i of four lanes.
SLIPWAY_INLINE Vec4 Part(Vec x, [[maybe_unused]] int i) {
#if SLIPWAY_ISA_BYTES == 64
  return i == 0   ? __builtin_shufflevector(x, x, 0, 1, 2, 3)
         : i == 1 ? __builtin_shufflevector(x, x, 4, 5, 6, 7)
         : i == 2 ? __builtin_shufflevector(x, x, 8, 9, 10, 11)
                  : __builtin_shufflevector(x, x, 12, 13, 14, 15);
#elif SLIPWAY_ISA_BYTES == 32
  return i == 0 ? __builtin_shufflevector(x, x, 0, 1, 2, 3) : __builtin_shufflevector(x, x, 4, 5, 6, 7);
#else
  return x;
#endif
}

template <int M>
void WinogradNchwFilters(const WinogradNchwFilterParams& g) {
  const float* w = g.w;
  float* const u = g.u;
  const int64_t channels = g.channels, u_stride = g.u_stride;
  constexpr int T = M + 2, kParts = kLanes / 4;
  float rest[9 * kLanes];
  for (int64_t c = 0; c < channels; c += kLanes, w += 9 * kLanes) {
    const float* from = w;
    if (channels - c < kLanes) {
      for (int64_t i = 0; i < 9 * kLanes; ++i) rest[i] = i < 9 * (channels - c) ? w[i] : 0;
      from = rest;
    }
    Vec4 part[9][kParts];
#pragma GCC unroll 4
    for (int q = 0; q < kParts; ++q) {
      const float* f = from + 36 * q;
      Vec4 low[4] = {Load4(f), Load4(f + 9), Load4(f + 18), Load4(f + 27)};
      Vec4 high[4] = {Load4(f + 4), Load4(f + 13), Load4(f + 22), Load4(f + 31)};
      Transpose4x4(low), Transpose4x4(high);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) part[i][q] = low[i], part[4 + i][q] = high[i];
      part[8][q] = Vec4{f[8], f[17], f[26], f[35]};
    }
    Vec w9[9];
#pragma GCC unroll 9
    for (int i = 0; i < 9; ++i) w9[i] = Join(part[i]);
    Vec half[3][T];  // transformed columns
#pragma GCC unroll 3
    for (int j = 0; j < 3; ++j) {
      const Vec column[3] = {w9[j], w9[3 + j], w9[6 + j]};
      WinogradTransform<M>::Weights(column, half[j]);
    }
#pragma GCC unroll 6
    for (int i = 0; i < T; ++i) {
      const Vec row[3] = {half[0][i], half[1][i], half[2][i]};
      Vec out[T];
      WinogradTransform<M>::Weights(row, out);
#pragma GCC unroll 6
      for (int j = 0; j < T; ++j) Store(u + (i * T + j) * u_stride + c, out[j]);
    }
  }
}

template <int M>
void WinogradNchwInput(const WinogradNchwInputParams& g) {
  const float* x = g.x;
  float* v = g.v;
  const int64_t line = g.line, rows = g.rows, tiles = g.tiles, v_stride = g.v_stride;
  constexpr int T = M + 2;
  for (int64_t y = 0; y < rows; ++y, x += M * M * line, v += tiles)
    for (int64_t i = 0; i < tiles; i += kLanes) {
      Vec half[T][T];
#pragma GCC unroll 6
      for (int j = 0; j < T; ++j) {
        const float* at = x + j % M * line + i + j / M;
        Vec column[T], out[T];
#pragma GCC unroll 6
        for (int k = 0; k < T; ++k) column[k] = Load(at + k * M * line);
        WinogradTransform<M>::Input(column, out);
#pragma GCC unroll 6
        for (int k = 0; k < T; ++k) half[k][j] = out[k];
      }
      float* to = v + i;
#pragma GCC unroll 6
      for (int k = 0; k < T; ++k) {
        Vec out[T];
        WinogradTransform<M>::Input(half[k], out);
#pragma GCC unroll 6
        for (int j = 0; j < T; ++j, to += v_stride) Store(to, out[j]);
      }
    }
}

template <int M>
void WinogradNchwOutput(const WinogradNchwOutputParams& g) {
  const float* p = g.p;
  float* out = g.out;
  const int64_t p_stride = g.p_stride, tiles = g.tiles, out_stride = g.out_stride;
  constexpr int T = M + 2;
  for (int64_t i = 0; i < tiles; i += kLanes, p += kLanes, out += M * kLanes) {
    Vec half[M][T];
    const float* at = p;
#pragma GCC unroll 6
    for (int k = 0; k < T; ++k) {  // row k of the tiles, along its columns
      Vec line[T], y[M];
#pragma GCC unroll 6
      for (int j = 0; j < T; ++j, at += p_stride) line[j] = Load(at);
      WinogradTransform<M>::Output(line, y);
#pragma GCC unroll 4
      for (int j = 0; j < M; ++j) half[j][k] = y[j];
    }
    Vec result[M][M];  // by column
#pragma GCC unroll 4
    for (int j = 0; j < M; ++j) WinogradTransform<M>::Output(half[j], result[j]);
#pragma GCC unroll 4
    for (int k = 0; k < M; ++k) {
      float* to = out + k * out_stride;
#pragma GCC unroll 4
      for (int q = 0; q < kLanes / 4; ++q) {
        if (M == 4) {
          Vec4 r[4] = {Part(result[0][k], q), Part(result[1][k], q), Part(result[2 % M][k], q),
                       Part(result[3 % M][k], q)};
          Transpose4x4(r);
          for (int n = 0; n < 4; ++n) *reinterpret_cast<Vec4At*>(to + 16 * q + 4 * n) = r[n];
        } else {
          const Vec4 a = Part(result[0][k], q), b = Part(result[1][k], q);
          *reinterpret_cast<Vec4At*>(to + 8 * q) = Permute(a, b, Int4{0, 4, 1, 5});
          *reinterpret_cast<Vec4At*>(to + 8 * q + 4) = Permute(a, b, Int4{2, 6, 3, 7});
        }
      }
    }
  }
}
