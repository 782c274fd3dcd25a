// Unary functions over vectors and rows (RowOp of elementwise.h), within a few units in the last place. Polynomials
// without a source of their own are Cephes' (Moshier, single precision). Included after simd.inc.h.

SLIPWAY_INLINE Vec Choose(IntVec mask, Vec a, Vec b) {
  return reinterpret_cast<Vec>((reinterpret_cast<IntVec>(a) & mask) | (reinterpret_cast<IntVec>(b) & ~mask));
}
SLIPWAY_INLINE Vec Abs(Vec x) { return reinterpret_cast<Vec>(reinterpret_cast<IntVec>(x) & 0x7fffffff); }
SLIPWAY_INLINE Vec WithSign(Vec x, Vec sign) {
  return reinterpret_cast<Vec>(reinterpret_cast<IntVec>(x) |
                               (reinterpret_cast<IntVec>(sign) & static_cast<int32_t>(0x80000000)));
}
// The lanes in which a NaN occurred.
struct NanLanes {
#if SLIPWAY_ISA_BYTES == 64
  __mmask16 lanes = 0;
  SLIPWAY_INLINE void Note(Vec x) {
    lanes |= _mm512_cmp_ps_mask(reinterpret_cast<__m512>(x), reinterpret_cast<__m512>(x), _CMP_UNORD_Q);
  }
  SLIPWAY_INLINE Vec ApplyTo(Vec x) const {
    return reinterpret_cast<Vec>(
        _mm512_mask_mov_ps(reinterpret_cast<__m512>(x), lanes, _mm512_set1_ps(__builtin_nanf(""))));
  }
#else
  IntVec lanes = {};
  SLIPWAY_INLINE void Note(Vec x) { lanes |= x != x; }
  SLIPWAY_INLINE Vec ApplyTo(Vec x) const { return Choose(lanes, Broadcast(__builtin_nanf("")), x); }
#endif
};
// NaN stays
SLIPWAY_INLINE Vec Clamp(Vec x, float low, float high) { return Min(Broadcast(high), Max(Broadcast(low), x)); }
template <int N>
SLIPWAY_INLINE Vec Polynomial(Vec x, const float (&c)[N]) {
  Vec y = Broadcast(c[0]);
#pragma GCC unroll 16
  for (int i = 1; i < N; ++i) y = y * x + c[i];
  return y;
}

// x = n ln 2 + r, |r| <= ln 2 / 2; `whole` is n as a float.
SLIPWAY_INLINE Vec ReduceLn2(Vec x, Vec* whole, IntVec* n) {
  constexpr float kRound = 12582912;  // 1.5 · 2^23: adding it rounds to an integer
  const Vec shifted = x * 1.44269504088896341f + kRound;
  *whole = shifted - kRound, *n = reinterpret_cast<IntVec>(shifted) - 0x4b400000;
  return (x - *whole * 0.693359375f) + *whole * 2.12194440e-4f;
}
// (exp(r) - 1 - r) / r^2 for |r| <= ln 2 / 2.
SLIPWAY_INLINE Vec ExpTail(Vec r) {
  return Polynomial(
      r, {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f});
}
SLIPWAY_INLINE Vec PowerOfTwo(IntVec n) { return reinterpret_cast<Vec>((n + 127) << 23); }

