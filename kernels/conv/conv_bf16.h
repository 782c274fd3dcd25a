// Convolutions of bf16 images with channels last on processors that have sums of two products (isa/bf16_conv.h). Sums
// and what follows them are in f32 and rounded once.
#ifndef SLIPWAY_KERNELS_CONV_CONV_BF16_H_
#define SLIPWAY_KERNELS_CONV_CONV_BF16_H_

#include "kernels/attributes.h"
#include "kernels/isa/bf16_conv.h"
#include "kernels/parallel.h"
#include "kernels/scratch.h"
#include "kernels/tensor.h"

namespace slipway::kernels {

// x [n, c, 1, h, w], w [o, c / groups, 1, kh, kw] (packed as kConvFilters or dense), out [n, o, 1, y, x], all of bf16,
// out with channels last; tensors of the epilogue lie as `out` does.
bool CanUseConvBf16(const Tensor& x, const Tensor& w, const Tensor& out, const ConvAttributes<>& a);
// The algorithm that such a convolution takes.
const char* ConvBf16Algorithm(const Tensor& x, const Tensor& w, const Tensor& out, const ConvAttributes<>& a);
void ConvBf16(const Tensor& x, const Tensor& w, const Tensor& out, const ConvAttributes<>& a,
              const HalfEpilogue& epilogue, const Workers* workers, Scratch& scratch);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONV_CONV_BF16_H_
