// Convolution micro-kernels over NCHW images (conv_nchw.h). Part of conv_nchw.cc.
//
// GEMM: C[oc, pixels] = W[oc, k] · B, W in place, B panels [pixels / nr][k][nr] of patches, nr = 2 vectors; tile mr ×
// nr = kRows × 2 vectors of accumulators as in gemm.inc.h; the remaining columns, fewer than half a vector, are dot
// products along k. The epilogue (scale, bias, residual, clamp) is applied in registers. Then what packs patches, pads
// planes and sums or maximizes windows.

// Tile of R rows of a from i on × V vectors of columns from j on, n of which are written; b is the panel.
template <int R, int V>
__attribute__((noinline)) void NchwGemmTile(const NchwGemmParams& g, int64_t i, int64_t j, const float* b, int64_t n) {
  const int64_t b_stride = g.b_stride, k = g.k;
  Vec sum[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) sum[r][v] = Vec{};
#if SLIPWAY_ASM_TILE
  if constexpr (R >= 4 && V == 2) {
    AccumulateTile(k, g.a + i * g.a_stride, g.a_stride, b, b_stride, kLanes, nullptr, sum);
  } else
#endif
  {
    // A pointer to every third row and the stride of the next two: addressing modes of one instruction.
    constexpr int kRowPointers = (R + 2) / 3;
    const char* a[kRowPointers];
#pragma GCC unroll 4
    for (int r = 0; r < kRowPointers; ++r) a[r] = reinterpret_cast<const char*>(g.a + (i + 3 * r) * g.a_stride);
    int64_t stride = g.a_stride * 4;
    auto step = [&](int64_t p) __attribute__((always_inline)) {
      Vec x[V];
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) x[v] = Load(b + v * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const Vec w = Broadcast(*reinterpret_cast<const float*>(a[r / 3] + r % 3 * stride + 4 * p));
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) sum[r][v] += w * x[v];
      }
      b += b_stride;
    };
#pragma GCC unroll 1
    for (int64_t p = 0; p < k; ++p) {
      step(p);
      asm("" : "+r"(stride));  // or the compiler keeps sums of addresses on the stack
    }
  }
  float* c = g.c + i * g.c_stride + j;
  float edge[R][V * kLanes];
  const bool whole = n == V * kLanes || g.writes_full_vectors;
  if (g.accumulate) {
    const float* at = c;
    if (!whole) {
      for (int r = 0; r < R; ++r)
        for (int64_t q = 0; q < V * kLanes; ++q) edge[r][q] = q < n ? c[r * g.c_stride + q] : 0;
      at = edge[0];
    }
    const int64_t row = whole ? g.c_stride : V * kLanes;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r, at += row)
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sum[r][v] += Load(at + v * kLanes);
  }
  if (g.scale != nullptr) {
    const float* at = g.residual;
    int64_t row = g.c_stride;
    if (at != nullptr) {
      at += i * row + j;
      if (!whole) {
        for (int r = 0; r < R; ++r)
          for (int64_t q = 0; q < V * kLanes; ++q) edge[r][q] = q < n ? at[r * row + q] : 0;
        at = edge[0], row = V * kLanes;
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Vec scale = Broadcast(g.scale[i + r]), bias = Broadcast(g.bias[i + r]);
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        Vec y = sum[r][v] * scale + bias;
        if (at != nullptr) y += Load(at + r * row + v * kLanes);
        sum[r][v] = Clamp(y, g.min, g.max);
      }
    }
  }
  if (whole) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r, c += g.c_stride)
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) Store(c + v * kLanes, sum[r][v]);
    return;
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) Store(edge[r] + v * kLanes, sum[r][v]);
  for (int r = 0; r < R; ++r, c += g.c_stride)
    for (int64_t q = 0; q < n; ++q) c[q] = edge[r][q];
}

template <int V, int R = kRows>
SLIPWAY_INLINE void NchwGemmTileOf(int64_t rows, const NchwGemmParams& g, int64_t i, int64_t j, const float* b,
                                   int64_t n) {
  if (rows == R) return NchwGemmTile<R, V>(g, i, j, b, n);
  if constexpr (R > 1) NchwGemmTileOf<V, R - 1>(rows, g, i, j, b, n);
}

