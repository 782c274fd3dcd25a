// GEMM micro-kernels (gemm.h): C[m,n] = A[m,k] · B[k,n] (+ bias), accumulators f32. Part of gemm.cc.
//
// Layouts: A rows of f32, in place or copied kPackedAStride apart (mc × kc); B panels [nc / nr][kc][nr], nr = kWidth =
// 2 vectors, packed here or in the model ([n / 16][k][16]). Tile: mr × nr = kRows × 2 vectors of accumulators, 6 × 16
// with AVX2 (12 of 16 registers), 12 × 32 with AVX-512 (24 of 32), 6 × 8 with SSE, 12 × 8 with NEON. A step loads a row
// of the panel and broadcasts an element of each row of A. A panel stays in the first-level cache while all rows pass.
// The caller guarantees sizes, memory and workspace.

constexpr int64_t kDepth = 400;                  // kc
constexpr int64_t kPackedAStride = kDepth + 16;  // rows of a copy map to different cache sets
constexpr int64_t kMc = 144 / kRows * kRows;
constexpr int64_t kPanels = 1024 / kWidth;  // nc / nr
// up to this m, the transposed product is computed where that saves packing
constexpr int64_t kMaxTransposedRows = 64;

#include "kernels/isa/gemm_pack.inc.h"

// The output of a tile: c(i, j) is c[i * row + j * column]. `add`: c is accumulated to; else a bias by row or by column
// is added.
struct CTile {
  float* c;
  int64_t row, column;
  bool add;
  const float *row_bias, *column_bias;
};

// Rows of B for one tile: two vectors each, the second `next` elements after the first.
struct BTile {
  const float* at;
  int64_t row, next;
};

// C tile of R × 2 vectors: c += a[R,k] · b[k,2 vectors]. `prefetch`, if not null, is memory that the next tile reads:
// assembler tiles prefetch one line of it every four steps, others one every step.
template <int R>
__attribute__((noinline)) void Tile(int64_t k, const float* a, int64_t a_stride, const BTile& right, int64_t n,
                                    const CTile& to, [[maybe_unused]] const char* prefetch) {
  // Lines of c are prefetched while the tile accumulates.
  if (to.column == 1)
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      __builtin_prefetch(to.c + r * to.row, 1);
      if (kWidth > 16) __builtin_prefetch(to.c + r * to.row + 16, 1);
    }
  Vec sum[R][2];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) sum[r][0] = sum[r][1] = Vec{};
#if SLIPWAY_ASM_TILE
  if constexpr (R == 6) {
    AccumulateTile(k, a, a_stride, right.at, right.row, right.next, prefetch, sum);
  } else
