// Transposed convolutions of dense f32 (f16 and bf16 by way of it): a product of matrices makes what every element of
// the image adds at every tap, [o · taps, positions], and rows of that are added up by phases of the stride.
#ifndef SLIPWAY_KERNELS_CONV_CONV_TRANSPOSED_H_
#define SLIPWAY_KERNELS_CONV_CONV_TRANSPOSED_H_

#include "kernels/conv/conv_nchw.h"

namespace slipway::kernels {

// x [n, c, d, h, w], w [c, o / groups, kd, kh, kw]; the sizes agree and strides and dilations are positive. Tensors
// that are not dense are copied. False where the tensors
// are not what this takes; nothing is written then. Where `scratch` counts, allocations are all that happens.
bool ConvTransposedNchw(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape,
                        const Epilogue& epilogue, const Workers* workers, Scratch& scratch);

// The same for f32, two dims, one group and some output channels at least, with vectors of these. The weights may be
// packed (PackTransposedFilters); x and out lie as they like; epilogue.residual lies as out does.
bool ConvTransposedNhwc(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape,
                        const Epilogue& epilogue, const Workers* workers, Scratch& scratch);

// Whether they take these.
bool CanUseConvTransposedNhwc(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape);
bool CanUseConvTransposedNchw(const Tensor& x, const Tensor& w, const Tensor& out, const ConvShape& shape);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONV_CONV_TRANSPOSED_H_
