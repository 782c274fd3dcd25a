// Part of conv_body.h: the loops over images whose channels are last (LastBlock and LastTaps of conv.h). Vectors are of
// neighbouring channels of one place, so that sums of many places stay in registers and their weights are read once for
// all of them.

#if SLIPWAY_ISA_BYTES == 32
// from kLanes - n on, a mask of the first n
alignas(32) constexpr int32_t kFirst[2 * kLanes] = {-1, -1, -1, -1, -1, -1, -1, -1};
#endif
// The first n of a vector, zeros behind them, without touching memory beyond.
SLIPWAY_INLINE Vec LoadSome(const float* p, int64_t n) {
#if SLIPWAY_ISA_BYTES == 64
  return reinterpret_cast<Vec>(_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p));
#elif SLIPWAY_ISA_BYTES == 32
  if (__builtin_constant_p(n) && n == kLanes) return Load(p);
  return reinterpret_cast<Vec>(
      _mm256_maskload_ps(p, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kFirst + kLanes - n))));
#else
  if (n == kLanes) return Load(p);
  return Vec{n > 0 ? p[0] : 0.0f, n > 1 ? p[1] : 0.0f, n > 2 ? p[2] : 0.0f, 0.0f};
#endif
}
SLIPWAY_INLINE void StoreSome(float* p, Vec v, int64_t n) {
#if SLIPWAY_ISA_BYTES == 64
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), reinterpret_cast<__m512>(v));
#else
  if (n == kLanes) return Store(p, v);
#if SLIPWAY_ISA_BYTES == 32
  // Masked stores take dozens of cycles on some processors.
  Vec4 rest = __builtin_shufflevector(v, v, 0, 1, 2, 3);
  if ((n & 4) != 0) {
    *reinterpret_cast<Vec4At*>(p) = rest;
    rest = __builtin_shufflevector(v, v, 4, 5, 6, 7), p += 4;
  }
#else
  Vec4 rest = v;
#endif
  if ((n & 2) != 0) {
    __builtin_memcpy(p, &rest, 8);
    rest = __builtin_shuffle(rest, Int4{2, 3, 0, 1}), p += 2;
  }
  if ((n & 1) != 0) *p = rest[0];
#endif
}

// The functions that take long, each a chain of many operations: four vectors at a time, and once for all tiles.
__attribute__((noinline)) void LastFunction(Activation activation, Vec* v, int count) {
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
SLIPWAY_INLINE void FinishLast(const LastFinish& f, Vec* v) {
  if (f.activation == Activation::kNone) return;
  if (f.activation == Activation::kClamp) [[likely]] {
#pragma GCC unroll 32
    for (int i = 0; i < N; ++i) v[i] = Larger(Splat(f.low), v[i]);  // NaN stays
    if (f.high == __builtin_inff()) return;
#pragma GCC unroll 32
    for (int i = 0; i < N; ++i) v[i] = Smaller(Splat(f.high), v[i]);
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
      for (int i = 0; i < N; ++i) v[i] = LeakyRelu(v[i], f.low);
      return;
    case Activation::kSilu: {
      Vec held[N];  // in memory, so that `v` need not be
#pragma GCC unroll 32
      for (int i = 0; i < N; ++i) held[i] = v[i];
      LastFunction(f.activation, held, N);
#pragma GCC unroll 32
      for (int i = 0; i < N; ++i) v[i] = held[i];
      return;
    }
    default: return;
  }
}

// R rows of V vectors of channels from c on, of which n count, times their scales and plus their shifts where there are
// such: one rounding.
template <int R, int V>
SLIPWAY_INLINE void ScaleLast(const float* scales, const float* shifts, int64_t c, int64_t n, Vec* sum) {
  if (scales == nullptr && shifts == nullptr) return;
  const auto some = [n](int v) __attribute__((always_inline)) { return Least(kLanes, n - v * kLanes); };
  if (scales == nullptr) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      const Vec shift = LoadSome(shifts + c + v * kLanes, some(v));
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) sum[r * V + v] += shift;
    }
    return;
  }
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    const Vec scale = LoadSome(scales + c + v * kLanes, some(v));
    const Vec shift = shifts != nullptr ? LoadSome(shifts + c + v * kLanes, some(v)) : Vec{};
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) sum[r * V + v] = MultiplyAdd(sum[r * V + v], scale, shift);
  }
}

// What follows the function, of R rows of V vectors, of which `count` rows of n channels are there.
template <int R, int V>
SLIPWAY_INLINE void PostLast(const LastFinish& f, int64_t c, int64_t n, int64_t at, int64_t row, int64_t count,
                             Vec* sum) {
  if (f.post_scale == nullptr && f.post_add == nullptr) return;
  ScaleLast<R, V>(f.post_scale, f.post_shift, c, n, sum);
  if (f.post_add == nullptr) return;
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
    if (r < count)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v)
        sum[r * V + v] += LoadSome(f.post_add + at + r * row + v * kLanes, Least(kLanes, n - v * kLanes));
}

// ---- Products.

