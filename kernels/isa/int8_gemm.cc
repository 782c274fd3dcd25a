// Integer GEMM and the quantization of activations (int8_gemm.h). Sets with sums of four products have
// split_int8_gemm.cc, too.
#include "kernels/isa/int8_gemm.h"
#include "kernels/isa/gemm.h"
#include "kernels/isa/set.h"

namespace slipway::kernels {
namespace {

// clang-format off: each needs what is above it
#include "kernels/isa/simd.inc.h"
#include "kernels/isa/elements.inc.h"
#include "kernels/isa/byte_dot.inc.h"
#include "kernels/isa/int8_gemm.inc.h"
// clang-format on

}  // namespace

namespace SLIPWAY_ISA {

#if defined(SLIPWAY_BYTE_DOT)
bool SplitInt8Row(const float* x, int64_t k, int64_t block, int slices, int32_t factor, int8_t* to, int32_t* sums,
                  float* unit);
void SplitInt8Gemm(const SplitInt8GemmParams& g);
#endif

extern const Int8GemmMicrokernels kInt8Gemm;
const Int8GemmMicrokernels kInt8Gemm = {
    .name = SLIPWAY_ISA_NAME,
    .algorithm = {kByteAlgorithm, kNibbleAlgorithm},
    .row_bytes = Int8RowBytes,
    .pack_row = PackInt8Row,
    .gemm = Int8Gemm,
    .column_sums = Int8ColumnSums,
    .min_max = MinMaxRow,
    .quantize = QuantizeRow,
#if defined(SLIPWAY_BYTE_DOT)
    .split_row = SplitInt8Row,
    .split_int8_gemm = SplitInt8Gemm,
    .split_takes_off = kByteDotTakesOff,
#endif
};

}  // namespace SLIPWAY_ISA
}  // namespace slipway::kernels
