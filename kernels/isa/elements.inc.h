// Elements of f32, f16, bf16, float8_e4m3fn and i8 as f32, one by one and by vectors, and the sum of a vector. Included
// after simd.inc.h.

struct BF16Bits {
  uint16_t bits;
};
SLIPWAY_INLINE float ToFloat(int8_t x) { return x; }
SLIPWAY_INLINE float ToFloat(float x) { return x; }
SLIPWAY_INLINE float ToFloat(_Float16 x) { return static_cast<float>(x); }
SLIPWAY_INLINE float ToFloat(BF16Bits x) {
  const uint32_t u = static_cast<uint32_t>(x.bits) << 16;
  float f;
  __builtin_memcpy(&f, &u, 4);
  return f;
}
// Sign, four bits of exponent, three of mantissa; no infinity, one NaN. f16 has the same bits 7 places further left,
// but for a power of two between their biases.
struct E4M3Bits {
  uint8_t bits;
};
SLIPWAY_INLINE float ToFloat(E4M3Bits x) {
  const uint32_t size = x.bits & 0x7f, sign = static_cast<uint32_t>(x.bits & 0x80) << 24;
  const uint32_t u = sign | (size == 0x7f ? 0x7fc00000u : size << 20);
  float f;
  __builtin_memcpy(&f, &u, 4);
  return f * 0x1p120f;
}
SLIPWAY_INLINE Vec LoadAs(const E4M3Bits* p) {
#if defined(__F16C__) && SLIPWAY_ISA_BYTES == 64
  const __m256i bytes = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  __m256i half = _mm256_and_si256(_mm256_slli_epi16(bytes, 7), _mm256_set1_epi16(static_cast<int16_t>(0xbf80)));
  const __m256i nan = _mm256_cmpeq_epi16(_mm256_slli_epi16(half, 1), _mm256_set1_epi16(0x7f00));
  half = _mm256_or_si256(half, _mm256_and_si256(nan, _mm256_set1_epi16(0x7c00)));
  return reinterpret_cast<Vec>(_mm512_cvtph_ps(half)) * 256;
#elif defined(__F16C__) && SLIPWAY_ISA_BYTES == 32
  const __m128i bytes = _mm_cvtepi8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  __m128i half = _mm_and_si128(_mm_slli_epi16(bytes, 7), _mm_set1_epi16(static_cast<int16_t>(0xbf80)));
  const __m128i nan = _mm_cmpeq_epi16(_mm_slli_epi16(half, 1), _mm_set1_epi16(0x7f00));
  half = _mm_or_si128(half, _mm_and_si128(nan, _mm_set1_epi16(0x7c00)));
  return reinterpret_cast<Vec>(_mm256_cvtph_ps(half)) * 256;
#else
  const WordVec v = reinterpret_cast<WordVec>(LoadBytes(reinterpret_cast<const int8_t*>(p)));
  const WordVec sign = v & 0x80000000u, size = v & 0x7f;
  const WordVec bits = sign | size << 20, nan = sign | 0x7fc00000u;
  return (size == 0x7f ? reinterpret_cast<Vec>(nan) : reinterpret_cast<Vec>(bits)) * 0x1p120f;
#endif
}
SLIPWAY_INLINE Vec LoadAs(const int8_t* p) { return __builtin_convertvector(LoadBytes(p), Vec); }
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
// The bits of halves, in the lower half of a word each. Intrinsics, since GCC 12 converts a vector in parts.
SLIPWAY_INLINE WordVec LoadHalfBits(const void* p) {
#if SLIPWAY_ISA_BYTES == 64
  return reinterpret_cast<WordVec>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p))));
#elif SLIPWAY_ISA_BYTES == 32
  return reinterpret_cast<WordVec>(_mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))));
#else
  return __builtin_convertvector(*static_cast<const HalfBitsAt*>(p), WordVec);
#endif
}
SLIPWAY_INLINE Vec LoadAs(const BF16Bits* p) { return reinterpret_cast<Vec>(LoadHalfBits(p) << 16); }
// The first n elements, zeros behind them; memory beyond is neither read nor written.
SLIPWAY_INLINE Vec LoadPartial(const BF16Bits* p, int64_t n) {
  if (n == kLanes) [[likely]]
    return LoadAs(p);
#if SLIPWAY_ISA_BYTES == 64
  const __m256i some = _mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << n) - 1), p);
  return reinterpret_cast<Vec>(_mm512_slli_epi32(_mm512_cvtepu16_epi32(some), 16));
#else
  BF16Bits held[kLanes] = {};
  __builtin_memcpy(held, p, static_cast<unsigned>(2 * n));
  return LoadAs(held);
