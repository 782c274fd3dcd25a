// Products with a matrix of small integers and scales, as quantized models have them.
#ifndef SLIPWAY_KERNELS_PRODUCTS_QUANT_LINEAR_H_
#define SLIPWAY_KERNELS_PRODUCTS_QUANT_LINEAR_H_

#include "kernels/attributes.h"
#include "kernels/isa/quant.h"
#include "kernels/parallel.h"
#include "kernels/scratch.h"

namespace slipway::kernels {

// Kernel `quant_linear`: out[…,m,n] = x[…,m,k] · w[k,n], with sums in f32, where w = (q - zero) · scale in f32, rounded. Operands: x of
// f32, bf16 or f16; q, a k × n matrix of i8 or u8; scale, then zero (both [groups, n], where groups divides k and each is for
// k / groups rows that follow each other; a zero only with a scale); a bias of n. QuantLinearAttributes says what there is of these.

// The product that `g` states. Threads share columns; each element is summed in the same order for any number of them. Takes scratch
// memory, which is all that it does where `scratch` counts.
void FastQuantProduct(const QuantCall& g, const Workers* workers, Scratch& scratch);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_PRODUCTS_QUANT_LINEAR_H_
