// The loops that isa.h declares, for one instruction set: base.cc, avx2.cc, avx512.cc and neon.cc each include this
// file once, with SLIPWAY_ISA_NAME, SLIPWAY_ISA_TABLE, SLIPWAY_DOT_TABLE, SLIPWAY_ISA_BYTES (of a vector) and
// SLIPWAY_ISA_ROWS (rows of a tile: with two vectors each, what the registers hold). Written with the vector extensions
// of GCC and Clang; intrinsics only where these have no form of an instruction. Everything is in an unnamed namespace
// and calls no function outside it, so that code compiled for a newer processor is never linked into an older one's
// path.
#include <cstdint>

#if defined(__F16C__) || defined(__SSE4_1__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "kernels/isa/conv.h"
#include "kernels/isa/dot.h"
#include "kernels/isa/isa.h"
#include "kernels/isa/quant.h"
#include "kernels/turns.h"

namespace slipway::kernels {
namespace {

#include "kernels/isa/vectors.h"

// Elements as f32.
struct BFloat {
  uint16_t bits;
};
SLIPWAY_INLINE float ToFloat(int8_t x) { return x; }
SLIPWAY_INLINE float ToFloat(float x) { return x; }
SLIPWAY_INLINE float ToFloat(_Float16 x) { return static_cast<float>(x); }
SLIPWAY_INLINE float ToFloat(BFloat x) {
  const uint32_t u = static_cast<uint32_t>(x.bits) << 16;
  float f;
  __builtin_memcpy(&f, &u, 4);
  return f;
}
SLIPWAY_INLINE Vec LoadAs(const float* p) { return Load(p); }
SLIPWAY_INLINE Vec LoadAs(const _Float16* p) {
#if defined(__F16C__) && SLIPWAY_ISA_BYTES == 64
  return reinterpret_cast<Vec>(_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
#elif defined(__F16C__) && SLIPWAY_ISA_BYTES == 32
  return reinterpret_cast<Vec>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#elif defined(__aarch64__)
  return reinterpret_cast<Vec>(vcvt_f32_f16(vld1_f16(reinterpret_cast<const __fp16*>(p))));
#else
  Vec v;
  for (int i = 0; i < kLanes; ++i) v[i] = static_cast<float>(p[i]);
  return v;
#endif
}
SLIPWAY_INLINE Vec LoadAs(const BFloat* p) {
#if SLIPWAY_ISA_BYTES == 64
  const IntVec wide =
      reinterpret_cast<IntVec>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
#elif SLIPWAY_ISA_BYTES == 32
  const IntVec wide =
      reinterpret_cast<IntVec>(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#else
  const IntVec wide = __builtin_convertvector(*reinterpret_cast<const HalfBitsAt*>(p), IntVec);
#endif
  return reinterpret_cast<Vec>(wide << 16);
}

SLIPWAY_INLINE float Sum(Vec v) {
#if SLIPWAY_ISA_BYTES == 64
  Vec4 x = __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7) +
           (__builtin_shufflevector(v, v, 8, 9, 10, 11) + __builtin_shufflevector(v, v, 12, 13, 14, 15));
#elif SLIPWAY_ISA_BYTES == 32
  Vec4 x = __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
#else
  Vec4 x = v;
#endif
  x += __builtin_shuffle(x, Int4{2, 3, 0, 1});
  return x[0] + x[1];
}

// ---- Products of matrices.
// A tile of kRows × kWidth of c stays in registers while k runs: a row of the right operand's panel is loaded, elements
// of the left operand's rows are broadcast. Panels ([k][kWidth], zeros beyond the edge) stay in the first-level cache
// while all rows pass; the left operand's rows are copied so that they lie kLeftStride apart, or taken where they are.

constexpr int kRows = SLIPWAY_ISA_ROWS;
// The same of convolutions' tiles (last_body.h): of two vectors each, with registers left for the two of weights and
// one of the image.
constexpr int kLastRows = SLIPWAY_ISA_BYTES == 64 ? 14 : 6;
constexpr int kWidth = 2 * kLanes;
constexpr int64_t kDepth = 400;               // of a block
constexpr int64_t kLeftStride = kDepth + 16;  // rows of a copy fall into different sets of the cache
constexpr int64_t kLeftRows = 144 / kRows * kRows;
constexpr int64_t kPanels = 1024 / kWidth;  // of a block
// up to this many, the transposed product is computed where that saves packing
constexpr int64_t kFewRows = 64;

// Rows of 4 × 4.
SLIPWAY_INLINE void Transpose4x4(Vec4 r[4]) {
  const Vec4 a = __builtin_shuffle(r[0], r[1], Int4{0, 4, 1, 5}), b = __builtin_shuffle(r[2], r[3], Int4{0, 4, 1, 5});
  const Vec4 c = __builtin_shuffle(r[0], r[1], Int4{2, 6, 3, 7}), d = __builtin_shuffle(r[2], r[3], Int4{2, 6, 3, 7});
  r[0] = __builtin_shuffle(a, b, Int4{0, 1, 4, 5});
  r[1] = __builtin_shuffle(a, b, Int4{2, 3, 6, 7});
  r[2] = __builtin_shuffle(c, d, Int4{0, 1, 4, 5});
  r[3] = __builtin_shuffle(c, d, Int4{2, 3, 6, 7});
}
SLIPWAY_INLINE Vec4 Load4(const float* p) { return *reinterpret_cast<const Vec4At*>(p); }
SLIPWAY_INLINE Vec4 Load4(const _Float16* p) {
  return Vec4{ToFloat(p[0]), ToFloat(p[1]), ToFloat(p[2]), ToFloat(p[3])};
}
SLIPWAY_INLINE Vec4 Load4(const BFloat* p) { return Vec4{ToFloat(p[0]), ToFloat(p[1]), ToFloat(p[2]), ToFloat(p[3])}; }

void TransposeWords(const uint32_t* from, int64_t from_row, uint32_t* to, int64_t to_row, int64_t rows,
                    int64_t columns);

// to[p * kTo + j] = from[p * row + j * column] for p < k, j < n <= kTo; zeros beyond n.
template <int kTo, typename S>
void PackPanel(const S* from, int64_t row, int64_t column, int64_t k, int64_t n, float* to) {
  if (column == 1 && n == kTo) {
    for (int64_t p = 0; p < k; ++p, from += row, to += kTo) {
#pragma GCC unroll 4
      for (int v = 0; v < kTo; v += kLanes) Store(to + v, LoadAs(from + v));
    }
    return;
  }
  if (row == 1) {  // along k, then transposed
    for (int64_t p = 0; p < k && n < kTo; ++p)
      for (int64_t j = n / kLanes * kLanes; j < kTo; j += kLanes) Store(to + p * kTo + j, Vec{});
    if constexpr (sizeof(S) == 4)
      return TransposeWords(reinterpret_cast<const uint32_t*>(from), column, reinterpret_cast<uint32_t*>(to), kTo, k,
                            n);
    int64_t j = 0;
    for (; j + 4 <= n; j += 4) {
      const S* at = from + j * column;
      int64_t p = 0;
      for (; p + 4 <= k; p += 4) {
        Vec4 r[4] = {Load4(at + p), Load4(at + column + p), Load4(at + 2 * column + p), Load4(at + 3 * column + p)};
        Transpose4x4(r);
        for (int i = 0; i < 4; ++i) *reinterpret_cast<Vec4At*>(to + (p + i) * kTo + j) = r[i];
      }
      for (; p < k; ++p)
        for (int i = 0; i < 4; ++i) to[p * kTo + j + i] = ToFloat(at[i * column + p]);
    }
    for (; j < n; ++j)
      for (int64_t p = 0; p < k; ++p) to[p * kTo + j] = ToFloat(from[j * column + p]);
    return;
  }
  for (int64_t p = 0; p < k; ++p) {
    int64_t j = 0;
    for (; j < n; ++j) to[p * kTo + j] = ToFloat(from[p * row + j * column]);
    for (; j < kTo; ++j) to[p * kTo + j] = 0;
  }
}

// to[i * kLeftStride + p] = from[i * row + p * column] for i < m, p < k.
template <typename S>
void PackRows(const S* from, int64_t row, int64_t column, int64_t m, int64_t k, float* to) {
  if (column == 1) {
    for (int64_t i = 0; i < m; ++i, from += row, to += kLeftStride) {
      int64_t p = 0;
      for (; p + kLanes <= k; p += kLanes) Store(to + p, LoadAs(from + p));
      for (; p < k; ++p) to[p] = ToFloat(from[p]);
    }
    return;
  }
  int64_t i = 0;
  if (row == 1) {
    for (; i + 4 <= m; i += 4) {
      int64_t p = 0;
      for (; p + 4 <= k; p += 4) {
        Vec4 r[4] = {Load4(from + p * column + i), Load4(from + (p + 1) * column + i),
                     Load4(from + (p + 2) * column + i), Load4(from + (p + 3) * column + i)};
        Transpose4x4(r);
        for (int q = 0; q < 4; ++q) *reinterpret_cast<Vec4At*>(to + (i + q) * kLeftStride + p) = r[q];
      }
      for (; p < k; ++p)
        for (int q = 0; q < 4; ++q) to[(i + q) * kLeftStride + p] = ToFloat(from[p * column + i + q]);
    }
  }
  for (; i < m; ++i)
    for (int64_t p = 0; p < k; ++p) to[i * kLeftStride + p] = ToFloat(from[i * row + p * column]);
}

template <typename F>
SLIPWAY_INLINE void WithElement(const MatrixRef& x, F f) {
  if (x.dtype == DType::kF32)
    f(static_cast<const float*>(x.data));
  else if (x.dtype == DType::kBF16)
    f(static_cast<const BFloat*>(x.data));
  else
    f(static_cast<const _Float16*>(x.data));
}

void Pack(const MatrixRef& from, int64_t k, int64_t n, float* to) {
  WithElement(from, [&](auto* p) {
    for (int64_t j = 0; j < n; j += kPanel, to += k * kPanel)
      PackPanel<kPanel>(p + j * from.column, from.row, from.column, k, Least(kPanel, n - j), to);
  });
}

// Where a tile goes: c(i, j) is c[i * row + j * column]. What is added is c itself (`add`), or a bias by row or by
// column.
struct Target {
  float* c;
  int64_t row, column;
  bool add;
  const float *row_bias, *column_bias;
};

// The right operand's rows for one tile: two vectors each, the second `next` elements after the first.
struct Right {
  const float* at;
  int64_t row, next;
};

#if SLIPWAY_ISA_BYTES == 32 && defined(__FMA__)
#include "kernels/isa/avx2_tile.h"
#define SLIPWAY_SUM_TILE 1
#else
#define SLIPWAY_SUM_TILE 0
#endif

// `ahead` is what will be needed next, or null: of its lines, tiles of assembler fetch one for each four steps, others
// one a step.
template <int R>
__attribute__((noinline)) void Tile(int64_t k, const float* a, int64_t a_row, const Right& right, int64_t n,
                                    const Target& to, [[maybe_unused]] const char* ahead) {
  // What is added to in the end is on its way while the sums are made.
  if (to.column == 1)
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      __builtin_prefetch(to.c + r * to.row, 1);
      if (kWidth > 16) __builtin_prefetch(to.c + r * to.row + 16, 1);
    }
  Vec sum[R][2];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) sum[r][0] = sum[r][1] = Vec{};
#if SLIPWAY_SUM_TILE
  if constexpr (R == 6) {
    SumTile(k, a, a_row, right.at, right.row, right.next, ahead, sum);
  } else
#endif
  {
    const float* b = right.at;
    const int64_t b_row = right.row, b_next = right.next, by = ahead != nullptr ? 64 : 0;
    if (ahead == nullptr) ahead = reinterpret_cast<const char*>(b);
#pragma GCC unroll 1
    for (int64_t p = 0; p < k; ++p, b += b_row, ahead += by) {
      const Vec b0 = Load(b), b1 = Load(b + b_next);
      __builtin_prefetch(ahead);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const Vec x = Splat(a[r * a_row + p]);
        sum[r][0] += x * b0;
        sum[r][1] += x * b1;
      }
    }
  }
  if (to.row_bias != nullptr) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Vec x = Splat(to.row_bias[r]);
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
  if (to.row == 1 && n == kWidth && to.column_bias == nullptr) {  // a transposed product
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
SLIPWAY_INLINE void TileOf(int64_t rows, int64_t k, const float* a, int64_t a_row, const Right& b, int64_t n,
                           const Target& to, const char* ahead) {
  if (rows == R) return Tile<R>(k, a, a_row, b, n, to, ahead);
  if constexpr (R > 1) TileOf<R - 1>(rows, k, a, a_row, b, n, to, ahead);
}

// Columns [j, j + width) of the rows [k0, k0 + k) of a packed weight: f32 is read where it is; the others become f32 in
// `room`, which stays in the first-level cache while the rows of the left operand pass.
SLIPWAY_INLINE Right PackedRight(const GemmCall& g, int64_t k0, int64_t k, int64_t j, int64_t width, float* room) {
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

// Whether panels are read where they are: little is gained by packing for a few rows.
bool InPlace(const GemmCall& g) { return !g.packed && g.b.dtype == DType::kF32 && g.b.column == 1 && g.m <= kRows; }

// What n is taken in, at most `most` at once: multiples of `of`, which `most` is one of.
int64_t Even(int64_t n, int64_t most, int64_t of) {
  const int64_t blocks = (n + most - 1) / most;
  return blocks > 1 ? ((n + blocks - 1) / blocks + of - 1) / of * of : Most(n, 1);
}

int64_t BlockScratch(const GemmCall& g) {
  const int64_t k = Least(g.k, kDepth);
  const int64_t panels = g.packed ? 1 : Least(kPanels, (g.n + kWidth - 1) / kWidth);
  return k * kWidth * panels + kLeftStride * Least(kLeftRows, g.m) + 64;
}

void LastBlockOf(const LastBlock& g);
// The product by the tiles of convolutions, of panels of kPanel columns `w_panel` apart. Of columns that are no more
// than a vector these have tiles of one, not of one and an empty one.
void LastColumnsOf(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, const float* w, int64_t w_panel,
                   const Target& to) {
  const int64_t run = 0;
  LastBlock b;
  b.m = m, b.n = n, b.k = k;
  b.x = a, b.x_row = a_row, b.runs = &run, b.run_count = 1;
  b.w = w, b.w_panel = w_panel, b.out = to.c, b.out_row = to.row;
  b.accumulate = to.add, b.finish.shift = to.column_bias;
  LastBlockOf(b);
}

void BlockGemm(const GemmCall& g, const float* row_bias, float* scratch) {
  // Blocks of about the same size, of whole unrolled steps and whole tiles.
  // The tiles of convolutions are taller than those here, or fetch more evenly what comes next.
  const bool tall = (kLastRows > kRows || SLIPWAY_SUM_TILE) && g.packed && g.b.dtype == DType::kF32 &&
                    g.c_column == 1 && row_bias == nullptr;
  const int64_t depth = Even(g.k, kDepth, 4), left_rows = tall ? Even(g.m, kLeftRows / kLastRows * kLastRows, kLastRows)
                                                               : Even(g.m, kLeftRows, kRows);
  const bool in_place = InPlace(g);
  for (int64_t n0 = 0; n0 < g.n; n0 += kPanels * kWidth) {
    const int64_t n = Least(kPanels * kWidth, g.n - n0);
    for (int64_t k0 = 0; k0 < g.k; k0 += depth) {
      const int64_t k = Least(depth, g.k - k0);
      float* panels = scratch;
      float* left = scratch + k * kWidth * (g.packed ? 1 : (n + kWidth - 1) / kWidth);
      // Rows that lie a multiple of half a page apart meet in the same sets of the cache.
      const bool meet = g.a.row % 512 == 0;
      const bool copied = g.a.dtype != DType::kF32 || g.a.column != 1 || (meet && g.m > kRows && n > 4 * kWidth);
      const bool first = k0 == 0;
      for (int64_t m0 = 0; m0 < g.m; m0 += left_rows) {
        const int64_t m = Least(left_rows, g.m - m0);
        const float* a = nullptr;
        int64_t a_row = kLeftStride;
        if (copied) {
          WithElement(g.a,
                      [&](auto* p) { PackRows(p + m0 * g.a.row + k0 * g.a.column, g.a.row, g.a.column, m, k, left); });
          a = left;
        } else {
          a = static_cast<const float*>(g.a.data) + m0 * g.a.row + k0;
          a_row = g.a.row;
        }
        if (tall && m > kRows) {
          const Target to = {g.c + m0 * g.c_row + n0, g.c_row, 1,
                             g.accumulate || !first,  nullptr, first && g.bias != nullptr ? g.bias + n0 : nullptr};
          LastColumnsOf(m, n, k, a, a_row, static_cast<const float*>(g.b.data) + n0 * g.b.row + k0 * kPanel,
                        kPanel * g.b.row, to);
          continue;
        }
        for (int64_t j = 0; j < n; j += kWidth) {
          const int64_t width = Least(kWidth, n - j);
          const bool narrow = width <= kLanes &&
                              (g.packed ? g.b.dtype == DType::kF32 && m > kRows : kPanel <= kWidth) &&
                              g.c_column == 1 && row_bias == nullptr;
          Right right = {panels + j * k, kWidth, kLanes};
          if (g.packed) {
            right = PackedRight(g, k0, k, n0 + j, width, panels);
          } else if (in_place && width == kWidth) {
            right.at = static_cast<const float*>(g.b.data) + k0 * g.b.row + n0 + j;
            right.row = g.b.row;
          } else if (m0 == 0) {
            WithElement(g.b, [&](auto* p) {
              p += k0 * g.b.row + (n0 + j) * g.b.column;
              narrow ? PackPanel<kPanel>(p, g.b.row, g.b.column, k, width, panels + j * k)
                     : PackPanel<kWidth>(p, g.b.row, g.b.column, k, width, panels + j * k);
            });
          }
          // The last rows fetch what the next columns read.
          const int size = g.packed ? ByteSize(g.b.dtype) : 4;
          const char* next = nullptr;
          if (j + kWidth < n && g.packed)
            next = static_cast<const char*>(g.b.data) + ((n0 + j + kWidth) * g.b.row + k0 * kPanel) * size;
          else if (j + kWidth < n && !in_place)
            next = reinterpret_cast<const char*>(right.at + k * kWidth);
          Target to = {nullptr,    g.c_row,
                       g.c_column, g.accumulate || !first,
                       nullptr,    first && g.bias != nullptr ? g.bias + n0 + j : nullptr};
          if (narrow) {
            to.c = g.c + m0 * g.c_row + n0 + j;
            LastColumnsOf(m, width, k, a, a_row, right.at, 0, to);
            continue;
          }
          for (int64_t i = 0, rows; i < m; i += rows) {
            rows = m - i <= kRows ? m - i : m - i < 2 * kRows ? (m - i + 1) / 2 : kRows;
            to.c = g.c + (m0 + i) * g.c_row + (n0 + j) * g.c_column;
            to.row_bias = first && row_bias != nullptr ? row_bias + m0 + i : nullptr;
#if SLIPWAY_SUM_TILE
            const bool fetch = next != nullptr && m - i < (size + 1) * kRows;
            TileOf(rows, k, a + i * a_row, a_row, right, width, to, fetch ? next : nullptr);
            if (fetch) next += k / 4 * 64;
#else
            // One panel each.
            const int64_t after = m - i <= kRows ? 0 : m - i <= 2 * kRows ? 1 : 2;
            const bool fetch = next != nullptr && after < Most(1, kWidth / kPanel);
            TileOf(rows, k, a + i * a_row, a_row, right, width, to,
                   fetch ? next + after * (g.packed ? g.b.row * kPanel * size : k * 64) : nullptr);
#endif
          }
        }
      }
    }
  }
}

// c[n] of up to four rows of a, where b's columns are dense: every row of memory is read once, several at a time.
template <int M, typename S>
void Dots(const GemmCall& g, const float* a, int64_t a_row) {
  constexpr int N = M <= 2 ? 4 : 3, U = M == 1 ? 2 : 1;
  const S* b = static_cast<const S*>(g.b.data);
  const int64_t apart = g.n / N;  // each of N streams goes over its part
  auto put = [&](int m, int64_t n, float x) {
    float& c = g.c[m * g.c_row + n * g.c_column];
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
        for (int m = 0; m < M; ++m) x[m] = Load(a + m * a_row + p + u * kLanes);
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
        for (int64_t q = p; q < g.k; ++q) s += a[m * a_row + q] * ToFloat(row[i][q]);
        put(m, j + i * apart, s);
      }
  }
  for (int64_t j = apart * N; j < g.n; ++j)
    for (int m = 0; m < M; ++m) {
      const S* row = b + j * g.b.column;
      Vec sum{};
      int64_t p = 0;
      for (; p + kLanes <= g.k; p += kLanes) sum += Load(a + m * a_row + p) * LoadAs(row + p);
      float s = Sum(sum);
      for (; p < g.k; ++p) s += a[m * a_row + p] * ToFloat(row[p]);
      put(m, j, s);
    }
}

// One row of a over dense rows of b: four vectors of c at a time.
template <typename S>
void Combine(const GemmCall& g, const float* a) {
  constexpr int N = 8;
  const S* b = static_cast<const S*>(g.b.data);
  int64_t j = 0;
  for (; j + N * kLanes <= g.n; j += N * kLanes) {
    Vec sum[N] = {};
    for (int64_t p = 0; p < g.k; ++p) {
      const Vec x = Splat(a[p]);
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
      sum[0] += Splat(a[p]) * LoadAs(b + p * g.b.row + j);
      sum[1] += Splat(a[p + 1]) * LoadAs(b + (p + 1) * g.b.row + j);
    }
    if (p < g.k) sum[0] += Splat(a[p]) * LoadAs(b + p * g.b.row + j);
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

// c[R][n] over a packed weight: with few rows each of its elements counts once or a few times, so that it is read
// straight through, several panels at a time, with all sums in registers.
template <int R, int P, typename S>
SLIPWAY_INLINE void ThinPanels(const GemmCall& g, const float* a, int64_t a_row, int64_t j) {
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
  const Ahead<P> fetch(g.b.row * kRowBytes);
  int64_t p = 0;
  auto rows_before = [&](int64_t end) __attribute__((always_inline)) {
    for (const int64_t ahead = fetch.From(p * kRowBytes); p < end; ++p, b += kPanel) {
      Vec x[R];
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) x[r] = Splat(a[r * a_row + p]);
#pragma GCC unroll 8
      for (int q = 0; q < P; ++q) {
        const S* row = b + q * kPanel * g.b.row;
        // f32 gains nothing
        if constexpr (sizeof(S) < 4) __builtin_prefetch(reinterpret_cast<const char*>(row) + ahead);
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) {
          const Vec w = LoadAs(row + v * kLanes);
#pragma GCC unroll 8
          for (int r = 0; r < R; ++r) sum[r][q][v] += x[r] * w;
        }
      }
    }
  };
  rows_before(Least(g.k, fetch.turn / kRowBytes));
  rows_before(g.k);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int q = 0; q < P; ++q)
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        const int64_t at = j + q * kPanel + v * kLanes, n = Least(kLanes, g.n - at);
        float* c = g.c + r * g.c_row + at * g.c_column;
        Vec y = sum[r][q][v];
        if (n == kLanes && g.c_column == 1) {
          if (g.bias != nullptr) y += Load(g.bias + at);
          if (g.accumulate) y += Load(c);
          Store(c, y);
          continue;
        }
        alignas(64) float out[kLanes];
        Store(out, y);
        for (int64_t i = 0; i < n; ++i)
          c[i * g.c_column] =
              out[i] + (g.bias != nullptr ? g.bias[at + i] : 0) + (g.accumulate ? c[i * g.c_column] : 0);
      }
}
template <int R, typename S>
__attribute__((noinline)) void Thin(const GemmCall& g, const float* a, int64_t a_row) {
  // As many sums as hide the latency of one, or as registers hold.
  constexpr int kSums = SLIPWAY_ISA_BYTES == 64 ? 16 : SLIPWAY_ISA_BYTES == 32 ? 12 : 8;
  constexpr int P = kSums / (R * (kPanel / kLanes)) < 1   ? 1
                    : kSums / (R * (kPanel / kLanes)) > 4 ? 4
                                                          : kSums / (R * (kPanel / kLanes));
  // Streams that far apart that the processor sees each for itself.
  int64_t j = 0;
  for (; j + P * kPanel <= g.n; j += P * kPanel) ThinPanels<R, P, S>(g, a, a_row, j);
  for (; j < g.n; j += kPanel) ThinPanels<R, 1, S>(g, a, a_row, j);
}
constexpr int64_t kThinRows = SLIPWAY_ISA_BYTES == 16 ? 2 : 4;

