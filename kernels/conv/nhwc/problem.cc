#include "kernels/conv/nhwc/problem.h"

#include <algorithm>

#include "kernels/conv/conv_nhwc.h"
#include "kernels/conv/nhwc/algorithms.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kMaxPadding = 1 << 20;

}  // namespace

ConvProblem::ConvProblem(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape)
    : x(x), w(w), out(out), shape(shape), filter{shape.groups, w.sizes[1], w.sizes[0], w.sizes[3], w.sizes[4]},
      batch(out.sizes[0]), channels(x.sizes[1]), in_y(x.sizes[3]), in_x(x.sizes[4]), out_y(out.sizes[3]),
      out_x(out.sizes[4]), pixel_stride(filter.reads_nchw()    ? 1
                                        : input_is_nhwc_view() ? x.strides[4]
                                                               : channels),
      reorders_in_row_blocks(ReordersInRowBlocks(*this)) {}

bool ConvProblem::input_is_nhwc_view() const { return !filter.reads_nchw() && ChannelsLast(x); }

bool ConvProblem::supported() const {
  if (x.numel() == 0 || w.numel() == 0 || out.numel() == 0) return false;
  if (x.dtype != DType::kF32 || w.dtype != DType::kF32 || out.dtype != DType::kF32) return false;
  if (x.sizes[2] != 1 || w.sizes[2] != 1 || out.sizes[2] != 1 || shape.pad[0] != 0) return false;
  if (w.packed != Packing::kConvFilters && (w.is_packed() || !w.is_contiguous())) return false;
  for (int d = 1; d < 3; ++d) {
    const __int128 extent = (static_cast<__int128>(out.sizes[2 + d]) - 1) * shape.stride[d] +
                            (static_cast<__int128>(w.sizes[2 + d]) - 1) * shape.dilation[d] + 1;
    // The padded image is about as large as the image or the output.
    if (shape.pad[d] < 0 || shape.pad[d] > kMaxPadding ||
        extent > 2 * (static_cast<__int128>(x.sizes[2 + d]) + 2 * shape.pad[d]) ||
        shape.pad[d] > 4 * w.sizes[2 + d] * shape.dilation[d])
      return false;
  }
  return true;
}

double ConvProblem::InsideFraction() const {
  const auto fraction = [this](int d, int64_t in, int64_t outputs, int64_t kernel) {
    int64_t count = 0;
    for (int64_t i = 0; i < outputs; ++i)
      count += ValidKernelRange(i * shape.stride[d] - shape.pad[d], in, kernel, shape.dilation[d]).count();
    return static_cast<double>(count) / static_cast<double>(outputs * kernel);
  };
  return fraction(1, in_y, out_y, filter.height) * fraction(2, in_x, out_x, filter.width);
}

std::pair<int64_t, int64_t> ConvProblem::InnerPixels() const {
  const int64_t extent = (filter.width - 1) * shape.dilation[2] + 1, room = in_x + shape.pad[2] - extent;
  return {std::min(out_x, Ceil(shape.pad[2], shape.stride[2])),
          room < 0 ? 0 : std::min(out_x, room / shape.stride[2] + 1)};
}

int64_t ConvProblem::MaxRowBlock(int64_t row_floats) const {
  const int64_t image = in_x * channels * shape.stride[1];
  const bool weight_bound =
      filter.depth() * filter.output_channels > in_y * in_x * channels + out_y * out_x * filter.output_channels;
  return std::clamp<int64_t>(
      weight_bound ? kL2ImageFloats / std::max<int64_t>(1, image) : kL2BlockFloats / std::max<int64_t>(1, row_floats),
      1, out_y);
}

}  // namespace slipway::kernels