// Of so many rows, a tile has enough sums to go on while others wait for their last step.
constexpr int kEnoughRows = 4;
// below it, SumTile's beginning takes longer than what its order of instructions gains
constexpr int64_t kShortRun = 8;

// Sums of so few steps are over before what they write has come: it is fetched while the tile before is made. Tiles of
// wider vectors write more than can be on its way at once.
constexpr int64_t kFewSteps = SLIPWAY_ISA_BYTES == 64 ? 0 : 64;

// Weights that are needed next: every kFetchSteps-th step of a tile fetches what is `step` bytes further on than that
// before it.
struct WeightsAhead {
  const float* at = nullptr;
  int64_t step = 0;
};
constexpr int64_t kFetchSteps = SLIPWAY_SUM_TILE ? 4 : 1;

// The k steps of a run: sums of R rows from x on, x_row apart, times V vectors of columns of the panels from b on,
// `panel` apart. Each step fetches what is step_by bytes further on.
template <int R, int V>
SLIPWAY_INLINE void SumSteps(int64_t k, const float* x, int64_t x_row, const float* b, int64_t panel, const char* fetch,
                             int64_t step_by, Vec* sum) {
  constexpr int kThirds = (R + 2) / 3;
  int64_t away = x_row * 4;
  const char* a[kThirds];
#pragma GCC unroll 5
  for (int r = 0; r < kThirds; ++r) a[r] = reinterpret_cast<const char*>(x + 3 * r * x_row);
#pragma GCC unroll 1
  for (int64_t p = 0; p < k; ++p, fetch += step_by) {
    Vec w[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) w[v] = Load(b + v * kLanes / kPanel * panel + v * kLanes % kPanel);
    __builtin_prefetch(fetch);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Vec one = Splat(*reinterpret_cast<const float*>(a[r / 3] + r % 3 * away + 4 * p));
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sum[r * V + v] += one * w[v];
    }
    b += kPanel;
    asm("" : "+r"(away));  // or the compiler keeps sums of addresses on the stack
  }
}

// Tiles of a block. What they share is worked out once: those of few steps take as long to begin and to end as their
// sums.
class LastTiles {
 public:
  SLIPWAY_INLINE explicit LastTiles(const LastBlock& g)
      : g_(g), next_rows_(g.ahead == 0 && g.run_count == 1 && g.x_row < 2 * g.k),
        few_steps_(g.k * g.run_count <= kFewSteps), ahead_step_(g.ahead != 0 ? g.ahead_step * 4
                                                                : next_rows_ ? 64
                                                                             : 0) {
#if SLIPWAY_SUM_TILE
    steps_ = {g.k >> 2, g.k & 3, (g.w_run - g.k * kPanel) * 4};
#endif
  }
  const LastBlock& block() const { return g_; }

