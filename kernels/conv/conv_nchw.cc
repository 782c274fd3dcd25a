// Direct and depthwise convolutions, and the choice among the ways. A direct one never lays out all patches: blocks of
// positions become panels of patches in the first-level caches, which are multiplied with the weights where these lie.
#include "kernels/conv/conv_nchw.h"

#include <algorithm>
#include <limits>

#include "kernels/conv/dense_f32.h"
#include "kernels/conv/winograd.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kDepth = 320;    // of a block of patches
constexpr int64_t kColumns = 256;  // at most
constexpr int64_t kRows = 192;     // of a block of weights, about

class Conv {
 public:
  Conv(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& s, const Epilogue& epilogue)
      : s_(s), epilogue_(epilogue), in_(x.sizes + 2), kernel_(w.sizes + 2), to_(out.sizes + 2), per_(w.sizes[1]),
        taps_(kernel_[0] * kernel_[1] * kernel_[2]), plane_(in_[0] * in_[1] * in_[2]),
        positions_(to_[0] * to_[1] * to_[2]), group_out_(w.sizes[0] / s.groups), padded_(in_, to_, WindowOf(w, s)) {
    pointwise_ = taps_ == 1;
    for (int d = 0; d < 3; ++d)
      pointwise_ =
          pointwise_ && s.pad[d] == 0 && to_[d] > 0 && static_cast<__int128>(to_[d] - 1) * s.stride[d] < in_[d];
    sampled_ = pointwise_ && plane_ != positions_;
    depthwise_ = !pointwise_ && per_ == 1 && group_out_ < 4;
  }

  // Whether the convolution can be done here: the padded image is not much larger than the image.
  bool possible() const { return pointwise_ || padded_.ok(); }

  const char* Way(int64_t batch) const {
    WinogradCall call;
    const int m = Winograds(batch, &call);
    if (m != 0) return m == 2 ? "Winograd, F(2 x 2)" : "Winograd, F(4 x 4)";
    return depthwise_   ? "depthwise, by kernel elements"
           : pointwise_ ? "pointwise, in blocks"
                        : "direct, in blocks of patches";
  }

  void Run(const float* x, const float* w, float* out, int64_t batch, const Workers* workers, Scratch& scratch) {
    Prepare(scratch);
    WinogradCall call;
    if (const int m = Winograds(batch, &call); m != 0) {
      for (int64_t g = 0; g < (scratch.querying() ? 1 : s_.groups); ++g) {
        if (!scratch.querying()) {
          call.x = x + g * per_ * plane_, call.w = w + g * group_out_ * per_ * taps_;
          call.out = out + g * group_out_ * positions_;
        }
        Winograd(call, m, epilogue_, g * group_out_, g * group_out_ * positions_, workers, scratch);
      }
      return;
    }
    // Threads take whole images and groups where there are enough, and else parts of one.
    const int64_t groups = batch * s_.groups;
    const bool by_groups = workers == nullptr || depthwise_ || groups >= 2 * workers->threads;
    ParallelFor(scratch, by_groups ? workers : nullptr, groups, 1, [&](int64_t begin, int64_t end, Scratch& own) {
      const Workers* const inside = by_groups ? nullptr : workers;
      float* const image = TakeImage(own);
      float* const sums = depthwise_ ? own.Take<float>(to_[1] * to_[2] + BestIsa().lanes) : nullptr;
      if (own.querying()) {
        if (!depthwise_) Direct(nullptr, nullptr, nullptr, 0, 0, image, false, inside, own);
        return;
      }
      for (int64_t i = begin; i < end; ++i) {
        const int64_t g = i % s_.groups, at = i * group_out_ * positions_;
        const float *source = x + i * per_ * plane_, *left = w + g * group_out_ * per_ * taps_;
        if (depthwise_)
          Depthwise(source, left, out, g * group_out_, at, image, i == begin, sums);
        else
          Direct(source, left, out, g * group_out_, at, image, i == begin, inside, own);
      }
    });
  }

