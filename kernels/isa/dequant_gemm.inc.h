// GEMM with a packed matrix of small integers or float8, dequantized in registers (dequant_gemm.h). Part of
// dequant_gemm.cc.
//
// c[m,n] = Σ over groups of scale[group, n] · Σ a[m,k] · (q[k,n] - zero[group, n]): integers become floats by an or
// with the bits of 2^23 or a table lookup, and scales are applied once per group, or to each element where the program
// rounds elements to bf16. Layouts: q Packing::kNr16K4 or int4, one 32-bit word per column of 4 or 8 rows; scale and
// zero panels [n / 16][groups][16]. Tile: 1 to 6 rows × 1 to 8 vectors; one row has several accumulators per column.

SLIPWAY_INLINE Vec RoundedF16(Vec v) {
#if defined(__F16C__) && SLIPWAY_ISA_BYTES == 64
  return reinterpret_cast<Vec>(_mm512_cvtph_ps(_mm512_cvtps_ph(reinterpret_cast<__m512>(v), 0)));
#elif defined(__F16C__) && SLIPWAY_ISA_BYTES == 32
  return reinterpret_cast<Vec>(_mm256_cvtph_ps(_mm256_cvtps_ph(reinterpret_cast<__m256>(v), 0)));
#else
  for (int i = 0; i < kLanes; ++i) v[i] = static_cast<float>(static_cast<_Float16>(v[i]));
  return v;
#endif
}

