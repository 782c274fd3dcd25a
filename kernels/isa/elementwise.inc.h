// Elementwise micro-kernels (elementwise.h): binary operators, scaling, FIR, conversions of narrow types,
// transposition. Rows of n elements; the rest of a row is done element by element. Part of elementwise.cc.

template <PairOp kOp, typename T>
SLIPWAY_INLINE T Pair(T x, T y) {
  return kOp == PairOp::kAdd ? x + y : kOp == PairOp::kSub ? x - y : kOp == PairOp::kMul ? x * y : x / y;
}
template <PairOp kOp>
void PairRow(const float* x, const float* y, float* out, int64_t n, int scalar) {
  int64_t i = 0;
  if (scalar == 0) {
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
      const Vec a = Pair<kOp>(Load(x + i), Load(y + i)), b = Pair<kOp>(Load(x + i + kLanes), Load(y + i + kLanes));
      Store(out + i, a), Store(out + i + kLanes, b);
    }
    for (; i < n; ++i) out[i] = Pair<kOp>(x[i], y[i]);
  } else if (scalar == 2) {
    const float b = *y;
    for (; i + kLanes <= n; i += kLanes) Store(out + i, Pair<kOp>(Load(x + i), Broadcast(b)));
    for (; i < n; ++i) out[i] = Pair<kOp>(x[i], b);
  } else {
    const float a = *x;
    for (; i + kLanes <= n; i += kLanes) Store(out + i, Pair<kOp>(Broadcast(a), Load(y + i)));
    for (; i < n; ++i) out[i] = Pair<kOp>(a, y[i]);
  }
}

template <int N>
SLIPWAY_INLINE void FirOf(const float* x, const int64_t* offsets, const float* w, int64_t taps, float bias,
                          float* out) {
  Vec sum[N];
#pragma GCC unroll 8
  for (int v = 0; v < N; ++v) sum[v] = Broadcast(bias);
  for (int64_t t = 0; t < taps; ++t) {
    const float* at = x + offsets[t];
    const Vec by = Broadcast(w[t]);
#pragma GCC unroll 8
    for (int v = 0; v < N; ++v) sum[v] += by * Load(at + v * kLanes);
  }
#pragma GCC unroll 8
  for (int v = 0; v < N; ++v) Store(out + v * kLanes, sum[v]);
}
void FirRow(const FirParams& p) {
  const auto [x, offsets, w, taps, bias, out, n] = p;
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) FirOf<4>(x + i, offsets, w, taps, bias, out + i);
  for (; i + kLanes <= n; i += kLanes) FirOf<1>(x + i, offsets, w, taps, bias, out + i);
  if (i == n) return;
  if (n >= kLanes) return FirOf<1>(x + n - kLanes, offsets, w, taps, bias, out + n - kLanes);
  for (; i < n; ++i) {
    float sum = bias;
    for (int64_t t = 0; t < taps; ++t) sum += w[t] * x[offsets[t] + i];
    out[i] = sum;
  }
}

// ---- Narrow types.

template <typename S>
SLIPWAY_INLINE void ConvertToF32From(const S* x, float* out, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store(out + i, LoadAs(x + i));
  for (; i < n; ++i) out[i] = ToFloat(x[i]);
}
void BytesToF32(const uint8_t* x, float* out, int64_t n) {
  typedef uint8_t Bytes __attribute__((vector_size(kLanes), aligned(1), may_alias));
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    Store(out + i,
          __builtin_convertvector(__builtin_convertvector(*reinterpret_cast<const Bytes*>(x + i), IntVec), Vec));
  for (; i < n; ++i) out[i] = static_cast<float>(x[i]);
}
void ConvertToF32(const void* x, DType dtype, float* out, int64_t n) {
  if (dtype == DType::kBF16)
    ConvertToF32From(static_cast<const BF16Bits*>(x), out, n);
  else if (dtype == DType::kI8)
    ConvertToF32From(static_cast<const int8_t*>(x), out, n);
  else if (dtype == DType::kU8)
    BytesToF32(static_cast<const uint8_t*>(x), out, n);
  else if (dtype == DType::kF8E4M3FN)
    ConvertToF32From(static_cast<const E4M3Bits*>(x), out, n);
  else
    ConvertToF32From(static_cast<const _Float16*>(x), out, n);
}

