// Part of body.h: the loops of convolutions and pools that conv.h declares. Included inside body.h's namespaces.

// ---- Blocks of products.

// Rows from i on, columns from j on.
template <int R, int V>
__attribute__((noinline)) void ConvTile(const ConvBlock& g, int64_t i, int64_t j, const float* b, int64_t n) {
  const int64_t b_row = g.b_row, k = g.k;
  Vec sum[R][V];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) sum[r][v] = Vec{};
#if SLIPWAY_SUM_TILE
  if constexpr (R >= 4 && V == 2) {
    SumTile(k, g.a + i * g.a_row, g.a_row, b, b_row, kLanes, nullptr, sum);
  } else
#endif
  {
    // Every third row, and what the next two are away from it: addresses that an instruction can state.
    constexpr int kThirds = (R + 2) / 3;
    const char* a[kThirds];
#pragma GCC unroll 4
    for (int r = 0; r < kThirds; ++r) a[r] = reinterpret_cast<const char*>(g.a + (i + 3 * r) * g.a_row);
    int64_t away = g.a_row * 4;
    auto step = [&](int64_t p) __attribute__((always_inline)) {
      Vec x[V];
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) x[v] = Load(b + v * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const Vec w = Splat(*reinterpret_cast<const float*>(a[r / 3] + r % 3 * away + 4 * p));
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) sum[r][v] += w * x[v];
      }
      b += b_row;
    };
#pragma GCC unroll 1
    for (int64_t p = 0; p < k; ++p) {
      step(p);
      asm("" : "+r"(away));  // or the compiler keeps sums of addresses on the stack
    }
  }
  float* c = g.c + i * g.c_row + j;
  float edge[R][V * kLanes];
  const bool whole = n == V * kLanes || g.slack;
  if (g.add) {
    const float* at = c;
    if (!whole) {
      for (int r = 0; r < R; ++r)
        for (int64_t q = 0; q < V * kLanes; ++q) edge[r][q] = q < n ? c[r * g.c_row + q] : 0;
      at = edge[0];
    }
    const int64_t row = whole ? g.c_row : V * kLanes;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r, at += row)
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sum[r][v] += Load(at + v * kLanes);
  }
  if (g.scale != nullptr) {
    const float* at = g.more;
    int64_t row = g.c_row;
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
      const Vec scale = Splat(g.scale[i + r]), shift = Splat(g.shift[i + r]);
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        Vec y = sum[r][v] * scale + shift;
        if (at != nullptr) y += Load(at + r * row + v * kLanes);
        sum[r][v] = Clamp(y, g.low, g.high);
      }
    }
  }
  if (whole) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r, c += g.c_row)
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) Store(c + v * kLanes, sum[r][v]);
    return;
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) Store(edge[r] + v * kLanes, sum[r][v]);
  for (int r = 0; r < R; ++r, c += g.c_row)
    for (int64_t q = 0; q < n; ++q) c[q] = edge[r][q];
}

template <int V, int R = kRows>
SLIPWAY_INLINE void ConvTileOf(int64_t rows, const ConvBlock& g, int64_t i, int64_t j, const float* b, int64_t n) {
  if (rows == R) return ConvTile<R, V>(g, i, j, b, n);
  if constexpr (R > 1) ConvTileOf<V, R - 1>(rows, g, i, j, b, n);
}

// C columns from j on by R rows of a from i on: sums along k.
template <int R, int C>
SLIPWAY_INLINE void ConvDots(const ConvBlock& g, int64_t i, int64_t j) {
  const float* a = g.a + i * g.a_row;
  const float* b = g.last + (j - (g.n - g.dots)) * g.last_row;
  Vec sum[R][C] = {};
  int64_t p = 0;
  for (; p + kLanes <= g.k; p += kLanes) {
    Vec x[C];
#pragma GCC unroll 4
    for (int q = 0; q < C; ++q) x[q] = Load(b + q * g.last_row + p);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const Vec w = Load(a + r * g.a_row + p);
#pragma GCC unroll 4
      for (int q = 0; q < C; ++q) sum[r][q] += w * x[q];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int q = 0; q < C; ++q) {
      float s = Sum(sum[r][q]);
      for (int64_t rest = p; rest < g.k; ++rest) s += a[r * g.a_row + rest] * b[q * g.last_row + rest];
      const int64_t at = (i + r) * g.c_row + j + q;
      if (g.add) s += g.c[at];
      if (g.scale != nullptr) {
        s = s * g.scale[i + r] + g.shift[i + r];
        if (g.more != nullptr) s += g.more[at];
        s = s < g.low ? g.low : s > g.high ? g.high : s;
      }
      g.c[at] = s;
    }
}
template <int R, int C>
__attribute__((noinline)) void ConvDotColumns(const ConvBlock& g, int64_t j) {
  int64_t i = 0;
  for (; i + R <= g.m; i += R) ConvDots<R, C>(g, i, j);
  for (; i < g.m; ++i) ConvDots<1, C>(g, i, j);
}

