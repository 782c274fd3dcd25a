// The inner loops that are worth one version per instruction set. isa_body.h is their one source, written with vectors
// of a width that the compiler is told; isa_*.cc compile it, and the best set that the processor has is taken at run
// time. Code of different sets must not meet at link time: what isa_*.cc compile is in unnamed namespaces and calls
// nothing.
#ifndef SLIPWAY_KERNELS_ISA_H_
#define SLIPWAY_KERNELS_ISA_H_

#include <cstdint>

#include "kernels/tensor.h"

namespace slipway::kernels {

// A matrix of f32, bf16 or f16 in memory; strides in elements.
struct MatrixRef {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t row = 0, column = 0;
};

// c[m,n] = bias[n] + a[m,k] · b[k,n], or added to c. Sums are kept in f32.
struct GemmCall {
  int64_t m = 0, n = 0, k = 0;
  MatrixRef a, b;
  float* c = nullptr;
  int64_t c_row = 0, c_column = 1;
  const float* bias = nullptr;  // n, or null
  bool accumulate = false;      // c holds something already; there is no bias then
};

struct Isa {
  const char* name;
  // Floats of scratch memory that `gemm` needs, which must be aligned to 64 bytes.
  int64_t (*gemm_scratch)(const GemmCall& g);
  void (*gemm)(const GemmCall& g, float* scratch);
};

// The best of this processor; the environment's SLIPWAY_ISA (v2, avx2, avx512) caps it.
const Isa& BestIsa();

// Null where this build or this processor has none of that name.
const Isa* FindIsa(const char* name);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_ISA_H_