#endif
  {
    const float* b = right.at;
    const int64_t b_stride = right.row, b_next = right.next, by = prefetch != nullptr ? 64 : 0;
    if (prefetch == nullptr) prefetch = reinterpret_cast<const char*>(b);
#pragma GCC unroll 1
    for (int64_t p = 0; p < k; ++p, b += b_stride, prefetch += by) {
      const Vec b0 = Load(b), b1 = Load(b + b_next);
      __builtin_prefetch(prefetch);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const Vec x = Broadcast(a[r * a_stride + p]);
        sum[r][0] += x * b0;
        sum[r][1] += x * b1;
      }
    }
  }
  if (to.row_bias != nullptr) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Vec x = Broadcast(to.row_bias[r]);
      sum[r][0] += x, sum[r][1] += x;
    }
  }
  if (to.column == 1 && n == kWidth) {
    if (to.column_bias != nullptr) {
      const Vec b0 = Load(to.column_bias), b1 = Load(to.column_bias + kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) sum[r][0] += b0, sum[r][1] += b1;
    }
    float* c = to.c;
    if (to.add) {
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r, c += to.row) {
        Store(c, Load(c) + sum[r][0]);
        Store(c + kLanes, Load(c + kLanes) + sum[r][1]);
      }
    } else {
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r, c += to.row) {
        Store(c, sum[r][0]);
        Store(c + kLanes, sum[r][1]);
      }
    }
    return;
  }
  alignas(64) float tile[(R + 3) / 4 * 4][kWidth];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) Store(tile[r], sum[r][0]), Store(tile[r] + kLanes, sum[r][1]);
  if (to.row == 1 && n == kWidth && to.column_bias == nullptr) {  // c is written transposed
    int r = 0;
    for (; r + 4 <= R; r += 4)
#pragma GCC unroll 16
      for (int j = 0; j < kWidth; j += 4) {
        Vec4 t[4] = {Load4(&tile[r][j]), Load4(&tile[r + 1][j]), Load4(&tile[r + 2][j]), Load4(&tile[r + 3][j])};
        Transpose4x4(t);
        for (int i = 0; i < 4; ++i) {
          float* c = to.c + (j + i) * to.column + r;
          *reinterpret_cast<Vec4At*>(c) = to.add ? Load4(c) + t[i] : t[i];
        }
      }
    for (int j = 0; j < kWidth && r < R; ++j)
      for (int i = r; i < R; ++i) {
        float& c = to.c[j * to.column + i];
        c = to.add ? c + tile[i][j] : tile[i][j];
      }
    return;
  }
  for (int j = 0; j < n; ++j) {
    const float bias = to.column_bias != nullptr ? to.column_bias[j] : 0;
    for (int r = 0; r < R; ++r) {
      float& c = to.c[r * to.row + j * to.column];
      c = (to.add ? c : bias) + tile[r][j];
    }
  }
}

template <int R = kRows>
SLIPWAY_INLINE void TileOf(int64_t rows, int64_t k, const float* a, int64_t a_stride, const BTile& b, int64_t n,
                           const CTile& to, const char* prefetch) {
  if (rows == R) return Tile<R>(k, a, a_stride, b, n, to, prefetch);
  if constexpr (R > 1) TileOf<R - 1>(rows, k, a, a_stride, b, n, to, prefetch);
}

// Columns [j, j + width) of the rows [k0, k0 + k) of a packed weight: f32 in place; bf16 and f16 become f32 in `room`,
// which stays in the first-level cache while all rows of A are multiplied.
SLIPWAY_INLINE BTile PackedB(const GemmParams& g, int64_t k0, int64_t k, int64_t j, int64_t width, float* room) {
  const int64_t at = j / kPanel * kPanel * g.b.row + k0 * kPanel + j % kPanel;
  // Where vectors are wide the second is of the next panel, if there is one.
  const int64_t next = kLanes < kPanel ? kLanes : width > kPanel ? kPanel * g.b.row : 0;
  if (g.b.dtype == DType::kF32) return {static_cast<const float*>(g.b.data) + at, kPanel, next};
  WithElement(g.b, [&](auto* from) {
    from += at;
    for (int64_t p = 0; p < k; ++p, from += kPanel) {
      Store(room + p * kWidth, LoadAs(from));
      Store(room + p * kWidth + kLanes, LoadAs(from + next));
    }
  });
  return {room, kWidth, kLanes};
}

// Whether panels of B are read in place: packing does not pay for small m.
bool InPlace(const GemmParams& g) { return !g.packed && g.b.dtype == DType::kF32 && g.b.column == 1 && g.m <= kRows; }

int64_t BlockScratch(const GemmParams& g) {
  const int64_t k = Min(g.k, kDepth);
  const int64_t panels = g.packed ? 1 : Min(kPanels, (g.n + kWidth - 1) / kWidth);
  return k * kWidth * panels + kPackedAStride * Min(kMc, g.m) + 64;
}

