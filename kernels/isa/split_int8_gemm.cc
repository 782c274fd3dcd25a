// Products of floats with small integers by int8 slices (SplitInt8Rows of int8_gemm.h), for sets with sums of four
// products; int8_gemm.cc has them in its table.
#include "kernels/isa/gemm.h"
#include "kernels/isa/int8_gemm.h"
#include "kernels/isa/set.h"

namespace slipway::kernels {
namespace {

// clang-format off: each needs what is above it
#include "kernels/isa/simd.inc.h"
#include "kernels/isa/elements.inc.h"
#include "kernels/isa/byte_dot.inc.h"
#include "kernels/isa/int8_gemm.inc.h"
#include "kernels/isa/split_int8_gemm.inc.h"
// clang-format on

}  // namespace

namespace SLIPWAY_ISA {

bool SplitInt8Row(const float* x, int64_t k, int64_t block, int slices, int32_t factor, int8_t* to, int32_t* sums,
                  float* unit);
bool SplitInt8Row(const float* x, int64_t k, int64_t block, int slices, int32_t factor, int8_t* to, int32_t* sums,
                  float* unit) {
  return kernels::SplitInt8Row(x, k, block, slices, factor, to, sums, unit);
}
void SplitInt8Gemm(const SplitInt8GemmParams& g);
void SplitInt8Gemm(const SplitInt8GemmParams& g) { kernels::SplitInt8Gemm(g); }

}  // namespace SLIPWAY_ISA
}  // namespace slipway::kernels
