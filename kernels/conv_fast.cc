// See conv_fast.h.
#include "kernels/conv_fast.h"

#include <algorithm>
#include <vector>

#include "kernels/gemm_fast.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kPatches = 48 * 1024;  // floats of a block of patches

class Conv {
 public:
  Conv(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& s)
      : s_(s),
        in_(x.sizes + 2),
        kernel_(w.sizes + 2),
        to_(out.sizes + 2),
        per_(w.sizes[1]),
        taps_(kernel_[0] * kernel_[1] * kernel_[2]),
        plane_(in_[0] * in_[1] * in_[2]),
        positions_(to_[0] * to_[1] * to_[2]),
        group_out_(w.sizes[0] / s.groups) {}

  // Whether the padded image has a size worth having.
  bool Plan() {
    // The last dim is split into the phases of its stride: column p of the padded image is element p / stride of its
    // phase.
    int64_t padded[3];
    for (int d = 0; d < 3; ++d) {
      if (s_.pad[d] < 0 || to_[d] <= 0 || kernel_[d] <= 0) return false;
      const __int128 size =
          static_cast<__int128>(to_[d] - 1) * s_.stride[d] + static_cast<__int128>(kernel_[d] - 1) * s_.dilation[d] + 1;
      if (size > static_cast<__int128>(in_[d]) + 2 * s_.pad[d] + s_.stride[d]) return false;
      padded[d] = static_cast<int64_t>(size);
    }
    phase_ = (padded[2] + s_.stride[2] - 1) / s_.stride[2];
    line_ = phase_ * s_.stride[2];
    rows_ = padded[1], slices_ = padded[0];
    const __int128 most = 4 * static_cast<__int128>(plane_) + 65536;
    return static_cast<__int128>(slices_) * rows_ <= most && static_cast<__int128>(slices_) * rows_ * line_ <= most;
  }
  bool pointwise() const {
    return taps_ == 1 && plane_ == positions_ && s_.pad[0] == 0 && s_.pad[1] == 0 && s_.pad[2] == 0 &&
           s_.stride[0] == 1 && s_.stride[1] == 1 && s_.stride[2] == 1;
  }

