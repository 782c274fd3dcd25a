// Pointwise (1 × 1) convolutions: GEMM over pixels, out[pixels, oc] = x[pixels, c] · W[c, oc], the image in place where
// its stride causes no cache conflicts. Threads share blocks of pixels and, where there are few of these, panels of
// columns.
#include <algorithm>

#include "kernels/conv/nhwc/algorithms.h"

namespace slipway::kernels {
namespace {

// Over this many rows a GEMM takes several times as long as its weights take to arrive from DRAM.
constexpr int64_t kRowsPerWeightPass = 200;

}  // namespace

void RunPointwise(const ConvRun& run, Scratch& scratch) {
  const auto& [c, o] = run;
  const int64_t channels = c.channels, outs = c.filter.output_channels, pixels = c.out_y * c.out_x;
  const bool one_image =
      c.batch == 1 || (o.image_stride == pixels * o.pixel_stride && c.out.strides[0] == pixels * c.out.strides[4]);
  const int64_t rows = one_image ? c.batch * pixels : pixels, images = one_image ? 1 : c.batch;
  const bool skinny = UseSkinnyGemm(c, rows);
  // Blocks of pixels that stay in the second-level cache, and parts of the columns where there are few blocks.
  const int64_t tile = c.ukernels.mr;
  const int64_t panels = Ceil(outs, kPanel);
  // Weights that outweigh the image are read once per block: as few blocks as possible, whose outputs are streamed.
  const bool weight_bound = channels * outs > 2 * images * rows * (channels + outs);
  const int64_t rows_per_pass = weight_bound                                ? rows
                                : channels * outs >= kWeightsExceedL2Floats ? kRowsPerWeightPass
                                                                            : 0;
  const int64_t resident =
      std::max(kL2BlockFloats / (channels + outs), std::min(rows_per_pass, kL2ImageFloats / channels));
  const int64_t block = skinny || rows <= resident ? rows : std::max(2 * tile, resident / tile * tile);
  const WorkPartition partition = PartitionWork(o.workers, images, rows, panels, Ceil(rows, block), tile, weight_bound,
                                                c.ukernels.row_block_multiple);
  const bool conflicts = PaddedStride(o.pixel_stride) != o.pixel_stride && rows > 2 * tile && outs >= 4 * kColumns;
  ParallelFor(scratch, o.workers, partition.tasks(), 1, [&](int64_t begin, int64_t end, Scratch& own) {
    float* const copy = conflicts ? own.Take<float>(partition.MaxRowsPerTask() * PaddedStride(channels)) : nullptr;
    int64_t copied = -1;  // the block in `copy`
    GemmParams g;
    g.b = {o.filters, DType::kF32, channels, 1}, g.packed = true;
    float* workspace = nullptr;
    if (skinny) {
      g.m = rows, g.n = outs, g.k = channels;
      g.a = {o.image, DType::kF32, o.pixel_stride, 1}, g.c_stride = c.out.strides[4];
      workspace = own.Take<float>(BestIsa().gemm.workspace(g));
    }
    if (own.querying()) return;
    const int64_t segment = 0;
    for (int64_t i = begin; i < end; ++i) {
      const WorkPartition::Task task = partition[i];
      const int64_t j0 = task.panel * kPanel, j1 = std::min(outs, task.end_panel * kPanel);
      const int64_t at = task.image * c.out.strides[0] + task.row * c.out.strides[4] + j0;
      NhwcIgemmParams b;
      b.m = task.end_row - task.row, b.n = j1 - j0, b.k = channels;
      b.x = o.image + task.image * o.image_stride + task.row * o.pixel_stride, b.x_stride = o.pixel_stride;
      if (conflicts) {
        if (copied != task.block) CopyPixels(b.x, o.pixel_stride, b.m, channels, copy, PaddedStride(channels));
        copied = task.block;
        b.x = copy, b.x_stride = PaddedStride(channels);
      }
      b.segments = &segment, b.segment_count = 1, b.interleaved = o.interleaved;
      b.w = o.filters + j0 * channels, b.w_panel_stride = channels * kPanel;
      b.out = c.out.as<float>() + at, b.out_stride = c.out.strides[4];
      b.epilogue = o.epilogue.At(j0, at);
      if (skinny) {
        g.a.data = b.x, g.b.data = b.w, g.n = b.n, g.c = b.out;
        BestIsa().gemm.run(g, workspace);
        // The epilogue alone.
        b.segment_count = 0, b.accumulate = true;
      }
      c.ukernels.igemm(b);
    }
  });
}

}  // namespace slipway::kernels
