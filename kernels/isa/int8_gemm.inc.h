// Integer GEMM and activation quantization (int8_gemm.h): part of int8_gemm.cc, and
// of what shares its parts, split_int8_gemm.cc and amx.cc; included after byte_dot.inc.h.
//
// c[m,n] = bias + a_scale[m] · Σ scale[group, n] · (Σ a · b), inner sums exact in i32. Layouts: B Packing::kNr16K4 or
// int4: four rows of a column in one unsigned word; A four integers of a row in one or two words. A step adds the four
// products to the accumulator in the column's lane: one instruction where there is one
// (byte_dot.inc.h); what SDOT takes off the bytes of B the sums get back with `offset`. Elsewhere int4 is multiplied as
// bytes, whose pairs of products fit 16 bits (2 · 15 · 128); int8 would not (2 · 255 · 128) and is widened to 16 bits,
// rows 0 and 2 in one vector, 1 and 3 in another, and A is packed that way. Tile: R rows × C vectors of i32
// accumulators.

#if defined(SLIPWAY_BYTE_DOT)
constexpr bool kWideA = false;
constexpr const char *kByteAlgorithm = "sums of four products (" SLIPWAY_BYTE_DOT ")",
                     *kNibbleAlgorithm = kByteAlgorithm;
#else
constexpr bool kWideA = true;  // of whole bytes
#if defined(__SSE4_1__)
constexpr const char *kByteAlgorithm = "16-bit products", *kNibbleAlgorithm = "products of bytes, pairs in 16 bits";
#else
constexpr const char *kByteAlgorithm = "32-bit products", *kNibbleAlgorithm = kByteAlgorithm;
#endif
#endif

constexpr int64_t kQuad = 4;
template <bool kNibbles>
constexpr int64_t kXBytes = kNibbles || !kWideA ? 4 : 8;  // of four integers of a

// What DotAccumulate() takes off each stored integer of b.
template <bool kNibbles>
constexpr int32_t kTakenOff = kNibbles ? 0 : kByteDotTakesOff;