// exp(x) = 2^n · exp(r); the power of two in two factors, so that it may leave f32's normal numbers.
SLIPWAY_INLINE Vec Exp(Vec x) {
  Vec whole;
  IntVec n;
  const Vec r = ReduceLn2(Clamp(x, -104.5f, 89.5f), &whole, &n), y = ExpTail(r) * (r * r) + r + 1.0f;
#if SLIPWAY_ISA_BYTES == 64
  return reinterpret_cast<Vec>(_mm512_scalef_ps(reinterpret_cast<__m512>(y), reinterpret_cast<__m512>(whole)));
#else
  const IntVec half = n >> 1;
  return y * PowerOfTwo(half) * PowerOfTwo(n - half);
#endif
}
// The same but without denormal numbers: 0 from 2^-127 down, infinite from about 2^127.97 on.
SLIPWAY_INLINE Vec ExpNormal(Vec x) {
  x = Clamp(x, -88.0296919f, 88.7228391f);  // 2^-127 and 2^128
#if SLIPWAY_ISA_BYTES >= 32
  // x log2 e = n + k / lanes + r, |r| <= 1 / (2 lanes): 2^n · 2^(k / lanes) · 2^r, the second from a vector, which is
  // looked up by the last bits of a sum that rounds to multiples of 1 / lanes; the bits above them are added to its
  // exponent. The last is the polynomial whose largest relative error is least, 2.7e-8 for |r| <= 1 / 16.
#if SLIPWAY_ISA_BYTES == 64
  constexpr int kBits = 4;
  constexpr IntVec kRoots = {0x3f800000, 0x3f85aac3, 0x3f8b95c2, 0x3f91c3d3, 0x3f9837f0, 0x3f9ef532,
                             0x3fa5fed7, 0x3fad583f, 0x3fb504f3, 0x3fbd08a4, 0x3fc5672a, 0x3fce248c,
                             0x3fd744fd, 0x3fe0ccdf, 0x3feac0c7, 0x3ff5257d};
  constexpr IntVec kSteps = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#else
  constexpr int kBits = 3;
  constexpr IntVec kRoots = {0x3f800000, 0x3f8b95c2, 0x3f9837f0, 0x3fa5fed7,
                             0x3fb504f3, 0x3fc5672a, 0x3fd744fd, 0x3feac0c7};
  constexpr IntVec kSteps = {0, 1, 2, 3, 4, 5, 6, 7};
#endif
  // 1.5 · 2^23 / lanes
  constexpr float kLog2E = 1.4426950216293335f, kLog2ERest = 1.92596299e-8f, kRound = 12582912.0f / kLanes;
  const Vec shifted = Fma(x, Broadcast(kLog2E), Broadcast(kRound)), whole = shifted - kRound;
  const Vec r = Fma(x, Broadcast(kLog2ERest), Fma(x, Broadcast(kLog2E), -whole));
  const IntVec bits = reinterpret_cast<IntVec>(shifted), roots = kRoots - (kSteps << (23 - kBits));
#if SLIPWAY_ISA_BYTES == 64
  const IntVec root = reinterpret_cast<IntVec>(
      _mm512_permutexvar_epi32(reinterpret_cast<__m512i>(bits), reinterpret_cast<__m512i>(roots)));
#else
  const IntVec root = reinterpret_cast<IntVec>(
      _mm256_permutevar8x32_epi32(reinterpret_cast<__m256i>(roots), reinterpret_cast<__m256i>(bits)));
#endif
  return Polynomial(r, {5.5496221772771345e-2f, 2.4025762998112854e-1f, 6.931472142606823e-1f, 1.0f}) *
         reinterpret_cast<Vec>(root + (bits << (23 - kBits)));
#else
  Vec whole;
  IntVec n;
  const Vec r = ReduceLn2(x, &whole, &n);
  return ((ExpTail(r) * r + 1.0f) * r + 1.0f) * PowerOfTwo(n);
#endif
}
// exp(x) - 1, of which nothing is lost near 0: 2^n (exp(r) - 1) + (2^n - 1), of half of that where 2^n is out of range.
SLIPWAY_INLINE Vec Expm1(Vec x) {
  Vec whole;
  IntVec n;
  const Vec r = ReduceLn2(Clamp(x, -25.0f, 89.0f), &whole, &n), half = PowerOfTwo(n - 1);
  return ((ExpTail(r) * (r * r) + r) * half + (half - 0.5f)) * 2.0f;
}
// x = 2^e · m, m in [sqrt(1/2), sqrt(2)); e ln 2 + log(m).
SLIPWAY_INLINE Vec Log(Vec x) {
  const Vec smallest = Broadcast(0x1p-126f), large = Broadcast(__builtin_inff());
  const IntVec tiny = x < smallest;  // as a normal number
  const IntVec bits = reinterpret_cast<IntVec>(Choose(tiny, x * 0x1p23f, x));
  const Vec half = reinterpret_cast<Vec>((bits & 0x7fffff) | 0x3f000000);
  const IntVec below = half < 0.707106781186547524f;
  const Vec e = __builtin_convertvector((bits >> 23) - 126 + (tiny & -23) + below, Vec),
            m = Choose(below, half + half, half) - 1.0f;
  const Vec z = m * m;
  Vec y = Polynomial(m, {7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f,
                         -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f}) *
          m * z;
  y += e * -2.12194440e-4f;
  y -= 0.5f * z;
  y = m + y + e * 0.693359375f;
  // Infinity of itself, minus infinity of 0, NaN of what is less and of itself.
  y = Choose(x == large, x, y);
  return Choose(x > 0.0f, y, Choose(x == 0.0f, Broadcast(-__builtin_inff()), Broadcast(__builtin_nanf(""))));
}
// log(1 + x): what the sum 1 + x loses of x is made good.
SLIPWAY_INLINE Vec Log1p(Vec x) {
  const Vec u = x + 1.0f, y = Log(u);
  const IntVec plain = (u > 0.0f) & (u < Broadcast(__builtin_inff()));
  return Choose(plain, y + (x - (u - 1.0f)) / u, y);
}
// sin(x), or cos(x) with one more quarter turn, for |x| < 2^30. Reduced in f64, whose products of numbers of turns and
// pi / 2 (in two parts) keep more bits than f32 has.
SLIPWAY_INLINE Vec SinOf(Vec x, int quarter) {
  constexpr int kHalf = kLanes / 2;
  typedef double DoubleVec __attribute__((vector_size(SLIPWAY_ISA_BYTES)));
  typedef float HalfVec __attribute__((vector_size(SLIPWAY_ISA_BYTES / 2)));
  typedef int64_t LongVec __attribute__((vector_size(SLIPWAY_ISA_BYTES)));
  constexpr double kRound = 6755399441055744;  // 1.5 · 2^52
  Vec r;
  IntVec turns;
  for (int h = 0; h < 2; ++h) {
    HalfVec part;
    __builtin_memcpy(&part, reinterpret_cast<const char*>(&x) + h * sizeof part, sizeof part);
    const DoubleVec d = __builtin_convertvector(part, DoubleVec), shifted = d * 0.63661977236758134308 + kRound,
                    n = shifted - kRound;
    const HalfVec rest =
        __builtin_convertvector((d - n * 1.57079632679489655800) - n * 6.12323399573676603587e-17, HalfVec);
    const LongVec bits = reinterpret_cast<LongVec>(shifted);
    __builtin_memcpy(reinterpret_cast<char*>(&r) + h * sizeof rest, &rest, sizeof rest);
    for (int l = 0; l < kHalf; ++l) turns[h * kHalf + l] = static_cast<int32_t>(bits[l]);
  }
  turns += quarter;
  const Vec z = r * r;
  const Vec sine = (Polynomial(z, {-1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f}) * z) * r + r;
  const Vec cosine =
      Polynomial(z, {2.443315711809948e-5f, -1.388731625493765e-3f, 4.166664568298827e-2f}) * (z * z) - 0.5f * z + 1.0f;
  const Vec y = Choose((turns & 1) != 0, cosine, sine);
  return reinterpret_cast<Vec>(reinterpret_cast<IntVec>(y) ^ ((turns & 2) << 30));
}
// By a quotient of polynomials, to 6 units in the last place; beyond 8 it is 1.
SLIPWAY_INLINE Vec Tanh(Vec x) {
  const Vec t = Min(Broadcast(8.0f), Max(Broadcast(-8.0f), x)), z = t * t;  // NaN stays
  const Vec y =
      t *
      Polynomial(z, {-1.454693137e-11f, 3.357095935e-08f, 2.920459519e-05f, 3.926611971e-03f, 1.372619122e-01f, 1.0f}) /
      Polynomial(z, {1.372334623e-06f, 4.042098881e-04f, 2.745836601e-02f, 4.705952406e-01f, 1.0f});
  return Choose(Abs(x) > 8.5f, WithSign(Broadcast(1.0f), x), y);
}
// The same for erf, which it exceeds by a unit in the last place near its ends: for what adds something to it. At its
// ends it is 1 and -1, so that 1 + erf is 0 for what multiplies that by a large number.
SLIPWAY_INLINE Vec ErfQuotient(Vec x) {
  const Vec t = Min(Broadcast(3.8f), Max(Broadcast(-3.8f), x)), z = t * t;
  const Vec y =
      t *
      Polynomial(
          z, {2.151027957e-06f, 2.865046554e-04f, 3.614966059e-03f, 5.231038854e-02f, 1.862473190e-01f, 1.128379107f}) /
      Polynomial(z, {3.921320240e-05f, 1.135070808e-03f, 1.466705278e-02f, 1.124909893e-01f, 4.983903468e-01f, 1.0f});
#ifdef __FMA__
  return y;
#else
  return Choose(Abs(x) >= 3.8f, WithSign(Broadcast(1.0f), x), y);  // which more roundings miss
#endif
}
// Beyond 1 by a polynomial for -log(1 - erf).
SLIPWAY_INLINE Vec Erf(Vec x) {
  const Vec t = Min(Abs(x), Broadcast(4.0f)), z = x * x;
  const Vec near =
      Polynomial(z, {7.853861353153693e-5f, -8.010193625184903e-4f, 5.188327685732524e-3f, -2.685381193529856e-2f,
                     1.128358514861418e-1f, -3.761262582423300e-1f, 1.128379165726710f}) *
      x;
  const Vec log =
      Polynomial(t, {-1.31981505546718836e-4f, 2.3930741008371115e-3f, -1.956283114850521e-2f, 9.82835441827774e-2f,
                     6.437320113182068e-1f, 1.1237279176712036f, 1.1637962888926268e-3f});
  const Vec y = Choose(t < 1.0f, near, WithSign(1.0f - Exp(-log), x));
  return Choose(x == x, y, x);
}
// x / (1 + exp(-x)): NaN of -inf, as the quotient has it. 1 / (1 + exp(-x)) with 1 for the x above the line.
SLIPWAY_INLINE Vec TimesSigmoid(Vec above, Vec x) {
  const Vec d = 1.0f + ExpNormal(-x);
#if SLIPWAY_ISA_BYTES == 64
  // By a reciprocal, which takes half the time of a division, within 2^-23 of it; 0 of infinity.
  const Vec r = reinterpret_cast<Vec>(_mm512_rcp14_ps(reinterpret_cast<__m512>(d)));
  const __mmask16 finite =
      _mm512_cmp_ps_mask(reinterpret_cast<__m512>(d), _mm512_set1_ps(__builtin_inff()), _CMP_NEQ_UQ);
  return above * reinterpret_cast<Vec>(
                     _mm512_maskz_mul_ps(finite, reinterpret_cast<__m512>(r), reinterpret_cast<__m512>(2.0f - d * r)));
#else
  return above / d;
#endif
}
SLIPWAY_INLINE Vec Silu(Vec x) { return TimesSigmoid(x, x); }
SLIPWAY_INLINE Vec Sigmoid(Vec x) { return TimesSigmoid(Broadcast(1.0f), x); }
SLIPWAY_INLINE Vec HardSigmoid(Vec x) { return Clamp(x + 3.0f, 0, 6) * (1.0f / 6); }
SLIPWAY_INLINE Vec LeakyRelu(Vec x, float slope) { return Choose(x < 0.0f, x * slope, x); }
// x · tanh(log(1 + e)), e = exp(x): x · n / (n + 2), n = e (e + 2); x beyond 20.
SLIPWAY_INLINE Vec Mish(Vec x) {
  const Vec e = ExpNormal(Min(Broadcast(20.0f), x)), n = e * (e + 2.0f);
  return Choose(x > 20.0f, x, x * (n / (n + 2.0f)));
}
// F over a row; what is left of it in a vector of its own.
template <typename F>
SLIPWAY_INLINE void OverRow(const float* x, float* out, int64_t n, F f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store(out + i, f(Load(x + i)));
  if (i == n) return;
  float rest[kLanes] = {};
  for (int64_t j = i; j < n; ++j) rest[j - i] = x[j];
  Store(rest, f(Load(rest)));
  for (int64_t j = i; j < n; ++j) out[j] = rest[j - i];
}

