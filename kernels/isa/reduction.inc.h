// Reductions, softmax and norms over rows (reduction.h). Part of reduction.cc.

float ExpSum(const float* x, float shift, float* out, int64_t n) {
  Vec sum[2] = {};
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    const Vec a = ExpNormal(Load(x + i) - shift), b = ExpNormal(Load(x + i + kLanes) - shift);
    sum[0] += a, sum[1] += b;
    Store(out + i, a), Store(out + i + kLanes, b);
  }
  float total = Sum(sum[0] + sum[1]);
  for (; i < n; i += kLanes) {
    float rest[kLanes] = {};
    const int64_t m = Min(kLanes, n - i);
    for (int64_t j = 0; j < m; ++j) rest[j] = x[i + j] - shift;
    Store(rest, ExpNormal(Load(rest)));
    for (int64_t j = 0; j < m; ++j) out[i + j] = rest[j], total += rest[j];
  }
  return total;
}
float MaxRow(const float* x, int64_t n) {
  float most = -__builtin_inff();
  int64_t i = 0;
  if (n >= kLanes) {
    Vec v = Broadcast(most);
    for (; i + kLanes <= n; i += kLanes) v = Max(Load(x + i), v);
    for (int j = 0; j < kLanes; ++j) most = v[j] > most ? v[j] : most;
  }
  for (; i < n; ++i) most = x[i] > most ? x[i] : most;
  return most;
}
float AddMax(float* x, const float* mask, bool replace, int64_t n) {
  Vec v = Broadcast(-__builtin_inff());
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vec a = Load(x + i), b = Load(mask + i), y = replace ? (b != 0 ? b : a) : a + b;
    Store(x + i, y);
    v = Max(y, v);
  }
  float most = v[0];
  for (int j = 1; j < kLanes; ++j) most = v[j] > most ? v[j] : most;
  for (; i < n; ++i) {
    x[i] = replace ? (mask[i] != 0 ? mask[i] : x[i]) : x[i] + mask[i];
    most = x[i] > most ? x[i] : most;
  }
  return most;
}
void SoftmaxRow(const float* x, float* out, int64_t n) {
  const float sum = ExpSum(x, MaxRow(x, n), out, n);
  ScaleRow(out, 1 / sum, n);
}
void LogSoftmaxRow(const float* x, float* out, int64_t n) {
  const float most = MaxRow(x, n);
  float sum = 0, block[256];
  for (int64_t i = 0; i < n; i += 256) sum += ExpSum(x + i, most, block, Min(256, n - i));
  const float log = static_cast<float>(__builtin_log(static_cast<double>(sum)));
  OverRow(x, out, n, [ most, log ](Vec v) __attribute__((always_inline)) { return v - most - log; });
}
void LayerNormRow(const float* x, const float* weight, const float* bias, float epsilon, float* out, int64_t n) {
  Vec sum[2] = {};
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) sum[0] += Load(x + i), sum[1] += Load(x + i + kLanes);
  float total = Sum(sum[0] + sum[1]);
  for (; i < n; ++i) total += x[i];
  const float mean = total / static_cast<float>(n);
  Vec squares[2] = {};
  for (i = 0; i + 2 * kLanes <= n; i += 2 * kLanes) {
    const Vec a = Load(x + i) - mean, b = Load(x + i + kLanes) - mean;
    squares[0] += a * a, squares[1] += b * b;
  }
  total = Sum(squares[0] + squares[1]);
  for (; i < n; ++i) total += (x[i] - mean) * (x[i] - mean);
  const float scale = 1 / __builtin_sqrtf(total / static_cast<float>(n) + epsilon);
  for (i = 0; i + kLanes <= n; i += kLanes) {
    Vec v = (Load(x + i) - mean) * scale;
    if (weight != nullptr) v *= Load(weight + i);
    if (bias != nullptr) v += Load(bias + i);
    Store(out + i, v);
  }
  for (; i < n; ++i) {
    float v = (x[i] - mean) * scale;
    if (weight != nullptr) v *= weight[i];
    if (bias != nullptr) v += bias[i];
    out[i] = v;
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
