// Convolution micro-kernels over NHWC images: indirect GEMM and grouped indirect GEMM (NhwcIgemmParams of conv_nhwc.h).
// Part of conv_nhwc.cc.
//
// out[m, n] = epilogue(Σ over segments s, p < k of x[m · x_stride + segments[s] + p] · w[s][p][n]): m pixels, n output
// channels. Layouts: x NHWC, in place or a padded copy; w packed [n / 16][segment][k][16]. Tile: mr × nr = kNhwcMr × 2
// vectors of accumulators, 14 × 32 with AVX-512 (28 of 32 registers), 6 × 16 with AVX2 (12 of 16; inner loop in
// gemm_avx2.inc.h), 6 × 8 with SSE and NEON. A step broadcasts one element of each of the mr rows of x, so that a
// weight is loaded once for mr pixels. The caller guarantees that rows and segments lie in the image and that weights
// are readable in whole panels.

// From this many rows on, a tile has enough accumulators to hide the latency of one.
constexpr int kMinRowsToHideLatency = 4;
// for a smaller k, AccumulateTile's prologue costs more than its schedule gains
constexpr int64_t kMinSegmentForTile = 8;

// With at most this many steps, a tile is done before the lines it writes arrive: they are prefetched during the tile
// before. Tiles of wider vectors write more lines than can be in flight.
constexpr int64_t kSmallK = SLIPWAY_ISA_BYTES == 64 ? 0 : 64;

// Weights that a tile prefetches: every kStepsPerPrefetch-th step one line, `step` bytes further on each time.
struct PrefetchCursor {
  const float* at = nullptr;
  int64_t step = 0;
};
constexpr int64_t kStepsPerPrefetch = SLIPWAY_ASM_TILE ? 4 : 1;

// The k steps of a segment: acc[R][V] += x[R,k] · w[k,V]; rows of x are x_stride apart, panels of w `panel` floats.
// Each step prefetches a line, step_by bytes further on than the one before.
template <int R, int V>
SLIPWAY_INLINE void AccumulateK(int64_t k, const float* x, int64_t x_stride, const float* b, int64_t panel,
                                const char* fetch, int64_t step_by, Vec* sum) {
  constexpr int kRowPointers = (R + 2) / 3;
  int64_t stride = x_stride * 4;
  const char* a[kRowPointers];
#pragma GCC unroll 5
  for (int r = 0; r < kRowPointers; ++r) a[r] = reinterpret_cast<const char*>(x + 3 * r * x_stride);
#pragma GCC unroll 1
  for (int64_t p = 0; p < k; ++p, fetch += step_by) {
    Vec w[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) w[v] = Load(b + v * kLanes / kPanel * panel + v * kLanes % kPanel);
    __builtin_prefetch(fetch);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Vec one = Broadcast(*reinterpret_cast<const float*>(a[r / 3] + r % 3 * stride + 4 * p));
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) sum[r * V + v] += one * w[v];
    }
    b += kPanel;
    asm("" : "+r"(stride));  // or the compiler keeps computed addresses on the stack
  }
}

// The tiles of a call. What they share is computed once: with small K a tile's prologue and epilogue take as long as
// its steps.
class NhwcIgemmMicrokernel {
 public:
  SLIPWAY_INLINE explicit NhwcIgemmMicrokernel(const NhwcIgemmParams& g)
      : g_(g), next_rows_(g.prefetch_offset == 0 && g.segment_count == 1 && g.x_stride < 2 * g.k),
        small_k_(g.k * g.segment_count <= kSmallK), prefetch_stride_(g.prefetch_offset != 0 ? g.prefetch_stride * 4
                                                                     : next_rows_           ? 64
                                                                                            : 0) {
#if SLIPWAY_ASM_TILE
    steps_ = {g.k >> 2, g.k & 3, (g.w_segment_stride - g.k * kPanel) * 4};
#endif
  }
  const NhwcIgemmParams& block() const { return g_; }

