// The vectors of one instruction set, which body.h and dot_body.h are written with: included once by each file that
// includes these, inside its unnamed namespace, after SLIPWAY_ISA_BYTES and the intrinsics.

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

SLIPWAY_INLINE int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }
SLIPWAY_INLINE int64_t Most(int64_t a, int64_t b) { return a > b ? a : b; }
SLIPWAY_INLINE Vec Load(const float* p) { return *reinterpret_cast<const VecAt*>(p); }
SLIPWAY_INLINE void Store(float* p, Vec v) { *reinterpret_cast<VecAt*>(p) = v; }
SLIPWAY_INLINE Vec Splat(float x) { return x - Vec{}; }
// a·b + c: rounded once where the instruction set can. Compilers contract `a * b + c` in one instance of a template and
// not in another; where the bits of several instances must be the same, it is this.
SLIPWAY_INLINE Vec MultiplyAdd(Vec a, Vec b, Vec c) {
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

// v in a register: it is rounded, and nothing is contracted across it; what was loaded is not loaded again.
SLIPWAY_INLINE Vec Kept(Vec v) {
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

// Products of few rows read their matrix once, as fast as memory gives it: a tile of so many panels (panels.h) fetches
// ahead of what it multiplies, within each panel or, where that ends, in one of the next tile's. Measured: a page ahead
// is far enough for memory and near enough for the first-level cache; without, the ends of short panels cost a third of
// the time.
template <int kPanels>
struct Ahead {
  static constexpr int64_t panels = kPanels, kBytes = 4096;
  int64_t step, next_tile;
  int64_t turn;  // the byte of a panel from which on that is in the next tile's
  explicit Ahead(int64_t panel_bytes)
      : step(Least(kBytes, panel_bytes)), next_tile((kPanels - 1) * panel_bytes), turn(panel_bytes - step) {}
  // How far, in bytes, from byte `at` of a panel.
  SLIPWAY_INLINE int64_t From(int64_t at) const { return step + (at < turn ? 0 : next_tile); }
};