// acc + the sum of four products in each lane, of unsigned bytes in 0..255 less kTakenOff, or in 0..15 (int4).
template <bool kNibbles>
SLIPWAY_INLINE IntVec DotAccumulate(IntVec acc, WordVec u, const char* x) {
#if defined(SLIPWAY_BYTE_DOT)
  uint32_t word;
  __builtin_memcpy(&word, x, 4);
  return ByteDot<kNibbles>(acc, u, word - WordVec{});
#elif defined(__SSE4_1__)
  int32_t word[2] = {};
  __builtin_memcpy(word, x, static_cast<unsigned>(kXBytes<kNibbles>));
#if SLIPWAY_ISA_BYTES == 64
  const auto w = reinterpret_cast<__m512i>(u);
  if constexpr (kNibbles)
    return acc + reinterpret_cast<IntVec>(
                     _mm512_madd_epi16(_mm512_maddubs_epi16(w, _mm512_set1_epi32(word[0])), _mm512_set1_epi16(1)));
  const __m512i even = _mm512_and_si512(w, _mm512_set1_epi16(255)), odd = _mm512_srli_epi16(w, 8);
  return acc + reinterpret_cast<IntVec>(_mm512_madd_epi16(even, _mm512_set1_epi32(word[0]))) +
         reinterpret_cast<IntVec>(_mm512_madd_epi16(odd, _mm512_set1_epi32(word[1])));
#elif SLIPWAY_ISA_BYTES == 32
  const auto w = reinterpret_cast<__m256i>(u);
  if constexpr (kNibbles)
    return acc + reinterpret_cast<IntVec>(
                     _mm256_madd_epi16(_mm256_maddubs_epi16(w, _mm256_set1_epi32(word[0])), _mm256_set1_epi16(1)));
  const __m256i even = _mm256_and_si256(w, _mm256_set1_epi16(255)), odd = _mm256_srli_epi16(w, 8);
  return acc + reinterpret_cast<IntVec>(_mm256_madd_epi16(even, _mm256_set1_epi32(word[0]))) +
         reinterpret_cast<IntVec>(_mm256_madd_epi16(odd, _mm256_set1_epi32(word[1])));
#else
  const auto w = reinterpret_cast<__m128i>(u);
  if constexpr (kNibbles)
    return acc +
           reinterpret_cast<IntVec>(_mm_madd_epi16(_mm_maddubs_epi16(w, _mm_set1_epi32(word[0])), _mm_set1_epi16(1)));
  const __m128i even = _mm_and_si128(w, _mm_set1_epi16(255)), odd = _mm_srli_epi16(w, 8);
  return acc + reinterpret_cast<IntVec>(_mm_madd_epi16(even, _mm_set1_epi32(word[0]))) +
         reinterpret_cast<IntVec>(_mm_madd_epi16(odd, _mm_set1_epi32(word[1])));
#endif
#else  // plain C++
  if constexpr (kNibbles) {
    for (int i = 0; i < 4; ++i) acc += reinterpret_cast<IntVec>(u >> 8 * i & 255) * static_cast<int8_t>(x[i]);
  } else {
    int16_t four[4];  // first and third, second and fourth
    __builtin_memcpy(four, x, 8);
    for (int i = 0; i < 4; ++i) acc += reinterpret_cast<IntVec>(u >> 8 * i & 255) * four[i / 2 + i % 2 * 2];
  }
  return acc;
#endif
}
// The sum of the four bytes of each lane, added.
template <bool kNibbles>
SLIPWAY_INLINE IntVec AddBytes(IntVec acc, WordVec u) {
  constexpr int16_t wide[4] = {1, 1, 1, 1};
  constexpr char narrow[4] = {1, 1, 1, 1};
  acc += 4 * kTakenOff<kNibbles>;
  return DotAccumulate<kNibbles>(acc, u, kXBytes<kNibbles> == 4 ? narrow : reinterpret_cast<const char*>(wide));
}

SLIPWAY_INLINE IntVec BroadcastInt(int32_t x) { return x - IntVec{}; }

SLIPWAY_INLINE void StoreColumns(const Int8GemmParams& g, int64_t i, int64_t j, Vec y) {
  float* to = g.c + i * g.c_stride + j;
  const int64_t n = Min(kLanes, g.n - j);
  if (n == kLanes) return Store(to, g.bias != nullptr ? y + Load(g.bias + j) : y);
  for (int64_t c = 0; c < n; ++c) to[c] = g.bias != nullptr ? y[c] + g.bias[j + c] : y[c];
}

// The next word of rows of C vectors of columns, four rows at a time: f(words with four integers of a column each,
// which four). Prefetches `prefetch_distance` bytes ahead where kPrefetch.
template <bool kNibbles, bool kPrefetch, int C, typename F>
SLIPWAY_INLINE void ForEachKGroup(const char* (&q)[C], int64_t prefetch_distance, F f) {
  WordVec v[C];
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) {
    v[c] = LoadWords(q[c]);
    if constexpr (kPrefetch) PrefetchOnce(q[c] + prefetch_distance);
    q[c] += 4 * kPanel;
  }
  if constexpr (!kNibbles) return f(v, 0);
  WordVec half[C];
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) half[c] = v[c] & 0x0f0f0f0f;
  f(half, 0);
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) half[c] = v[c] >> 4 & 0x0f0f0f0f;
  f(half, 1);
}

// One vector of a panel of floats.
SLIPWAY_INLINE Vec LoadFloats(const void* p, DType dtype) {
  if (dtype == DType::kF32) return LoadAs(static_cast<const float*>(p));
  if (dtype == DType::kBF16) return LoadAs(static_cast<const BF16Bits*>(p));
  return LoadAs(static_cast<const _Float16*>(p));
}