// Zeros (as shifts) and scales of some columns and groups. Those of vector c of columns in group i are at c / kPart ·
// panel + c % kPart · kLanes + i · group.
constexpr int kPart = kPanel / kLanes;  // vectors of a panel
constexpr int64_t kGroups = 16, kMaxColumns = (8 > kPart ? 8 : kPart) * kLanes;
struct Scales {
  const float* at;
  int64_t panel, group;
  SLIPWAY_INLINE Vec of(int c) const { return Load(at + c / kPart * panel + c % kPart * kLanes); }
};
struct Parameters {
  Scales shift, scale;  // with adds_zero, `shift` holds the zeros
  bool uniform;         // all shifts are -offset; `shift` holds that only on request
  alignas(64) float room[2][kGroups][kMaxColumns];
};
// Panels of f32, bf16, f16 or i8 as f32: to[i][c] for groups first + i < end and columns j + c, c < n.
__attribute__((noinline)) void ConvertPanelsToF32(const void* from, DType dtype, const QuantizedMatrix& b,
                                                  int64_t first, int64_t end, int64_t j, int64_t n,
                                                  float (*to)[kMaxColumns]) {
  auto all = [&](auto* p) __attribute__((always_inline)) {
    for (int64_t c = 0; c < n; c += kLanes) {
      const auto* at = p + (j + c) / kPanel * kPanel * (b.k / b.group) + first * kPanel + (j + c) % kPanel;
      for (int64_t i = 0; i < end - first; ++i, at += kPanel) Store(to[i] + c, LoadAs(at));
    }
  };
  if (dtype == DType::kF32)
    all(static_cast<const float*>(from));
  else if (dtype == DType::kI8)
    all(static_cast<const int8_t*>(from));
  else if (dtype == DType::kBF16)
    all(static_cast<const BF16Bits*>(from));
  else
    all(static_cast<const _Float16*>(from));
}
// v with every NaN replaced by the quiet NaN, which rounding to bf16 preserves.
SLIPWAY_INLINE Vec OneNaN(Vec v) { return v == v ? v : Broadcast(__builtin_nanf("")); }
// Whether bytes of panels are all 0.
SLIPWAY_INLINE bool AllZero(const void* panels, int64_t groups, int64_t first, int64_t end, int64_t j, int64_t n) {
  uint64_t any = 0, word[2];
  for (const int64_t after = j + n; j < after; j += kPanel)
    for (int64_t i = first; i < end; ++i) {
      __builtin_memcpy(word, static_cast<const char*>(panels) + j / kPanel * kPanel * groups + i * kPanel, sizeof word);
      any |= word[0] | word[1];
    }
  return any == 0;
}
// Prefetches the parameters behind groups [first, first + kGroups), of these or of the next n columns.
SLIPWAY_INLINE void PrefetchParameters(const QuantizedMatrix& b, int64_t first, int64_t j, int64_t n) {
  const int64_t groups = b.k / b.group, panel = kPanel * groups;
  int64_t next = first + kGroups;
  if (next >= groups) next = 0, j += n;
  const int64_t line = 64 / ByteSize(b.scale_dtype) / kPanel, zero_line = 64 / ByteSize(b.zero_dtype) / kPanel;
  for (const int64_t after = Min(j + n, b.n), stop = Min(groups, next + kGroups); j < after && groups > kGroups;
       j += kPanel) {
    const int64_t at = j / kPanel * panel;
    for (int64_t i = next; b.scale != nullptr && i < stop; i += line)
      PrefetchOnce(static_cast<const char*>(b.scale) + (at + i * kPanel) * ByteSize(b.scale_dtype));
    for (int64_t i = next; b.zero != nullptr && i < stop; i += zero_line)
      PrefetchOnce(static_cast<const char*>(b.zero) + (at + i * kPanel) * ByteSize(b.zero_dtype));
  }
}
// Loads those of groups [first, end) and prefetches the next. Out of line: tiles call it once for many groups.
__attribute__((noinline)) void LoadParameters(const QuantizedMatrix& b, int64_t first, int64_t end, int64_t j,
                                              int64_t n, bool shifts, Parameters* to) {
  const int64_t groups = b.k / b.group, panel = kPanel * groups;
  to->shift = {to->room[0][0], kPanel, kMaxColumns}, to->scale = {to->room[1][0], kPanel, kMaxColumns};
  if (b.scale != nullptr && b.scale_dtype == DType::kF32 && b.rounded == DType::kF32 &&
      b.scale_rounded == DType::kF32) {
    to->scale = {static_cast<const float*>(b.scale) + j / kPanel * panel + first * kPanel + j % kPanel, panel, kPanel};
  } else {
    if (b.scale != nullptr) ConvertPanelsToF32(b.scale, b.scale_dtype, b, first, end, j, n, to->room[1]);
    for (int64_t i = 0; i < end - first; ++i)
      for (int64_t c = 0; c < n; c += kLanes) {
        Vec scale = OneNaN(b.scale != nullptr ? Load(to->room[1][i] + c) : Broadcast(1));
        if (b.scale_rounded != DType::kF32)
          scale = b.scale_rounded == DType::kBF16 ? RoundedBF16(scale) : RoundedF16(scale);
        Store(to->room[1][i] + c, scale);
      }
  }
  if (b.adds_zero) {
    to->uniform = true;
    if (b.zero_dtype == DType::kF32 && b.rounded == DType::kF32) {
      to->shift = {static_cast<const float*>(b.zero) + j / kPanel * panel + first * kPanel + j % kPanel, panel, kPanel};
    } else {
      ConvertPanelsToF32(b.zero, b.zero_dtype, b, first, end, j, n, to->room[0]);
      for (int64_t i = 0; i < end - first; ++i)
        for (int64_t c = 0; c < n; c += kLanes) Store(to->room[0][i] + c, OneNaN(Load(to->room[0][i] + c)));
    }
    return PrefetchParameters(b, first, j, n);
  }
  to->uniform = b.zero == nullptr || (b.zero_dtype == DType::kI8 && AllZero(b.zero, groups, first, end, j, n));
  if (!to->uniform) ConvertPanelsToF32(b.zero, b.zero_dtype, b, first, end, j, n, to->room[0]);
  if (shifts || (!to->uniform && b.offset != 0))
    for (int64_t i = 0; i < end - first; ++i)
      for (int64_t c = 0; c < n; c += kLanes)
        Store(to->room[0][i] + c, (to->uniform ? Vec{} : Load(to->room[0][i] + c)) - b.offset);
  PrefetchParameters(b, first, j, n);
}