  void Run(const float* x, const float* w, const float* bias, float* out, int64_t batch) {
    const bool depthwise = per_ == 1 && group_out_ < 8;
    offsets_.resize(static_cast<size_t>(taps_));
    for (int64_t t = 0; t < taps_; ++t) {
      const int64_t kz = t / (kernel_[1] * kernel_[2]), ky = t / kernel_[2] % kernel_[1],
                    kx = t % kernel_[2] * s_.dilation[2];
      offsets_[t] =
          (kz * s_.dilation[0] * rows_ + ky * s_.dilation[1]) * line_ + kx % s_.stride[2] * phase_ + kx / s_.stride[2];
    }
    Scratch image(pointwise() ? 0 : per_ * slices_ * rows_ * line_);
    const int64_t depth = per_ * taps_,
                  chunk = std::clamp<int64_t>(kPatches / depth, 64, std::max<int64_t>(positions_, 64));
    Scratch patches(pointwise() || depthwise ? 0 : depth * chunk);
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t g = 0; g < s_.groups; ++g) {
        const float* source = x + (n * s_.groups + g) * per_ * plane_;
        const float* left = w + g * group_out_ * depth;
        float* to = out + (n * s_.groups + g) * group_out_ * positions_;
        const float* add = bias != nullptr ? bias + g * group_out_ : nullptr;
        if (!pointwise()) Pad(source, image.data());
        if (depthwise && !pointwise()) {
          for (int64_t o = 0; o < group_out_; ++o)
            Taps(image.data(), left + o * taps_, add != nullptr ? add[o] : 0, to + o * positions_);
          continue;
        }
        for (int64_t o = 0; o < group_out_; ++o)
          std::fill_n(to + o * positions_, positions_, add != nullptr ? add[o] : 0.0f);
        if (pointwise()) {
          Product(left, depth, source, plane_, positions_, to);
          continue;
        }
        for (int64_t first = 0; first < positions_; first += chunk) {
          const int64_t count = std::min(chunk, positions_ - first);
          Lay(image.data(), first, count, patches.data());
          Product(left, depth, patches.data(), count, count, to + first);
        }
      }
  }

 private:
  // to[group_out, count] += left · right.
  void Product(const float* left, int64_t depth, const float* right, int64_t row, int64_t count, float* to) {
    FastGemm({group_out_,
              count,
              depth,
              {left, DType::kF32, depth, 1},
              {right, DType::kF32, row, 1},
              to,
              positions_,
              1,
              nullptr,
              true});
  }

  // The channels of a group, padded, by phases.
  void Pad(const float* x, float* to) const {
    const int64_t stride = s_.stride[2];
    for (int64_t c = 0; c < per_; ++c)
      for (int64_t z = 0; z < slices_; ++z)
        for (int64_t y = 0; y < rows_; ++y, to += line_) {
          const int64_t iz = z - s_.pad[0], iy = y - s_.pad[1];
          if (iz < 0 || iz >= in_[0] || iy < 0 || iy >= in_[1]) {
            std::fill_n(to, line_, 0.0f);
            continue;
          }
          const float* from = x + c * plane_ + (iz * in_[1] + iy) * in_[2];
          if (stride == 1) {
            const int64_t begin = std::min(s_.pad[2], line_), count = std::min(in_[2], line_ - begin);
            std::fill_n(to, begin, 0.0f);
            std::copy_n(from, count, to + begin);
            std::fill(to + begin + count, to + line_, 0.0f);
            continue;
          }
          for (int64_t p = 0; p < stride; ++p)
            for (int64_t i = 0; i < phase_; ++i) {
              const int64_t at = i * stride + p - s_.pad[2];
              to[p * phase_ + i] = at >= 0 && at < in_[2] ? from[at] : 0;
            }
        }
  }
  // Where the window of an output row begins in the padded image.
  int64_t Begin(int64_t oz, int64_t oy) const { return (oz * s_.stride[0] * rows_ + oy * s_.stride[1]) * line_; }

  void Taps(const float* image, const float* w, float bias, float* to) const {
    for (int64_t z = 0; z < to_[0]; ++z)
      for (int64_t y = 0; y < to_[1]; ++y, to += to_[2])
        isa_.taps(image + Begin(z, y), offsets_.data(), w, taps_, bias, to, to_[2]);
  }
  // Patches of positions [first, first + count): a row for each channel and tap.
  void Lay(const float* image, int64_t first, int64_t count, float* to) const {
    for (int64_t c = 0; c < per_; ++c, image += slices_ * rows_ * line_)
      for (int64_t t = 0; t < taps_; ++t)
        for (int64_t p = first; p < first + count;) {
          const int64_t oz = p / (to_[1] * to_[2]), oy = p / to_[2] % to_[1], ox = p % to_[2];
          const int64_t run = std::min(to_[2] - ox, first + count - p);
          std::copy_n(image + Begin(oz, oy) + offsets_[t] + ox, run, to);
          p += run, to += run;
        }
  }

  const ConvShape s_;
  const int64_t *in_, *kernel_, *to_;
  const int64_t per_, taps_, plane_, positions_, group_out_;
  int64_t phase_ = 0, line_ = 0, rows_ = 0, slices_ = 0;
  std::vector<int64_t> offsets_;
  const Isa& isa_ = BestIsa();
};

}  // namespace

bool FastConv(const Tensor& x, const Tensor& w, const Tensor* bias, const Tensor& out, const ConvShape& shape) {
  for (const Tensor* t : {&x, &w, bias, &out})
    if (t != nullptr && (t->dtype != DType::kF32 || !t->is_contiguous())) return false;
  if (out.numel() == 0 || w.numel() == 0 || x.numel() == 0) return false;
  Conv conv(x, w, out, shape);
  if (!conv.Plan() && !conv.pointwise()) return false;
  conv.Run(x.as<float>(), w.as<float>(), bias != nullptr ? bias->as<float>() : nullptr, out.as<float>(), out.sizes[0]);
  return true;
}

}  // namespace slipway::kernels
