// Decompositions: norm.
#include "passes/decompose.h"

namespace slipway::passes {

absl::Span<const DecomposeRow> NormDecompositions() { return {}; }

}  // namespace slipway::passes