  // Tile of R rows (mr) from i on × V vectors of columns from j on, n of which are written. Steps prefetch `weights`,
  // or what the call asks for, or the next rows of a dense image. kSingleElement: segments have k = 1, kernel elements
  // of images with few channels (NCHW planes).
  template <int R, int V, bool kSingleElement = false>
  __attribute__((noinline)) void Tile(int64_t i, int64_t j, int64_t n, const PrefetchCursor& prefetch) const {
    const int64_t at = i * g_.out_stride + j;
    if (!kSingleElement || SLIPWAY_ISA_BYTES != 64) {
      // The lines that the tile writes are prefetched while it accumulates.
      const float* const written = g_.out + at + (small_k_ ? R * g_.out_stride : 0);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < V * kLanes; v += 16) __builtin_prefetch(written + r * g_.out_stride + v, 1);
    }
    const float *const x = g_.x + i * g_.x_stride, *const w = g_.w + j / kPanel * g_.w_panel_stride + j % kPanel;
    Vec sum[R][V];
    if constexpr (kSingleElement)
      AccumulateSingleElementSegments(x, w, sum);
    else
      Accumulate(x, w, at, n, prefetch, sum);
    if (SLIPWAY_ISA_BYTES != 64 && n == V * kLanes) [[likely]]
      Store(at, j, V * kLanes, sum);
    else
      Store(at, j, n, sum);
  }

  // Accumulators begin with zeros or with the partial sums in `out`: the bits do not depend on how K is split.
  template <int R, int V>
  SLIPWAY_INLINE void Init(int64_t at, int64_t n, Vec (&sum)[R][V]) const {
#pragma GCC unroll 32
    for (int r = 0; r < R * V; ++r)
      sum[r / V][r % V] = g_.accumulate ? LoadPartial(g_.out + at + r / V * g_.out_stride + r % V * kLanes,
                                                      Min(kLanes, n - r % V * kLanes))
                                        : Vec{};
  }
  // Epilogue and stores.
  template <int R, int V>
  SLIPWAY_INLINE void Store(int64_t at, int64_t j, int64_t n, Vec (&sum)[R][V]) const {
    const int64_t row = g_.out_stride, last = n - (V - 1) * kLanes;
    const auto some = [last](int v) __attribute__((always_inline)) { return v + 1 < V ? kLanes : last; };
    ApplyScaleBias<R, V>(g_.epilogue.scale, g_.epilogue.bias, j, n, sum[0]);
    if (const float* residual = g_.epilogue.residual; residual != nullptr) {
      residual += at;
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r, residual += row)
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sum[r][v] += LoadPartial(residual + v * kLanes, some(v));
    }
    ApplyActivation<R * V>(g_.epilogue, sum[0]);
    ApplyPostOps<R, V>(g_.epilogue, j, n, at, row, R, sum[0]);
    float* out = g_.out + at;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r, out += row)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) StorePartial(out + v * kLanes, sum[r][v], some(v));
  }

 private:
  template <int R, int V>
  SLIPWAY_INLINE void Accumulate(const float* x, const float* w, int64_t at, int64_t n, const PrefetchCursor& prefetch,
                                 Vec (&sum)[R][V]) const {
    const char* const weights = reinterpret_cast<const char*>(prefetch.at);
    const int64_t row_prefetch_offset = weights != nullptr ? 0
                                        : next_rows_       ? R * g_.x_stride
                                                           : g_.prefetch_offset,
                  step = weights != nullptr ? prefetch.step : prefetch_stride_;
#if SLIPWAY_ASM_TILE
    if constexpr (R == kNhwcMr && V == 2)
      if (!g_.accumulate)
        return AccumulateSegments(steps_, x, g_.x_stride, g_.segments, g_.segment_count, w, row_prefetch_offset * 4,
                                  weights != nullptr ? weights : reinterpret_cast<const char*>(w), step, sum);
#endif
    Init(at, n, sum);
    const int64_t segment_step = g_.k / kStepsPerPrefetch * step;
    for (int64_t segment = 0; segment < g_.segment_count; ++segment, w += g_.w_segment_stride) {
      const float* const from = x + g_.segments[segment];
      const char* const fetch =
          weights != nullptr ? weights + segment * segment_step
                             : reinterpret_cast<const char*>(row_prefetch_offset != 0 ? from + row_prefetch_offset : w);
#if SLIPWAY_ASM_TILE
      if constexpr (R >= kMinRowsToHideLatency && R <= kNhwcMr && V == 2)
        if (g_.k >= kMinSegmentForTile || g_.segment_count == 1) {
          AccumulateTile(g_.k, from, g_.x_stride, w, kPanel, kLanes, fetch, sum, step);
          continue;
        }
#endif
      AccumulateK<R, V>(g_.k, from, g_.x_stride, w, g_.w_panel_stride, fetch,
                        weights != nullptr ? step / kStepsPerPrefetch : step, sum[0]);
    }
  }
  // One loop over all segments, since starting a segment would take as long as its steps.
  template <int R, int V>
  SLIPWAY_INLINE void AccumulateSingleElementSegments(const float* x, const float* w, Vec (&sum)[R][V]) const {
#pragma GCC unroll 32
    for (int r = 0; r < R * V; ++r) sum[r / V][r % V] = Vec{};
    const int64_t next = kLanes < kPanel ? kLanes : g_.w_panel_stride, step = g_.w_segment_stride, stride = g_.x_stride;
    constexpr int kRowPointers = (R + 2) / 3;
    const float* a[kRowPointers];
#pragma GCC unroll 5
    for (int r = 0; r < kRowPointers; ++r) a[r] = x + 3 * r * stride;
    const int64_t* const end = g_.segments + g_.segment_count;
#pragma GCC unroll 1
    for (const int64_t* segment = g_.segments; segment < end; ++segment, w += step) {
      int64_t at[3] = {*segment, *segment + stride, *segment + 2 * stride};
      asm("" : "+r"(at[0]), "+r"(at[1]), "+r"(at[2]));  // or there would be a pointer per row
      Vec w_vec[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) w_vec[v] = Load(w + v * next);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const Vec one = Broadcast(a[r / 3][at[r % 3]]);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sum[r][v] = Fma(one, w_vec[v], sum[r][v]);
      }
    }
  }

  // By reference: a copy would load several members with one instruction, which stalls until their stores are in the
  // cache.
  const NhwcIgemmParams& g_;
  bool next_rows_, small_k_;
  int64_t prefetch_stride_;