// The GEMM by the tiles of conv_nhwc.inc.h over panels of kPanel columns, w_panel_stride apart. Up to one vector of
// columns these have tiles of one vector.
void GemmByNhwcTiles(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_stride, const float* w,
                     int64_t w_panel_stride, const CTile& to) {
  const int64_t segment = 0;
  NhwcIgemmParams b;
  b.m = m, b.n = n, b.k = k;
  b.x = a, b.x_stride = a_stride, b.segments = &segment, b.segment_count = 1;
  b.w = w, b.w_panel_stride = w_panel_stride, b.out = to.c, b.out_stride = to.row;
  b.accumulate = to.add, b.epilogue.bias = to.column_bias;
  SLIPWAY_ISA::kConvNhwc.igemm(b);
}

// Blocks of columns, of k and of rows, cache-resident from the outside in: one loop nest.
void BlockGemm(const GemmParams& g, const float* row_bias, float* scratch) {
  // Blocks of about equal size, of whole unrolled steps and whole tiles. The tiles of conv_nhwc.inc.h are taller than
  // these, or prefetch more evenly.
  const bool tall = (kNhwcMr > kRows || SLIPWAY_ASM_TILE) && g.packed && g.b.dtype == DType::kF32 &&
                    g.c_column_stride == 1 && row_bias == nullptr;
  const int64_t depth = EvenBlock(g.k, kDepth, 4),
                left_rows = tall ? EvenBlock(g.m, kMc / kNhwcMr * kNhwcMr, kNhwcMr) : EvenBlock(g.m, kMc, kRows);
  const bool in_place = InPlace(g);
  for (int64_t n0 = 0; n0 < g.n; n0 += kPanels * kWidth) {
    const int64_t n = Min(kPanels * kWidth, g.n - n0);
    for (int64_t k0 = 0; k0 < g.k; k0 += depth) {
      const int64_t k = Min(depth, g.k - k0);
      float* panels = scratch;
      float* left = scratch + k * kWidth * (g.packed ? 1 : (n + kWidth - 1) / kWidth);
      // Rows whose stride is a multiple of half a page map to the same cache sets.
      const bool conflicts = g.a.row % 512 == 0;
      const bool copied = g.a.dtype != DType::kF32 || g.a.column != 1 || (conflicts && g.m > kRows && n > 4 * kWidth);
      const bool first = k0 == 0;
      for (int64_t m0 = 0; m0 < g.m; m0 += left_rows) {
        const int64_t m = Min(left_rows, g.m - m0);
        const float* a = nullptr;
        int64_t a_stride = kPackedAStride;
        if (copied) {
          WithElement(g.a,
                      [&](auto* p) { PackA(p + m0 * g.a.row + k0 * g.a.column, g.a.row, g.a.column, m, k, left); });
          a = left;
        } else {
          a = static_cast<const float*>(g.a.data) + m0 * g.a.row + k0;
          a_stride = g.a.row;
        }
        if (tall && m > kRows) {
          const CTile to = {g.c + m0 * g.c_stride + n0, g.c_stride, 1,
                            g.accumulate || !first,     nullptr,    first && g.bias != nullptr ? g.bias + n0 : nullptr};
          GemmByNhwcTiles(m, n, k, a, a_stride, static_cast<const float*>(g.b.data) + n0 * g.b.row + k0 * kPanel,
                          kPanel * g.b.row, to);
          continue;
        }
        for (int64_t j = 0; j < n; j += kWidth) {
          const int64_t width = Min(kWidth, n - j);
          const bool narrow = width <= kLanes &&
                              (g.packed ? g.b.dtype == DType::kF32 && m > kRows : kPanel <= kWidth) &&
                              g.c_column_stride == 1 && row_bias == nullptr;
          BTile right = {panels + j * k, kWidth, kLanes};
          if (g.packed) {
            right = PackedB(g, k0, k, n0 + j, width, panels);
          } else if (in_place && width == kWidth) {
            right.at = static_cast<const float*>(g.b.data) + k0 * g.b.row + n0 + j;
            right.row = g.b.row;
          } else if (m0 == 0) {
            WithElement(g.b, [&](auto* p) {
              p += k0 * g.b.row + (n0 + j) * g.b.column;
              narrow ? PackB<kPanel>(p, g.b.row, g.b.column, k, width, panels + j * k)
                     : PackB<kWidth>(p, g.b.row, g.b.column, k, width, panels + j * k);
            });
          }
          // The last rows prefetch what the next columns read.
          const int size = g.packed ? ByteSize(g.b.dtype) : 4;
          const char* next = nullptr;
          if (j + kWidth < n && g.packed)
            next = static_cast<const char*>(g.b.data) + ((n0 + j + kWidth) * g.b.row + k0 * kPanel) * size;
          else if (j + kWidth < n && !in_place)
            next = reinterpret_cast<const char*>(right.at + k * kWidth);
          CTile to = {nullptr,           g.c_stride,
                      g.c_column_stride, g.accumulate || !first,
                      nullptr,           first && g.bias != nullptr ? g.bias + n0 + j : nullptr};
          if (narrow) {
            to.c = g.c + m0 * g.c_stride + n0 + j;
            GemmByNhwcTiles(m, width, k, a, a_stride, right.at, 0, to);
            continue;
          }
          for (int64_t i = 0, rows; i < m; i += rows) {
            rows = m - i <= kRows ? m - i : m - i < 2 * kRows ? (m - i + 1) / 2 : kRows;
            to.c = g.c + (m0 + i) * g.c_stride + (n0 + j) * g.c_column_stride;
            to.row_bias = first && row_bias != nullptr ? row_bias + m0 + i : nullptr;
#if SLIPWAY_ASM_TILE
            const bool prefetch = next != nullptr && m - i < (size + 1) * kRows;
            TileOf(rows, k, a + i * a_stride, a_stride, right, width, to, prefetch ? next : nullptr);
            if (prefetch) next += k / 4 * 64;
#else
            // One panel per tile.
            const int64_t after = m - i <= kRows ? 0 : m - i <= 2 * kRows ? 1 : 2;
            const bool prefetch = next != nullptr && after < Max(1, kWidth / kPanel);
            TileOf(rows, k, a + i * a_stride, a_stride, right, width, to,
                   prefetch ? next + after * (g.packed ? g.b.row * kPanel * size : k * 64) : nullptr);
#endif
          }
        }
      }
    }
  }
}

