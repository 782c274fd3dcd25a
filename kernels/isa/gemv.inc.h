// Matrix products of small m, n or both, which read each element of the matrix once at the speed of memory: dot
// products along k, linear combinations of rows, and packed panels (GEMV). Included after elements.inc.h.

// c[M,n] = a[M,k] · b for M up to 4 and dense columns of b: N columns at a time, U vectors of k per step.
template <int M, typename S>
void Dots(const GemmParams& g, const float* a, int64_t a_stride) {
  constexpr int N = M <= 2 ? 4 : 3, U = M == 1 ? 2 : 1;
  const S* b = static_cast<const S*>(g.b.data);
  const int64_t apart = g.n / N;  // between the N streams
  auto put = [&](int m, int64_t n, float x) {
    float& c = g.c[m * g.c_stride + n * g.c_column_stride];
    c = (g.accumulate ? c : g.bias != nullptr ? g.bias[n] : 0) + x;
  };
  for (int64_t j = 0; j < apart; ++j) {
    const S* row[N];
    Vec sum[M][N][U] = {};
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) row[i] = b + (j + i * apart) * g.b.column;
    int64_t p = 0;
    for (; p + U * kLanes <= g.k; p += U * kLanes) {
#pragma GCC unroll 2
      for (int u = 0; u < U; ++u) {
        Vec x[M];
#pragma GCC unroll 4
        for (int m = 0; m < M; ++m) x[m] = Load(a + m * a_stride + p + u * kLanes);
#pragma GCC unroll 4
        for (int i = 0; i < N; ++i) {
          const Vec w = LoadAs(row[i] + p + u * kLanes);
#pragma GCC unroll 4
          for (int m = 0; m < M; ++m) sum[m][i][u] += x[m] * w;
        }
      }
    }
    for (int i = 0; i < N; ++i)
      for (int m = 0; m < M; ++m) {
        float s = Sum(U == 2 ? sum[m][i][0] + sum[m][i][U - 1] : sum[m][i][0]);
        for (int64_t q = p; q < g.k; ++q) s += a[m * a_stride + q] * ToFloat(row[i][q]);
        put(m, j + i * apart, s);
      }
  }
  for (int64_t j = apart * N; j < g.n; ++j)
    for (int m = 0; m < M; ++m) {
      const S* row = b + j * g.b.column;
      Vec sum{};
      int64_t p = 0;
      for (; p + kLanes <= g.k; p += kLanes) sum += Load(a + m * a_stride + p) * LoadAs(row + p);
      float s = Sum(sum);
      for (; p < g.k; ++p) s += a[m * a_stride + p] * ToFloat(row[p]);
      put(m, j, s);
    }
}

// c[1,n] = Σ a[p] · b[p,n] over dense rows of b: N vectors of c at a time.
template <typename S>
void GemvByRows(const GemmParams& g, const float* a) {
  constexpr int N = 8;
  const S* b = static_cast<const S*>(g.b.data);
  int64_t j = 0;
  for (; j + N * kLanes <= g.n; j += N * kLanes) {
    Vec sum[N] = {};
    for (int64_t p = 0; p < g.k; ++p) {
      const Vec x = Broadcast(a[p]);
#pragma GCC unroll 8
      for (int i = 0; i < N; ++i) sum[i] += x * LoadAs(b + p * g.b.row + j + i * kLanes);
    }
    float* c = g.c + j;
    for (int i = 0; i < N; ++i, c += kLanes) {
      if (g.accumulate)
        sum[i] += Load(c);
      else if (g.bias != nullptr)
        sum[i] += Load(g.bias + j + i * kLanes);
      Store(c, sum[i]);
    }
  }
  for (; j + kLanes <= g.n; j += kLanes) {
    Vec sum[2] = {};
    int64_t p = 0;
    for (; p + 2 <= g.k; p += 2) {
      sum[0] += Broadcast(a[p]) * LoadAs(b + p * g.b.row + j);
      sum[1] += Broadcast(a[p + 1]) * LoadAs(b + (p + 1) * g.b.row + j);
    }
    if (p < g.k) sum[0] += Broadcast(a[p]) * LoadAs(b + p * g.b.row + j);
    sum[0] += sum[1];
    if (g.accumulate)
      sum[0] += Load(g.c + j);
    else if (g.bias != nullptr)
      sum[0] += Load(g.bias + j);
    Store(g.c + j, sum[0]);
  }
  for (; j < g.n; ++j) {
    float s = g.accumulate ? g.c[j] : g.bias != nullptr ? g.bias[j] : 0;
    for (int64_t p = 0; p < g.k; ++p) s += a[p] * ToFloat(b[p * g.b.row + j]);
    g.c[j] = s;
  }
}

