// Convolutions of bytes (int8_conv.h): sums of products, requantization and the indirect GEMM. part of
// int8_conv.cc, after byte_dot.inc.h, math.inc.h and epilogue.inc.h.
//
// A word holds four neighbours of K: unsigned ones of the image, which a step broadcasts, and signed ones of a column
// of weights. A step adds their four products to the accumulator in the column's lane: one instruction where there
// is one (byte_dot.inc.h). Elsewhere both are widened to 16 bits, elements 0 and 2 in one vector, 1 and
// 3 in another: vpmaddubsw would saturate. Tile: mr × nr = kInt8Mr × kInt8Vectors vectors of i32 accumulators.
// int8_pairs.inc.h has what is faster on x86-64 without VNNI for more than a few pixels.

#if defined(SLIPWAY_BYTE_DOT)
constexpr bool kHasByteDot = true;
#else
constexpr bool kHasByteDot = false;
#endif

// Accumulators, weights and a broadcast fill the registers. Without such an instruction tiles are of a few pixels.
constexpr int kInt8Mr = !kHasByteDot ? 3 : SLIPWAY_ISA_BYTES == 64 ? 14 : SLIPWAY_ISA_BYTES == 32 ? 6 : 8;
constexpr int kInt8Vectors = 2;

// Words as the products take them.
#if defined(SLIPWAY_BYTE_DOT) || !defined(__SSE4_1__)
typedef WordVec ByteQuads;
typedef WordVec WeightQuads;
SLIPWAY_INLINE ByteQuads QuadsOfBytes(WordVec x) { return x; }
SLIPWAY_INLINE WeightQuads QuadsOfWeights(WordVec w) { return w; }
// acc + the four products of each lane, of bytes less kByteDotTakesOff.
SLIPWAY_INLINE IntVec AddProducts(IntVec acc, ByteQuads x, WeightQuads w) {
#if defined(SLIPWAY_BYTE_DOT)
  return ByteDot(acc, x, w);
#else
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)
    acc += reinterpret_cast<IntVec>(x >> 8 * i & 255) * (reinterpret_cast<IntVec>(w << (24 - 8 * i)) >> 24);
  return acc;
