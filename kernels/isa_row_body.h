// Part of isa_body.h: what passes over rows once, in and out of narrow types.

// ---- Narrow types.

template <typename S>
SLIPWAY_INLINE void WidenFrom(const S* x, float* out, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store(out + i, LoadAs(x + i));
  for (; i < n; ++i) out[i] = ToFloat(x[i]);
}
void WidenRow(const void* x, DType dtype, float* out, int64_t n) {
  if (dtype == DType::kBF16)
    WidenFrom(static_cast<const BFloat*>(x), out, n);
  else
    WidenFrom(static_cast<const _Float16*>(x), out, n);
}

typedef uint32_t UintVec __attribute__((vector_size(SLIPWAY_ISA_BYTES)));
// The upper halves, rounded to nearest even; of NaN the plain one.
SLIPWAY_INLINE UintVec Upper(Vec v) {
  const UintVec u = reinterpret_cast<UintVec>(v);
  const UintVec rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  const UintVec number = reinterpret_cast<UintVec>(v == v);
  return (rounded & number) | (0x7fc0 & ~number);
}
void NarrowRow(const float* x, void* out, DType dtype, int64_t n) {
  int64_t i = 0;
  if (dtype == DType::kBF16) {
    uint16_t* to = static_cast<uint16_t*>(out);
    for (; i + kLanes <= n; i += kLanes)
      *reinterpret_cast<HalfBitsAt*>(to + i) = __builtin_convertvector(Upper(Load(x + i)), HalfBitsAt);
    for (; i < n; ++i) {
      uint32_t u;
      __builtin_memcpy(&u, x + i, 4);
      to[i] = x[i] != x[i] ? 0x7fc0 : static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
    }
    return;
  }
  _Float16* to = static_cast<_Float16*>(out);
#if defined(__F16C__) && SLIPWAY_ISA_BYTES == 64
  for (; i + kLanes <= n; i += kLanes)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm512_cvtps_ph(reinterpret_cast<__m512>(Load(x + i)), 0));
#elif defined(__F16C__) && SLIPWAY_ISA_BYTES == 32
  for (; i + kLanes <= n; i += kLanes)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm256_cvtps_ph(reinterpret_cast<__m256>(Load(x + i)), 0));
#endif
  for (; i < n; ++i) to[i] = static_cast<_Float16>(x[i]);
}

// ---- Sums and norms.

// Kept in f64.
double SumOfRow(const float* x, int64_t n) {
  typedef double DoubleVec __attribute__((vector_size(SLIPWAY_ISA_BYTES)));
  typedef float HalfVecAt __attribute__((vector_size(SLIPWAY_ISA_BYTES / 2), aligned(4), may_alias));
  constexpr int kHalf = kLanes / 2;
  DoubleVec sum[4] = {};
  int64_t i = 0;
  for (; i + 4 * kHalf <= n; i += 4 * kHalf)
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k)
      sum[k] += __builtin_convertvector(*reinterpret_cast<const HalfVecAt*>(x + i + k * kHalf), DoubleVec);
  const DoubleVec all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  double total = 0;
  for (int k = 0; k < kHalf; ++k) total += all[k];
  for (; i < n; ++i) total += static_cast<double>(x[i]);
  return total;
}

void RmsNormRow(const float* x, const float* weight, float epsilon, float* out, int64_t n) {
  Vec squares[4] = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) squares[k] += Load(x + i + k * kLanes) * Load(x + i + k * kLanes);
  float total = Sum((squares[0] + squares[1]) + (squares[2] + squares[3]));
  for (; i < n; ++i) total += x[i] * x[i];
  const float scale = 1 / __builtin_sqrtf(total / static_cast<float>(n) + epsilon);
  i = 0;
  if (weight != nullptr) {
    for (; i + kLanes <= n; i += kLanes) Store(out + i, Load(x + i) * scale * Load(weight + i));
    for (; i < n; ++i) out[i] = x[i] * scale * weight[i];
    return;
  }
  for (; i + kLanes <= n; i += kLanes) Store(out + i, Load(x + i) * scale);
  for (; i < n; ++i) out[i] = x[i] * scale;
}
