// Max pools of images of bytes with channels last.
#ifndef SLIPWAY_KERNELS_CONV_POOL_BYTES_H_
#define SLIPWAY_KERNELS_CONV_POOL_BYTES_H_

#include "kernels/conv/pool_f32.h"

namespace slipway::kernels {

// Whether it was done: for u8, channels last on both sides, of one slice.
bool MaxPoolBytes(const Tensor& x, const Tensor& out, const Window& w, const Workers* workers);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONV_POOL_BYTES_H_