// Zero points of a's rows: none, or with sums of b's columns that are made on the way or read.
enum class ColumnSums { kNone, kMade, kRead };

// What the sums of a group are corrected with, for a vector of columns: the place of their scale, and of b's numbers
// the zero point and the sum.
struct ColumnTerms {
  Vec scale, numbers_f32;
  IntVec zero, numbers;
};
// `at`: of the group's scale in its panels; `rows` of the group; `sums` of the stored integers, where they are made.
template <ColumnSums kColumnSums>
SLIPWAY_INLINE ColumnTerms LoadColumnTerms(const Int8GemmParams& g, int64_t at, int64_t rows, IntVec sums) {
  ColumnTerms t;
  t.scale = LoadFloats(static_cast<const char*>(g.scale) + at * ByteSize(g.scale_dtype), g.scale_dtype);
  t.zero = g.zero != nullptr ? LoadBytes(g.zero + at) : IntVec{};
  if constexpr (kColumnSums == ColumnSums::kRead) sums = LoadInts(g.column_sums + at);
  const auto count = static_cast<int32_t>(rows);
  t.numbers = sums + (g.zero != nullptr ? (BroadcastInt(g.offset) - t.zero) * count : BroadcastInt(g.offset * count));
  t.numbers_f32 = __builtin_convertvector(t.numbers, Vec);
  return t;
}
// Below 2^24 all integers are floats, and so is what a's zero points take off: no 32-bit products then.
template <bool kNibbles, bool kGroups>
SLIPWAY_INLINE bool HasSmallSums(const Int8GemmParams& g) {
  return kNibbles && kGroups && g.group < 1 << 12;
}
// A group's sum of (a - a_zero) · (b - b_zero) for a row of a, whose integers sum to `row_sum`: from the sum of a times
// b's numbers but for their zero point.
template <ColumnSums kColumnSums>
SLIPWAY_INLINE Vec Corrected(const ColumnTerms& t, bool has_zero, IntVec sum, int32_t row_sum, int32_t a_zero,
                             float a_zero_f32, bool small_sums) {
  if (has_zero) sum -= t.zero * row_sum;
  if constexpr (kColumnSums == ColumnSums::kNone) return __builtin_convertvector(sum, Vec);
  if (small_sums) return __builtin_convertvector(sum, Vec) - t.numbers_f32 * a_zero_f32;
  return __builtin_convertvector(sum - t.numbers * a_zero, Vec);
}
// Scaled, where there is one group.
SLIPWAY_INLINE Vec ScaledOnce(const Int8GemmParams& g, Vec sum, float a_scale, Vec scale) {
  const Vec y = Materialize(sum * a_scale);
  return Materialize((g.rounded == DType::kBF16 ? RoundedBF16(y) : y) * scale);
}

// R rows × C vectors of columns from j on. kGroups: several groups.
template <int R, int C, bool kNibbles, bool kGroups, ColumnSums kColumnSums>
__attribute__((noinline)) void Int8GemmTile(const Int8GemmParams& g, int64_t i, int64_t j) {
  constexpr int64_t kUnitBytes = 4 * kPanel, kRowsOfUnit = kNibbles ? 8 : 4;
  // One row has several accumulators per column, to hide their latency.
  constexpr int kSums = R > 1 ? 1 : kNibbles || kGroups ? 2 : C > 2 ? 2 : 4;
  const int64_t groups = kGroups ? g.k / g.group : 1, units = (g.k + kRowsOfUnit - 1) / kRowsOfUnit;
  const int64_t each = kGroups ? g.group / kRowsOfUnit : units;
  const char* q[C];
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) {
    const int64_t column = j + c * kLanes;
    q[c] = reinterpret_cast<const char*>(g.b) + column / kPanel * units * kUnitBytes + column % kPanel * 4;
  }
  const char* x = static_cast<const char*>(g.a) + i * g.a_stride;
  const int32_t* sums = g.a_sum + i * groups;
  const PanelPrefetch<(C * kLanes + kPanel - 1) / kPanel> prefetch(units * kUnitBytes);
  int64_t prefetch_distance = 0;
  const bool small_sums = HasSmallSums<kNibbles, kGroups>(g);
  const int64_t scale_bytes = ByteSize(g.scale_dtype);
  const auto* const scales = static_cast<const char*>(g.scale);
  const int32_t offset = g.offset + kTakenOff<kNibbles>;
  float a_zero[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) a_zero[r] = kColumnSums != ColumnSums::kNone ? static_cast<float>(g.a_zero[i + r]) : 0;
  Vec total[R][C];
  for (int64_t group = 0; group < groups; ++group) {
    if (R == 1) prefetch_distance = prefetch.From(group * each * kUnitBytes);
    IntVec acc[R][C][kSums], column[C];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c)
