// Part of body.h: products with a matrix of small integers, which quant.h declares. Included inside body.h's
// namespaces.

SLIPWAY_INLINE Vec Floats(IntVec v) { return __builtin_convertvector(v, Vec); }

SLIPWAY_INLINE Vec LoadAs(const int8_t* p) { return Floats(LoadBytes(p)); }

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

// What the integers of some columns are shifted by and multiplied with in some groups. For vector c of columns of group
// i it is at c / kPart · panel + c % kPart · kLanes + i · group.
constexpr int kPart = kPanel / kLanes;  // vectors of a panel
constexpr int64_t kGroups = 16, kMostColumns = (8 > kPart ? 8 : kPart) * kLanes;
struct Scales {
  const float* at;
  int64_t panel, group;
  SLIPWAY_INLINE Vec of(int c) const { return Load(at + c / kPart * panel + c % kPart * kLanes); }
};
struct Parameters {
  Scales shift, scale;  // where zeros are added, `shift` has them
  bool uniform;         // all integers are shifted by -offset; `shift` has that only where it was asked for
  alignas(64) float room[2][kGroups][kMostColumns];
};
// From panels of f32, bf16, f16 or i8 to[i][c] for groups first + i < end and columns j + c, c < n.
__attribute__((noinline)) void WidenPanels(const void* from, DType dtype, const QuantMatrix& b, int64_t first,
                                           int64_t end, int64_t j, int64_t n, float (*to)[kMostColumns]) {
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
    all(static_cast<const BFloat*>(from));
  else
    all(static_cast<const _Float16*>(from));
}
// v with one NaN, which rounding keeps, in place of all.
SLIPWAY_INLINE Vec OneNaN(Vec v) { return v == v ? v : Splat(__builtin_nanf("")); }
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
// What will be needed behind groups [first, first + kGroups), here or in the next n columns.
SLIPWAY_INLINE void FetchParameters(const QuantMatrix& b, int64_t first, int64_t j, int64_t n) {
  const int64_t groups = b.k / b.group, panel = kPanel * groups;
  int64_t next = first + kGroups;
  if (next >= groups) next = 0, j += n;
  const int64_t line = 64 / ByteSize(b.scale_dtype) / kPanel, zero_line = 64 / ByteSize(b.zero_dtype) / kPanel;
  for (const int64_t after = Least(j + n, b.n), stop = Least(groups, next + kGroups); j < after && groups > kGroups;
       j += kPanel) {
    const int64_t at = j / kPanel * panel;
    for (int64_t i = next; b.scale != nullptr && i < stop; i += line)
      __builtin_prefetch(static_cast<const char*>(b.scale) + (at + i * kPanel) * ByteSize(b.scale_dtype));
    for (int64_t i = next; b.zero != nullptr && i < stop; i += zero_line)
      __builtin_prefetch(static_cast<const char*>(b.zero) + (at + i * kPanel) * ByteSize(b.zero_dtype));
  }
}
// Of groups [first, end), and fetches what follows. Not inlined: tiles call it once for many groups.
__attribute__((noinline)) void LoadParameters(const QuantMatrix& b, int64_t first, int64_t end, int64_t j, int64_t n,
                                              bool shifts, Parameters* to) {
  const int64_t groups = b.k / b.group, panel = kPanel * groups;
  to->shift = {to->room[0][0], kPanel, kMostColumns}, to->scale = {to->room[1][0], kPanel, kMostColumns};
  if (b.scale != nullptr && b.scale_dtype == DType::kF32 && b.rounded == DType::kF32 &&
      b.scale_rounded == DType::kF32) {
    to->scale = {static_cast<const float*>(b.scale) + j / kPanel * panel + first * kPanel + j % kPanel, panel, kPanel};
  } else {
    if (b.scale != nullptr) WidenPanels(b.scale, b.scale_dtype, b, first, end, j, n, to->room[1]);
    for (int64_t i = 0; i < end - first; ++i)
      for (int64_t c = 0; c < n; c += kLanes) {
        Vec scale = OneNaN(b.scale != nullptr ? Load(to->room[1][i] + c) : Splat(1));
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
      WidenPanels(b.zero, b.zero_dtype, b, first, end, j, n, to->room[0]);
      for (int64_t i = 0; i < end - first; ++i)
        for (int64_t c = 0; c < n; c += kLanes) Store(to->room[0][i] + c, OneNaN(Load(to->room[0][i] + c)));
    }
    return FetchParameters(b, first, j, n);
  }
  to->uniform = b.zero == nullptr || (b.zero_dtype == DType::kI8 && AllZero(b.zero, groups, first, end, j, n));
  if (!to->uniform) WidenPanels(b.zero, b.zero_dtype, b, first, end, j, n, to->room[0]);
  if (shifts || (!to->uniform && b.offset != 0))
    for (int64_t i = 0; i < end - first; ++i)
      for (int64_t c = 0; c < n; c += kLanes)
        Store(to->room[0][i] + c, (to->uniform ? Vec{} : Load(to->room[0][i] + c)) - b.offset);
  FetchParameters(b, first, j, n);
}

