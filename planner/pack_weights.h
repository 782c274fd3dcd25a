// Which weights a native library holds packed (kernels/gemm/packing.h).
#ifndef SLIPWAY_PLANNER_PACK_WEIGHTS_H_
#define SLIPWAY_PLANNER_PACK_WEIGHTS_H_

#include "kernels/gemm/packing.h"
#include "planner/planner.h"

namespace slipway::planner {

// Marks the weights that every step takes as one and the same whole right matrix: PlannedProgram::Weight::packed. The
// plan itself
// stays as it is: it holds for both forms, and the writer that places the bytes marks its buffers.
void ChooseWeightsToPack(PlannedProgram& planned);

}  // namespace slipway::planner

#endif  // SLIPWAY_PLANNER_PACK_WEIGHTS_H_
