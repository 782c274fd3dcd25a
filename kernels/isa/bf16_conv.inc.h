// Convolutions of bf16 (bf16_conv.h): indirect GEMM and depthwise. part of bf16_conv.cc, after
// simd.inc.h, elements.inc.h, math.inc.h, epilogue.inc.h and pair_dot.inc.h.
//
// A word holds two neighbours of K. A step adds the products of words (PairDot): one of the image, which it
// broadcasts, with one of each column of weights. Tile: mr × nr = kBf16Mr × two vectors of f32 accumulators.

constexpr int kBf16Mr = 14;

// What follows the sums of rows of V vectors of columns from j on, n of which count: vector (r, v) is sum[r · V + v],
// rows are `row` elements apart and begin with element `at` of the result.
struct Bf16Store {
  const HalfEpilogue& e;
  uint16_t* out;

  // R rows: tiles do what is most common; all else is one function for all of them.
  template <int R, int V>
  SLIPWAY_INLINE void Store(const Vec* sum, int64_t j, int64_t n, int64_t at, int64_t row) const {
    if (V != 2 || n < V * kLanes || e.sums.scale == nullptr || e.sums.bias == nullptr ||
        e.sums.activation != Activation::kClamp || e.residual != nullptr || has_post()) {
      Vec held[(R * V + 3) / 4 * 4];
#pragma GCC unroll 32
      for (int i = 0; i < R * V; ++i) held[i] = sum[i];
      return StoreRows<V>(held, R, j, n, at, row);
    }
    const Vec scale[2] = {Load(e.sums.scale + j), Load(e.sums.scale + j + kLanes)},
              bias[2] = {Load(e.sums.bias + j), Load(e.sums.bias + j + kLanes)};
    const Vec low = Broadcast(e.sums.min), high = Broadcast(e.sums.max);
    auto* to = reinterpret_cast<BF16Bits*>(out + at);
    const auto result = [&](int i) __attribute__((always_inline)) {
      return Min(high, Max(low, Fma(sum[i], scale[i % 2], bias[i % 2])));  // NaN stays
    };
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r, to += row) StoreTwo(to, result(2 * r), result(2 * r + 1));
  }

  // `held` has room for a multiple of four vectors.
  template <int V>
  __attribute__((noinline)) void StoreRows(Vec* held, int64_t rows, int64_t j, int64_t n, int64_t at,
                                           int64_t row) const {
    const auto each = [&](auto f) __attribute__((always_inline)) {
      int64_t place = at;
      for (int64_t r = 0; r < rows; ++r, place += row) f(held + r * V, place);
    };
    each([&](Vec * sum, int64_t place) __attribute__((always_inline)) {
      ApplyScaleBias<1, V>(e.sums.scale, e.sums.bias, j, n, sum);
      Add<V>(e.residual, n, place, sum);
    });
    if (e.sums.activation != Activation::kNone)
      for (int64_t i = 0; i < rows * V; i += 4) ApplyActivation<4>(e.sums, held + i);
    if (has_post())
      each([&](Vec * sum, int64_t place) __attribute__((always_inline)) {
        if (e.sums.post_scale != nullptr) ApplyScaleBias<1, V>(e.sums.post_scale, e.sums.post_bias, j, n, sum);
        Add<V>(e.post_residual, n, place, sum);
      });
    each([&](Vec * sum, int64_t place) __attribute__((always_inline)) {
      auto* const to = reinterpret_cast<BF16Bits*>(out + place);
#pragma GCC unroll 4
      for (int v = 0; v < V; v += 2) {
        const int64_t left = n - v * kLanes;
        if (v + 1 < V && left >= 2 * kLanes) {
          StoreTwo(to + v * kLanes, sum[v], sum[v + 1 < V ? v + 1 : v]);
          continue;
        }
        if (left > 0) StorePartial(to + v * kLanes, sum[v], Min(kLanes, left));
        if (v + 1 < V && left > kLanes) StorePartial(to + (v + 1) * kLanes, sum[v + 1 < V ? v + 1 : v], left - kLanes);
      }
    });
  }

 private:
  bool has_post() const { return e.sums.post_scale != nullptr || e.post_residual != nullptr; }
  template <int V>
  SLIPWAY_INLINE void Add(const uint16_t* added, int64_t n, int64_t place, Vec* sum) const {
    if (added == nullptr) return;
    const auto* from = reinterpret_cast<const BF16Bits*>(added + place);
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      if (n > v * kLanes) sum[v] += LoadPartial(from + v * kLanes, Min(kLanes, n - v * kLanes));
  }
};

