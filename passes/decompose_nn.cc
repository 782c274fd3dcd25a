// Decompositions: nn.
#include "passes/decompose.h"

namespace slipway::passes {

absl::Span<const DecomposeRow> NnDecompositions() { return {}; }

}  // namespace slipway::passes