// c[R,n] over a packed weight [n / nr][k][nr]: P panels at a time with all R × P × nr accumulators in registers.
template <int R, int P, typename S>
SLIPWAY_INLINE void GemvPanelTile(const GemmParams& g, const float* a, int64_t a_stride, int64_t j) {
  constexpr int V = kPanel / kLanes;
  const S* b = static_cast<const S*>(g.b.data) + j * g.b.row;
  Vec sum[R][P][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int q = 0; q < P; ++q)
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[r][q][v] = Vec{};
  constexpr int64_t kRowBytes = kPanel * sizeof(S);
  const PanelPrefetch<P> prefetch(g.b.row * kRowBytes);
  int64_t p = 0;
  auto rows_before = [&](int64_t end) __attribute__((always_inline)) {
    for (const int64_t distance = prefetch.From(p * kRowBytes); p < end; ++p, b += kPanel) {
      Vec x[R];
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) x[r] = Broadcast(a[r * a_stride + p]);
#pragma GCC unroll 8
      for (int q = 0; q < P; ++q) {
        const S* row = b + q * kPanel * g.b.row;
        // f32 gains nothing by it
        if constexpr (sizeof(S) < 4) PrefetchOnce(reinterpret_cast<const char*>(row) + distance);
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) {
          const Vec w = LoadAs(row + v * kLanes);
#pragma GCC unroll 8
          for (int r = 0; r < R; ++r) sum[r][q][v] += x[r] * w;
        }
      }
    }
  };
  rows_before(Min(g.k, prefetch.panel_end / kRowBytes));
  rows_before(g.k);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int q = 0; q < P; ++q)
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        const int64_t at = j + q * kPanel + v * kLanes, n = Min(kLanes, g.n - at);
        float* c = g.c + r * g.c_stride + at * g.c_column_stride;
        Vec y = sum[r][q][v];
        if (n == kLanes && g.c_column_stride == 1) {
          if (g.bias != nullptr) y += Load(g.bias + at);
          if (g.accumulate) y += Load(c);
          Store(c, y);
          continue;
        }
        alignas(64) float out[kLanes];
        Store(out, y);
        for (int64_t i = 0; i < n; ++i)
          c[i * g.c_column_stride] =
              out[i] + (g.bias != nullptr ? g.bias[at + i] : 0) + (g.accumulate ? c[i * g.c_column_stride] : 0);
      }
}
template <int R, typename S>
__attribute__((noinline)) void GemvPanels(const GemmParams& g, const float* a, int64_t a_stride) {
  // Enough accumulators to hide the latency of one, or as many as registers hold.
  constexpr int kSums = SLIPWAY_ISA_BYTES == 64 ? 16 : SLIPWAY_ISA_BYTES == 32 ? 12 : 8;
  constexpr int P = kSums / (R * (kPanel / kLanes)) < 1   ? 1
                    : kSums / (R * (kPanel / kLanes)) > 4 ? 4
                                                          : kSums / (R * (kPanel / kLanes));
  // P streams, far enough apart for the hardware prefetchers.
  int64_t j = 0;
  for (; j + P * kPanel <= g.n; j += P * kPanel) GemvPanelTile<R, P, S>(g, a, a_stride, j);
  for (; j < g.n; j += kPanel) GemvPanelTile<R, 1, S>(g, a, a_stride, j);
}
constexpr int64_t kMaxGemvRows = SLIPWAY_ISA_BYTES == 16 ? 2 : 4;
