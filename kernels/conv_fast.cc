// See conv_fast.h.
#include "kernels/conv_fast.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/dense_floats.h"
#include "kernels/gemm_fast.h"
#include "kernels/winograd.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kDepth = 320;    // of a block of patches
constexpr int64_t kColumns = 256;  // at most
constexpr int64_t kRows = 192;     // of a block of weights, about

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Memory of one thread, kept from one image to the next.
class Space {
 public:
  bool empty() const { return memory_ == nullptr; }
  float* Make(int64_t floats) {
    if (empty()) memory_ = std::make_unique<Scratch>(floats);
    return memory_->data();
  }

 private:
  std::unique_ptr<Scratch> memory_;
};

class Conv {
 public:
  Conv(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& s, const ConvEpilogue& epilogue)
      : s_(s),
        epilogue_(epilogue),
        in_(x.sizes + 2),
        kernel_(w.sizes + 2),
        to_(out.sizes + 2),
        per_(w.sizes[1]),
        taps_(kernel_[0] * kernel_[1] * kernel_[2]),
        plane_(in_[0] * in_[1] * in_[2]),
        positions_(to_[0] * to_[1] * to_[2]),
        group_out_(w.sizes[0] / s.groups),
        padded_(in_, to_, WindowOf(w, s)) {
    pointwise_ = taps_ == 1;
    for (int d = 0; d < 3; ++d)
      pointwise_ =
          pointwise_ && s.pad[d] == 0 && to_[d] > 0 && static_cast<__int128>(to_[d] - 1) * s.stride[d] < in_[d];
    sampled_ = pointwise_ && plane_ != positions_;
    depthwise_ = !pointwise_ && per_ == 1 && group_out_ < 4;
  }

  // Whether there is a way, of which the padded image has a size worth having.
  bool possible() const { return pointwise_ || padded_.ok(); }

  void Run(const float* x, const float* w, float* out, int64_t batch, const Workers* workers) {
    if (!pointwise_) offsets_ = padded_.Offsets(depthwise_ ? 1 : per_);
    if (epilogue_.scale == nullptr) ones_.assign(static_cast<size_t>(group_out_ * s_.groups), 1);
    if (epilogue_.shift == nullptr) zeros_.assign(static_cast<size_t>(group_out_ * s_.groups), 0);
    WinogradCall call;
    if (const int m = Winograds(batch, &call); m != 0) {
      for (int64_t g = 0; g < s_.groups; ++g) {
        call.x = x + g * per_ * plane_, call.w = w + g * group_out_ * per_ * taps_;
        call.out = out + g * group_out_ * positions_;
        Winograd(call, m, epilogue_, g * group_out_, g * group_out_ * positions_, workers);
      }
      return;
    }
    auto group = [&](int64_t i, Spaces& spaces, const Workers* inside) {
      const int64_t g = i % s_.groups, at = i * group_out_ * positions_;
      const float *source = x + i * per_ * plane_, *left = w + g * group_out_ * per_ * taps_;
      if (depthwise_)
        Depthwise(source, left, out, g * group_out_, at, spaces);
      else
        Direct(source, left, out, g * group_out_, at, spaces, inside);
    };
    const int64_t groups = batch * s_.groups;
    if (workers == nullptr || depthwise_ || groups >= 2 * workers->threads) {
      ParallelFor(workers, groups, 1, [&](int64_t begin, int64_t end) {
        Spaces spaces;
        for (int64_t i = begin; i < end; ++i) group(i, spaces, nullptr);
      });
      return;
    }
    Spaces spaces;
    for (int64_t i = 0; i < groups; ++i) group(i, spaces, workers);
  }

 private:
  struct Spaces {
    Space image, patches, sums;
  };

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

  void Depthwise(const float* x, const float* w, float* out, int64_t first, int64_t at, Spaces& spaces) const {
    const bool fresh = spaces.image.empty();
    float* image = spaces.image.Make(padded_.size() + isa_.width);
    if (fresh) padded_.Border(0, 1, image);
    padded_.Pad(x, 1, image);
    float* sums = spaces.sums.Make(to_[1] * to_[2] + isa_.lanes);
    for (int64_t o = 0; o < group_out_; ++o)
      for (int64_t z = 0; z < to_[0]; ++z) {
        TapRows r;
        r.x = image + padded_.Begin(z, 0), r.row = padded_.row();
        r.offsets = offsets_.data(), r.taps = taps_, r.weights = w + o * taps_;
        r.out = sums, r.out_row = to_[2], r.rows = to_[1], r.n = to_[2];
        isa_.sum_taps(r);
        const int64_t place = at + (o * to_[0] + z) * to_[1] * to_[2];
        isa_.finish(sums, out + place, to_[1] * to_[2], epilogue_.For(first + o, place));
      }
  }

