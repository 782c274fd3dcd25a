// Epilogues (epilogue.h): over vectors of channels in the registers of a tile (NHWC), and over a row of one channel
// (NCHW); and batch norms as scale and bias. Included after math.inc.h.

// Activations of many operations, out of line: four vectors at a time, one copy for all tiles.
[[maybe_unused]] __attribute__((noinline)) void ApplyActivationOutOfLine(Activation activation, Vec* v, int count) {
  auto all = [&](auto f) __attribute__((always_inline)) {
    int i = 0;
    for (; i + 4 <= count; i += 4) {
      const Vec v0 = f(v[i]), v1 = f(v[i + 1]), v2 = f(v[i + 2]), v3 = f(v[i + 3]);
      v[i] = v0, v[i + 1] = v1, v[i + 2] = v2, v[i + 3] = v3;
    }
    for (; i < count; ++i) v[i] = f(v[i]);
  };
  switch (activation) {
    case Activation::kSilu: return all([](Vec x) __attribute__((always_inline)) { return Silu(x); });
    default: return;
  }
}
template <int N>
SLIPWAY_INLINE void ApplyActivation(const Epilogue& f, Vec* v) {
  if (f.activation == Activation::kNone) return;
  if (f.activation == Activation::kClamp) [[likely]] {
#pragma GCC unroll 32
    for (int i = 0; i < N; ++i) v[i] = Max(Broadcast(f.min), v[i]);  // NaN stays
    if (f.max == __builtin_inff()) return;
#pragma GCC unroll 32
    for (int i = 0; i < N; ++i) v[i] = Min(Broadcast(f.max), v[i]);
    return;
  }
  switch (f.activation) {
    case Activation::kHardSwish:
#pragma GCC unroll 32
      for (int i = 0; i < N; ++i) v[i] = HardSwish(v[i]);
      return;
    case Activation::kHardSigmoid:
#pragma GCC unroll 32
      for (int i = 0; i < N; ++i) v[i] = HardSigmoid(v[i]);
      return;
    case Activation::kLeakyRelu:
#pragma GCC unroll 32
      for (int i = 0; i < N; ++i) v[i] = LeakyRelu(v[i], f.min);
      return;
    case Activation::kSilu: {
      Vec held[N];  // in memory, so that `v` stays in registers
#pragma GCC unroll 32
      for (int i = 0; i < N; ++i) held[i] = v[i];
      ApplyActivationOutOfLine(f.activation, held, N);
#pragma GCC unroll 32
      for (int i = 0; i < N; ++i) v[i] = held[i];
      return;
    }
    default: return;
  }
}

// R rows (pixels) of V vectors of channels from c on, of which n count: acc · scale + bias, rounded once, where there
// are such.
template <int R, int V>
SLIPWAY_INLINE void ApplyScaleBias(const float* scales, const float* biases, int64_t c, int64_t n, Vec* sum) {
  if (scales == nullptr && biases == nullptr) return;
  const auto some = [n](int v) __attribute__((always_inline)) { return Min(kLanes, n - v * kLanes); };
  if (scales == nullptr) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      const Vec bias = LoadPartial(biases + c + v * kLanes, some(v));
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) sum[r * V + v] += bias;
    }
    return;
  }
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    const Vec scale = LoadPartial(scales + c + v * kLanes, some(v));
    const Vec bias = biases != nullptr ? LoadPartial(biases + c + v * kLanes, some(v)) : Vec{};
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) sum[r * V + v] = Fma(sum[r * V + v], scale, bias);
  }
}

// Post-ops of R rows of V vectors, of which `count` rows of n channels are written.
template <int R, int V>
SLIPWAY_INLINE void ApplyPostOps(const Epilogue& f, int64_t c, int64_t n, int64_t at, int64_t row, int64_t count,
                                 Vec* sum) {
  if (f.post_scale == nullptr && f.post_residual == nullptr) return;
  ApplyScaleBias<R, V>(f.post_scale, f.post_bias, c, n, sum);
  if (f.post_residual == nullptr) return;
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
    if (r < count)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v)
        sum[r * V + v] += LoadPartial(f.post_residual + at + r * row + v * kLanes, Min(kLanes, n - v * kLanes));
}

// ---- Rows of one channel.

