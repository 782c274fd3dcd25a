// Convolutions of dense f32 (f16 and bf16 by way of it): direct ones as products of matrices over blocks of patches,
// Winograd's for 3 × 3 (winograd.h), depthwise ones by taps. ConvNchw takes the way that costs least.
#ifndef SLIPWAY_KERNELS_CONV_CONV_NCHW_H_
#define SLIPWAY_KERNELS_CONV_CONV_NCHW_H_

#include <algorithm>
#include <cstdint>

#include "kernels/attributes.h"
#include "kernels/conv/padded.h"
#include "kernels/isa/epilogue.h"
#include "kernels/parallel.h"
#include "kernels/scratch.h"
#include "kernels/tensor.h"

namespace slipway::kernels {

// [n, c, d, h, w] by [o, c / groups, kd, kh, kw]; the sizes agree and strides and dilations are positive.
struct ConvShape {
  int64_t groups = 1;
  int64_t stride[3], pad[3], dilation[3];
};
inline ConvShape ShapeOf(const ConvAttributes<>& a) {
  ConvShape s;
  s.groups = a.groups;
  std::copy_n(a.stride, 3, s.stride);
  std::copy_n(a.padding, 3, s.pad);
  std::copy_n(a.dilation, 3, s.dilation);
  return s;
}

// False where the tensors are not dense, of another type than f32, f16 and bf16, or the padded image would not fit;
// nothing is written then. Threads share images, channels and positions; the bits do not depend on them. Where
// `scratch` counts, allocations are all that happens.
bool ConvNchw(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape, const Epilogue& epilogue,
              const Workers* workers, Scratch& scratch);

// How ConvNchw would take it, for people; null where it would not. The epilogue does not matter.
const char* ConvNchwAlgorithm(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONV_CONV_NCHW_H_