 private:
  // Where taps read, and the factors and summands of channels that have none.
  void Prepare(Scratch& scratch) {
    const int64_t channels = group_out_ * s_.groups, planes = depthwise_ ? 1 : per_;
    if (!pointwise_) offsets_ = scratch.Take<int64_t>(planes * taps_);
    ones_ = scratch.Take<float>(channels), zeros_ = scratch.Take<float>(channels);
    if (scratch.querying()) return;
    if (!pointwise_) padded_.Offsets(planes, offsets_);
    std::fill_n(ones_, channels, 1.0f);
    std::fill_n(zeros_, channels, 0.0f);
  }
  // For the image of a group as taps read it: padded, or the elements that a strided pointwise convolution reads; null
  // where that is the image itself.
  float* TakeImage(Scratch& scratch) const {
    if (depthwise_) return scratch.Take<float>(padded_.size() + ukernels_.nr);
    if (!pointwise_) return scratch.Take<float>(per_ * padded_.size() + ukernels_.nr);
    return sampled_ ? scratch.Take<float>(per_ * positions_) : nullptr;
  }
  // How the positions and output channels of an image are cut. The positions of a chunk do not depend on the number of
  // threads; the rows of a part do: whole tiles, about as many in each, and no more parts than give each thread as
  // much, since each lays out the positions anew.
  struct Chunks {
    Chunks(const Conv& c, const Workers* workers) {
      count = (c.positions_ + kColumns - 1) / kColumns;
      size = RoundUp((c.positions_ + count - 1) / count, c.ukernels_.nr);
      tile = c.ukernels_.mr, tiles = Ceil(c.group_out_, tile);
      const int64_t threads = workers != nullptr ? workers->threads : 1;
      while (parts < tiles && count * parts < 4 * threads && count * parts % threads != 0) ++parts;
    }
    // The first output channel of a part.
    int64_t begin(int64_t part) const { return tiles * part / parts * tile; }
    int64_t count, size, tile, tiles, parts = 1;
  };

  int64_t deep() const {
    const int64_t depth = per_ * taps_, blocks = (depth + kDepth - 1) / kDepth;
    return (depth + blocks - 1) / blocks;
  }
  static Window WindowOf(const Tensor& w, const ConvShape& s) {
    Window window;
    for (int d = 0; d < 3; ++d) {
      window.kernel[d] = w.sizes[2 + d], window.stride[d] = s.stride[d];
      window.pad[d] = s.pad[d], window.dilation[d] = s.dilation[d];
    }
    return window;
  }

  int Winograds(int64_t batch, WinogradCall* call) const {
    if (depthwise_ || kernel_[0] != 1 || kernel_[1] != 3 || kernel_[2] != 3 || in_[0] != 1 || to_[0] != 1) return 0;
    for (int d = 0; d < 3; ++d)
      if (s_.stride[d] != 1 || s_.dilation[d] != 1 || to_[d] + kernel_[d] - 1 <= s_.pad[d]) return 0;
    if (s_.pad[0] != 0) return 0;
    *call = {batch,     per_,      group_out_, in_[1], in_[2],  to_[1],  to_[2],
             s_.pad[1], s_.pad[2], 0,          0,      nullptr, nullptr, nullptr};
    call->x_step = s_.groups * per_ * plane_, call->out_step = s_.groups * group_out_ * positions_;
    return WinogradTile(*call);
  }

  int64_t BeginOf(int64_t position) const {
    if (pointwise_) return position;
    return padded_.Begin(position / (to_[1] * to_[2]), position / to_[2] % to_[1]) + position % to_[2];
  }