constexpr int64_t kDotRows = 8;
// dots along the rows of a: fewer columns than fill vectors, over sums of some length
constexpr int64_t kDotColumns = 3, kLeastDots = 32;

GemmWay WayOf(const GemmCall& g) {
  if (g.packed) return g.m <= kThinRows ? GemmWay::kPanels : GemmWay::kTiles;
  if (g.m <= kDotRows && g.b.row == 1) return GemmWay::kDots;
  if (g.m == 1 && g.b.column == 1 && g.c_column == 1) return GemmWay::kCombine;
  if (g.n <= kDotColumns && g.k >= kLeastDots && g.a.column == 1) return GemmWay::kColumnDots;
  // c' = b' · a': the few rows are packed and the many are read where they are.
  const bool few = g.m <= kFewRows && 2 * g.m < g.k && g.m < g.n;
  return few && g.b.row == 1 && g.b.column != 1 && !g.accumulate ? GemmWay::kTransposed : GemmWay::kTiles;
}
bool IsBlocked(GemmWay way) { return way == GemmWay::kTransposed || way == GemmWay::kTiles; }

GemmCall Transposed(GemmCall g) {
  const MatrixRef a = g.a;
  g.a = {g.b.data, g.b.dtype, g.b.column, g.b.row};
  g.b = {a.data, a.dtype, a.column, a.row};
  const int64_t m = g.m, row = g.c_row;
  g.m = g.n, g.n = m;
  g.c_row = g.c_column, g.c_column = row;
  g.bias = nullptr;
  return g;
}

