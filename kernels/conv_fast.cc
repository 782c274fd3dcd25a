// See conv_fast.h.
#include "kernels/conv_fast.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/convert.h"
#include "kernels/gemm_fast.h"
#include "kernels/winograd.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kDepth = 320;    // of a block of patches
constexpr int64_t kColumns = 192;  // about
constexpr int64_t kRows = 192;     // of a block of weights, about

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
        group_out_(w.sizes[0] / s.groups) {}

  // Whether there is a way, of which the padded image has a size worth having.
  bool Plan() {
    if (taps_ == 1 && s_.pad[0] == 0 && s_.pad[1] == 0 && s_.pad[2] == 0) {
      for (int d = 0; d < 3; ++d)
        if (to_[d] <= 0 || static_cast<__int128>(to_[d] - 1) * s_.stride[d] >= in_[d]) return false;
      pointwise_ = true;
      return true;
    }
    // The last dim is split into the phases of its stride: column p of the padded image is element p / stride of its
    // phase.
    for (int d = 0; d < 3; ++d) {
      if (s_.pad[d] < 0 || to_[d] <= 0 || kernel_[d] <= 0) return false;
      const __int128 size =
          static_cast<__int128>(to_[d] - 1) * s_.stride[d] + static_cast<__int128>(kernel_[d] - 1) * s_.dilation[d] + 1;
      if (size > static_cast<__int128>(in_[d]) + 2 * s_.pad[d] + s_.stride[d]) return false;
      padded_[d] = static_cast<int64_t>(size);
    }
    phase_ = (padded_[2] + s_.stride[2] - 1) / s_.stride[2];
    line_ = phase_ * s_.stride[2];
    const __int128 most = 4 * static_cast<__int128>(plane_) + 65536;
    if (static_cast<__int128>(padded_[0]) * padded_[1] > most) return false;
    if (static_cast<__int128>(padded_[0]) * padded_[1] * line_ > most) return false;
    channel_ = padded_[0] * padded_[1] * line_;
    return true;
  }

  void Run(const float* x, const float* w, float* out, int64_t batch) {
    const bool depthwise = !pointwise_ && per_ == 1 && group_out_ < 4;
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t g = 0; g < s_.groups; ++g) {
        const float* source = x + (n * s_.groups + g) * per_ * plane_;
        const float* left = w + g * group_out_ * per_ * taps_;
        const int64_t at = (n * s_.groups + g) * group_out_ * positions_;
        if (depthwise)
          Depthwise(source, left, out, g * group_out_, at);
        else if (const int m = Winograds(source, left, out + at); m != 0)
          Winograd(winograd_, m, epilogue_, g * group_out_, at);
        else
          Direct(source, left, out, g * group_out_, at);
      }
  }

 private:
  int Winograds(const float* x, const float* w, float* out) {
    if (kernel_[0] != 1 || kernel_[1] != 3 || kernel_[2] != 3 || in_[0] != 1 || to_[0] != 1 || s_.pad[0] != 0) return 0;
    for (int d = 1; d < 3; ++d)
      if (s_.stride[d] != 1 || s_.dilation[d] != 1 || padded_[d] <= s_.pad[d]) return 0;
    winograd_ = {per_, group_out_, in_[1], in_[2], to_[1], to_[2], s_.pad[1], s_.pad[2], x, w, out};
    return WinogradTile(winograd_);
  }

  // Channels of a group, padded, by phases; the borders are zeros already.
  void Pad(const float* x, int64_t channels, float* to) const {
    // What of the rows is read at all: the last ones may lie beyond every window.
    const int64_t z1 = std::min(in_[0], padded_[0] - s_.pad[0]), y1 = std::min(in_[1], padded_[1] - s_.pad[1]),
                  x1 = std::min(in_[2], padded_[2] - s_.pad[2]);
    if (x1 <= 0) return;
    for (int64_t c = 0; c < channels; ++c, x += plane_, to += channel_)
      for (int64_t z = 0; z < z1; ++z) {
        const float* from = x + z * in_[1] * in_[2];
        float* at = to + ((z + s_.pad[0]) * padded_[1] + s_.pad[1]) * line_;
        if (x1 == in_[2]) {
          if (y1 > 0) isa_.pad(from, y1, x1, s_.pad[2], s_.stride[2], phase_, at, line_);
          continue;
        }
        for (int64_t y = 0; y < y1; ++y)
          isa_.pad(from + y * in_[2], 1, x1, s_.pad[2], s_.stride[2], phase_, at + y * line_, line_);
      }
  }
  // Where the window of an output row begins in the padded image.
  int64_t Begin(int64_t oz, int64_t oy) const { return (oz * s_.stride[0] * padded_[1] + oy * s_.stride[1]) * line_; }
  int64_t BeginOf(int64_t position) const {
    if (pointwise_ && dense_) return position;
    return Begin(position / (to_[1] * to_[2]), position / to_[2] % to_[1]) + position % to_[2];
  }
  // Of each channel and tap, from where a window begins.
  std::vector<int64_t> Offsets(int64_t channels) const {
    std::vector<int64_t> offsets(static_cast<size_t>(channels * taps_));
    for (int64_t c = 0, i = 0; c < channels; ++c)
      for (int64_t t = 0; t < taps_; ++t, ++i) {
        const int64_t kz = t / (kernel_[1] * kernel_[2]), ky = t / kernel_[2] % kernel_[1],
                      kx = t % kernel_[2] * s_.dilation[2];
        offsets[i] = c * channel_ + (kz * s_.dilation[0] * padded_[1] + ky * s_.dilation[1]) * line_ +
                     kx % s_.stride[2] * phase_ + kx / s_.stride[2];
      }
    return offsets;
  }

  void Depthwise(const float* x, const float* w, float* out, int64_t first, int64_t at) {
    if (offsets_.empty()) {
      offsets_ = Offsets(1);
      image_.assign(static_cast<size_t>(channel_ + isa_.width), 0.0f);
      sums_.resize(static_cast<size_t>(to_[1] * Row()));
    }
    Pad(x, 1, image_.data());
    for (int64_t o = 0; o < group_out_; ++o)
      for (int64_t z = 0; z < to_[0]; ++z) {
        TapRows r;
        r.x = image_.data() + Begin(z, 0), r.row = s_.stride[1] * line_;
        r.offsets = offsets_.data(), r.taps = taps_, r.weights = w + o * taps_;
        r.out = sums_.data(), r.out_row = Row(), r.rows = to_[1], r.n = to_[2];
        isa_.sum_taps(r);
        const int64_t place = at + (o * to_[0] + z) * to_[1] * to_[2];
        if (Row() == to_[2]) {
          isa_.finish(sums_.data(), out + place, to_[1] * to_[2], epilogue_.For(first + o, place));
          continue;
        }
        for (int64_t y = 0; y < to_[1]; ++y)
          isa_.finish(sums_.data() + y * Row(), out + place + y * to_[2], to_[2],
                      epilogue_.For(first + o, place + y * to_[2]));
      }
  }
  int64_t Row() const { return (to_[2] + isa_.lanes - 1) / isa_.lanes * isa_.lanes; }

  void Direct(const float* x, const float* w, float* out, int64_t first, int64_t at) {
    const int64_t depth = per_ * taps_, width = isa_.width;
    const float* image = x;
    if (pointwise_) {
      dense_ = true;
      channel_ = positions_;
      if (s_.stride[0] != 1 || s_.stride[1] != 1 || s_.stride[2] != 1 || plane_ != positions_) image = Sample(x);
    } else {
      if (image_.empty()) image_.assign(static_cast<size_t>(per_ * channel_ + width), 0.0f);
      Pad(x, per_, image_.data());
      image = image_.data();
      if (offsets_.empty()) offsets_ = Offsets(per_);
    }
    const int64_t blocks = (depth + kDepth - 1) / kDepth, deep = (depth + blocks - 1) / blocks;
    const int64_t chunk = std::min(kColumns / width * width, (positions_ + width - 1) / width * width);
    const int64_t rows = kRows / isa_.rows * isa_.rows;
    // Few rows do not pay for copying.
    const bool in_place = pointwise_ && group_out_ <= 2 * isa_.rows;
    if (patches_.empty()) patches_.resize(static_cast<size_t>((deep + 1) * (chunk + width)));
    float* const last = patches_.data() + deep * chunk + width;
    for (int64_t p0 = 0; p0 < positions_; p0 += chunk) {
      const int64_t count = std::min(chunk, positions_ - p0);
      int64_t rest = count % width, dots = 0;
      if (rest > isa_.lanes) rest -= isa_.lanes;
      if (rest <= isa_.most_dots && deep >= 4 * isa_.lanes) dots = rest;
      for (int64_t k0 = 0; k0 < depth; k0 += deep) {
        const int64_t k = std::min(deep, depth - k0);
        ConvBlock g;
        g.k = k, g.a_row = depth, g.c_row = positions_, g.add = k0 > 0;
        g.b = patches_.data(), g.b_row = width, g.b_panel = k * width;
        g.n = count, g.dots = dots, g.last = last, g.last_row = k;
        int64_t laid = 0;  // columns that are read where they are
        if (in_place) laid = count / width * width;
        for (int64_t p = laid; p < count - dots; p += width)
          LayPanel(image, k0, k, p0 + p, std::min(width, count - dots - p), patches_.data() + (p - laid) * k);
        for (int64_t j = 0; j < dots; ++j) {
          const int64_t begin = BeginOf(p0 + count - dots + j);
          for (int64_t i = 0; i < k; ++i)
            last[j * k + i] = image[begin + (pointwise_ ? (k0 + i) * channel_ : offsets_[k0 + i])];
        }
        for (int64_t o = 0; o < group_out_; o += rows) {
          g.m = std::min(rows, group_out_ - o);
          g.a = w + o * depth + k0;
          g.c = out + at + o * positions_ + p0;
          const bool done = k0 + k == depth;
          if (done && !epilogue_.empty()) Finishing(first + o, at + o * positions_ + p0, &g);
          if (laid > 0) {
            ConvBlock there = g;
            there.n = laid, there.dots = 0;
            there.b = image + k0 * channel_ + p0, there.b_row = channel_, there.b_panel = width;
            isa_.block(there);
            ConvBlock others = g;
            others.n -= laid, others.c += laid;
            if (others.more != nullptr) others.more += laid;
            if (others.n > 0) isa_.block(others);
          } else {
            isa_.block(g);
          }
          if (!done || epilogue_.in_tiles()) continue;
          Finish f;
          f.activation = epilogue_.activation;
          for (int64_t i = 0; i < g.m; ++i) {
            float* row = out + at + (o + i) * positions_ + p0;
            isa_.finish(row, row, count, f);
          }
        }
      }
    }
  }
  // What tiles do of the epilogue, for rows from output channel `o` on that begin at element `at` of the result.
  void Finishing(int64_t o, int64_t at, ConvBlock* g) {
    g->scale = Filled(epilogue_.scale, 1, ones_) + o;
    g->shift = Filled(epilogue_.shift, 0, zeros_) + o;
    if (epilogue_.add != nullptr) g->more = epilogue_.add + at;
    const bool clamps = epilogue_.activation == Activation::kClamp;
    g->low = clamps ? epilogue_.low : -std::numeric_limits<float>::infinity();
    g->high = clamps ? epilogue_.high : std::numeric_limits<float>::infinity();
  }
  const float* Filled(const float* given, float value, std::vector<float>& own) const {
    if (given != nullptr) return given;
    if (own.empty()) own.assign(static_cast<size_t>(group_out_ * s_.groups), value);
    return own.data();
  }
  // The elements that a strided pointwise convolution reads.
  const float* Sample(const float* x) {
    image_.resize(static_cast<size_t>(per_ * positions_));
    float* at = image_.data();
    for (int64_t c = 0; c < per_; ++c, x += plane_)
      for (int64_t oz = 0; oz < to_[0]; ++oz)
        for (int64_t oy = 0; oy < to_[1]; ++oy) {
          const float* from = x + (oz * s_.stride[0] * in_[1] + oy * s_.stride[1]) * in_[2];
          for (int64_t i = 0; i < to_[2]; ++i) *at++ = from[i * s_.stride[2]];
        }
    return image_.data();
  }
  // Patches of `count` positions from `first` on as a panel: for each channel and tap from k0 on a row of `width`
  // numbers. Each run along an output row is copied in full width; what is too much the next one covers, or nobody
  // reads.
  void LayPanel(const float* image, int64_t k0, int64_t k, int64_t first, int64_t count, float* to) const {
    if (pointwise_) return isa_.lay_rows(image + k0 * channel_ + first, channel_, k, count, to);
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
  bool pointwise_ = false, dense_ = false;
  int64_t padded_[3] = {}, phase_ = 0, line_ = 0, channel_ = 0;
  WinogradCall winograd_;
  std::vector<int64_t> offsets_;
  std::vector<float> image_, patches_, sums_, ones_, zeros_;
  const ConvIsa& isa_ = *BestIsa().conv;
};