  void Direct(const float* x, const float* w, float* out, int64_t first, int64_t at, Spaces& spaces,
              const Workers* workers) const {
    const int64_t width = isa_.width;
    const float* image = x;
    if (!pointwise_) {
      const bool fresh = spaces.image.empty();
      float* padded = spaces.image.Make(per_ * padded_.size() + width);
      ParallelFor(workers, per_, 1, [&](int64_t begin, int64_t end) {
        if (fresh) padded_.Border(0, end - begin, padded + begin * padded_.size());
        padded_.Pad(x + begin * plane_, end - begin, padded + begin * padded_.size());
      });
      image = padded;
    } else if (sampled_) {
      float* sample = spaces.image.Make(per_ * positions_);
      ParallelFor(workers, per_, 1, [&](int64_t begin, int64_t end) {
        Sample(x + begin * plane_, end - begin, sample + begin * positions_);
      });
      image = sample;
    }
    // The positions of a chunk do not depend on the number of threads; the rows of a part do.
    const int64_t chunks = (positions_ + kColumns - 1) / kColumns;
    const int64_t chunk = RoundUp((positions_ + chunks - 1) / chunks, width);
    const int64_t wanted = workers != nullptr ? 2 * workers->threads : 1;
    const int64_t parts = std::clamp<int64_t>(wanted / chunks, 1, (group_out_ + isa_.rows - 1) / isa_.rows);
    const int64_t rows = RoundUp((group_out_ + parts - 1) / parts, isa_.rows);
    if (chunks * parts == 1) return Chunk(image, w, out, first, at, 0, chunk, 0, group_out_, spaces);
    ParallelFor(workers, chunks * parts, 1, [&](int64_t begin, int64_t end) {
      Spaces own;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t p = i / parts * chunk, o = i % parts * rows;
        if (p < positions_ && o < group_out_)
          Chunk(image, w, out, first, at, p, chunk, o, std::min(group_out_, o + rows), own);
      }
    });
  }

  // Output channels [o0, o1) of `chunk` positions from p0 on.
  void Chunk(const float* image, const float* w, float* out, int64_t first, int64_t at, int64_t p0, int64_t chunk,
             int64_t o0, int64_t o1, Spaces& spaces) const {
    const int64_t depth = per_ * taps_, width = isa_.width;
    const int64_t blocks = (depth + kDepth - 1) / kDepth, deep = (depth + blocks - 1) / blocks;
    const int64_t rows = RoundUp(kRows, isa_.rows);
    // Few rows do not pay for copying: panels lie in the image.
    const bool in_place = pointwise_ && o1 - o0 <= 2 * isa_.rows;
    float* const patches = spaces.patches.Make((deep + 1) * (chunk + width));
    float* const last = patches + deep * chunk + width;
    const int64_t count = std::min(chunk, positions_ - p0);
    int64_t rest = count % width, dots = 0;
    if (rest > isa_.lanes) rest -= isa_.lanes;
    if (rest <= isa_.most_dots && deep >= 4 * isa_.lanes) dots = rest;
    const int64_t laid = in_place ? count / width * width : 0;
    for (int64_t k0 = 0; k0 < depth; k0 += deep) {
      const int64_t k = std::min(deep, depth - k0);
      const bool done = k0 + k == depth;
      ConvBlock g;
      g.k = k, g.a_row = depth, g.c_row = positions_, g.add = k0 > 0;
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
          g.n = laid, g.dots = 0, g.c = out + place;
          g.b = image + k0 * positions_ + p0, g.b_row = positions_, g.b_panel = width;
          isa_.block(g);
          if (g.more != nullptr) g.more += laid;
        }
        g.n = count - laid, g.dots = dots, g.c = out + place + laid;
        g.b = patches, g.b_row = width, g.b_panel = k * width;
        g.last = last, g.last_row = k;
        if (g.n > 0) isa_.block(g);
        if (!done || epilogue_.in_tiles()) continue;
        Finish f;
        f.activation = epilogue_.activation;
        for (int64_t i = 0; i < g.m; ++i) {
          float* row = out + place + i * positions_;
          isa_.finish(row, row, count, f);
        }
      }
    }
  }
  // What tiles do of the epilogue, for rows from output channel `o` on that begin at element `at` of the result.
  void Finishing(int64_t o, int64_t at, ConvBlock* g) const {
    g->scale = (epilogue_.scale != nullptr ? epilogue_.scale : ones_.data()) + o;
    g->shift = (epilogue_.shift != nullptr ? epilogue_.shift : zeros_.data()) + o;
    g->more = epilogue_.add != nullptr ? epilogue_.add + at : nullptr;
    const bool clamps = epilogue_.activation == Activation::kClamp;
    g->low = clamps ? epilogue_.low : -std::numeric_limits<float>::infinity();
    g->high = clamps ? epilogue_.high : std::numeric_limits<float>::infinity();
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
  // numbers. Each run along an output row is copied in full width; what is too much the next one covers, or nobody
  // reads.
  void LayPanel(const float* image, int64_t k0, int64_t k, int64_t first, int64_t count, float* to) const {
    if (pointwise_) return isa_.lay_rows(image + k0 * positions_ + first, positions_, k, count, to);
    int64_t from[64], at[64];
    int runs = 0;
    for (int64_t p = 0; p < count; ++runs) {
      from[runs] = BeginOf(first + p), at[runs] = p;
      p += std::min(to_[2] - (first + p) % to_[2], count - p);
    }
    isa_.lay(image, offsets_.data() + k0, k, from, at, runs, to);
  }

  const ConvShape s_;
  const ConvEpilogue epilogue_;
  const int64_t *in_, *kernel_, *to_;
  const int64_t per_, taps_, plane_, positions_, group_out_;
  const Padded padded_;
  bool pointwise_ = false, sampled_ = false, depthwise_ = false;
  std::vector<int64_t> offsets_;
  std::vector<float> ones_, zeros_;
  const ConvIsa& isa_ = *BestIsa().conv;
};

}  // namespace

bool FastConv(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape, const ConvEpilogue& epilogue,
              const Workers* workers) {
  if (!DenseFloats::TakesAll(x, w, out)) return false;
  Conv conv(x, w, out, shape, epilogue);
  return RunOnDense(conv, x, w, out, workers);
}

}  // namespace slipway::kernels