// How integers become floats: one shift for all, one per column, or one for all with a zero added after the scale.
// Scales and added zeros are applied to the sum of a group, or to each element, which is then rounded to bf16.
enum class Widening { kUniform, kShifted, kAdded };

// The storage format of an element.
enum class Code { kByte, kNibble, kE4M3, kE5M2 };
constexpr bool IsNibbles(Code c) { return c == Code::kNibble; }
constexpr bool IsCodeOfFloat(Code c) { return c == Code::kE4M3 || c == Code::kE5M2; }

// Rows of a column in one word (gemm/packing.h); bytes of these words of a panel.
template <Code kCode>
constexpr int kUnit = IsNibbles(kCode) ? 8 : 4;
constexpr int64_t kUnitBytes = 4 * kPanel;
template <Code kCode>
constexpr int ShiftOf(int row) {
  return IsNibbles(kCode) ? row % 4 * 8 + row / 4 * 4 : row * 8;
}
// Row `row` of each word.
template <Code kCode>
SLIPWAY_INLINE WordVec RowOf(WordVec v, int row) {
  const int shift = ShiftOf<kCode>(row);
  if (shift != 0) v >>= shift;
  return shift == (IsNibbles(kCode) ? 28 : 24) ? v : v & (IsNibbles(kCode) ? 15 : 255);
}
// The same as floats plus `offset`, exactly: the integer becomes the low mantissa bits of 2^23 + integer.
constexpr float kTwo23 = 0x1p23f;
template <Code kCode>
SLIPWAY_INLINE Vec UniformRow(WordVec v, int row, float offset) {
#if SLIPWAY_ISA_BYTES == 64
  if constexpr (IsNibbles(kCode)) {  // table lookup by the low four bits of each word
    const Vec table = Vec{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} + offset;
    return reinterpret_cast<Vec>(
        _mm512_permutexvar_ps(reinterpret_cast<__m512i>(v >> ShiftOf<kCode>(row)), reinterpret_cast<__m512>(table)));
  }
  const WordVec low = ShiftOf<kCode>(row) == 0 ? v : v >> ShiftOf<kCode>(row);
  const __m512i bits = _mm512_ternarylogic_epi32(reinterpret_cast<__m512i>(low), _mm512_set1_epi32(255),
                                                 _mm512_set1_epi32(0x4b000000), 0xea);
  return reinterpret_cast<Vec>(bits) - (kTwo23 - offset);
#else
  return reinterpret_cast<Vec>(RowOf<kCode>(v, row) | 0x4b000000u) - (kTwo23 - offset);
#endif
}

// float8 in the low byte of each word. e4m3fn has no infinity and one NaN, e5m2 is the upper half of f16. Without f16
// conversions, the bits become a float with too small an exponent, which a multiplication corrects, subnormals
// included.
template <Code kCode>
SLIPWAY_INLINE Vec Float8(WordVec v) {
  const WordVec size = v & 0x7f;
#if defined(__F16C__) && SLIPWAY_ISA_BYTES >= 32
  const WordVec half = (v & 0x80) << 8 | size << (kCode == Code::kE4M3 ? 7 : 8);
#if SLIPWAY_ISA_BYTES == 64
  Vec f = reinterpret_cast<Vec>(_mm512_cvtph_ps(_mm512_cvtepi32_epi16(reinterpret_cast<__m512i>(half))));
#else
  const __m256i wide = reinterpret_cast<__m256i>(half);
  Vec f = reinterpret_cast<Vec>(
      _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1))));
#endif
  if constexpr (kCode == Code::kE5M2) return f;
  f *= 256;