  void Depthwise(const float* x, const float* w, float* out, int64_t first, int64_t at, float* image, bool fresh,
                 float* sums) const {
    if (fresh) padded_.Border(0, 1, image);
    padded_.Pad(x, 1, image);
    for (int64_t o = 0; o < group_out_; ++o)
      for (int64_t z = 0; z < to_[0]; ++z) {
        WindowRowsParams r;
        r.x = image + padded_.Begin(z, 0), r.x_stride = padded_.row();
        r.offsets = offsets_, r.window_size = taps_, r.weights = w + o * taps_;
        r.out = sums, r.out_stride = to_[2], r.rows = to_[1], r.n = to_[2];
        ukernels_.sum_windows(r);
        const int64_t place = at + (o * to_[0] + z) * to_[1] * to_[2];
        BestIsa().elementwise.epilogue(sums, out + place, to_[1] * to_[2], epilogue_.At(first + o, place));
      }
  }

  // `fresh`: the memory of the image has no border yet.
  void Direct(const float* x, const float* w, float* out, int64_t first, int64_t at, float* memory, bool fresh,
              const Workers* workers, Scratch& scratch) const {
    const float* const image = memory != nullptr ? memory : x;
    if (memory != nullptr && !scratch.querying())
      ParallelFor(workers, per_, 1, [&](int64_t begin, int64_t end) {
        if (pointwise_) return Sample(x + begin * plane_, end - begin, memory + begin * positions_);
        if (fresh) padded_.Border(0, end - begin, memory + begin * padded_.size());
        padded_.Pad(x + begin * plane_, end - begin, memory + begin * padded_.size());
      });
    const Chunks k(*this, workers);
    ParallelFor(scratch, workers, k.count * k.parts, 1, [&](int64_t begin, int64_t end, Scratch& own) {
      float* const patches = own.Take<float>((deep() + 1) * (k.size + ukernels_.nr));
      if (own.querying()) return;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t p = i / k.parts * k.size, part = i % k.parts;
        if (p < positions_)
          Chunk(image, w, out, first, at, p, k.size, k.begin(part), std::min(group_out_, k.begin(part + 1)), patches);
      }
    });
  }

  // Output channels [o0, o1) of `chunk` positions from p0 on.
  void Chunk(const float* image, const float* w, float* out, int64_t first, int64_t at, int64_t p0, int64_t chunk,
             int64_t o0, int64_t o1, float* patches) const {
    const int64_t depth = per_ * taps_, width = ukernels_.nr, deep = this->deep();
    const int64_t rows = RoundUp(kRows, ukernels_.mr);
    // Few rows do not pay for copying: panels lie in the image.
    const bool in_place = pointwise_ && o1 - o0 <= 2 * ukernels_.mr;
    float* const last = patches + deep * chunk + width;
    const int64_t count = std::min(chunk, positions_ - p0);
    int64_t rest = count % width, dots = 0;
    if (rest > BestIsa().lanes) rest -= BestIsa().lanes;
    if (rest <= ukernels_.max_tail_columns && deep >= 4 * BestIsa().lanes) dots = rest;
    const int64_t laid = in_place ? count / width * width : 0;
    for (int64_t k0 = 0; k0 < depth; k0 += deep) {
      const int64_t k = std::min(deep, depth - k0);
      const bool done = k0 + k == depth;
      NchwGemmParams g;
      g.k = k, g.a_stride = depth, g.c_stride = positions_, g.accumulate = k0 > 0;
      for (int64_t p = laid; p < count - dots; p += width)
        LayPanel(image, k0, k, p0 + p, std::min(width, count - dots - p), patches + (p - laid) * k);
      for (int64_t j = 0; j < dots; ++j) {
        const int64_t begin = BeginOf(p0 + count - dots + j);
        for (int64_t i = 0; i < k; ++i)
          last[j * k + i] = image[begin + (pointwise_ ? (k0 + i) * positions_ : offsets_[k0 + i])];
      }
      for (int64_t o = o0; o < o1; o += rows) {
        g.m = std::min(rows, o1 - o);
        g.a = w + o * depth + k0;
        const int64_t place = at + o * positions_ + p0;
        if (done && !epilogue_.empty()) Finishing(first + o, place, &g);
        if (laid > 0) {
          g.n = laid, g.tail_columns = 0, g.c = out + place;
          g.b = image + k0 * positions_ + p0, g.b_stride = positions_, g.b_panel_stride = width;
          ukernels_.gemm(g);
          if (g.residual != nullptr) g.residual += laid;
        }
        g.n = count - laid, g.tail_columns = dots, g.c = out + place + laid;
        g.b = patches, g.b_stride = width, g.b_panel_stride = k * width;
        g.tail = last, g.tail_stride = k;
        if (g.n > 0) ukernels_.gemm(g);
        if (!done || epilogue_.in_tiles()) continue;
        Epilogue f;
        f.activation = epilogue_.activation, f.min = epilogue_.min, f.max = epilogue_.max;
        for (int64_t i = 0; i < g.m; ++i) {
          float* row = out + place + i * positions_;
          BestIsa().elementwise.epilogue(row, row, count, f);
        }
      }
    }
  }
  // What tiles do of the epilogue, for rows from output channel `o` on that begin at element `at` of the result.
  void Finishing(int64_t o, int64_t at, NchwGemmParams* g) const {
    g->scale = (epilogue_.scale != nullptr ? epilogue_.scale : ones_) + o;
    g->bias = (epilogue_.bias != nullptr ? epilogue_.bias : zeros_) + o;
    g->residual = epilogue_.residual != nullptr ? epilogue_.residual + at : nullptr;
    const bool clamps = epilogue_.activation == Activation::kClamp;
    g->min = clamps ? epilogue_.min : -std::numeric_limits<float>::infinity();
    g->max = clamps ? epilogue_.max : std::numeric_limits<float>::infinity();
  }
  // The elements that a strided pointwise convolution reads.
  void Sample(const float* x, int64_t channels, float* at) const {
    for (int64_t c = 0; c < channels; ++c, x += plane_)
      for (int64_t z = 0; z < to_[0]; ++z)
        for (int64_t y = 0; y < to_[1]; ++y) {
          const float* from = x + (z * s_.stride[0] * in_[1] + y * s_.stride[1]) * in_[2];
          for (int64_t i = 0; i < to_[2]; ++i) *at++ = from[i * s_.stride[2]];
        }
  }
  // Patches of `count` positions from `first` on as a panel: for each channel and tap from k0 on a row of `width`
  // numbers. Each run along an output row is copied in full width; what is too much the next one covers, or is not
  // reads.
  void LayPanel(const float* image, int64_t k0, int64_t k, int64_t first, int64_t count, float* to) const {
    if (pointwise_) return ukernels_.pack_b({image + k0 * positions_ + first, positions_, k, count, to});
    int64_t from[64], at[64];
    int segments = 0;
    for (int64_t p = 0; p < count; ++segments) {
      from[segments] = BeginOf(first + p), at[segments] = p;
      p += std::min(to_[2] - (first + p) % to_[2], count - p);
    }
    ukernels_.im2col_pack({image, offsets_ + k0, k, from, at, segments, to});
  }

  const ConvShape s_;
  const Epilogue epilogue_;
  const int64_t *in_, *kernel_, *to_;
  const int64_t per_, taps_, plane_, positions_, group_out_;
  const Padded padded_;
  bool pointwise_ = false, sampled_ = false, depthwise_ = false;
  int64_t* offsets_ = nullptr;
  float *ones_ = nullptr, *zeros_ = nullptr;
  const ConvNchwMicrokernels& ukernels_ = BestIsa().conv_nchw;
};

}  // namespace

bool ConvNchw(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape, const Epilogue& epilogue,
              const Workers* workers, Scratch& scratch) {
  if (!DenseF32::TakesAll(x, w, out)) return false;
  Conv conv(x, w, out, shape, epilogue);
  return RunOnDenseF32(conv, x, w, out, workers, scratch);
}

const char* ConvNchwAlgorithm(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape) {
  if (!DenseF32::TakesAll(x, w, out)) return nullptr;
  const Conv conv(x, w, out, shape, {});
  return conv.possible() ? conv.Way(out.sizes[0]) : nullptr;
}

}  // namespace slipway::kernels
