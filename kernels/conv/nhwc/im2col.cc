// Im2col: GEMM over copied patches, [pixels][kernel element][channels], for short rows and many output channels.
// Threads share the columns and copy all patches, each for itself.
#include <algorithm>
#include <utility>

#include "kernels/conv/nhwc/algorithms.h"

namespace slipway::kernels {
namespace {

// The patch that output (y, x) of image n reads, zeros in the padding.
void CopyPatch(const ConvRun& run, int64_t n, int64_t y, int64_t x, float* to) {
  const auto& [c, o] = run;
  const FilterShape& f = c.filter;
  const int64_t first = x * c.shape.stride[2] - c.shape.pad[2], dilation = c.shape.dilation[2];
  const KernelRows rows(c, y);
  const ValidKernelRange columns(first, c.in_x, f.width, dilation);
  if (rows.rows * columns.count() < f.kernel_size()) std::fill_n(to, f.depth(), 0.0f);
  if (columns.count() == 0) return;
  for (int64_t r = 0; r < rows.rows; ++r)
    CopyPixels(o.image + n * o.image_stride +
                   ((rows.from + r * c.shape.dilation[1]) * c.in_x + first + columns.first * dilation) * o.pixel_stride,
               dilation * o.pixel_stride, columns.count(), c.channels,
               to + ((rows.skip + r) * f.width + columns.first) * c.channels, c.channels);
}

}  // namespace

void RunIm2col(const ConvRun& run, Scratch& scratch) {
  const auto& [c, o] = run;
  const FilterShape& f = c.filter;
  constexpr int64_t kPatchFloats = 128 << 10;  // of the patches of a task
  const int64_t pixels = c.out_y * c.out_x, units = Ceil(f.output_channels, kColumns), depth = f.depth(),
                patch_stride = PaddedStride(depth);
  const int64_t max_rows = std::max<int64_t>(2 * c.ukernels.mr, kPatchFloats / depth);
  const WorkPartition partition = PartitionWork(o.workers, c.batch, pixels, units, Ceil(pixels, max_rows),
                                                c.ukernels.mr, true, c.ukernels.row_block_multiple);
  ParallelFor(scratch, o.workers, partition.tasks(), 1, [&](int64_t begin, int64_t end, Scratch& own) {
    float* const patches = own.Take<float>(partition.MaxRowsPerTask() * patch_stride);
    if (own.querying()) return;
    const int64_t segment = 0;
    int64_t held = -1;  // the block in `patches`
    for (int64_t i = begin; i < end; ++i) {
      const WorkPartition::Task task = partition[i];
      const int64_t j = task.panel * kColumns, at = task.image * c.out.strides[0] + task.row * c.out.strides[4] + j;
      if (std::exchange(held, task.block) != task.block)
        for (int64_t p = task.row; p < task.end_row; ++p)
          CopyPatch(run, task.image, p / c.out_x, p % c.out_x, patches + (p - task.row) * patch_stride);
      NhwcIgemmParams b;
      b.m = task.end_row - task.row, b.n = std::min(f.output_channels, task.end_panel * kColumns) - j, b.k = depth;
      b.x = patches, b.x_stride = patch_stride, b.segments = &segment, b.segment_count = 1;
      b.interleaved = o.interleaved;
      b.w = o.filters + j * depth, b.w_panel_stride = depth * kPanel;
      b.out = c.out.as<float>() + at, b.out_stride = c.out.strides[4];
      b.epilogue = o.epilogue.At(j, at);
      c.ukernels.igemm(b);
    }
  });
}

}  // namespace slipway::kernels