int64_t GemmScratch(const GemmCall& g) {
  const GemmWay way = WayOf(g);
  if (way == GemmWay::kColumnDots) return (g.k + 64) * g.n;
  if (!IsBlocked(way)) return (g.k + 64) * g.m;
  return BlockScratch(way == GemmWay::kTransposed ? Transposed(g) : g);
}

void Gemm(const GemmCall& g, float* scratch) {
  if (g.m <= 0 || g.n <= 0) return;
  const GemmWay way = WayOf(g);
  if (way == GemmWay::kColumnDots) {
    GemmCall t = Transposed(g);
    for (int64_t i = 0; i < g.m && g.bias != nullptr && !g.accumulate; ++i)
      for (int64_t j = 0; j < g.n; ++j) g.c[i * g.c_row + j * g.c_column] = g.bias[j];
    t.accumulate = g.accumulate || g.bias != nullptr;
    return Gemm(t, scratch);
  }
  if (!IsBlocked(way)) {
    // Rows of a, dense and of f32.
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
      if (way == GemmWay::kPanels) {
        if (g.m == 1) return Thin<1, S>(g, a, row);
        if (g.m == 2) return Thin<2, S>(g, a, row);
        if constexpr (kThinRows > 2) return g.m == 3 ? Thin<3, S>(g, a, row) : Thin<4, S>(g, a, row);
      }
      if (way == GemmWay::kCombine) return Combine<S>(g, a);
      if (g.m == 1) return Dots<1, S>(g, a, row);
      // Up to four rows at a time, over columns few enough to stay near.
      const int64_t near = g.m <= 4 ? g.n : 96;
      for (int64_t n = 0; n < g.n; n += near)
        for (int64_t m = 0; m < g.m; m += 4) {
          GemmCall part = g;
          part.n = Least(near, g.n - n);
          part.b.data = static_cast<const S*>(g.b.data) + n * g.b.column;
          part.c = g.c + m * g.c_row + n * g.c_column;
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
      for (int64_t j = 0; j < g.n; ++j) g.c[i * g.c_row + j * g.c_column] = g.bias != nullptr ? g.bias[j] : 0;
    return;
  }
  if (way == GemmWay::kTransposed)
    BlockGemm(Transposed(g), g.bias, scratch);
  else
    BlockGemm(g, nullptr, scratch);
}

#include "kernels/isa/functions_body.h"

template <PairOp kOp, typename T>
SLIPWAY_INLINE T Pair(T x, T y) {
  return kOp == PairOp::kAdd ? x + y : kOp == PairOp::kSub ? x - y : kOp == PairOp::kMul ? x * y : x / y;
}
template <PairOp kOp>
void PairRow(const float* x, const float* y, float* out, int64_t n, int one) {
  int64_t i = 0;
  if (one == 0) {
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
      const Vec a = Pair<kOp>(Load(x + i), Load(y + i)), b = Pair<kOp>(Load(x + i + kLanes), Load(y + i + kLanes));
      Store(out + i, a), Store(out + i + kLanes, b);
    }
    for (; i < n; ++i) out[i] = Pair<kOp>(x[i], y[i]);
  } else if (one == 2) {
    const float b = *y;
    for (; i + kLanes <= n; i += kLanes) Store(out + i, Pair<kOp>(Load(x + i), Splat(b)));
    for (; i < n; ++i) out[i] = Pair<kOp>(x[i], b);
  } else {
    const float a = *x;
    for (; i + kLanes <= n; i += kLanes) Store(out + i, Pair<kOp>(Splat(a), Load(y + i)));
    for (; i < n; ++i) out[i] = Pair<kOp>(a, y[i]);
  }
}

