// Transposed convolutions of images with channels last: for each row of the result and each tap, a product of the row of the image that
// gets there with the tap's weights, added where its pixels go, which are `stride` pixels apart. Nothing is added twice at a time, since a
// row of the result is one thread's; sums are in the order of the taps.
#include <algorithm>

#include "kernels/conv/conv_last.h"
#include "kernels/conv/conv_transposed.h"
#include "kernels/isa/isa.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kMostWeights = int64_t{1} << 28;  // floats of the packed weights

class TransposedLast {
 public:
  TransposedLast(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& s)
      : x_(x), w_(w), out_(out), s_(s), channels_(x.sizes[1]), outs_(w.sizes[1]), taps_(w.sizes[3] * w.sizes[4]),
        panels_((outs_ + kPanel - 1) / kPanel) {}

  bool possible() const {
    if (x_.numel() == 0 || w_.numel() == 0 || out_.numel() == 0) return false;
    if (x_.dtype != DType::kF32 || w_.dtype != DType::kF32 || out_.dtype != DType::kF32 || !w_.is_contiguous()) return false;
    if (x_.sizes[2] != 1 || w_.sizes[2] != 1 || out_.sizes[2] != 1 || s_.pad[0] != 0 || s_.groups != 1) return false;
    if (!ChannelsLast(out_) || !(ChannelsLast(x_) || x_.is_contiguous())) return false;
    return (ChannelsLast(x_) && !x_.is_contiguous()) || !out_.is_contiguous();
  }

  void Run(const float* bias, const Workers* workers, Scratch& scratch) const {
    const float* const weights = Weights(workers, scratch);
    const int64_t in_y = x_.sizes[3], in_x = x_.sizes[4], to_y = out_.sizes[3], to_x = out_.sizes[4];
    const bool lies = ChannelsLast(x_);
    const int64_t pixel = lies ? x_.strides[4] : channels_, image = lies ? x_.strides[0] : channels_ * in_y * in_x;
    const float* const data = lies ? x_.as<float>() : Last(workers, scratch);
    // Each pixel gets exactly one product, and nothing is to be added.
    const bool once = w_.sizes[3] == s_.stride[1] && w_.sizes[4] == s_.stride[2] && s_.pad[1] == 0 && s_.pad[2] == 0 && s_.dilation[1] == 1 &&
                      s_.dilation[2] == 1 && to_y == in_y * s_.stride[1] && to_x == in_x * s_.stride[2];
    GemmCall whole;
    whole.m = in_x, whole.n = outs_, whole.k = channels_;
    whole.a = {nullptr, DType::kF32, pixel, 1};
    whole.b = {nullptr, DType::kF32, channels_, 1};
    whole.packed = true;
    whole.c_row = s_.stride[2] * out_.strides[4];
    whole.accumulate = !once;
    ParallelFor(scratch, workers, out_.sizes[0] * to_y, 1, [&](int64_t begin, int64_t end, Scratch& own) {
      float* const room = own.Take<float>(BestIsa().gemm_scratch(whole));
      if (own.counting()) return;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t n = i / to_y, row = i % to_y;
        float* const to = out_.as<float>() + n * out_.strides[0] + row * out_.strides[3];
        if (!once)
          for (int64_t p = 0; p < to_x; ++p)
            bias != nullptr ? (void)std::copy_n(bias, outs_, to + p * out_.strides[4]) : (void)std::fill_n(to + p * out_.strides[4], outs_, 0.0f);
        for (int64_t ky = 0; ky < w_.sizes[3]; ++ky) {
          const int64_t from = row + s_.pad[1] - ky * s_.dilation[1], y = from / s_.stride[1];
          if (from < 0 || from % s_.stride[1] != 0 || y >= in_y) continue;
          for (int64_t kx = 0; kx < w_.sizes[4]; ++kx) {
            // Pixels [first, last) of the row of the image get into the result, from `at` on.
            const int64_t at = kx * s_.dilation[2] - s_.pad[2], step = s_.stride[2];
            const int64_t first = at >= 0 ? 0 : (-at + step - 1) / step, last = at >= to_x ? 0 : std::min(in_x, (to_x - at + step - 1) / step);
            if (first >= last) continue;
            GemmCall g = whole;
            g.m = last - first;
            g.a.data = data + n * image + (y * in_x + first) * pixel;
            g.b.data = weights + (ky * w_.sizes[4] + kx) * panels_ * channels_ * kPanel;
            g.c = to + (first * step + at) * out_.strides[4];
            g.bias = once ? bias : nullptr;
            BestIsa().gemm(g, room);
          }
        }
      }
    });
  }

  bool fits() const { return static_cast<__int128>(taps_) * panels_ * channels_ * kPanel <= kMostWeights; }

 private:
  // A packed matrix (panels.h), channels × outs, for each tap.
  const float* Weights(const Workers* workers, Scratch& scratch) const {
    float* const to = scratch.Take<float>(taps_ * panels_ * channels_ * kPanel);
    if (scratch.counting()) return to;
    ParallelFor(workers, panels_ * channels_, 256, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t panel = i / channels_, c = i % channels_, columns = std::min(kPanel, outs_ - panel * kPanel);
        const float* const from = w_.as<float>() + (c * outs_ + panel * kPanel) * taps_;
        for (int64_t t = 0; t < taps_; ++t) {
          float* const row = to + ((t * panels_ + panel) * channels_ + c) * kPanel;
          for (int64_t o = 0; o < columns; ++o) row[o] = from[o * taps_ + t];
          std::fill(row + columns, row + kPanel, 0.0f);
        }
      }
    });
    return to;
  }
  // A dense image as one with channels last.
  const float* Last(const Workers* workers, Scratch& scratch) const {
    const int64_t places = x_.sizes[3] * x_.sizes[4];
    float* const to = scratch.Take<float>(x_.numel());
    if (!scratch.counting())
      ParallelFor(workers, x_.sizes[0], 1, [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n)
          BestIsa().transpose(reinterpret_cast<const uint32_t*>(x_.as<float>() + n * channels_ * places), places,
                              reinterpret_cast<uint32_t*>(to + n * channels_ * places), channels_, places, channels_);
      });
    return to;
  }

  const Tensor &x_, &w_, &out_;
  const ConvShape& s_;
  const int64_t channels_, outs_, taps_, panels_;
};

}  // namespace

bool ConvTransposedLast(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape, const float* bias,
                        const Workers* workers, Scratch& scratch) {
  const TransposedLast conv(x, w, out, shape);
  if (!conv.possible() || !conv.fits()) return false;
  conv.Run(bias, workers, scratch);
  return true;
}

bool TakesConvTransposedLast(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape) {
  const TransposedLast conv(x, w, out, shape);
  return conv.possible() && conv.fits();
}

}  // namespace slipway::kernels
