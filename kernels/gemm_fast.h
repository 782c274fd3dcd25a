// Products of matrices of f32 (bf16, f16) over the instruction set's loops (isa.h), with their scratch memory.
#ifndef SLIPWAY_KERNELS_GEMM_FAST_H_
#define SLIPWAY_KERNELS_GEMM_FAST_H_

#include "kernels/isa.h"
#include "kernels/parallel.h"
#include "kernels/scope.h"

namespace slipway::kernels {

// As GemmCall says. With workers, columns or rows are split among them; each element is summed in the same order for any
// number of them.
// Takes its memory from `memory` for the time of the call, or from the heap.
void FastGemm(const GemmCall& g, const Workers* workers = nullptr, Workspace* memory = nullptr);

// What FastGemm is going to take.
Need GemmNeed(const GemmCall& g, const Workers* workers);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_GEMM_FAST_H_
