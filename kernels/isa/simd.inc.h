// The vectors of one instruction set and their operations: types, loads and stores, fma, minimum and maximum, rounding.
// The first that sources of micro-kernels include inside their unnamed namespace, after set.h.

constexpr int kLanes = SLIPWAY_ISA_BYTES / 4;
typedef float Vec __attribute__((vector_size(SLIPWAY_ISA_BYTES)));
typedef float VecAt __attribute__((vector_size(SLIPWAY_ISA_BYTES), aligned(4), may_alias));
typedef int32_t IntVec __attribute__((vector_size(SLIPWAY_ISA_BYTES)));
typedef uint32_t WordVec __attribute__((vector_size(SLIPWAY_ISA_BYTES)));
typedef uint32_t WordVecAt __attribute__((vector_size(SLIPWAY_ISA_BYTES), aligned(4), may_alias));
typedef uint16_t HalfBitsAt __attribute__((vector_size(SLIPWAY_ISA_BYTES / 2), aligned(2), may_alias));
typedef float Vec4At __attribute__((vector_size(16), aligned(4), may_alias));
typedef float Vec4 __attribute__((vector_size(16)));
typedef int32_t Int4 __attribute__((vector_size(16)));

#define SLIPWAY_INLINE inline __attribute__((always_inline))

// Element i is v[from[i]], or of two vectors that of the one behind the other: Clang has __builtin_shuffle for neither,
// and makes the same instructions of loops.
template <typename V, typename I>
SLIPWAY_INLINE V Permute(V v, I from) {
#if defined(__clang__)
  V r = v;
#pragma unroll
  for (unsigned i = 0; i < sizeof(I) / sizeof from[0]; ++i) r[i] = v[static_cast<unsigned>(from[i])];
  return r;
#else
  return __builtin_shuffle(v, from);
#endif
}
template <typename V, typename I>
SLIPWAY_INLINE V Permute(V a, V b, I from) {
#if defined(__clang__)
  constexpr unsigned kCount = sizeof(I) / sizeof from[0];
  V r = a;
#pragma unroll
  for (unsigned i = 0; i < kCount; ++i) {
    const unsigned k = static_cast<unsigned>(from[i]);
    r[i] = k < kCount ? a[k] : b[k - kCount];
  }
  return r;
#else
  return __builtin_shuffle(a, b, from);
#endif
}

SLIPWAY_INLINE int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }
SLIPWAY_INLINE int64_t Max(int64_t a, int64_t b) { return a > b ? a : b; }
// Of `left` pixels, those of the next tile of at most `most`: the last two tiles are evened out.
SLIPWAY_INLINE int64_t PixelsOfTile(int64_t left, int64_t most) {
  return left <= most ? left : left < 2 * most ? (left + 1) / 2 : most;
}
SLIPWAY_INLINE Vec Load(const float* p) { return *reinterpret_cast<const VecAt*>(p); }
SLIPWAY_INLINE void Store(float* p, Vec v) { *reinterpret_cast<VecAt*>(p) = v; }
SLIPWAY_INLINE Vec Broadcast(float x) { return x - Vec{}; }
// a · b + c, rounded once where the instruction set has it. Compilers contract `a * b + c` in one instance of a
// template and not in another; code whose instances must agree bit by bit calls this.
SLIPWAY_INLINE Vec Fma(Vec a, Vec b, Vec c) {
#if SLIPWAY_ISA_BYTES == 64
  return reinterpret_cast<Vec>(
      _mm512_fmadd_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(c)));
#elif SLIPWAY_ISA_BYTES == 32
  return reinterpret_cast<Vec>(
      _mm256_fmadd_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(c)));
#elif defined(__aarch64__)
  return reinterpret_cast<Vec>(
      vfmaq_f32(reinterpret_cast<float32x4_t>(c), reinterpret_cast<float32x4_t>(a), reinterpret_cast<float32x4_t>(b)));
#else
  return a * b + c;
#endif
}
SLIPWAY_INLINE WordVec LoadWords(const void* p) { return *static_cast<const WordVecAt*>(p); }
SLIPWAY_INLINE IntVec LoadInts(const int32_t* p) { return reinterpret_cast<IntVec>(LoadWords(p)); }
SLIPWAY_INLINE void StoreInts(int32_t* p, IntVec v) { *reinterpret_cast<WordVecAt*>(p) = reinterpret_cast<WordVec>(v); }

// kLanes bytes, as integers.
SLIPWAY_INLINE IntVec LoadBytes(const int8_t* p) {
#if SLIPWAY_ISA_BYTES == 64
  return reinterpret_cast<IntVec>(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#elif SLIPWAY_ISA_BYTES == 32
  return reinterpret_cast<IntVec>(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
#else
  int32_t bits;
  __builtin_memcpy(&bits, p, 4);
#if defined(__SSE4_1__)
  return reinterpret_cast<IntVec>(_mm_cvtepi8_epi32(_mm_cvtsi32_si128(bits)));
#elif defined(__aarch64__)
  return reinterpret_cast<IntVec>(vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8(static_cast<uint32_t>(bits))))));