void ConvBlockOf(const ConvBlock& g) {
  const int64_t n = g.n - g.dots;
  for (int64_t j = 0; j < n; j += kWidth) {
    const int64_t columns = Least(kWidth, n - j);
    const float* b = g.b + j / kWidth * g.b_panel;
    for (int64_t i = 0, rows; i < g.m; i += rows) {
      rows = g.m - i <= kRows ? g.m - i : g.m - i < 2 * kRows ? (g.m - i + 1) / 2 : kRows;
      if (columns > kLanes)
        ConvTileOf<2>(rows, g, i, j, b, columns);
      else
        ConvTileOf<1>(rows, g, i, j, b, columns);
    }
  }
  int64_t j = n;
  for (; j + 4 <= g.n; j += 4) ConvDotColumns<3, 4>(g, j);
  if (j + 2 <= g.n) ConvDotColumns<4, 2>(g, j), j += 2;
  if (j < g.n) ConvDotColumns<6, 1>(g, j);
}

// ---- Panels.

template <int N>
SLIPWAY_INLINE void LayRuns(const float* image, const int64_t* offsets, int64_t k, const int64_t* from,
                            const int64_t* at, int runs, float* to) {
  const int count = N > 0 ? N : runs;
  for (int64_t p = 0; p < k; ++p, to += kWidth) {
    const float* x = image + offsets[p];
#pragma GCC unroll 4
    for (int r = 0; r < count; ++r) {
      const Vec x0 = Load(x + from[r]), x1 = Load(x + from[r] + kLanes);
      Store(to + at[r], x0);
      Store(to + at[r] + kLanes, x1);
    }
  }
}
void LayPanel(const float* image, const int64_t* offsets, int64_t k, const int64_t* from, const int64_t* at, int runs,
              float* to) {
  switch (runs) {
    case 1: return LayRuns<1>(image, offsets, k, from, at, runs, to);
    case 2: return LayRuns<2>(image, offsets, k, from, at, runs, to);
    case 3: return LayRuns<3>(image, offsets, k, from, at, runs, to);
    default: return LayRuns<0>(image, offsets, k, from, at, runs, to);
  }
}
void LayRowsPanel(const float* from, int64_t row, int64_t k, int64_t n, float* to) {
  PackPanel<kWidth>(from, row, 1, k, n, to);
}

// ---- Rows.

