// GEMM of floats with small integers by int8 slices (SplitInt8Rows of int8_gemm.h): part of split_int8_gemm.cc,
// after int8_gemm.inc.h. Per four elements and vector of columns one instruction (byte_dot.inc.h) for each slice
// replaces widening four integers and four multiplications; the sums are exact. Tile: 2 to 4 rows × 2 vectors × 3 or 2
// slices of i32 accumulators; one row × 4 vectors.

SLIPWAY_INLINE IntVec RoundedInt(Vec v) {
#if SLIPWAY_ISA_BYTES == 64
  return reinterpret_cast<IntVec>(_mm512_cvtps_epi32(reinterpret_cast<__m512>(v)));
#elif defined(__aarch64__)
  return reinterpret_cast<IntVec>(vcvtnq_s32_f32(reinterpret_cast<float32x4_t>(v)));
#else
  return reinterpret_cast<IntVec>(_mm256_cvtps_epi32(reinterpret_cast<__m256>(v)));
#endif
}
// Reduces the lanes of v by f.
template <typename F>
SLIPWAY_INLINE int32_t Reduced(IntVec v, F f) {
#if SLIPWAY_ISA_BYTES == 16
  Int4 s = v;
#else
#if SLIPWAY_ISA_BYTES == 64
  const auto w = f(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7),
                   __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
#else
  const auto w = v;
#endif
  Int4 s = f(__builtin_shufflevector(w, w, 0, 1, 2, 3), __builtin_shufflevector(w, w, 4, 5, 6, 7));
#endif
  s = f(s, __builtin_shufflevector(s, s, 2, 3, 0, 1));
  return f(s, __builtin_shufflevector(s, s, 1, 0, 3, 2))[0];
}
SLIPWAY_INLINE int32_t SumOf(IntVec v) {
  return Reduced(v, [](auto a, auto b) __attribute__((always_inline)) { return a + b; });
}
SLIPWAY_INLINE int32_t MaxOf(IntVec v) {
  return Reduced(v, [](auto a, auto b) __attribute__((always_inline)) { return a > b ? a : b; });
}
// How many lanes are -1, where all others are 0.
SLIPWAY_INLINE int32_t CountOf(IntVec v) {
#if SLIPWAY_ISA_BYTES == 64
  return __builtin_popcount(_mm512_movepi32_mask(reinterpret_cast<__m512i>(v)));
#elif defined(__aarch64__)
  return -SumOf(v);
#else
  return __builtin_popcount(static_cast<unsigned>(_mm256_movemask_ps(reinterpret_cast<__m256>(v))));
#endif
}

