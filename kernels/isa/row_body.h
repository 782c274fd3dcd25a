// Part of body.h: loops that pass over a row once: conversions of narrow types, transposition, sums, norms, recurrent
// cells.

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
  else if (dtype == DType::kI8)
    WidenFrom(static_cast<const int8_t*>(x), out, n);
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

// ---- Layouts.

// A square of as many vectors as a vector has lanes, transposed: blocks of D lanes change places, for D from half a
// vector down to one.
template <int... I>
struct Lanes {};
template <int N>
using LanesBelow = Lanes<__integer_pack(N)...>;
template <int D, int... I>
SLIPWAY_INLINE void SwapBlocks(Vec* r, Lanes<I...>) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if ((i & D) != 0) continue;
    const Vec a = r[i], b = r[i + D];
    r[i] = __builtin_shuffle(a, b, IntVec{((I & D) != 0 ? kLanes + I - D : I)...});
    r[i + D] = __builtin_shuffle(a, b, IntVec{((I & D) != 0 ? kLanes + I : I + D)...});
  }
  if constexpr (D > 1) SwapBlocks<D / 2>(r, Lanes<I...>());
}
SLIPWAY_INLINE void TransposeSquare(const float* from, int64_t from_row, float* to, int64_t to_row) {
  Vec r[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) r[i] = Load(from + i * from_row);
  SwapBlocks<kLanes / 2>(r, LanesBelow<kLanes>());
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) Store(to + i * to_row, r[i]);
}

// to[i * to_row + j] = from[j * from_row + i] for i < rows, j < columns.
void TransposeWords(const uint32_t* from, int64_t from_row, uint32_t* to, int64_t to_row, int64_t rows,
                    int64_t columns) {
  // Some rows of `to` at a time, whose lines stay in the cache until they are full.
  constexpr int64_t kBlock = 64;
  for (; rows > kBlock; rows -= kBlock, from += kBlock, to += kBlock * to_row)
    TransposeWords(from, from_row, to, to_row, kBlock, columns);
  const float* source = reinterpret_cast<const float*>(from);
  float* target = reinterpret_cast<float*>(to);
  int64_t j = 0;
  // [i, rows) of `some` columns from j on.
  auto rest = [&](int64_t i, int64_t some) __attribute__((always_inline)) {
    for (; i < rows; ++i)
      for (int64_t k = 0; k < some; ++k) to[i * to_row + j + k] = from[(j + k) * from_row + i];
  };
  for (; j + kLanes <= columns; j += kLanes) {
    int64_t i = 0;
    for (; i + kLanes <= rows; i += kLanes)
      TransposeSquare(source + j * from_row + i, from_row, target + i * to_row + j, to_row);
    rest(i, kLanes);
  }
  for (; j + 4 <= columns; j += 4) {
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4) {
      Vec4 r[4];
      for (int k = 0; k < 4; ++k) r[k] = Load4(source + (j + k) * from_row + i);
      Transpose4x4(r);
      for (int k = 0; k < 4; ++k) *reinterpret_cast<Vec4At*>(target + (i + k) * to_row + j) = r[k];
    }
    rest(i, 4);
  }
  rest(0, columns - j);
}

// to[2 · i] = to[2 · i + 1] = from[i], and the same to `again`, unless that is null.
template <typename Words>
SLIPWAY_INLINE void StoreTwice(const uint32_t* from, uint32_t* to, uint32_t* again) {
  typedef Words At __attribute__((aligned(4), may_alias));
  constexpr int kCount = sizeof(Words) / 4;
  const Words v = *reinterpret_cast<const At*>(from);
  Words low, high;
  for (int l = 0; l < kCount; ++l)
    low[l] = static_cast<uint32_t>(l / 2), high[l] = static_cast<uint32_t>(kCount / 2 + l / 2);
  const Words first = __builtin_shuffle(v, low), second = __builtin_shuffle(v, high);
  *reinterpret_cast<At*>(to) = first, *reinterpret_cast<At*>(to + kCount) = second;
  if (again != nullptr) *reinterpret_cast<At*>(again) = first, *reinterpret_cast<At*>(again + kCount) = second;
}
void TwiceRow(const uint32_t* from, int64_t n, uint32_t* to, uint32_t* again) {
  typedef uint32_t Words4 __attribute__((vector_size(16)));
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    StoreTwice<WordVec>(from + i, to + 2 * i, again != nullptr ? again + 2 * i : nullptr);
  for (; i + 4 <= n; i += 4) StoreTwice<Words4>(from + i, to + 2 * i, again != nullptr ? again + 2 * i : nullptr);
  for (; i < n; ++i) {
    to[2 * i] = to[2 * i + 1] = from[i];
    if (again != nullptr) again[2 * i] = again[2 * i + 1] = from[i];
  }
}

