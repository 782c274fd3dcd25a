// Depthwise convolutions of dense planes of f32 with 3 × 3 taps and results one or two places apart, where rows fill
// vectors: each plane is read and written once. More taps, which are mostly sums, and short rows go by panels of
// channels (ConvDepthwisePlanes in conv_last.h).
#ifndef SLIPWAY_KERNELS_CONV_CONV_DEPTHWISE_H_
#define SLIPWAY_KERNELS_CONV_CONV_DEPTHWISE_H_

#include "kernels/conv/conv_fast.h"

namespace slipway::kernels {

bool TakesConvDepthwiseRows(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape);
// As FastConv. False, with nothing written, where TakesConvDepthwiseRows says so.
bool ConvDepthwiseRows(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape,
                       const ConvEpilogue& epilogue, const Workers* workers, Scratch& scratch);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONV_CONV_DEPTHWISE_H_