// Splits one block of at most kMaxBlock elements into slices; `to` receives whole chunks.
template <int kSlices>
bool SplitInt8Block(const float* x, int64_t n, int32_t times, int8_t* to, int32_t* sums, float* unit) {
  typedef int8_t BytesAt __attribute__((vector_size(kLanes), aligned(1), may_alias));
  constexpr int64_t kParts = SplitInt8Rows::kChunk / kLanes;
  alignas(64) float padded[SplitInt8Rows::kMaxBlock] = {};
  if (n % SplitInt8Rows::kChunk != 0) {
    __builtin_memcpy(padded, x, static_cast<size_t>(n) * sizeof(float));
    x = padded;
  }
  const int64_t chunks = (n + SplitInt8Rows::kChunk - 1) / SplitInt8Rows::kChunk;
  IntVec max{};  // magnitudes of floats compare as integers; NaN is the largest
  for (int64_t i = 0; i < chunks * kParts; ++i) {
    const IntVec size = reinterpret_cast<IntVec>(Load(x + i * kLanes)) & 0x7fffffff;
    max = size > max ? size : max;
  }
  const int32_t largest = MaxOf(max);
  // Scales the largest magnitude to at most 127 · (65536 + 256 + 1), or 127 · (256 + 1), by a power of two that is
  // normal, as its inverse is.
  constexpr int32_t kBias = 127, kMinExponent = -103, kMaxExponent = 90, kBits = 8 * kSlices - 2;
  constexpr int32_t kFits = kSlices == 3 ? 0x7efefe : 0x7efe00;  // the mantissa of that number
  int32_t exponent = (largest >> 23) - kBias;
  if (exponent > kMaxExponent) return false;
  const bool tiny = exponent < kMinExponent;  // all lost bits are below the smallest normal number
  if (tiny) exponent = kMinExponent;
  const int32_t by = kBits - exponent - ((largest & 0x7fffff) > kFits ? 1 : 0);
  const Vec scale = reinterpret_cast<Vec>(BroadcastInt((by + kBias) << 23));
  const int32_t back = (kBias - by) << 23;
  __builtin_memcpy(unit, &back, sizeof back);

  IntVec sum[kSlices] = {};
  int32_t numbers = 0, coarse = 0;
  for (int64_t i = 0; i < chunks; ++i, to += kSlices * SplitInt8Rows::kChunk)
    for (int64_t part = 0; part < kParts; ++part) {
      const Vec v = Load(x + (i * kParts + part) * kLanes);
      const IntVec fixed = RoundedInt(v * scale);
      if constexpr (kSlices == 3) {
        const IntVec number = v != Vec{};
        numbers += CountOf(number), coarse += CountOf(number & (fixed < 1 << 11) & (fixed > -(1 << 11)));
      }
      IntVec rest = fixed;
#pragma GCC unroll 3
      for (int k = 0; k < kSlices; ++k) {
        const IntVec slice = k + 1 < kSlices ? rest << 24 >> 24 : rest;
        rest = (rest - slice) >> 8;
        sum[k] += slice;
        *reinterpret_cast<BytesAt*>(to + k * SplitInt8Rows::kChunk + part * kLanes) =
            __builtin_convertvector(slice, BytesAt);
      }
    }
  for (int k = 0; k < kSlices; ++k) sums[k] = SumOf(sum[k]) * times;
  return tiny || coarse * 4 <= numbers * 3;
}
template <int kSlices>
bool SplitInt8RowOf(const float* x, int64_t k, int64_t block, int32_t times, int8_t* to, int32_t* sums, float* unit) {
  for (int64_t p = 0; p < k; p += block, to += block * kSlices, sums += kSlices, ++unit)
    if (!SplitInt8Block<kSlices>(x + p, Min(block, k - p), times, to, sums, unit)) return false;
  return true;
}
bool SplitInt8Row(const float* x, int64_t k, int64_t block, int slices, int32_t times, int8_t* to, int32_t* sums,
                  float* unit) {
  return (slices == 2 ? SplitInt8RowOf<2> : SplitInt8RowOf<3>)(x, k, block, times, to, sums, unit);
}

// Zeros of each group of a column: none, subtracted from the integers, or added after the scale.
enum class Zeros { kNone, kSubtracted, kAdded };