// C columns from j on by R rows of a from i on: sums along k.
template <int R, int C>
SLIPWAY_INLINE void NchwDotTile(const NchwGemmParams& g, int64_t i, int64_t j) {
  const float* a = g.a + i * g.a_stride;
  const float* b = g.tail + (j - (g.n - g.tail_columns)) * g.tail_stride;
  Vec sum[R][C] = {};
  int64_t p = 0;
  for (; p + kLanes <= g.k; p += kLanes) {
    Vec x[C];
#pragma GCC unroll 4
    for (int q = 0; q < C; ++q) x[q] = Load(b + q * g.tail_stride + p);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec w = Load(a + r * g.a_stride + p);
#pragma GCC unroll 4
      for (int q = 0; q < C; ++q) sum[r][q] += w * x[q];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int q = 0; q < C; ++q) {
      float s = Sum(sum[r][q]);
      for (int64_t rest = p; rest < g.k; ++rest) s += a[r * g.a_stride + rest] * b[q * g.tail_stride + rest];
      const int64_t at = (i + r) * g.c_stride + j + q;
      if (g.accumulate) s += g.c[at];
      if (g.scale != nullptr) {
        s = s * g.scale[i + r] + g.bias[i + r];
        if (g.residual != nullptr) s += g.residual[at];
        s = s < g.min ? g.min : s > g.max ? g.max : s;
      }
      g.c[at] = s;
    }
}
template <int R, int C>
__attribute__((noinline)) void NchwDotColumns(const NchwGemmParams& g, int64_t j) {
  int64_t i = 0;
  for (; i + R <= g.m; i += R) NchwDotTile<R, C>(g, i, j);
  for (; i < g.m; ++i) NchwDotTile<1, C>(g, i, j);
}

void NchwGemm(const NchwGemmParams& g) {
  const int64_t n = g.n - g.tail_columns;
  for (int64_t j = 0; j < n; j += kWidth) {
    const int64_t columns = Min(kWidth, n - j);
    const float* b = g.b + j / kWidth * g.b_panel_stride;
    for (int64_t i = 0, rows; i < g.m; i += rows) {
      rows = g.m - i <= kRows ? g.m - i : g.m - i < 2 * kRows ? (g.m - i + 1) / 2 : kRows;
      if (columns > kLanes)
        NchwGemmTileOf<2>(rows, g, i, j, b, columns);
      else
        NchwGemmTileOf<1>(rows, g, i, j, b, columns);
    }
  }
  int64_t j = n;
  for (; j + 4 <= g.n; j += 4) NchwDotColumns<3, 4>(g, j);
  if (j + 2 <= g.n) NchwDotColumns<4, 2>(g, j), j += 2;
  if (j < g.n) NchwDotColumns<6, 1>(g, j);
}

// ---- Packing patches.

template <int N>
SLIPWAY_INLINE void Im2colPackSegments(const Im2colPackParams& g) {
  const int count = N > 0 ? N : g.segments;
  const float* const image = g.image;
  const int64_t *const offsets = g.offsets, *const from = g.from, *const at = g.at;
  float* to = g.to;
  for (int64_t p = 0, k = g.k; p < k; ++p, to += kWidth) {
    const float* x = image + offsets[p];
#pragma GCC unroll 4
    for (int s = 0; s < count; ++s) {
      const Vec x0 = Load(x + from[s]), x1 = Load(x + from[s] + kLanes);
      Store(to + at[s], x0);
      Store(to + at[s] + kLanes, x1);
    }
  }
}
void Im2colPack(const Im2colPackParams& g) {
  switch (g.segments) {
    case 1: return Im2colPackSegments<1>(g);
    case 2: return Im2colPackSegments<2>(g);
    case 3: return Im2colPackSegments<3>(g);
    default: return Im2colPackSegments<0>(g);
  }
}
void PackBColumns(const PackBParams& g) { PackB<kWidth>(g.from, g.from_stride, 1, g.k, g.n, g.to); }

// ---- Padded planes and windows.

