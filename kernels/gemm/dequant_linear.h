// Products with a matrix of small integers and scales, as quantized models have them.
#ifndef SLIPWAY_KERNELS_GEMM_DEQUANT_LINEAR_H_
#define SLIPWAY_KERNELS_GEMM_DEQUANT_LINEAR_H_

#include "kernels/attributes.h"
#include "kernels/isa/dequant_gemm.h"
#include "kernels/parallel.h"
#include "kernels/registry.h"
#include "kernels/scratch.h"

namespace slipway::kernels {

// Kernel `quant_linear`: out[…,m,n] = x[…,m,k] · w[k,n], with sums in f32, where w = (q - zero) · scale in f32,
// rounded. Operands: x of f32, bf16 or f16; q, a k × n matrix of i8 or u8; scale, then zero (both [groups, n], where
// groups divides k and each is for k / groups rows that follow each other; a zero only with a scale); a bias of n.
// QuantLinearAttributes says what there is of these, and whether w = (q - middle) · scale + zero instead, each step
// rounded.

// Kernel `integer_linear`: out[…,m,n] = Σ over groups of (Σ (x - x_zero) · (q - zero)) · scale · x_scale + bias, with
// inner sums of integers (isa/int8_gemm.h says in which order the rest is). Operands: x of i8 or u8, dense; q and
// scale as above, scale of f32, bf16 or f16; a zero of q's dtype; x_scale [..., 1] of f32; x_zero [..., 1] of x's
// dtype; a bias of f32. IntegerLinearAttributes says which of these there are. The result is f32, dense.

// Kernel `quantize_rows`: from x of f32, bf16 or f16, dense: integers q of i8 or u8, scale [..., 1] of f32 and zero
// point [..., 1] of q's dtype, chosen for each row as torchao's choose_qparams_affine and quantize_affine do (torchao
// 0.18, quant_primitives.py).

// Kernel `quant_embedding`: out[…, k] = row index[…] of wᵀ for w as in quant_linear, each element rounded as `rounded`
// says and to out's dtype. Operands: index of i32 or i64; q, scale and zero as above. QuantLinearAttributes without a
// bias; there is a scale.

// How the integers of q lie, or will once they are packed: b's nibbles and offset.
void SetPacking(const Tensor& q, QuantizedMatrix& b);
// The integers of q packed, made so in scratch memory where they are not: b's q, nibbles and offset.
void TakeIntegers(const Tensor& q, QuantizedMatrix& b, const Call& c, Scratch& scratch);
// A [groups, n] operand as panels of f32.
const float* PanelsOfFloats(const Tensor& t, Scratch& scratch);
// A [groups, n] operand of i8 or u8 as panels of i8: of u8 they are less by 128.
const int8_t* PanelsOfBytes(const Tensor& t, Scratch& scratch);

// The product that `g` states but for its sums, which are made here. Threads share columns; each element is summed in
// the same order for any number of them. By digits an element of a differs from what is multiplied by at most 1.01 ·
// 2^-23 of the greatest of its block of at most
// 128. Takes scratch memory, which is all that it does where `scratch` counts.
void DequantGemm(const DequantGemmParams& g, const Workers* workers, Scratch& scratch);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_GEMM_DEQUANT_LINEAR_H_
