// Products of matrices of f32 (bf16, f16) over the instruction set's loops (isa.h), with their scratch memory.
#ifndef SLIPWAY_KERNELS_GEMM_GEMM_H_
#define SLIPWAY_KERNELS_GEMM_GEMM_H_

#include "kernels/gemm/product.h"
#include "kernels/isa/bf16_gemm.h"
#include "kernels/isa/isa.h"
#include "kernels/parallel.h"
#include "kernels/scratch.h"

namespace slipway::kernels {

// The product that `g` states. Threads share columns or rows; each element is summed in the same order for any number
// of them. Takes scratch memory for the time of the call, which is all that it does where `scratch` counts.
void GemmF32(const GemmParams& g, const Workers* workers, Scratch& scratch);
// The loop that GemmF32 takes for `g`, pointers apart; the one of isa.h, which knows no sums of two bf16.
Loop GemmLoop(const GemmParams& g);
Loop F32GemmLoop(const GemmParams& g);
// The loops for sums of two bf16 where they take `g`, pointers apart; else null.
const Bf16GemmMicrokernels* Bf16For(const GemmParams& g);
// Whether that takes GemmParams::rounded.
bool RoundsToBf16(const GemmParams& g);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_GEMM_GEMM_H_