#if SLIPWAY_ASM_TILE
  SegmentSteps steps_;
#endif
};

// The tile of `rows` rows, at most R, and V vectors.
template <int V, int R = kNhwcMr>
SLIPWAY_INLINE void NhwcIgemmTile(int64_t rows, const NhwcIgemmMicrokernel& tiles, int64_t i, int64_t j, int64_t n,
                                  const PrefetchCursor& prefetch) {
  if (rows == R) return tiles.Tile<R, V>(i, j, n, prefetch);
  if constexpr (R > 1) NhwcIgemmTile<V, R - 1>(rows, tiles, i, j, n, prefetch);
}

// Calls tile(i, rows) for the rows [i, i + rows) of each tile of at most `max` rows. The last two tiles are evened out
// where the last would have too few rows, or where tiles of `max` rows are no faster than others.
template <typename F>
SLIPWAY_INLINE void ForEachRowTile(const NhwcIgemmParams& g, int64_t max, F tile) {
  const int64_t count = (g.m + max - 1) / max, two = (count - 2) * max;  // where the last two begin
  const bool whole = SLIPWAY_ASM_TILE && g.m - two - max >= kMinRowsToHideLatency;
  const int64_t last = count < 2 ? 0 : two + (whole ? max : (g.m - two + 1) / 2);
  for (int64_t k = 0; k < count; ++k) {
    const int64_t t = g.interleaved ? InterleavedIndex(k, count) : k, i = t + 1 < count ? t * max : last;
    tile(i, (t + 2 < count ? i + max : t + 1 < count ? last : g.m) - i);
  }
}

// Prefetches a range into the second-level cache in equal parts, one or more per call of Next.
class RangePrefetcher {
 public:
  SLIPWAY_INLINE RangePrefetcher(const PrefetchRange& range, int64_t parts)
      : at_(range.at), part_((range.count + parts - 1) / parts) {}
  SLIPWAY_INLINE void Next(int64_t parts = 1) {
    for (const float* const end = at_ + parts * part_; at_ < end; at_ += 16) __builtin_prefetch(at_, 0, 2);
  }

 private:
  const float* at_;
  const int64_t part_;
};