bool IsFloat(DType t) { return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16; }

}  // namespace

bool FastConv(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape,
              const ConvEpilogue& epilogue) {
  for (const Tensor* t : {&x, &w, &out})
    if (!IsFloat(t->dtype) || !t->is_contiguous()) return false;
  if (out.numel() == 0 || w.numel() == 0 || x.numel() == 0) return false;
  Conv conv(x, w, out, shape, epilogue);
  if (!conv.Plan()) return false;
  // Elements as f32, in memory of their own where they are not.
  auto read = [](const Tensor& t, std::vector<float>& copy) -> const float* {
    if (t.dtype == DType::kF32) return t.as<float>();
    copy.resize(static_cast<size_t>(t.numel()));
    LoadRow<float>(t.data, t.dtype, 1, t.numel(), DType::kF32, copy.data());
    return copy.data();
  };
  std::vector<float> xs, ws, results;
  const float *from = read(x, xs), *weights = read(w, ws);
  if (out.dtype == DType::kF32) {
    conv.Run(from, weights, out.as<float>(), out.sizes[0]);
    return true;
  }
  results.resize(static_cast<size_t>(out.numel()));
  conv.Run(from, weights, results.data(), out.sizes[0]);
  StoreRow<float>(results.data(), out.numel(), out.data, out.dtype, 1);
  return true;
}

}  // namespace slipway::kernels