// R rows from i on × C vectors of columns from j on.
template <int kSlices, int R, int C, bool kNibbles, Zeros kZeros>
__attribute__((noinline)) void SplitInt8Tile(const SplitInt8GemmParams& call, int64_t i, int64_t j) {
  constexpr int kChunk = SplitInt8Rows::kChunk;
  constexpr int64_t kUnitBytes = 4 * kPanel, kRowsOfUnit = kNibbles ? 8 : 4;
  constexpr int kUnits = kChunk / kRowsOfUnit;  // of a chunk
  // one row has two accumulators per column, to hide their latency
  constexpr int kSums = R > 1 || C > 2 ? 1 : 2;
  const DequantGemmParams& g = call.gemm;
  const QuantizedMatrix& b = g.b;
  const int64_t units = (b.k + kRowsOfUnit - 1) / kRowsOfUnit, groups = b.k / b.group, block = call.a.block;
  const int64_t blocks = (b.k + block - 1) / block, blocks_of_group = groups > 1 ? b.group / block : blocks;
  const int64_t scale_bytes = ByteSize(b.scale_dtype), zero_bytes = ByteSize(b.zero_dtype);
  const char* q[C];
  const char* scale[C];
  const char* zero[C];
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) {
    const int64_t column = j + c * kLanes, panel = column / kPanel, within = column % kPanel;
    q[c] = static_cast<const char*>(b.q) + panel * units * kUnitBytes + within * 4;
    const int64_t at = panel * groups * kPanel + within;
    scale[c] = b.scale != nullptr ? static_cast<const char*>(b.scale) + at * scale_bytes : nullptr;
    if constexpr (kZeros != Zeros::kNone) zero[c] = static_cast<const char*>(b.zero) + at * zero_bytes;
  }
  const PanelPrefetch<(C * kLanes + kPanel - 1) / kPanel> prefetch(units * kUnitBytes);
  const int64_t scale_prefetch_distance = prefetch.panels * groups * kPanel * scale_bytes;
  const int64_t row = SplitInt8Rows::RowBytes(b.k, kSlices);
  const int8_t* x = call.a.rows + i * row;
  const int32_t* sums = call.a.sums + i * blocks * kSlices;
  const float* unit = call.a.unit + i * blocks;
  Vec total[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) total[r][c] = Vec{};

  for (int64_t at = 0; at < blocks; ++at) {
    const int64_t prefetch_distance = prefetch.From(at * block / kRowsOfUnit * kUnitBytes);
    IntVec acc[R][C][kSlices][kSums];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 3
      for (int d = 0; d < kSlices; ++d) {
        const int32_t sum = sums[(r * blocks + at) * kSlices + d];
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) {
          if constexpr (kZeros == Zeros::kSubtracted)
            acc[r][c][d][0] =
                (static_cast<int32_t>(b.offset) - LoadBytes(reinterpret_cast<const int8_t*>(zero[c]))) * sum;
          else
            acc[r][c][d][0] = BroadcastInt(sum);
          if constexpr (kSums > 1) acc[r][c][d][1] = IntVec{};
        }
      }
    auto quad = [&](const WordVec* u, int at_byte, int s) __attribute__((always_inline)) {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 3
        for (int d = 0; d < kSlices; ++d)
#pragma GCC unroll 8
          for (int c = 0; c < C; ++c)
            acc[r][c][d][s] = DotAccumulate<kNibbles>(
                acc[r][c][d][s], u[c], reinterpret_cast<const char*>(x + r * row + d * kChunk + at_byte));
    };
    auto unit_of = [&](int n) __attribute__((always_inline)) {
      ForEachKGroup<kNibbles, R == 1>(
          q, prefetch_distance, [&](const WordVec* u, int which) __attribute__((always_inline)) {
            quad(u, n * static_cast<int>(kRowsOfUnit) + which * 4, kNibbles ? which * (kSums - 1) : n % kSums);
          });
    };
    const int64_t left = Min(block, b.k - at * block);
    int64_t p = 0;
    for (; p + kChunk <= left; p += kChunk, x += kSlices * kChunk)
