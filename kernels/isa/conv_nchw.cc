// Convolutions and pooling of NCHW images (conv_nchw.h).
#include "kernels/isa/conv_nchw.h"
#include "kernels/isa/elementwise.h"
#include "kernels/isa/epilogue.h"
#include "kernels/isa/gemm.h"
#include "kernels/isa/set.h"

namespace slipway::kernels {
namespace SLIPWAY_ISA {
extern const ElementwiseMicrokernels kElementwise;
}

namespace {

// clang-format off: each needs what is above it
#include "kernels/isa/simd.inc.h"
#include "kernels/isa/elements.inc.h"
#include "kernels/isa/squares.inc.h"
#include "kernels/isa/pack_b.inc.h"
#include "kernels/isa/tile.inc.h"
#include "kernels/isa/math.inc.h"
#include "kernels/isa/epilogue.inc.h"
#include "kernels/isa/winograd.inc.h"
#include "kernels/isa/conv_nchw.inc.h"
#include "kernels/isa/dwconv_nchw.inc.h"
#include "kernels/isa/winograd_nchw.inc.h"
// clang-format on

}  // namespace

namespace SLIPWAY_ISA {

extern const ConvNchwMicrokernels kConvNchw;
const ConvNchwMicrokernels kConvNchw = {kRows,
                                        kWidth,
                                        kLanes / 2,
                                        NchwGemm,
                                        Im2colPack,
                                        PackBColumns,
                                        PadAndDeinterleave,
                                        SumWindowRows,
                                        MaxWindowRows,
                                        DwconvNchw,
                                        {{WinogradNchwFilters<2>, WinogradNchwInput<2>, WinogradNchwOutput<2>},
                                         {WinogradNchwFilters<4>, WinogradNchwInput<4>, WinogradNchwOutput<4>}}};

}  // namespace SLIPWAY_ISA
}  // namespace slipway::kernels
