// GEMM and GEMV of f32, bf16 and f16 (gemm.h).
#include "kernels/isa/gemm.h"
#include "kernels/isa/conv_nhwc.h"
#include "kernels/isa/elementwise.h"
#include "kernels/isa/set.h"

namespace slipway::kernels {
namespace SLIPWAY_ISA {
extern const ElementwiseMicrokernels kElementwise;
extern const ConvNhwcMicrokernels kConvNhwc;
}  // namespace SLIPWAY_ISA

namespace {

// clang-format off: each needs what is above it
#include "kernels/isa/simd.inc.h"
#include "kernels/isa/elements.inc.h"
#include "kernels/isa/squares.inc.h"
#include "kernels/isa/pack_b.inc.h"
#include "kernels/isa/tile.inc.h"
#include "kernels/isa/gemm.inc.h"
// clang-format on

}  // namespace

namespace SLIPWAY_ISA {

extern const GemmMicrokernels kGemm;
const GemmMicrokernels kGemm = {GemmWorkspace, Gemm, AlgorithmOf, Pack};

}  // namespace SLIPWAY_ISA
}  // namespace slipway::kernels
