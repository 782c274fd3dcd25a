// Pools of bytes over images with channels last: a block of neighbouring channels at a time, which compilers turn into
// vectors.
#include "kernels/conv/pool_bytes.h"

#include <algorithm>
#include <cstring>

#include "kernels/conv/conv_nhwc.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kBlock = 64;  // channels

// to[i] = max(to[i], from[i])
void Join(uint8_t* __restrict to, const uint8_t* __restrict from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = std::max(to[i], from[i]);
}

}  // namespace

bool MaxPoolBytes(const Tensor& x, const Tensor& out, const Window& w, const Workers* workers) {
  if (x.dtype != DType::kU8 || out.dtype != DType::kU8 || x.numel() == 0 || out.numel() == 0 || !ChannelsLast(x) ||
      !ChannelsLast(out) || w.kernel[0] != 1 || w.pad[0] != 0 || w.stride[0] != 1)
    return false;
  const int64_t channels = x.sizes[1], out_y = out.sizes[3], out_x = out.sizes[4];
  ParallelFor(workers, out.sizes[0] * out_y, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t n = i / out_y, y = i % out_y;
      const ValidKernelRange rows(y * w.stride[1] - w.pad[1], x.sizes[3], w.kernel[1], w.dilation[1]);
      for (int64_t column = 0; column < out_x; ++column) {
        const ValidKernelRange columns(column * w.stride[2] - w.pad[2], x.sizes[4], w.kernel[2], w.dilation[2]);
        const uint8_t* const image = x.as<uint8_t>() + n * x.strides[0] + (y * w.stride[1] - w.pad[1]) * x.strides[3] +
                                     (column * w.stride[2] - w.pad[2]) * x.strides[4];
        uint8_t* const to = out.as<uint8_t>() + n * out.strides[0] + y * out.strides[3] + column * out.strides[4];
        for (int64_t c = 0; c < channels; c += kBlock) {
          const int64_t count = std::min(kBlock, channels - c);
          uint8_t most[kBlock] = {};
          for (int64_t u = rows.first; u < rows.first + rows.count(); ++u)
            for (int64_t v = columns.first; v < columns.first + columns.count(); ++v) {
              const uint8_t* const from =
                  image + u * w.dilation[1] * x.strides[3] + v * w.dilation[2] * x.strides[4] + c;
              if (count == kBlock)
                Join(most, from, kBlock);
              else
                Join(most, from, count);
            }
          std::memcpy(to + c, most, static_cast<size_t>(count));
        }
      }
    }
  });
  return true;
}

}  // namespace slipway::kernels