#pragma GCC unroll 4
        for (int s = 0; s < kSums; ++s)
          acc[r][c][s] = s == 0 ? BroadcastInt(offset * sums[r * groups + group]) : IntVec{};
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) column[c] = IntVec{};
    auto quad = [&](const WordVec* u, int sum) __attribute__((always_inline)) {
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) acc[r][c][sum] = DotAccumulate<kNibbles>(acc[r][c][sum], u[c], x + r * g.a_stride);
      if constexpr (kColumnSums == ColumnSums::kMade)
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) column[c] = AddBytes<kNibbles>(column[c], u[c]);
      x += kXBytes<kNibbles>;
    };
    auto unit = [&](int sum) __attribute__((always_inline)) {
      ForEachKGroup<kNibbles, R == 1>(
          q, prefetch_distance, [&](const WordVec* u, int which) __attribute__((always_inline)) {
            quad(u, kNibbles ? which * (kSums - 1) : sum);
          });
    };
    int64_t u = 0;
    auto units_before = [&](int64_t end) __attribute__((always_inline)) {
      if constexpr (!kNibbles && kSums > 1)
        for (; u + kSums <= end; u += kSums)
#pragma GCC unroll 4
          for (int s = 0; s < kSums; ++s) unit(s);
      for (; u < end; ++u) unit(0);
    };
    if (R == 1 && !kGroups) {
      units_before(prefetch.panel_end / kUnitBytes);
      prefetch_distance = prefetch.From(prefetch.panel_end);
    }
    units_before(each);

#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) {
      const int64_t at = ((j + c * kLanes) / kPanel * groups + group) * kPanel + (j + c * kLanes) % kPanel;
      const ColumnTerms terms = LoadColumnTerms<kColumnSums>(g, at, kGroups ? g.group : g.k, column[c]);
      if constexpr (R == 1) PrefetchOnce(scales + (at + prefetch.panels * groups * kPanel) * scale_bytes);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        IntVec t = acc[r][c][0];
#pragma GCC unroll 4
        for (int s = 1; s < kSums; ++s) t += acc[r][c][s];
        const Vec f =
            Corrected<kColumnSums>(terms, g.zero != nullptr, t, sums[r * groups + group],
                                   kColumnSums != ColumnSums::kNone ? g.a_zero[i + r] : 0, a_zero[r], small_sums);
        if constexpr (kGroups)
          total[r][c] = group == 0 ? f * terms.scale : total[r][c] + f * terms.scale;
        else
          total[r][c] = ScaledOnce(g, f, g.a_scale[i + r], terms.scale);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c)
      StoreColumns(g, i + r, j + c * kLanes, kGroups ? total[r][c] * g.a_scale[i + r] : total[r][c]);
}

// Rows [i, m) in tiles of R, then in smaller ones, of C vectors of columns from j on.
template <int R, int C, bool kNibbles, bool kGroups, ColumnSums kColumnSums>
SLIPWAY_INLINE void Int8GemmRows(const Int8GemmParams& g, int64_t i, int64_t j) {
  for (; i + R <= g.m; i += R) Int8GemmTile<R, C, kNibbles, kGroups, kColumnSums>(g, i, j);
  if constexpr (R > 3)
    Int8GemmRows<3, C, kNibbles, kGroups, kColumnSums>(g, i, j);
  else if constexpr (R > 1)
    Int8GemmRows<R - 1, C, kNibbles, kGroups, kColumnSums>(g, i, j);
}

