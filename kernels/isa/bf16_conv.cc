// Convolutions of bf16 by sums of two products (bf16_conv.h).
#include "kernels/isa/bf16_conv.h"
#include "kernels/isa/gemm.h"
#include "kernels/isa/set.h"

namespace slipway::kernels {
namespace {

// clang-format off: each needs what is above it
#include "kernels/isa/simd.inc.h"
#include "kernels/isa/elements.inc.h"
#include "kernels/isa/math.inc.h"
#include "kernels/isa/epilogue.inc.h"
#include "kernels/isa/pair_dot.inc.h"
#include "kernels/isa/bf16_conv.inc.h"
// clang-format on

}  // namespace

namespace SLIPWAY_ISA {

extern const Bf16ConvMicrokernels kBf16Conv;
const Bf16ConvMicrokernels kBf16Conv = {SLIPWAY_ISA_NAME,     Bf16Igemm, kBf16DwBlock, kBf16DwPixels, Bf16DwArranged,
                                        ArrangeBf16Depthwise, Bf16Dwconv};

}  // namespace SLIPWAY_ISA
}  // namespace slipway::kernels
