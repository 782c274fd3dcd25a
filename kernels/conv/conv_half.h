// Convolutions of bf16 and f16 images with channels last. Bf16 images multiply as such where the processor has sums of
// two products (conv_bf16.h). Others are widened to f32 some rows at a time, which stay in the second-level cache, for
// the loops of f32 images (conv_nhwc.h), and the results are rounded: widening in the loops themselves takes about half
// as long as the sums. What follows the sums is in f32 everywhere, and there is one rounding.
#ifndef SLIPWAY_KERNELS_CONV_CONV_HALF_H_
#define SLIPWAY_KERNELS_CONV_CONV_HALF_H_

#include "kernels/attributes.h"
#include "kernels/gemm/product.h"
#include "kernels/isa/bf16_conv.h"
#include "kernels/parallel.h"
#include "kernels/scratch.h"
#include "kernels/tensor.h"

namespace slipway::kernels {

// Whether convolutions of this dtype take packed filters as f32 on this processor: an executable widens them once.
bool ReadsFiltersAsF32(DType dtype);

// Filters [o, c / groups, 1, kh, kw] of f32, bf16 or f16, packed or not, as packed ones of f32: themselves, or in
// scratch memory.
Tensor F32Filters(const Tensor& w, int64_t groups, Scratch& scratch);

// x [n, c, 1, h, w] and out [n, o, 1, y, x], both of bf16 or of f16, out with channels last; w [o, c / groups, 1, kh,
// kw], packed as kConvFilters or dense, of the same dtype, or packed and of f32. Tensors of the epilogue lie as `out`
// does.
bool CanUseConvHalf(const Tensor& x, const Tensor& w, const Tensor& out, const ConvAttributes<>& a);
// The loops that such a convolution takes.
Loop ConvHalfLoop(const Tensor& x, const Tensor& w, const Tensor& out, const ConvAttributes<>& a);
void ConvHalf(const Tensor& x, const Tensor& w, const Tensor& out, const ConvAttributes<>& a,
              const HalfEpilogue& epilogue, const Workers* workers, Scratch& scratch);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_CONV_CONV_HALF_H_
