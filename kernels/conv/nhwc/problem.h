// One convolution for the NHWC algorithms: its geometry, computed once (ConvProblem), and its operands as the
// micro-kernels read them (ConvOperands). Both are const while an algorithm runs. Work is partitioned among threads by
// rows, pixels, tiles or output channels; accumulation order does not depend on the partition, so neither do the bits.
#ifndef SLIPWAY_KERNELS_CONV_NHWC_PROBLEM_H_
#define SLIPWAY_KERNELS_CONV_NHWC_PROBLEM_H_

#include <utility>

#include "kernels/conv/conv_nchw.h"
#include "kernels/conv/filters.h"
#include "kernels/conv/padded.h"
#include "kernels/conv/work_partition.h"
#include "kernels/interleaved_order.h"
#include "kernels/isa/isa.h"

namespace slipway::kernels {

struct ConvProblem {
  ConvProblem(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape);

  // Whether the dtypes, sizes and padding are supported at all.
  bool supported() const;
  bool strided() const { return shape.stride[1] != 1 || shape.stride[2] != 1; }
  // Whether outputs read pixels outside the image.
  bool padded() const {
    return shape.pad[1] != 0 || shape.pad[2] != 0 || InputExtent(1, out_y) > in_y || InputExtent(2, out_x) > in_x;
  }
  bool pointwise() const {
    return filter.kernel_size() == 1 && !padded() && filter.groups == 1 && !(strided() && filter.reads_nchw());
  }
  // Whether x is NHWC with this pixel stride and the filters read NHWC: it is read in place.
  bool input_is_nhwc_view() const;
  bool input_is_dense_planes() const { return x.strides[4] == 1 && (in_y == 1 || x.strides[3] == in_x); }
  // Input pixels that n outputs span along spatial dim d (1: height, 2: width), padding included.
  int64_t InputExtent(int d, int64_t n) const {
    return (n - 1) * shape.stride[d] + (w.sizes[2 + d] - 1) * shape.dilation[d] + 1;
  }
  // The fraction of all kernel elements of all outputs that are inside the image.
  double InsideFraction() const;
  // The pixels [first, second) of an output row whose kernel elements are all columns of the image.
  std::pair<int64_t, int64_t> InnerPixels() const;
  // Whether pixels that neighbouring outputs read, pixel_floats apart, map to the same cache sets.
  bool HasCacheSetConflict(int64_t pixel_floats) const {
    const int64_t row = shape.stride[2] * pixel_floats;
    return !filter.reads_nchw() && out_x > 4 && PaddedStride(row) != row;
  }
  // Floats of an output row and of the input rows that it alone reads, with `width` pixels in an input row.
  int64_t RowFloats(int64_t width) const { return width * channels * shape.stride[1] + out_x * filter.output_channels; }
  // The row_block: output rows computed at once, whose input and output, row_floats per row, stay in the second-level
  // cache. Where weights outweigh the image, which are read once per block, only the input stays.
  int64_t MaxRowBlock(int64_t row_floats) const;
  double multiplications() const {
    return static_cast<double>(batch * out_y * out_x) * static_cast<double>(filter.output_channels * filter.depth());
  }

  // Columns (output channels) are partitioned in units: groups with panels of their own, or 32 columns.
  bool groups_have_own_panels() const { return filter.groups > 1 && !filter.shared(); }
  int64_t ColumnUnit() const { return groups_have_own_panels() ? filter.group_output_channels() : kColumns; }
  // The first input channel that columns from j on, of unit u, read.
  int64_t FirstChannel(int64_t u, int64_t j) const {
    return groups_have_own_panels() ? u * filter.group_channels : filter.shared() ? j : 0;
  }
  int64_t OutputOffset(int64_t n, int64_t y) const { return n * out.strides[0] + y * out.strides[3]; }

  const ConvNhwcMicrokernels& ukernels = BestIsa().conv_nhwc;
  const Tensor &x, &w, &out;
  const ConvShape& shape;
  const FilterShape filter;
  const int64_t batch, channels, in_y, in_x, out_y, out_x;
  const int64_t pixel_stride;         // floats between the pixels of the input that is read
  const bool reorders_in_row_blocks;  // dense planes become NHWC while row blocks are padded
};

// What the kernel elements of an output row read: `rows` kernel rows from kernel row `skip` on, the first at image row
// `from`. Kernel rows above and below the image are left out.
struct KernelRows {
  int64_t skip, rows, from;
  KernelRows(const ConvProblem& c, int64_t y) {
    const int64_t first = y * c.shape.stride[1] - c.shape.pad[1];
    const ValidKernelRange valid(first, c.in_y, c.filter.height, c.shape.dilation[1]);
    skip = valid.first, rows = valid.count(), from = first + skip * c.shape.dilation[1];
  }
  bool Same(const KernelRows& other) const { return rows == other.rows && skip == other.skip; }
};

// The operands of a run: packed filters, the input in the layout that the algorithm reads, the epilogue, the threads.
struct ConvOperands {
  const float* filters = nullptr;
  const float* image = nullptr;
  int64_t pixel_stride = 0, image_stride = 0;  // floats between pixels, between images
  Epilogue epilogue;
  const Workers* workers = nullptr;
  bool interleaved = false;  // several threads: rows are iterated in the order of interleaved_order.h

  // The k-th of n rows to iterate.
  int64_t RowAt(int64_t k, int64_t n) const { return interleaved ? InterleavedIndex(k, n) : k; }
};

// A problem and its operands, as algorithms take them.
struct ConvRun {
  const ConvProblem& problem;
  const ConvOperands& operands;

  // The packed weights of the columns from j on, of unit u.
  const float* WeightsOf(int64_t u, int64_t j) const {
    const FilterShape& f = problem.filter;
    const int64_t panel =
        problem.groups_have_own_panels() ? u * f.group_panels() + (j - u * problem.ColumnUnit()) / kPanel : j / kPanel;
    return operands.filters + panel * f.depth() * kPanel;
  }
};

// Offsets of the segments that an output reads, relative to its first: contiguous pieces of K (NhwcIgemmParams).
struct SegmentOffsets {
  int64_t* at = nullptr;
  int64_t count = 0;
  int64_t* rows = nullptr;  // of the first kernel element of each kernel row
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONV_NHWC_PROBLEM_H_
