// Packed filters: the weights [o, c / groups, 1, height, width] of a convolution as the loops over images with channels
// last read them (isa/conv.h): panels of kPanel output channels, filled up with zeros, [panel][tap][c / groups][kPanel]
// floats. Few channels a group share panels where these hold whole groups of as many inputs as outputs (depthwise ones:
// [panel][tap][kPanel]); else each group has panels of its own. Of images with few channels and one group rows of taps
// are read from planes, and the order is that of the weights themselves, [panel][c][tap][kPanel].
#ifndef SLIPWAY_KERNELS_CONV_FILTERS_H_
#define SLIPWAY_KERNELS_CONV_FILTERS_H_

#include <cstdint>

#include "kernels/executor/plan.h"
#include "kernels/isa/isa.h"

namespace slipway::kernels {

struct FilterShape {
  int64_t groups = 1, per = 0, outs = 0, height = 1, width = 1;  // channels of a group, output channels of all

  int64_t taps() const { return height * width; }
  int64_t depth() const { return per * taps(); }  // rows of a panel
  int64_t group_outs() const { return outs / groups; }
  bool planes() const { return groups == 1 && per <= 4 && taps() > 1; }
  bool shared() const { return groups > 1 && per == group_outs() && per < kPanel && kPanel % per == 0; }
  bool depthwise() const { return per == 1 && groups == outs; }
  int64_t group_panels() const { return (group_outs() + kPanel - 1) / kPanel; }  // where groups do not share them
  int64_t panels() const { return shared() ? (outs + kPanel - 1) / kPanel : groups * group_panels(); }
  int64_t floats() const { return panels() * depth() * kPanel; }
};

// What is between a packed matrix (k = depth, n = outs) and its shape: `groups` and `taps` (width is all that matters
// of both).
FilterShape FiltersOf(const WeightMatrix& m);

// Panels [first, last), one after the other.
void PackFilters(const float* weights, const FilterShape& f, int64_t first, int64_t last, float* to);
void UnpackFilters(const float* panels, const FilterShape& f, float* to);

// Packed taps: the weights [c, outs, 1, height, width] of a transposed convolution of one group as a matrix, c × outs,
// for each tap: panels of kPanel output channels, [tap][outs / kPanel][c][kPanel] floats. The packed matrix is that
// which the weights are, k = c and n = outs · taps.
inline int64_t TapPanels(int64_t outs) { return (outs + kPanel - 1) / kPanel; }  // of a tap
void PackTaps(const float* weights, int64_t channels, int64_t outs, int64_t taps, int64_t first, int64_t last,
              float* to);
void UnpackTaps(const float* panels, int64_t channels, int64_t outs, int64_t taps, float* to);

// From how many output channels on a transposed convolution is one over vectors of channels: of fewer, much of a vector
// is empty, and planes, whose vectors are of places, take less time, of very few even with copies of images that have
// channels last.
constexpr int64_t LeastTransposedOuts(bool planes) { return planes ? kPanel : kPanel / 2; }

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONV_FILTERS_H_