// f(vector) over a row, the rest in a vector of its own; `add` may be null.
template <typename F>
SLIPWAY_INLINE void FinishRow(const float* x, const float* add, float* out, int64_t n, F f) {
  int64_t i = 0;
  if (add != nullptr)
    for (; i + kLanes <= n; i += kLanes) Store(out + i, f(Load(x + i), Load(add + i)));
  else
    for (; i + kLanes <= n; i += kLanes) Store(out + i, f(Load(x + i), Vec{}));
  if (i == n) return;
  float rest[kLanes] = {}, more[kLanes] = {};
  for (int64_t j = i; j < n; ++j) rest[j - i] = x[j];
  if (add != nullptr)
    for (int64_t j = i; j < n; ++j) more[j - i] = add[j];
  Store(rest, f(Load(rest), Load(more)));
  for (int64_t j = i; j < n; ++j) out[j] = rest[j - i];
}
void FinishConv(const float* x, float* out, int64_t n, const Finish& f) {
  const float scale = f.scale, shift = f.shift, low = f.low, high = f.high;
  auto sum = [ scale, shift ](Vec v, Vec add) __attribute__((always_inline)) { return v * scale + shift + add; };
  switch (f.activation) {
    case Activation::kNone: return FinishRow(x, f.add, out, n, sum);
    case Activation::kClamp:
      return FinishRow(
          x, f.add, out,
          n, [=](Vec v, Vec add) __attribute__((always_inline)) { return Clamp(sum(v, add), low, high); });
    case Activation::kSilu:
      return FinishRow(
          x, f.add, out, n, [=](Vec v, Vec add) __attribute__((always_inline)) { return Silu(sum(v, add)); });
    case Activation::kHardSwish:
      return FinishRow(
          x, f.add, out, n, [=](Vec v, Vec add) __attribute__((always_inline)) { return HardSwish(sum(v, add)); });
    case Activation::kHardSigmoid:
      return FinishRow(
          x, f.add, out, n, [=](Vec v, Vec add) __attribute__((always_inline)) { return HardSigmoid(sum(v, add)); });
    case Activation::kLeakyRelu:
      return FinishRow(
          x, f.add, out, n, [=](Vec v, Vec add) __attribute__((always_inline)) { return LeakyRelu(sum(v, add), low); });
  }
}

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
SLIPWAY_INLINE void SplitRow(const float* from, int64_t n, int64_t pad, int64_t phase, float* to) {
  // The first column that begins a round of phases, then whole rounds.
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
      Store(at + k, __builtin_shuffle(a, b, kEven));
      Store(at + phase + k, __builtin_shuffle(a, b, kEven + 1));
    };
    if (rounds >= kLanes) {
      for (; q + kLanes <= rounds; q += kLanes) split(q);
      if (q < rounds) split(rounds - kLanes);
      i += 2 * rounds, q = rounds;
    }
    for (; q + 4 <= rounds; q += 4, i += 8) {
      const Vec4 a = Load4(from + i), b = Load4(from + i + 4);
      *reinterpret_cast<Vec4At*>(at + q) = __builtin_shuffle(a, b, Int4{0, 2, 4, 6});
      *reinterpret_cast<Vec4At*>(at + phase + q) = __builtin_shuffle(a, b, Int4{1, 3, 5, 7});
    }
  }
  for (; q < rounds; ++q, i += S)
    for (int p = 0; p < S; ++p) at[p * phase + q] = from[i + p];
  for (int p = 0; i < n; ++i, ++p) at[p * phase + q] = from[i];
}
void PadRows(const float* from, int64_t from_row, int64_t rows, int64_t n, int64_t pad, int64_t stride, int64_t phase,
             float* to, int64_t to_row) {
  if (stride == 1) {
    for (; rows > 0; --rows, from += from_row, to += to_row) CopyRow(from, n, to + pad);
  } else if (stride == 2) {
    for (; rows > 0; --rows, from += from_row, to += to_row) SplitRow<2>(from, n, pad, phase, to);
  } else if (stride == 4) {
    for (; rows > 0; --rows, from += from_row, to += to_row) SplitRow<4>(from, n, pad, phase, to);
  } else {
    for (; rows > 0; --rows, from += from_row, to += to_row)
      for (int64_t i = 0; i < n; ++i) to[(i + pad) % stride * phase + (i + pad) / stride] = from[i];
  }
}

