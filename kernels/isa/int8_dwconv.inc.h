// Depthwise convolutions of bytes (int8_conv.h). Included behind int8_pairs.inc.h.
//
// Bytes of four kernel rows at a pixel become words, so that a step adds the products of four kernel rows to each
// channel: interleaving within lanes of 128 bits leaves vector v of a block with channels 16 · lane + 4 · v + {0, 1, 2,
// 3}, which is how the weights are arranged and what packing the sums to bytes undoes. Without VNNI a step of x86-64
// takes two kernel rows, widened to pairs of 16 bits in the same order, and half of the vectors at a time. Tile: pixels
// × four vectors.

#if defined(__SSE4_1__) && !defined(SLIPWAY_BYTE_DOT)
constexpr bool kDwPairs = true;
typedef ShortVec DwWords;
#else
constexpr bool kDwPairs = false;
typedef WordVec DwWords;
#endif
constexpr int64_t kDwBlock = SLIPWAY_ISA_BYTES;  // channels
constexpr int kDwPixels = kDwPairs ? 4 : SLIPWAY_ISA_BYTES == 64 ? 5 : 2;
constexpr int kDwRows = kDwPairs ? 2 : 4;     // of a step
constexpr int kDwVectors = kDwPairs ? 2 : 4;  // of four, at a time
constexpr int64_t kDwWeightBytes = kDwPairs ? 2 : 1;

SLIPWAY_INLINE int64_t DwSteps(int64_t height) { return (height + kDwRows - 1) / kDwRows; }

typedef uint8_t Bytes16 __attribute__((vector_size(16)));
typedef int16_t Shorts8 __attribute__((vector_size(16)));
// Where bytes `first` and `first` + 1 of each word are taken from, to be the upper halves of 16 bits.
SLIPWAY_INLINE Bytes16 PairsFrom(int first) {
  Bytes16 from;
  for (int i = 0; i < 16; ++i) from[i] = static_cast<uint8_t>(i / 4 * 4 + first + i % 4 / 2);
  return from;
}
// To [block][kernel column][step][vector].
void ArrangeDepthwise(const int8_t* panels, int64_t channels, int64_t height, int64_t width, int8_t* to) {
  const int64_t panel_count = (channels + kPanel - 1) / kPanel, quads = (height + 3) / 4;
  const int64_t panel = width * quads * 4 * kPanel;
  for (int64_t first = 0; first < panel_count; first += kDwBlock / kPanel)
    for (int64_t z = 0; z < width; ++z)
      for (int64_t step = 0; step < DwSteps(height); ++step)
        for (int v = 0; v < 4; ++v)
          for (int64_t lane = 0; lane < kDwBlock / kPanel; ++lane, to += 16) {
            if (first + lane >= panel_count) {
              __builtin_memset(to, 0, 16);
              continue;
            }
            const int64_t row = step * kDwRows;
            const int8_t* const from = panels + (first + lane) * panel + (z * quads + row / 4) * 4 * kPanel + v * 16;
            Bytes16 bytes;
            __builtin_memcpy(&bytes, from, 16);
            if constexpr (kDwPairs) {
              const Bytes16 taken = row % 4 == 0 ? Permute(bytes, PairsFrom(0)) : Permute(bytes, PairsFrom(2));
              bytes = reinterpret_cast<Bytes16>(reinterpret_cast<Shorts8>(taken) >> 8);
            }
            __builtin_memcpy(to, &bytes, 16);
          }
}

void ArrangeDepthwiseColumns(const uint32_t* from, int64_t channels, uint32_t* to) {
  for (int64_t c = 0; c < channels; c += kDwBlock, to += kDwBlock)
    for (int64_t i = 0; i < kDwBlock; ++i) {
      const int64_t channel = c + i % kLanes / 4 * 16 + i / kLanes * 4 + i % 4;
      to[i] = channel < channels ? from[channel] : 0;
    }
}

