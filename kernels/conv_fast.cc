// See conv_fast.h.
#include "kernels/conv_fast.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/gemm_fast.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kPatches = 64 * 1024;  // floats of a block of patches

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
    const int64_t depth = per_ * taps_, panel = isa_.panel;
    const int64_t chunk =
        std::clamp<int64_t>(kPatches / depth / panel, 2, (positions_ + panel - 1) / panel + 1) * panel;
    Scratch image(pointwise() ? 0 : per_ * slices_ * rows_ * line_ + panel);
    Scratch patches(pointwise() || depthwise ? 0 : depth * chunk + panel);
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
          FastGemm(Product(left, depth, source, plane_, positions_, to));
          continue;
        }
        for (int64_t first = 0; first < positions_; first += chunk) {
          const int64_t count = std::min(chunk, positions_ - first);
          for (int64_t p = 0; p < count; p += panel)
            LayPanel(image.data(), first + p, std::min(panel, count - p), panel, patches.data() + p * depth);
          GemmCall g = Product(left, depth, patches.data(), 0, count, to + first);
          g.panels = true;
          FastGemm(g);
        }
      }
  }

 private:
  // to[group_out, count] += left · right.
  GemmCall Product(const float* left, int64_t depth, const float* right, int64_t row, int64_t count, float* to) const {
    GemmCall g;
    g.m = group_out_, g.n = count, g.k = depth;
    g.a = {left, DType::kF32, depth, 1};
    g.b = {right, DType::kF32, row, 1};
    g.c = to, g.c_row = positions_;
    g.accumulate = true;
    return g;
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
  // Patches of `count` positions from `first` on as a panel: for each channel and tap a row of `panel` numbers. Each
  // run along an output row is copied in full width; what is too much the next one covers, or nobody reads.
  void LayPanel(const float* image, int64_t first, int64_t count, int64_t panel, float* to) const {
    struct Run {
      int64_t from, at;
    } runs[64];
    int n = 0;
    for (int64_t p = 0; p < count;) {
      const int64_t q = first + p, oz = q / (to_[1] * to_[2]), oy = q / to_[2] % to_[1], ox = q % to_[2];
      runs[n++] = {Begin(oz, oy) + ox, p};
      p += std::min(to_[2] - ox, count - p);
    }
    for (int64_t c = 0; c < per_; ++c, image += slices_ * rows_ * line_)
      for (int64_t t = 0; t < taps_; ++t, to += panel)
        for (int r = 0; r < n; ++r) {
          const float* from = image + offsets_[t] + runs[r].from;
          float* at = to + runs[r].at;
          if (panel == 16)
            std::memcpy(at, from, 16 * sizeof(float));
          else if (panel == 32)
            std::memcpy(at, from, 32 * sizeof(float));
          else
            std::memcpy(at, from, static_cast<size_t>(panel) * sizeof(float));
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
