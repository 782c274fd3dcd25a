// The indirect GEMM of bytes (int8_conv.h) without VNNI: image and weights are widened to 16 bits before the products,
// each once for many tiles, so that a step of two elements of K is one instruction (pmaddwd) and an addition. Included
// behind int8_conv.inc.h.
//
// Pixels are copied to rows of K elements, all segments of a pixel side by side, as many pixels at once as stay in the
// second-level cache; weights to [K / 2][column][2], a panel of columns at once. Tile: mr × nr = kPairsMr × two vectors
// of i32 accumulators.

#if defined(__SSE4_1__) && !defined(SLIPWAY_BYTE_DOT)

constexpr int kPairsMr = SLIPWAY_ISA_BYTES == 64 ? 14 : 6;
constexpr int64_t kPairsColumns = 2 * kLanes;
constexpr int64_t kPairsMinPixels = 4;              // that are worth it
constexpr int64_t kPatchElements = 96 << 10;        // of widened pixels
constexpr int64_t kShorts = SLIPWAY_ISA_BYTES / 2;  // in a vector

typedef int16_t ShortVecAt __attribute__((vector_size(SLIPWAY_ISA_BYTES), aligned(2), may_alias));
typedef uint8_t HalfBytes __attribute__((vector_size(SLIPWAY_ISA_BYTES / 2)));
typedef uint8_t FourBytes __attribute__((vector_size(4)));
typedef int16_t FourShorts __attribute__((vector_size(8)));

// Elements from one pixel to the next: some distances would put all pixels of a tile into the same sets of the cache.
SLIPWAY_INLINE int64_t PatchStride(int64_t depth) { return depth % 512 == 0 ? depth + kShorts : depth; }
// The most pixels that are widened at once.
SLIPWAY_INLINE int64_t PatchPixels(int64_t depth) {
  return Max(kPairsMr, kPatchElements / PatchStride(depth) / kPairsMr * kPairsMr);
}
int64_t WidenedElements(int64_t pixels, int64_t depth) {
  return depth * kPairsColumns + Min(pixels, PatchPixels(depth)) * PatchStride(depth) + kShorts;
}

// n bytes, a multiple of four.
SLIPWAY_INLINE int16_t* WidenBytes(const uint8_t* from, int64_t n, int16_t* to) {
  for (; n >= kShorts; n -= kShorts, from += kShorts, to += kShorts) {
    HalfBytes bytes;
    __builtin_memcpy(&bytes, from, sizeof bytes);
    *reinterpret_cast<ShortVecAt*>(to) = __builtin_convertvector(bytes, ShortVec);
  }
  for (; n > 0; n -= 4, from += 4, to += 4) {
    FourBytes bytes;
    __builtin_memcpy(&bytes, from, 4);
    const FourShorts shorts = __builtin_convertvector(bytes, FourShorts);
    __builtin_memcpy(to, &shorts, 8);
  }
  return to;
}

// Bytes `first` and `first` + 1 of each word, widened.
template <int first>
SLIPWAY_INLINE ShortVec PairOfWeights(WordVec w) {
  ByteVec from;
  for (int i = 0; i < SLIPWAY_ISA_BYTES; ++i) from[i] = static_cast<uint8_t>(i / 4 * 4 + first + i % 4 / 2);
  return reinterpret_cast<ShortVec>(Permute(reinterpret_cast<ByteVec>(w), from)) >> 8;
}
// The weights of V vectors of columns from j on.
template <int V>
void WidenWeights(const Int8IgemmParams& g, int64_t j, int16_t* to) {
  const int8_t* w = g.w + j / kPanel * g.w_panel_stride + j % kPanel * 4;
  for (int64_t segment = 0; segment < g.segment_count; ++segment, w += g.w_segment_stride)
    for (int64_t p = 0; p < g.k; p += 4, to += 2 * V * kShorts)
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        const WordVec words =
            LoadWords(w + p * kPanel + v * kLanes / kPanel * g.w_panel_stride + v * kLanes % kPanel * 4);
        *reinterpret_cast<ShortVecAt*>(to + v * kShorts) = PairOfWeights<0>(words);
        *reinterpret_cast<ShortVecAt*>(to + (V + v) * kShorts) = PairOfWeights<2>(words);
      }
}

// In this order and in one register: compilers put products together, which then lie on the stack.
SLIPWAY_INLINE void AddPairsInPlace(IntVec& sum, ShortVec x, ShortVec w) {
#if SLIPWAY_ISA_BYTES > 16
  ShortVec product;
  asm volatile("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+v"(sum), "=&v"(product) : "v"(x), "vm"(w));
#else
  sum = AddPairs(sum, x, w);
  asm volatile("" : "+x"(sum));
#endif
}

// Rows of widened pixels and where their results are.
struct PatchRows {
  const int16_t* x;
  int64_t stride, depth, out;  // of the first one, an element of the result
};

