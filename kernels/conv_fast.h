// Convolutions of dense f32: images are padded and split by the stride's phases once, so that every tap of a window
// reads neighbours. Depthwise ones are summed directly, the others are products of matrices over patches.
#ifndef SLIPWAY_KERNELS_CONV_FAST_H_
#define SLIPWAY_KERNELS_CONV_FAST_H_

#include <cstdint>

#include "kernels/tensor.h"

namespace slipway::kernels {

// [n, c, d, h, w] by [o, c / groups, kd, kh, kw]; the sizes agree and strides and dilations are positive.
struct ConvShape {
  int64_t groups = 1;
  int64_t stride[3], pad[3], dilation[3];
};

// False where the tensors are not dense f32, or the padded image would not fit; nothing is written then. `bias` may be
// null.
bool FastConv(const Tensor& x, const Tensor& w, const Tensor* bias, const Tensor& out, const ConvShape& shape);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONV_FAST_H_
