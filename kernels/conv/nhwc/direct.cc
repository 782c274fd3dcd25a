// Direct convolutions by indirect GEMM over segments of K: over the image in place, whose border columns are
// accumulated kernel column by kernel column, or over padded copies of row blocks that stay in the second-level cache.
#include <algorithm>
#include <utility>

#include "kernels/conv/nhwc/algorithms.h"

namespace slipway::kernels {
namespace {

constexpr int64_t kMinSegment = 8;  // shorter rows of kernel elements in planes are single elements each

// The weights that are read after those of `step` columns from j on, of unit u, where they come from DRAM.
PrefetchRange WeightsAfter(const ConvRun& run, int64_t u, int64_t j, int64_t step) {
  const ConvProblem& c = run.problem;
  const int64_t outs = c.filter.output_channels, unit = c.ColumnUnit();
  if (c.filter.groups == 1 && c.filter.elements() < kWeightsExceedL2Floats) return {};
  j += step;
  if (j >= std::min((u + 1) * unit, outs)) ++u, j = u * unit;
  if (j >= outs) return {};
  const int64_t columns = std::min({step, outs - j, (u + 1) * unit - j});
  return {run.WeightsOf(u, j), Ceil(columns, kPanel) * c.filter.depth() * kPanel};
}
// Row k's share of a range, of so many rows.
PrefetchRange RowShare(const PrefetchRange& all, int64_t k, int64_t rows) {
  return {all.at + k * all.count / rows / kPanel * kPanel, Ceil(all.count, rows * kPanel) * kPanel};
}

// Columns [j, j + columns) over the image in place; their weights begin at `w` and they read the channels from `from`
// on: the inner pixels of each row with all kernel elements inside the image, and the border columns vertically, kernel
// column by kernel column.
void IgemmInPlaceColumns(const ConvRun& run, int64_t n, int64_t y0, int64_t y1, int64_t j, int64_t columns,
                         const float* w, int64_t from, const PrefetchRange& next_weights, bool cold,
                         const SegmentOffsets& segments) {
  const ConvProblem& c = run.problem;
  const ConvOperands& o = run.operands;
  const FilterShape& f = c.filter;
  const ConvShape& s = c.shape;
  auto [first, last] = c.InnerPixels();
  if (last <= first) first = last = 0;
  const int64_t row = c.in_x * o.pixel_stride, element = f.group_channels * kPanel;  // of weights
  const int64_t row_segments = segments.count / f.height;                            // of a kernel row
  const float* const image = o.image + n * o.image_stride + from;
  NhwcIgemmParams b;
  b.n = columns, b.w_panel_stride = f.depth() * kPanel, b.interleaved = o.interleaved;
  const auto accumulate = [&](int64_t at, const Epilogue& epilogue) {
    b.out = c.out.as<float>() + at, b.epilogue = epilogue;
    f.shared() ? c.ukernels.grouped_igemm(b, f.group_channels) : c.ukernels.igemm(b);
  };
  b.m = last - first, b.k = f.depth() / segments.count;
  b.x_stride = s.stride[2] * o.pixel_stride, b.out_stride = c.out.strides[4];
  b.segments = segments.at, b.w_segment_stride = b.k * kPanel;
  for (int64_t k = 0; k < y1 - y0 && first < last; ++k) {
    const int64_t y = y0 + o.RowAt(k, y1 - y0), next = y0 + o.RowAt(k + 1, y1 - y0);
    const KernelRows kernel(c, y);
    b.prefetch_offset = cold && k + 1 < y1 - y0 ? (next - y) * s.stride[1] * row : 0,
    b.prefetch_stride = row_segments == 1 ? kPanel : b.x_stride;
    b.next_weights = RowShare(next_weights, k, y1 - y0);
    b.segment_count = kernel.rows * row_segments;
    b.x = image + (kernel.rows > 0 ? kernel.from * row : 0) + (first * s.stride[2] - s.pad[2]) * o.pixel_stride;
    b.w = w + kernel.skip * f.width * element;
    const int64_t at = c.OutputOffset(n, y) + first * c.out.strides[4] + j;
    accumulate(at, o.epilogue.At(j, at));
  }
  b.prefetch_offset = 0, b.next_weights = {};
  b.k = f.group_channels, b.x_stride = s.stride[1] * row, b.out_stride = c.out.strides[3];
  b.segments = segments.rows, b.w_segment_stride = f.width * element;
  for (int64_t y = y0, next; y < y1; y = next) {
    // Rows with the same valid kernel rows.
    const KernelRows kernel(c, y);
    for (next = y + 1; next < y1 && KernelRows(c, next).Same(kernel);) ++next;
    b.m = next - y, b.segment_count = kernel.rows;
    for (int64_t x = first > 0 ? 0 : last; x < c.out_x; x = x + 1 == first ? last : x + 1) {
      const int64_t column = x * s.stride[2] - s.pad[2], dilation = s.dilation[2],
                    at = c.OutputOffset(n, y) + x * c.out.strides[4] + j;
      const auto [z0, z1] = ValidKernelRange(column, c.in_x, f.width, dilation);
      b.accumulate = false;
      if (z0 == z1 || kernel.rows == 0)
        b.segment_count = 0, accumulate(at, o.epilogue.At(j, at)), b.segment_count = kernel.rows;
      for (int64_t z = z0; z < z1 && kernel.rows > 0; ++z, b.accumulate = true) {
        b.x = image + kernel.from * row + (column + z * dilation) * o.pixel_stride;
        b.w = w + (kernel.skip * f.width + z) * element;
        accumulate(at, z + 1 == z1 ? o.epilogue.At(j, at) : Epilogue());
      }
    }
    b.accumulate = false;
  }
}

}  // namespace

SegmentOffsets SegmentsOf(const ConvProblem& c, int64_t pixel_stride, int64_t row_stride, int64_t plane_stride,
                          Scratch& scratch) {
  const FilterShape& f = c.filter;
  const bool nchw = f.reads_nchw();
  // A kernel row is one segment: pixels of dense channels, or enough neighbours in a plane.
  const bool joined = !nchw && f.groups == 1 && c.shape.dilation[2] == 1 && pixel_stride == c.channels;
  const bool plane_rows = nchw && c.shape.dilation[2] == 1 && f.width >= kMinSegment;
  const int64_t planes = nchw ? f.group_channels : 1;
  SegmentOffsets segments;
  segments.count = nchw     ? f.group_channels * (plane_rows ? f.height : f.kernel_size())
                   : joined ? f.height
                            : f.kernel_size();
  segments.at = scratch.Take<int64_t>(segments.count), segments.rows = scratch.Take<int64_t>(planes * f.height);
  if (scratch.querying()) return segments;
  int64_t *at = segments.at, *rows = segments.rows;
  for (int64_t ch = 0; ch < planes; ++ch)
    for (int64_t y = 0; y < f.height; ++y) {
      const int64_t first = ch * plane_stride + y * c.shape.dilation[1] * row_stride;
      *rows++ = first;
      if (joined || plane_rows)
        *at++ = first;
      else
        for (int64_t z = 0; z < f.width; ++z) *at++ = first + z * c.shape.dilation[2] * pixel_stride;
    }
  return segments;
}

const float* FirstElement(const ConvRun& run, const OutputPart& p) {
  const ConvProblem& c = run.problem;
  return run.operands.image + p.n * run.operands.image_stride +
         (p.y0 * c.shape.stride[1] * c.in_x + p.x0 * c.shape.stride[2]) * run.operands.pixel_stride;
}

void IgemmPart(const ConvRun& run, const OutputPart& p, const float* image, int64_t pixel_stride, int64_t row_stride,
               const SegmentOffsets& segments) {
  const ConvProblem& c = run.problem;
  const ConvOperands& o = run.operands;
  const FilterShape& f = c.filter;
  const int64_t unit = c.ColumnUnit();
  NhwcIgemmParams b;
  b.m = p.m, b.k = f.depth() / segments.count;
  b.x_stride = c.shape.stride[2] * pixel_stride;
  b.segments = segments.at, b.segment_count = segments.count;
  b.w_panel_stride = f.depth() * kPanel, b.w_segment_stride = b.k * kPanel;
  b.out_stride = c.out.strides[4], b.interleaved = o.interleaved;
  const int64_t row_segments = segments.count / f.height;  // of a kernel row, for NHWC
  for (int64_t u = p.unit; u < p.end_unit; ++u) {
    const int64_t end_j = std::min((u + 1) * unit, f.output_channels);
    // Columns whose weights stay cache-resident for all rows; all columns for a single row, whose loops prefetch.
    const int64_t step = p.y1 - p.y0 == 1 ? end_j - u * unit : kColumns;
    for (int64_t j = u * unit; j < end_j; j += step) {
      b.n = std::min(step, end_j - j);
      const float* const w = run.WeightsOf(u, j);
      b.w = w;
      const int64_t from = c.FirstChannel(u, j);
      const PrefetchRange next = WeightsAfter(run, u, j, step);
      for (int64_t k = 0; k < p.y1 - p.y0; ++k) {
        b.next_weights = RowShare(next, k, p.y1 - p.y0);
        const int64_t y = p.y0 + o.RowAt(k, p.y1 - p.y0), at = c.OutputOffset(p.n, y) + p.x0 * c.out.strides[4] + j;
        b.x = image + (y - p.y0) * c.shape.stride[1] * row_stride + from;
        if (!f.reads_nchw()) {  // kernel rows above and below the image are left out
          const KernelRows kernel(c, y);
          const int64_t skip = kernel.skip * row_segments;
          b.segment_count = kernel.rows * row_segments, b.segments = segments.at + skip;
          b.w = w + skip * b.w_segment_stride;
        }
        b.out = c.out.as<float>() + at;
        b.epilogue = o.epilogue.At(j, at);
        if (f.shared())
          c.ukernels.grouped_igemm(b, f.group_channels);
        else
          c.ukernels.igemm(b);
      }
    }
  }
}

void IgemmInPlace(const ConvRun& run, int64_t n, int64_t y0, int64_t y1, int64_t u, bool cold,
                  const SegmentOffsets& segments) {
  const ConvProblem& c = run.problem;
  const int64_t unit = c.ColumnUnit(), end_j = std::min((u + 1) * unit, c.filter.output_channels);
  for (int64_t j = u * unit; j < end_j; j += kColumns)
    IgemmInPlaceColumns(run, n, y0, y1, j, std::min(kColumns, end_j - j), run.WeightsOf(u, j), c.FirstChannel(u, j),
                        WeightsAfter(run, u, j, kColumns), cold && j == u * unit, segments);
}

// Row blocks of the image in place.
void RunDirect(const ConvRun& run, Scratch& scratch) {
  const ConvProblem& c = run.problem;
  const ConvOperands& o = run.operands;
  const int64_t units = Ceil(c.filter.output_channels, kColumns), row_block = c.MaxRowBlock(c.RowFloats(c.in_x));
  const WorkPartition partition = PartitionWork(o.workers, c.batch, c.out_y, units, Ceil(c.out_y, row_block), 1, false);
  const SegmentOffsets segments = SegmentsOf(c, o.pixel_stride, c.in_x * o.pixel_stride, 0, scratch);
  if (scratch.querying()) return;
  ParallelFor(o.workers, partition.tasks(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const WorkPartition::Task task = partition[i];
      for (int64_t u = task.panel; u < task.end_panel; ++u)
        IgemmInPlace(run, task.image, task.row, task.end_row, u, u == task.panel, segments);
    }
  });
}

