// Packed convolution filters, in the order in which the NHWC micro-kernels read them (isa/conv_nhwc.h).
//
// Filters [oc, ic / groups, 1, kh, kw] become panels of 16 output channels, filled up with zeros:
//   [panel][kernel element][ic / groups][16]   in general; groups of as many inputs as outputs, fewer than 16 and a
//   divisor
//                                              of it, share panels (depthwise: [panel][kernel element][16]); other
//                                              groups have panels of their own
//   [panel][ic][kernel element][16]            for one group of at most 4 channels, which are read from NCHW planes
//
// Those of f16 lie as those of f32. Those of bf16 have pairs of channels next to each other, which instructions for
// sums of two products take (word_conv.h, isa/bf16_conv.h): [panel][kernel element][⌈ic / groups / 2⌉][16][2], an odd
// channel with a zero behind it; depthwise: as above. Groups have panels of their own.
#ifndef SLIPWAY_KERNELS_CONV_FILTERS_H_
#define SLIPWAY_KERNELS_CONV_FILTERS_H_

#include <cstdint>

#include "kernels/executor/plan.h"
#include "kernels/isa/isa.h"

namespace slipway::kernels {

struct FilterShape {
  int64_t groups = 1, group_channels = 0, output_channels = 0, height = 1, width = 1;
  bool pairs = false;  // of bf16

  int64_t kernel_size() const { return height * width; }
  int64_t filled_channels() const { return pairs && !shared() ? group_channels + group_channels % 2 : group_channels; }
  int64_t depth() const { return filled_channels() * kernel_size(); }  // rows of a panel: k
  int64_t group_output_channels() const { return output_channels / groups; }
  bool reads_nchw() const { return !pairs && groups == 1 && group_channels <= 4 && kernel_size() > 1; }
  bool shared() const {
    return groups > 1 && group_channels == group_output_channels() && group_channels < kPanel &&
           (pairs ? group_channels == 1 : kPanel % group_channels == 0);
  }
  bool depthwise() const { return group_channels == 1 && groups == output_channels; }
  int64_t group_panels() const {
    return (group_output_channels() + kPanel - 1) / kPanel;
  }  // where groups do not share them
  int64_t panels() const { return shared() ? (output_channels + kPanel - 1) / kPanel : groups * group_panels(); }
  int64_t elements() const { return panels() * depth() * kPanel; }
};

// What is between a packed matrix (k = depth, n = outs) and its shape: `groups` and `taps` (width is all that matters
// of both).
FilterShape FiltersOf(const WeightMatrix& m);

// Panels [first, last), one after the other; in halves, of bf16 where the shape has pairs.
void PackFilters(const float* weights, const FilterShape& f, int64_t first, int64_t last, float* to);
void UnpackFilters(const float* panels, const FilterShape& f, float* to);
void PackFilters(const uint16_t* weights, const FilterShape& f, int64_t first, int64_t last, uint16_t* to);
void UnpackFilters(const uint16_t* panels, const FilterShape& f, uint16_t* to);
// Panels of bf16 or f16, all of them, as those of the same filters in f32.
void WidenFilters(const uint16_t* panels, DType dtype, const FilterShape& f, float* to);

// Packed taps: the weights [c, outs, 1, height, width] of a transposed convolution of one group as a matrix, c × outs,
// for each tap: panels of kPanel output channels, [tap][outs / kPanel][c][kPanel] floats. The packed matrix is that
// which the weights are, k = c and n = outs · taps.
inline int64_t PanelsPerElement(int64_t outs) { return (outs + kPanel - 1) / kPanel; }  // of a tap
void PackTransposedFilters(const float* weights, int64_t channels, int64_t outs, int64_t taps, int64_t first,
                           int64_t last, float* to);
void UnpackTransposedFilters(const float* panels, int64_t channels, int64_t outs, int64_t taps, float* to);

// From how many output channels on a transposed convolution is one over vectors of channels: of fewer, much of a vector
// is empty, and planes, whose vectors are of places, take less time, of very few even with copies of images that have
// channels last.
constexpr int64_t MinTransposedOutputChannels(bool planes) { return planes ? kPanel : kPanel / 2; }

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONV_FILTERS_H_