#else
  const WordVec sign = (v & 0x80) << 24;
  const Vec f = reinterpret_cast<Vec>(sign | size << (kCode == Code::kE4M3 ? 20 : 21)) *
                (kCode == Code::kE4M3 ? 0x1p120f : 0x1p112f);
  if constexpr (kCode == Code::kE5M2)
    return size >= 0x7c ? reinterpret_cast<Vec>(sign | 0x7f800000u | (size & 3) << 21) : f;
#endif
  return size == 0x7f ? reinterpret_cast<Vec>((v & 0x80) << 24 | 0x7fc00000u) : f;
}
#if SLIPWAY_ISA_BYTES == 64
// e4m3fn in byte `row` of each word: its sign to the top, what follows to where f32 has its mantissa and the low bits
// of its exponent. A NaN in any of the bytes is that of byte 0, for all rows of a column go into one sum.
SLIPWAY_INLINE Vec E4M3Row(WordVec v, int row) {
  const IntVec top = reinterpret_cast<IntVec>(row == 3 ? v : v << (24 - 8 * row)) >> 4;
  const Vec f = reinterpret_cast<Vec>(top & static_cast<int32_t>(0x87f00000));
  const Vec bias = Broadcast(0x1p120f);
  if (row != 0) return f * bias;
  const WordVec carry = (v & 0x7f7f7f7f) + 0x01010101;  // into a byte's highest bit, of NaN alone
  const __mmask16 numbers =
      _mm512_testn_epi32_mask(reinterpret_cast<__m512i>(carry), _mm512_set1_epi32(static_cast<int32_t>(0x80808080)));
  return reinterpret_cast<Vec>(_mm512_mask_mul_ps(_mm512_set1_ps(__builtin_nanf("")), numbers,
                                                  reinterpret_cast<__m512>(f), reinterpret_cast<__m512>(bias)));
}
#endif
template <Code kCode>
SLIPWAY_INLINE Vec ValueOf(WordVec v, int row, float offset) {
#if SLIPWAY_ISA_BYTES == 64
  if constexpr (kCode == Code::kE4M3) return E4M3Row(v, row);
#endif
  if constexpr (IsCodeOfFloat(kCode))
    return Float8<kCode>(RowOf<kCode>(v, row));
  else
    return UniformRow<kCode>(v, row, offset);
}

// The words of rows [p, p + kUnit) from column j on.
template <Code kCode>
SLIPWAY_INLINE const char* WordsAt(const QuantizedMatrix& b, int64_t p, int64_t j) {
  const int64_t units = (b.k + kUnit<kCode> - 1) / kUnit<kCode>;
  return static_cast<const char*>(b.q) + (j / kPanel * units + p / kUnit<kCode>)*kUnitBytes + j % kPanel * 4;
}

// Tile of R rows of a × C vectors of columns: adds the sums of `groups` groups to `total`, or sets it (`first`). With R
// = 1 panels are read one after the other, in a single stream, with several accumulators per column.
template <int R, int C, Code kCode, Widening kHow, bool kRounded>
__attribute__((noinline)) void AccumulateGroups(const float* a, int64_t a_stride, const float* sums, int64_t sums_row,
                                                int64_t groups, int64_t depth, const char* base, int64_t panel,
                                                float offset, const Parameters& parameters, float (*total)[kMaxColumns],
                                                bool first) {
  constexpr int kRows = kUnit<kCode>;
  constexpr int kSums = R > 1 ? 1 : SLIPWAY_ISA_BYTES == 64 ? kRows : SLIPWAY_ISA_BYTES == 32 ? 4 : 2;
  Vec sum[R][C][kSums];
  auto clear = [&]() __attribute__((always_inline)) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c)
#pragma GCC unroll 8
        for (int i = 0; i < kSums; ++i) sum[r][c][i] = Vec{};
  };
  const char* q[C];
