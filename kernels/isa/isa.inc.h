// All micro-kernels of one instruction set: base.cc, avx2.cc, avx512.cc and neon.cc each include this file once, with
// SLIPWAY_ISA_NAME, SLIPWAY_ISA_TABLE, SLIPWAY_INT8_GEMM_TABLE, SLIPWAY_INT8_CONV_TABLE, SLIPWAY_ISA_BYTES (of a
// vector) and SLIPWAY_ISA_ROWS (mr of GEMM tiles: with two vectors each, what the registers hold). Written with the
// vector extensions of GCC and Clang; intrinsics only where these have no form of an instruction. Everything is in an
// unnamed namespace and calls no function outside it, so that code compiled for a newer processor is never linked into
// the path of an older one.
#include <cstdint>
#include <utility>

#if defined(__F16C__) || defined(__SSE4_1__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "kernels/interleaved_order.h"
#include "kernels/isa/int8_conv.h"
#include "kernels/isa/int8_gemm.h"
#include "kernels/isa/isa.h"

namespace slipway::kernels {
namespace {

// clang-format off: each needs what is above it
#include "kernels/isa/simd.inc.h"
#include "kernels/isa/elements.inc.h"
#include "kernels/isa/gemm.inc.h"
#include "kernels/isa/attention.inc.h"
#include "kernels/isa/math.inc.h"
#include "kernels/isa/epilogue.inc.h"
#include "kernels/isa/elementwise.inc.h"
#include "kernels/isa/reduction.inc.h"
#include "kernels/isa/rnn.inc.h"
#include "kernels/isa/winograd.inc.h"
#include "kernels/isa/conv_nchw.inc.h"
#include "kernels/isa/dwconv_nchw.inc.h"
#include "kernels/isa/winograd_nchw.inc.h"
#include "kernels/isa/conv_nhwc.inc.h"
#include "kernels/isa/dwconv_nhwc.inc.h"
#include "kernels/isa/winograd_nhwc.inc.h"
#include "kernels/isa/pool_nhwc.inc.h"
#include "kernels/isa/byte_dot.inc.h"
#include "kernels/isa/int8_gemm.inc.h"
#include "kernels/isa/int8_conv.inc.h"
#include "kernels/isa/int8_pairs.inc.h"
#include "kernels/isa/int8_dwconv.inc.h"
#include "kernels/isa/dequant_gemm.inc.h"
// clang-format on

}  // namespace

extern const Int8GemmMicrokernels SLIPWAY_INT8_GEMM_TABLE;
const Int8GemmMicrokernels SLIPWAY_INT8_GEMM_TABLE = {SLIPWAY_ISA_NAME, {kByteAlgorithm, kNibbleAlgorithm},
                                                      Int8RowBytes,     PackInt8Row,
                                                      Int8Gemm,         Int8ColumnSums,
                                                      MinMaxRow,        QuantizeRow};

extern const Int8ConvMicrokernels SLIPWAY_INT8_CONV_TABLE;
const Int8ConvMicrokernels SLIPWAY_INT8_CONV_TABLE = {
    SLIPWAY_ISA_NAME, Int8Igemm,        WidenedElements,         kDwBlock,  kDwPixels,
    kDwWeightBytes,   ArrangeDepthwise, ArrangeDepthwiseColumns, Int8Dwconv};

extern const Isa SLIPWAY_ISA_TABLE;
const Isa SLIPWAY_ISA_TABLE = {
    .name = SLIPWAY_ISA_NAME,
    .lanes = kLanes,
    .gemm = {GemmWorkspace, Gemm, AlgorithmOf, Pack},
    .elementwise = {{RowOf<Exp>, RowOf<Tanh>, RowOf<Erf>, RowOf<Sigmoid>, RowOf<Silu>, GeluRow, GeluTanhRow,
                     RowOf<Relu>, RowOf<Negative>, SqrtRow, RsqrtRow, RowOf<HardSigmoid>, RowOf<HardSwish>, RowOf<Log>,
                     RowOf<Log1p>, RowOf<Expm1>, RowOf<Sin>, RowOf<Cos>, RowOf<Mish>},
                    {PairRow<PairOp::kAdd>, PairRow<PairOp::kSub>, PairRow<PairOp::kMul>, PairRow<PairOp::kDiv>},
                    ScaleRow,
                    FirRow,
                    ConvertToF32,
                    ConvertFromF32,
                    QuantizeFloats,
                    TransposeWords,
                    DuplicateRow,
                    EpilogueRow,
                    BatchNormScaleBias},
    .reduction = {ExpSum, MaxRow, AddMax, SoftmaxRow, LogSoftmaxRow, LayerNormRow, RmsNormRow, SumOfRow, SumRows,
                  SumOfSquares, SumSquaresOfRows},
    .rnn = {CellRow},
    .conv_nchw = {kRows,
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
                   {WinogradNchwFilters<4>, WinogradNchwInput<4>, WinogradNchwOutput<4>}}},
    .conv_nhwc = {kNhwcMr, SLIPWAY_ASM_TILE ? kNhwcMr : 1, NhwcIgemm, NhwcGroupedIgemm, DwconvNhwc, WinogradNhwcFilters,
                  WinogradNhwcInput, WinogradNhwcOutput, PoolNhwc<true>, PoolNhwc<false>},
    .dequant_gemm = {DequantGemmRows, DequantizePanel},
    .attention = {CodeDots, CodeCombine, DequantizeCodes},
};

}  // namespace slipway::kernels