template <Vec (*F)(Vec)>
void RowOf(const float* x, float* out, int64_t n) {
  OverRow(x, out, n, [](Vec v) __attribute__((always_inline)) { return F(v); });
}
[[maybe_unused]] void GeluRow(const float* x, float* out, int64_t n) {
  OverRow(
      x, out, n, [](Vec v) __attribute__((always_inline)) {
        return v * 0.5f * (1.0f + ErfQuotient(v * 0.70710678118654752440f));
      });
}
[[maybe_unused]] void GeluTanhRow(const float* x, float* out, int64_t n) {
  OverRow(
      x, out, n, [](Vec v) __attribute__((always_inline)) {
        return v * 0.5f * (1.0f + Tanh(0.79788456080286535588f * (v + 0.044715f * v * v * v)));
      });
}
SLIPWAY_INLINE Vec Relu(Vec v) { return Max(Vec{}, v); }
SLIPWAY_INLINE Vec Negative(Vec v) { return -v; }
SLIPWAY_INLINE Vec HardSwish(Vec v) { return v * HardSigmoid(v); }
SLIPWAY_INLINE Vec Sin(Vec v) { return SinOf(v, 0); }
SLIPWAY_INLINE Vec Cos(Vec v) { return SinOf(v, 1); }
[[maybe_unused]] void SqrtRow(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = __builtin_sqrtf(x[i]);
}
[[maybe_unused]] void RsqrtRow(const float* x, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = 1 / __builtin_sqrtf(x[i]);
}
[[maybe_unused]] void ScaleRow(float* x, float by, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store(x + i, Load(x + i) * by);
  for (; i < n; ++i) x[i] *= by;
}
