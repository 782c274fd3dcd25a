// Direct convolutions of few channels, which are read from NCHW planes: the inner pixels of each row with all kernel
// elements, border columns vertically with those that are inside the image, border rows from a padded copy.
#include <algorithm>

#include "kernels/conv/conv_nhwc.h"
#include "kernels/conv/nhwc/algorithms.h"

namespace slipway::kernels {

void RunDirectNchw(const ConvRun& run, const Tensor& out, const Epilogue& epilogue, Scratch& scratch) {
  const ConvProblem& c = run.problem;
  const ConvOperands& o = run.operands;
  const FilterShape& f = c.filter;
  const ConvShape& s = c.shape;
  const bool to_planes = !ChannelsLast(out);
  const auto [first, last] = c.InnerPixels();
  const int64_t plane = c.in_y * c.in_x, width = c.InputExtent(2, c.out_x);
  const int64_t row_block = std::clamp<int64_t>(kL2BlockFloats / c.RowFloats(c.in_x), 1, c.out_y);
  const WorkPartition partition =
      PartitionWork(o.workers, c.batch, c.out_y, Ceil(f.output_channels, kColumns), Ceil(c.out_y, row_block), 1, false);
  const int64_t kernel_rows = f.group_channels * f.height;
  const SegmentOffsets segments = SegmentsOf(c, 1, c.in_x, plane, scratch),
                       padded_segments = SegmentsOf(c, 1, width, f.height * width, scratch);
  // Column 0 of the first row that output row y reads, in the first plane.
  const auto column_0 = [&c, &o](int64_t n, int64_t y) {
    return o.image + n * o.image_stride + (y * c.shape.stride[1] - c.shape.pad[1]) * c.in_x;
  };
  const int64_t inner_first = first, inner_last = last;
  ParallelFor(scratch, o.workers, partition.tasks(), 1, [&](int64_t begin, int64_t end, Scratch& own) {
    float* const padded = own.Take<float>(kernel_rows * width);
    float* const outputs =
        to_planes ? own.Take<float>(partition.MaxRowsPerTask() * c.out_x * f.output_channels) : nullptr;
    if (own.querying()) return;
    for (int64_t i = begin; i < end; ++i) {
      const WorkPartition::Task task = partition[i];
      const int64_t n = task.image, j = task.panel * kColumns;
      NhwcIgemmParams b;
      b.n = std::min(f.output_channels, task.end_panel * kColumns) - j;
      const int64_t pixel = to_planes ? b.n : out.strides[4], line = to_planes ? c.out_x * pixel : out.strides[3];
      float* const to = to_planes ? outputs - task.row * line : out.as<float>() + n * out.strides[0] + j;
      b.w_panel_stride = f.depth() * kPanel;
      const float* const w = o.filters + j / kPanel * b.w_panel_stride;
      // Rows [y0, y1) with all kernel rows inside the image.
      const int64_t y0 = std::clamp(Ceil(s.pad[1], s.stride[1]), task.row, task.end_row);
      const int64_t y1 = std::clamp((c.in_y + s.pad[1] - f.height) / s.stride[1] + 1, y0, task.end_row);
      const auto igemm = [&](int64_t m, const float* x, int64_t x_stride, int64_t y, int64_t at_x, int64_t out_stride) {
        b.m = m, b.x = x, b.x_stride = x_stride, b.out = to + y * line + at_x * pixel, b.out_stride = out_stride;
        b.epilogue = o.epilogue.At(j, to_planes ? 0 : b.out - out.as<float>());
        c.ukernels.igemm(b);
      };
      b.w = w, b.k = f.depth() / segments.count, b.w_segment_stride = b.k * kPanel, b.segment_count = segments.count;
      for (int64_t y = task.row; y < task.end_row; ++y) {
        const bool inner = y >= y0 && y < y1;
        if (!inner) PadPlanes(run, n, y, f.height, width, padded);
        b.segments = inner ? segments.at : padded_segments.at;
        if (!inner)
          igemm(c.out_x, padded, s.stride[2], y, 0, pixel);
        else
          igemm(inner_last - inner_first, column_0(n, y) + inner_first * s.stride[2] - s.pad[2], s.stride[2], y,
                inner_first, pixel);
      }
      b.segments = segments.rows, b.w_segment_stride = f.width * kPanel;
      for (int64_t x = inner_first > 0 ? 0 : inner_last; x < c.out_x && y0 < y1;
           x = x + 1 == inner_first ? inner_last : x + 1) {
        const int64_t column = x * s.stride[2] - s.pad[2];
        const auto [z0, z1] = ValidKernelRange(column, c.in_x, f.width, 1);
        b.w = w + z0 * kPanel, b.k = z1 - z0;
        b.segment_count = b.k > 0 ? kernel_rows : 0;
        igemm(y1 - y0, column_0(n, y0) + column + z0, s.stride[1] * c.in_x, y0, x, line);
      }
      if (!to_planes) continue;
      const int64_t pixels = (task.end_row - task.row) * c.out_x,
                    at = n * out.strides[0] + j * out.strides[1] + task.row * c.out_x;
      BestIsa().elementwise.transpose(reinterpret_cast<const uint32_t*>(outputs), pixel,
                                      reinterpret_cast<uint32_t*>(out.as<float>() + at), out.strides[1], b.n, pixels);
      if (epilogue.residual == nullptr) continue;
      const Epilogue rest = epilogue.AfterAffine();
      for (int64_t ch = 0; ch < b.n; ++ch) {
        float* const plane_out = out.as<float>() + at + ch * out.strides[1];
        BestIsa().elementwise.epilogue(plane_out, plane_out, pixels, rest.At(j + ch, at + ch * out.strides[1]));
      }
    }
  });
}

}  // namespace slipway::kernels
