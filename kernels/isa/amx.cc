// Instruction set "amx": products of tiles of 16 rows (Intel AMX), of bf16 and of int8. All other micro-kernels are
// avx512vnni's. A tile of b is 16 words of a panel in 16 rows: of Packing::kNr16K4 they lie so already, four integers
// to a word; bf16 is packed as pairs of rows, and int4 is unpacked, a few groups at a time.
//
// Eight tiles: 2 × 2 accumulators (32 rows × 32 columns), two of a and two of b. They are configured for the rows that
// there are; a shorter last step along k is copied and filled up with zeros.
#if defined(__x86_64__)
#define SLIPWAY_ISA_BYTES 64
#include <cstdint>

#include <immintrin.h>

#include "kernels/isa/bf16_gemm.h"
#include "kernels/isa/int8_gemm.h"
#include "kernels/isa/isa.h"

namespace slipway::kernels {
namespace {

#include "kernels/isa/simd.inc.h"

#include "kernels/isa/elements.inc.h"

#include "kernels/isa/int8_gemm.inc.h"

#include "kernels/isa/split_int8_gemm.inc.h"

namespace tiles {

constexpr int64_t kRows = 16, kBytes = 64;  // of a tile
constexpr int64_t kBlockRows = 2 * kRows, kBlockColumns = 2 * kPanel;

// GCC's intrinsics do not say that they read and write memory.
SLIPWAY_INLINE void MemoryBarrier() { __asm__ volatile("" ::: "memory"); }

// Tiles 0 … 3 accumulate, 4 and 5 are of a, 6 and 7 of b; `bytes` of a row of a. Sets all to zero.
void Configure(int64_t rows, int64_t bytes) {
  struct alignas(64) {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};
  } config;
  const auto set = [&](int tile, int64_t n, int64_t of_row) {
    if (n <= 0) return;
    config.rows[tile] = static_cast<uint8_t>(n), config.row_bytes[tile] = static_cast<uint16_t>(of_row);
  };
  for (int half : {0, 1}) {
    const int64_t n = Min(kRows, rows - half * kRows);
    set(2 * half, n, kBytes), set(2 * half + 1, n, kBytes);
    set(4 + half, n, bytes);
    set(6 + half, bytes / 4, kBytes);
  }
  MemoryBarrier();
  _tile_loadconfig(&config);
}

template <int R, int C>
SLIPWAY_INLINE void Zero() {
  _tile_zero(0);
  if constexpr (C == 2) _tile_zero(1);
  if constexpr (R == 2) _tile_zero(2);
  if constexpr (R == 2 && C == 2) _tile_zero(3);
}
// Rows of kBlockColumns words.
template <int R, int C>
SLIPWAY_INLINE void Store(void* to) {
  constexpr int64_t kStride = kBlockColumns * 4;
  auto* const at = static_cast<char*>(to);
  _tile_stored(0, at, kStride);
  if constexpr (C == 2) _tile_stored(1, at + kBytes, kStride);
  if constexpr (R == 2) _tile_stored(2, at + kRows * kStride, kStride);
  if constexpr (R == 2 && C == 2) _tile_stored(3, at + kRows * kStride + kBytes, kStride);
  MemoryBarrier();
}
// `steps` of `bytes` of each row of a, whose rows are a_stride apart, and bytes / 4 rows of b.
template <bool kIntegers, int R, int C>
SLIPWAY_INLINE void Multiply(const void* a, int64_t a_stride, const void* b0, const void* b1, int64_t b_stride,
                             int64_t bytes, int64_t steps) {
  const auto *x = static_cast<const char*>(a), *left = static_cast<const char*>(b0),
             *right = static_cast<const char*>(b1);
  const int64_t b_step = bytes / 4 * b_stride;
  MemoryBarrier();
  for (int64_t s = 0; s < steps; ++s, x += bytes, left += b_step, right += b_step) {
    _tile_loadd(6, left, b_stride);
    if constexpr (C == 2) _tile_loadd(7, right, b_stride);
    _tile_loadd(4, x, a_stride);
    if constexpr (kIntegers) {
      _tile_dpbsud(0, 4, 6);
      if constexpr (C == 2) _tile_dpbsud(1, 4, 7);
    } else {
      _tile_dpbf16ps(0, 4, 6);
      if constexpr (C == 2) _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (R == 2) {
      _tile_loadd(5, x + kRows * a_stride, a_stride);
      if constexpr (kIntegers) {
        _tile_dpbsud(2, 5, 6);
        if constexpr (C == 2) _tile_dpbsud(3, 5, 7);
      } else {
        _tile_dpbf16ps(2, 5, 6);
        if constexpr (C == 2) _tile_dpbf16ps(3, 5, 7);
      }
    }
  }
}
// Calls f.operator()<R, C>() for `rows` and `columns` of a block.
template <typename F>
SLIPWAY_INLINE void WithTiles(int64_t rows, int64_t columns, F f) {
  if (rows > kRows)
    columns > kPanel ? f.template operator()<2, 2>() : f.template operator()<2, 1>();
  else
    columns > kPanel ? f.template operator()<1, 2>() : f.template operator()<1, 1>();
}
// The last bytes of rows of a, filled up with zeros.
SLIPWAY_INLINE void CopyRest(const char* a, int64_t a_stride, int64_t rows, int64_t bytes, char (*to)[kBytes]) {
  for (int64_t r = 0; r < rows; ++r) {
    __builtin_memcpy(to[r], a + r * a_stride, static_cast<size_t>(bytes));
    __builtin_memset(to[r] + bytes, 0, static_cast<size_t>(kBytes - bytes));
  }
}

}  // namespace tiles

// A block of rows [i, i + rows) and the columns of C panels from j on. Tiles are configured for it.
template <int R, int C, bool kNibbles, bool kGroups, ColumnSums kColumnSums>
void Int8AmxBlock(const Int8GemmParams& g, int64_t i, int64_t rows, int64_t j, int64_t depth) {
  constexpr int64_t kUnitBytes = 4 * kPanel, kRowsOfUnit = kNibbles ? 8 : 4;
  constexpr int64_t kUnpacked = 256;  // rows of b at a time
  alignas(64) uint8_t unpacked[C][kUnpacked / 4][kUnitBytes];
  alignas(64) int32_t sums[tiles::kBlockRows][tiles::kBlockColumns];
  alignas(64) float totals[tiles::kBlockRows][tiles::kBlockColumns];
  alignas(64) char rest[tiles::kBlockRows][tiles::kBytes];
  const int64_t groups = kGroups ? g.k / g.group : 1, units = (g.k + kRowsOfUnit - 1) / kRowsOfUnit;
  const int64_t rows_of_group = kGroups ? g.group : g.k;
  const char* const a = static_cast<const char*>(g.a) + i * g.a_stride;
  const uint8_t* b[C];
  for (int c = 0; c < C; ++c) b[c] = g.b + (j / kPanel + c) * units * kUnitBytes;
  const bool small_sums = HasSmallSums<kNibbles, kGroups>(g), has_zero = g.zero != nullptr;
  for (int64_t group = 0; group < groups; ++group) {
    tiles::Zero<R, C>();
    const int64_t begin = group * rows_of_group, end = begin + rows_of_group;
    for (int64_t p = begin; p < end;) {
      const int64_t count = Min(kNibbles ? kUnpacked : end - p, end - p), steps = count / depth,
                    left = count - steps * depth;
      const uint8_t* from[C];
      for (int c = 0; c < C; ++c) {
        from[c] = b[c] + p / kRowsOfUnit * kUnitBytes;
        if constexpr (kNibbles) {
          const int64_t of_count = (count + 7) / 8;
          for (int64_t u = 0; u < of_count; ++u) {
            const WordVec v = LoadWords(reinterpret_cast<const char*>(from[c]) + u * kUnitBytes);
            const WordVec low = v & 0x0f0f0f0f, high = v >> 4 & 0x0f0f0f0f;
            __builtin_memcpy(unpacked[c][2 * u], &low, sizeof low);
            __builtin_memcpy(unpacked[c][2 * u + 1], &high, sizeof high);
          }
          from[c] = unpacked[c][0];
        }
      }
      tiles::Multiply<true, R, C>(a + p, g.a_stride, from[0], from[C - 1], kUnitBytes, depth, steps);
      if (left > 0) {
        const int64_t full = steps * depth, of_left = (left + 3) / 4;
        tiles::CopyRest(a + p + full, g.a_stride, rows, of_left * 4, rest);
        alignas(64) uint8_t last[C][tiles::kBytes / 4][kUnitBytes];
        for (int c = 0; c < C; ++c) {
          __builtin_memcpy(last[c], from[c] + full / 4 * kUnitBytes, static_cast<size_t>(of_left * kUnitBytes));
          __builtin_memset(last[c][of_left], 0, static_cast<size_t>((tiles::kBytes / 4 - of_left) * kUnitBytes));
        }
        tiles::Multiply<true, R, C>(rest, tiles::kBytes, last[0], last[C - 1], kUnitBytes, depth, 1);
      }
      p += count;
    }
    tiles::Store<R, C>(sums);
    for (int c = 0; c < C; ++c) {
      const int64_t at = ((j / kPanel + c) * groups + group) * kPanel;
      const ColumnTerms terms = LoadColumnTerms<kColumnSums>(g, at, rows_of_group, IntVec{});
      for (int64_t r = 0; r < rows; ++r) {
        const int32_t row_sum = g.a_sum[(i + r) * groups + group];
        const int32_t a_zero = kColumnSums != ColumnSums::kNone ? g.a_zero[i + r] : 0;
        const IntVec sum = LoadInts(&sums[r][c * kPanel]) + BroadcastInt(g.offset * row_sum);
        const Vec f =
            Corrected<kColumnSums>(terms, has_zero, sum, row_sum, a_zero, static_cast<float>(a_zero), small_sums);
        float* const total = &totals[r][c * kPanel];
        if constexpr (!kGroups) {
          StoreColumns(g, i + r, j + c * kPanel, ScaledOnce(g, f, g.a_scale[i + r], terms.scale));
        } else if (group + 1 < groups) {
          Store(total, group == 0 ? f * terms.scale : Load(total) + f * terms.scale);
        } else {
          StoreColumns(g, i + r, j + c * kPanel, (Load(total) + f * terms.scale) * g.a_scale[i + r]);
        }
      }
    }
  }
}

template <bool kNibbles, bool kGroups, ColumnSums kColumnSums>
void Int8AmxGemmOf(const Int8GemmParams& g, int64_t depth) {
  int64_t configured = 0;
  for (int64_t j = 0; j < g.n; j += tiles::kBlockColumns)
    for (int64_t i = 0; i < g.m; i += tiles::kBlockRows) {
      const int64_t rows = Min(tiles::kBlockRows, g.m - i);
      if (rows != configured) tiles::Configure(rows, depth);
      configured = rows;
      tiles::WithTiles(rows, g.n - j, [&]<int R, int C>() {
        Int8AmxBlock<R, C, kNibbles, kGroups, kColumnSums>(g, i, rows, j, depth);
      });
    }
  _tile_release();
}

void Int8AmxGemm(const Int8GemmParams& g) {
  // Steps do not cross groups. Fewer rows do not fill tiles; then b is read once, either way.
  constexpr int64_t kMinRows = 6;
  const bool groups = g.group < g.k;
  const int64_t depth = !groups || g.group % 64 == 0 ? 64 : 32;
  if (g.m < kMinRows || (groups && g.group % depth != 0) || (g.a_zero != nullptr && g.column_sums == nullptr))
    return Int8Gemm(g);
  auto of = [&]<bool kNibbles, ColumnSums kSums>() {
    groups ? Int8AmxGemmOf<kNibbles, true, kSums>(g, depth) : Int8AmxGemmOf<kNibbles, false, kSums>(g, depth);
  };
  auto with = [&]<ColumnSums kSums>() {
    g.nibbles ? of.template operator()<true, kSums>() : of.template operator()<false, kSums>();
  };
  g.a_zero == nullptr ? with.template operator()<ColumnSums::kNone>() : with.template operator()<ColumnSums::kRead>();
}

namespace bf16 {

#include "kernels/isa/bf16_pairs.inc.h"

// Rows [i, i + rows) and C panels of columns from j on, for rows [p, p + depth) of b, whose pairs of rows are
// pair_bytes apart. Tiles are configured for it.
template <int R, int C>
void Block(const GemmParams& g, int64_t i, int64_t rows, const uint32_t* pairs, int64_t pair_bytes, int64_t p,
           int64_t depth, int64_t j) {
  alignas(64) float sums[tiles::kBlockRows][tiles::kBlockColumns];
  const char* const a = reinterpret_cast<const char*>(static_cast<const uint16_t*>(g.a.data) + i * g.a.row + p);
  const int64_t stride = g.a.row * 2, steps = depth / kDepthOfTile, left = depth % kDepthOfTile;
  tiles::Zero<R, C>();
  tiles::Multiply<false, R, C>(a, stride, pairs, pairs + kPanel, pair_bytes, tiles::kBytes, steps);
  if (left > 0) {
    alignas(64) char rest[tiles::kBlockRows][tiles::kBytes];
    tiles::CopyRest(a + steps * tiles::kBytes, stride, rows, left * 2, rest);
    const char* const b = reinterpret_cast<const char*>(pairs) + steps * (kDepthOfTile / 2) * pair_bytes;
    tiles::Multiply<false, R, C>(rest, tiles::kBytes, b, b + kPanel * 4, pair_bytes, tiles::kBytes, 1);
  }
  tiles::Store<R, C>(sums);
  const bool add = p > 0 || g.accumulate;
  const float* bias = p == 0 ? g.bias : nullptr;
  for (int c = 0; c < C; ++c) {
    const int64_t column = j + c * kPanel, n = g.n - column;
    const __mmask16 mask = n >= kPanel ? 0xffff : static_cast<__mmask16>((1u << n) - 1);
    for (int64_t r = 0; r < rows; ++r) {
      float* const to = g.c + (i + r) * g.c_stride + column;
      __m512 sum = _mm512_load_ps(&sums[r][c * kPanel]);
      if (add) sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), sum);
      if (bias != nullptr) sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, bias + column), sum);
      _mm512_mask_storeu_ps(to, mask, sum);
    }
  }
}