#endif
}
#else
typedef int16_t ShortVec __attribute__((vector_size(SLIPWAY_ISA_BYTES)));
struct ByteQuads {
  ShortVec even, odd;
};
typedef ByteQuads WeightQuads;
SLIPWAY_INLINE ByteQuads QuadsOfBytes(WordVec x) {
  return {reinterpret_cast<ShortVec>(x & 0x00ff00ff), reinterpret_cast<ShortVec>(x >> 8 & 0x00ff00ff)};
}
SLIPWAY_INLINE WeightQuads QuadsOfWeights(WordVec w) {
  const ShortVec s = reinterpret_cast<ShortVec>(w);
  return {s << 8 >> 8, s >> 8};
}
SLIPWAY_INLINE IntVec AddPairs(IntVec acc, ShortVec a, ShortVec b) {
#if SLIPWAY_ISA_BYTES == 64
  return acc + reinterpret_cast<IntVec>(_mm512_madd_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif SLIPWAY_ISA_BYTES == 32
  return acc + reinterpret_cast<IntVec>(_mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#else
  return acc + reinterpret_cast<IntVec>(_mm_madd_epi16(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#endif
}
SLIPWAY_INLINE IntVec AddProducts(IntVec acc, ByteQuads x, WeightQuads w) {
  return AddPairs(AddPairs(acc, x.even, w.even), x.odd, w.odd);
}
#endif
// acc + the sum of each lane's four weights, where products need it: times kByteDotTakesOff it is what they lack.
SLIPWAY_INLINE IntVec AddWeights(IntVec acc, [[maybe_unused]] const WeightQuads& w) {
  if constexpr (kByteDotTakesOff != 0) acc = AddProducts(acc, QuadsOfBytes(WordVec{} + 0x81818181u), w);
  return acc;
}

SLIPWAY_INLINE WordVec BroadcastWord(const uint8_t* p) {
  uint32_t word;
  __builtin_memcpy(&word, p, 4);
  return word - WordVec{};
}

// ---- Requantization.

typedef uint8_t ByteVec __attribute__((vector_size(SLIPWAY_ISA_BYTES)));
typedef uint8_t LaneBytes __attribute__((vector_size(kLanes)));  // a byte a lane

// kLanes unsigned bytes, or the first n, as floats.
SLIPWAY_INLINE Vec FloatsOfBytes(const uint8_t* p, int64_t n) {
  LaneBytes bytes{};
  if (n == kLanes) [[likely]]
    __builtin_memcpy(&bytes, p, kLanes);
  else
    __builtin_memcpy(&bytes, p, static_cast<unsigned>(n));
#if SLIPWAY_ISA_BYTES == 64
  return reinterpret_cast<Vec>(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(reinterpret_cast<__m128i>(bytes))));
#elif SLIPWAY_ISA_BYTES == 32
  return reinterpret_cast<Vec>(
      _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(reinterpret_cast<const int64_t&>(bytes)))));
#else
  return __builtin_convertvector(__builtin_convertvector(bytes, IntVec), Vec);
#endif
}

// Rounded to even, of what is in the range of i32.
SLIPWAY_INLINE IntVec RoundedToInts(Vec v) {
#if SLIPWAY_ISA_BYTES == 64
  return reinterpret_cast<IntVec>(_mm512_cvtps_epi32(reinterpret_cast<__m512>(v)));
#elif SLIPWAY_ISA_BYTES == 32
  return reinterpret_cast<IntVec>(_mm256_cvtps_epi32(reinterpret_cast<__m256>(v)));
#elif defined(__SSE4_1__)
  return reinterpret_cast<IntVec>(_mm_cvtps_epi32(reinterpret_cast<__m128>(v)));
#else
  IntVec i;
  for (int l = 0; l < kLanes; ++l) i[l] = static_cast<int32_t>(__builtin_rintf(v[l]));
  return i;
#endif
}

// Four vectors of integers plus `zero` as bytes, saturated: one vector after the other or, `interleaved`, four integers
// of each in turn, which is how vectors come from bytes that were interleaved within lanes of 128 bits.
SLIPWAY_INLINE ByteVec PackedBytes(IntVec a, IntVec b, IntVec c, IntVec d, int16_t zero, bool interleaved) {
#if SLIPWAY_ISA_BYTES == 64
  auto word = [](IntVec v) __attribute__((always_inline)) { return reinterpret_cast<__m512i>(v); };
  const __m512i by = _mm512_set1_epi16(zero);
  const __m512i ab = _mm512_adds_epi16(_mm512_packs_epi32(word(a), word(b)), by),
                cd = _mm512_adds_epi16(_mm512_packs_epi32(word(c), word(d)), by);
  if (interleaved) return reinterpret_cast<ByteVec>(_mm512_packus_epi16(ab, cd));
  const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  return reinterpret_cast<ByteVec>(_mm512_permutexvar_epi32(order, _mm512_packus_epi16(ab, cd)));
#elif SLIPWAY_ISA_BYTES == 32
  auto word = [](IntVec v) __attribute__((always_inline)) { return reinterpret_cast<__m256i>(v); };
  const __m256i by = _mm256_set1_epi16(zero);
  const __m256i ab = _mm256_adds_epi16(_mm256_packs_epi32(word(a), word(b)), by),
                cd = _mm256_adds_epi16(_mm256_packs_epi32(word(c), word(d)), by);
  if (interleaved) return reinterpret_cast<ByteVec>(_mm256_packus_epi16(ab, cd));
  const __m256i order = _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0);
  return reinterpret_cast<ByteVec>(_mm256_permutevar8x32_epi32(_mm256_packus_epi16(ab, cd), order));
#elif defined(__SSE4_1__)  // vectors of four: both orders are the same
  (void)interleaved;
  auto word = [](IntVec v) __attribute__((always_inline)) { return reinterpret_cast<__m128i>(v); };
  const __m128i by = _mm_set1_epi16(zero);
  return reinterpret_cast<ByteVec>(_mm_packus_epi16(_mm_adds_epi16(_mm_packs_epi32(word(a), word(b)), by),
                                                    _mm_adds_epi16(_mm_packs_epi32(word(c), word(d)), by)));
#else
  (void)interleaved;
  ByteVec out;
  const IntVec all[4] = {a, b, c, d};
  for (int i = 0; i < 4 * kLanes; ++i) {
    const int32_t v = all[i / kLanes][i % kLanes] + zero;
    out[i] = static_cast<uint8_t>(v < 0 ? 0 : v > 255 ? 255 : v);
  }
  return out;
#endif
}
SLIPWAY_INLINE ByteVec ClampedBytes(ByteVec v, int32_t low, int32_t high) {
  const ByteVec least = static_cast<uint8_t>(low) - ByteVec{}, most = static_cast<uint8_t>(high) - ByteVec{};
#if SLIPWAY_ISA_BYTES == 64
  return reinterpret_cast<ByteVec>(
      _mm512_min_epu8(_mm512_max_epu8(reinterpret_cast<__m512i>(v), reinterpret_cast<__m512i>(least)),
                      reinterpret_cast<__m512i>(most)));
#else
  v = v < least ? least : v;
  return v > most ? most : v;
#endif
}
// The first n bytes of part `i` of four, kLanes each.
template <int i>
SLIPWAY_INLINE void StorePart(uint8_t* to, ByteVec v, int64_t n) {
#if SLIPWAY_ISA_BYTES == 64
  const __m128i part = _mm512_extracti32x4_epi32(reinterpret_cast<__m512i>(v), i);
  _mm_mask_storeu_epi8(to, static_cast<__mmask16>((1u << n) - 1), part);
#else
  uint8_t bytes[SLIPWAY_ISA_BYTES];
  __builtin_memcpy(bytes, &v, SLIPWAY_ISA_BYTES);
  if (n == kLanes) [[likely]]
    __builtin_memcpy(to, bytes + i * kLanes, kLanes);
  else
    __builtin_memcpy(to, bytes + i * kLanes, static_cast<unsigned>(n));
#endif
}

