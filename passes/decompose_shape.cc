// Decompositions: shape.
#include "passes/decompose.h"

namespace slipway::passes {

absl::Span<const DecomposeRow> ShapeDecompositions() { return {}; }

}  // namespace slipway::passes
