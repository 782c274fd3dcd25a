// Rows of images of bf16 or f16 as f32 and back, as kernels need them that compute some rows at a time.
#ifndef SLIPWAY_KERNELS_CONV_HALF_ROWS_H_
#define SLIPWAY_KERNELS_CONV_HALF_ROWS_H_

#include <cstdint>

#include "kernels/tensor.h"

namespace slipway::kernels {

// The element at channel 0 of a pixel of [n, c, 1, h, w], of a dtype of two bytes.
inline uint16_t* HalfAt(const Tensor& t, int64_t n, int64_t y, int64_t x) {
  return t.as<uint16_t>() + n * t.strides[0] + y * t.strides[3] + x * t.strides[4];
}

// Whether LoadPixels needs room for c · count floats: the channels of a pixel are not neighbours.
bool LoadsByPlanes(const Tensor& t);
// Pixels x, x + step, … of row y, `count` of them, with channels last, pixel_stride floats apart.
void LoadPixels(const Tensor& t, int64_t n, int64_t y, int64_t x, int64_t step, int64_t count, float* to,
                int64_t pixel_stride, float* room);
// Rows [y, y + rows) of an image with channels last, dense, and back, rounded.
void LoadRows(const Tensor& t, int64_t n, int64_t y, int64_t rows, float* to);
void StoreRows(const float* from, const Tensor& t, int64_t n, int64_t y, int64_t rows);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONV_HALF_ROWS_H_