// The first n of a block of bytes.
SLIPWAY_INLINE ByteVec LoadBlock(const uint8_t* p, int64_t n) {
#if SLIPWAY_ISA_BYTES == 64
  return reinterpret_cast<ByteVec>(_mm512_maskz_loadu_epi8(n >= 64 ? ~__mmask64{0} : (__mmask64{1} << n) - 1, p));
#else
  ByteVec v{};
  if (n == SLIPWAY_ISA_BYTES) [[likely]]
    __builtin_memcpy(&v, p, SLIPWAY_ISA_BYTES);
  else if (n == 16)
    __builtin_memcpy(&v, p, 16);
  else
    __builtin_memcpy(&v, p, static_cast<unsigned>(n));
  return v;
#endif
}
SLIPWAY_INLINE ByteVec LoadBlock(const uint8_t* p) {
  ByteVec v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

#if defined(__SSE4_1__) && !defined(SLIPWAY_BYTE_DOT)
// Pairs of two rows of bytes: vectors `first` and first + 1 of four.
template <int first, typename LoadRow>
SLIPWAY_INLINE void Interleave(LoadRow load, ShortVec (&to)[2]) {
  const ByteVec a = load(0), b = load(1);
#if SLIPWAY_ISA_BYTES == 64
  const auto x = reinterpret_cast<__m512i>(a), y = reinterpret_cast<__m512i>(b), none = _mm512_setzero_si512();
  const __m512i both = first == 0 ? _mm512_unpacklo_epi8(x, y) : _mm512_unpackhi_epi8(x, y);
  to[0] = reinterpret_cast<ShortVec>(_mm512_unpacklo_epi8(both, none));
  to[1] = reinterpret_cast<ShortVec>(_mm512_unpackhi_epi8(both, none));
#elif SLIPWAY_ISA_BYTES == 32
  const auto x = reinterpret_cast<__m256i>(a), y = reinterpret_cast<__m256i>(b), none = _mm256_setzero_si256();
  const __m256i both = first == 0 ? _mm256_unpacklo_epi8(x, y) : _mm256_unpackhi_epi8(x, y);
  to[0] = reinterpret_cast<ShortVec>(_mm256_unpacklo_epi8(both, none));
  to[1] = reinterpret_cast<ShortVec>(_mm256_unpackhi_epi8(both, none));
#else
  const auto x = reinterpret_cast<__m128i>(a), y = reinterpret_cast<__m128i>(b), none = _mm_setzero_si128();
  const __m128i both = first == 0 ? _mm_unpacklo_epi8(x, y) : _mm_unpackhi_epi8(x, y);
  to[0] = reinterpret_cast<ShortVec>(_mm_unpacklo_epi8(both, none));
  to[1] = reinterpret_cast<ShortVec>(_mm_unpackhi_epi8(both, none));
#endif
}
SLIPWAY_INLINE void AddStep(IntVec& sum, ShortVec x, const int8_t* w) {
  AddPairsInPlace(sum, x, *reinterpret_cast<const ShortVecAt*>(w));
}
#else
// Words of four rows of bytes, in the order that is stated above.
template <int first, typename LoadRow>
SLIPWAY_INLINE void Interleave(LoadRow load, WordVec (&to)[4]) {
  const ByteVec a = load(0), b = load(1), c = load(2), d = load(3);
#if SLIPWAY_ISA_BYTES == 64
  const auto w = [](ByteVec v) __attribute__((always_inline)) { return reinterpret_cast<__m512i>(v); };
  const __m512i low[2] = {_mm512_unpacklo_epi8(w(a), w(b)), _mm512_unpacklo_epi8(w(c), w(d))};
  const __m512i high[2] = {_mm512_unpackhi_epi8(w(a), w(b)), _mm512_unpackhi_epi8(w(c), w(d))};
  to[0] = reinterpret_cast<WordVec>(_mm512_unpacklo_epi16(low[0], low[1]));
  to[1] = reinterpret_cast<WordVec>(_mm512_unpackhi_epi16(low[0], low[1]));
  to[2] = reinterpret_cast<WordVec>(_mm512_unpacklo_epi16(high[0], high[1]));
  to[3] = reinterpret_cast<WordVec>(_mm512_unpackhi_epi16(high[0], high[1]));
#elif SLIPWAY_ISA_BYTES == 32
  const auto w = [](ByteVec v) __attribute__((always_inline)) { return reinterpret_cast<__m256i>(v); };
  const __m256i low[2] = {_mm256_unpacklo_epi8(w(a), w(b)), _mm256_unpacklo_epi8(w(c), w(d))};
  const __m256i high[2] = {_mm256_unpackhi_epi8(w(a), w(b)), _mm256_unpackhi_epi8(w(c), w(d))};
  to[0] = reinterpret_cast<WordVec>(_mm256_unpacklo_epi16(low[0], low[1]));
  to[1] = reinterpret_cast<WordVec>(_mm256_unpackhi_epi16(low[0], low[1]));
  to[2] = reinterpret_cast<WordVec>(_mm256_unpacklo_epi16(high[0], high[1]));
  to[3] = reinterpret_cast<WordVec>(_mm256_unpackhi_epi16(high[0], high[1]));
#else
  for (int v = 0; v < 4; ++v)
    for (int l = 0; l < 4; ++l) {
      const int at = 4 * v + l;
      to[v][l] = static_cast<uint32_t>(a[at]) | static_cast<uint32_t>(b[at]) << 8 | static_cast<uint32_t>(c[at]) << 16 |
                 static_cast<uint32_t>(d[at]) << 24;
    }
#endif
}
SLIPWAY_INLINE void AddStep(IntVec& sum, WordVec x, const int8_t* w) {
  const WeightQuads weights = QuadsOfWeights(LoadWords(w));
  sum = AddProducts(sum + AddWeights(IntVec{}, weights) * kByteDotTakesOff, QuadsOfBytes(x), weights);
}
#endif

// The first n bytes of a block of channels from c on at kernel row y and a column, or the padding.
SLIPWAY_INLINE ByteVec LoadPixel(const Int8DwconvParams& g, int64_t y, int64_t column, int64_t c, int64_t n) {
  const uint8_t* const row = g.rows[y];
  if (row == nullptr || column < 0 || column >= g.columns) return g.padding - ByteVec{};
  return LoadBlock(row + column * g.x_pixel_stride + c, n);
}

constexpr int64_t kDwMaxRows = 8;  // of the kernels of unrolled tiles

// The sums of vectors from `first` on of P pixels × a block of channels from c on.
template <int W, int S, int P, int first>
SLIPWAY_INLINE void DwconvSums(const Int8DwconvParams& g, const uint8_t* const* rows, int64_t pixel, const int8_t* w,
                               int64_t c, IntVec (&all)[P][4]) {
  IntVec sum[P][kDwVectors];
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p)
#pragma GCC unroll 4
    for (int v = 0; v < kDwVectors; ++v) sum[p][v] = LoadInts(g.after.offset + c + (first + v) * kLanes);
  const int64_t steps = DwSteps(g.height);
  w += first * SLIPWAY_ISA_BYTES;
  for (int64_t step = 0; step < steps; ++step, rows += kDwRows, w += 4 * SLIPWAY_ISA_BYTES) {
    int64_t offset = 0;
#pragma GCC unroll 40
    for (int i = 0; i < (P - 1) * S + W; ++i, offset += pixel) {
      DwWords x[kDwVectors];
      Interleave<first>([&](int y) __attribute__((always_inline)) { return LoadBlock(rows[y] + offset); }, x);
#pragma GCC unroll 8
      for (int z = 0; z < W; ++z)
        if (i >= z && (i - z) % S == 0 && (i - z) / S < P)
#pragma GCC unroll 4
          for (int v = 0; v < kDwVectors; ++v)
            AddStep(sum[(i - z) / S][v], x[v], w + (z * steps * 4 + v) * SLIPWAY_ISA_BYTES);
    }
  }
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p)
#pragma GCC unroll 4
    for (int v = 0; v < kDwVectors; ++v) all[p][first + v] = sum[p][v];
}

