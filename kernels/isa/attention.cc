// Attention over keys and values in 8 bits (attention.h).
#include "kernels/isa/attention.h"
#include "kernels/isa/gemm.h"
#include "kernels/isa/set.h"

namespace slipway::kernels {
namespace {

// clang-format off: each needs what is above it
#include "kernels/isa/simd.inc.h"
#include "kernels/isa/elements.inc.h"
#include "kernels/isa/gemv.inc.h"
#include "kernels/isa/attention.inc.h"
// clang-format on

}  // namespace

namespace SLIPWAY_ISA {

extern const AttentionMicrokernels kAttention;
const AttentionMicrokernels kAttention = {CodeDots, CodeCombine, DequantizeCodes};

}  // namespace SLIPWAY_ISA
}  // namespace slipway::kernels