float ExpSum(const float* x, float shift, float* out, int64_t n) {
  Vec sum[2] = {};
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    const Vec a = ExpNormal(Load(x + i) - shift), b = ExpNormal(Load(x + i + kLanes) - shift);
    sum[0] += a, sum[1] += b;
    Store(out + i, a), Store(out + i + kLanes, b);
  }
  float total = Sum(sum[0] + sum[1]);
  for (; i < n; i += kLanes) {
    float rest[kLanes] = {};
    const int64_t m = Least(kLanes, n - i);
    for (int64_t j = 0; j < m; ++j) rest[j] = x[i + j] - shift;
    Store(rest, ExpNormal(Load(rest)));
    for (int64_t j = 0; j < m; ++j) out[i + j] = rest[j], total += rest[j];
  }
  return total;
}
float MaxRow(const float* x, int64_t n) {
  float most = -__builtin_inff();
  int64_t i = 0;
  if (n >= kLanes) {
    Vec v = Splat(most);
    for (; i + kLanes <= n; i += kLanes) v = Larger(Load(x + i), v);
    for (int j = 0; j < kLanes; ++j) most = v[j] > most ? v[j] : most;
  }
  for (; i < n; ++i) most = x[i] > most ? x[i] : most;
  return most;
}
float AddMax(float* x, const float* add, bool instead, int64_t n) {
  Vec v = Splat(-__builtin_inff());
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vec a = Load(x + i), b = Load(add + i), y = instead ? (b != 0 ? b : a) : a + b;
    Store(x + i, y);
    v = Larger(y, v);
  }
  float most = v[0];
  for (int j = 1; j < kLanes; ++j) most = v[j] > most ? v[j] : most;
  for (; i < n; ++i) {
    x[i] = instead ? (add[i] != 0 ? add[i] : x[i]) : x[i] + add[i];
    most = x[i] > most ? x[i] : most;
  }
  return most;
}
void ScaleRow(float* x, float by, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store(x + i, Load(x + i) * by);
  for (; i < n; ++i) x[i] *= by;
}
void SoftmaxRow(const float* x, float* out, int64_t n) {
  const float sum = ExpSum(x, MaxRow(x, n), out, n);
  ScaleRow(out, 1 / sum, n);
}
void LogSoftmaxRow(const float* x, float* out, int64_t n) {
  const float most = MaxRow(x, n);
  float sum = 0, block[256];
  for (int64_t i = 0; i < n; i += 256) sum += ExpSum(x + i, most, block, Least(256, n - i));
  const float log = static_cast<float>(__builtin_log(static_cast<double>(sum)));
  OverRow(x, out, n, [ most, log ](Vec v) __attribute__((always_inline)) { return v - most - log; });
}
template <int N>
SLIPWAY_INLINE void TapsOf(const float* x, const int64_t* offsets, const float* w, int64_t taps, float bias,
                           float* out) {
  Vec sum[N];
#pragma GCC unroll 8
  for (int v = 0; v < N; ++v) sum[v] = Splat(bias);
  for (int64_t t = 0; t < taps; ++t) {
    const float* at = x + offsets[t];
    const Vec by = Splat(w[t]);
#pragma GCC unroll 8
    for (int v = 0; v < N; ++v) sum[v] += by * Load(at + v * kLanes);
  }
#pragma GCC unroll 8
  for (int v = 0; v < N; ++v) Store(out + v * kLanes, sum[v]);
}
void TapsRow(const float* x, const int64_t* offsets, const float* w, int64_t taps, float bias, float* out, int64_t n) {
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) TapsOf<4>(x + i, offsets, w, taps, bias, out + i);
  for (; i + kLanes <= n; i += kLanes) TapsOf<1>(x + i, offsets, w, taps, bias, out + i);
  if (i == n) return;
  if (n >= kLanes) return TapsOf<1>(x + n - kLanes, offsets, w, taps, bias, out + n - kLanes);
  for (; i < n; ++i) {
    float sum = bias;
    for (int64_t t = 0; t < taps; ++t) sum += w[t] * x[offsets[t] + i];
    out[i] = sum;
  }
}
void LayerNormRow(const float* x, const float* weight, const float* bias, float epsilon, float* out, int64_t n) {
  Vec sum[2] = {};
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) sum[0] += Load(x + i), sum[1] += Load(x + i + kLanes);
  float total = Sum(sum[0] + sum[1]);
  for (; i < n; ++i) total += x[i];
  const float mean = total / static_cast<float>(n);
  Vec squares[2] = {};
  for (i = 0; i + 2 * kLanes <= n; i += 2 * kLanes) {
    const Vec a = Load(x + i) - mean, b = Load(x + i + kLanes) - mean;
    squares[0] += a * a, squares[1] += b * b;
  }
  total = Sum(squares[0] + squares[1]);
  for (; i < n; ++i) total += (x[i] - mean) * (x[i] - mean);
  const float scale = 1 / __builtin_sqrtf(total / static_cast<float>(n) + epsilon);
  for (i = 0; i + kLanes <= n; i += kLanes) {
    Vec v = (Load(x + i) - mean) * scale;
    if (weight != nullptr) v *= Load(weight + i);
    if (bias != nullptr) v += Load(bias + i);
    Store(out + i, v);
  }
  for (; i < n; ++i) {
    float v = (x[i] - mean) * scale;
    if (weight != nullptr) v *= weight[i];
    if (bias != nullptr) v += bias[i];
    out[i] = v;
  }
}

