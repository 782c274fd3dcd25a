// bf16 GEMM micro-kernels, by instructions for sums of two bf16 products, where the processor has them.
#ifndef SLIPWAY_KERNELS_ISA_BF16_GEMM_H_
#define SLIPWAY_KERNELS_ISA_BF16_GEMM_H_

#include <cstdint>

#include "kernels/isa/gemm.h"

namespace slipway::kernels {

// Products are exact and accumulated in f32 two by two, in the order of k; magnitudes below 2^-126 count as 0.
struct Bf16GemmMicrokernels {
  const char* name;
  // Whether `run` supports the product and is faster: both matrices of bf16, b packed (it may be stored in f32), rows
  // of a and c dense, k even, m large enough.
  bool (*supports)(const GemmParams& g);
  int64_t (*workspace)(const GemmParams& g);  // floats, aligned to 64 bytes
  void (*run)(const GemmParams& g, float* workspace);
  bool rounds;  // takes GemmParams::rounded
};

// Of this processor, capped as BestIsa(); null where it has none.
const Bf16GemmMicrokernels* BestBf16Gemm();

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ISA_BF16_GEMM_H_