// f(vector, residual) over a row, the rest in a vector of its own; `residual` may be null.
template <typename F>
SLIPWAY_INLINE void EpilogueRowBy(const float* x, const float* residual, float* out, int64_t n, F f) {
  int64_t i = 0;
  if (residual != nullptr)
    for (; i + kLanes <= n; i += kLanes) Store(out + i, f(Load(x + i), Load(residual + i)));
  else
    for (; i + kLanes <= n; i += kLanes) Store(out + i, f(Load(x + i), Vec{}));
  if (i == n) return;
  float rest[kLanes] = {}, more[kLanes] = {};
  for (int64_t j = i; j < n; ++j) rest[j - i] = x[j];
  if (residual != nullptr)
    for (int64_t j = i; j < n; ++j) more[j - i] = residual[j];
  Store(rest, f(Load(rest), Load(more)));
  for (int64_t j = i; j < n; ++j) out[j] = rest[j - i];
}
[[maybe_unused]] void EpilogueRow(const float* x, float* out, int64_t n, const Epilogue& e) {
  const float scale = e.scale != nullptr ? *e.scale : 1.0f, bias = e.bias != nullptr ? *e.bias : 0.0f;
  const float min = e.min, max = e.max;
  auto affine = [ scale, bias ](Vec v, Vec residual) __attribute__((always_inline)) {
    return v * scale + bias + residual;
  };
  switch (e.activation) {
    case Activation::kNone: return EpilogueRowBy(x, e.residual, out, n, affine);
    case Activation::kClamp:
      return EpilogueRowBy(
          x, e.residual, out,
          n, [=](Vec v, Vec residual) __attribute__((always_inline)) { return Clamp(affine(v, residual), min, max); });
    case Activation::kSilu:
      return EpilogueRowBy(
          x, e.residual, out,
          n, [=](Vec v, Vec residual) __attribute__((always_inline)) { return Silu(affine(v, residual)); });
    case Activation::kHardSwish:
      return EpilogueRowBy(
          x, e.residual, out,
          n, [=](Vec v, Vec residual) __attribute__((always_inline)) { return HardSwish(affine(v, residual)); });
    case Activation::kHardSigmoid:
      return EpilogueRowBy(
          x, e.residual, out,
          n, [=](Vec v, Vec residual) __attribute__((always_inline)) { return HardSigmoid(affine(v, residual)); });
    case Activation::kLeakyRelu:
      return EpilogueRowBy(
          x, e.residual, out,
          n, [=](Vec v, Vec residual) __attribute__((always_inline)) { return LeakyRelu(affine(v, residual), min); });
  }
}

[[maybe_unused]] void BatchNormScaleBias(const float* mean, const float* variance, double epsilon, int64_t n,
                                         float* scale, float* bias) {
  typedef double DoubleVec __attribute__((vector_size(SLIPWAY_ISA_BYTES)));
  typedef float HalfVec __attribute__((vector_size(SLIPWAY_ISA_BYTES / 2)));
  typedef float HalfVecAt __attribute__((vector_size(SLIPWAY_ISA_BYTES / 2), aligned(4), may_alias));
  constexpr int kHalf = kLanes / 2;
  auto wide = [](const float* p) __attribute__((always_inline)) {
    return __builtin_convertvector(*reinterpret_cast<const HalfVecAt*>(p), DoubleVec);
  };
  int64_t i = 0;
  for (; i + kHalf <= n; i += kHalf) {
    DoubleVec root = wide(variance + i) + epsilon;
#if SLIPWAY_ISA_BYTES == 64
    root = reinterpret_cast<DoubleVec>(_mm512_sqrt_pd(reinterpret_cast<__m512d>(root)));
#elif SLIPWAY_ISA_BYTES == 32
    root = reinterpret_cast<DoubleVec>(_mm256_sqrt_pd(reinterpret_cast<__m256d>(root)));
#else
    for (int l = 0; l < kHalf; ++l) root[l] = __builtin_sqrt(root[l]);
#endif
    const DoubleVec by = wide(scale + i) / root, to = wide(bias + i) - wide(mean + i) * by;
    *reinterpret_cast<HalfVecAt*>(scale + i) = __builtin_convertvector(by, HalfVec);
    *reinterpret_cast<HalfVecAt*>(bias + i) = __builtin_convertvector(to, HalfVec);
  }
  for (; i < n; ++i) {
    const double by = static_cast<double>(scale[i]) / __builtin_sqrt(static_cast<double>(variance[i]) + epsilon);
    scale[i] = static_cast<float>(by);
    bias[i] = static_cast<float>(static_cast<double>(bias[i]) - static_cast<double>(mean[i]) * by);
  }
}
