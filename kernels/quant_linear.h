// Products with a matrix of small integers and scales, as quantized models have them.
#ifndef SLIPWAY_KERNELS_QUANT_LINEAR_H_
#define SLIPWAY_KERNELS_QUANT_LINEAR_H_

#include "kernels/isa_quant.h"
#include "kernels/parallel.h"
#include "kernels/workspace.h"

namespace slipway::kernels {

// Kernel `quant_linear`: out[…,m,n] = x[…,m,k] · w[k,n], with sums in f32, where w = (q - zero) · scale in f32,
// rounded. Operands: x of f32, bf16 or f16; q, a k × n matrix of i8 or u8; scale, then zero (both [groups, n], where
// groups divides k and each is for k / groups rows that follow each other; a zero only with a scale); a bias of n. What
// there is of these the first number says; the others are the dtypes that elements of w, and the scale before, are
// rounded to: f32 (not), bf16, f16.
inline constexpr int64_t kQuantScale = 1, kQuantZero = 2, kQuantBias = 4;
inline constexpr int kQuantNumbers = 3;

// As QuantCall says, with memory of the workspace. With workers, columns are split among them; each element is summed
// in the same order for any number of them. Throws std::bad_alloc.
void FastQuantProduct(const QuantCall& g, Workspace* workspace, const Workers* workers = nullptr);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_QUANT_LINEAR_H_