#include "kernels/isa/gemv.inc.h"

constexpr int64_t kMaxDotRows = 8;
// dot products along the rows of a: less than a vector of columns, long enough k
constexpr int64_t kMaxDotColumns = 3, kMinDotLength = 32;

GemmAlgorithm AlgorithmOf(const GemmParams& g) {
  if (g.packed) return g.m <= kMaxGemvRows ? GemmAlgorithm::kPanels : GemmAlgorithm::kTiles;
  if (g.m <= kMaxDotRows && g.b.row == 1) return GemmAlgorithm::kDots;
  if (g.m == 1 && g.b.column == 1 && g.c_column_stride == 1) return GemmAlgorithm::kCombine;
  if (g.n <= kMaxDotColumns && g.k >= kMinDotLength && g.a.column == 1) return GemmAlgorithm::kColumnDots;
  // c' = b' · a': a, of small_m rows, is packed and b is read in place.
  const bool small_m = g.m <= kMaxTransposedRows && 2 * g.m < g.k && g.m < g.n;
  return small_m && g.b.row == 1 && g.b.column != 1 && !g.accumulate ? GemmAlgorithm::kTransposed
                                                                     : GemmAlgorithm::kTiles;
}
bool IsBlocked(GemmAlgorithm algorithm) {
  return algorithm == GemmAlgorithm::kTransposed || algorithm == GemmAlgorithm::kTiles;
}

