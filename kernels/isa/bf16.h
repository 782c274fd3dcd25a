// Products of bf16 matrices by instructions for sums of two products, where the processor has them.
#ifndef SLIPWAY_KERNELS_ISA_BF16_H_
#define SLIPWAY_KERNELS_ISA_BF16_H_

#include <cstdint>

#include "kernels/isa/isa.h"

namespace slipway::kernels {

// Products are exact and added to sums in f32 two by two, in the order of k; numbers of less than 2^-126 count as 0.
struct Bf16Isa {
  const char* name;
  // Whether `gemm` takes the product and is worth it: both matrices of bf16, b packed (it may be stored in f32), rows
  // of a and c dense, k even, several rows.
  bool (*takes)(const GemmCall& g);
  int64_t (*scratch)(const GemmCall& g);  // floats, aligned to 64 bytes
  void (*gemm)(const GemmCall& g, float* scratch);
};

// Of this processor, capped as BestIsa(); null where it has none.
const Bf16Isa* BestBf16();

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ISA_BF16_H_
