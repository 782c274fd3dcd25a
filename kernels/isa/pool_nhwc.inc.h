// Maximum and sum over the pixels of a window in NHWC images (PoolNhwcParams of conv_nhwc.h). Part of conv_nhwc.cc.

// V vectors of channels from c on; for V = 1, n channels.
template <bool kMax, typename T, int V>
SLIPWAY_INLINE void PoolVectors(const PoolNhwcParams& g, int64_t c, int64_t n) {
  Vec sum[V];
  NanLanes nans[V];
#pragma GCC unroll 4
  for (Vec& s : sum) s = kMax ? Broadcast(-__builtin_inff()) : Vec{};
  for (int64_t t = 0; t < g.count; ++t)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      const T* const row = static_cast<const T*>(g.rows[t]) + c;
      const Vec x = V == 1 ? LoadPartial(row, n) : LoadAs(row + v * kLanes);
      if (kMax)
        nans[v].Note(x), sum[v] = Max(x, sum[v]);
      else
        sum[v] += x;
    }
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    const Vec result = kMax ? nans[v].ApplyTo(sum[v]) : sum[v] * g.scale;
    StorePartial(static_cast<T*>(g.out) + c + v * kLanes, result, V == 1 ? n : kLanes);
  }
}
template <bool kMax, typename T>
SLIPWAY_INLINE void PoolRows(const PoolNhwcParams& g) {
  int64_t c = 0;
  for (; c + 4 * kLanes <= g.n; c += 4 * kLanes) PoolVectors<kMax, T, 4>(g, c, kLanes);
  for (; c < g.n; c += kLanes) PoolVectors<kMax, T, 1>(g, c, Min(kLanes, g.n - c));
}
template <bool kMax>
void PoolNhwc(const PoolNhwcParams& g) {
  switch (g.dtype) {
    case DType::kBF16: return PoolRows<kMax, BF16Bits>(g);
    case DType::kF16: return PoolRows<kMax, _Float16>(g);
    default: return PoolRows<kMax, float>(g);
  }
}
