// Products of matrices of f32 (bf16, f16) over the instruction set's loops (isa.h), with their scratch memory.
#ifndef SLIPWAY_KERNELS_GEMM_FAST_H_
#define SLIPWAY_KERNELS_GEMM_FAST_H_

#include "kernels/isa.h"
#include "kernels/parallel.h"

namespace slipway::kernels {

// Memory of one call, aligned to 64 bytes. Throws std::bad_alloc.
class Scratch {
 public:
  explicit Scratch(int64_t floats);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  float* data() { return data_; }

 private:
  float* data_;
};

// As GemmCall says. With workers, columns or rows are split among them; each element is summed in the same order for any
// number of them.
void FastGemm(const GemmCall& g, const Workers* workers = nullptr);

}  // namespace slipway::kernels

#endif  // SLIPWAY_KERNELS_GEMM_FAST_H_