typedef uint32_t UintVec __attribute__((vector_size(SLIPWAY_ISA_BYTES)));
// The upper halves, rounded to nearest even; of NaN the plain one.
SLIPWAY_INLINE UintVec RoundToBf16(Vec v) {
  const UintVec u = reinterpret_cast<UintVec>(v);
  const UintVec rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
#if SLIPWAY_ISA_BYTES == 64
  const __m512 x = reinterpret_cast<__m512>(v);
  return reinterpret_cast<UintVec>(_mm512_mask_mov_epi32(
      reinterpret_cast<__m512i>(rounded), _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), _mm512_set1_epi32(0x7fc0)));
#else
  const UintVec number = reinterpret_cast<UintVec>(v == v);
  return (rounded & number) | (0x7fc0 & ~number);
#endif
}
void F32ToBytes(const float* x, uint8_t* out, int64_t n) {
  typedef uint8_t Bytes __attribute__((vector_size(kLanes), aligned(1), may_alias));
  const auto bytes = [](Vec v) __attribute__((always_inline)) {
    v = v < 0x1p31f && v > -0x1p31f ? v : Vec{};  // NaN, too
    const IntVec ints = __builtin_convertvector(v, IntVec);
#if SLIPWAY_ISA_BYTES == 32  // compilers take the bytes one by one
    const auto low = reinterpret_cast<__m256i>(ints & 255);
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    const int64_t packed = _mm_cvtsi128_si64(_mm_packus_epi16(words, words));
    return reinterpret_cast<const Bytes&>(packed);
#else
    return __builtin_convertvector(ints, Bytes);
#endif
  };
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) *reinterpret_cast<Bytes*>(out + i) = bytes(Load(x + i));
  if (i == n) return;
  float rest[kLanes] = {};
  for (int64_t l = 0; i + l < n; ++l) rest[l] = x[i + l];
  const Bytes last = bytes(Load(rest));
  for (int64_t l = 0; i + l < n; ++l) out[i + l] = last[l];
}
void QuantizeFloats(const float* x, float* out, int64_t n, float by, float zero, float low, float high) {
  // Beyond these the clamp decides; within, the sum with 1.5 · 2^23 is rounded to an integer, ties to even.
  constexpr float kLimit = 4096, kTie = 0x1.8p23f;
  const auto rounded = [&](Vec v) __attribute__((always_inline)) {
    v = Min(Max(Materialize(v * by), Broadcast(-kLimit)), Broadcast(kLimit));  // NaN: -kLimit
    v = Materialize(Materialize(v + kTie) - kTie) + zero;
    return Min(Max(v, Broadcast(low)), Broadcast(high));
  };
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store(out + i, rounded(Load(x + i)));
  if (i == n) return;
  float rest[kLanes] = {};
  for (int64_t l = 0; i + l < n; ++l) rest[l] = x[i + l];
  Store(rest, rounded(Load(rest)));
  for (int64_t l = 0; i + l < n; ++l) out[i + l] = rest[l];
}
void ConvertFromF32(const float* x, void* out, DType dtype, int64_t n) {
  if (dtype == DType::kU8 || dtype == DType::kI8) return F32ToBytes(x, static_cast<uint8_t*>(out), n);
  int64_t i = 0;
  if (dtype == DType::kBF16) {
    uint16_t* to = static_cast<uint16_t*>(out);
#if SLIPWAY_ISA_BYTES == 32
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {  // of one vector, conversion takes several times as long
      const __m256i both = _mm256_packus_epi32(reinterpret_cast<__m256i>(RoundToBf16(Load(x + i))),
                                               reinterpret_cast<__m256i>(RoundToBf16(Load(x + i + kLanes))));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm256_permute4x64_epi64(both, 0xd8));
    }
#endif
    for (; i + kLanes <= n; i += kLanes)
      *reinterpret_cast<HalfBitsAt*>(to + i) = __builtin_convertvector(RoundToBf16(Load(x + i)), HalfBitsAt);
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

// ---- Layout changes.

// Transposes a square of lanes × lanes: blocks of D lanes are swapped, for D from half a vector down to one.
template <int D, int... I>
SLIPWAY_INLINE void SwapBlocks(Vec* r, std::integer_sequence<int, I...> lanes) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if ((i & D) != 0) continue;
    const Vec a = r[i], b = r[i + D];
    r[i] = Permute(a, b, IntVec{((I & D) != 0 ? kLanes + I - D : I)...});
    r[i + D] = Permute(a, b, IntVec{((I & D) != 0 ? kLanes + I : I + D)...});
  }
  if constexpr (D > 1) SwapBlocks<D / 2>(r, lanes);
}
SLIPWAY_INLINE void TransposeTile(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  Vec r[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) r[i] = Load(from + i * from_stride);
  SwapBlocks<kLanes / 2>(r, std::make_integer_sequence<int, kLanes>());
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) Store(to + i * to_stride, r[i]);
}