void Gemm(const GemmParams& g, float* workspace) {
  int64_t configured = 0;
  ForEachPairedBlock(g, workspace, [&](const uint32_t* pairs, int panels, int64_t j, int64_t p, int64_t depth) {
    for (int64_t i = 0; i < g.m; i += tiles::kBlockRows) {
      const int64_t rows = Min(tiles::kBlockRows, g.m - i);
      if (rows != configured) tiles::Configure(rows, tiles::kBytes);
      configured = rows;
      for (int c = 0; c < panels; c += 2)
        tiles::WithTiles(rows, (panels - c) * kPanel, [&]<int R, int C>() {
          Block<R, C>(g, i, rows, pairs + c * kPanel, int64_t{panels} * kPanel * 4, p, depth, j + c * kPanel);
        });
    }
  });
  _tile_release();
}

}  // namespace bf16
}  // namespace

extern const Int8GemmMicrokernels kInt8GemmAmx;
const Int8GemmMicrokernels kInt8GemmAmx = {"amx",        {"tiles of 16 rows (AMX)", "tiles of 16 rows (AMX)"},
                                           Int8RowBytes, PackInt8Row,
                                           Int8AmxGemm,  Int8ColumnSums,
                                           MinMaxRow,    QuantizeRow,
                                           SplitInt8Row, SplitInt8Gemm};
extern const Bf16GemmMicrokernels kBf16GemmAmx;
const Bf16GemmMicrokernels kBf16GemmAmx = {"amx", bf16::Supports, bf16::Workspace, bf16::Gemm};

}  // namespace slipway::kernels
#endif
