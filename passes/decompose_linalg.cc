// Decompositions: linalg.
#include "passes/decompose.h"

namespace slipway::passes {

absl::Span<const DecomposeRow> LinalgDecompositions() { return {}; }

}  // namespace slipway::passes
