// An instruction set that differs from another in the integer GEMM and convolutions of bytes only: avxvnni.cc,
// avx512vnni.cc, dotprod.cc and i8mm.cc include this file once, with SLIPWAY_ISA_NAME, SLIPWAY_INT8_GEMM_TABLE,
// SLIPWAY_INT8_CONV_TABLE and SLIPWAY_ISA_BYTES (of a vector).
#include <cstdint>

#if defined(__aarch64__)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif

#include "kernels/isa/int8_conv.h"
#include "kernels/isa/int8_gemm.h"
#include "kernels/isa/isa.h"

namespace slipway::kernels {
namespace {

#include "kernels/isa/simd.inc.h"

#include "kernels/isa/elements.inc.h"

#include "kernels/isa/byte_dot.inc.h"

#include "kernels/isa/int8_gemm.inc.h"

#include "kernels/isa/split_int8_gemm.inc.h"

#include "kernels/isa/math.inc.h"

#include "kernels/isa/epilogue.inc.h"

#include "kernels/isa/int8_conv.inc.h"

#include "kernels/isa/int8_pairs.inc.h"

#include "kernels/isa/int8_dwconv.inc.h"

}  // namespace

extern const Int8ConvMicrokernels SLIPWAY_INT8_CONV_TABLE;
const Int8ConvMicrokernels SLIPWAY_INT8_CONV_TABLE = {
    SLIPWAY_ISA_NAME, Int8Igemm,        WidenedElements,         kDwBlock,  kDwPixels,
    kDwWeightBytes,   ArrangeDepthwise, ArrangeDepthwiseColumns, Int8Dwconv};

extern const Int8GemmMicrokernels SLIPWAY_INT8_GEMM_TABLE;
const Int8GemmMicrokernels SLIPWAY_INT8_GEMM_TABLE = {SLIPWAY_ISA_NAME, {kByteAlgorithm, kNibbleAlgorithm},
                                                      Int8RowBytes,     PackInt8Row,
                                                      Int8Gemm,         Int8ColumnSums,
                                                      MinMaxRow,        QuantizeRow,
                                                      SplitInt8Row,     SplitInt8Gemm,
                                                      kByteDotTakesOff};

}  // namespace slipway::kernels