// ---- Sums and norms.

constexpr int kHalf = kLanes / 2;
typedef double DoubleVec __attribute__((vector_size(SLIPWAY_ISA_BYTES)));
typedef double DoubleVecAt __attribute__((vector_size(SLIPWAY_ISA_BYTES), aligned(8), may_alias));
typedef float HalfVec __attribute__((vector_size(SLIPWAY_ISA_BYTES / 2)));
typedef float HalfVecAt __attribute__((vector_size(SLIPWAY_ISA_BYTES / 2), aligned(4), may_alias));

// The sum of f(x), kept in f64: f takes a vector of doubles, or one.
template <typename F>
SLIPWAY_INLINE double SumOf(const float* x, int64_t n, F f) {
  DoubleVec sum[4] = {};
  int64_t i = 0;
  for (; i + 4 * kHalf <= n; i += 4 * kHalf)
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k)
      sum[k] += f(__builtin_convertvector(*reinterpret_cast<const HalfVecAt*>(x + i + k * kHalf), DoubleVec));
  const DoubleVec all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  double total = 0;
  for (int k = 0; k < kHalf; ++k) total += all[k];
  for (; i < n; ++i) total += f(static_cast<double>(x[i]));
  return total;
}
template <typename D>
SLIPWAY_INLINE D Squared(D x, D center) {
  return (x - center) * (x - center);
}
double SumOfRow(const float* x, int64_t n) {
  return SumOf(x, n, [](auto d) __attribute__((always_inline)) { return d; });
}
double SumOfSquares(const float* x, int64_t n, double center) {
  return SumOf(x, n, [&](auto d) __attribute__((always_inline)) { return Squared(d, center - decltype(d){}); });
}

// The sums of V vectors of columns: of eight rows in f32, in pairs, and of these in f64.
template <int V>
SLIPWAY_INLINE void SumColumns(const float* x, int64_t row, int64_t rows, double* sums) {
  DoubleVec total[2 * V];
#pragma GCC unroll 8
  for (int k = 0; k < 2 * V; ++k) total[k] = *reinterpret_cast<const DoubleVecAt*>(sums + k * (kLanes / 2));
  int64_t i = 0;
  for (; i + 8 <= rows; i += 8, x += 8 * row)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      const float* at = x + v * kLanes;
      auto pair = [&](int r) __attribute__((always_inline)) { return Load(at + r * row) + Load(at + (r + 1) * row); };
      const Vec eight = (pair(0) + pair(2)) + (pair(4) + pair(6));
      HalfVec half[2];
      __builtin_memcpy(half, &eight, sizeof eight);
      total[2 * v] += __builtin_convertvector(half[0], DoubleVec),
          total[2 * v + 1] += __builtin_convertvector(half[1], DoubleVec);
    }
  for (; i < rows; ++i, x += row)
#pragma GCC unroll 8
    for (int k = 0; k < 2 * V; ++k)
      total[k] += __builtin_convertvector(*reinterpret_cast<const HalfVecAt*>(x + k * (kLanes / 2)), DoubleVec);
#pragma GCC unroll 8
  for (int k = 0; k < 2 * V; ++k) *reinterpret_cast<DoubleVecAt*>(sums + k * (kLanes / 2)) = total[k];
}

void SumRows(const float* x, int64_t row, int64_t rows, int64_t n, double* sums) {
  int64_t j = 0;
  for (; j + 4 * kLanes <= n; j += 4 * kLanes) SumColumns<4>(x + j, row, rows, sums + j);
  if (j + 2 * kLanes <= n) SumColumns<2>(x + j, row, rows, sums + j), j += 2 * kLanes;
  if (j + kLanes <= n) SumColumns<1>(x + j, row, rows, sums + j), j += kLanes;
  if (j + kHalf <= n) {
    DoubleVec total = *reinterpret_cast<const DoubleVecAt*>(sums + j);
    for (int64_t i = 0; i < rows; ++i)
      total += __builtin_convertvector(*reinterpret_cast<const HalfVecAt*>(x + i * row + j), DoubleVec);
    *reinterpret_cast<DoubleVecAt*>(sums + j) = total, j += kHalf;
  }
  for (; j < n; ++j)
    for (int64_t i = 0; i < rows; ++i) sums[j] += static_cast<double>(x[i * row + j]);
}