// How integers become numbers: all shifted by the same or each column by its own, or by the same with a zero added
// behind the scale. Scales, and zeros that are added, are applied once a group is summed, or to each element, which is
// rounded to bf16.
enum class Widening { kUniform, kShifted, kAdded };

// What is stored of an element.
enum class Code { kByte, kNibble, kE4M3, kE5M2 };
constexpr bool IsNibbles(Code c) { return c == Code::kNibble; }
constexpr bool IsCodeOfFloat(Code c) { return c == Code::kE4M3 || c == Code::kE5M2; }

// Rows of a column that lie together, in one word of a vector (panels.h); bytes of these of a panel.
template <Code kCode>
constexpr int kUnit = IsNibbles(kCode) ? 8 : 4;
constexpr int64_t kUnitBytes = 4 * kPanel;
template <Code kCode>
constexpr int ShiftOf(int row) {
  return IsNibbles(kCode) ? row % 4 * 8 + row / 4 * 4 : row * 8;
}
// Row `row` of those in each word.
template <Code kCode>
SLIPWAY_INLINE WordVec RowOf(WordVec v, int row) {
  const int shift = ShiftOf<kCode>(row);
  if (shift != 0) v >>= shift;
  return shift == (IsNibbles(kCode) ? 28 : 24) ? v : v & (IsNibbles(kCode) ? 15 : 255);
}
// The same as floats, less what `-offset` says, exactly: integers of so few bits become the lowest ones of 2^23 +
// integer.
constexpr float kTwo23 = 0x1p23f;
template <Code kCode>
SLIPWAY_INLINE Vec UniformRow(WordVec v, int row, float offset) {
#if SLIPWAY_ISA_BYTES == 64
  if constexpr (IsNibbles(kCode)) {  // by the lower four bits of each word, of a table
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

// float8 in the low byte of each word. e4m3fn has no infinity and one NaN, e5m2 is the upper half of f16. Without
// conversions of f16 the bits become those of a number whose exponent is too small by a constant, so that numbers below
// the least normal one come out right, too.
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
template <Code kCode>
SLIPWAY_INLINE Vec ValueOf(WordVec v, int row, float offset) {
  if constexpr (IsCodeOfFloat(kCode))
    return Float8<kCode>(RowOf<kCode>(v, row));
  else
    return UniformRow<kCode>(v, row, offset);
}

// The words of rows [p, p + kUnit) from column j on.
template <Code kCode>
SLIPWAY_INLINE const char* WordsAt(const QuantMatrix& b, int64_t p, int64_t j) {
  const int64_t units = (b.k + kUnit<kCode> - 1) / kUnit<kCode>;
  return static_cast<const char*>(b.q) + (j / kPanel * units + p / kUnit<kCode>)*kUnitBytes + j % kPanel * 4;
}

// R rows of a, C vectors of columns: what `groups` groups of rows of q add to `total`, or make it (`first`). One row of
// a goes through one panel after the other, with several sums a column: memory is read in one stream, as fast as it
// comes.
template <int R, int C, Code kCode, Widening kHow, bool kRounded>
__attribute__((noinline)) void AddGroups(const float* a, int64_t a_row, const float* sums, int64_t sums_row,
                                         int64_t groups, int64_t depth, const char* base, int64_t panel, float offset,
                                         const Parameters& parameters, float (*total)[kMostColumns], bool first) {
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
  Vec kept[C];  // the totals of one row
  if constexpr (R == 1)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) kept[c] = first ? Vec{} : Load(total[0] + c * kLanes);
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
        if constexpr (kHow == Widening::kAdded && !kRounded) s += Splat(sums[r * sums_row]) * shift.of(c);
        if constexpr (R == 1) {
          kept[c] += s;
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
          const Vec x = Splat(a[r * a_row + p + i]);
#pragma GCC unroll 8
          for (int c = 0; c < C; ++c) sum[r][c][i % kSums] += x * w[c];
        }
      }
    }
    if (p < depth)  // of the last group, the only one
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
          for (int r = 0; r < R; ++r) sum[r][c][0] += Splat(a[r * a_row + p + i]) * w;
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
    for (int c = 0; c < C; ++c) Store(total[0] + c * kLanes, kept[c]);
}