#endif
}
SLIPWAY_INLINE Vec LoadPartial(const _Float16* p, int64_t n) {
  if (n == kLanes) [[likely]]
    return LoadAs(p);
#if defined(__F16C__) && SLIPWAY_ISA_BYTES == 64
  return reinterpret_cast<Vec>(_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << n) - 1), p)));
#else
  _Float16 held[kLanes] = {};
  __builtin_memcpy(held, p, static_cast<unsigned>(2 * n));
  return LoadAs(held);
#endif
}
// As f16, rounded to even.
SLIPWAY_INLINE void StorePartial(_Float16* p, Vec v, int64_t n) {
#if defined(__F16C__) && SLIPWAY_ISA_BYTES == 64
  const __m256i halves = _mm512_cvtps_ph(reinterpret_cast<__m512>(v), 0);
  _mm256_mask_storeu_epi16(p, static_cast<__mmask16>((1u << n) - 1), halves);
#else
#if defined(__F16C__) && SLIPWAY_ISA_BYTES == 32
  const __m128i halves = _mm256_cvtps_ph(reinterpret_cast<__m256>(v), 0);
#else
  _Float16 halves[kLanes];
  for (int i = 0; i < kLanes; ++i) halves[i] = static_cast<_Float16>(v[i]);
#endif
  if (n == kLanes) [[likely]]
    __builtin_memcpy(p, &halves, 2 * kLanes);
  else
    __builtin_memcpy(p, &halves, static_cast<unsigned>(2 * n));
#endif
}
// As bf16, rounded to even. A NaN keeps the bits that bf16 has room for, as those of numbers that were bf16 and those
// that processors give.
SLIPWAY_INLINE void StorePartial(BF16Bits* p, Vec v, int64_t n) {
  typedef uint16_t Halves __attribute__((vector_size(SLIPWAY_ISA_BYTES / 2)));
#ifdef __AVX512BF16__
  const auto halves = reinterpret_cast<Halves>(_mm512_cvtneps_pbh(reinterpret_cast<__m512>(v)));
#elif defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
  const auto halves = reinterpret_cast<Halves>(vget_low_bf16(vcvtq_low_bf16_f32(reinterpret_cast<float32x4_t>(v))));
#else
  const WordVec words = reinterpret_cast<WordVec>(RoundedBF16(v)) >> 16;
#if SLIPWAY_ISA_BYTES == 64
  const auto halves = reinterpret_cast<Halves>(_mm512_maskz_cvtepi32_epi16(0xffff, reinterpret_cast<__m512i>(words)));
#elif SLIPWAY_ISA_BYTES == 32
  const __m256i packed = _mm256_packus_epi32(reinterpret_cast<__m256i>(words), reinterpret_cast<__m256i>(words));
  const auto halves = reinterpret_cast<Halves>(_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08)));
#else
  const Halves halves = __builtin_convertvector(words, Halves);
#endif
#endif
#if SLIPWAY_ISA_BYTES == 64
  _mm256_mask_storeu_epi16(p, static_cast<__mmask16>((1u << n) - 1), reinterpret_cast<__m256i>(halves));
#else
  if (n == kLanes) [[likely]]
    __builtin_memcpy(p, &halves, sizeof halves);
  else
    __builtin_memcpy(p, &halves, static_cast<unsigned>(2 * n));
#endif
}
// Two vectors, whole.
SLIPWAY_INLINE void StoreTwo(BF16Bits* p, Vec a, Vec b) {
#ifdef __AVX512BF16__
  const __m512bh both = _mm512_cvtne2ps_pbh(reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(a));
  __builtin_memcpy(p, &both, sizeof both);
#elif SLIPWAY_ISA_BYTES == 64
  const __m512i low = _mm512_srli_epi32(reinterpret_cast<__m512i>(RoundedBF16(a)), 16),
                both = _mm512_packus_epi32(low, _mm512_srli_epi32(reinterpret_cast<__m512i>(RoundedBF16(b)), 16));
  _mm512_storeu_si512(p, _mm512_permutexvar_epi64(_mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0), both));
#elif SLIPWAY_ISA_BYTES == 32
  const __m256i low = _mm256_srli_epi32(reinterpret_cast<__m256i>(RoundedBF16(a)), 16),
                both = _mm256_packus_epi32(low, _mm256_srli_epi32(reinterpret_cast<__m256i>(RoundedBF16(b)), 16));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(both, 0xd8));
#else
  StorePartial(p, a, kLanes), StorePartial(p + kLanes, b, kLanes);
#endif
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
  x += Permute(x, Int4{2, 3, 0, 1});
  return x[0] + x[1];
}
