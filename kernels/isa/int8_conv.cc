// Convolutions of bytes (int8_conv.h).
#include "kernels/isa/int8_conv.h"
#include "kernels/isa/epilogue.h"
#include "kernels/isa/gemm.h"
#include "kernels/isa/set.h"

namespace slipway::kernels {
namespace {

// clang-format off: each needs what is above it
#include "kernels/isa/simd.inc.h"
#include "kernels/isa/elements.inc.h"
#include "kernels/isa/byte_dot.inc.h"
#include "kernels/isa/math.inc.h"
#include "kernels/isa/epilogue.inc.h"
#include "kernels/isa/int8_conv.inc.h"
#include "kernels/isa/int8_pairs.inc.h"
#include "kernels/isa/int8_dwconv.inc.h"
// clang-format on

}  // namespace

namespace SLIPWAY_ISA {

extern const Int8ConvMicrokernels kInt8Conv;
const Int8ConvMicrokernels kInt8Conv = {SLIPWAY_ISA_NAME, Int8Igemm,      WidenedElements,  kDwBlock,
                                        kDwPixels,        kDwWeightBytes, ArrangeDepthwise, ArrangeDepthwiseColumns,
                                        Int8Dwconv};

}  // namespace SLIPWAY_ISA
}  // namespace slipway::kernels
