// Sums of four products of unsigned with signed bytes, where the instruction set has instructions for them
// (SLIPWAY_BYTE_DOT): VNNI (vpdpbusd), I8MM (usdot) and, of signed bytes only, SDOT. Included after simd.inc.h, inside
// the unnamed namespace of an instruction set.

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
#define SLIPWAY_BYTE_DOT "VNNI"
#elif defined(__ARM_FEATURE_MATMUL_INT8)
#define SLIPWAY_BYTE_DOT "USDOT"
#elif defined(__ARM_FEATURE_DOTPROD)
#define SLIPWAY_BYTE_DOT "SDOT"
#endif

#if defined(__ARM_FEATURE_DOTPROD) && !defined(__ARM_FEATURE_MATMUL_INT8)
constexpr int32_t kByteDotTakesOff = 128;
#else
constexpr int32_t kByteDotTakesOff = 0;
#endif

#if defined(SLIPWAY_BYTE_DOT)
// acc + the sum of the four products of each lane: of signed bytes with unsigned ones less kByteDotTakesOff or, where
// these are below 128 (kBelow128), as they are.
template <bool kBelow128 = false>
SLIPWAY_INLINE IntVec ByteDot(IntVec acc, WordVec u, WordVec s) {
#if defined(__AVX512VNNI__)
  return reinterpret_cast<IntVec>(
      _mm512_dpbusd_epi32(reinterpret_cast<__m512i>(acc), reinterpret_cast<__m512i>(u), reinterpret_cast<__m512i>(s)));
#elif defined(__AVXVNNI__)
  return reinterpret_cast<IntVec>(_mm256_dpbusd_avx_epi32(reinterpret_cast<__m256i>(acc), reinterpret_cast<__m256i>(u),
                                                          reinterpret_cast<__m256i>(s)));
#elif defined(__ARM_FEATURE_MATMUL_INT8)
  return reinterpret_cast<IntVec>(
      vusdotq_s32(reinterpret_cast<int32x4_t>(acc), reinterpret_cast<uint8x16_t>(u), reinterpret_cast<int8x16_t>(s)));
#else
  if constexpr (!kBelow128) u ^= 0x80808080u;
  return reinterpret_cast<IntVec>(
      vdotq_s32(reinterpret_cast<int32x4_t>(acc), reinterpret_cast<int8x16_t>(u), reinterpret_cast<int8x16_t>(s)));
#endif
}
#endif