#pragma GCC unroll 8
  for (int c = 0; c < C; ++c) q[c] = base + c * kLanes / kPanel * panel + c * kLanes % kPanel * 4;
  Scales shift = parameters.shift, scale = parameters.scale;
  auto number = [&](WordVec v, int row, int c) __attribute__((always_inline)) {
    if constexpr (kHow == Widening::kShifted)
      return __builtin_convertvector(reinterpret_cast<IntVec>(RowOf<kCode>(v, row)), Vec) - shift.of(c);
    else
      return ValueOf<kCode>(v, row, offset);
  };
  auto scaled = [&](Vec w, int c) __attribute__((always_inline)) {
    if constexpr (kRounded) w = RoundedBF16(w * scale.of(c));
    if constexpr (kRounded && kHow == Widening::kAdded) w = RoundedBF16(w + shift.of(c));
    return w;
  };
  Vec row_total[C];  // for R = 1
  if constexpr (R == 1)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) row_total[c] = first ? Vec{} : Load(total[0] + c * kLanes);
  auto put = [&]() __attribute__((always_inline)) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) {
#pragma GCC unroll 4
        for (int half = kSums / 2; half > 0; half /= 2)
#pragma GCC unroll 4
          for (int i = 0; i < half; ++i) sum[r][c][i] += sum[r][c][i + half];
        Vec s = kRounded ? sum[r][c][0] : sum[r][c][0] * scale.of(c);
        if constexpr (kHow == Widening::kAdded && !kRounded) s += Broadcast(sums[r * sums_row]) * shift.of(c);
        if constexpr (R == 1) {
          row_total[c] += s;
        } else {
          float* t = total[r] + c * kLanes;
          Store(t, first ? s : Load(t) + s);
        }
      }
  };
  clear();
  for (int64_t g = 0;;) {
    int64_t p = 0;
    for (; p + kRows <= depth; p += kRows) {
      WordVec v[C];
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) v[c] = LoadWords(q[c]), q[c] += kUnitBytes;
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) {
        Vec w[C];
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) w[c] = scaled(number(v[c], i, c), c);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          const Vec x = Broadcast(a[r * a_stride + p + i]);
#pragma GCC unroll 8
          for (int c = 0; c < C; ++c) sum[r][c][i % kSums] += x * w[c];
        }
      }
    }
    if (p < depth)  // the remainder of the only group
      for (int i = 0; p + i < depth; ++i)
        for (int c = 0; c < C; ++c) {
          const WordVec one = LoadWords(q[c]) >> ShiftOf<kCode>(i) & (IsNibbles(kCode) ? 15 : 255);
          Vec w;
          if constexpr (IsCodeOfFloat(kCode)) {
            w = Float8<kCode>(one);
          } else {
            w = __builtin_convertvector(reinterpret_cast<IntVec>(one), Vec);
            w = kHow == Widening::kShifted ? w - shift.of(c) : w + offset;
          }
          w = scaled(w, c);
          for (int r = 0; r < R; ++r) sum[r][c][0] += Broadcast(a[r * a_stride + p + i]) * w;
        }
    const bool last = ++g == groups;
    if (!kRounded || last) put(), first = false;
    if (last) break;
    if (!kRounded) clear();
    a += depth, shift.at += shift.group, scale.at += scale.group;
    if constexpr (kHow == Widening::kAdded && !kRounded) ++sums;
  }
  if constexpr (R == 1)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) Store(total[0] + c * kLanes, row_total[c]);
}