GemmParams Transposed(GemmParams g) {
  const MatrixRef a = g.a;
  g.a = {g.b.data, g.b.dtype, g.b.column, g.b.row};
  g.b = {a.data, a.dtype, a.column, a.row};
  const int64_t m = g.m, row = g.c_stride;
  g.m = g.n, g.n = m;
  g.c_stride = g.c_column_stride, g.c_column_stride = row;
  g.bias = nullptr;
  return g;
}

int64_t GemmWorkspace(const GemmParams& g) {
  const GemmAlgorithm algorithm = AlgorithmOf(g);
  if (algorithm == GemmAlgorithm::kColumnDots) return (g.k + 64) * g.n;
  if (!IsBlocked(algorithm)) return (g.k + 64) * g.m;
  return BlockScratch(algorithm == GemmAlgorithm::kTransposed ? Transposed(g) : g);
}

void Gemm(const GemmParams& g, float* scratch) {
  if (g.m <= 0 || g.n <= 0) return;
  const GemmAlgorithm algorithm = AlgorithmOf(g);
  if (algorithm == GemmAlgorithm::kColumnDots) {
    GemmParams t = Transposed(g);
    for (int64_t i = 0; i < g.m && g.bias != nullptr && !g.accumulate; ++i)
      for (int64_t j = 0; j < g.n; ++j) g.c[i * g.c_stride + j * g.c_column_stride] = g.bias[j];
    t.accumulate = g.accumulate || g.bias != nullptr;
    return Gemm(t, scratch);
  }
  if (!IsBlocked(algorithm)) {
    // Dense rows of a in f32.
    const float* a = static_cast<const float*>(g.a.data);
    int64_t row = g.a.row;
    if (g.a.dtype != DType::kF32 || g.a.column != 1) {
      WithElement(g.a, [&](auto* p) {
        for (int64_t i = 0; i < g.m; ++i)
          for (int64_t q = 0; q < g.k; ++q) scratch[i * g.k + q] = ToFloat(p[i * g.a.row + q * g.a.column]);
      });
      a = scratch, row = g.k;
    }
    WithElement(g.b, [&]<typename S>(const S*) {
      if (algorithm == GemmAlgorithm::kPanels) {
        if (g.m == 1) return GemvPanels<1, S>(g, a, row);
        if (g.m == 2) return GemvPanels<2, S>(g, a, row);
        if constexpr (kMaxGemvRows > 2) return g.m == 3 ? GemvPanels<3, S>(g, a, row) : GemvPanels<4, S>(g, a, row);
      }
      if (algorithm == GemmAlgorithm::kCombine) return GemvByRows<S>(g, a);
      if (g.m == 1) return Dots<1, S>(g, a, row);
      // Up to four rows at a time, over columns small_m enough to stay block.
      const int64_t block = g.m <= 4 ? g.n : 96;
      for (int64_t n = 0; n < g.n; n += block)
        for (int64_t m = 0; m < g.m; m += 4) {
          GemmParams part = g;
          part.n = Min(block, g.n - n);
          part.b.data = static_cast<const S*>(g.b.data) + n * g.b.column;
          part.c = g.c + m * g.c_stride + n * g.c_column_stride;
          if (g.bias != nullptr) part.bias = g.bias + n;
          const float* rows = a + m * row;
          const int64_t left = g.m - m;
          if (left == 1)
            Dots<1, S>(part, rows, row);
          else if (left == 2)
            Dots<2, S>(part, rows, row);
          else if (left == 3)
            Dots<3, S>(part, rows, row);
          else
            Dots<4, S>(part, rows, row);
        }
    });
    return;
  }
  if (g.k <= 0) {
    if (g.accumulate) return;
    for (int64_t i = 0; i < g.m; ++i)
      for (int64_t j = 0; j < g.n; ++j) g.c[i * g.c_stride + j * g.c_column_stride] = g.bias != nullptr ? g.bias[j] : 0;
    return;
  }
  if (algorithm == GemmAlgorithm::kTransposed)
    BlockGemm(Transposed(g), g.bias, scratch);
  else
    BlockGemm(g, nullptr, scratch);
}
