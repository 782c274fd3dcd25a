// Reductions, softmax and norms over rows (reduction.h).
#include "kernels/isa/reduction.h"
#include "kernels/isa/set.h"

namespace slipway::kernels {
namespace {

// clang-format off: each needs what is above it
#include "kernels/isa/simd.inc.h"
#include "kernels/isa/elements.inc.h"
#include "kernels/isa/math.inc.h"
#include "kernels/isa/reduction.inc.h"
// clang-format on

}  // namespace

namespace SLIPWAY_ISA {

extern const ReductionMicrokernels kReduction;
const ReductionMicrokernels kReduction = {ExpSum,     MaxRow,   AddMax,  SoftmaxRow,   LogSoftmaxRow,   LayerNormRow,
                                          RmsNormRow, SumOfRow, SumRows, SumOfSquares, SumSquaresOfRows};

}  // namespace SLIPWAY_ISA
}  // namespace slipway::kernels
