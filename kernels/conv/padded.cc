// The padded plane has as much border as windows of the result reach into, computed without overflow from sizes that
// may be anything.
#include "kernels/conv/padded.h"

#include <algorithm>

#include "kernels/isa/isa.h"

namespace slipway::kernels {

Padded::Padded(const int64_t* in, const int64_t* to, const Window& window) : w_(window), in_{in[0], in[1], in[2]} {
  int64_t padded[3];
  __int128 plane = 1;
  for (int d = 0; d < 3; ++d) {
    if (w_.pad[d] < 0 || to[d] <= 0 || in[d] <= 0 || w_.kernel[d] <= 0) return;
    const __int128 size =
        static_cast<__int128>(to[d] - 1) * w_.stride[d] + static_cast<__int128>(w_.kernel[d] - 1) * w_.dilation[d] + 1;
    if (size > static_cast<__int128>(in[d]) + 2 * w_.pad[d] + w_.stride[d]) return;
    padded[d] = static_cast<int64_t>(size);
    plane *= in[d];
  }
  slices_ = padded[0], rows_ = padded[1], columns_ = padded[2];
  phase_ = (columns_ + w_.stride[2] - 1) / w_.stride[2];
  line_ = phase_ * w_.stride[2];
  const __int128 most = 4 * plane + 65536;
  if (static_cast<__int128>(slices_) * rows_ > most || static_cast<__int128>(slices_) * rows_ * line_ > most) return;
  size_ = slices_ * rows_ * line_;
  ok_ = true;
}

int64_t Padded::Inside(int d) const {
  const int64_t size = d == 0 ? slices_ : d == 1 ? rows_ : columns_;
  return std::clamp<int64_t>(size - w_.pad[d], 0, in_[d]);
}

void Padded::Border(float value, int64_t planes, float* to) const {
  const int64_t z1 = w_.pad[0] + Inside(0), y1 = w_.pad[1] + Inside(1), x1 = w_.pad[2] + Inside(2);
  const int64_t s = w_.stride[2];
  for (int64_t c = 0; c < planes; ++c)
    for (int64_t z = 0; z < slices_; ++z)
      for (int64_t y = 0; y < rows_; ++y, to += line_) {
        if (z < w_.pad[0] || z >= z1 || y < w_.pad[1] || y >= y1) {
          std::fill_n(to, line_, value);
          continue;
        }
        for (int64_t x = 0; x < std::min(w_.pad[2], line_); ++x) to[x % s * phase_ + x / s] = value;
        for (int64_t x = x1; x < line_; ++x) to[x % s * phase_ + x / s] = value;
      }
}

void Padded::Pad(const float* x, int64_t planes, float* to) const {
  const int64_t z1 = Inside(0), y1 = Inside(1), x1 = Inside(2);
  for (int64_t c = 0; c < planes; ++c, x += in_[0] * in_[1] * in_[2], to += size_)
    for (int64_t z = 0; z < z1; ++z)
      ukernels_.pad_and_deinterleave({x + z * in_[1] * in_[2], in_[2], y1, x1, w_.pad[2], w_.stride[2], phase_,
                                      to + ((z + w_.pad[0]) * rows_ + w_.pad[1]) * line_, line_});
}

void Padded::Offsets(int64_t planes, int64_t* to) const {
  const int64_t* k = w_.kernel;
  for (int64_t c = 0; c < planes; ++c)
    for (int64_t t = 0; t < taps(); ++t) {
      const int64_t z = t / (k[1] * k[2]) * w_.dilation[0], y = t / k[2] % k[1] * w_.dilation[1],
                    x = t % k[2] * w_.dilation[2];
      *to++ = c * size_ + (z * rows_ + y) * line_ + x % w_.stride[2] * phase_ + x / w_.stride[2];
    }
}

}  // namespace slipway::kernels
