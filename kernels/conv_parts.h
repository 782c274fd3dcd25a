// What the attributes of kernel `conv` say about what follows its sums: shared by the kernel and the planner, which
// puts steps together.
#ifndef SLIPWAY_KERNELS_CONV_PARTS_H_
#define SLIPWAY_KERNELS_CONV_PARTS_H_

#include <cstddef>
#include <cstdint>

namespace slipway::kernels {

// ints[kConvParts]: which operands there are beside the image and the weights, in this order; ints[kConvParts + 1]: an
// Activation. floats: a batch norm's epsilon, the bounds of Activation::kClamp.
inline constexpr size_t kConvParts = 10;
enum ConvPart : int64_t {
  kBias = 1,
  kNormWeight = 2,
  kNormBias = 4,
  kNormStatistics = 8,  // mean and variance
  kAdded = 16,          // a tensor of the result's sizes
};

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONV_PARTS_H_
