// Products of a few rows with keys and values in 8 bits (attention.h). Part of attention.cc.

template <typename F>
SLIPWAY_INLINE void WithCodes(const CodeRows& codes, F f) {
  if (codes.dtype == DType::kI8)
    f(static_cast<const int8_t*>(codes.at));
  else
    f(static_cast<const E4M3Bits*>(codes.at));
}

void CodeDots(const float* a, int64_t m, const CodeRows& codes, int64_t n, int64_t k, float* out) {
  WithCodes(codes, [&]<typename S>(const S* from) {
    // Up to four rows at a time, over keys that stay in the first-level cache where there are more.
    const int64_t block = m <= 4 ? n : 96;
    for (int64_t j = 0; j < n; j += block)
      for (int64_t i = 0; i < m; i += 4) {
        GemmParams g;
        g.n = Min(block, n - j), g.k = k;
        g.b.data = from + j * codes.stride, g.b.column = codes.stride;
        g.c = out + i * n + j, g.c_stride = n;
        const float* rows = a + i * k;
        switch (m - i) {
          case 1: Dots<1, S>(g, rows, k); break;
          case 2: Dots<2, S>(g, rows, k); break;
          case 3: Dots<3, S>(g, rows, k); break;
          default: Dots<4, S>(g, rows, k);
        }
      }
  });
}

// Columns [0, N vectors) of M rows.
template <int M, int N, typename S>
SLIPWAY_INLINE void CombineTile(const float* a, const S* codes, int64_t stride, int64_t n, int64_t k, bool accumulate,
                                float* out) {
  Vec sum[M][N];
#pragma GCC unroll 4
  for (int i = 0; i < M; ++i)
#pragma GCC unroll 8
    for (int c = 0; c < N; ++c) sum[i][c] = accumulate ? Load(out + i * k + c * kLanes) : Vec{};
  for (int64_t j = 0; j < n; ++j, codes += stride) {
    Vec x[M];
#pragma GCC unroll 4
    for (int i = 0; i < M; ++i) x[i] = Broadcast(a[i * n + j]);
#pragma GCC unroll 8
    for (int c = 0; c < N; ++c) {
      const Vec w = LoadAs(codes + c * kLanes);
#pragma GCC unroll 4
      for (int i = 0; i < M; ++i) sum[i][c] += x[i] * w;
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < M; ++i)
#pragma GCC unroll 8
    for (int c = 0; c < N; ++c) Store(out + i * k + c * kLanes, sum[i][c]);
}
template <int M, int N, typename S>
__attribute__((noinline)) void CombineRows(const float* a, const S* codes, int64_t stride, int64_t n, int64_t k,
                                           int64_t columns, bool accumulate, float* out) {
  int64_t c = 0;
  for (; c + N * kLanes <= columns; c += N * kLanes) CombineTile<M, N>(a, codes + c, stride, n, k, accumulate, out + c);
  if constexpr (N > 1) {
    if (c < columns) CombineRows<M, N / 2>(a, codes + c, stride, n, k, columns - c, accumulate, out + c);
  } else {
    for (; c < columns; ++c)
      for (int i = 0; i < M; ++i) {
        float sum = accumulate ? out[i * k + c] : 0;
        for (int64_t j = 0; j < n; ++j) sum += a[i * n + j] * ToFloat(codes[j * stride + c]);
        out[i * k + c] = sum;
      }
  }
}
void CodeCombine(const float* a, int64_t m, const CodeRows& codes, int64_t n, int64_t k, bool accumulate, float* out) {
  // As many sums as registers hold beside what is widened and multiplied.
  constexpr int kSums = SLIPWAY_ISA_BYTES == 64 ? 16 : 8;
  WithCodes(codes, [&](const auto* from) {
    for (int64_t i = 0; i < m; i += 4) {
      const float* rows = a + i * n;
      float* to = out + i * k;
      switch (m - i) {
        case 1: CombineRows<1, 8>(rows, from, codes.stride, n, k, k, accumulate, to); break;
        case 2: CombineRows<2, kSums / 2>(rows, from, codes.stride, n, k, k, accumulate, to); break;
        case 3: CombineRows<3, kSums / 4>(rows, from, codes.stride, n, k, k, accumulate, to); break;
        default: CombineRows<4, kSums / 4>(rows, from, codes.stride, n, k, k, accumulate, to);
      }
    }
  });
}

void DequantizeCodes(const CodeRows& codes, const float* scales, int64_t n, int64_t k, float* out) {
  WithCodes(codes, [&](const auto* row) {
    for (int64_t j = 0; j < n; ++j, row += codes.stride, out += k) {
      const Vec scale = Broadcast(scales[j]);
      int64_t p = 0;
      for (; p + kLanes <= k; p += kLanes) Store(out + p, LoadAs(row + p) * scale);
      for (; p < k; ++p) out[p] = ToFloat(row[p]) * scales[j];
    }
  });
}