// The squares of V vectors of f64 of columns.
template <int V>
SLIPWAY_INLINE void SumSquaresOfColumns(const float* x, int64_t row, int64_t rows, const double* centers,
                                        double* sums) {
  DoubleVec center[V], sum[V];
#pragma GCC unroll 4
  for (int k = 0; k < V; ++k)
    center[k] = *reinterpret_cast<const DoubleVecAt*>(centers + k * kHalf),
    sum[k] = *reinterpret_cast<const DoubleVecAt*>(sums + k * kHalf);
  for (int64_t i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int k = 0; k < V; ++k)
      sum[k] += Squared(
          __builtin_convertvector(*reinterpret_cast<const HalfVecAt*>(x + i * row + k * kHalf), DoubleVec), center[k]);
#pragma GCC unroll 4
  for (int k = 0; k < V; ++k) *reinterpret_cast<DoubleVecAt*>(sums + k * kHalf) = sum[k];
}

void SumSquaresOfRows(const float* x, int64_t row, int64_t rows, int64_t n, const double* centers, double* sums) {
  int64_t j = 0;
  for (; j + 4 * kHalf <= n; j += 4 * kHalf) SumSquaresOfColumns<4>(x + j, row, rows, centers + j, sums + j);
  if (j + 2 * kHalf <= n) SumSquaresOfColumns<2>(x + j, row, rows, centers + j, sums + j), j += 2 * kHalf;
  if (j + kHalf <= n) SumSquaresOfColumns<1>(x + j, row, rows, centers + j, sums + j), j += kHalf;
  for (; j < n; ++j)
    for (int64_t i = 0; i < rows; ++i) sums[j] += Squared(static_cast<double>(x[i * row + j]), centers[j]);
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

// ---- Recurrent cells, a row of units at a time. Gates lie n apart.

template <typename F>
SLIPWAY_INLINE void OverUnits(int64_t n, F f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    f(
        [i](const float* p) __attribute__((always_inline)) { return Load(p + i); },
        [i](float* p, Vec v) __attribute__((always_inline)) { Store(p + i, v); });
  if (i == n) return;
  const int64_t left = n - i;
  f(
      [ i, left ](const float* p) __attribute__((always_inline)) {
        float rest[kLanes] = {};
        for (int64_t j = 0; j < left; ++j) rest[j] = p[i + j];
        return Load(rest);
      },
      [ i, left ](float* p, Vec v) __attribute__((always_inline)) {
        float rest[kLanes];
        Store(rest, v);
        for (int64_t j = 0; j < left; ++j) p[i + j] = rest[j];
      });
}
template <bool kBias, typename L>
SLIPWAY_INLINE Vec OwnGate(const CellCall& c, int gate, L load) {
  const Vec own = load(c.own + gate * c.n);
  return kBias ? own + load(c.bias + gate * c.n) : own;
}
template <bool kBias>
SLIPWAY_INLINE void LstmUnits(const CellCall& c) {
  OverUnits(
      c.n, [&c](auto load, auto store) __attribute__((always_inline)) {
        auto gate = [&](int g) __attribute__((always_inline)) {
          return load(c.x + g * c.n) + OwnGate<kBias>(c, g, load);
        };
        const Vec state = Sigmoid(gate(1)) * load(c.c) + Sigmoid(gate(0)) * Tanh(gate(2));
        store(c.c, state);
        store(c.out, Sigmoid(gate(3)) * Tanh(state));
      });
}
template <bool kBias>
SLIPWAY_INLINE void GruUnits(const CellCall& c) {
  OverUnits(
      c.n, [&c](auto load, auto store) __attribute__((always_inline)) {
        const Vec reset = Sigmoid(load(c.x) + OwnGate<kBias>(c, 0, load));
        const Vec keep = Sigmoid(load(c.x + c.n) + OwnGate<kBias>(c, 1, load));
        const Vec fresh = Tanh(load(c.x + 2 * c.n) + reset * OwnGate<kBias>(c, 2, load));
        store(c.out, (load(c.h) - fresh) * keep + fresh);
      });
}
template <bool kBias, bool kTanh>
SLIPWAY_INLINE void PlainUnits(const CellCall& c) {
  OverUnits(
      c.n, [&c](auto load, auto store) __attribute__((always_inline)) {
        const Vec v = load(c.x) + OwnGate<kBias>(c, 0, load);
        if constexpr (kTanh)
          store(c.out, Tanh(v));
        else
          store(c.out, v < 0.0f ? Vec{} : v);
      });
}
void CellRow(Cell cell, const CellCall& c) {
  const bool bias = c.bias != nullptr;
  switch (cell) {
    case Cell::kLstm: return bias ? LstmUnits<true>(c) : LstmUnits<false>(c);
    case Cell::kGru: return bias ? GruUnits<true>(c) : GruUnits<false>(c);
    case Cell::kTanh: return bias ? PlainUnits<true, true>(c) : PlainUnits<false, true>(c);
    case Cell::kRelu: return bias ? PlainUnits<true, false>(c) : PlainUnits<false, false>(c);
  }
}
