// See gemm_fast.h.
#include "kernels/gemm_fast.h"

#include <cstddef>
#include <new>

namespace slipway::kernels {

Scratch::Scratch(int64_t floats)
    : data_(static_cast<float*>(
          ::operator new(static_cast<size_t>(floats > 0 ? floats : 1) * sizeof(float), std::align_val_t(64)))) {}
Scratch::~Scratch() { ::operator delete(data_, std::align_val_t(64)); }

void FastGemm(const GemmCall& g) {
  const Isa& isa = BestIsa();
  Scratch scratch(isa.gemm_scratch(g));
  isa.gemm(g, scratch.data());
}

}  // namespace slipway::kernels