  // R rows from i on, V vectors of columns from j on, of which n count. Steps fetch the weights that are needed next,
  // or else what the block says, or the next tile's rows where they lie one behind the other. kPlaces: runs are one
  // number each, taps of images with few channels, which are planes.
  template <int R, int V, bool kPlaces = false>
  __attribute__((noinline)) void Tile(int64_t i, int64_t j, int64_t n, const WeightsAhead& ahead) const {
    const int64_t at = i * g_.out_row + j;
    if (!kPlaces || SLIPWAY_ISA_BYTES != 64) {
      // What is written in the end is on its way while the sums are made.
      const float* const written = g_.out + at + (few_steps_ ? R * g_.out_row : 0);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < V * kLanes; v += 16) __builtin_prefetch(written + r * g_.out_row + v, 1);
    }
    const float *const x = g_.x + i * g_.x_row, *const w = g_.w + j / kPanel * g_.w_panel + j % kPanel;
    Vec sum[R][V];
    if constexpr (kPlaces)
      SumPlaces(x, w, sum);
    else
      Sum(x, w, at, n, ahead, sum);
    if (SLIPWAY_ISA_BYTES != 64 && n == V * kLanes) [[likely]]
      Finish(at, j, V * kLanes, sum);
    else
      Finish(at, j, n, sum);
  }

  // What sums begin with: zeros, or what there is of them. So they have the same bits in however many parts they are
  // made.
  template <int R, int V>
  SLIPWAY_INLINE void Begin(int64_t at, int64_t n, Vec (&sum)[R][V]) const {
#pragma GCC unroll 32
    for (int r = 0; r < R * V; ++r)
      sum[r / V][r % V] =
          g_.accumulate ? LoadSome(g_.out + at + r / V * g_.out_row + r % V * kLanes, Least(kLanes, n - r % V * kLanes))
                        : Vec{};
  }
  // What follows the sums.
  template <int R, int V>
  SLIPWAY_INLINE void Finish(int64_t at, int64_t j, int64_t n, Vec (&sum)[R][V]) const {
    const int64_t row = g_.out_row, last = n - (V - 1) * kLanes;
    const auto some = [last](int v) __attribute__((always_inline)) { return v + 1 < V ? kLanes : last; };
    ScaleLast<R, V>(g_.finish.scale, g_.finish.shift, j, n, sum[0]);
    if (const float* add = g_.finish.add; add != nullptr) {
      add += at;
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r, add += row)
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sum[r][v] += LoadSome(add + v * kLanes, some(v));
    }
    FinishLast<R * V>(g_.finish, sum[0]);
    PostLast<R, V>(g_.finish, j, n, at, row, R, sum[0]);
    float* out = g_.out + at;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r, out += row)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) StoreSome(out + v * kLanes, sum[r][v], some(v));
  }

 private:
  template <int R, int V>
  SLIPWAY_INLINE void Sum(const float* x, const float* w, int64_t at, int64_t n, const WeightsAhead& ahead,
                          Vec (&sum)[R][V]) const {
    const char* const weights = reinterpret_cast<const char*>(ahead.at);
    const int64_t rows_ahead = weights != nullptr ? 0
                               : next_rows_       ? R * g_.x_row
                                                  : g_.ahead,
                  step = weights != nullptr ? ahead.step : ahead_step_;
#if SLIPWAY_SUM_TILE
    if constexpr (R == kLastRows && V == 2)
      if (!g_.accumulate)
        return SumRuns(steps_, x, g_.x_row, g_.runs, g_.run_count, w, rows_ahead * 4,
                       weights != nullptr ? weights : reinterpret_cast<const char*>(w), step, sum);
#endif
    Begin(at, n, sum);
    const int64_t run_step = g_.k / kFetchSteps * step;
    for (int64_t run = 0; run < g_.run_count; ++run, w += g_.w_run) {
      const float* const from = x + g_.runs[run];
      const char* const fetch = weights != nullptr
                                    ? weights + run * run_step
                                    : reinterpret_cast<const char*>(rows_ahead != 0 ? from + rows_ahead : w);
#if SLIPWAY_SUM_TILE
      if constexpr (R >= kEnoughRows && R <= kLastRows && V == 2)
        if (g_.k >= kShortRun || g_.run_count == 1) {
          SumTile(g_.k, from, g_.x_row, w, kPanel, kLanes, fetch, sum, step);
          continue;
        }
#endif
      SumSteps<R, V>(g_.k, from, g_.x_row, w, g_.w_panel, fetch, weights != nullptr ? step / kFetchSteps : step,
                     sum[0]);
    }
  }
  // One loop over all runs, since to begin a run would take as long as its sums.
  template <int R, int V>
  SLIPWAY_INLINE void SumPlaces(const float* x, const float* w, Vec (&sum)[R][V]) const {
#pragma GCC unroll 32
    for (int r = 0; r < R * V; ++r) sum[r / V][r % V] = Vec{};
    const int64_t next = kLanes < kPanel ? kLanes : g_.w_panel, step = g_.w_run, away = g_.x_row;
    constexpr int kThirds = (R + 2) / 3;
    const float* a[kThirds];
#pragma GCC unroll 5
    for (int r = 0; r < kThirds; ++r) a[r] = x + 3 * r * away;
    const int64_t* const end = g_.runs + g_.run_count;
#pragma GCC unroll 1
    for (const int64_t* run = g_.runs; run < end; ++run, w += step) {
      int64_t at[3] = {*run, *run + away, *run + 2 * away};
      asm("" : "+r"(at[0]), "+r"(at[1]), "+r"(at[2]));  // or there is a pointer for each row
      Vec by[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) by[v] = Load(w + v * next);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const Vec one = Splat(a[r / 3][at[r % 3]]);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sum[r][v] = MultiplyAdd(one, by[v], sum[r][v]);
      }
    }
  }

  // Read where it is: a copy would be loads of several members at once, which wait until all that was written before is
  // in the cache.
  const LastBlock& g_;
  bool next_rows_, few_steps_;
  int64_t ahead_step_;
#if SLIPWAY_SUM_TILE
  RunSteps steps_;
#endif
};

// The tile of `rows` rows, R at most, and V vectors.
template <int V, int R = kLastRows>
SLIPWAY_INLINE void LastTileOf(int64_t rows, const LastTiles& tiles, int64_t i, int64_t j, int64_t n,
                               const WeightsAhead& ahead) {
  if (rows == R) return tiles.Tile<R, V>(i, j, n, ahead);
  if constexpr (R > 1) LastTileOf<V, R - 1>(rows, tiles, i, j, n, ahead);
}

// Calls tile(i, rows) for the rows [i, i + rows) of a block's tiles of `most` rows. The last two have about the same
// where the last would have too few; or where tiles of `most` rows, which SumTile makes, are no faster than others.
template <typename F>
SLIPWAY_INLINE void ForTiles(const LastBlock& g, int64_t most, F tile) {
  const int64_t count = (g.m + most - 1) / most, two = (count - 2) * most;  // where the last two begin
  const bool whole = SLIPWAY_SUM_TILE && g.m - two - most >= kEnoughRows;
  const int64_t last = count < 2 ? 0 : two + (whole ? most : (g.m - two + 1) / 2);
  for (int64_t k = 0; k < count; ++k) {
    const int64_t t = g.in_turns ? InTurns(k, count) : k, i = t + 1 < count ? t * most : last;
    tile(i, (t + 2 < count ? i + most : t + 1 < count ? last : g.m) - i);
  }
}

