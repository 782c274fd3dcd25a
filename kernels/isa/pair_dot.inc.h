// Sums of two products of bf16, where the instruction set has instructions for them: AVX512_BF16 (vdpbf16ps) and Arm's
// FEAT_BF16 (bfdot). Included after simd.inc.h, inside the unnamed namespace of an instruction set.

// acc + the sum of the two products of each lane, whose bf16 are in the halves of a word.
SLIPWAY_INLINE Vec PairDot(Vec acc, WordVec x, WordVec w) {
#if defined(__aarch64__)
  return reinterpret_cast<Vec>(vbfdotq_f32(reinterpret_cast<float32x4_t>(acc), reinterpret_cast<bfloat16x8_t>(x),
                                           reinterpret_cast<bfloat16x8_t>(w)));
#else
#if defined(__clang__) && __clang_major__ < 17
  asm("" : "+v"(x));  // Clang 16 does not end where it folds the conversion of a broadcast
#endif
  return reinterpret_cast<Vec>(
      _mm512_dpbf16_ps(reinterpret_cast<__m512>(acc), reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(w)));
#endif
}

SLIPWAY_INLINE WordVec BroadcastPair(const void* p) {
  uint32_t word;
  __builtin_memcpy(&word, p, 4);
  return word - WordVec{};
}