// V vectors of each of R rows at once, so that sums do not wait for each other.
template <bool kMax, int R, int V>
SLIPWAY_INLINE void TapVectors(const TapRows& g, int64_t row, int64_t i) {
  Vec sum[R * V];
  NanLanes nans[R * V];
#pragma GCC unroll 8
  for (Vec& s : sum) s = kMax ? Splat(-__builtin_inff()) : Vec{};
  const float* const from = g.x + row * g.row + i;
  for (int64_t t = 0; t < g.taps; ++t) {
    const float* const at = from + g.offsets[t];
    const Vec w = kMax ? Vec{} : Splat(g.weights[t]);
#pragma GCC unroll 8
    for (int v = 0; v < R * V; ++v) {
      const Vec x = Load(at + v / V * g.row + v % V * kLanes);
      if (kMax) {
        nans[v].See(x);
        sum[v] = Larger(x, sum[v]);
      } else {
        sum[v] += w * x;
      }
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < R * V; ++v)
    Store(g.out + (row + v / V) * g.out_row + i + v % V * kLanes, kMax ? nans[v].Over(sum[v]) : sum[v]);
}
template <bool kMax, int R, int V>
SLIPWAY_INLINE int64_t TapRowsBy(const TapRows& g, int64_t row) {
  for (; row + R <= g.rows; row += R) TapVectors<kMax, R, V>(g, row, 0);
  return row;
}
template <bool kMax>
void TapRowsOf(const TapRows& g) {
  int64_t row = 0;
  if (g.n <= kLanes)
    row = TapRowsBy<kMax, 2, 1>(g, TapRowsBy<kMax, 4, 1>(g, 0));
  else if (g.n <= 2 * kLanes)
    row = TapRowsBy<kMax, 2, 2>(g, 0);
  for (; row < g.rows; ++row) {
    int64_t i = 0;
    for (; i + 3 * kLanes < g.n; i += 4 * kLanes) TapVectors<kMax, 1, 4>(g, row, i);
    for (; i + kLanes < g.n; i += 2 * kLanes) TapVectors<kMax, 1, 2>(g, row, i);
    if (i < g.n) TapVectors<kMax, 1, 1>(g, row, i);
  }
}
void SumTaps(const TapRows& r) { TapRowsOf<false>(r); }
void MaxTaps(const TapRows& r) { TapRowsOf<true>(r); }

// ---- Winograd's transforms (winograd.h has the matrices).

template <int M>
struct WinogradOf;
template <>
struct WinogradOf<2> {
  static SLIPWAY_INLINE void Input(const Vec* d, Vec* t) {
    t[0] = d[0] - d[2], t[1] = d[1] + d[2], t[2] = d[2] - d[1], t[3] = d[1] - d[3];
  }
  static SLIPWAY_INLINE void Weights(const Vec* g, Vec* u) {
    const Vec even = (g[0] + g[2]) * 0.5f, odd = g[1] * 0.5f;
    u[0] = g[0], u[1] = even + odd, u[2] = even - odd, u[3] = g[2];
  }
  static SLIPWAY_INLINE void Output(const Vec* p, Vec* y) { y[0] = p[0] + p[1] + p[2], y[1] = p[1] - p[2] - p[3]; }
};
template <>
struct WinogradOf<4> {
  static constexpr float a = 0.75f, b = 1.5f, a2 = a * a, b2 = b * b;
  static SLIPWAY_INLINE void Input(const Vec* d, Vec* t) {
    t[0] = d[0] * (a2 * b2) - d[2] * (a2 + b2) + d[4];
    t[5] = d[1] * (a2 * b2) - d[3] * (a2 + b2) + d[5];
    const Vec p = d[4] - d[2] * b2, q = (d[3] - d[1] * b2) * a;
    t[1] = p + q, t[2] = p - q;
    const Vec r = d[4] - d[2] * a2, s = (d[3] - d[1] * a2) * b;
    t[3] = r + s, t[4] = r - s;
  }
  static SLIPWAY_INLINE void Weights(const Vec* g, Vec* u) {
    constexpr float na = 1 / (2 * a2 * (a2 - b2)), nb = 1 / (2 * b2 * (b2 - a2));
    u[0] = g[0] * (1 / (a2 * b2));
    const Vec p = (g[0] + g[2] * a2) * na, q = g[1] * (a * na);
    u[1] = p + q, u[2] = p - q;
    const Vec r = (g[0] + g[2] * b2) * nb, s = g[1] * (b * nb);
    u[3] = r + s, u[4] = r - s;
    u[5] = g[2];
  }
  static SLIPWAY_INLINE void Output(const Vec* m, Vec* y) {
    const Vec p = m[1] + m[2], q = m[1] - m[2], r = m[3] + m[4], s = m[3] - m[4];
    y[0] = m[0] + p + r;
    y[1] = q * a + s * b;
    y[2] = p * a2 + r * b2;
    y[3] = q * (a2 * a) + s * (b2 * b) + m[5];
  }
};

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
void WinogradWeights(const float* w, int64_t channels, float* u, int64_t element) {
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
    Vec g[9];
#pragma GCC unroll 9
    for (int i = 0; i < 9; ++i) g[i] = Join(part[i]);
    Vec half[3][T];  // columns of filters, transformed
#pragma GCC unroll 3
    for (int j = 0; j < 3; ++j) {
      const Vec column[3] = {g[j], g[3 + j], g[6 + j]};
      WinogradOf<M>::Weights(column, half[j]);
    }
#pragma GCC unroll 6
    for (int i = 0; i < T; ++i) {
      const Vec row[3] = {half[0][i], half[1][i], half[2][i]};
      Vec out[T];
      WinogradOf<M>::Weights(row, out);
#pragma GCC unroll 6
      for (int j = 0; j < T; ++j) Store(u + (i * T + j) * element + c, out[j]);
    }
  }
}