// to[i * to_stride + j] = from[j * from_stride + i] for i < rows, j < columns.
void TransposeWords(const uint32_t* from, int64_t from_stride, uint32_t* to, int64_t to_stride, int64_t rows,
                    int64_t columns) {
  // A block of rows of `to`, whose lines stay in the cache until they are full.
  constexpr int64_t kBlock = 64;
  for (; rows > kBlock; rows -= kBlock, from += kBlock, to += kBlock * to_stride)
    TransposeWords(from, from_stride, to, to_stride, kBlock, columns);
  const float* source = reinterpret_cast<const float*>(from);
  float* target = reinterpret_cast<float*>(to);
  int64_t j = 0;
  // [i, rows) of `some` columns from j on.
  auto rest = [&](int64_t i, int64_t some) __attribute__((always_inline)) {
    for (; i < rows; ++i)
      for (int64_t k = 0; k < some; ++k) to[i * to_stride + j + k] = from[(j + k) * from_stride + i];
  };
  for (; j + kLanes <= columns; j += kLanes) {
    int64_t i = 0;
    for (; i + kLanes <= rows; i += kLanes)
      TransposeTile(source + j * from_stride + i, from_stride, target + i * to_stride + j, to_stride);
    rest(i, kLanes);
  }
  for (; j + 4 <= columns; j += 4) {
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4) {
      Vec4 r[4];
      for (int k = 0; k < 4; ++k) r[k] = Load4(source + (j + k) * from_stride + i);
      Transpose4x4(r);
      for (int k = 0; k < 4; ++k) *reinterpret_cast<Vec4At*>(target + (i + k) * to_stride + j) = r[k];
    }
    rest(i, 4);
  }
  rest(0, columns - j);
}

// to[2 · i] = to[2 · i + 1] = from[i], and the same to `again`, unless that is null.
template <typename Words>
SLIPWAY_INLINE void StoreDuplicated(const uint32_t* from, uint32_t* to, uint32_t* again) {
  typedef Words At __attribute__((aligned(4), may_alias));
  constexpr int kCount = sizeof(Words) / 4;
  const Words v = *reinterpret_cast<const At*>(from);
  Words low, high;
  for (int l = 0; l < kCount; ++l)
    low[l] = static_cast<uint32_t>(l / 2), high[l] = static_cast<uint32_t>(kCount / 2 + l / 2);
  const Words first = Permute(v, low), second = Permute(v, high);
  *reinterpret_cast<At*>(to) = first, *reinterpret_cast<At*>(to + kCount) = second;
  if (again != nullptr) *reinterpret_cast<At*>(again) = first, *reinterpret_cast<At*>(again + kCount) = second;
}
void DuplicateRow(const uint32_t* from, int64_t n, uint32_t* to, uint32_t* again) {
  typedef uint32_t Words4 __attribute__((vector_size(16)));
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    StoreDuplicated<WordVec>(from + i, to + 2 * i, again != nullptr ? again + 2 * i : nullptr);
  for (; i + 4 <= n; i += 4) StoreDuplicated<Words4>(from + i, to + 2 * i, again != nullptr ? again + 2 * i : nullptr);
  for (; i < n; ++i) {
    to[2 * i] = to[2 * i + 1] = from[i];
    if (again != nullptr) again[2 * i] = again[2 * i + 1] = from[i];
  }
}