// R pixels × V vectors of columns from j on.
template <int R, int V>
__attribute__((noinline)) void PairsTile(const Int8IgemmParams& g, const PatchRows& rows, const int16_t* w, int64_t j) {
  IntVec sum[R * V];
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    const IntVec offset = LoadInts(g.after.offset + j + v * kLanes);
#pragma GCC unroll 32
    for (int r = 0; r < R; ++r) sum[r * V + v] = offset;
  }
  constexpr int kRowPointers = (R + 2) / 3;
  int64_t stride = rows.stride * 2;  // bytes
  const uint8_t* a[kRowPointers];
#pragma GCC unroll 5
  for (int r = 0; r < kRowPointers; ++r) a[r] = reinterpret_cast<const uint8_t*>(rows.x) + 3 * r * stride;
#pragma GCC unroll 1
  for (int64_t p = 0; p < rows.depth; p += 4) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half, w += V * kShorts) {
      ShortVec weights[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        weights[v] = *reinterpret_cast<const ShortVecAt*>(w + v * kShorts);
        asm("" : "+v"(weights[v]));  // in a register, or each product loads it
      }
#pragma GCC unroll 32
      for (int r = 0; r < R; ++r) {
        const auto one = reinterpret_cast<ShortVec>(BroadcastWord(a[r / 3] + r % 3 * stride + 4 * half));
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) AddPairsInPlace(sum[r * V + v], one, weights[v]);
      }
    }
#pragma GCC unroll 5
    for (int r = 0; r < kRowPointers; ++r) a[r] += 8;
    asm("" : "+r"(stride));  // or the compiler keeps computed addresses on the stack
  }
  Requantizer{g.after, g.out}.template Store<R, V>(sum, j, g.n - j, rows.out + j, g.out_stride);
}

// `count` pixels, at most R.
template <int V, int R>
SLIPWAY_INLINE void PairsPixels(const Int8IgemmParams& g, int64_t count, const PatchRows& rows, const int16_t* w,
                                int64_t j) {
  if (count == R) return PairsTile<R, V>(g, rows, w, j);
  if constexpr (R > 1) PairsPixels<V, R - 1>(g, count, rows, w, j);
}
template <int V>
SLIPWAY_INLINE void PairsColumns(const Int8IgemmParams& g, PatchRows rows, int64_t count, int16_t* w, int64_t j) {
  WidenWeights<V>(g, j, w);
  while (count > 0) {
    const int64_t some = PixelsOfTile(count, kPairsMr);
    PairsPixels<V, kPairsMr>(g, some, rows, w, j);
    count -= some, rows.x += some * rows.stride, rows.out += some * g.out_stride;
  }
}

// `count` pixels from `first` on of those of all rows, whose results are evenly spaced.
void PairsIgemm(const Int8IgemmParams& g, int64_t first, int64_t count) {
  const int64_t depth = g.segment_count * g.k, stride = PatchStride(depth);
  int16_t *const w = g.widened, *const patches = w + depth * kPairsColumns;
  const int64_t chunks = (count + PatchPixels(depth) - 1) / PatchPixels(depth);
  const int64_t most = ((count + chunks - 1) / chunks + kPairsMr - 1) / kPairsMr * kPairsMr;
  for (int64_t at = 0; at < count; at += most) {
    const int64_t some = Min(most, count - at);
    int64_t y = (first + at) / g.m, i = (first + at) % g.m;
    for (int64_t pixel = 0; pixel < some; ++pixel, ++i) {
      if (i == g.m) ++y, i = 0;
      const uint8_t* const x = g.x + y * g.x_row_stride + i * g.x_stride;
      int16_t* to = patches + pixel * stride;
      for (int64_t s = 0; s < g.segment_count; ++s) to = WidenBytes(x + g.segments[s], g.k, to);
    }
    const PatchRows rows = {patches, stride, depth,
                            (first + at) / g.m * g.out_row_stride + (first + at) % g.m * g.out_stride};
    int64_t j = 0;
    for (; g.n - j > kLanes; j += 2 * kLanes) PairsColumns<2>(g, rows, some, w, j);
    if (j < g.n) PairsColumns<1>(g, rows, some, w, j);
  }
}
void Int8Igemm(const Int8IgemmParams& g) {
  if (g.widened == nullptr || g.rows * g.m < kPairsMinPixels) return Int8IgemmOfBytes(g);
  if (g.rows == 1 || g.out_row_stride == g.m * g.out_stride) return PairsIgemm(g, 0, g.rows * g.m);
  for (int64_t y = 0; y < g.rows; ++y) PairsIgemm(g, y * g.m, g.m);
}

#else

int64_t WidenedElements(int64_t, int64_t) { return 0; }
void Int8Igemm(const Int8IgemmParams& g) { Int8IgemmOfBytes(g); }

#endif
