// GEMM with packed weights of small integers or float8 (dequant_gemm.h).
#include "kernels/isa/dequant_gemm.h"
#include "kernels/isa/gemm.h"
#include "kernels/isa/set.h"

namespace slipway::kernels {
namespace {

// clang-format off: each needs what is above it
#include "kernels/isa/simd.inc.h"
#include "kernels/isa/elements.inc.h"
#include "kernels/isa/dequant_gemm.inc.h"
// clang-format on

}  // namespace

namespace SLIPWAY_ISA {

extern const DequantGemmMicrokernels kDequantGemm;
const DequantGemmMicrokernels kDequantGemm = {DequantGemmRows, DequantizePanel};

}  // namespace SLIPWAY_ISA
}  // namespace slipway::kernels