// ---- Indirect GEMM.

SLIPWAY_INLINE WordVec PairsAt(const uint16_t* w, int v, int64_t panel) {
  return LoadWords(w + v * kLanes / kPanel * panel + v * kLanes % kPanel * 2);
}

// Few pixels over many columns: the weights come from memory once, so that many of their vectors are under way, and
// they are prefetched so many elements ahead.
constexpr int kBf16FewRows = 2, kBf16FewVectors = 8;
constexpr int64_t kBf16Prefetch = 1024;

// R pixels of row y from i on × V vectors of columns from j on.
template <int R, int V>
__attribute__((noinline)) void Bf16IgemmTile(const Bf16IgemmParams& g, int64_t y, int64_t i, int64_t j) {
  Vec sum[R * V];
#pragma GCC unroll 32
  for (int r = 0; r < R * V; ++r) sum[r] = Vec{};
  constexpr int kRowPointers = (R + 2) / 3;
  int64_t stride = g.x_stride;
  const uint8_t* const x = g.x + y * g.x_row_stride + i * stride;
  const uint16_t* w = g.w + j / kPanel * g.w_panel_stride + j % kPanel * 2;
  const int64_t panel = g.w_panel_stride;
  for (int64_t segment = 0; segment < g.segment_count; ++segment, w += g.w_segment_stride) {
    const uint8_t* a[kRowPointers];
#pragma GCC unroll 5
    for (int r = 0; r < kRowPointers; ++r) a[r] = x + g.segments[segment] + 3 * r * stride;
    const uint16_t* b = w;
#pragma GCC unroll 1
    for (int64_t p = 0; p < g.k; p += 2, b += 2 * kPanel) {
      WordVec weights[V];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        weights[v] = PairsAt(b, v, panel);
        if (V == kBf16FewVectors) PrefetchOnce(b + v * kLanes / kPanel * panel + kBf16Prefetch);
      }
#pragma GCC unroll 32
      for (int r = 0; r < R; ++r) {
        const WordVec one = BroadcastPair(a[r / 3] + r % 3 * stride + 2 * p);
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) sum[r * V + v] = PairDot(sum[r * V + v], one, weights[v]);
      }
      asm("" : "+r"(stride));  // or the compiler keeps computed addresses on the stack
    }
  }
  Bf16Store{g.after, static_cast<uint16_t*>(g.out)}.template Store<R, V>(
      sum, j, g.n - j, y * g.out_row_stride + i * g.out_stride + j, g.out_stride);
}

// `count` pixels, at most R.
template <int V, int R>
SLIPWAY_INLINE void Bf16IgemmPixels(const Bf16IgemmParams& g, int64_t count, int64_t y, int64_t i, int64_t j) {
  if (count == R) return Bf16IgemmTile<R, V>(g, y, i, j);
  if constexpr (R > 1) Bf16IgemmPixels<V, R - 1>(g, count, y, i, j);
}
template <int V>
SLIPWAY_INLINE void Bf16IgemmColumns(const Bf16IgemmParams& g, int64_t j) {
  for (int64_t y = 0; y < g.rows; ++y)
    for (int64_t i = 0; i < g.m;) {
      const int64_t count = PixelsOfTile(g.m - i, kBf16Mr);
      Bf16IgemmPixels<V, kBf16Mr>(g, count, y, i, j);
      i += count;
    }
}
void Bf16Igemm(const Bf16IgemmParams& g) {
  int64_t j = 0;
  if (g.rows == 1 && g.m <= kBf16FewRows)
    for (; g.n - j > (kBf16FewVectors - 1) * kLanes; j += kBf16FewVectors * kLanes)
      Bf16IgemmPixels<kBf16FewVectors, kBf16FewRows>(g, g.m, 0, 0, j);
  for (; g.n - j > kLanes; j += 2 * kLanes) Bf16IgemmColumns<2>(g, j);
  if (j < g.n) Bf16IgemmColumns<1>(g, j);
}

