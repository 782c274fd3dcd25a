// GEMM of bf16 by sums of two products (bf16_gemm.h).
#include "kernels/isa/bf16_gemm.h"
#include "kernels/isa/set.h"

namespace slipway::kernels {
namespace {

// clang-format off: each needs what is above it
#include "kernels/isa/simd.inc.h"
#include "kernels/isa/elements.inc.h"
#include "kernels/isa/pair_dot.inc.h"
#include "kernels/isa/bf16_pairs.inc.h"
#include "kernels/isa/bf16_gemm.inc.h"
// clang-format on

}  // namespace

namespace SLIPWAY_ISA {

extern const Bf16GemmMicrokernels kBf16Gemm;
const Bf16GemmMicrokernels kBf16Gemm = {SLIPWAY_ISA_NAME, Supports, Workspace, Bf16Gemm, true};

}  // namespace SLIPWAY_ISA
}  // namespace slipway::kernels
