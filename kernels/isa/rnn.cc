// Recurrent cells (rnn.h).
#include "kernels/isa/rnn.h"
#include "kernels/isa/set.h"

namespace slipway::kernels {
namespace {

// clang-format off: each needs what is above it
#include "kernels/isa/simd.inc.h"
#include "kernels/isa/elements.inc.h"
#include "kernels/isa/math.inc.h"
#include "kernels/isa/rnn.inc.h"
// clang-format on

}  // namespace

namespace SLIPWAY_ISA {

extern const RnnMicrokernels kRnn;
const RnnMicrokernels kRnn = {CellRow};

}  // namespace SLIPWAY_ISA
}  // namespace slipway::kernels
