// Blocks of elements in which kernels read operands into contiguous rows of the compute type.
#ifndef SLIPWAY_KERNELS_ELEMENTWISE_H_
#define SLIPWAY_KERNELS_ELEMENTWISE_H_

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "kernels/convert.h"
#include "kernels/registry.h"
#include "kernels/walk.h"

namespace slipway::kernels {

inline constexpr int64_t kBlock = 512;

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ELEMENTWISE_H_
