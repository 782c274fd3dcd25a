// Grouped convolutions: some groups of some rows at a time, in place or as padded copies of their channels. Threads
// share the rows of the output, and a row that does not divide by its groups.
#include <algorithm>

#include "kernels/conv/nhwc/algorithms.h"

namespace slipway::kernels {

void RunGrouped(const ConvRun& run, Scratch& scratch) {
  const ConvProblem& c = run.problem;
  const ConvOperands& o = run.operands;
  const FilterShape& f = c.filter;
  const bool in_place = GroupsReadInPlace(c),
             copied = !in_place && (c.reorders_in_row_blocks || c.padded() || c.HasCacheSetConflict(o.pixel_stride));
  const int64_t unit = c.ColumnUnit(), units = Ceil(f.output_channels, unit),
                unit_channels = f.shared() ? unit : f.group_channels;
  const int64_t threads = o.workers != nullptr ? o.workers->threads : 1, lines = c.batch * c.out_y;
  const int64_t width = copied ? c.InputExtent(2, c.out_x) : c.in_x, mr = c.ukernels.mr;
  // Spans of rows that are too long to stay in the cache.
  const int64_t pixel_floats = c.shape.stride[2] * unit_channels + unit;  // of image and output
  const int64_t span = c.out_x * pixel_floats <= 2 * kL2BlockFloats
                           ? c.out_x
                           : std::max(4 * mr, kL2BlockFloats / pixel_floats / mr * mr);
  const int64_t held_width = copied && span < c.out_x ? c.InputExtent(2, span) : width;  // pixels of a row held at once
  // Rows and groups that stay in the cache: all rows of a thread where one group of them does.
  const auto floats = [&](int64_t rows) {
    return c.InputExtent(1, rows) * c.InputExtent(2, span) * unit_channels + rows * span * unit;
  };
  int64_t row_block = std::min(c.out_y, Ceil(lines, threads));
  while (row_block > 1 && floats(row_block) > kL2BlockFloats) row_block = Ceil(row_block, 2);
  const int64_t unit_block = std::clamp<int64_t>(kL2BlockFloats / floats(row_block), 1, units);
  const int64_t held = std::min(c.channels, unit_block * unit_channels);
  const int64_t pixel_stride = !copied ? o.pixel_stride : c.HasCacheSetConflict(held) ? held + kPanel : held;
  const int64_t row_stride = held_width * pixel_stride, held_rows = c.InputExtent(1, row_block);
  const SegmentOffsets segments = SegmentsOf(c, pixel_stride, row_stride, 0, scratch);
  const int64_t parts = threads > 1 && lines >= 16 * threads ? 2 * threads : threads;
  ParallelFor(scratch, o.workers, parts, 1, [&](int64_t first_part, int64_t end_part, Scratch& own) {
    float* const copy =
        copied ? own.Take<float>((held_rows * held_width + (c.reorders_in_row_blocks ? BestIsa().lanes : 0)) *
                                 pixel_stride)
               : nullptr;
    if (own.querying()) return;
    const int64_t end = lines * units * end_part / parts;
    for (int64_t i = lines * units * first_part / parts, next; i < end; i = next) {
      // Whole rows, or groups of one.
      const int64_t line = i / units, first = i % units, y = line % c.out_y;
      const int64_t rows = first == 0 ? std::clamp<int64_t>((end - i) / units, 1, c.out_y - y) : 1;
      const int64_t last = std::min(units, first + end - i);
      next = i + (rows - 1) * units + last - first;
      if (in_place) {
        for (int64_t u = first; u < last; ++u) IgemmInPlace(run, line / c.out_y, y, y + rows, u, true, segments);
        continue;
      }
      for (int64_t u = first; u < last; u += unit_block)
        for (int64_t y0 = y; y0 < y + rows; y0 += row_block)
          for (int64_t x0 = 0; x0 < c.out_x; x0 += span) {
            const OutputPart p{line / c.out_y,
                               y0,
                               std::min(y + rows, y0 + row_block),
                               x0,
                               std::min(span, c.out_x - x0),
                               u,
                               std::min(last, u + unit_block)};
            const float* image = nullptr;
            if (copied) {
              const int64_t c0 = u * unit_channels, c1 = std::min(c.channels, p.end_unit * unit_channels);
              PadRows(run, p.n, y0, c.InputExtent(1, p.y1 - y0), x0 * c.shape.stride[2], held_width, c0, c1,
                      pixel_stride, copy);
              image = copy - c0;
            } else {
              image = FirstElement(run, p);
            }
            IgemmPart(run, p, image, pixel_stride, row_stride, segments);
          }
    }
  });
}

}  // namespace slipway::kernels