#include "kernels/isa/conv_body.h"
#include "kernels/isa/dot_body.h"
#include "kernels/isa/quant_body.h"
#include "kernels/isa/row_body.h"

}  // namespace

extern const DotIsa SLIPWAY_DOT_TABLE;
const DotIsa SLIPWAY_DOT_TABLE = {
    SLIPWAY_ISA_NAME, {kByteWay, kNibbleWay}, DotRowBytes, PrepareRow, DotProduct, Extremes, QuantizeRow};

extern const Isa SLIPWAY_ISA_TABLE;
const Isa SLIPWAY_ISA_TABLE = {
    SLIPWAY_ISA_NAME,
    GemmScratch,
    Gemm,
    WayOf,
    Pack,
    {RowOf<Exp>, RowOf<Tanh>, RowOf<Erf>, RowOf<Sigmoid>, RowOf<Silu>, GeluRow, GeluTanhRow, RowOf<Relu>,
     RowOf<Negative>, SqrtRow, RsqrtRow, RowOf<HardSigmoid>, RowOf<HardSwish>, RowOf<Log>, RowOf<Log1p>, RowOf<Expm1>,
     RowOf<Sin>, RowOf<Cos>, RowOf<Mish>},
    {PairRow<PairOp::kAdd>, PairRow<PairOp::kSub>, PairRow<PairOp::kMul>, PairRow<PairOp::kDiv>},
    ExpSum,
    MaxRow,
    AddMax,
    ScaleRow,
    SoftmaxRow,
    LogSoftmaxRow,
    TapsRow,
    LayerNormRow,
    &kConvIsa,
    RmsNormRow,
    SumOfRow,
    SumRows,
    SumOfSquares,
    SumSquaresOfRows,
    WidenRow,
    NarrowRow,
    TransposeWords,
    TwiceRow,
    CellRow,
    &kQuantIsa,
};

}  // namespace slipway::kernels