// Row blocks, or, of rows that are too long, spans of their pixels, each with all channels or some panels of columns.
void RunRowBlocked(const ConvRun& run, Scratch& scratch) {
  const ConvProblem& c = run.problem;
  const ConvOperands& o = run.operands;
  const FilterShape& f = c.filter;
  const int64_t stride = c.shape.stride[2], mr = c.ukernels.mr;
  const bool planes = f.reads_nchw(),
             copied = c.reorders_in_row_blocks || c.padded() || c.HasCacheSetConflict(o.pixel_stride);
  const int64_t width = copied ? c.InputExtent(2, c.out_x) : c.in_x;
  const int64_t row_floats = c.RowFloats(width);
  const int64_t max_span = std::max(4 * mr, kL2BlockFloats / (stride * c.channels + f.output_channels) / mr * mr);
  const int64_t spans = planes || row_floats <= 2 * kL2BlockFloats ? 1 : Ceil(c.out_x, max_span),
                span = spans == 1 ? c.out_x : max_span;
  const int64_t row_block = c.MaxRowBlock(row_floats);
  const WorkPartition partition = PartitionWork(
      o.workers, c.batch * spans, c.out_y, Ceil(f.output_channels, c.ColumnUnit()), Ceil(c.out_y, row_block), 1, false);
  const int64_t pixel_stride = planes                              ? 1
                               : !copied                           ? o.pixel_stride
                               : c.HasCacheSetConflict(c.channels) ? c.channels + kPanel
                                                                   : c.channels;
  const int64_t rows = c.InputExtent(1, partition.MaxRowsPerTask());
  const int64_t held_width = copied && spans > 1 ? c.InputExtent(2, span) : width;  // pixels of a row held at once
  const int64_t row_stride = held_width * pixel_stride;
  const SegmentOffsets segments =
      SegmentsOf(c, pixel_stride, row_stride, planes ? (copied ? rows : c.in_y) * held_width : 0, scratch);
  ParallelFor(scratch, o.workers, partition.tasks(), 1, [&](int64_t begin, int64_t end, Scratch& own) {
    float* const copy = copied
                            ? own.Take<float>((rows * held_width + (c.reorders_in_row_blocks ? BestIsa().lanes : 0)) *
                                              (planes ? c.channels : pixel_stride))
                            : nullptr;
    if (own.querying()) return;
    int64_t held = -1;  // the block in `copy`
    for (int64_t i = begin; i < end; ++i) {
      const WorkPartition::Task task = partition[i];
      const int64_t x0 = task.image % spans * span;  // each span is an image of the partition
      const OutputPart p{task.image / spans,           task.row,   task.end_row,  x0,
                         std::min(span, c.out_x - x0), task.panel, task.end_panel};
      if (p.y0 >= p.y1 || p.m <= 0) continue;
      if (copied && std::exchange(held, task.block) != task.block) {
        if (planes)
          PadPlanes(run, p.n, p.y0, rows, width, copy);
        else
          PadRows(run, p.n, p.y0, rows, x0 * stride, held_width, 0, c.channels, pixel_stride, copy);
      }
      IgemmPart(run, p, copied ? copy : FirstElement(run, p), pixel_stride, row_stride, segments);
    }
  });
}

}  // namespace slipway::kernels