// Fetches what lies ahead into the second-level cache in so many parts, about equal, some of them at a call.
class FetchInParts {
 public:
  SLIPWAY_INLINE FetchInParts(const FloatsAhead& ahead, int64_t parts)
      : at_(ahead.at), part_((ahead.count + parts - 1) / parts) {}
  SLIPWAY_INLINE void Next(int64_t parts = 1) {
    for (const float* const end = at_ + parts * part_; at_ < end; at_ += 16) __builtin_prefetch(at_, 0, 2);
  }

 private:
  const float* at_;
  const int64_t part_;
};

// Weights that tiles fetch for those who come after them: `panels` of `floats` each, `panel_step` floats apart.
struct NextWeights {
  const float* at = nullptr;
  int64_t panels = 1, floats = 0, panel_step = 0;
};
// What each of a block's `all` tiles fetches of these. The first tiles fetch all, or, where `even`, all tiles alike:
// few tiles, and those of weights that are far, would else have more on its way than the processor keeps track of. Many
// tiles with weights that are near fetch the next tile's rows instead.
class TilesAhead {
 public:
  SLIPWAY_INLINE TilesAhead(const LastBlock& g, const NextWeights& next, int64_t all, bool even) {
    if (next.at == nullptr) return;
    const int64_t fetches = Most(1, g.run_count * (g.k / kFetchSteps));
    at_ = next.at, panels_ = next.panels, panel_step_ = next.panel_step;
    tiles_ = Most(1, (even || all <= 3 * kFirst ? all : kFirst) / next.panels);
    step_ = Least(64, (4 * next.floats + tiles_ * fetches - 1) / (tiles_ * fetches)),
    tile_floats_ = fetches * step_ / 4;
  }
  // Of the next tile.
  SLIPWAY_INLINE WeightsAhead Next() {
    if (panels_ == 0) return {};
    const WeightsAhead next = {at_ + tile_ * tile_floats_, step_};
    if (++tile_ == tiles_) tile_ = 0, --panels_, at_ += panel_step_;
    return next;
  }

 private:
  static constexpr int64_t kFirst = SLIPWAY_SUM_TILE ? kFetchSteps : kWidth / kPanel;
  const float* at_ = nullptr;                                  // of the panel
  int64_t panels_ = 0, panel_step_ = 0;                        // that are left
  int64_t tiles_ = 0, tile_ = 0, step_ = 0, tile_floats_ = 0;  // tiles of a panel
};

// All rows of the columns from j on, and what of the weights they fetch.
void LastColumns(const LastTiles& tiles, int64_t j, const NextWeights& next) {
  const LastBlock& g = tiles.block();
  const int64_t n = Least(kWidth, g.n - j);
  // One narrow vector takes twice the rows, or there are too few sums to go on with.
  constexpr int kNarrowRows = SLIPWAY_SUM_TILE ? 2 * kLastRows : kLastRows;
  const int64_t most = n <= kLanes ? kNarrowRows : kLastRows;
  TilesAhead ahead(g, next, (g.m + most - 1) / most, next.at == g.next_w.at || g.n * g.run_count * g.k >= kFarWeights);
  ForTiles(
      g, most, [&](int64_t i, int64_t rows) __attribute__((always_inline)) {
        if (n > kLanes)
          LastTileOf<2>(rows, tiles, i, j, n, ahead.Next());
        else
          LastTileOf<1, kNarrowRows>(rows, tiles, i, j, n, ahead.Next());
      });
}

// What sums go over at once where they are long: so much of a panel stays in the first-level cache while the rows pass.
// Wider vectors read less for each sum, which the second level gives as well.
constexpr int64_t kLastDepth = SLIPWAY_ISA_BYTES == 64 ? int64_t{1} << 40 : 384;

// Floats of weights that stay in the first-level cache, or mostly: tiles then go through all columns of some rows
// before the next rows, so that results are written in the order in which they lie.
constexpr int64_t kNearWeights = 10 << 10;

#if SLIPWAY_ISA_BYTES >= 32
// Few columns are one tile of V vectors, so that rows of results are written whole, one after the other: where sums are
// short, memory is what takes the time, and it takes rows faster than pieces of them. Of narrow vectors,
// three keep more sums going than two and one do, which counts where runs are too short for SumTile.
constexpr int64_t kNearWholeRows = 16 << 10;  // floats of weights
template <int V, int R>
void LastWholeRows(const LastBlock& g) {
  TilesAhead ahead(g, {g.next_w.at, 1, g.next_w.count, 0}, (g.m + R - 1) / R, true);
  const LastTiles tiles(g);
  ForTiles(
      g, R, [&](int64_t i, int64_t rows) __attribute__((always_inline)) {
        LastTileOf<V, R>(rows, tiles, i, 0, g.n, ahead.Next());
      });
}
#endif