// Weights that the tiles of a block prefetch: `panels` of `floats` each, panel_step floats apart.
struct PrefetchPanels {
  const float* at = nullptr;
  int64_t panels = 1, floats = 0, panel_step = 0;
};
// Distributes these over the `all` tiles of a block. The first tiles prefetch everything, or, with `even`, all tiles
// the same amount: otherwise too many lines would be in flight for few tiles, or for weights in DRAM. Other tiles
// prefetch the next tile's rows.
class WeightPrefetcher {
 public:
  SLIPWAY_INLINE WeightPrefetcher(const NhwcIgemmParams& g, const PrefetchPanels& next, int64_t all, bool even) {
    if (next.at == nullptr) return;
    const int64_t fetches = Max(1, g.segment_count * (g.k / kStepsPerPrefetch));
    at_ = next.at, panels_ = next.panels, panel_step_ = next.panel_step;
    tiles_ = Max(1, (even || all <= 3 * kFirst ? all : kFirst) / next.panels);
    step_ = Min(64, (4 * next.floats + tiles_ * fetches - 1) / (tiles_ * fetches)), tile_floats_ = fetches * step_ / 4;
  }
  // What the next tile prefetches.
  SLIPWAY_INLINE PrefetchCursor Next() {
    if (panels_ == 0) return {};
    const PrefetchCursor next = {at_ + tile_ * tile_floats_, step_};
    if (++tile_ == tiles_) tile_ = 0, --panels_, at_ += panel_step_;
    return next;
  }

 private:
  static constexpr int64_t kFirst = SLIPWAY_ASM_TILE ? kStepsPerPrefetch : kWidth / kPanel;
  const float* at_ = nullptr;                                  // of the panel
  int64_t panels_ = 0, panel_step_ = 0;                        // that are left
  int64_t tiles_ = 0, tile_ = 0, step_ = 0, tile_floats_ = 0;  // tiles of a panel
};

// All rows of up to two vectors of columns from j on; `next` are the weights to prefetch.
void NhwcIgemmColumns(const NhwcIgemmMicrokernel& tiles, int64_t j, const PrefetchPanels& next) {
  const NhwcIgemmParams& g = tiles.block();
  const int64_t n = Min(kWidth, g.n - j);
  // With a single vector of columns tiles have twice the rows, or there would be too few accumulators.
  constexpr int kNarrowRows = SLIPWAY_ASM_TILE ? 2 * kNhwcMr : kNhwcMr;
  const int64_t most = n <= kLanes ? kNarrowRows : kNhwcMr;
  WeightPrefetcher prefetcher(g, next, (g.m + most - 1) / most,
                              next.at == g.next_weights.at || g.n * g.segment_count * g.k >= kWeightsExceedL2Floats);
  ForEachRowTile(
      g, most, [&](int64_t i, int64_t rows) __attribute__((always_inline)) {
        if (n > kLanes)
          NhwcIgemmTile<2>(rows, tiles, i, j, n, prefetcher.Next());
        else
          NhwcIgemmTile<1, kNarrowRows>(rows, tiles, i, j, n, prefetcher.Next());
      });
}

// kc: this much of a panel stays in the first-level cache while all rows pass. Wider vectors read less per
// multiplication, which the second level sustains.
constexpr int64_t kNhwcKc = SLIPWAY_ISA_BYTES == 64 ? int64_t{1} << 40 : 384;

// Weights of up to this many floats stay in the first-level cache: tiles then iterate columns before rows, so that
// outputs are written in memory order.
constexpr int64_t kL1WeightFloats = 10 << 10;

#if SLIPWAY_ISA_BYTES >= 32
// Up to four vectors of columns are one tile of V vectors, so that output rows are written whole, in memory order: with
// small K the time is that of memory, which takes rows faster than pieces of them. Of narrow vectors, three keep more
// accumulators going than two and one do, which counts where segments are too short for AccumulateTile.
constexpr int64_t kL1WholeRowFloats = 16 << 10;  // floats of weights
template <int V, int R>
void NhwcIgemmWholeRows(const NhwcIgemmParams& g) {
  WeightPrefetcher prefetcher(g, {g.next_weights.at, 1, g.next_weights.count, 0}, (g.m + R - 1) / R, true);
  const NhwcIgemmMicrokernel tiles(g);
  ForEachRowTile(
      g, R, [&](int64_t i, int64_t rows) __attribute__((always_inline)) {
        NhwcIgemmTile<V, R>(rows, tiles, i, 0, g.n, prefetcher.Next());
      });
}
#endif