// Output pixels [at, at + P), the first `count` of which are stored, × a block of channels from c on, n of which count.
// W is the kernel's width, S its stride. rows[y] is where the first pixel of kernel row y lies, all of whose pixels are
// whole blocks `pixel` bytes apart; rows behind the kernel's last, up to a whole step, have weights of zero.
template <int W, int S, int P>
__attribute__((noinline)) void Int8DwconvTile(const Int8DwconvParams& g, const uint8_t* const* rows, int64_t pixel,
                                              const int8_t* w, int64_t c, int64_t n, int64_t at, int64_t count) {
  IntVec sum[P][4];
  DwconvSums<W, S, P, 0>(g, rows, pixel, w, c, sum);
  if constexpr (kDwVectors == 2) DwconvSums<W, S, P, 2>(g, rows, pixel, w, c, sum);
  const Requantizer to{g.after, g.out};
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p)
    if (p < count) to.Store<1, 4, true>(sum[p], c, n, (at + p) * g.out_pixel_stride + c, g.out_pixel_stride);
}

template <int W, int S>
void Int8DwconvRow(const Int8DwconvParams& g) {
  constexpr int P = kDwPixels, kColumns = (P - 1) * S + W;
  bool rows_inside = true;
  for (int64_t y = 0; y < g.height; ++y) rows_inside = rows_inside && g.rows[y] != nullptr;
  const int64_t block_bytes = W * DwSteps(g.height) * 4 * SLIPWAY_ISA_BYTES;
  for (int64_t at = 0; at < g.n; at += P) {
    const int64_t count = Min(P, g.n - at), first = at * S - g.pad;
    const bool inside = rows_inside && first >= 0 && first + kColumns <= g.columns;
    const int8_t* w = g.w;
    for (int64_t c = 0; c < g.channels; c += kDwBlock, w += block_bytes) {
      const int64_t n = Min(kDwBlock, g.channels - c);
      // At borders a copy.
      alignas(64) uint8_t copy[kDwMaxRows * kColumns * SLIPWAY_ISA_BYTES];
      // A block that is not whole reads on in the pixels behind, whose sums are not stored.
      const bool in_place = inside && (g.columns - first - kColumns) * g.x_pixel_stride >= kDwBlock - n;
      const uint8_t* rows[kDwMaxRows];
      for (int64_t y = 0; y < kDwMaxRows; ++y) {
        if (in_place) {
          rows[y] = g.rows[Min(y, g.height - 1)] + first * g.x_pixel_stride + c;
          continue;
        }
        rows[y] = copy + Min(y, g.height - 1) * kColumns * SLIPWAY_ISA_BYTES;
        for (int64_t i = 0; y < g.height && i < kColumns; ++i) {
          const ByteVec v = LoadPixel(g, y, first + i, c, n);
          __builtin_memcpy(copy + (y * kColumns + i) * SLIPWAY_ISA_BYTES, &v, sizeof v);
        }
      }
      Int8DwconvTile<W, S, P>(g, rows, in_place ? g.x_pixel_stride : SLIPWAY_ISA_BYTES, w, c, n, at, count);
    }
  }
}