// Undoes that order in four vectors of floats: lanes of 128 bits are transposed.
SLIPWAY_INLINE void InOrder(Vec* v) {
#if SLIPWAY_ISA_BYTES == 64
  const Vec low[2] = {__builtin_shufflevector(v[0], v[1], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
                      __builtin_shufflevector(v[2], v[3], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)};
  const Vec high[2] = {
      __builtin_shufflevector(v[0], v[1], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31),
      __builtin_shufflevector(v[2], v[3], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)};
  auto even = [](Vec a, Vec b) __attribute__((always_inline)) {
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
  };
  auto odd = [](Vec a, Vec b) __attribute__((always_inline)) {
    return __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  };
  v[0] = even(low[0], low[1]), v[1] = odd(low[0], low[1]), v[2] = even(high[0], high[1]), v[3] = odd(high[0], high[1]);
#elif SLIPWAY_ISA_BYTES == 32
  auto low = [](Vec a, Vec b) __attribute__((always_inline)) {
    return __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
  };
  auto high = [](Vec a, Vec b) __attribute__((always_inline)) {
    return __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
  };
  const Vec all[4] = {low(v[0], v[1]), low(v[2], v[3]), high(v[0], v[1]), high(v[2], v[3])};
  v[0] = all[0], v[1] = all[1], v[2] = all[2], v[3] = all[3];
#endif
  (void)v;  // of 16 bytes: in order
}

// What follows the sums of rows of V vectors of columns from j on, n of which count: vector (r, v) is sum[r * V + v],
// rows are `row` elements apart and begin with element `at` of the result. kInterleaved: sums, scale and bias are in
// that order.
struct Requantizer {
  const Requantization& q;
  void* out;

  template <int R, int V, bool kInterleaved = false>
  SLIPWAY_INLINE void Store(const IntVec* sum, int64_t j, int64_t n, int64_t at, int64_t row) const {
    // Tiles do what is most common; all else is one function for all of them.
    if (q.result != DType::kU8 || q.added != nullptr || q.activation != Activation::kNone || q.saturates) {
      IntVec held[R * V];
#pragma GCC unroll 32
      for (int i = 0; i < R * V; ++i) held[i] = sum[i];
      return StoreRows<V, kInterleaved>(held, R, j, n, at, row);
    }
    IntVec ints[R * V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      const Vec scale = Load(q.scale + j + v * kLanes), bias = Load(q.bias + j + v * kLanes);
#pragma GCC unroll 32
      for (int r = 0; r < R; ++r)
        ints[r * V + v] = RoundedToInts(Fma(__builtin_convertvector(sum[r * V + v], Vec), scale, bias));
    }
    StoreBytes<R, V>(ints, n, at, row, kInterleaved);
  }

 private:
  template <int V, bool kInterleaved>
  __attribute__((noinline)) void StoreRows(const IntVec* sum, int64_t rows, int64_t j, int64_t n, int64_t at,
                                           int64_t row) const {
    const bool interleaved = kInterleaved && q.added == nullptr && q.result == DType::kU8;
    constexpr int kRows = V < 4 ? 2 : 1;  // at a time; the last one, where it is alone, twice
    for (int64_t r = 0; r < rows; r += kRows, sum += kRows * V, at += kRows * row) {
      const bool alone = kRows == 2 && r + 1 == rows;
      Vec y[kRows * V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        const Vec scale = Load(q.scale + j + v * kLanes), bias = Load(q.bias + j + v * kLanes);
#pragma GCC unroll 2
        for (int k = 0; k < kRows; ++k)
          y[k * V + v] = Fma(__builtin_convertvector(sum[(alone ? 0 : k * V) + v], Vec), scale, bias);
      }
      const int64_t next = alone ? 0 : row;
      if (kInterleaved && !interleaved)
        for (int k = 0; k < kRows; ++k) InOrder(y + k * V);
      if (q.added != nullptr)
#pragma GCC unroll 2
        for (int k = 0; k < kRows; ++k) Add<V>(n, at + k * next, y + k * V);
      if (q.activation != Activation::kNone) {
        Epilogue e;
        e.activation = q.activation, e.min = q.min, e.max = q.max;
        ApplyActivation<kRows * V>(e, y);
      }
      if (q.result == DType::kF32) {
#pragma GCC unroll 8
        for (int i = 0; i < kRows * V; ++i)
          if (n > i % V * kLanes)
            StorePartial(static_cast<float*>(out) + at + i / V * next + i % V * kLanes, y[i],
                         Min(kLanes, n - i % V * kLanes));
        continue;
      }
      IntVec ints[kRows * V];
      // Beyond these the clamp to bytes decides.
      const Vec limit = Broadcast(0x1p20f), by = Broadcast(q.activation != Activation::kNone ? q.multiplier : 1);
#pragma GCC unroll 8
      for (int i = 0; i < kRows * V; ++i) ints[i] = RoundedToInts(Max(-limit, Min(limit, Materialize(y[i] * by))));
      StoreBytes<kRows, V>(ints, n, at, next, interleaved);
    }
  }
  template <int R, int V>
  SLIPWAY_INLINE void StoreBytes(const IntVec* ints, int64_t n, int64_t at, int64_t row, bool interleaved) const {
    auto* const to = static_cast<uint8_t*>(out) + at;
    const bool clamps = q.low > 0 || q.high < 255;
    const auto zero = static_cast<int16_t>(q.zero_point);
#pragma GCC unroll 16
    for (int i = 0; i < R * V; i += 4) {
      const auto of = [&](int k) __attribute__((always_inline)) { return ints[i + k < R * V ? i + k : i]; };
      ByteVec bytes = PackedBytes(of(0), of(1), of(2), of(3), zero, interleaved);
      if (clamps) bytes = ClampedBytes(bytes, q.low, q.high);
      StoreFour<R, V>(to, bytes, i, n, row);
    }
  }
  template <int R, int V>
  SLIPWAY_INLINE void StoreFour(uint8_t* to, ByteVec bytes, int i, int64_t n, int64_t row) const {
#if SLIPWAY_ISA_BYTES == 64
    if constexpr (V == 2)
      if (n >= 2 * kLanes) [[likely]] {
        const auto all = reinterpret_cast<__m512i>(bytes);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i / V * row), _mm512_castsi512_si256(all));
        if (i / V + 1 < R)
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (i / V + 1) * row), _mm512_extracti64x4_epi64(all, 1));
        return;
      }
    if constexpr (V == 4)
      if (n == 4 * kLanes) [[likely]] {
        _mm512_storeu_si512(to + i / V * row, reinterpret_cast<__m512i>(bytes));
        return;
      }