// R rows × C vectors of columns from j on.
template <int R, int C, Code kCode>
void DequantTile(const DequantGemmParams& g, const float* a, const float* sums, float* to, int64_t j) {
  const QuantizedMatrix& b = g.b;
  const int64_t groups = b.k / b.group, panel = (b.k + kUnit<kCode> - 1) / kUnit<kCode> * kUnitBytes;
  alignas(64) float total[R][kMaxColumns];
  Parameters parameters;
  for (int64_t i = 0; i < groups; i += kGroups, a += kGroups * b.group) {
    const int64_t end = Min(groups, i + kGroups);
    LoadParameters(b, i, end, j, C * kLanes, false, &parameters);
    auto add_groups = [&]<Widening kHow, bool kRounded>() __attribute__((always_inline)) {
      AccumulateGroups<R, C, kCode, kHow, kRounded>(a, g.a_stride, sums != nullptr ? sums + i : nullptr, groups,
                                                    end - i, b.group, WordsAt<kCode>(b, i * b.group, j), panel,
                                                    b.offset, parameters, total, i == 0);
    };
    auto add = [&]<Widening kHow>() __attribute__((always_inline)) {
      if constexpr (R == 1)
        if (b.rounded == DType::kBF16) return add_groups.template operator()<kHow, true>();
      add_groups.template operator()<kHow, false>();
    };
    if constexpr (IsCodeOfFloat(kCode))
      add.template operator()<Widening::kUniform>();
    else if (b.adds_zero)
      add.template operator()<Widening::kAdded>();
    else if (parameters.uniform)
      add.template operator()<Widening::kUniform>();
    else
      add.template operator()<Widening::kShifted>();
  }
  for (int r = 0; r < R; ++r, to += g.c_stride)
    for (int c = 0; c < C; ++c) {
      const int64_t at = j + c * kLanes, n = Min(kLanes, b.n - at);
      float* t = total[r] + c * kLanes;
      if (n == kLanes) {
        Store(to + at, g.bias != nullptr ? Load(t) + Load(g.bias + at) : Load(t));
        continue;
      }
      for (int64_t i = 0; i < n; ++i) to[at + i] = t[i] + (g.bias != nullptr ? g.bias[at + i] : 0);
    }
}

template <int R, Code kCode>
SLIPWAY_INLINE void DequantRows(const DequantGemmParams& g, const float* a, const float* sums, float* to) {
  // As many accumulators as registers hold; one row has several per column.
  constexpr int kSums = SLIPWAY_ISA_BYTES == 64 ? 16 : 8;
  constexpr int kLimit = R == 1 ? kPart : kSums / R >= 8 ? 8 : kSums / R >= 4 ? 4 : 2;
  const int64_t vectors = (g.b.n + kPanel - 1) / kPanel * kPart;
  int64_t v = 0;
  for (; v + kLimit <= vectors; v += kLimit) DequantTile<R, kLimit, kCode>(g, a, sums, to, v * kLanes);
  if constexpr (kLimit > kPart && kPart > 1)
    for (; v < vectors; v += kPart) DequantTile<R, kPart, kCode>(g, a, sums, to, v * kLanes);
  else if constexpr (kPart == 1)
    for (; v < vectors; ++v) DequantTile<R, 1, kCode>(g, a, sums, to, v * kLanes);
}

// Calls f.operator()<storage format of b>().
template <typename F>
SLIPWAY_INLINE void WithCode(const QuantizedMatrix& b, F f) {
  if (b.dtype == DType::kF8E4M3FN) return f.template operator()<Code::kE4M3>();
  if (b.dtype == DType::kF8E5M2) return f.template operator()<Code::kE5M2>();
  return b.nibbles ? f.template operator()<Code::kNibble>() : f.template operator()<Code::kByte>();
}
// Rows of the next tile when `left` rows remain, of those that are instantiated: 5 are 3 and 2.
SLIPWAY_INLINE int64_t RowsOfTile(int64_t left) {
  constexpr int64_t kLimit = SLIPWAY_ISA_BYTES > 16 ? 6 : 2;
  const int64_t rows = left <= kLimit ? left : left < 2 * kLimit ? (left + 1) / 2 : kLimit;
  return rows == 5 ? 3 : rows;
}
void DequantGemmRows(const DequantGemmParams& g) {
  const bool one = g.b.rounded == DType::kBF16;  // instantiated for single rows only
  for (int64_t i = 0, rows; i < g.m; i += rows) {
    rows = one ? 1 : RowsOfTile(g.m - i);
    const float* a = g.a + i * g.a_stride;
    const float* sums = g.sums != nullptr ? g.sums + i * (g.b.k / g.b.group) : nullptr;
    float* to = g.c + i * g.c_stride;
    WithCode(
        g.b, [&]<Code kCode>() __attribute__((always_inline)) {
          if (rows == 1) return DequantRows<1, kCode>(g, a, sums, to);
#if SLIPWAY_ISA_BYTES > 16
          if (rows == 3) return DequantRows<3, kCode>(g, a, sums, to);
          if (rows == 4) return DequantRows<4, kCode>(g, a, sums, to);
          if (rows == 6) return DequantRows<6, kCode>(g, a, sums, to);
#endif
          DequantRows<2, kCode>(g, a, sums, to);
        });
  }
}