// The rows from i on of the columns from j on, R at a time, then fewer, where each run is one number.
template <int V, int R>
void LastPlacesColumns(const LastTiles& tiles, int64_t i, int64_t j, int64_t n) {
  const int64_t m = tiles.block().m;
  for (; i + R <= m; i += R) tiles.Tile<R, V, true>(i, j, n, {});
  if constexpr (R > 1) {
    if (i < m) LastPlacesColumns<V, R / 2>(tiles, i, j, n);
  }
}
void LastPlacesBlock(const LastBlock& g) {
  const LastTiles tiles(g);
#if SLIPWAY_ISA_BYTES == 64
  constexpr int kMost = 4;
#else
  constexpr int kMost = 2;
#endif
  for (int64_t j = 0; j < g.n; j += kMost * kLanes) {
    const int64_t n = Least(kMost * kLanes, g.n - j);
    if (n <= kLanes) {
      LastPlacesColumns<1, kLastRows>(tiles, 0, j, n);
    } else if (n <= 2 * kLanes) {
      LastPlacesColumns<2, kLastRows>(tiles, 0, j, n);
#if SLIPWAY_ISA_BYTES == 64
    } else if (n <= 3 * kLanes) {
      LastPlacesColumns<3, 9>(tiles, 0, j, n);
    } else {
      LastPlacesColumns<4, 6>(tiles, 0, j, n);
#endif
    }
  }
}

// Tiles go through all columns of some rows before the next rows.
__attribute__((noinline)) void LastNear(const LastBlock& g) {
  FetchInParts next(g.next_w, (g.m + kLastRows - 1) / kLastRows);
  const LastTiles tiles(g);
  // a last vector has tiles of its own
  const int64_t n = (g.n + kLanes - 1) / kLanes % 2 == 0 ? g.n : g.n / kWidth * kWidth;
  ForTiles(
      g, kLastRows, [&](int64_t i, int64_t rows) __attribute__((always_inline)) {
        next.Next();
        for (int64_t j = 0; j < n; j += kWidth) LastTileOf<2>(rows, tiles, i, j, Least(kWidth, n - j), {});
      });
  if (n < g.n) LastColumns(tiles, n, {});
}

void LastBlockOf(const LastBlock& g) {
  if (g.k == 1 && g.run_count > 1 && !g.accumulate) return LastPlacesBlock(g);
#if SLIPWAY_ISA_BYTES >= 32
  if (g.n > 2 * kLanes && g.n <= 4 * kLanes && g.run_count * g.k * g.n <= kNearWholeRows) {
#if SLIPWAY_ISA_BYTES == 64
    return g.n > 3 * kLanes ? LastWholeRows<4, 7>(g) : LastWholeRows<3, 9>(g);
#else
    if (g.n <= 3 * kLanes && g.run_count > 1) return LastWholeRows<3, 4>(g);
#endif
  }
#endif
  if (g.n > kWidth && g.run_count * g.k * g.n <= kNearWeights) return LastNear(g);
  // Partial sums are not stored over what will be added.
  const bool onto = (g.finish.add != nullptr && g.finish.add == g.out) ||
                    (g.finish.post_add != nullptr && g.finish.post_add == g.out);
  const bool whole = onto || g.k <= 2 * kLastDepth || g.run_count > 1 || g.m <= 2 * kLastRows;
  const int64_t depth = whole ? Most(g.k, 1) : Even(g.k, kLastDepth, 4);
  const LastTiles tiles(g);
  for (int64_t j = 0; j < g.n; j += kWidth) {
    NextWeights next = {g.next_w.at, 1, g.next_w.count, 0};
    if (j + kWidth < g.n)
      next = {g.w + (j + kWidth) / kPanel * g.w_panel, Least(kWidth, g.n - j - kWidth) > kPanel ? kWidth / kPanel : 1,
              g.run_count * depth * kPanel, g.w_panel};
    if (whole) {
      LastColumns(tiles, j, next);
      continue;
    }
    for (int64_t k0 = 0; k0 < g.k; k0 += depth) {
      LastBlock part = g;
      part.k = Least(depth, g.k - k0);
      part.x += k0, part.w += k0 * kPanel, part.accumulate = g.accumulate || k0 > 0;
      const bool last = k0 + depth >= g.k;
      if (!last) part.finish = {};
      const int64_t panels = Least(kWidth, g.n - j) > kPanel ? kWidth / kPanel : 1;
      LastColumns(
          LastTiles(part), j,
          last ? next
               : NextWeights{part.w + j / kPanel * g.w_panel + depth * kPanel, panels, depth * kPanel, g.w_panel});
    }
  }
}

// Element p of each lane's group of G lanes.
template <int G>
SLIPWAY_INLINE Vec OfGroups(Vec v, int p) {
  IntVec from;
#pragma GCC unroll 16
  for (int l = 0; l < kLanes; ++l) from[l] = l / G * G + p;
  return __builtin_shuffle(v, from);
}