#elif SLIPWAY_ISA_BYTES == 32
    const auto all = reinterpret_cast<__m256i>(bytes);
    if constexpr (V == 2)
      if (n >= 2 * kLanes) [[likely]] {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i / V * row), _mm256_castsi256_si128(all));
        if (i / V + 1 < R)
          _mm_storeu_si128(reinterpret_cast<__m128i*>(to + (i / V + 1) * row), _mm256_extracti128_si256(all, 1));
        return;
      }
    if constexpr (V == 4)
      if (n == 4 * kLanes) [[likely]] {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i / V * row), all);
        return;
      }
#endif
    auto part = [&]<int k>() __attribute__((always_inline)) {
      if (i + k >= R * V) return;
      const int r = (i + k) / V, v = (i + k) % V;
      const int64_t some = Min(kLanes, n - v * kLanes);
      if (some > 0) StorePart<k>(to + r * row + v * kLanes, bytes, some);
    };
    part.template operator()<0>(), part.template operator()<1>();
    part.template operator()<2>(), part.template operator()<3>();
  }
  template <int V>
  SLIPWAY_INLINE void Add(int64_t n, int64_t at, Vec* y) const {
    const Vec scale = Broadcast(q.added_scale);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      const int64_t some = Min(kLanes, n - v * kLanes), first = at + v * kLanes;
      if (some <= 0) return;
      const Vec other = q.added_dtype == DType::kF32
                            ? LoadPartial(static_cast<const float*>(q.added) + first, some)
                            : FloatsOfBytes(static_cast<const uint8_t*>(q.added) + first, some);
      y[v] = Fma(other, scale, y[v]);
    }
  }
};