template <bool kNibbles, bool kGroups, ColumnSums kColumnSums>
void Int8GemmOf(const Int8GemmParams& g) {
  constexpr int kPart = kPanel / kLanes;
  // What registers hold beside what else is needed. A row's integers are read once for all columns of a tile.
  // With groups there are two accumulators an element: taller tiles then, which unpack integers once for more rows.
  constexpr bool kWide = SLIPWAY_ISA_BYTES == 64;
  constexpr bool kMany = SLIPWAY_ISA_BYTES == 32 || (!kWideA && !kGroups);  // Arm has 32 registers
  constexpr int kRows = kWide ? 6 : kMany ? (kGroups ? 3 : 4) : 2;
  constexpr int kColumnsOfOne = kWide && !kWideA ? 4 : kPart;
  constexpr int kColumns = !kWide || kWideA ? kPart : kGroups ? 2 : 4;
  const int64_t vectors = (g.n + kPanel - 1) / kPanel * kPart;
  int64_t v = 0;
  if (kColumnSums == ColumnSums::kMade || (kColumnsOfOne > kPart && g.m == 1))
    for (; v + kColumnsOfOne <= vectors; v += kColumnsOfOne)
      Int8GemmRows<1, kColumnsOfOne, kNibbles, kGroups, kColumnSums>(g, 0, v * kLanes);
  if constexpr (kColumnSums == ColumnSums::kMade) {
    if constexpr (kColumnsOfOne > kPart)
      for (; v < vectors; v += kPart) Int8GemmRows<1, kPart, kNibbles, kGroups, kColumnSums>(g, 0, v * kLanes);
  } else {
    if (kColumns > kPart)
      for (; v + kColumns <= vectors; v += kColumns)
        Int8GemmRows<kRows, kColumns, kNibbles, kGroups, kColumnSums>(g, 0, v * kLanes);
    for (; v < vectors; v += kPart) Int8GemmRows<kRows, kPart, kNibbles, kGroups, kColumnSums>(g, 0, v * kLanes);
  }
}

[[maybe_unused]] void Int8Gemm(const Int8GemmParams& g) {
  auto of = [&]<bool kNibbles, ColumnSums kSums>() {
    g.group < g.k ? Int8GemmOf<kNibbles, true, kSums>(g) : Int8GemmOf<kNibbles, false, kSums>(g);
  };
  auto with = [&]<ColumnSums kSums>() {
    g.nibbles ? of.template operator()<true, kSums>() : of.template operator()<false, kSums>();
  };
  if (g.a_zero == nullptr) return with.template operator()<ColumnSums::kNone>();
  g.column_sums != nullptr ? with.template operator()<ColumnSums::kRead>()
                           : with.template operator()<ColumnSums::kMade>();
}

template <bool kNibbles>
void Int8ColumnSumsOf(const Int8GemmParams& g, int32_t* to) {
  constexpr int64_t kRowsOfUnit = kNibbles ? 8 : 4;
  const int64_t groups = g.k / g.group, units = (g.k + kRowsOfUnit - 1) / kRowsOfUnit;
  const int64_t each = groups > 1 ? g.group / kRowsOfUnit : units;
  const char* q[1] = {reinterpret_cast<const char*>(g.b)};
  for (int64_t panel = 0; panel < (g.n + kPanel - 1) / kPanel; ++panel)
    for (int64_t within = 0; within < kPanel; within += kLanes) {
      q[0] = reinterpret_cast<const char*>(g.b) + panel * units * 4 * kPanel + within * 4;
      for (int64_t group = 0; group < groups; ++group) {
        IntVec sum{};
        for (int64_t u = 0; u < each; ++u)
          ForEachKGroup<kNibbles, false>(
              q, 0, [&](const WordVec* v, int) __attribute__((always_inline)) { sum = AddBytes<kNibbles>(sum, v[0]); });
        StoreInts(to + (panel * groups + group) * kPanel + within, sum);
      }
    }
}
[[maybe_unused]] void Int8ColumnSums(const Int8GemmParams& g, int32_t* to) {
  (g.nibbles ? Int8ColumnSumsOf<true> : Int8ColumnSumsOf<false>)(g, to);
}