// ---- Depthwise. A block is two vectors of channels; words are an element of each of two kernel rows: interleaving
// within lanes of 128 bits leaves vector v of a block with channels 8 · lane + 4 · v + {0, 1, 2, 3}, which is how the
// weights are arranged and what storing undoes. Tile: pixels × two vectors.

constexpr int64_t kBf16DwBlock = 2 * kLanes;  // channels
constexpr int kBf16DwRows = 2;                // kernel rows of a step
constexpr int kBf16DwPixels = 8;
constexpr int64_t kBf16DwMaxRows = 8;  // of the kernels of unrolled tiles

SLIPWAY_INLINE int64_t Bf16DwSteps(int64_t height) { return (height + kBf16DwRows - 1) / kBf16DwRows; }
int64_t Bf16DwArranged(int64_t channels, int64_t height, int64_t width) {
  return (channels + kBf16DwBlock - 1) / kBf16DwBlock * kBf16DwBlock * Bf16DwSteps(height) * width * 2;
}
// Where lane l of vector v of a block has its channel.
SLIPWAY_INLINE int64_t Bf16DwChannel(int64_t v, int64_t l) { return l / 4 * 8 + v * 4 + l % 4; }

// To [block][step][kernel column][vector][lane] words.
void ArrangeBf16Depthwise(const uint16_t* panels, int64_t channels, int64_t height, int64_t width, uint16_t* to) {
  const auto weight = [&](int64_t c, int64_t y, int64_t z) -> uint32_t {
    return c < channels && y < height ? panels[(c / kPanel * height * width + y * width + z) * kPanel + c % kPanel]
                                      : 0u;
  };
  for (int64_t c = 0; c < channels; c += kBf16DwBlock)
    for (int64_t step = 0; step < Bf16DwSteps(height); ++step)
      for (int64_t z = 0; z < width; ++z)
        for (int64_t v = 0; v < 2; ++v)
          for (int64_t l = 0; l < kLanes; ++l, to += 2) {
            const int64_t channel = c + Bf16DwChannel(v, l);
            const uint32_t word = weight(channel, 2 * step, z) | weight(channel, 2 * step + 1, z) << 16;
            __builtin_memcpy(to, &word, 4);
          }
}

typedef uint16_t BlockVec __attribute__((vector_size(SLIPWAY_ISA_BYTES)));  // a block

