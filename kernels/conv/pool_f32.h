// Max and average pools of f32, whole vectors at a time: of dense planes, padded (padded.h; f16 and bf16 by way of
// f32), and of images of f32 and bf16 with channels last.
#ifndef SLIPWAY_KERNELS_CONV_POOL_F32_H_
#define SLIPWAY_KERNELS_CONV_POOL_F32_H_

#include <cstdint>

#include "kernels/conv/padded.h"
#include "kernels/parallel.h"
#include "kernels/scratch.h"
#include "kernels/tensor.h"

namespace slipway::kernels {

// x and out are [n, c, d, h, w] with the same n and c. False where the tensors or sizes are not what this takes;
// nothing is written then. Where `scratch` counts, allocations are all that happens.
bool MaxPoolF32(const Tensor& x, const Tensor& out, const Window& window, const Workers* workers, Scratch& scratch);

// What a window's sum is divided by: a constant, or how many of its elements lie inside, those of the padding included
// or not.
struct PoolDivisor {
  int64_t fixed = 0;  // 0: counts
  bool padding_counts = true;
};
// Dilations are 1.
bool AveragePoolF32(const Tensor& x, const Tensor& out, const Window& window, const PoolDivisor& divisor,
                    const Workers* workers, Scratch& scratch);

// What element i of `out` many is the mean (the largest) of along a dim of `in` elements, in adaptive pools: [begin,
// end).
struct AdaptiveWindow {
  AdaptiveWindow(int64_t i, int64_t in, int64_t out) : begin(i * in / out), end(((i + 1) * in + out - 1) / out) {}
  int64_t begin, end;
};
// The means of an adaptive pool, of images and results with channels last.
bool AdaptiveAverageNhwc(const Tensor& x, const Tensor& out, const Workers* workers, Scratch& scratch);

// The mean of each plane: out has one element for each.
bool PlaneMeanF32(const Tensor& x, const Tensor& out, const Workers* workers, Scratch& scratch);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONV_POOL_F32_H_
