// Instruction set "amx": products of tiles of 16 rows (Intel AMX), of bf16 and of int8. All other micro-kernels are
// avx512vnni's. A tile of b is 16 words of a panel in 16 rows: of Packing::kNr16K4 they lie so already, four integers
// to a word; bf16 is packed as pairs of rows, and int4 is unpacked, a few groups at a time.
//
// Eight tiles: 2 × 2 accumulators (32 rows × 32 columns), two of a and two of b. They are configured for the rows that
// there are; a shorter last step along k is copied and filled up with zeros.
#include "kernels/isa/bf16_gemm.h"
#include "kernels/isa/gemm.h"
#include "kernels/isa/int8_gemm.h"
#include "kernels/isa/set.h"

namespace slipway::kernels {

namespace avx512vnni {
extern const Int8GemmMicrokernels kInt8Gemm;
}

namespace {

#include "kernels/isa/simd.inc.h"

#include "kernels/isa/elements.inc.h"

#include "kernels/isa/byte_dot.inc.h"

#include "kernels/isa/int8_gemm.inc.h"

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
// What is multiplied, of a and of b.
enum class Kind { kBf16, kInt8, kInt8ByUInt8 };
#define SLIPWAY_TILE_PRODUCT(to, a, b)       \
  do {                                       \
    if constexpr (kKind == Kind::kBf16)      \
      _tile_dpbf16ps(to, a, b);              \
    else if constexpr (kKind == Kind::kInt8) \
      _tile_dpbssd(to, a, b);                \
    else                                     \
      _tile_dpbsud(to, a, b);                \
  } while (false)

// `steps` of `bytes` of each row of a, whose rows are a_stride apart, and bytes / 4 rows of b.
template <Kind kKind, int R, int C>
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
    SLIPWAY_TILE_PRODUCT(0, 4, 6);
    if constexpr (C == 2) SLIPWAY_TILE_PRODUCT(1, 4, 7);
    if constexpr (R == 2) {
      _tile_loadd(5, x + kRows * a_stride, a_stride);
      SLIPWAY_TILE_PRODUCT(2, 5, 6);
      if constexpr (C == 2) SLIPWAY_TILE_PRODUCT(3, 5, 7);
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

// The integers of int4 as bytes: `units` words of a panel, each of which becomes two.
SLIPWAY_INLINE void UnpackInt4(const uint8_t* from, int64_t units, int32_t offset, uint8_t (*to)[tiles::kBytes]) {
  const __m512i add = _mm512_set1_epi8(static_cast<char>(offset)), half = _mm512_set1_epi8(15);
  for (int64_t u = 0; u < units; ++u) {
    const __m512i v = _mm512_loadu_si512(from + u * tiles::kBytes);
    _mm512_store_si512(to[2 * u], _mm512_add_epi8(_mm512_and_si512(v, half), add));
    _mm512_store_si512(to[2 * u + 1], _mm512_add_epi8(_mm512_and_si512(_mm512_srli_epi16(v, 4), half), add));
  }
}

// A block of rows [i, i + rows) and the columns of C panels from j on. Tiles are configured for it.
template <int R, int C, bool kNibbles, bool kGroups, ColumnSums kColumnSums>
class Int8AmxBlock {
 public:
  Int8AmxBlock(const Int8GemmParams& g, int64_t i, int64_t rows, int64_t j, int64_t depth)
      : g_(g), i_(i), rows_(rows), j_(j), depth_(depth), groups_(kGroups ? g.k / g.group : 1),
        rows_of_group_(kGroups ? g.group : g.k), a_(static_cast<const char*>(g.a) + i * g.a_stride) {
    const int64_t units = (g.k + kRowsOfUnit - 1) / kRowsOfUnit;
    for (int c = 0; c < C; ++c) b_[c] = g.b + (j / kPanel + c) * units * tiles::kBytes;
    for (int64_t r = 0; r < rows; ++r)
      a_zero_[r] = kColumnSums != ColumnSums::kNone ? static_cast<float>(g.a_zero[i + r]) : 0;
  }

  void Run() {
    for (int64_t group = 0; group < groups_; ++group) {
      tiles::Zero<R, C>();
      Multiply(group * rows_of_group_, (group + 1) * rows_of_group_);
      tiles::Store<R, C>(sums_[group % 2]);
      // One group behind the tiles: what they store is long there.
      if (group > 0) Add(group - 1);
    }
    Finish(groups_ - 1);
  }

 private:
  static constexpr int64_t kRowsOfUnit = kNibbles ? 8 : 4;
  static constexpr int64_t kUnpacked = 256;  // rows of b at a time
  static constexpr tiles::Kind kKind = kNibbles ? tiles::Kind::kInt8 : tiles::Kind::kInt8ByUInt8;

  // Rows [begin, end) of b, which are a group's or all.
  void Multiply(int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end;) {
      int64_t count = end - p;
      const uint8_t* from[C];
      if constexpr (kNibbles) {
        if (p >= unpacked_end_) {
          unpacked_begin_ = p, unpacked_end_ = Min(g_.k, p + kUnpacked);
          if (kGroups && rows_of_group_ <= kUnpacked)  // whole groups
            unpacked_end_ = Min(g_.k, p + kUnpacked / rows_of_group_ * rows_of_group_);
          for (int c = 0; c < C; ++c)
            UnpackInt4(b_[c] + p / kRowsOfUnit * tiles::kBytes, (unpacked_end_ - p + 7) / 8, g_.offset, unpacked_[c]);
        }
        count = Min(count, unpacked_end_ - p);
      }
      for (int c = 0; c < C; ++c)
        from[c] = kNibbles ? unpacked_[c][(p - unpacked_begin_) / 4] : b_[c] + p / 4 * tiles::kBytes;
      const int64_t steps = count / depth_;
      tiles::Multiply<kKind, R, C>(a_ + p, g_.a_stride, from[0], from[C - 1], tiles::kBytes, depth_, steps);
      if (const int64_t left = count - steps * depth_; left > 0) MultiplyRest(from, p, steps * depth_, left);
      p += count;
    }
  }
  // `left` rows of b from `at` on behind p, of which `from` is.
  void MultiplyRest(const uint8_t* const (&from)[C], int64_t p, int64_t at, int64_t left) {
    alignas(64) char rest[tiles::kBlockRows][tiles::kBytes];
    alignas(64) uint8_t last[C][tiles::kRows][tiles::kBytes];
    const int64_t words = (left + 3) / 4;
    tiles::CopyRest(a_ + p + at, g_.a_stride, rows_, words * 4, rest);
    for (int c = 0; c < C; ++c) {
      __builtin_memcpy(last[c], from[c] + at / 4 * tiles::kBytes, static_cast<size_t>(words * tiles::kBytes));
      __builtin_memset(last[c][words], 0, static_cast<size_t>((tiles::kRows - words) * tiles::kBytes));
    }
    tiles::Multiply<kKind, R, C>(rest, tiles::kBytes, last[0], last[C - 1], tiles::kBytes, tiles::kBytes, 1);
  }

  // f(r, c, the corrected sum of a group, its scale). What the loops read is in variables of their own: stores could
  // change members.
  template <typename F>
  SLIPWAY_INLINE void ForEachSum(int64_t group, F f) {
    const bool small_sums = HasSmallSums<kNibbles, kGroups>(g_), has_zero = g_.zero != nullptr;
    const int64_t rows = rows_, groups = groups_;
    const int32_t *const row_sums = g_.a_sum + i_ * groups + group, offset = kNibbles ? 0 : g_.offset;
    const int32_t* const a_zeros = kColumnSums != ColumnSums::kNone ? g_.a_zero + i_ : nullptr;
    const float* const a_zeros_f32 = a_zero_;
    for (int c = 0; c < C; ++c) {
      const int64_t at = ((j_ / kPanel + c) * groups + group) * kPanel;
      const ColumnTerms terms = LoadColumnTerms<kColumnSums>(g_, at, rows_of_group_, IntVec{});
      const int32_t* sums = &sums_[group % 2][0][c * kPanel];
      if (small_sums && !has_zero) {  // the common int4: few instructions a vector
        for (int64_t r = 0; r < rows; ++r, sums += tiles::kBlockColumns)
          f(r, c, Corrected<kColumnSums>(terms, false, LoadInts(sums), 0, 0, a_zeros_f32[r], true), terms.scale);
        continue;
      }
      for (int64_t r = 0; r < rows; ++r, sums += tiles::kBlockColumns) {
        const int32_t row_sum = row_sums[r * groups], a_zero = a_zeros != nullptr ? a_zeros[r] : 0;
        f(r, c,
          Corrected<kColumnSums>(terms, has_zero, LoadInts(sums) + BroadcastInt(offset * row_sum), row_sum, a_zero,
                                 a_zeros_f32[r], small_sums),
          terms.scale);
      }
    }
  }
  // To the totals, of which it is not the last.
  void Add(int64_t group) {
    float* const totals = totals_[0];
    if (group == 0)
      ForEachSum(
          group, [=](int64_t r, int c, Vec sum, Vec scale) __attribute__((always_inline)) {
            Store(totals + r * tiles::kBlockColumns + c * kPanel, sum * scale);
          });
    else
      ForEachSum(
          group, [=](int64_t r, int c, Vec sum, Vec scale) __attribute__((always_inline)) {
            float* const total = totals + r * tiles::kBlockColumns + c * kPanel;
            Store(total, Load(total) + sum * scale);
          });
  }
  // The last, and the results.
  void Finish(int64_t group) {
    ForEachSum(group, [&](int64_t r, int c, Vec sum, Vec scale) {
      const float a_scale = g_.a_scale[i_ + r];
      StoreColumns(
          g_, i_ + r, j_ + c * kPanel,
          kGroups ? (Load(&totals_[r][c * kPanel]) + sum * scale) * a_scale : ScaledOnce(g_, sum, a_scale, scale));
    });
  }

  const Int8GemmParams& g_;
  const int64_t i_, rows_, j_, depth_, groups_, rows_of_group_;
  const char* const a_;
  const uint8_t* b_[C];
  int64_t unpacked_begin_ = 0, unpacked_end_ = 0;
  float a_zero_[tiles::kBlockRows];
  alignas(64) uint8_t unpacked_[C][kUnpacked / 4][tiles::kBytes];
  alignas(64) int32_t sums_[2][tiles::kBlockRows][tiles::kBlockColumns];
  alignas(64) float totals_[tiles::kBlockRows][tiles::kBlockColumns];
};

template <bool kNibbles, bool kGroups, ColumnSums kColumnSums>
void Int8AmxGemmOf(const Int8GemmParams& g, int64_t depth) {
  int64_t configured = 0;
  for (int64_t j = 0; j < g.n; j += tiles::kBlockColumns)
    for (int64_t i = 0; i < g.m; i += tiles::kBlockRows) {
      const int64_t rows = Min(tiles::kBlockRows, g.m - i);
      if (rows != configured) tiles::Configure(rows, depth);
      configured = rows;
      tiles::WithTiles(rows, g.n - j, [&]<int R, int C>() {
        Int8AmxBlock<R, C, kNibbles, kGroups, kColumnSums>(g, i, rows, j, depth).Run();
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
    return avx512vnni::kInt8Gemm.gemm(g);
  auto of = [&]<bool kNibbles, ColumnSums kSums>() {
    groups ? Int8AmxGemmOf<kNibbles, true, kSums>(g, depth) : Int8AmxGemmOf<kNibbles, false, kSums>(g, depth);
  };
  auto with = [&]<ColumnSums kSums>() {
    g.nibbles ? of.template operator()<true, kSums>() : of.template operator()<false, kSums>();
  };
  g.a_zero == nullptr ? with.template operator()<ColumnSums::kNone>() : with.template operator()<ColumnSums::kRead>();
}

// Rows of a that are a multiple of 4096 bytes apart would share a few lines of the first-level cache.
int64_t Int8AmxRowBytes(int64_t k, bool nibbles) {
  const int64_t bytes = avx512vnni::kInt8Gemm.row_bytes(k, nibbles);
  return bytes % 512 == 0 ? bytes + tiles::kBytes : bytes;
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
  tiles::Multiply<tiles::Kind::kBf16, R, C>(a, stride, pairs, pairs + kPanel, pair_bytes, tiles::kBytes, steps);
  if (left > 0) {
    alignas(64) char rest[tiles::kBlockRows][tiles::kBytes];
    tiles::CopyRest(a + steps * tiles::kBytes, stride, rows, left * 2, rest);
    const char* const b = reinterpret_cast<const char*>(pairs) + steps * (kDepthOfTile / 2) * pair_bytes;
    tiles::Multiply<tiles::Kind::kBf16, R, C>(rest, tiles::kBytes, b, b + kPanel * 4, pair_bytes, tiles::kBytes, 1);
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
  ForEachPairedBlock(
      g, workspace, [&](const uint32_t* pairs, int panels, int64_t j, int64_t p, int64_t depth, const NextBlock&) {
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

namespace SLIPWAY_ISA {

extern const Int8GemmMicrokernels kInt8Gemm;
const Int8GemmMicrokernels kInt8Gemm = {
    .name = SLIPWAY_ISA_NAME,
    .algorithm = {"tiles of 16 rows (AMX)", "tiles of 16 rows (AMX)"},
    .row_bytes = Int8AmxRowBytes,
    .pack_row = [](const int8_t* a, int64_t k, int64_t group, bool nibbles, void* to,
                   int32_t* sums) { avx512vnni::kInt8Gemm.pack_row(a, k, group, nibbles, to, sums); },
    .gemm = Int8AmxGemm,
    .column_sums = [](const Int8GemmParams& g, int32_t* to) { avx512vnni::kInt8Gemm.column_sums(g, to); },
    .min_max = [](const float* x, int64_t n, float* min, float* max) { avx512vnni::kInt8Gemm.min_max(x, n, min, max); },
    .quantize = [](const float* x, int64_t n, float scale, float zero, float low, float high,
                   int8_t* to) { avx512vnni::kInt8Gemm.quantize(x, n, scale, zero, low, high, to); },
    .split_row =
        [](const float* x, int64_t k, int64_t block, int slices, int32_t factor, int8_t* to, int32_t* sums,
           float* unit) { return avx512vnni::kInt8Gemm.split_row(x, k, block, slices, factor, to, sums, unit); },
    .split_int8_gemm = [](const SplitInt8GemmParams& g) { avx512vnni::kInt8Gemm.split_int8_gemm(g); },
};
extern const Bf16GemmMicrokernels kBf16Gemm;
const Bf16GemmMicrokernels kBf16Gemm = {SLIPWAY_ISA_NAME, bf16::Supports, bf16::Workspace, bf16::Gemm, false};

}  // namespace SLIPWAY_ISA
}  // namespace slipway::kernels
