// Part of conv_body.h: depthwise convolutions of one plane (PlaneTaps of conv.h). Vectors are of neighbouring places of
// a row; those of some rows below each other are summed up at once, so that what is loaded serves all of them.

// Places [i, i + n) of the rows [r, r + R), S places apart in the image.
template <int S, int R>
__attribute__((noinline)) void PlaneTile(const PlaneTaps& g, int64_t r, int64_t i, int64_t n) {
  constexpr int W = 3;  // taps either way
  Vec sum[R];
#pragma GCC unroll 4
  for (int k = 0; k < R; ++k) sum[k] = Vec{};
  const float* x = g.x + r * S * g.x_row + i;
#pragma GCC unroll 16
  for (int y = 0; y < (R - 1) * S + W; ++y, x += g.x_row)
#pragma GCC unroll 8
    for (int z = 0; z < W; ++z) {
      const Vec v = Kept(Load(x + z % S * g.phase + z / S));  // once: loads that cross lines take as long as two
#pragma GCC unroll 4
      for (int k = 0; k < R; ++k)
        if (y >= k * S && y < k * S + W) sum[k] += v * Splat(g.w[(y - k * S) * W + z]);
    }
  const Vec scale = Splat(g.scale), shift = Splat(g.shift);
#pragma GCC unroll 4
  for (int k = 0; k < R; ++k) sum[k] = MultiplyAdd(sum[k], scale, shift);
  if (g.finish.add != nullptr) {
    const float* add = g.finish.add + r * g.out_row + i;
#pragma GCC unroll 4
    for (int k = 0; k < R; ++k) sum[k] += LoadSome(add + k * g.out_row, n);
  }
  FinishLast<R>(g.finish, sum);
  float* out = g.out + r * g.out_row + i;
#pragma GCC unroll 4
  for (int k = 0; k < R; ++k) {
    if (n == kLanes)
      Store(out + k * g.out_row, sum[k]);
    else
      StoreSome(out + k * g.out_row, sum[k], n);
  }
}

template <int S>
void PlaneRows(const PlaneTaps& g) {
  constexpr int kMost = 4;
  int64_t r = 0;
  for (; r + kMost <= g.rows; r += kMost)
    for (int64_t i = 0; i < g.n; i += kLanes) PlaneTile<S, kMost>(g, r, i, Least(kLanes, g.n - i));
  for (; r < g.rows; ++r)
    for (int64_t i = 0; i < g.n; i += kLanes) PlaneTile<S, 1>(g, r, i, Least(kLanes, g.n - i));
}

void PlaneTapsOf(const PlaneTaps& g) { g.stride == 2 ? PlaneRows<2>(g) : PlaneRows<1>(g); }