// ---- Indirect GEMM.

SLIPWAY_INLINE WeightQuads WeightsAt(const int8_t* w, int v, int64_t panel) {
  return QuadsOfWeights(LoadWords(w + v * kLanes / kPanel * panel + v * kLanes % kPanel * 4));
}

// R pixels of row y from i on × V vectors of columns from j on.
template <int R, int V>
__attribute__((noinline)) void Int8IgemmTile(const Int8IgemmParams& g, int64_t y, int64_t i, int64_t j) {
  IntVec sum[R * V];
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    const IntVec offset = LoadInts(g.after.offset + j + v * kLanes);
#pragma GCC unroll 32
    for (int r = 0; r < R; ++r) sum[r * V + v] = offset;
  }
  IntVec sums_of_weights[V] = {};
  constexpr int kRowPointers = (R + 2) / 3;
  int64_t stride = g.x_stride;
  const uint8_t* const x = g.x + y * g.x_row_stride + i * stride;
  const int8_t* w = g.w + j / kPanel * g.w_panel_stride + j % kPanel * 4;
  const int64_t panel = g.w_panel_stride;
  for (int64_t segment = 0; segment < g.segment_count; ++segment, w += g.w_segment_stride) {
    const uint8_t* a[kRowPointers];
#pragma GCC unroll 5
    for (int r = 0; r < kRowPointers; ++r) a[r] = x + g.segments[segment] + 3 * r * stride;
    const int8_t* b = w;
#pragma GCC unroll 1
    for (int64_t p = 0; p < g.k; p += 4, b += 4 * kPanel) {
      WeightQuads weights[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        weights[v] = WeightsAt(b, v, panel);
        sums_of_weights[v] = AddWeights(sums_of_weights[v], weights[v]);
      }
#pragma GCC unroll 32
      for (int r = 0; r < R; ++r) {
        const ByteQuads one = QuadsOfBytes(BroadcastWord(a[r / 3] + r % 3 * stride + p));
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sum[r * V + v] = AddProducts(sum[r * V + v], one, weights[v]);
      }
      asm("" : "+r"(stride));  // or the compiler keeps computed addresses on the stack
    }
  }
  if constexpr (kByteDotTakesOff != 0)
#pragma GCC unroll 32
    for (int r = 0; r < R * V; ++r) sum[r] += sums_of_weights[r % V] * kByteDotTakesOff;
  Requantizer{g.after, g.out}.template Store<R, V>(sum, j, g.n - j, y * g.out_row_stride + i * g.out_stride + j,
                                                   g.out_stride);
}

// `count` pixels, at most R.
template <int V, int R>
SLIPWAY_INLINE void Int8IgemmPixels(const Int8IgemmParams& g, int64_t count, int64_t y, int64_t i, int64_t j) {
  if (count == R) return Int8IgemmTile<R, V>(g, y, i, j);
  if constexpr (R > 1) Int8IgemmPixels<V, R - 1>(g, count, y, i, j);
}
template <int V>
SLIPWAY_INLINE void Int8IgemmColumns(const Int8IgemmParams& g, int64_t j) {
  for (int64_t y = 0; y < g.rows; ++y)
    for (int64_t i = 0; i < g.m;) {
      const int64_t count = PixelsOfTile(g.m - i, kInt8Mr);
      Int8IgemmPixels<V, kInt8Mr>(g, count, y, i, j);
      i += count;
    }
}
void Int8IgemmOfBytes(const Int8IgemmParams& g) {
  int64_t j = 0;
  if constexpr (kInt8Vectors > 2)
    for (; g.n - j > 2 * kLanes; j += kInt8Vectors * kLanes) Int8IgemmColumns<kInt8Vectors>(g, j);
  for (; g.n - j > kLanes; j += 2 * kLanes) Int8IgemmColumns<2>(g, j);
  for (; j < g.n; j += kLanes) Int8IgemmColumns<1>(g, j);
}