[[maybe_unused]] int64_t Int8RowBytes(int64_t k, bool nibbles) {
  return nibbles ? (k + 7) / 8 * 8 : (k + kQuad - 1) / kQuad * (kWideA ? 8 : 4);
}

[[maybe_unused]] void PackInt8Row(const int8_t* a, int64_t k, int64_t group, bool nibbles, void* to, int32_t* sums) {
  for (int64_t p = 0; p < k; p += group, ++sums) {
    int32_t sum = 0;
    for (int64_t i = 0; i < group; ++i) sum += a[p + i];
    *sums = sum;
  }
  if (nibbles || !kWideA) {
    __builtin_memcpy(to, a, static_cast<size_t>(k));
    __builtin_memset(static_cast<char*>(to) + k, 0, static_cast<size_t>(Int8RowBytes(k, nibbles) - k));
    return;
  }
  auto* wide = static_cast<int16_t*>(to);
  for (int64_t p = 0; p < k; p += kQuad, wide += 4)
    for (int i = 0; i < 4; ++i) wide[i / 2 + i % 2 * 2] = p + i < k ? a[p + i] : 0;
}

[[maybe_unused]] void MinMaxRow(const float* x, int64_t n, float* least, float* greatest) {
  Vec low = Broadcast(x[0]), high = low;
  IntVec nan{};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vec v = Load(x + i);
    low = v < low ? v : low, high = v > high ? v : high, nan |= v != v;
  }
  float l = x[0], h = x[0];
  bool any = false;
  auto one = [&](float v, bool is_nan) { l = v < l ? v : l, h = v > h ? v : h, any |= is_nan; };
  for (int c = 0; c < kLanes; ++c) one(low[c], nan[c] != 0), one(high[c], false);
  for (; i < n; ++i) one(x[i], x[i] != x[i]);
  any |= x[0] != x[0];
  *least = any ? __builtin_nanf("") : l, *greatest = any ? __builtin_nanf("") : h;
}

[[maybe_unused]] void QuantizeRow(const float* x, int64_t n, float by, float zero, float low, float high, int8_t* to) {
  // Beyond these the clamp decides; within, the sum with 1.5 · 2^23 is rounded to an integer, ties to even.
  constexpr float kLimit = 4096, kTie = 0x1.8p23f;
  typedef int8_t BytesAt __attribute__((vector_size(kLanes), aligned(1), may_alias));
  auto rounded = [&](Vec v) __attribute__((always_inline)) {
    v = Materialize(v * by);
    v = v > kLimit ? Broadcast(kLimit) : v < -kLimit ? Broadcast(-kLimit) : v;
    v = Materialize(Materialize(v + kTie) - kTie) + zero;
    v = v > high ? Broadcast(high) : v < low ? Broadcast(low) : v;
    v = v == v ? v : Vec{};
    return __builtin_convertvector(__builtin_convertvector(v, IntVec), BytesAt);
  };
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) *reinterpret_cast<BytesAt*>(to + i) = rounded(Load(x + i));
  if (i == n) return;
  float rest[kLanes] = {};
  for (int64_t c = 0; i + c < n; ++c) rest[c] = x[i + c];
  const BytesAt last = rounded(Load(rest));
  for (int64_t c = 0; i + c < n; ++c) to[i + c] = last[c];
}