// R rows, C vectors of columns from j on.
template <int R, int C, Code kCode>
void QuantTile(const QuantCall& g, const float* a, const float* sums, float* to, int64_t j) {
  const QuantMatrix& b = g.b;
  const int64_t groups = b.k / b.group, panel = (b.k + kUnit<kCode> - 1) / kUnit<kCode> * kUnitBytes;
  alignas(64) float total[R][kMostColumns];
  Parameters parameters;
  for (int64_t i = 0; i < groups; i += kGroups, a += kGroups * b.group) {
    const int64_t end = Least(groups, i + kGroups);
    LoadParameters(b, i, end, j, C * kLanes, false, &parameters);
    auto add_groups = [&]<Widening kHow, bool kRounded>() __attribute__((always_inline)) {
      AddGroups<R, C, kCode, kHow, kRounded>(a, g.a_row, sums != nullptr ? sums + i : nullptr, groups, end - i, b.group,
                                             WordsAt<kCode>(b, i * b.group, j), panel, b.offset, parameters, total,
                                             i == 0);
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
  for (int r = 0; r < R; ++r, to += g.c_row)
    for (int c = 0; c < C; ++c) {
      const int64_t at = j + c * kLanes, n = Least(kLanes, b.n - at);
      float* t = total[r] + c * kLanes;
      if (n == kLanes) {
        Store(to + at, g.bias != nullptr ? Load(t) + Load(g.bias + at) : Load(t));
        continue;
      }
      for (int64_t i = 0; i < n; ++i) to[at + i] = t[i] + (g.bias != nullptr ? g.bias[at + i] : 0);
    }
}

template <int R, Code kCode>
SLIPWAY_INLINE void QuantRows(const QuantCall& g, const float* a, const float* sums, float* to) {
  // As many sums as registers hold beside what else is needed; one row has several for each column.
  constexpr int kSums = SLIPWAY_ISA_BYTES == 64 ? 16 : 8;
  constexpr int kMost = R == 1 ? kPart : kSums / R >= 8 ? 8 : kSums / R >= 4 ? 4 : 2;
  const int64_t vectors = (g.b.n + kPanel - 1) / kPanel * kPart;
  int64_t v = 0;
  for (; v + kMost <= vectors; v += kMost) QuantTile<R, kMost, kCode>(g, a, sums, to, v * kLanes);
  if constexpr (kMost > kPart && kPart > 1)
    for (; v < vectors; v += kPart) QuantTile<R, kPart, kCode>(g, a, sums, to, v * kLanes);
  else if constexpr (kPart == 1)
    for (; v < vectors; ++v) QuantTile<R, 1, kCode>(g, a, sums, to, v * kLanes);
}

// f.operator()<what b stores>().
template <typename F>
SLIPWAY_INLINE void WithCode(const QuantMatrix& b, F f) {
  if (b.dtype == DType::kF8E4M3FN) return f.template operator()<Code::kE4M3>();
  if (b.dtype == DType::kF8E5M2) return f.template operator()<Code::kE5M2>();
  return b.nibbles ? f.template operator()<Code::kNibble>() : f.template operator()<Code::kByte>();
}
// The most rows of a tile that `left` rows fill, of those there are loops for: 5 are 3 and 2.
SLIPWAY_INLINE int64_t RowsOfTile(int64_t left) {
  constexpr int64_t kMost = SLIPWAY_ISA_BYTES > 16 ? 6 : 2;
  const int64_t rows = left <= kMost ? left : left < 2 * kMost ? (left + 1) / 2 : kMost;
  return rows == 5 ? 3 : rows;
}
void QuantProduct(const QuantCall& g) {
  const bool one = g.b.rounded == DType::kBF16;  // the others have no loops for it
  for (int64_t i = 0, rows; i < g.m; i += rows) {
    rows = one ? 1 : RowsOfTile(g.m - i);
    const float* a = g.a + i * g.a_row;
    const float* sums = g.sums != nullptr ? g.sums + i * (g.b.k / g.b.group) : nullptr;
    float* to = g.c + i * g.c_row;
    WithCode(
        g.b, [&]<Code kCode>() __attribute__((always_inline)) {
          if (rows == 1) return QuantRows<1, kCode>(g, a, sums, to);
#if SLIPWAY_ISA_BYTES > 16
          if (rows == 3) return QuantRows<3, kCode>(g, a, sums, to);
          if (rows == 4) return QuantRows<4, kCode>(g, a, sums, to);
          if (rows == 6) return QuantRows<6, kCode>(g, a, sums, to);
#endif
          QuantRows<2, kCode>(g, a, sums, to);
        });
  }
}

// Rows [p, end) of one group, in one vector of columns.
template <Code kCode, typename F>
SLIPWAY_INLINE void ExpandGroup(const QuantMatrix& b, int64_t p, int64_t end, int64_t j, float* to, F number) {
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
    const int64_t stop = Least(end, p - from + kRows);
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
void Expand(const QuantMatrix& b, int64_t p, int64_t depth, int64_t j, float* to) {
  Parameters parameters;
  int64_t loaded = -kGroups;
  for (const int64_t end = p + depth; p < end;) {
    const int64_t group = p / b.group, stop = Least(end, (group + 1) * b.group);
    if (group >= loaded + kGroups) {
      loaded = group;
      LoadParameters(b, group, Least(b.k / b.group, group + kGroups), j, kPanel, true, &parameters);
    }
    for (int64_t c = 0; c < kPanel; c += kLanes) {
      const Vec shift = Load(parameters.shift.at + (group - loaded) * parameters.shift.group + c);
      const Vec scale = Load(parameters.scale.at + (group - loaded) * parameters.scale.group + c);
      auto with = [&](auto rounded) __attribute__((always_inline)) {
        ExpandGroup<kCode>(
            b, p, stop, j + c, to + c, [&](Vec v) __attribute__((always_inline)) {
              return b.adds_zero ? rounded(rounded((v + b.offset) * scale) + shift) : rounded((v - shift) * scale);
            });
      };
      if (b.rounded == DType::kBF16)
        with([](Vec v) __attribute__((always_inline)) { return RoundedBF16(v); });
      else if (b.rounded == DType::kF16)
        with([](Vec v) __attribute__((always_inline)) { return RoundedF16(v); });
      else
        with([](Vec v) __attribute__((always_inline)) { return Kept(v); });
    }
    to += (stop - p) * kPanel;
    p = stop;
  }
}
void QuantExpand(const QuantMatrix& b, int64_t p, int64_t depth, int64_t j, float* to) {
  WithCode(b, [&]<Code kCode>() __attribute__((always_inline)) { Expand<kCode>(b, p, depth, j, to); });
}

const QuantIsa kQuantIsa = {QuantProduct, QuantExpand};
