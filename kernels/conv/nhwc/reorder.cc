// Layout changes around the algorithms: images between NCHW and NHWC, strided pixels gathered, padded copies, filters
// packed.
#include <algorithm>
#include <cstring>

#include "kernels/conv/conv_nhwc.h"
#include "kernels/conv/nhwc/algorithms.h"

namespace slipway::kernels {

void CopyPixels(const float* from, int64_t from_stride, int64_t pixels, int64_t channels, float* to,
                int64_t to_stride) {
  if (from_stride == channels && to_stride == channels) channels *= pixels, pixels = 1;
  for (int64_t i = 0; i < pixels; ++i)
    std::memcpy(to + i * to_stride, from + i * from_stride, static_cast<size_t>(channels) * sizeof(float));
}

const float* PackedFilters(const ConvProblem& c, Scratch& scratch) {
  if (c.w.packed == Packing::kConvFilters) return c.w.as<float>();
  float* const to = scratch.Take<float>(c.filter.elements());
  if (!scratch.querying()) PackFilters(c.w.as<float>(), c.filter, 0, c.filter.panels(), to);
  return to;
}

float* ReorderToNhwc(const ConvProblem& c, const Workers* workers, Scratch& scratch) {
  const Tensor& x = c.x;
  if (ChannelsLast(x)) return nullptr;
  float* const to = scratch.Take<float>(x.numel());
  if (scratch.querying()) return to;
  const auto transpose = BestIsa().elementwise.transpose;
  if (c.input_is_dense_planes()) {
    const int64_t pixels = c.in_y * c.in_x;
    // All channels at once, or, for small images, parts of them.
    const int64_t parts = c.batch * pixels < 256 ? Ceil(c.channels, 128) : 1,
                  part = RoundUp(Ceil(c.channels, parts), kPanel);
    ParallelFor(workers, parts * c.batch * pixels, std::max<int64_t>(48, 32768 / part / 16 * 16),
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin, count; i < end; i += count) {
                    const int64_t c0 = i / (c.batch * pixels) * part, at = i % (c.batch * pixels), n = at / pixels,
                                  p = at % pixels;
                    count = std::min(end - i, pixels - p);
                    if (c0 >= c.channels) continue;
                    transpose(
                        reinterpret_cast<const uint32_t*>(x.as<float>() + n * x.strides[0] + c0 * x.strides[1] + p),
                        x.strides[1], reinterpret_cast<uint32_t*>(to + at * c.channels + c0), c.channels, count,
                        std::min(part, c.channels - c0));
                  }
                });
    return to;
  }
  for (int64_t n = 0; n < c.batch; ++n)
    for (int64_t y = 0; y < c.in_y; ++y) {
      const float* from = x.as<float>() + n * x.strides[0] + y * x.strides[3];
      float* at = to + (n * c.in_y + y) * c.in_x * c.channels;
      if (x.strides[4] == 1)
        transpose(reinterpret_cast<const uint32_t*>(from), x.strides[1], reinterpret_cast<uint32_t*>(at), c.channels,
                  c.in_x, c.channels);
      else
        for (int64_t i = 0; i < c.in_x; ++i)
          for (int64_t ch = 0; ch < c.channels; ++ch) *at++ = from[i * x.strides[4] + ch * x.strides[1]];
    }
  return to;
}

float* ReorderToNchw(const ConvProblem& c, Scratch& scratch) {
  const Tensor& x = c.x;
  if (x.is_contiguous()) return nullptr;
  float* const to = scratch.Take<float>(x.numel());
  if (scratch.querying()) return to;
  float* at = to;
  for (int64_t n = 0; n < c.batch; ++n)
    for (int64_t ch = 0; ch < c.channels; ++ch)
      for (int64_t y = 0; y < c.in_y; ++y)
        for (int64_t i = 0; i < c.in_x; ++i)
          *at++ = x.as<float>()[n * x.strides[0] + ch * x.strides[1] + y * x.strides[3] + i * x.strides[4]];
  return to;
}

float* GatherStrided(const ConvProblem& c, const ConvOperands& o, Scratch& scratch) {
  float* const to = scratch.Take<float>(c.batch * c.out_y * c.out_x * c.channels);
  if (scratch.querying()) return to;
  ParallelFor(
      o.workers, c.batch * c.out_y, std::max<int64_t>(1, 4096 / (c.out_x * c.channels)),
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          CopyPixels(o.image + i / c.out_y * o.image_stride + i % c.out_y * c.shape.stride[1] * c.in_x * o.pixel_stride,
                     c.shape.stride[2] * o.pixel_stride, c.out_x, c.channels, to + i * c.out_x * c.channels,
                     c.channels);
      });
  return to;
}

void PadRows(const ConvRun& run, int64_t n, int64_t y0, int64_t rows, int64_t x0, int64_t width, int64_t c0, int64_t c1,
             int64_t pixel_stride, float* to) {
  const auto& [c, o] = run;
  const int64_t left = std::clamp<int64_t>(c.shape.pad[2] - x0, 0, width),
                first = std::max<int64_t>(0, x0 - c.shape.pad[2]);
  const int64_t count = std::max<int64_t>(0, std::min(width - left, c.in_x - first));
  for (int64_t r = 0; r < rows; ++r, to += width * pixel_stride) {
    const int64_t y = y0 * c.shape.stride[1] - c.shape.pad[1] + r;
    if (y < 0 || y >= c.in_y) continue;
    const int64_t pixel = y * c.in_x + first;
    const float* const image = o.image + n * o.image_stride;
    std::fill_n(to, left * pixel_stride, 0.0f);
    if (c.reorders_in_row_blocks) {
      const int64_t whole = RoundUp(count, BestIsa().lanes), plane_stride = c.x.strides[1];
      BestIsa().elementwise.transpose(reinterpret_cast<const uint32_t*>(image + c0 * plane_stride + pixel),
                                      plane_stride, reinterpret_cast<uint32_t*>(to + left * pixel_stride), pixel_stride,
                                      pixel + whole <= c.in_y * c.in_x ? whole : count, c1 - c0);
    } else {
      CopyPixels(image + pixel * o.pixel_stride + c0, o.pixel_stride, count, c1 - c0, to + left * pixel_stride,
                 pixel_stride);
    }
    std::fill_n(to + (left + count) * pixel_stride, (width - left - count) * pixel_stride, 0.0f);
  }
}

void PadPlanes(const ConvRun& run, int64_t n, int64_t y0, int64_t rows, int64_t width, float* to) {
  const auto& [c, o] = run;
  const int64_t left = std::min(c.shape.pad[2], width), count = std::clamp<int64_t>(width - left, 0, c.in_x);
  for (int64_t ch = 0; ch < c.channels; ++ch)
    for (int64_t r = 0; r < rows; ++r, to += width) {
      const int64_t y = y0 * c.shape.stride[1] - c.shape.pad[1] + r;
      const bool inside = y >= 0 && y < c.in_y;
      std::fill_n(to, inside ? left : width, 0.0f);
      if (!inside) continue;
      std::memcpy(to + left, o.image + n * o.image_stride + (ch * c.in_y + y) * c.in_x,
                  static_cast<size_t>(count) * sizeof(float));
      std::fill_n(to + left + count, width - left - count, 0.0f);
    }
}

}  // namespace slipway::kernels