// Segments of k = 1: the rows from i on of the columns from j on, R at a time, then fewer.
template <int V, int R>
void NhwcSingleElementColumns(const NhwcIgemmMicrokernel& tiles, int64_t i, int64_t j, int64_t n) {
  const int64_t m = tiles.block().m;
  for (; i + R <= m; i += R) tiles.Tile<R, V, true>(i, j, n, {});
  if constexpr (R > 1) {
    if (i < m) NhwcSingleElementColumns<V, R / 2>(tiles, i, j, n);
  }
}
void NhwcSingleElementIgemm(const NhwcIgemmParams& g) {
  const NhwcIgemmMicrokernel tiles(g);
#if SLIPWAY_ISA_BYTES == 64
  constexpr int kLimit = 4;
#else
  constexpr int kLimit = 2;
#endif
  for (int64_t j = 0; j < g.n; j += kLimit * kLanes) {
    const int64_t n = Min(kLimit * kLanes, g.n - j);
    if (n <= kLanes) {
      NhwcSingleElementColumns<1, kNhwcMr>(tiles, 0, j, n);
    } else if (n <= 2 * kLanes) {
      NhwcSingleElementColumns<2, kNhwcMr>(tiles, 0, j, n);
#if SLIPWAY_ISA_BYTES == 64
    } else if (n <= 3 * kLanes) {
      NhwcSingleElementColumns<3, 9>(tiles, 0, j, n);
    } else {
      NhwcSingleElementColumns<4, 6>(tiles, 0, j, n);
#endif
    }
  }
}

// Iterates columns before rows.
__attribute__((noinline)) void NhwcIgemmRowsFirst(const NhwcIgemmParams& g) {
  RangePrefetcher next(g.next_weights, (g.m + kNhwcMr - 1) / kNhwcMr);
  const NhwcIgemmMicrokernel tiles(g);
  // a single last vector has tiles of its own
  const int64_t n = (g.n + kLanes - 1) / kLanes % 2 == 0 ? g.n : g.n / kWidth * kWidth;
  ForEachRowTile(
      g, kNhwcMr, [&](int64_t i, int64_t rows) __attribute__((always_inline)) {
        next.Next();
        for (int64_t j = 0; j < n; j += kWidth) NhwcIgemmTile<2>(rows, tiles, i, j, Min(kWidth, n - j), {});
      });
  if (n < g.n) NhwcIgemmColumns(tiles, n, {});
}

void NhwcIgemm(const NhwcIgemmParams& g) {
  if (g.k == 1 && g.segment_count > 1 && !g.accumulate) return NhwcSingleElementIgemm(g);
#if SLIPWAY_ISA_BYTES >= 32
  if (g.n > 2 * kLanes && g.n <= 4 * kLanes && g.segment_count * g.k * g.n <= kL1WholeRowFloats) {
#if SLIPWAY_ISA_BYTES == 64
    return g.n > 3 * kLanes ? NhwcIgemmWholeRows<4, 7>(g) : NhwcIgemmWholeRows<3, 9>(g);
#else
    if (g.n <= 3 * kLanes && g.segment_count > 1) return NhwcIgemmWholeRows<3, 4>(g);
#endif
  }
#endif
  if (g.n > kWidth && g.segment_count * g.k * g.n <= kL1WeightFloats) return NhwcIgemmRowsFirst(g);
  // Partial sums are not stored over a residual that is still to be read.
  const bool overwrites_residual = (g.epilogue.residual != nullptr && g.epilogue.residual == g.out) ||
                                   (g.epilogue.post_residual != nullptr && g.epilogue.post_residual == g.out);
  const bool whole = overwrites_residual || g.k <= 2 * kNhwcKc || g.segment_count > 1 || g.m <= 2 * kNhwcMr;
  const int64_t depth = whole ? Max(g.k, 1) : EvenBlock(g.k, kNhwcKc, 4);
  const NhwcIgemmMicrokernel tiles(g);
  for (int64_t j = 0; j < g.n; j += kWidth) {
    PrefetchPanels next = {g.next_weights.at, 1, g.next_weights.count, 0};
    if (j + kWidth < g.n)
      next = {g.w + (j + kWidth) / kPanel * g.w_panel_stride,
              Min(kWidth, g.n - j - kWidth) > kPanel ? kWidth / kPanel : 1, g.segment_count * depth * kPanel,
              g.w_panel_stride};
    if (whole) {
      NhwcIgemmColumns(tiles, j, next);
      continue;
    }
    for (int64_t k0 = 0; k0 < g.k; k0 += depth) {
      NhwcIgemmParams part = g;
      part.k = Min(depth, g.k - k0);
      part.x += k0, part.w += k0 * kPanel, part.accumulate = g.accumulate || k0 > 0;
      const bool last = k0 + depth >= g.k;
      if (!last) part.epilogue = {};
      const int64_t panels = Min(kWidth, g.n - j) > kPanel ? kWidth / kPanel : 1;
      NhwcIgemmColumns(NhwcIgemmMicrokernel(part), j,
                       last ? next
                            : PrefetchPanels{part.w + j / kPanel * g.w_panel_stride + depth * kPanel, panels,
                                             depth * kPanel, g.w_panel_stride});
    }
  }
}

