// An instruction set that differs from another in the integer GEMM only: avxvnni.cc and avx512vnni.cc include this file
// once, with SLIPWAY_ISA_NAME, SLIPWAY_INT8_GEMM_TABLE and SLIPWAY_ISA_BYTES (of a vector).
#include <cstdint>

#include <immintrin.h>

#include "kernels/isa/int8_gemm.h"
#include "kernels/isa/isa.h"

namespace slipway::kernels {
namespace {

#include "kernels/isa/simd.inc.h"

#include "kernels/isa/elements.inc.h"

#include "kernels/isa/int8_gemm.inc.h"

#include "kernels/isa/split_int8_gemm.inc.h"

}  // namespace

extern const Int8GemmMicrokernels SLIPWAY_INT8_GEMM_TABLE;
const Int8GemmMicrokernels SLIPWAY_INT8_GEMM_TABLE = {SLIPWAY_ISA_NAME, {kByteAlgorithm, kNibbleAlgorithm},
                                                      Int8RowBytes,     PackInt8Row,
                                                      Int8Gemm,         Int8ColumnSums,
                                                      MinMaxRow,        QuantizeRow,
                                                      SplitInt8Row,     SplitInt8Gemm};

}  // namespace slipway::kernels
