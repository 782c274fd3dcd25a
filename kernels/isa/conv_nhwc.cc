// Convolutions and pooling of NHWC images (conv_nhwc.h).
#include "kernels/isa/conv_nhwc.h"
#include "kernels/interleaved_order.h"
#include "kernels/isa/epilogue.h"
#include "kernels/isa/gemm.h"
#include "kernels/isa/set.h"

namespace slipway::kernels {
namespace {

// clang-format off: each needs what is above it
#include "kernels/isa/simd.inc.h"
#include "kernels/isa/elements.inc.h"
#include "kernels/isa/tile.inc.h"
#include "kernels/isa/math.inc.h"
#include "kernels/isa/epilogue.inc.h"
#include "kernels/isa/winograd.inc.h"
#include "kernels/isa/conv_nhwc.inc.h"
#include "kernels/isa/dwconv_nhwc.inc.h"
#include "kernels/isa/winograd_nhwc.inc.h"
#include "kernels/isa/pool_nhwc.inc.h"
// clang-format on

}  // namespace

namespace SLIPWAY_ISA {

extern const ConvNhwcMicrokernels kConvNhwc;
const ConvNhwcMicrokernels kConvNhwc = {kNhwcMr,           SLIPWAY_ASM_TILE ? kNhwcMr : 1,
                                        NhwcIgemm,         NhwcGroupedIgemm,
                                        DwconvNhwc,        WinogradNhwcFilters,
                                        WinogradNhwcInput, WinogradNhwcOutput,
                                        PoolNhwc<true>,    PoolNhwc<false>};

}  // namespace SLIPWAY_ISA
}  // namespace slipway::kernels
