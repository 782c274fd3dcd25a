// Depthwise convolutions of dense planes of f32 with 3 × 3 taps and results one or two places apart, where rows fill
// vectors: each plane is read and written once. More taps, which are mostly sums, and short rows go by panels of
// channels (DepthwiseNchwByPanels in conv_nhwc.h).
#ifndef SLIPWAY_KERNELS_CONV_DEPTHWISE_NCHW_H_
#define SLIPWAY_KERNELS_CONV_DEPTHWISE_NCHW_H_

#include "kernels/conv/conv_nchw.h"

namespace slipway::kernels {

bool CanUseDepthwiseNchw3x3(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape);
// As ConvNchw. False, with nothing written, where CanUseDepthwiseNchw3x3 says so.
bool DepthwiseNchw3x3(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape,
                      const Epilogue& epilogue, const Workers* workers, Scratch& scratch);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONV_DEPTHWISE_NCHW_H_