SLIPWAY_INLINE void CopyRow(const float* from, int64_t n, float* to) {
  int64_t i = 0;
  if (n >= kLanes) {
    for (; i + kLanes <= n; i += kLanes) Store(to + i, Load(from + i));
    if (i < n) Store(to + n - kLanes, Load(from + n - kLanes));
  } else if (n >= 4) {
    for (; i + 4 <= n; i += 4) *reinterpret_cast<Vec4At*>(to + i) = Load4(from + i);
    if (i < n) *reinterpret_cast<Vec4At*>(to + n - 4) = Load4(from + n - 4);
  } else {
    for (; i < n; ++i) to[i] = from[i];
  }
}
#if SLIPWAY_ISA_BYTES == 64
constexpr IntVec kEven = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
#elif SLIPWAY_ISA_BYTES == 32
constexpr IntVec kEven = {0, 2, 4, 6, 8, 10, 12, 14};
#else
constexpr IntVec kEven = {0, 2, 4, 6};
#endif
template <int S>
SLIPWAY_INLINE void DeinterleaveRow(const float* from, int64_t n, int64_t pad, int64_t phase, float* to) {
  // Up to the first column of phase 0, then whole rounds of phases.
  int64_t i = 0;
  for (; i < n && (i + pad) % S != 0; ++i) to[(i + pad) % S * phase + (i + pad) / S] = from[i];
  float* at = to + (i + pad) / S;
  const int64_t rounds = (n - i) / S;
  int64_t q = 0;
  if (S == 4) {
    for (; q + 4 <= rounds; q += 4, i += 16) {
      Vec4 r[4] = {Load4(from + i), Load4(from + i + 4), Load4(from + i + 8), Load4(from + i + 12)};
      Transpose4x4(r);
      for (int p = 0; p < 4; ++p) *reinterpret_cast<Vec4At*>(at + p * phase + q) = r[p];
    }
  } else if (S == 2) {
    auto split = [&](int64_t k) __attribute__((always_inline)) {  // rounds [k, k + kLanes)
      const Vec a = Load(from + i + 2 * k), b = Load(from + i + 2 * k + kLanes);
      Store(at + k, Permute(a, b, kEven));
      Store(at + phase + k, Permute(a, b, kEven + 1));
    };
    if (rounds >= kLanes) {
      for (; q + kLanes <= rounds; q += kLanes) split(q);
      if (q < rounds) split(rounds - kLanes);
      i += 2 * rounds, q = rounds;
    }
    for (; q + 4 <= rounds; q += 4, i += 8) {
      const Vec4 a = Load4(from + i), b = Load4(from + i + 4);
      *reinterpret_cast<Vec4At*>(at + q) = Permute(a, b, Int4{0, 2, 4, 6});
      *reinterpret_cast<Vec4At*>(at + phase + q) = Permute(a, b, Int4{1, 3, 5, 7});
    }
  }
  for (; q < rounds; ++q, i += S)
    for (int p = 0; p < S; ++p) at[p * phase + q] = from[i + p];
  for (int p = 0; i < n; ++i, ++p) at[p * phase + q] = from[i];
}
void PadAndDeinterleave(const PadParams& g) {
  const float* from = g.from;
  float* to = g.to;
  const int64_t n = g.n, pad = g.pad, stride = g.stride, phase = g.phase, from_stride = g.from_stride,
                to_stride = g.to_stride;
  int64_t rows = g.rows;
  if (stride == 1) {
    for (; rows > 0; --rows, from += from_stride, to += to_stride) CopyRow(from, n, to + pad);
  } else if (stride == 2) {
    for (; rows > 0; --rows, from += from_stride, to += to_stride) DeinterleaveRow<2>(from, n, pad, phase, to);
  } else if (stride == 4) {
    for (; rows > 0; --rows, from += from_stride, to += to_stride) DeinterleaveRow<4>(from, n, pad, phase, to);
  } else {
    for (; rows > 0; --rows, from += from_stride, to += to_stride)
      for (int64_t i = 0; i < n; ++i) to[(i + pad) % stride * phase + (i + pad) / stride] = from[i];
  }
}

// R rows × V vectors at once, so that accumulators do not wait for each other.
template <bool kMax, int R, int V>
SLIPWAY_INLINE void WindowVectors(const WindowRowsParams& g, int64_t row, int64_t i) {
  Vec sum[R * V];
  NanLanes nans[R * V];
#pragma GCC unroll 8
  for (Vec& s : sum) s = kMax ? Broadcast(-__builtin_inff()) : Vec{};
  const float* const from = g.x + row * g.x_stride + i;
  for (int64_t t = 0; t < g.window_size; ++t) {
    const float* const at = from + g.offsets[t];
    const Vec w = kMax ? Vec{} : Broadcast(g.weights[t]);
#pragma GCC unroll 8
    for (int v = 0; v < R * V; ++v) {
      const Vec x = Load(at + v / V * g.x_stride + v % V * kLanes);
      if (kMax) {
        nans[v].Note(x);
        sum[v] = Max(x, sum[v]);
      } else {
        sum[v] += w * x;
      }
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < R * V; ++v)
    Store(g.out + (row + v / V) * g.out_stride + i + v % V * kLanes, kMax ? nans[v].ApplyTo(sum[v]) : sum[v]);
}
template <bool kMax, int R, int V>
SLIPWAY_INLINE int64_t WindowRowsBy(const WindowRowsParams& g, int64_t row) {
  for (; row + R <= g.rows; row += R) WindowVectors<kMax, R, V>(g, row, 0);
  return row;
}
template <bool kMax>
void WindowRowsOf(const WindowRowsParams& g) {
  int64_t row = 0;
  if (g.n <= kLanes)
    row = WindowRowsBy<kMax, 2, 1>(g, WindowRowsBy<kMax, 4, 1>(g, 0));
  else if (g.n <= 2 * kLanes)
    row = WindowRowsBy<kMax, 2, 2>(g, 0);
  for (; row < g.rows; ++row) {
    int64_t i = 0;
    for (; i + 3 * kLanes < g.n; i += 4 * kLanes) WindowVectors<kMax, 1, 4>(g, row, i);
    for (; i + kLanes < g.n; i += 2 * kLanes) WindowVectors<kMax, 1, 2>(g, row, i);
    if (i < g.n) WindowVectors<kMax, 1, 1>(g, row, i);
  }
}
void SumWindowRows(const WindowRowsParams& r) { WindowRowsOf<false>(r); }
void MaxWindowRows(const WindowRowsParams& r) { WindowRowsOf<true>(r); }
