// Functions of elements, conversions, transposition, and epilogues of a row (elementwise.h).
#include "kernels/isa/elementwise.h"
#include "kernels/isa/epilogue.h"
#include "kernels/isa/set.h"

namespace slipway::kernels {
namespace {

// clang-format off: each needs what is above it
#include "kernels/isa/simd.inc.h"
#include "kernels/isa/elements.inc.h"
#include "kernels/isa/squares.inc.h"
#include "kernels/isa/math.inc.h"
#include "kernels/isa/epilogue.inc.h"
#include "kernels/isa/elementwise.inc.h"
// clang-format on

}  // namespace

namespace SLIPWAY_ISA {

extern const ElementwiseMicrokernels kElementwise;
const ElementwiseMicrokernels kElementwise = {
    {RowOf<Exp>, RowOf<Tanh>, RowOf<Erf>, RowOf<Sigmoid>, RowOf<Silu>, GeluRow, GeluTanhRow, RowOf<Relu>,
     RowOf<Negative>, SqrtRow, RsqrtRow, RowOf<HardSigmoid>, RowOf<HardSwish>, RowOf<Log>, RowOf<Log1p>, RowOf<Expm1>,
     RowOf<Sin>, RowOf<Cos>, RowOf<Mish>},
    {PairRow<PairOp::kAdd>, PairRow<PairOp::kSub>, PairRow<PairOp::kMul>, PairRow<PairOp::kDiv>},
    ScaleRow,
    FirRow,
    ConvertToF32,
    ConvertFromF32,
    QuantizeFloats,
    TransposeWords,
    DuplicateRow,
    EpilogueRow,
    BatchNormScaleBias};

}  // namespace SLIPWAY_ISA
}  // namespace slipway::kernels
