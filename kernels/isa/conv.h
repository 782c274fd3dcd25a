// The inner loops of convolutions and pools, one version per instruction set (isa.h); conv_body.h is their source.
#ifndef SLIPWAY_KERNELS_ISA_CONV_H_
#define SLIPWAY_KERNELS_ISA_CONV_H_

#include <cstdint>

namespace slipway::kernels {

// c[m,n] = a[m,k] · b[k,n] (or added to c). Rows of a are read where they lie. b comes in panels of `width` columns:
// b(p, j) = b[j / width · panel + p · row + j % width], readable in full vectors; its last `dots` columns, which must
// be few, are not there but lie as rows of `last`.
struct ConvBlock {
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  int64_t a_row = 0;
  const float* b = nullptr;
  int64_t b_row = 0, b_panel = 0;
  const float* last = nullptr;
  int64_t last_row = 0, dots = 0;
  float* c = nullptr;
  int64_t c_row = 0;
  bool add = false;
  bool slack = false;  // rows of c may be written up to full vectors
  // Null: no. Else what is stored is sum · scale[i] + shift[i] + more[i · c_row + j] (`more` may be null), not below
  // `low` nor above `high`; NaN stays.
  const float *scale = nullptr, *shift = nullptr, *more = nullptr;
  float low = 0, high = 0;
};

// What becomes of sums: x · scale + shift (by channel), plus an element of another tensor, through a function.
enum class Activation : uint8_t { kNone, kClamp, kSilu, kHardSwish, kHardSigmoid, kLeakyRelu };
struct Finish {
  float scale = 1, shift = 0;
  const float* add = nullptr;  // as many as the row has, or null
  Activation activation = Activation::kNone;
  float low = 0, high = 0;  // of kClamp; `low` is the slope of kLeakyRelu; NaN stays
};

// Rows of a plane by taps: out[r · out_row + i] for r < rows, i < n is made of x[r · row + offsets[t] + i], which is
// readable in full vectors. Rows are written in order and in full vectors: what is too much the next row covers.
struct TapRows {
  const float* x = nullptr;
  int64_t row = 0;
  const int64_t* offsets = nullptr;
  int64_t taps = 0;
  const float* weights = nullptr;
  float* out = nullptr;
  int64_t out_row = 0, rows = 0, n = 0;
};

// What follows sums over channels that lie next to each other (channels last): x · scale[j] + shift[j] + add[i · row +
// j], through a function, and the same once more. Any of the pointers may be null.
struct LastFinish {
  const float *scale = nullptr, *shift = nullptr, *add = nullptr;
  Activation activation = Activation::kNone;
  float low = 0, high = 0;  // as Finish has them
  const float *post_scale = nullptr, *post_shift = nullptr, *post_add = nullptr;
};

// Weights of so many floats are in memory, or in a cache as far away, when they are read: other layers were run since.
constexpr int64_t kFarWeights = 64 << 10;

// So many floats that will be needed and are far; 0: there are none.
struct FloatsAhead {
  const float* at = nullptr;
  int64_t count = 0;
};

// Products over images whose channels are last: out[i, j] for i < m, j < n is the sum over runs r and p < k of
// x[i · x_row + runs[r] + p] · w(r, p, j), where w(r, p, j) = w[j / kPanel · w_panel + r · w_run + p · kPanel + j %
// kPanel] (panels.h); rows of out and of what is added are out_row apart. Nothing is read or written beyond n columns
// but w.
struct LastBlock {
  int64_t m = 0, n = 0, k = 0;
  const float* x = nullptr;
  int64_t x_row = 0;
  // Where runs of x are that will be read after this block, as floats from those that are read: each step of a run
  // fetches what is ahead_step floats further on. 0: they are near already.
  int64_t ahead = 0, ahead_step = 0;
  const int64_t* runs = nullptr;
  int64_t run_count = 0;
  const float* w = nullptr;
  int64_t w_panel = 0, w_run = 0;
  FloatsAhead next_w;  // weights that will be read after this block and are far: fetched while its sums are made
  float* out = nullptr;
  int64_t out_row = 0;
  bool accumulate = false;  // out holds sums already
  bool in_turns = false;    // the order of rows is that of turns.h
  LastFinish finish;
};

// One row of results of a depthwise convolution, channels last: out[i · out_column + c] for i < n, c < channels is the
// sum over taps (y, z) of the image's element (i · stride - pad + z · dilation) · x_column + y · x_row + c, where there
// is such a column, times w[c / kPanel · w_panel + (y · width + z) · kPanel + c % kPanel], y < rows, z < width. Where
// rows lie in a ring, row y is x_ring before that from row `wraps` on.
struct LastTaps {
  const float* x = nullptr;  // column 0
  int64_t x_row = 0, x_column = 0, columns = 0;
  int64_t wraps = 0, x_ring = 0;  // 0: no ring
  int64_t rows = 0, width = 0, stride = 1, pad = 0, dilation = 1;
  const float* w = nullptr;
  int64_t w_panel = 0;
  int64_t channels = 0, n = 0;
  // What will be read and written after this row and is far: of each so many floats, fetched into the second-level
  // cache in the order in which they lie. The loops, which go over some channels of several places at a time, have no
  // order that the processor would go on with. 0: all is near.
  FloatsAhead read, written;
  float* out = nullptr;
  int64_t out_column = 0;
  LastFinish finish;
};

// Rows of results of a depthwise convolution of one plane: out[r · out_row + i] for r < rows, i < n is the sum over
// taps (y, z), y, z < 3, of x[(r · stride + y) · x_row + z % stride · phase + z / stride + i] (a padded image,
// ConvIsa::pad), which is readable in full vectors, times w[3 · y + z]; times scale, plus shift, and what `finish` has
// of these: its vectors are null, `add` lies as `out` does. `stride` is 1 or 2.
struct PlaneTaps {
  const float* x = nullptr;
  int64_t x_row = 0, phase = 0, stride = 1;
  const float* w = nullptr;
  float* out = nullptr;
  int64_t out_row = 0, rows = 0, n = 0;
  float scale = 1, shift = 0;
  LastFinish finish;
};

// A tile of an image with channels last for Winograd's transform of F(4 × 4, 3 × 3) (winograd.h): elements (i, j), i, j
// < 6, of which those of rows [y0, y1) and columns [x0, x1) are there and the others zeros. v[(i · 6 + j) · element +
// c] of the channels.
struct LastWinogradInput {
  const float* x = nullptr;  // element (0, 0)
  int64_t x_row = 0, x_column = 0, y0 = 0, y1 = 0, x0 = 0, x1 = 0, channels = 0;
  float* v = nullptr;
  int64_t element = 0;
};
// The way back: results (y, x), y < rows, x < columns <= 4, of the products p[(i · 6 + j) · element + c], with what
// follows the sums.
struct LastWinogradOutput {
  const float* p = nullptr;
  int64_t element = 0, rows = 0, columns = 0, channels = 0;
  float* out = nullptr;
  int64_t out_row = 0, out_column = 0;
  LastFinish finish;  // `add` lies as `out` does
};

// The largest (NaN above all), or the sum times `by`, of `count` rows of n floats.
struct LastPool {
  const float* const* rows = nullptr;
  int64_t count = 0, n = 0;
  float* out = nullptr;
  float by = 1;
};

struct ConvIsa {
  int64_t lanes, width;  // of a vector, of a panel
  int64_t rows;          // of a tile
  // Up to so many columns are better taken as dots.
  int64_t most_dots;
  void (*block)(const ConvBlock& b);
  // to[p · width + i] = image[offsets[p] + place(i)] for p < k: places are `runs` runs of neighbours: run r begins with
  // image[from[r]] at column at[r]. Writes up to one panel's row too much.
  void (*lay)(const float* image, const int64_t* offsets, int64_t k, const int64_t* from, const int64_t* at, int runs,
              float* to);
  // Columns of dense rows as a panel: to[p · width + i] = from[p · row + i], i < n; zeros beyond.
  void (*lay_rows)(const float* from, int64_t row, int64_t k, int64_t n, float* to);
  void (*finish)(const float* x, float* out, int64_t n, const Finish& f);
  // Rows of n elements into a padded plane whose border is there already: element i of a row goes to to[i + pad], or,
  // where `stride` is more than 1, column i + pad to phase (i + pad) % stride, which are `phase` floats long.
  void (*pad)(const float* from, int64_t from_row, int64_t rows, int64_t n, int64_t pad, int64_t stride, int64_t phase,
              float* to, int64_t to_row);
  void (*sum_taps)(const TapRows& r);  // sums of weights[t] · x
  void (*max_taps)(const TapRows& r);  // largest, NaN above all; no weights
  void (*plane_taps)(const PlaneTaps& t);
  // Winograd's transforms of F(2×2, 3×3) and F(4×4, 3×3) (winograd.h): [0] m = 2, [1] m = 4; t = m + 2.
  struct Winograd {
    // u[(i · t + j) · element + c] of `channels` filters of 3 × 3 that lie one after another; writes full vectors.
    void (*weights)(const float* w, int64_t channels, float* u, int64_t element);
    // Tiles of one channel: x holds rows of m phases of `line` floats, tile (y, x) begins with row m·y, element x of
    // its phases. v[(i · t + j) · element + y · tiles + x]; writes up to a vector too much.
    void (*input)(const float* x, int64_t line, int64_t rows, int64_t tiles, float* v, int64_t element);
    // m rows of m · tiles results (`row` floats apart, writable in full vectors of tiles) of products at
    // p[(i · t + j) · element + x].
    void (*output)(const float* p, int64_t element, int64_t tiles, float* out, int64_t row);
  } winograd[2];
  // Channels last.
  int64_t last_rows;   // of a tile of last_block
  int64_t last_grain;  // blocks of whole multiples of so many rows are faster
  void (*last_block)(const LastBlock& b);
  // The same where groups of `group` columns, of which a panel holds a whole number, have as many numbers of x each:
  // column j is over x[… + j / group · group + p], p < k = group.
  void (*last_groups)(const LastBlock& b, int64_t group);
  void (*last_taps)(const LastTaps& t);
  // Filters of a panel: taps `tap` floats apart, each of `channels` rows of kPanel; u[(i · 6 + j) · element + c ·
  // kPanel + o].
  void (*last_winograd_filters)(const float* panel, int64_t tap, int64_t channels, float* u, int64_t element);
  void (*last_winograd_input)(const LastWinogradInput& t);
  void (*last_winograd_output)(const LastWinogradOutput& t);
  void (*last_max)(const LastPool& p);
  void (*last_sum)(const LastPool& p);
  // A batch norm as x · scale + shift: of its weights and biases, which are overwritten; computed in f64.
  void (*norm)(const float* mean, const float* variance, double epsilon, int64_t n, float* scale, float* shift);
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ISA_CONV_H_