SLIPWAY_INLINE BlockVec LoadBlock16(const uint8_t* p) {
  BlockVec v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
// The first n channels.
SLIPWAY_INLINE BlockVec LoadBlock16(const uint8_t* p, int64_t n) {
  if (n >= kBf16DwBlock) return LoadBlock16(p);
  BlockVec v{};
  __builtin_memcpy(&v, p, static_cast<unsigned>(2 * n));
  return v;
}

// What a step multiplies, of two vectors of channels.
struct Bf16DwWords {
  WordVec of[2];
  SLIPWAY_INLINE Bf16DwWords(BlockVec a, BlockVec b) {
#if defined(__aarch64__)
    of[0] = reinterpret_cast<WordVec>(vzip1q_u16(reinterpret_cast<uint16x8_t>(a), reinterpret_cast<uint16x8_t>(b)));
    of[1] = reinterpret_cast<WordVec>(vzip2q_u16(reinterpret_cast<uint16x8_t>(a), reinterpret_cast<uint16x8_t>(b)));
#else
    of[0] =
        reinterpret_cast<WordVec>(_mm512_unpacklo_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
    of[1] =
        reinterpret_cast<WordVec>(_mm512_unpackhi_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#endif
  }
  SLIPWAY_INLINE Vec Add(Vec acc, int v, const uint16_t* w) const { return PairDot(acc, of[v], LoadWords(w)); }
};
// In the order of channels.
SLIPWAY_INLINE void ChannelsInOrder([[maybe_unused]] Vec* v) {
#if SLIPWAY_ISA_BYTES == 64  // vectors of one lane have theirs in order
  const Vec a = v[0], b = v[1];
  v[0] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  v[1] = __builtin_shufflevector(a, b, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
#endif
}

// Output pixels [at, at + P), the first `count` of which are stored, × a block of channels from c on, n of which count.
// W is the kernel's width, S its stride. rows[y] is where the first pixel of kernel row y lies, all of whose pixels are
// whole blocks `pixel` bytes apart; what is read behind the kernel's last row counts as zeros.
template <int W, int S, int P>
__attribute__((noinline)) void Bf16DwconvTile(const Bf16DwconvParams& g, const uint8_t* const* rows, int64_t pixel,
                                              const uint16_t* w, int64_t c, int64_t n, int64_t at, int64_t count) {
  Vec sum[P][2];
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) sum[p][0] = sum[p][1] = Vec{};
  const int64_t steps = Bf16DwSteps(g.height);
  for (int64_t step = 0; step < steps; ++step, rows += kBf16DwRows, w += W * 4 * kLanes) {
    int64_t offset = 0;
    const uint16_t bits = kBf16DwRows * step + kBf16DwRows <= g.height ? 0xffff : 0;
    const BlockVec present = bits - BlockVec{};
#pragma GCC unroll 40
    for (int i = 0; i < (P - 1) * S + W; ++i, offset += pixel) {
      const BlockVec first = LoadBlock16(rows[0] + offset);
      const Bf16DwWords x(first, LoadBlock16(rows[1] + offset) & present);
#pragma GCC unroll 8
      for (int z = 0; z < W; ++z)
        if (i >= z && (i - z) % S == 0 && (i - z) / S < P)
#pragma GCC unroll 2
          for (int v = 0; v < 2; ++v) sum[(i - z) / S][v] = x.Add(sum[(i - z) / S][v], v, w + (z * 2 + v) * 2 * kLanes);
    }
  }
  Vec held[2 * P];
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) {
    ChannelsInOrder(sum[p]);
    held[2 * p] = sum[p][0], held[2 * p + 1] = sum[p][1];
  }
  Bf16Store{g.after, static_cast<uint16_t*>(g.out)}.StoreRows<2>(held, count, c, n, at * g.out_pixel_stride + c,
                                                                 g.out_pixel_stride);
}

// The first n channels of a block from c on at kernel row y and a column; zeros outside of the image.
SLIPWAY_INLINE BlockVec LoadPixel16(const Bf16DwconvParams& g, int64_t y, int64_t column, int64_t c, int64_t n) {
  const uint8_t* const row = g.rows[y];
  if (row == nullptr || column < 0 || column >= g.columns) return BlockVec{};
  return LoadBlock16(row + column * g.x_pixel_stride + 2 * c, n);
}

template <int W, int S>
void Bf16DwconvRow(const Bf16DwconvParams& g) {
  constexpr int P = kBf16DwPixels, kColumns = (P - 1) * S + W;
  bool rows_inside = true;
  for (int64_t y = 0; y < g.height; ++y) rows_inside = rows_inside && g.rows[y] != nullptr;
  const int64_t block_words = W * Bf16DwSteps(g.height) * kBf16DwBlock;
  for (int64_t at = 0; at < g.n; at += P) {
    const int64_t count = Min(P, g.n - at), first = at * S - g.pad;
    const bool inside = rows_inside && first >= 0 && first + kColumns <= g.columns;
    const uint16_t* w = g.w;
    for (int64_t c = 0; c < g.channels; c += kBf16DwBlock, w += 2 * block_words) {
      const int64_t n = Min(kBf16DwBlock, g.channels - c);
      // At borders a copy.
      alignas(64) uint8_t copy[kBf16DwMaxRows * kColumns * SLIPWAY_ISA_BYTES];
      // A block that is not whole reads on in the pixels behind, whose sums are not stored.
      const bool in_place = inside && (g.columns - first - kColumns) * g.x_pixel_stride >= 2 * (kBf16DwBlock - n);
      const uint8_t* rows[kBf16DwMaxRows];
      for (int64_t y = 0; y < kBf16DwMaxRows; ++y) {
        if (in_place) {
          rows[y] = g.rows[Min(y, g.height - 1)] + first * g.x_pixel_stride + 2 * c;
          continue;
        }
        rows[y] = copy + Min(y, g.height - 1) * kColumns * SLIPWAY_ISA_BYTES;
        for (int64_t i = 0; y < g.height && i < kColumns; ++i) {
          const BlockVec v = LoadPixel16(g, y, first + i, c, n);
          __builtin_memcpy(copy + (y * kColumns + i) * SLIPWAY_ISA_BYTES, &v, sizeof v);
        }
      }
      Bf16DwconvTile<W, S, P>(g, rows, in_place ? g.x_pixel_stride : SLIPWAY_ISA_BYTES, w, c, n, at, count);
    }
  }
}

// Any kernel, stride and dilation.
void Bf16DwconvAny(const Bf16DwconvParams& g) {
  const int64_t steps = Bf16DwSteps(g.height);
  const Bf16Store to{g.after, static_cast<uint16_t*>(g.out)};
  for (int64_t at = 0; at < g.n; ++at) {
    const uint16_t* w = g.w;
    for (int64_t c = 0; c < g.channels; c += kBf16DwBlock) {
      const int64_t n = Min(kBf16DwBlock, g.channels - c);
      Vec sum[4] = {};
      for (int64_t step = 0; step < steps; ++step)
        for (int64_t z = 0; z < g.width; ++z, w += 4 * kLanes) {
          const auto load = [&](int64_t y) __attribute__((always_inline)) {
            return y < g.height ? LoadPixel16(g, y, at * g.stride - g.pad + z * g.dilation, c, n) : BlockVec{};
          };
          const Bf16DwWords x(load(kBf16DwRows * step), load(kBf16DwRows * step + kBf16DwRows - 1));
          for (int v = 0; v < 2; ++v) sum[v] = x.Add(sum[v], v, w + v * 2 * kLanes);
        }
      ChannelsInOrder(sum);
      to.StoreRows<2>(sum, 1, c, n, at * g.out_pixel_stride + c, g.out_pixel_stride);
    }
  }
}

void Bf16Dwconv(const Bf16DwconvParams& g) {
  if (g.dilation == 1 && (g.stride == 1 || g.stride == 2) && g.height <= kBf16DwMaxRows) {
    const bool two = g.stride == 2;
    if (g.width == 1) return two ? Bf16DwconvRow<1, 2>(g) : Bf16DwconvRow<1, 1>(g);
    if (g.width == 3) return two ? Bf16DwconvRow<3, 2>(g) : Bf16DwconvRow<3, 1>(g);
    if (g.width == 5) return two ? Bf16DwconvRow<5, 2>(g) : Bf16DwconvRow<5, 1>(g);
    if (g.width == 7) return two ? Bf16DwconvRow<7, 2>(g) : Bf16DwconvRow<7, 1>(g);
  }
  Bf16DwconvAny(g);
}
