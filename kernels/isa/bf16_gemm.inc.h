// The bf16 GEMM (bf16_gemm.h) of instruction sets with sums of two products. Part of bf16_gemm.cc, after
// pair_dot.inc.h and bf16_pairs.inc.h.
//
// Tile: mr × nr = kBf16Rows × at most kBf16Vectors vectors of f32 accumulators.

constexpr int kBf16Rows = 6, kBf16Vectors = 4;

// R rows × V vectors of columns, n of which count. Pairs of rows of b are `b_step` words apart.
template <int R, int V>
__attribute__((noinline)) void Bf16Tile(const uint16_t* a, int64_t a_stride, const uint32_t* b, int64_t b_step,
                                        int64_t depth, float* c, int64_t c_stride, int64_t n, const float* bias,
                                        bool add, const char* fetch, int64_t fetch_step, uint16_t* rounded,
                                        int64_t rounded_stride) {
  Vec sum[R][V];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[r][v] = Vec{};
  for (int64_t p = 0; p < depth; p += 2, b += b_step, fetch += fetch_step) {
    PrefetchOnce(fetch);
    WordVec w[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) w[v] = LoadWords(b + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const WordVec x = BroadcastPair(a + r * a_stride + p);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[r][v] = PairDot(sum[r][v], x, w[v]);
    }
  }
  const auto finish = [&]<bool kWhole>(int r, int v) __attribute__((always_inline)) {
    const int64_t count = kWhole ? kLanes : Min(kLanes, n - v * kLanes);
    if (kLanes < kPanel && count <= 0) return;
    float* to = c + r * c_stride + v * kLanes;
    if (add) sum[r][v] = LoadPartial(to, count) + sum[r][v];
    if (bias != nullptr) sum[r][v] = LoadPartial(bias + v * kLanes, count) + sum[r][v];
    if (rounded != nullptr)
      StorePartial(reinterpret_cast<BF16Bits*>(rounded + r * rounded_stride + v * kLanes), sum[r][v], count);
    else
      StorePartial(to, sum[r][v], count);
  };
  const bool whole = kLanes < kPanel && n >= V * kLanes;  // where a vector is a panel, masks cost nothing
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      if (whole)
        finish.template operator()<true>(r, v);
      else
        finish.template operator()<false>(r, v);
}

template <int V>
void Bf16Rows(const GemmParams& g, const uint32_t* b, int64_t b_step, int64_t p, int64_t depth, int64_t j,
              const NextBlock& next) {
  const auto* a = static_cast<const uint16_t*>(g.a.data) + p;
  const float* bias = p == 0 && g.bias != nullptr ? g.bias + j : nullptr;
  const bool add = p > 0 || g.accumulate;
  int64_t i = 0;
  const bool rounds = g.rounded != nullptr && p + depth == g.k;
  int64_t piece = 0;  // of the next block: each tile prefetches one, a line a step
  auto tile = [&]<int R>() {
    for (; i + R <= g.m; i += R, ++piece) {
      const bool fetches = piece < next.panels;
      Bf16Tile<R, V>(a + i * g.a.row, g.a.row, b, b_step, depth, g.c + i * g.c_stride + j, g.c_stride, g.n - j, bias,
                     add, fetches ? next.at + piece * next.step : reinterpret_cast<const char*>(b), fetches ? 64 : 0,
                     rounds ? g.rounded + i * g.rounded_stride + j : nullptr, g.rounded_stride);
    }
  };
  tile.template operator()<kBf16Rows>();
  tile.template operator()<3>();
  tile.template operator()<1>();
}

void Bf16Gemm(const GemmParams& g, float* workspace) {
  ForEachPairedBlock(
      g, workspace, [&](const uint32_t* pairs, int panels, int64_t j, int64_t p, int64_t depth, const NextBlock& next) {
        const int64_t step = panels * kPanel;
        NextBlock fetched = next;  // by the first columns
        for (int64_t at = 0; at < step && j + at < g.n; at += kBf16Vectors * kLanes, fetched = {}) {
          switch (Min(kBf16Vectors, (step - at) / kLanes)) {
            case 1: Bf16Rows<1>(g, pairs + at, step, p, depth, j + at, fetched); break;
            case 2: Bf16Rows<2>(g, pairs + at, step, p, depth, j + at, fetched); break;
            case 3: Bf16Rows<3>(g, pairs + at, step, p, depth, j + at, fetched); break;
            default: Bf16Rows<4>(g, pairs + at, step, p, depth, j + at, fetched);
          }
        }
      });
}