template <int M>
void WinogradInput(const float* x, int64_t line, int64_t rows, int64_t tiles, float* v, int64_t element) {
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
        WinogradOf<M>::Input(column, out);
#pragma GCC unroll 6
        for (int k = 0; k < T; ++k) half[k][j] = out[k];
      }
      float* to = v + i;
#pragma GCC unroll 6
      for (int k = 0; k < T; ++k) {
        Vec out[T];
        WinogradOf<M>::Input(half[k], out);
#pragma GCC unroll 6
        for (int j = 0; j < T; ++j, to += element) Store(to, out[j]);
      }
    }
}

template <int M>
void WinogradOutput(const float* p, int64_t element, int64_t tiles, float* out, int64_t row) {
  constexpr int T = M + 2;
  for (int64_t i = 0; i < tiles; i += kLanes, p += kLanes, out += M * kLanes) {
    Vec half[M][T];
    const float* at = p;
#pragma GCC unroll 6
    for (int k = 0; k < T; ++k) {  // row k of the tiles, along its columns
      Vec line[T], y[M];
#pragma GCC unroll 6
      for (int j = 0; j < T; ++j, at += element) line[j] = Load(at);
      WinogradOf<M>::Output(line, y);
#pragma GCC unroll 4
      for (int j = 0; j < M; ++j) half[j][k] = y[j];
    }
    Vec result[M][M];  // by column
#pragma GCC unroll 4
    for (int j = 0; j < M; ++j) WinogradOf<M>::Output(half[j], result[j]);
#pragma GCC unroll 4
    for (int k = 0; k < M; ++k) {
      float* to = out + k * row;
#pragma GCC unroll 4
      for (int q = 0; q < kLanes / 4; ++q) {
        if (M == 4) {
          Vec4 r[4] = {Part(result[0][k], q), Part(result[1][k], q), Part(result[2 % M][k], q),
                       Part(result[3 % M][k], q)};
          Transpose4x4(r);
          for (int n = 0; n < 4; ++n) *reinterpret_cast<Vec4At*>(to + 16 * q + 4 * n) = r[n];
        } else {
          const Vec4 a = Part(result[0][k], q), b = Part(result[1][k], q);
          *reinterpret_cast<Vec4At*>(to + 8 * q) = __builtin_shuffle(a, b, Int4{0, 4, 1, 5});
          *reinterpret_cast<Vec4At*>(to + 8 * q + 4) = __builtin_shuffle(a, b, Int4{2, 6, 3, 7});
        }
      }
    }
  }
}

#include "kernels/isa/last_body.h"
#include "kernels/isa/plane_body.h"

constexpr ConvIsa kConvIsa = {
    kLanes,
    kWidth,
    kRows,
    kLanes / 2,
    ConvBlockOf,
    LayPanel,
    LayRowsPanel,
    FinishConv,
    PadRows,
    SumTaps,
    MaxTaps,
    PlaneTapsOf,
    {{WinogradWeights<2>, WinogradInput<2>, WinogradOutput<2>},
     {WinogradWeights<4>, WinogradInput<4>, WinogradOutput<4>}},
    kLastRows,
    SLIPWAY_SUM_TILE ? kLastRows : 1,
    LastBlockOf,
    LastGroups,
    LastTapsOf,
    LastWinogradFilters,
    LastWinogradTile,
    LastWinogradResult,
    LastPoolOf<true>,
    LastPoolOf<false>,
    NormOf,
};