#pragma GCC unroll 4
      for (int n = 0; n < kUnits; ++n) unit_of(n);
    if (p < left) {  // the last chunk of all
#pragma GCC unroll 4
      for (int n = 0; n < kUnits; ++n)
        if (p + n * kRowsOfUnit < left) unit_of(n);
    }
    const bool last_of_group = (at + 1) % blocks_of_group == 0;
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      const Vec by = b.scale != nullptr ? LoadFloats(scale[c], b.scale_dtype) : Broadcast(1);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        IntVec t[kSlices];
#pragma GCC unroll 3
        for (int d = 0; d < kSlices; ++d) {
          t[d] = acc[r][c][d][0];
          if constexpr (kSums > 1) t[d] += acc[r][c][d][1];
        }
        Vec f = __builtin_convertvector((t[1] << 8) + t[0], Vec);
        if constexpr (kSlices == 3) f += __builtin_convertvector(t[2], Vec) * 65536;
        total[r][c] += f * unit[r * blocks + at] * by;
        if constexpr (kZeros == Zeros::kAdded)
          if (last_of_group)
            total[r][c] +=
                Broadcast(g.sums[(i + r) * groups + at / blocks_of_group]) * LoadFloats(zero[c], b.zero_dtype);
      }
      if (last_of_group) {
        if (R == 1 && b.scale != nullptr) PrefetchOnce(scale[c] + scale_prefetch_distance);
        if (b.scale != nullptr) scale[c] += kPanel * scale_bytes;
        if constexpr (kZeros != Zeros::kNone) zero[c] += kPanel * zero_bytes;
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      const int64_t column = j + c * kLanes, n = Min(kLanes, b.n - column);
      float* to = g.c + (i + r) * g.c_stride + column;
      if (n == kLanes) {
        Store(to, g.bias != nullptr ? total[r][c] + Load(g.bias + column) : total[r][c]);
        continue;
      }
      for (int64_t l = 0; l < n; ++l) to[l] = total[r][c][l] + (g.bias != nullptr ? g.bias[column + l] : 0);
    }
}

template <int kSlices, int R, int C, bool kNibbles, Zeros kZeros>
SLIPWAY_INLINE void SplitInt8TileRows(const SplitInt8GemmParams& g, int64_t i, int64_t j) {
  for (; i + R <= g.gemm.m; i += R) SplitInt8Tile<kSlices, R, C, kNibbles, kZeros>(g, i, j);
  if constexpr (R > 1) SplitInt8TileRows<kSlices, R - 1, C, kNibbles, kZeros>(g, i, j);
}

template <int kSlices, bool kNibbles, Zeros kZeros>
void SplitInt8GemmOf(const SplitInt8GemmParams& g) {
  constexpr int kPart = kPanel / kLanes;
  // As many accumulators as registers hold. A row's integers are read once for all columns of a tile.
  constexpr bool kWide = SLIPWAY_ISA_BYTES == 64;
  constexpr int kRows = !kWide ? 2 : kSlices == 3 ? 3 : 4, kColumns = 2, kColumnsOfOne = kWide ? 4 : 2;
  const int64_t vectors = (g.gemm.b.n + kPanel - 1) / kPanel * kPart;
  int64_t v = 0;
  if (kColumnsOfOne > kPart && g.gemm.m == 1)
    for (; v + kColumnsOfOne <= vectors; v += kColumnsOfOne)
      SplitInt8TileRows<kSlices, 1, kColumnsOfOne, kNibbles, kZeros>(g, 0, v * kLanes);
  if (kColumns > kPart)
    for (; v + kColumns <= vectors; v += kColumns)
      SplitInt8TileRows<kSlices, kRows, kColumns, kNibbles, kZeros>(g, 0, v * kLanes);
  for (; v < vectors; v += kPart) SplitInt8TileRows<kSlices, kRows, kPart, kNibbles, kZeros>(g, 0, v * kLanes);
}

void SplitInt8Gemm(const SplitInt8GemmParams& g) {
  const QuantizedMatrix& b = g.gemm.b;
  auto of = [&]<int kSlices, bool kNibbles>() {
    b.zero == nullptr ? SplitInt8GemmOf<kSlices, kNibbles, Zeros::kNone>(g)
    : b.adds_zero     ? SplitInt8GemmOf<kSlices, kNibbles, Zeros::kAdded>(g)
                      : SplitInt8GemmOf<kSlices, kNibbles, Zeros::kSubtracted>(g);
  };
  if (g.a.slices == 2)
    b.nibbles ? of.template operator()<2, true>() : of.template operator()<2, false>();
  else
    b.nibbles ? of.template operator()<3, true>() : of.template operator()<3, false>();
}