// Rows [p, end) of one group and one vector of columns.
template <Code kCode, typename F>
SLIPWAY_INLINE void DequantizeGroup(const QuantizedMatrix& b, int64_t p, int64_t end, int64_t j, float* to, F number) {
  constexpr int kRows = kUnit<kCode>;
  auto floats = [](WordVec v) __attribute__((always_inline)) {
    if constexpr (IsCodeOfFloat(kCode))
      return Float8<kCode>(v);
    else
      return __builtin_convertvector(reinterpret_cast<IntVec>(v), Vec);
  };
  while (p < end) {
    const WordVec v = LoadWords(WordsAt<kCode>(b, p, j));
    const int from = static_cast<int>(p % kRows);
    const int64_t stop = Min(end, p - from + kRows);
    if (from == 0 && stop - p == kRows) {
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) Store(to + i * kPanel, number(floats(RowOf<kCode>(v, i))));
      p += kRows, to += kRows * kPanel;
      continue;
    }
    for (int i = from; p < stop; ++i, ++p, to += kPanel)
      Store(to, number(floats(v >> ShiftOf<kCode>(i) & (IsNibbles(kCode) ? 15 : 255))));
  }
}
template <Code kCode>
void DequantizePanelOf(const QuantizedMatrix& b, int64_t p, int64_t depth, int64_t j, float* to) {
  Parameters parameters;
  int64_t loaded = -kGroups;
  for (const int64_t end = p + depth; p < end;) {
    const int64_t group = p / b.group, stop = Min(end, (group + 1) * b.group);
    if (group >= loaded + kGroups) {
      loaded = group;
      LoadParameters(b, group, Min(b.k / b.group, group + kGroups), j, kPanel, true, &parameters);
    }
    for (int64_t c = 0; c < kPanel; c += kLanes) {
      const Vec shift = Load(parameters.shift.at + (group - loaded) * parameters.shift.group + c);
      const Vec scale = Load(parameters.scale.at + (group - loaded) * parameters.scale.group + c);
      auto with = [&](auto rounded) __attribute__((always_inline)) {
        DequantizeGroup<kCode>(
            b, p, stop, j + c, to + c, [&](Vec v) __attribute__((always_inline)) {
              return b.adds_zero ? rounded(rounded((v + b.offset) * scale) + shift) : rounded((v - shift) * scale);
            });
      };
      if (b.rounded == DType::kBF16)
        with([](Vec v) __attribute__((always_inline)) { return RoundedBF16(v); });
      else if (b.rounded == DType::kF16)
        with([](Vec v) __attribute__((always_inline)) { return RoundedF16(v); });
      else
        with([](Vec v) __attribute__((always_inline)) { return Materialize(v); });
    }
    to += (stop - p) * kPanel;
    p = stop;
  }
}
void DequantizePanel(const QuantizedMatrix& b, int64_t p, int64_t depth, int64_t j, float* to) {
  WithCode(b, [&]<Code kCode>() __attribute__((always_inline)) { DequantizePanelOf<kCode>(b, p, depth, j, to); });
}