// Any kernel, stride and dilation.
void Int8DwconvAny(const Int8DwconvParams& g) {
  const int64_t steps = DwSteps(g.height);
  const Requantizer to{g.after, g.out};
  for (int64_t at = 0; at < g.n; ++at) {
    const int8_t* w = g.w;
    for (int64_t c = 0; c < g.channels; c += kDwBlock) {
      const int64_t n = Min(kDwBlock, g.channels - c);
      IntVec sum[4];
      for (int v = 0; v < 4; ++v) sum[v] = LoadInts(g.after.offset + c + v * kLanes);
      for (int64_t z = 0; z < g.width; ++z)
        for (int64_t step = 0; step < steps; ++step, w += 4 * SLIPWAY_ISA_BYTES) {
          const auto load = [&](int y) __attribute__((always_inline)) {
            const int64_t row = step * kDwRows + y;
            return row < g.height ? LoadPixel(g, row, at * g.stride - g.pad + z * g.dilation, c, n) : ByteVec{};
          };
          const auto add = [&]<int first>() __attribute__((always_inline)) {
            DwWords x[kDwVectors];
            Interleave<first>(load, x);
            for (int v = 0; v < kDwVectors; ++v) AddStep(sum[first + v], x[v], w + (first + v) * SLIPWAY_ISA_BYTES);
          };
          add.template operator()<0>();
          if constexpr (kDwVectors == 2) add.template operator()<2>();
        }
      to.Store<1, 4, true>(sum, c, n, at * g.out_pixel_stride + c, g.out_pixel_stride);
    }
  }
}

void Int8Dwconv(const Int8DwconvParams& g) {
  if (g.dilation == 1 && (g.stride == 1 || g.stride == 2) && g.height <= kDwMaxRows) {
    const bool two = g.stride == 2;
    if (g.width == 1) return two ? Int8DwconvRow<1, 2>(g) : Int8DwconvRow<1, 1>(g);
    if (g.width == 3) return two ? Int8DwconvRow<3, 2>(g) : Int8DwconvRow<3, 1>(g);
    if (g.width == 5) return two ? Int8DwconvRow<5, 2>(g) : Int8DwconvRow<5, 1>(g);
    if (g.width == 7) return two ? Int8DwconvRow<7, 2>(g) : Int8DwconvRow<7, 1>(g);
  }
  Int8DwconvAny(g);
}