// Broadcasts element p of each group of G lanes within the group.
template <int G>
SLIPWAY_INLINE Vec BroadcastInGroups(Vec v, int p) {
  IntVec from;
#pragma GCC unroll 16
  for (int l = 0; l < kLanes; ++l) from[l] = l / G * G + p;
  return Permute(v, from);
}

// Grouped tile: R rows × one vector of columns from j on, n of which are written, of groups of G channels each; G = 0:
// groups at least as wide as a vector. Each row prefetches its part of the next weights.
template <int R, int G>
__attribute__((noinline)) void NhwcGroupedTile(const NhwcIgemmMicrokernel& tiles, int64_t group, RangePrefetcher& next,
                                               int64_t i, int64_t j, int64_t n) {
  const NhwcIgemmParams& g = tiles.block();
  next.Next(R);
  const int64_t at = i * g.out_stride + j;
  Vec sum[R][1];
  tiles.Init(at, n, sum);
  const float* b = g.w + j / kPanel * g.w_panel_stride + j % kPanel;
  const float* const first = g.x + i * g.x_stride + (G == 0 ? j / group * group : j);
  for (int64_t segment = 0; segment < g.segment_count; ++segment) {
    const float* const x = first + g.segments[segment];
    if constexpr (G == 0) {
      for (int64_t p = 0; p < group; ++p, b += kPanel) {
        const Vec by = Load(b);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) sum[r][0] += Broadcast(x[r * g.x_stride + p]) * by;
      }
    } else {
      const float* from = x;
      int64_t row = g.x_stride;
      float whole[R * kLanes];  // instead of two load paths, for which the compiler would duplicate the products
      if (n < kLanes) {
        for (int r = 0; r < R; ++r) Store(whole + r * kLanes, LoadPartial(x + r * g.x_stride, n));
        from = whole, row = kLanes;
      }
      Vec image[R];
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) image[r] = Load(from + r * row);
#pragma GCC unroll 8
      for (int p = 0; p < G; ++p, b += kPanel) {
        const Vec by = Load(b);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) sum[r][0] += BroadcastInGroups<G>(image[r], p) * by;
      }
    }
    b += g.w_segment_stride - group * kPanel;
  }
  tiles.Store(at, j, n, sum);
}
// The rows from i on, R at a time, then R / 2, and so on: a version for each count would be most of this file's code.
template <int G, int R>
SLIPWAY_INLINE void NhwcGroupedRows(const NhwcIgemmMicrokernel& tiles, int64_t group, RangePrefetcher& next, int64_t i,
                                    int64_t j) {
  const NhwcIgemmParams& g = tiles.block();
  for (; g.m - i >= R; i += R) NhwcGroupedTile<R, G>(tiles, group, next, i, j, Min(kLanes, g.n - j));
  if constexpr (R > 1) NhwcGroupedRows<G, R / 2>(tiles, group, next, i, j);
}
template <int G>
void NhwcGroupedColumns(const NhwcIgemmParams& g, int64_t group) {
  const NhwcIgemmMicrokernel tiles(g);
  RangePrefetcher next(g.next_weights, Max(1, g.m * ((g.n + kLanes - 1) / kLanes)));
  for (int64_t j = 0; j < g.n; j += kLanes) NhwcGroupedRows<G, kNhwcMr>(tiles, group, next, 0, j);
}
void NhwcGroupedIgemm(const NhwcIgemmParams& g, int64_t group) {
  if constexpr (kLanes <= 8)
    if (group >= kLanes) return NhwcGroupedColumns<0>(g, group);
  if constexpr (kLanes > 8)
    if (group == 8) return NhwcGroupedColumns<8>(g, group);
  if constexpr (kLanes > 4)
    if (group == 4) return NhwcGroupedColumns<4>(g, group);
  NhwcGroupedColumns<2>(g, group);
}
