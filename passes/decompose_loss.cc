// Decompositions: loss.
#include "passes/decompose.h"

namespace slipway::passes {

absl::Span<const DecomposeRow> LossDecompositions() { return {}; }

}  // namespace slipway::passes
