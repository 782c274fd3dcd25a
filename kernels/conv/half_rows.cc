// As few calls of the conversion loops as possible: over neighbouring rows, pixels of a row, or channels.
#include "kernels/conv/half_rows.h"

#include <algorithm>

#include "kernels/convert.h"
#include "kernels/isa/isa.h"

namespace slipway::kernels {
namespace {

bool ChannelsAreNeighbours(const Tensor& t) { return t.strides[1] == 1 || t.sizes[1] == 1; }

}  // namespace

bool LoadsByPlanes(const Tensor& t) { return !ChannelsAreNeighbours(t); }

void LoadPixels(const Tensor& t, int64_t n, int64_t y, int64_t x, int64_t step, int64_t count, float* to,
                int64_t pixel_stride, float* room) {
  const ElementwiseMicrokernels& isa = BestIsa().elementwise;
  const int64_t channels = t.sizes[1];
  const uint16_t* from = HalfAt(t, n, y, x);
  if (!ChannelsAreNeighbours(t)) {
    for (int64_t c = 0; c < channels; ++c)
      LoadRow<float>(from + c * t.strides[1], t.dtype, t.strides[4] * step, count, DType::kF32, room + c * count);
    isa.transpose(reinterpret_cast<const uint32_t*>(room), count, reinterpret_cast<uint32_t*>(to), pixel_stride, count,
                  channels);
    return;
  }
  if (t.strides[4] * step == channels && pixel_stride == channels)
    return isa.convert_to_f32(from, t.dtype, to, count * channels);
  for (int64_t i = 0; i < count; ++i, from += t.strides[4] * step, to += pixel_stride)
    isa.convert_to_f32(from, t.dtype, to, channels);
}

void LoadRows(const Tensor& t, int64_t n, int64_t y, int64_t rows, float* to) {
  const int64_t row = t.sizes[4] * t.sizes[1];
  if (t.strides[4] == t.sizes[1] && (rows == 1 || t.strides[3] == row))
    return BestIsa().elementwise.convert_to_f32(HalfAt(t, n, y, 0), t.dtype, to, rows * row);
  for (int64_t i = 0; i < rows; ++i, to += row) LoadPixels(t, n, y + i, 0, 1, t.sizes[4], to, t.sizes[1], nullptr);
}

void StoreRows(const float* from, const Tensor& t, int64_t n, int64_t y, int64_t rows) {
  const ElementwiseMicrokernels& isa = BestIsa().elementwise;
  const int64_t channels = t.sizes[1], row = t.sizes[4] * channels;
  const bool dense = t.strides[4] == channels || t.sizes[4] == 1;
  if (dense && (rows == 1 || t.strides[3] == row))
    return isa.convert_from_f32(from, HalfAt(t, n, y, 0), t.dtype, rows * row);
  for (int64_t i = y; i < y + rows; ++i)
    for (int64_t x = 0; x < t.sizes[4]; ++x, from += channels)
      isa.convert_from_f32(from, HalfAt(t, n, i, x), t.dtype, channels);
}

}  // namespace slipway::kernels