// R rows of the groups of G channels that lie in the vector of columns from j on, of which n count; groups as wide as a
// vector or wider where G is 0. Each row fetches a part of the weights that are needed next.
template <int R, int G>
__attribute__((noinline)) void LastGroupTile(const LastTiles& tiles, int64_t group, FetchInParts& next, int64_t i,
                                             int64_t j, int64_t n) {
  const LastBlock& g = tiles.block();
  next.Next(R);
  const int64_t at = i * g.out_row + j;
  Vec sum[R][1];
  tiles.Begin(at, n, sum);
  const float* b = g.w + j / kPanel * g.w_panel + j % kPanel;
  const float* const first = g.x + i * g.x_row + (G == 0 ? j / group * group : j);
  for (int64_t run = 0; run < g.run_count; ++run) {
    const float* const x = first + g.runs[run];
    if constexpr (G == 0) {
      for (int64_t p = 0; p < group; ++p, b += kPanel) {
        const Vec by = Load(b);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) sum[r][0] += Splat(x[r * g.x_row + p]) * by;
      }
    } else {
      const float* from = x;
      int64_t row = g.x_row;
      float whole[R * kLanes];  // rather than two ways to load, whose products the compiler would keep apart
      if (n < kLanes) {
        for (int r = 0; r < R; ++r) Store(whole + r * kLanes, LoadSome(x + r * g.x_row, n));
        from = whole, row = kLanes;
      }
      Vec image[R];
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) image[r] = Load(from + r * row);
#pragma GCC unroll 8
      for (int p = 0; p < G; ++p, b += kPanel) {
        const Vec by = Load(b);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) sum[r][0] += OfGroups<G>(image[r], p) * by;
      }
    }
    b += g.w_run - group * kPanel;
  }
  tiles.Finish(at, j, n, sum);
}
// The rows from i on, as many at once as are left of R, half of R, and so on: a version for each number would be most
// of this file's code.
template <int G, int R>
SLIPWAY_INLINE void LastGroupRows(const LastTiles& tiles, int64_t group, FetchInParts& next, int64_t i, int64_t j) {
  const LastBlock& g = tiles.block();
  for (; g.m - i >= R; i += R) LastGroupTile<R, G>(tiles, group, next, i, j, Least(kLanes, g.n - j));
  if constexpr (R > 1) LastGroupRows<G, R / 2>(tiles, group, next, i, j);
}
template <int G>
void LastGroupsOf(const LastBlock& g, int64_t group) {
  const LastTiles tiles(g);
  FetchInParts next(g.next_w, Most(1, g.m * ((g.n + kLanes - 1) / kLanes)));
  for (int64_t j = 0; j < g.n; j += kLanes) LastGroupRows<G, kLastRows>(tiles, group, next, 0, j);
}
void LastGroups(const LastBlock& g, int64_t group) {
  if constexpr (kLanes <= 8)
    if (group >= kLanes) return LastGroupsOf<0>(g, group);
  if constexpr (kLanes > 8)
    if (group == 8) return LastGroupsOf<8>(g, group);
  if constexpr (kLanes > 4)
    if (group == 4) return LastGroupsOf<4>(g, group);
  LastGroupsOf<2>(g, group);
}

// ---- Depthwise.

// Floats from row y - 1 to row y.
SLIPWAY_INLINE int64_t NextRow(const LastTaps& g, int64_t y) { return y == g.wraps ? g.x_row - g.x_ring : g.x_row; }

// Results [at, at + count) of the channels [c, c + n), count <= P, n <= kLanes. Where it is not at the border, all
// columns that P results read are in the image and count is P; where it is not partial, n is kLanes.
template <int W, int S, int P, bool kBorder, bool kPartial>
__attribute__((noinline)) void LastTapsTile(const LastTaps& g, int64_t c, int64_t n, int64_t at, int64_t count) {
  Vec sum[P];
#pragma GCC unroll 16
  for (int i = 0; i < P; ++i) sum[i] = Vec{};
  const int64_t first = at * S - g.pad, column = g.x_column;
  const float* x = g.x + first * column + c;
  const float* w = g.w + c / kPanel * g.w_panel + c % kPanel;
  for (int64_t y = 0; y < g.rows; x += NextRow(g, ++y), w += W * kPanel) {
    Vec by[W];
#pragma GCC unroll 8
    for (int z = 0; z < W; ++z) by[z] = Load(w + z * kPanel);
    const float* from = x;
#pragma GCC unroll 40
    for (int i = 0; i < (P - 1) * S + W; ++i, from += column) {
      if (kBorder && static_cast<uint64_t>(first + i) >= static_cast<uint64_t>(g.columns)) continue;
      const Vec v = kPartial ? LoadSome(from, n) : Load(from);
#pragma GCC unroll 8
      for (int z = 0; z < W; ++z)
        if (i >= z && (i - z) % S == 0 && (i - z) / S < P) sum[(i - z) / S] += v * by[z];
    }
  }
  const LastFinish& f = g.finish;
  ScaleLast<P, 1>(f.scale, f.shift, c, n, sum);
  float* out = g.out + at * g.out_column + c;
  if (f.add != nullptr) {
    const float* add = f.add + at * g.out_column + c;
#pragma GCC unroll 16
    for (int i = 0; i < P; ++i, add += g.out_column)
      if (!kBorder || i < count) sum[i] += LoadSome(add, n);
  }
  FinishLast<P>(f, sum);
  PostLast<P, 1>(f, c, n, at * g.out_column + c, g.out_column, kBorder ? count : P, sum);
#pragma GCC unroll 16
  for (int i = 0; i < P; ++i, out += g.out_column) {
    if (kBorder && i >= count) break;
    if (kPartial)
      StoreSome(out, sum[i], n);
    else
      Store(out, sum[i]);
  }
}

