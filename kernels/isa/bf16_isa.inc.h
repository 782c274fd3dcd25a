// An instruction set that differs from another in products and convolutions of bf16 only: avx512bf16.cc and bf16.cc
// include this file once, with SLIPWAY_ISA_NAME, SLIPWAY_BF16_GEMM_TABLE, SLIPWAY_BF16_CONV_TABLE and
// SLIPWAY_ISA_BYTES (of a vector).
#include <cstdint>

#if defined(__aarch64__)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif

#include "kernels/isa/bf16_conv.h"
#include "kernels/isa/bf16_gemm.h"
#include "kernels/isa/isa.h"

namespace slipway::kernels {
namespace {

#include "kernels/isa/simd.inc.h"

#include "kernels/isa/elements.inc.h"

#include "kernels/isa/math.inc.h"

#include "kernels/isa/epilogue.inc.h"

#include "kernels/isa/pair_dot.inc.h"

#include "kernels/isa/bf16_conv.inc.h"

#include "kernels/isa/bf16_pairs.inc.h"

#include "kernels/isa/bf16_gemm.inc.h"

}  // namespace

extern const Bf16ConvMicrokernels SLIPWAY_BF16_CONV_TABLE;
const Bf16ConvMicrokernels SLIPWAY_BF16_CONV_TABLE = {
    SLIPWAY_ISA_NAME, Bf16Igemm, kBf16DwBlock, kBf16DwPixels, Bf16DwArranged, ArrangeBf16Depthwise, Bf16Dwconv};

extern const Bf16GemmMicrokernels SLIPWAY_BF16_GEMM_TABLE;
const Bf16GemmMicrokernels SLIPWAY_BF16_GEMM_TABLE = {SLIPWAY_ISA_NAME, Supports, Workspace, Bf16Gemm, true};

}  // namespace slipway::kernels
