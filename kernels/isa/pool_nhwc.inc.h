// Maximum and sum over the pixels of a window in NHWC images (PoolNhwcParams of conv_nhwc.h). Part of isa.inc.h.

// V vectors of channels from c on; for V = 1, n channels.
template <bool kMax, int V>
SLIPWAY_INLINE void PoolVectors(const PoolNhwcParams& g, int64_t c, int64_t n) {
  Vec sum[V];
  NanLanes nans[V];
#pragma GCC unroll 4
  for (Vec& s : sum) s = kMax ? Broadcast(-__builtin_inff()) : Vec{};
  for (int64_t t = 0; t < g.count; ++t)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      const Vec x = V == 1 ? LoadPartial(g.rows[t] + c, n) : Load(g.rows[t] + c + v * kLanes);
      if (kMax)
        nans[v].Note(x), sum[v] = Max(x, sum[v]);
      else
        sum[v] += x;
    }
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    const Vec result = kMax ? nans[v].ApplyTo(sum[v]) : sum[v] * g.scale;
    V == 1 ? StorePartial(g.out + c, result, n) : Store(g.out + c + v * kLanes, result);
  }
}
template <bool kMax>
void PoolNhwc(const PoolNhwcParams& g) {
  int64_t c = 0;
  for (; c + 4 * kLanes <= g.n; c += 4 * kLanes) PoolVectors<kMax, 4>(g, c, kLanes);
  for (; c < g.n; c += kLanes) PoolVectors<kMax, 1>(g, c, Min(kLanes, g.n - c));
}