#else
  return IntVec{p[0], p[1], p[2], p[3]};
#endif
#endif
}

// a > b ? a : b, a < b ? a : b: b where one is NaN. Intrinsics, since compilers do not select these instructions.
SLIPWAY_INLINE Vec Max(Vec a, Vec b) {
#if SLIPWAY_ISA_BYTES == 64
  return reinterpret_cast<Vec>(_mm512_max_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b)));
#elif SLIPWAY_ISA_BYTES == 32
  return reinterpret_cast<Vec>(_mm256_max_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b)));
#else
  return a > b ? a : b;
#endif
}
SLIPWAY_INLINE Vec Min(Vec a, Vec b) {
#if SLIPWAY_ISA_BYTES == 64
  return reinterpret_cast<Vec>(_mm512_min_ps(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b)));
#elif SLIPWAY_ISA_BYTES == 32
  return reinterpret_cast<Vec>(_mm256_min_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b)));
#else
  return a < b ? a : b;
#endif
}
#if SLIPWAY_ISA_BYTES == 32
// a mask of the first n lanes begins at kLanes - n
alignas(32) constexpr int32_t kFirst[2 * kLanes] = {-1, -1, -1, -1, -1, -1, -1, -1};
#endif
// The first n elements, zeros behind them; memory beyond is neither read nor written.
SLIPWAY_INLINE Vec LoadPartial(const float* p, int64_t n) {
#if SLIPWAY_ISA_BYTES == 64
  return reinterpret_cast<Vec>(_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p));
#elif SLIPWAY_ISA_BYTES == 32
  if (__builtin_constant_p(n) && n == kLanes) return Load(p);
  return reinterpret_cast<Vec>(
      _mm256_maskload_ps(p, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kFirst + kLanes - n))));
#else
  if (n == kLanes) return Load(p);
  return Vec{n > 0 ? p[0] : 0.0f, n > 1 ? p[1] : 0.0f, n > 2 ? p[2] : 0.0f, 0.0f};
#endif
}
SLIPWAY_INLINE void StorePartial(float* p, Vec v, int64_t n) {
#if SLIPWAY_ISA_BYTES == 64
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), reinterpret_cast<__m512>(v));
#else
  if (n == kLanes) return Store(p, v);
#if SLIPWAY_ISA_BYTES == 32
  // Masked stores take dozens of cycles on some processors.
  Vec4 rest = __builtin_shufflevector(v, v, 0, 1, 2, 3);
  if ((n & 4) != 0) {
    *reinterpret_cast<Vec4At*>(p) = rest;
    rest = __builtin_shufflevector(v, v, 4, 5, 6, 7), p += 4;
  }
#else
  Vec4 rest = v;
#endif
  if ((n & 2) != 0) {
    __builtin_memcpy(p, &rest, 8);
    rest = Permute(rest, Int4{2, 3, 0, 1}), p += 2;
  }
  if ((n & 1) != 0) *p = rest[0];
#endif
}

// v as a value in a register: nothing is contracted across it, and what was loaded is not loaded again.
SLIPWAY_INLINE Vec Materialize(Vec v) {
#if defined(__x86_64__)
  asm("" : "+x"(v));
#else
  asm("" : "+w"(v));
#endif
  return v;
}

// Rounded to bf16; NaN as ScaleOf gives it stays one.
SLIPWAY_INLINE Vec RoundedBF16(Vec v) {
  const IntVec u = reinterpret_cast<IntVec>(v);
  return reinterpret_cast<Vec>((u + 0x7fff + ((u >> 16) & 1)) & static_cast<int32_t>(0xffff0000));
}

// Prefetches what is read once, at the speed of memory, into the second-level cache. Measured with four panels of 4
// bits on Zen 4: into the first level, whose sets a page of each of several panels fills, such a loop reads a third
// less.
SLIPWAY_INLINE void PrefetchOnce(const void* p) { __builtin_prefetch(p, 0, 2); }

// Prefetch distance of a GEMV, which reads its matrix once at the speed of memory: a tile of kPanels panels
// (gemm/packing.h) prefetches `step` bytes behind what it reads within each panel and, at a panel's end, in one of the
// next tile's. Measured: one page is far enough for memory; without it, the ends of short panels cost a third of the
// time.
template <int kPanels>
struct PanelPrefetch {
  static constexpr int64_t panels = kPanels, kBytes = 4096;
  int64_t step, next_tile;
  int64_t panel_end;  // the byte of a panel from which on the prefetched byte is in the next tile
  explicit PanelPrefetch(int64_t panel_bytes)
      : step(Min(kBytes, panel_bytes)), next_tile((kPanels - 1) * panel_bytes), panel_end(panel_bytes - step) {}
  // The distance in bytes from byte `at` of a panel.
  SLIPWAY_INLINE int64_t From(int64_t at) const { return step + (at < panel_end ? 0 : next_tile); }
};