template <int W, int S, int P>
SLIPWAY_INLINE void LastTapsPart(const LastTaps& g, int64_t c, int64_t n, int64_t at, int64_t count) {
  const int64_t first = at * S - g.pad;
  constexpr bool kMasked = SLIPWAY_ISA_BYTES == 64;  // some of a vector's lanes are as fast as all
  if (n == kLanes && count == P && first >= 0 && first + (P - 1) * S + W <= g.columns)
    LastTapsTile<W, S, P, false, false>(g, c, n, at, count);
  else if (n == kLanes && !kMasked)
    LastTapsTile<W, S, P, true, kMasked>(g, c, n, at, count);
  else
    LastTapsTile<W, S, P, true, true>(g, c, n, at, count);
}

// Some places with all their channels after the other: what they read lies together.
template <int W, int S>
void LastTapsRow(const LastTaps& g) {
  constexpr int kShort = 7, kLong = SLIPWAY_ISA_BYTES == 64 ? 14 : kShort;
  const int64_t tiles = (g.n + kLong - 1) / kLong * ((g.channels + kLanes - 1) / kLanes);
  FetchInParts read(g.read, tiles), written(g.written, tiles);
  for (int64_t at = 0, count; at < g.n; at += count) {
    const int64_t left = g.n - at;
    const bool longer = kLong > kShort && left > kShort;
    count = Least(longer ? kLong : kShort, left);
    for (int64_t c = 0; c < g.channels; c += kLanes) {
      const int64_t n = Least(kLanes, g.channels - c);
      read.Next(), written.Next();
      if (longer)
        LastTapsPart<W, S, kLong>(g, c, n, at, count);
      else
        LastTapsPart<W, S, kShort>(g, c, n, at, count);
    }
  }
}

// Any width, stride and dilation.
void LastTapsAny(const LastTaps& g) {
  constexpr int P = 4;
  for (int64_t c = 0; c < g.channels; c += kLanes) {
    const int64_t n = Least(kLanes, g.channels - c);
    const float* const panel = g.w + c / kPanel * g.w_panel + c % kPanel;
    for (int64_t at = 0; at < g.n; at += P) {
      const int64_t count = Least(P, g.n - at);
      Vec sum[P] = {};
      const float *x = g.x + c, *w = panel;
      for (int64_t y = 0; y < g.rows; x += NextRow(g, ++y))
        for (int64_t z = 0; z < g.width; ++z, w += kPanel) {
          const Vec by = Load(w);
          for (int i = 0; i < P; ++i) {
            const int64_t column = (at + i) * g.stride - g.pad + z * g.dilation;
            if (i < count && column >= 0 && column < g.columns) sum[i] += LoadSome(x + column * g.x_column, n) * by;
          }
        }
      const LastFinish& f = g.finish;
      ScaleLast<P, 1>(f.scale, f.shift, c, n, sum);
      if (f.add != nullptr)
        for (int64_t i = 0; i < count; ++i) sum[i] += LoadSome(f.add + (at + i) * g.out_column + c, n);
      FinishLast<P>(f, sum);
      PostLast<P, 1>(f, c, n, at * g.out_column + c, g.out_column, count, sum);
      for (int64_t i = 0; i < count; ++i) StoreSome(g.out + (at + i) * g.out_column + c, sum[i], n);
    }
  }
}

void LastTapsOf(const LastTaps& g) {
  if (g.dilation == 1 && (g.stride == 1 || g.stride == 2)) {
    const bool two = g.stride == 2;
    if (g.width == 3) return two ? LastTapsRow<3, 2>(g) : LastTapsRow<3, 1>(g);
    if (g.width == 5) return two ? LastTapsRow<5, 2>(g) : LastTapsRow<5, 1>(g);
    if (g.width == 7) return two ? LastTapsRow<7, 2>(g) : LastTapsRow<7, 1>(g);
  }
  LastTapsAny(g);
}

// ---- Winograd's transforms.

void LastWinogradFilters(const float* panel, int64_t tap, int64_t channels, float* u, int64_t element) {
  for (int64_t c = 0; c < channels * kPanel; c += kLanes) {
    Vec g[9], half[3][6];
#pragma GCC unroll 9
    for (int t = 0; t < 9; ++t) g[t] = Load(panel + t * tap + c);
#pragma GCC unroll 3
    for (int j = 0; j < 3; ++j) {
      const Vec column[3] = {g[j], g[3 + j], g[6 + j]};
      WinogradOf<4>::Weights(column, half[j]);
    }
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) {
      const Vec row[3] = {half[0][i], half[1][i], half[2][i]};
      Vec out[6];
      WinogradOf<4>::Weights(row, out);
#pragma GCC unroll 6
      for (int j = 0; j < 6; ++j) Store(u + (i * 6 + j) * element + c, out[j]);
    }
  }
}

void LastWinogradTile(const LastWinogradInput& t) {
  for (int64_t c = 0; c < t.channels; c += kLanes) {
    const int64_t n = Least(kLanes, t.channels - c);
    Vec half[6][6];  // by column
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j) {
      Vec d[6];
      const bool in = j >= t.x0 && j < t.x1;
#pragma GCC unroll 6
      for (int i = 0; i < 6; ++i)
        d[i] = in && i >= t.y0 && i < t.y1 ? LoadSome(t.x + i * t.x_row + j * t.x_column + c, n) : Vec{};
      WinogradOf<4>::Input(d, half[j]);
    }
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) {
      const Vec row[6] = {half[0][i], half[1][i], half[2][i], half[3][i], half[4][i], half[5][i]};
      Vec out[6];
      WinogradOf<4>::Input(row, out);
#pragma GCC unroll 6
      for (int j = 0; j < 6; ++j) StoreSome(t.v + (i * 6 + j) * t.element + c, out[j], n);
    }
  }
}

void LastWinogradResult(const LastWinogradOutput& t) {
  const LastFinish& f = t.finish;
  for (int64_t c = 0; c < t.channels; c += kLanes) {
    const int64_t n = Least(kLanes, t.channels - c);
    Vec half[6][4];  // by column
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j) {
      Vec m[6];
#pragma GCC unroll 6
      for (int i = 0; i < 6; ++i) m[i] = LoadSome(t.p + (i * 6 + j) * t.element + c, n);
      WinogradOf<4>::Output(m, half[j]);
    }
#pragma GCC unroll 4
    for (int y = 0; y < 4; ++y) {
      if (y >= t.rows) break;
      const Vec row[6] = {half[0][y], half[1][y], half[2][y], half[3][y], half[4][y], half[5][y]};
      Vec out[4];
      WinogradOf<4>::Output(row, out);
      ScaleLast<4, 1>(f.scale, f.shift, c, n, out);
      const int64_t at = y * t.out_row + c;
      if (f.add != nullptr)
#pragma GCC unroll 4
        for (int x = 0; x < 4; ++x)
          if (x < t.columns) out[x] += LoadSome(f.add + at + x * t.out_column, n);
      FinishLast<4>(f, out);
      PostLast<4, 1>(f, c, n, at, t.out_column, t.columns, out);
#pragma GCC unroll 4
      for (int x = 0; x < 4; ++x)
        if (x < t.columns) StoreSome(t.out + at + x * t.out_column, out[x], n);
    }
  }
}

// ---- Pools.

// V vectors of channels from c on; of one, n channels.
template <bool kMax, int V>
SLIPWAY_INLINE void PoolVectors(const LastPool& g, int64_t c, int64_t n) {
  Vec sum[V];
  NanLanes nans[V];
#pragma GCC unroll 4
  for (Vec& s : sum) s = kMax ? Splat(-__builtin_inff()) : Vec{};
  for (int64_t t = 0; t < g.count; ++t)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      const Vec x = V == 1 ? LoadSome(g.rows[t] + c, n) : Load(g.rows[t] + c + v * kLanes);
      if (kMax)
        nans[v].See(x), sum[v] = Larger(x, sum[v]);
      else
        sum[v] += x;
    }
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    const Vec result = kMax ? nans[v].Over(sum[v]) : sum[v] * g.by;
    V == 1 ? StoreSome(g.out + c, result, n) : Store(g.out + c + v * kLanes, result);
  }
}
template <bool kMax>
void LastPoolOf(const LastPool& g) {
  int64_t c = 0;
  for (; c + 4 * kLanes <= g.n; c += 4 * kLanes) PoolVectors<kMax, 4>(g, c, kLanes);
  for (; c < g.n; c += kLanes) PoolVectors<kMax, 1>(g, c, Least(kLanes, g.n - c));
}

void NormOf(const float* mean, const float* variance, double epsilon, int64_t n, float* scale, float* shift) {
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
    const DoubleVec by = wide(scale + i) / root, to = wide(shift + i) - wide(mean + i) * by;
    *reinterpret_cast<HalfVecAt*>(scale + i) = __builtin_convertvector(by, HalfVec);
    *reinterpret_cast<HalfVecAt*>(shift + i) = __builtin_convertvector(to, HalfVec);
  }
  for (; i < n; ++i) {
    const double by = static_cast<double>(scale[i]) / __builtin_sqrt(static_cast<double>(variance[i]) + epsilon);
    scale[i] = static_cast<float>(by);
    shift[i] = static_cast<float>(static_cast<double>(shift[i]) - static_cast<double>(mean[i]) * by);
  }
}
